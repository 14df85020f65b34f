"""Extreme evidence and weights, in float32 and over many layers: everything stays finite, and right where it can be checked."""

import itertools
import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from qtcore import BP, DBM, RBM, FactorGraph, GaussianRBM, Gibbs, GridMRF, PairwiseMRF, Query
from qtcore.errors import InputError, NotFiniteError
from qtcore.models.base import Model

from .. import oracle as exact
from ..strategies import TEMPERED, answer, ask, backends, close, examples, learnable, rng, seeds

F32 = torch.float32
SIZE = 1000.0


def extreme(kind: str, seed: int, size: float = SIZE, **options: Any) -> Any:
    """A float32 model whose numbers are 0, ±size, or in between."""
    options = {"n_layers": 10, "dtype": F32} | options
    model: Any = {
        "RBM": lambda: RBM(5, 4, **options),
        "DBM": lambda: DBM(4, 3, 3, **options),
        "GridMRF": lambda: GridMRF(3, 3, clones=(2, 1, 1), **options),
        "PairwiseMRF": lambda: PairwiseMRF((2, 3, 4, 1), [(0, 1), (1, 2), (2, 0), (3, 0)], hidden=(1,), **options),
        "GaussianRBM": lambda: GaussianRBM(5, 4, **options),
        "FactorGraph": lambda: FactorGraph(
            (2, 3, 2, 1),
            {"three": [2, 3, 2], "edge": [3, 1], "bias": [2]},
            [("three", (0, 1, 2)), ("three", (2, 1, 0)), ("edge", (1, 3)), ("bias", (0,))],
            hidden=(1,),
            **options,
        ),
    }[kind]()
    generator = rng(seed)
    with torch.no_grad():
        for tensor in learnable(model).values():
            kind_of_number = torch.randint(4, tensor.shape, generator=generator)
            between = 2 * torch.rand(tensor.shape, generator=generator) - 1
            tensor.copy_(size * torch.where(kind_of_number == 3, between, kind_of_number - 1.0))
    return model


def everything(model: Model, query: Query) -> list[Tensor]:
    """Answers by every road, all layers, the loss and its gradients."""
    result = []
    for _ in backends():
        result.append(answer(model(query)))
        model.zero_grad()
        loss = model.loss(query)
        loss.backward()
        result += [loss, *(p.grad for p in model.parameters() if p.grad is not None)]
    for layer in model.layers(query):
        result += [answer(layer.marginals), answer(layer.hidden), layer.residual, *layer.messages.values()]
    return [tensor.detach() for tensor in result]


def no_nan(model: Model, query: Query) -> None:
    """All finite; −∞ is padding of a FactorGraph's logits alone."""
    for tensor in everything(model, query):
        assert not tensor.isnan().any()
        assert not (tensor == torch.inf).any()
        if not isinstance(model, FactorGraph):
            assert tensor.isfinite().all()


@pytest.mark.parametrize("evidence", ["hard", "soft", "mixed", "none"])
@pytest.mark.parametrize("kind", TEMPERED)
@examples(2)
@given(seed=seeds)
def test_potentials_of_1000(kind: str, evidence: str, seed: int) -> None:
    model = extreme(kind, seed)
    no_nan(model, ask(model, seed, evidence, batch=2))


@pytest.mark.parametrize("size", [18.0, 30.0, 88.0])
@pytest.mark.parametrize("kind", TEMPERED)
@examples(2)
@given(seed=seeds)
def test_potentials_where_exponentials_are_about_to_overflow(kind: str, size: float, seed: int) -> None:
    """Inside and just outside of what native kernels and matrix products take."""
    model = extreme(kind, seed, size)
    no_nan(model, ask(model, seed, "mixed", batch=2))


@pytest.mark.parametrize("temperature", [0.0, 1e-3, 50.0])
@pytest.mark.parametrize("kind", TEMPERED)
def test_potentials_of_1000_at_extreme_temperatures(kind: str, temperature: float) -> None:
    for seed in range(2):
        model = extreme(kind, seed, temperature=temperature)
        no_nan(model, ask(model, seed, "mixed", batch=2))


