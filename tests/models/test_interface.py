"""One interface: every model answers the same calls in the same form."""

import itertools
import json
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal

import qtcore
from qtcore import DBM, RBM, GaussianRBM, GridMRF, Layer, PairwiseMRF, Query
from qtcore.models.base import Model

from ..strategies import (
    EVIDENCE,
    F64,
    KINDS,
    answer,
    ask,
    backends,
    build,
    clamped,
    close,
    learnable,
    normal,
    rng,
    sample_shape,
)

every_kind = pytest.mark.parametrize("kind", KINDS)

FORM = {  # the distribution, its shape after the batch, and that of the hidden variables
    "RBM": (Bernoulli, (4,), (3,)),
    "DBM": (Bernoulli, (3,), (4,)),
    "GaussianRBM": (Normal, (4,), (3,)),
    "GridMRF": (Categorical, (2, 3), (2, 3)),
    "PairwiseMRF": (Categorical, (3,), (1,)),
    "FactorGraph": (Categorical, (3,), (1,)),
}
STORED = {  # the paper's tensors
    "RBM": {"W": (3, 4), "c_v": (4,), "c_h": (3,), "T": ()},
    "DBM": {"W1": (2, 3), "W2": (2, 2), "c_v": (3,), "c_h1": (2,), "c_h2": (2,), "T": ()},
    "GaussianRBM": {"W": (3, 4), "b": (4,), "c": (3,), "sigma": ()},
    "GridMRF": {f"potentials.{name}": (4, 4) for name in ("vertical", "horizontal", "diagonal", "antidiagonal")}
    | {"emission": (3,), "T": ()},
    "PairwiseMRF": {"tables.unary_2": (2, 2), "tables.unary_3": (1, 3), "tables.unary_4": (1, 4), "T": ()}
    | {"tables.pairwise_2x3": (2, 2, 3), "tables.pairwise_2x4": (2, 2, 4), "tables.pairwise_2x2": (1, 2, 2)},
    "FactorGraph": {"tables.edge": (2, 3), "tables.three": (2, 2, 4), "tables.own": (2, 2, 4), "tables.bias": (2,), "T": ()},
}


def test_everything_is_importable_from_qtcore() -> None:
    for name in KINDS:
        assert issubclass(getattr(qtcore, name), Model)
        assert Model.registry[name] is getattr(qtcore, name)


@every_kind
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_marginals_have_the_models_form(kind: str, evidence: str) -> None:
    model = build(kind)
    query = ask(model, evidence=evidence, batch=5)
    form, shape, hidden_shape = FORM[kind]
    marginals = model(query)
    assert type(marginals) is form
    assert marginals.batch_shape == (5, *shape)
    assert answer(marginals).dtype == F64
    for layer in model.layers(query):
        assert isinstance(layer, Layer)
        assert type(layer.marginals) is form
        assert layer.marginals.batch_shape == (5, *shape)
        assert type(layer.hidden) is (Bernoulli if kind == "GaussianRBM" else form)
        assert layer.hidden.batch_shape == (5, *hidden_shape)
        assert layer.residual.shape == (5,)
        assert layer.messages
    for statistic in ("entropy", "log_prob"):
        result = marginals.entropy() if statistic == "entropy" else marginals.log_prob(query.truth.to(F64))
        assert result.shape == (5, *shape)
        assert result.isfinite().all()


def test_categories_of_the_marginals() -> None:
    """The grid speaks of 3 labels and has one state per clone; a PairwiseMRF pads with −∞."""
    grid = build("GridMRF")
    *_, last = grid.layers(ask(grid))
    marginals: Any = last.marginals
    hidden: Any = last.hidden
    assert (marginals.probs.shape[-1], hidden.probs.shape[-1]) == (3, 4)
    parts = [part.sum(-1) for part in hidden.probs.split((2, 1, 1), -1)]
    close(marginals.probs, torch.stack(parts, -1))
    pairwise = build("PairwiseMRF")
    marginals = pairwise(ask(pairwise))
    padded = torch.tensor([[False, False, True, True], [False, False, False, True], [False] * 4])
    assert torch.equal(marginals.logits.isneginf(), padded.expand(3, 3, 4))
    assert not marginals.probs[padded.expand(3, 3, 4)].any()


@every_kind
def test_stored_tensors_are_the_papers(kind: str) -> None:
    model = build(kind)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == STORED[kind]
    assert set(model.state_dict()) == set(STORED[kind])  # what a graph is made of is configuration


def test_default_sizes_and_layers() -> None:
    assert (RBM(3, 2).n_layers, DBM(3, 2, 2).n_layers, GaussianRBM(3, 2).n_layers, GridMRF(clones=(1, 1, 1)).n_layers) == (
        *(10, 10),
        *(50, 15),
    )
    grid = GridMRF()
    assert (grid.height, grid.width, grid.clones) == (30, 30, (64, 1, 1))
    assert grid.local_evidence
    assert grid.potentials["vertical"].shape == (66, 66)
    assert grid.label.tolist() == [0] * 64 + [1, 2]
    for kind in KINDS:
        assert build(kind).damping == 0
        assert kind == "GaussianRBM" or float(build(kind).T) == 1
    assert float(GaussianRBM(3, 2).sigma) == 1


