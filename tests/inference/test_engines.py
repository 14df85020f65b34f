"""One protocol for every engine: init, step, marginals, and all that follows from them."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import qtcore
from qtcore import BP, Exact, Gibbs, GridMRF, JoinGraph, MeanField, PairwiseMRF, Query, Reweighted
from qtcore.errors import InputError, UnknownNameError
from qtcore.inference.engine import expectations, named
from qtcore.models.base import Model

from ..strategies import EVIDENCE, KINDS, QUICK, TEMPERED, answer, ask, backends, build, close, learnable

ENGINES = {"bp": BP(n_layers=4), "mean-field": MeanField(n_layers=4), "exact": Exact()}
ENGINES |= {"join-graph": JoinGraph(n_layers=2), "reweighted": Reweighted(n_layers=4)}
ENGINES["gibbs"] = Gibbs(sweeps=60, burn=5, every=1)
every_kind = pytest.mark.parametrize("kind", KINDS)
SAMPLED = ("RBM", "DBM", "GaussianRBM", "PairwiseMRF", "FactorGraph")
"""The graphs that can be sampled; the others are refused by name (test_gibbs.py)."""
REFUSING = {"gibbs": SAMPLED, "join-graph": TEMPERED, "reweighted": ("RBM", "DBM", "GridMRF", "PairwiseMRF")}
"""Engines that do not take every kind of graph, with those that they take."""
PAIRS = [(kind, name) for kind in KINDS for name in ENGINES if kind in REFUSING.get(name, KINDS)]
every_pair = pytest.mark.parametrize(("kind", "name"), PAIRS)


def residual(info: dict[str, Tensor], batch: int) -> Tensor:
    """What every step has to say."""
    result = info["residual"]
    assert result.shape == (batch,)
    assert result.isfinite().all()
    assert (result >= 0).all()
    return result


@every_pair
def test_the_protocol(kind: str, name: str) -> None:
    """Steps by hand, `layers`, `trace` and `run` end at the same marginals, in the form of the model."""
    model, engine = build(kind, 1, 0.5), ENGINES[name]
    query = ask(model, 2, "hard")
    state: Any = engine.init(model, query)
    for _ in range(engine.steps(model)):
        state, info = engine.step(state)
        residual(info, len(query))
    by_hand = engine.marginals(state)
    residual(engine.step(state)[1], len(query))  # also of an engine that needs no steps
    *_, last = engine.layers(model, query)
    *_, traced = model.trace(query, engine=engine)
    own = model(query)
    for result in (by_hand, last.marginals, traced.marginals, engine.run(model, query), model(query, engine=engine)):
        assert result.batch_shape == own.batch_shape
        close(model.variables.numbers(result), model.variables.numbers(by_hand), 1e-8)
    assert last.index == engine.steps(model)
    assert last.hidden.batch_shape == next(iter(model.layers(query))).hidden.batch_shape
    assert engine.hidden(state).batch_shape == last.hidden.batch_shape
    losses, target = model.nll(query, engine=engine)
    assert torch.equal(losses != 0, target & (losses != 0))
    assert losses.isfinite().all()
    assert model.loss(query, engine=engine).isfinite()


@pytest.mark.parametrize("kind", SAMPLED)
def test_the_residual_of_an_engine_without_messages_is_the_change_of_its_marginals(kind: str) -> None:
    model = build(kind, 1, 0.5)
    query = ask(model, 2, "soft")
    engine = Gibbs(sweeps=12, burn=3, every=2)
    state = engine.init(model, query)
    for sweep in range(12):
        before = expectations(engine.marginals(state), engine.hidden(state))
        state, info = engine.step(state)
        after = expectations(engine.marginals(state), engine.hidden(state))
        changes = torch.cat([(new - old).abs().flatten(1) for old, new in zip(before, after, strict=True)], 1)
        close(residual(info, len(query)), changes.amax(1), 1e-12)
        assert bool((info["residual"] > 0).any()) == (sweep < 3 or sweep % 2 == 1)  # not of a sweep that is not kept
    assert not residual(Exact().step(Exact().init(model, query))[1], len(query)).any()


@every_pair
def test_a_query_for_another_model_is_refused_by_every_engine(kind: str, name: str) -> None:
    model = build(kind)
    shape = (2, 3, 5, 7) if kind == "GridMRF" else (2, 9)
    query = Query(torch.zeros(shape), torch.zeros(shape, dtype=torch.bool))
    for ask_it in (lambda: model(query, engine=ENGINES[name]), lambda: next(iter(model.layers(query, engine=ENGINES[name])))):
        with pytest.raises(InputError, match="expects queries of shape"):
            ask_it()


@every_kind
def test_what_an_engine_leaves_open_is_as_the_model_has_it(kind: str) -> None:
    model = build(kind, 1, n_layers=3, damping=0.2)
    query = ask(model, 2)
    close(answer(model(query, engine=BP())), answer(model(query)), 1e-12)
    close(answer(model(query, engine=BP(n_layers=5))), answer(model(query, 5)), 1e-12)
    other = build(kind, 1, n_layers=3, damping=0.0)
    close(answer(model(query, engine=BP(damping=0))), answer(other(query)), 1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "GaussianRBM"])
@pytest.mark.parametrize("T", [0.0, 0.4, 2.0])
def test_a_temperature_of_the_engine_is_that_of_the_model(kind: str, T: float) -> None:
    model, other = build(kind, 1), build(kind, 1, temperature=T)
    query = ask(model, 2)
    close(answer(model(query, engine=BP(temperature=T))), answer(other(query)), 1e-12)


def test_a_gaussian_model_has_no_temperature_and_two_schedules() -> None:
    model = build("GaussianRBM", 1)
    query = ask(model, 2)
    with pytest.raises(InputError, match="no temperature"):
        model(query, engine=BP(temperature=1.0))
    flooding = build("GaussianRBM", 1, schedule="flooding")
    close(answer(model(query, engine=BP(schedule="flooding"))), answer(flooding(query)), 1e-12)
    with pytest.raises(InputError, match="schedule must be 'flooding' for a RBM, not 'sequential'"):
        build("RBM")(ask(build("RBM")), engine=BP(schedule="sequential"))


@every_kind
def test_until_stops_when_no_message_changes_by_more(kind: str) -> None:
    model = build(kind, 1, 0.3)
    query = ask(model, 2, "soft")
    with torch.no_grad():
        layers = list(model.layers(query, engine=BP(until=1e-3, at_most=200)))
    assert 2 < len(layers) < 201
    assert float(layers[-1].residual.max()) <= 1e-3 < float(layers[-2].residual.max())
    close(answer(model(query, engine=BP(until=1e-3, at_most=200))), answer(layers[-1].marginals), 1e-12)
    assert len(list(model.layers(query, engine=BP(until=0.0, at_most=4)))) == 5


@every_kind
def test_a_number_of_layers_bounds_an_engine_that_stops_by_itself(kind: str) -> None:
    """model(query, n) with `until`: when no message changes by more, after n layers at the latest."""
    model, until = build(kind, 1, 0.3), BP(until=1e-3, at_most=200)
    query = ask(model, 2, "soft")
    with torch.no_grad():
        *_, stopped = model.layers(query, engine=until)
        for n in (2, 150):
            last = min(n, stopped.index)
            assert max(layer.index for layer in model.layers(query, n, until)) == last
            assert max(layer.index for layer in model.trace(query, n, until)) == last
            close(answer(model(query, n, until)), answer(model(query, last)), 1e-12)
        for ours, n in zip(until.run_depths(model, query, [1, 150]), [1, stopped.index], strict=True):
            close(answer(ours), answer(model(query, n)), 1e-12)
        model.engine = until
        model.n_layers = 150
        assert model.n_layers == 150
        close(answer(model(query)), answer(stopped.marginals), 1e-12)
    assert until.at(3) == BP(n_layers=3, until=1e-3, at_most=3)
    assert until.at(None) is until
    assert BP().at(3) == BP(n_layers=3)
    with pytest.raises(InputError, match="n_layers must be a whole number ≥ 0, not -1"):
        until.at(-1)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"n_layers": -1}, "n_layers must be a whole number ≥ 0, not -1"),
        ({"n_layers": 2.5}, "n_layers must be a whole number ≥ 0, not 2.5"),
        ({"until": 0.1, "at_most": True}, "at_most must be a whole number ≥ 0, not True"),
        ({"damping": 1.0}, r"damping must lie in \[0, 1\), not 1.0"),
        ({"temperature": -1.0}, "the temperature must be ≥ 0, not -1.0"),
        ({"until": -1.0}, "until must be ≥ 0"),
        ({"until": "soon"}, "until must be ≥ 0, not 'soon'"),
        ({"at_most": 3}, "at_most goes with until"),
    ],
)
def test_choices_that_make_no_sense(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BP(**choices)


def test_engines_by_name() -> None:
    assert named("bp", n_layers=3, damping=None) == BP(n_layers=3)
    assert named("exact") == Exact()
    assert named("gibbs", sweeps=7) == Gibbs(sweeps=7)
    with pytest.raises(UnknownNameError, match="no engine named 'gibs'; did you mean gibbs"):
        named("gibs")
    with pytest.raises(InputError, match="the engine exact has no choice n-layers"):
        named("exact", n_layers=3)


def test_a_model_can_have_another_engine_of_its_own() -> None:
    model = PairwiseMRF((2, 3, 2), [(0, 1), (1, 2), (2, 0)])
    query = Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
    loopy = model(query)
    model.engine = Exact()
    close(model(query).probs, qtcore.exact.marginals(model, query).probs, 1e-12)
    close(model(query, engine=BP(n_layers=10)).probs, loopy.probs, 1e-6)
    assert model.n_layers == 0


def test_training_takes_any_engine() -> None:
    """With an engine that is exact on this tree, after none of whose steps anything changes."""
    data = (torch.rand(60, 1, generator=torch.Generator().manual_seed(0)) < 0.7).long().expand(60, 3).clone()
    results = []
    for engine in (BP(n_layers=3), BP(n_layers=6)):
        torch.manual_seed(0)
        chain = PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)], dtype=torch.float64)
        qtcore.fit(chain, data, steps=5, batch=20, engine=engine)
        results.append(torch.cat([p.detach().flatten() for p in chain.parameters()]))
    close(results[0], results[1], 1e-9)


@every_kind
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_exact_marginals_have_gradients(kind: str, evidence: str) -> None:
    """Also where evidence rules states out."""
    model = build(kind, 1, 0.5)
    query = ask(model, 2, evidence)
    names = list(learnable(model))

    def losses(*tensors: Tensor) -> Tensor:
        return functional_call(scored, {f"model.{name}": tensor for name, tensor in zip(names, tensors, strict=True)})

    class Scored(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            return self.model.loss(query, engine=Exact())

    scored = Scored()
    leaves = [tensor.detach().requires_grad_() for tensor in learnable(model).values()]
    assert torch.autograd.gradcheck(losses, leaves, fast_mode=QUICK)
    assert not answer(qtcore.exact.marginals(model, query)).requires_grad


def test_training_takes_an_engine_with_gradients() -> None:
    data = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]).repeat(20, 1)
    models = []
    for engine in (BP(n_layers=20), Exact()):
        torch.manual_seed(0)
        chain = PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)], dtype=torch.float64)
        assert qtcore.fit(chain, data, steps=5, batch=20, engine=engine) is chain
        models.append(torch.cat([p.detach().flatten() for p in chain.parameters()]))
    close(models[0], models[1], 1e-9)  # BP is exact on a tree
    with pytest.raises(InputError, match=r"^Gibbs has no gradients to train with; give another engine, such as qtcore.BP"):
        qtcore.fit(build("RBM"), torch.ones(8, 4), steps=1, engine=Gibbs(sweeps=50))
    sampled = build("RBM")
    sampled.engine = Gibbs(sweeps=50)
    with pytest.raises(InputError, match="no gradients"):
        qtcore.fit(sampled, torch.ones(8, 4), steps=1)
    assert [kind.differentiable for kind in (BP, Exact, Gibbs)] == [True, True, False]


class Untempered(Model):
    """A model of discrete variables without a temperature."""

    def __init__(self, tempered: Any, engine: BP) -> None:
        super().__init__(engine)
        self.tempered, self.variables = tempered, tempered.variables

    def graph(self) -> Any:
        return self.tempered.graph()

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> Any:
        return self.tempered.evidence(query, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", TEMPERED)
def test_a_model_without_a_temperature_runs_at_1(kind: str, dtype: torch.dtype) -> None:
    tempered = build(kind, 1, dtype=dtype)
    model = Untempered(tempered, BP(n_layers=5))
    query = ask(tempered, 2)
    assert model.temperature() is None
    for _ in backends():
        result = answer(model(query))
        assert result.dtype == dtype
        close(result, answer(tempered(query)), 1e-12)
    *_, last = model.layers(query)
    *_, traced = model.trace(query)
    for layer in (last, traced):
        close(answer(layer.marginals), answer(tempered(query)), 1e-5 if dtype == torch.float32 else 1e-9)
    model.loss(query).backward()
    with pytest.raises(InputError, match="a Untempered has no temperature"):
        model(query, engine=BP(temperature=0.5))


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_grid_trains_and_answers_at_any_size_with_any_backend(evidence: str) -> None:
    model: GridMRF = build("GridMRF", 3)
    query = ask(model, 4, evidence, shape=(4, 2))
    for _ in backends():
        assert answer(model(query)).shape == (3, 4, 2, 3)