@pytest.mark.parametrize("kind", TEMPERED)
def test_learned_temperature_with_potentials_of_1000(kind: str) -> None:
    for seed in range(2):
        model = extreme(kind, seed, temperature=2.0, learn_temperature=True, n_layers=30)
        no_nan(model, ask(model, seed, "mixed", batch=2))


def test_evidence_against_overwhelming_odds() -> None:
    """Readings and likelihoods as extreme as numbers get."""
    rbm = extreme("RBM", 0)
    for value, weight in itertools.product([0.0, 1.0, 1e-38, 1 - 6e-8, 0.5], [1.0, 1e-30, 1 - 6e-8]):
        observed = torch.full((2, 5), weight)
        no_nan(rbm, Query(torch.full((2, 5), value), observed, torch.ones(2, 5, dtype=torch.bool)))
    pairwise = extreme("PairwiseMRF", 0)
    for low, high in ((0.0, 1e-300), (1e-300, 1e300), (0.0, 1e300), (1e-45, 3e38)):
        values = torch.full((2, 3, 4), low, dtype=torch.float64)
        values[..., 0] = high
        asked = Query(values, torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3))
        no_nan(pairwise, asked)
    grid = extreme("GridMRF", 0)
    with torch.no_grad():
        grid.emission.copy_(torch.tensor([1.0, 0.0, 1e-38]))  # a label that a pixel rules out for certain
    no_nan(grid, ask(grid, 1, "hard", batch=2))


def refused(model: Model, query: Query, **options: Any) -> None:
    """By every road, with a name instead of NaN."""
    said = rf"^{type(model).__name__}: potentials and evidence of up to .* are too extreme for float32; give smaller ones"
    for _ in backends():
        for call in (model, model.loss, lambda *args, **more: list(model.layers(*args, **more))):
            with pytest.raises(NotFiniteError, match=said):
                call(query, **options)


@pytest.mark.parametrize("temperature", [1e-36, 1e-38, 1e-42, 1e-45])
@pytest.mark.parametrize("kind", TEMPERED)
def test_temperatures_at_which_potentials_overflow_are_refused(kind: str, temperature: float) -> None:
    """All probabilities were once NaN."""
    model = extreme(kind, 0, temperature=temperature)
    query = ask(model, 0, "mixed", batch=2)
    refused(model, query)
    model.T.data.fill_(1.0)
    refused(model, query, engine=BP(temperature=temperature))
    no_nan(extreme(kind, 0, temperature=1e-20), query)
    assert answer(model(query, engine=BP(temperature=1e-50))).equal(answer(model(query, engine=BP(temperature=0))))


