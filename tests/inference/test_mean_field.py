"""Mean field against its definition over all joint states, its bound, and what it shares with other engines."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import qtcore
from qtcore import BP, RBM, Exact, FactorGraph, GaussianRBM, MeanField, PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.inference import mean_field
from qtcore.inference.mean_field import SCHEDULES, colours
from qtcore.models import base, files

from ..strategies import EVIDENCE, F64, KINDS, QUICK, TEMPERED, answer, ask, build, close, learnable

every_discrete = pytest.mark.parametrize("kind", TEMPERED)
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)


def as_table(model: Any, query: Query) -> tuple[Any, Tensor, Tensor, Tensor]:
    """The model as a factor graph, the log-weights of all joint states, the evidence of one row, and unary terms [n, S]."""
    factors, evidence = model.graph().as_factors(model.evidence(query))
    rows = factors.wiring.on(evidence.device).rows
    table = qtcore.exact.joint(model).log_weights
    return factors, table, rows(evidence.detach())[0], rows(factors.unary.detach()[:, None])[0]


def softmax_at(fields: Tensor, T: float) -> Tensor:
    if T == 0:
        best = (fields == fields.amax()).to(F64)
        return best / best.sum()
    return torch.softmax(fields / T, 0)


def by_definition(
    table: Tensor, evidence: Tensor, unary: Tensor, n_layers: int, sets: list[list[int]], T: float
) -> list[Tensor]:
    """The fields of all variables: averages of the log-weights over the states of all others."""
    fields = [(unary + evidence)[i, :size] for i, size in enumerate(table.shape)]
    q = [softmax_at(field, T) for field in fields]
    for _ in range(n_layers):
        for together in sets:
            for i in together:
                fields[i] = averaged(table, q, i) + evidence[i, : table.shape[i]]
            for i in together:
                q[i] = softmax_at(fields[i], T)
    return fields


def averaged(table: Tensor, q: list[Tensor], i: int) -> Tensor:
    """E over the q of all others of the log-weights, for each state of variable i."""
    result = table
    for j in reversed(range(table.dim())):
        if j != i:
            result = (result * q[j].reshape(-1, *[1] * (result.dim() - 1 - j))).sum(j)
    return result


@every_schedule
@every_discrete
@pytest.mark.parametrize("T", [1.0, 0.4, 0.0])
def test_layers_are_those_of_the_definition(kind: str, schedule: str, T: float) -> None:
    model = build(kind, 2, 0.7)
    for evidence in EVIDENCE:
        query = ask(model, 3, evidence, batch=1)
        factors, table, given, unary = as_table(model, query)
        colour = colours(factors.wiring)
        if kind == "GridMRF":
            colour = [2 * (i // 3 % 2) + i % 3 % 2 for i in range(6)]
        elif kind in ("RBM", "DBM"):  # hidden first
            colour = [1 - c for c in colour]
        sets = [[i for i, c in enumerate(colour) if c == k] for k in range(max(colour) + 1)]
        if schedule == "flooding":
            sets = [list(range(table.dim()))]
        for n in (0, 1, 3):
            engine = MeanField(n, schedule=schedule, temperature=T)
            *_, layer = model.layers(query, engine=engine)
            fields = by_definition(table, given, unary, n, sets, T)
            width = max(table.shape)
            rows = torch.stack([torch.nn.functional.pad(f, (0, width - len(f)), value=-torch.inf) for f in fields])[None]
            visible, hidden = factors.answers(rows)
            for ours, expected in ((layer.marginals, visible), (layer.hidden, hidden), (model(query, engine=engine), visible)):
                close(ours.probs, expected.probs)


@every_schedule
def test_gaussian_layers_by_hand(schedule: str) -> None:
    model: GaussianRBM = build("GaussianRBM", 2, 0.7)
    W, c = model.graph().W.detach(), model.graph().c.detach()
    for evidence in EVIDENCE:
        query = ask(model, 3, evidence)
        linear, precision, clamped = (part.detach() for part in model.evidence(query))
        mean, p = linear / precision, torch.sigmoid(c).expand(len(linear), -1)
        for n in range(4):
            *_, layer = model.layers(query, engine=MeanField(n, schedule=schedule))
            close(layer.marginals.mean, mean)
            close(layer.marginals.stddev, precision**-0.5)
            close(layer.hidden.mean, p)
            before = p
            p = torch.stack([torch.sigmoid(c + sum(W[:, i] * mean[b, i] for i in range(4))) for b in range(len(mean))])
            used = p if schedule == "sequential" else before
            moved = (linear + torch.stack([sum(W[j] * used[b, j] for j in range(3)) for b in range(len(mean))])) / precision
            mean = torch.where(clamped, mean, moved)


@every_discrete
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_bound_never_falls_and_stays_below(kind: str, evidence: str) -> None:
    model = build(kind, 4, 1.0)
    query = ask(model, 5, evidence, batch=1)
    _, exact, given, _ = as_table(model, query)
    for i, size in enumerate(exact.shape):
        exact = exact + given[i, :size].reshape(-1, *[1] * (exact.dim() - 1 - i))
    with torch.no_grad():
        bounds = [float(mean_field.log_z(model, query, MeanField(n, schedule="sequential"))) for n in range(12)]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(bounds))
    assert bounds[0] < bounds[-1] <= float(exact.flatten().logsumexp(0)) + 1e-9


def test_the_bound_of_a_gaussian_model_never_falls() -> None:
    model: GaussianRBM = build("GaussianRBM", 4, 1.0)
    query = ask(model, 5, "mixed", batch=2)
    W, c = model.graph().W, model.graph().c
    linear, precision, _ = model.evidence(query)
    before = torch.full((2,), -torch.inf, dtype=F64)
    with torch.no_grad():
        for layer in model.layers(query, engine=MeanField(12, schedule="sequential")):
            mean, p = layer.marginals.mean, layer.hidden.mean
            pixels = (linear * mean - precision * mean**2 / 2).sum(1)
            bound = pixels + p @ c + ((p @ W) * mean).sum(1) + layer.hidden.entropy().sum(1)
            assert bool((bound >= before - 1e-9).all())
            before = bound


@pytest.mark.parametrize("kind", KINDS)
def test_independent_variables_are_exact(kind: str) -> None:
    model = build(kind, 1)
    with torch.no_grad():
        for name, tensor in learnable(model).items():
            if (
                name.startswith(("W", "potentials", "tables.pairwise", "tables.edge", "tables.three", "tables.own"))
                or kind == "GridMRF"
            ):
                tensor.zero_()
    for evidence in EVIDENCE:
        query = ask(model, 2, evidence)
        close(
            model.variables.numbers(model(query, engine=MeanField(3))),
            model.variables.numbers(model(query, engine=Exact())),
            1e-6,
        )


@pytest.mark.parametrize("kind", KINDS)
@every_schedule
def test_gradients(kind: str, schedule: str) -> None:
    model = build(kind, 1, 0.5)
    query = ask(model, 2, "mixed")
    names = list(learnable(model)) + ["T"] * (kind in TEMPERED)
    engine = MeanField(3, schedule=schedule, damping=0.2)

    class Scored(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            return model.loss(query, engine=engine)

    scored, state = Scored(), dict(model.named_parameters())

    def losses(*tensors: Tensor) -> Tensor:
        return functional_call(scored, {f"model.{name}": tensor for name, tensor in zip(names, tensors, strict=True)})

    leaves = [state[name].detach().clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(losses, leaves, fast_mode=QUICK or kind != "RBM")


@pytest.mark.parametrize("kind", KINDS)
def test_schedules_and_damping_end_at_the_same_place(kind: str) -> None:
    model = build(kind, 1, 0.4)
    query = ask(model, 2, "soft")
    results = [
        model.variables.numbers(model(query, engine=MeanField(schedule=schedule, damping=d, until=1e-12, at_most=500)))
        for schedule in SCHEDULES
        for d in (0.0, 0.5)
    ]
    for result in results[1:]:
        close(result, results[0], 1e-8)


def test_options_are_the_models_own_where_they_are_left_open() -> None:
    model = build("RBM", 1, n_layers=3)
    query = ask(model, 2)
    close(answer(model(query, engine=MeanField())), answer(model(query, engine=MeanField(3))), 1e-12)
    model.engine = MeanField(4, damping=0.3, schedule="sequential")
    close(answer(model(query)), answer(model(query, engine=MeanField(4, 0.3, schedule="sequential"))), 1e-12)
    close(answer(model(query, engine=BP())), answer(model(query, engine=BP(4, 0.0))), 1e-12)
    model.damping, model.n_layers = 0.1, 6
    assert model.engine == MeanField(6, damping=0.1, schedule="sequential")
    with pytest.raises(InputError, match="schedule must be 'flooding' or 'sequential' for a RBM, not 'residual'"):
        model(query, engine=MeanField(schedule="residual"))
    with pytest.raises(InputError, match="no layers to compile"):
        model.compile_layers()
    with pytest.raises(InputError, match="a GaussianRBM has no temperature"):
        build("GaussianRBM")(ask(build("GaussianRBM")), engine=MeanField(temperature=1.0))


def test_zeros_are_refused_and_contradictions_named() -> None:
    zero = FactorGraph((2, 2), {"edge": torch.tensor([[0.0, -torch.inf], [0, 0]])}, [("edge", (0, 1))])
    rule = FactorGraph((2, 2), {"one": "exactly one"}, [("one", (0, 1))])
    for graph in (zero, rule):
        with pytest.raises(InputError, match="mean field needs factors that are positive everywhere"):
            graph(graph.query({0: 1}), engine=MeanField())
    lone = FactorGraph((2, 2), {"own": torch.tensor([0.0, -torch.inf]), "edge": [2, 2]}, [("own", (0,)), ("edge", (0, 1))])
    close(lone(lone.query({}), engine=MeanField()).probs[0, 0], torch.tensor([1.0, 0.0]))
    with pytest.raises(InputError, match="it leaves the variable 0 no state"):
        lone(lone.query({0: 1}), engine=MeanField())
    with pytest.raises(InputError, match="needs the temperature 1"):
        mean_field.log_z(lone, lone.query({}), MeanField(temperature=0.5))
    with pytest.raises(InputError, match="for models of discrete variables"):
        mean_field.log_z(build("GaussianRBM"), ask(build("GaussianRBM")))


def test_a_loop_of_twins_decides() -> None:
    """Where belief propagation says ½, mean field breaks the tie as soon as anything does: the known difference of the two."""
    table = torch.tensor([[3.0, 0.0], [0.0, 3.0]], dtype=F64)
    twins = FactorGraph(
        (2, 2), {"same": table, "hint": torch.tensor([0.0, 0.01], dtype=F64)}, [("same", (0, 1)), ("hint", (0,))], dtype=F64
    )
    nothing = twins.query({})
    with torch.no_grad():
        assert 0.5 < float(twins(nothing).probs[0, 0, 1]) < 0.51
        assert float(twins(nothing, engine=MeanField(200)).probs[0, 0, 1]) > 0.9


def test_training_and_files(tmp_path: Any) -> None:
    torch.manual_seed(0)
    rows = (torch.rand(200, 1) < 0.5).float().expand(200, 6).clone()
    model = RBM(6, 3)
    model.engine = MeanField(5, schedule="sequential")
    query = Query(rows, torch.arange(6).expand_as(rows) < 3)
    before = float(model.loss(query).detach())
    qtcore.fit(model, rows, steps=60, batch=100, learning_rate=0.05)
    assert float(model.loss(query).detach()) < 0.3 * before
    model.save(tmp_path / "model.safetensors")
    again = qtcore.load(tmp_path / "model.safetensors")
    assert again.engine == model.engine
    assert torch.equal(again(query).probs, model(query).probs)
    with pytest.raises(ValueError, match="its engine is"):
        files._engine({"name": "gibbs"})
    assert base.ENGINES.keys() == {"bp", "mean-field", "reweighted"}
    model.engine = Exact()
    with pytest.raises(InputError, match="a file cannot hold the engine"):
        model.save(tmp_path / "other.safetensors")


def test_no_layers_of_a_graph_without_edges() -> None:
    lonely = PairwiseMRF((2, 3), [], dtype=F64)
    query = Query(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool))
    close(lonely(query, engine=MeanField(2)).probs, lonely(query, engine=Exact()).probs)
    assert mean_field.log_z(lonely, query).shape == (1,)