def test_initial_numbers_are_those_of_the_authors() -> None:
    """W ~ 0.01·T·N(0, 1) for bits, 0.05·N(0, 1) for pixels, N(0, 1) for the grid's tables; biases at 0."""
    torch.manual_seed(0)
    assert float(RBM(100, 100, temperature=5.0).W.detach().std()) == pytest.approx(0.05, rel=0.05)
    assert float(DBM(100, 100, 100, temperature=5.0).W2.detach().std()) == pytest.approx(0.05, rel=0.05)
    assert float(GaussianRBM(100, 100).W.detach().std()) == pytest.approx(0.05, rel=0.05)
    assert float(GridMRF().potentials["diagonal"].detach().std()) == pytest.approx(1.0, rel=0.05)
    for model in (RBM(3, 2), DBM(3, 2, 2), GaussianRBM(3, 2)):
        assert not any(p.any() for name, p in model.named_parameters() if name[0] in "bc")


@every_kind
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_item_k_of_layers_is_the_model_run_with_k_layers(kind: str, damping: float) -> None:
    """Also beyond the number of layers that the model was made with."""
    model = build(kind, n_layers=3, damping=damping)
    query = ask(model)
    layers = list(model.layers(query, 7))
    assert [layer.index for layer in layers] == list(range(8))
    for _ in backends():
        for k, layer in enumerate(layers):
            close(answer(model(query, k)), answer(layer.marginals))
    assert len(list(model.layers(query))) == 4
    close(answer(model(query)), answer(layers[3].marginals))
    model.n_layers = 7
    close(answer(model(query)), answer(layers[7].marginals))


@every_kind
def test_layer_0_is_the_unaries_alone(kind: str) -> None:
    """As if all that joins variables were 0."""
    model, alone = build(kind), build(kind)
    with torch.no_grad():
        for name, tensor in learnable(alone).items():
            if name.startswith(("W", "tables.pairwise", "tables.edge", "tables.three", "tables.own", "potentials")):
                tensor.zero_()
    query = ask(model)
    first = next(iter(model.layers(query)))
    *_, last = alone.layers(query, 3)
    close(answer(first.marginals), answer(last.marginals))
    close(answer(first.hidden), answer(last.hidden))
    assert not first.residual.any()
    close(answer(model(query, 0)), answer(first.marginals))


@every_kind
@torch.no_grad()
def test_residual_is_the_largest_change_of_a_message(kind: str) -> None:
    """Of a logit, a natural parameter, or (between categories) the log-odds of two states."""
    model = build(kind, damping=0.1, temperature=0.7)
    layers = list(model.layers(ask(model), 4))
    for before, after in itertools.pairwise(layers):
        changes = {name: after.messages[name] - before.messages[name] for name in after.messages}
        if kind == "GridMRF":
            change = changes["arriving"].transpose(0, 1).flatten(1, 3)  # [B, messages, S]
            expected = (change.amax(-1) - change.amin(-1)).amax(1)
        elif kind == "PairwiseMRF":
            sizes = [model.n_states[i] for i in after.messages["sink"]]
            real = [change[:, :S] for change, S in zip(changes["directed"], sizes, strict=True)]  # without padding
            expected = torch.stack([change.amax(1) - change.amin(1) for change in real]).amax(0)
        elif kind == "FactorGraph":
            expected = torch.stack([(c.amax(1) - c.amin(1)).amax(0) for c in changes.values()]).amax(0)  # of [F, S, B]
        else:
            expected = torch.stack([change.abs().flatten(1).amax(1) for change in changes.values()]).amax(0)
        close(after.residual, expected)
        assert bool((after.residual > 0).all())


@every_kind
def test_a_copy_into_a_stored_tensor_takes_effect_at_once(kind: str) -> None:
    """On every road, after the model was used with other numbers, and for every tensor by itself."""
    model = build(kind, 1)
    query = ask(model, 2)
    for _ in backends():
        for k, name in enumerate(STORED[kind]):
            fresh = build(kind, 1)
            model.load_state_dict(fresh.state_dict())
            before = answer(model(query)).detach()
            new = fresh.state_dict()[name] + normal(k, *STORED[kind][name]).abs() / 10
            with torch.no_grad():
                model.get_parameter(name).copy_(new)
            fresh.load_state_dict(fresh.state_dict() | {name: new})
            assert not torch.equal(answer(model(query)), before)
            assert torch.equal(answer(model(query)), answer(fresh(query)))
            *_, last = model.layers(query)
            close(answer(last.marginals), answer(fresh(query)))