@pytest.mark.parametrize("size", [3e38, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", TEMPERED)
def test_weights_that_overflow_are_refused(kind: str, size: float) -> None:
    for name in learnable(extreme(kind, 0)):
        model = extreme(kind, 0)
        sign = 1 if size == math.inf and name.startswith(model.may_hold_zeros) else -1  # there −∞ is a zero
        model.get_parameter(name).data.view(-1)[0] = sign * size
        query = ask(model, 0, "mixed", batch=2)
        refused(model, query)
        refused(model, query, engine=BP(temperature=0.0))
        refused(model, query, engine=BP(damping=0.2))
    no_nan(extreme(kind, 0, 1e30), query)


@pytest.mark.parametrize("kind", ["RBM", "DBM"])
def test_gibbs_sampling_with_weights_that_overflow(kind: str) -> None:
    model = extreme(kind, 0, 3e38)
    with pytest.raises(NotFiniteError, match="a marginal is not finite; the parameters are too extreme"):
        model(ask(model, 0, "mixed", batch=2), engine=Gibbs(sweeps=50))


# ---------------------------------------------------------------------------------------------------------------------
# Right as well, where the answer is known


@examples(6)
@given(seeds)
def test_an_rbm_that_is_a_tree_is_right_at_1000(seed: int) -> None:
    """Sums of numbers of 1000 have errors of 1e-4 in float32: the log-odds must agree to about that."""
    model = RBM(5, 1, dtype=F32)
    generator = rng(seed)
    with torch.no_grad():
        for tensor in learnable(model).values():
            tensor.copy_(SIZE * (2 * torch.rand(tensor.shape, generator=generator) - 1))
    query = ask(model, seed, "hard", batch=3)
    expected: Any = exact.marginals(model, query)
    for n in (2, 50):
        seen = query.observed
        close(model(query, n).logits[seen].double(), expected.logits[seen])
        close(model(query, n).logits[~seen].double(), _log_odds(model, query)[~seen], 2e-6 * SIZE)


def _log_odds(model: RBM, query: Query) -> Tensor:
    """Unclipped log-odds of the visible bits, by enumeration."""
    rows = exact._RBMOracle(model, None).rows(query.values, query.observed)
    return torch.stack([torch.stack([row.log_marginal(j).diff().squeeze() for j in range(5)]) for row in rows])


@examples(6)
@given(seeds)
def test_a_chain_of_pixels_is_right_at_1000(seed: int) -> None:
    model = extreme("GridMRF", seed)
    query = ask(model, seed, "hard", batch=2, shape=(1, 4))
    expected: Any = exact.marginals(model, query)
    close(model(query).probs.double(), expected.probs, 1e-3)


# ---------------------------------------------------------------------------------------------------------------------
# The Gaussian RBM


@pytest.mark.parametrize("evidence", ["hard", "soft", "mixed", "none"])
@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
@examples(2)
@given(seed=seeds)
def test_gaussian_weights_up_to_10(evidence: str, schedule: str, seed: int) -> None:
    model = extreme("GaussianRBM", seed, 10.0, schedule=schedule)
    no_nan(model, ask(model, seed, evidence, batch=2))


@examples(2)
@given(seed=seeds)
def test_gaussian_pixels_of_1000(seed: int) -> None:
    """Readings and priors far out."""
    model = extreme("GaussianRBM", seed, 10.0)
    model.b.data.mul_(100)
    query = ask(model, seed, "mixed", batch=2)
    no_nan(model, Query(SIZE * query.values, query.observed, query.target, SIZE * query.truth))


@pytest.mark.parametrize("size", [1e13, 1e18, 1e30, 3e38])
def test_a_truth_whose_square_overflows_is_refused(size: float) -> None:
    """The loss was once infinite, or its gradients NaN."""
    model = GaussianRBM(5, 4, dtype=F32)
    unseen, scored = torch.zeros(2, 5, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool)
    with pytest.raises(InputError, match=r"truth must be finite, and at most 1e\+12 in size, where it is scored, but at"):
        model.loss(Query(torch.zeros(2, 5), unseen, scored, torch.full((2, 5), size)))
    no_nan(model, Query(torch.zeros(2, 5), unseen, scored, torch.full((2, 5), -1e12)))


def test_an_infinite_loss_is_named() -> None:
    model = GaussianRBM(5, 4, dtype=F32)
    with torch.no_grad():
        model.b.fill_(1e25)
    with pytest.raises(NotFiniteError, match="the loss is inf; the truth is too far from the marginals"):
        model.loss(Query(torch.zeros(2, 5), torch.zeros(2, 5, dtype=torch.bool)))


@pytest.mark.parametrize("size", [1e2, 1e4, 1e8, 1e15, 1e19, 1e30, 3e38])
@pytest.mark.parametrize("damping", [0.0, 0.2])
def test_gaussian_weights_beyond_10_are_finite_or_refused_by_name(size: float, damping: float) -> None:
    refused = []
    for seed in range(2):
        model = extreme("GaussianRBM", seed, size, damping=damping)
        query = ask(model, seed, "mixed", batch=2)
        for _ in backends():
            try:
                assert answer(model(query)).isfinite().all()
            except NotFiniteError as error:
                refused.append(str(error))
        try:
            for layer in model.layers(query):
                assert answer(layer.marginals).isfinite().all()
                assert answer(layer.hidden).isfinite().all()
        except NotFiniteError as error:
            refused.append(str(error))
    assert refused or size < 1e20
    assert all("GaussianRBM: the m" in text or "GaussianRBM: the logit of a hidden unit" in text for text in refused)
    assert all(re.search(r"is not finite in layer \d+; the parameters are too extreme", text) for text in refused)
