"""`qtcore.exact` reads models as engines do; the oracle of the tests reads their stored parameters. They agree."""

from typing import Any

import pytest
import torch
from hypothesis import given

from qtcore import FactorGraph, GaussianRBM, PairwiseMRF, Query, exact
from qtcore.errors import InputError

from .. import oracle
from ..strategies import EVIDENCE, KINDS, TEMPERED, answer, ask, build, close, evidences, graphs, normal, randomise, rng, seeds

every_kind = pytest.mark.parametrize("kind", KINDS)


def agree(model: Any, query: Query) -> None:
    ours, theirs = exact.marginals(model, query), oracle.marginals(model, query)
    assert type(ours) is type(theirs)
    close(model.variables.numbers(ours), model.variables.numbers(theirs), 1e-10)
    hidden: Any = exact.hidden_marginals(model, query)
    close(hidden.probs, oracle.hidden_marginals(model, query).probs, 1e-10)  # type: ignore[attr-defined]
    best, expected = exact.most_probable(model, query), oracle.most_probable(model, query)
    close(best.visible.double(), expected.visible.double())
    assert torch.equal(best.hidden, expected.hidden)
    close(exact.log_z(model), oracle.log_z(model), 1e-12)


@every_kind
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_every_model(kind: str, evidence: str) -> None:
    model = build(kind, 1)
    agree(model, ask(model, 2, evidence))


@given(graphs(), seeds, evidences)
def test_any_graph(graph: Any, seed: int, evidence: str) -> None:
    model = randomise(PairwiseMRF(**graph, dtype=torch.float64), seed)
    agree(model, ask(model, seed, evidence))


@every_kind
def test_likelihoods_of_rows(kind: str) -> None:
    model = build(kind, 3)
    shape = model.image_shape or model.variables.shape
    if kind == "GaussianRBM":
        rows = normal(4, 5, *shape)
    else:
        rows = (torch.rand(5, *shape, generator=torch.Generator().manual_seed(4)) < 0.5).double()
    close(exact.log_likelihood(model, rows), oracle.log_likelihood(model, rows), 1e-9)


def test_in_float64_whatever_the_model_is_in() -> None:
    model = build("RBM", 1, dtype=torch.float32)
    query = ask(model, 2, "soft")
    assert exact.marginals(model, query).probs.dtype == torch.float64  # type: ignore[attr-defined]
    close(exact.marginals(model, query).probs, oracle.marginals(model, query).probs, 1e-12)  # type: ignore[attr-defined]


def test_the_joint_table() -> None:
    model = build("PairwiseMRF", 2)
    joint = exact.joint(model)
    assert joint.log_weights.shape == (2, 3, 2, 4)
    close(joint.log_z, oracle.log_z(model), 1e-12)
    with pytest.raises(InputError, match="a GaussianRBM has real variables"):
        exact.joint(GaussianRBM(3, 2))


@pytest.mark.parametrize("evidence", ["mixed", "none"])
@pytest.mark.parametrize("kind", TEMPERED)
def test_samples_have_the_marginals(kind: str, evidence: str) -> None:
    """Within five standard errors, for every state of every variable and row."""
    model, count = build(kind, 1), 4000
    query = ask(model, 2, evidence)
    drawn = exact.sample(model, query, count, rng(0))
    hidden: Any = exact.hidden_marginals(model, query)
    for states, expected in ((drawn.visible, exact.marginals(model, query)), (drawn.hidden, hidden)):
        probs = expected.probs
        shares = probs if probs.dim() > states.dim() - 1 else torch.stack([1 - probs, probs], -1)
        found = (states[..., None] == torch.arange(shares.shape[-1])).double().mean(0)
        assert bool(((found - shares).abs() <= 5 * (shares * (1 - shares) / count).sqrt() + 1e-12).all())


def test_samples_are_of_the_joint_distribution() -> None:
    """Not of one variable at a time: the frequency of every joint state, zeros included."""
    table = normal(0, 2, 3, 2)
    table[1, 2, 0] = table[0, 0, 1] = -torch.inf
    model = FactorGraph((2, 3, 2, 2), {"three": table, "edge": normal(1, 3, 2)}, [("three", (0, 1, 2)), ("edge", (1, 3))])
    count, nothing = 20_000, Query(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool))
    drawn = exact.sample(model, nothing, count, rng(0)).visible[:, 0]
    weights = exact.joint(model).log_weights
    shares = weights.flatten().softmax(0)
    place = torch.tensor([weights.stride()]) @ drawn.T
    found = torch.bincount(place[0], minlength=weights.numel()) / count
    assert bool(((found - shares).abs() <= 5 * (shares * (1 - shares) / count).sqrt() + 1e-12).all())
    assert torch.equal(exact.sample(model, nothing, 5, rng(3)).visible, exact.sample(model, nothing, 5, rng(3)).visible)
    with pytest.raises(InputError, match="count must be a whole number ≥ 1, not 0"):
        exact.sample(model, nothing, 0)
    real = GaussianRBM(3, 2)
    with pytest.raises(InputError, match="a GaussianRBM has real variables"):
        exact.sample(real, ask(real))


def test_refusals() -> None:
    big = build("RBM")
    from qtcore import RBM

    with pytest.raises(InputError, match=r"about 10\^7\.2 joint states is too large"):
        exact.joint(RBM(12, 12))
    with pytest.raises(InputError, match=r"a width of 30 or more, with a table of at least 2\.15e\+09 entries"):
        exact.log_z(RBM(40, 30))
    with pytest.raises(InputError, match="exact values"):
        exact.log_likelihood(big, torch.full((1, 4), 0.5))
    never = PairwiseMRF((2, 2), [(0, 1)])
    never.pairwise[0].data.copy_(torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]]))
    with pytest.raises(InputError, match="probability 0"):
        exact.marginals(never, Query(torch.tensor([[0, 1]]), torch.ones(1, 2, dtype=torch.bool)))
    with pytest.raises(InputError, match="expects queries of shape"):
        answer(exact.marginals(big, Query(torch.zeros(1, 2), torch.zeros(1, 2))))