@every_kind
def test_config_builds_the_model_anew(kind: str) -> None:
    options: dict[str, Any] = {"n_layers": 7, "damping": 0.25, "learn_temperature": True}
    model = build(kind, **options)
    config = json.loads(json.dumps(model.config()))
    other = type(model)(**config)
    assert {name: p.shape for name, p in other.named_parameters()} == {name: p.shape for name, p in model.named_parameters()}
    assert json.dumps(other.config()) == json.dumps(model.config())
    assert (other.n_layers, other.damping) == (7, 0.25)
    assert kind == "GaussianRBM" or other.T.requires_grad


@every_kind
def test_repr_says_what_it_is(kind: str) -> None:
    text = repr(build(kind, n_layers=7))
    assert text.startswith(kind + "(")
    assert "n_layers=7" in text


@every_kind
def test_is_a_torch_module(kind: str) -> None:
    """Casting, copying a state, device and dtype follow the parameters."""
    model = build(kind, dtype=torch.float32)
    query = ask(model)
    assert isinstance(model, nn.Module)
    assert model.dtype == torch.float32
    assert model.device == torch.device("cpu")
    single = answer(model(query))
    assert single.dtype == torch.float32
    assert model.double() is model
    assert model.dtype == F64
    double = answer(model(query))
    assert double.dtype == F64
    close(single.double(), double, 1e-4)
    other = build(kind, 99)
    assert not torch.equal(answer(other(query)), double)
    other.load_state_dict(model.state_dict())
    assert torch.equal(answer(other(query)), double)


@every_kind
def test_loss_is_a_scalar_in_the_models_dtype(kind: str) -> None:
    for dtype in (torch.float32, F64):
        model = build(kind, dtype=dtype)
        loss = model.loss(ask(model, 1, "hard"))
        assert loss.shape == ()
        assert loss.dtype == dtype
        assert loss.isfinite()
        assert torch.equal(model.loss(ask(model, 1, "hard"), n_layers=model.n_layers), loss)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, F64])
@every_kind
def test_values_of_any_dtype(kind: str, dtype: torch.dtype) -> None:
    """Bits and labels come as bytes, integers and booleans: all are answered, and scored (which once failed)."""
    model = build(kind, dtype=torch.float32)
    shape = (3, *sample_shape(model))
    values = torch.rand(shape, generator=rng(0)) < 0.5
    observed = torch.rand(shape, generator=rng(1)) < 0.5
    truth = {"truth": values.to(dtype)} if kind == "GridMRF" else {}
    expected = Query(values.float(), observed, **({"truth": values.float()} if truth else {}))
    query = Query(values.to(dtype), observed, **truth)
    assert torch.equal(answer(model(query)), answer(model(expected)))
    assert torch.equal(model.loss(query), model.loss(expected))
    assert torch.equal(answer(model(Query(values.to(dtype), observed.to(torch.int64)))), answer(model(expected)))


@pytest.mark.parametrize("kind", ["RBM", "DBM"])
def test_log_prob_of_a_fraction_is_the_soft_cross_entropy(kind: str) -> None:
    model = build(kind)
    query = ask(model, 1, "hard")
    marginals = model(query)
    v = torch.rand(query.shape, generator=rng(0), dtype=F64)
    p = marginals.logits
    expected = v * torch.nn.functional.logsigmoid(p) + (1 - v) * torch.nn.functional.logsigmoid(-p)
    close(marginals.log_prob(v), expected, 1e-12)
    assert marginals.log_prob(v).isfinite().all()


@pytest.mark.parametrize("kind", ["RBM", "DBM"])
def test_logits_are_finite_where_bits_are_clamped(kind: str) -> None:
    model = build(kind)
    query = ask(model, 1, "hard", batch=8)
    where = clamped(query)
    assert where.any()
    for marginals in (model(query), *(layer.marginals for layer in model.layers(query))):
        assert torch.equal(marginals.logits[where], 1000 * (2 * query.values[where] - 1))
        assert marginals.logits.isfinite().all()


def test_a_known_category_has_probability_1() -> None:
    model = build("PairwiseMRF")
    query = ask(model, 1, "hard", batch=8)
    logits = model(query).logits
    seen = query.observed
    chosen = logits[seen].gather(1, query.values[seen].long()[:, None])
    close(chosen, torch.zeros_like(chosen), 1e-12)
    assert bool((logits >= -2000).logical_or(logits.isneginf()).all())


def test_a_known_pixel_is_its_reading_to_within_epsilon() -> None:
    model = build("GaussianRBM")
    query = ask(model, 1, "hard", batch=8)
    seen = query.observed
    for marginals in (model(query), *(layer.marginals for layer in model.layers(query))):
        close(marginals.mean[seen], query.values[seen], 1e-12)
        close(marginals.stddev[seen], torch.full_like(query.values[seen], math.sqrt(1e-3)), 1e-12)
    assert isinstance(model(query), Normal)


def test_pairwise_hidden_variables_are_not_among_the_marginals() -> None:
    model = PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)], hidden=(1,))
    assert model(Query(torch.zeros(1, 2), torch.ones(1, 2))).batch_shape == (1, 2)
    *_, last = model.layers(Query(torch.zeros(1, 2), torch.ones(1, 2)))
    assert last.hidden.batch_shape == (1, 1)
