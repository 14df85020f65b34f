"""Reasons: leaving out evidence against a loop, and messages against a model that lacks their edge."""

from typing import Any

import pytest
import torch
from torch import Tensor

import qtcore
from qtcore import Exact, GridMRF, Query
from qtcore.errors import InputError
from qtcore.inference.why import BATCH, LeavingOut, arriving, leave_one_out
from qtcore.metrics import BITS

from ..joint import tree
from ..strategies import F64, KINDS, ask, build, close

NAMED = ("RBM", "DBM", "GaussianRBM", "GridMRF")


def one_row(model: Any, evidence: str, seed: int = 1) -> tuple[Query, int]:
    """A query in which some variable is not known, and the number of that variable."""
    for number in range(seed, seed + 20):
        query = ask(model, number, evidence, batch=1)
        free = torch.ones_like(query.observed[0]) if isinstance(model, GridMRF) else query.observed[0] != 1
        known = (query.observed[0] > 0).sum()
        if bool(free.any()) and known > 1:
            return query, int(free.flatten().nonzero()[-1])
    raise AssertionError("no such query")


def numbers(marginals: Any, place: int = 0) -> Tensor:
    """The probability of 1 or the mean of one variable of one row, or the probabilities of its states [states]."""
    if isinstance(marginals, torch.distributions.Categorical):
        return marginals.probs.detach().flatten(0, -2)[place]
    return marginals.mean.detach().flatten()[place]


@pytest.mark.parametrize("evidence", ["hard", "soft", "mixed"])
@pytest.mark.parametrize("kind", KINDS)
def test_leaving_out_is_asking_without(kind: str, evidence: str) -> None:
    model = build(kind, 1, 0.7)
    query, about = one_row(model, evidence)
    reasons = leave_one_out(model, query, about)
    known = (query.observed[0] > 0).flatten().nonzero()[:, 0].tolist()
    assert reasons.pieces.flatten(1).nonzero()[:, 1].tolist() == known
    with_it = numbers(model(query), about)
    for number, moved in zip(known, reasons.moved, strict=True):
        observed = query.observed.clone()
        observed.view(-1)[number] = 0
        close(moved, with_it - numbers(model(Query(query.values, observed)), about), 1e-9)


def test_pieces_may_have_several_variables() -> None:
    model = build("RBM", 3)
    query = Query(torch.ones(1, 4, dtype=F64), torch.tensor([[True, True, True, False]]))
    reasons = leave_one_out(model, query, 3, [[0, 1], 2])
    alone = model(Query(query.values, torch.tensor([[False, False, True, False]]))).probs[0, 3]
    close(reasons.without.probs[0], alone, 1e-12)  # type: ignore[attr-defined]
    assert reasons.pieces.tolist() == [[True, True, False, False], [False, False, True, False]]


def test_bits_are_those_of_enumeration() -> None:
    """On a tree, where marginals are exact: Σ p log₂(p / p_without)."""
    model = tree("PairwiseMRF", 2, 1.5)
    query = Query(torch.tensor([[1, 2, 0]]), torch.tensor([[True, True, False]]))
    reasons = leave_one_out(model, query, 2)
    for bits, number in zip(reasons.bits, (0, 1), strict=True):
        observed = query.observed.clone()
        observed[0, number] = False
        p, q = (model(each, engine=Exact()).probs[0, 2] for each in (query, Query(query.values, observed)))
        possible = p > 0
        close(bits, (p * (p / q).log())[possible].sum() * BITS, 1e-9)


def test_what_is_not_connected_moved_nothing() -> None:
    model = build("RBM", 3)
    model.W.data[:, 0] = 0
    query = Query(torch.ones(1, 4, dtype=F64), torch.tensor([[True, True, True, False]]))
    bits = leave_one_out(model, query, 3).bits
    assert float(bits[0]) < 1e-12 < float(bits[1])


def test_many_pieces_come_in_parts() -> None:
    model = qtcore.RBM(2 * BATCH, 3)
    query = Query(torch.ones(1, 2 * BATCH), torch.arange(2 * BATCH)[None] > 0)
    leaving = LeavingOut(model, query, 0)
    with pytest.raises(InputError, match="iterate first"):
        _ = leaving.reasons
    assert list(leaving) == [BATCH, 2 * BATCH - 1]
    assert len(leaving) == 2
    assert leaving.reasons.bits.shape == (2 * BATCH - 1,)


@pytest.mark.parametrize("kind", NAMED)
def test_messages_and_evidence_make_the_marginal(kind: str) -> None:
    for seed in range(3):
        model = build(kind, seed)
        query, about = one_row(model, "soft", seed)
        for layers in (None, 2):
            result, expected = arriving(model, query, about, layers).marginal, model(query, layers)
            close(numbers(result), numbers(expected, about), 1e-9)
            if kind == "GaussianRBM":
                close(result.stddev[0], expected.stddev.detach()[0, about], 1e-9)


def test_without_a_message_is_without_its_edge() -> None:
    """On a tree, where nothing else depends on it."""
    model = tree("RBM", 1, 1.5)
    query = Query(torch.tensor([[1.0, 0.0, 0.0, 1.0]], dtype=F64), torch.tensor([[True, False, False, True]]))
    reasons = arriving(model, query, 2)
    assert reasons.senders.tolist() == [0, 1]
    for unit in (0, 1):
        cut = tree("RBM", 1, 1.5)
        cut.W.data[unit, 2] = 0
        close(reasons.without.probs[unit], cut(query, engine=Exact()).probs[0, 2], 1e-9)  # type: ignore[attr-defined]


def test_without_a_hidden_unit_of_a_gaussian_star() -> None:
    model = build("GaussianRBM", 2, 0.5, n_layers=20)
    model.W.data[1:] = 0
    query = Query(torch.ones(1, 4, dtype=F64), torch.tensor([[True, True, False, False]]))
    reasons = arriving(model, query, 2)
    alone = build("GaussianRBM", 2, 0.5, n_layers=20)
    alone.W.data[:] = 0
    expected = alone(query)
    close(reasons.without.mean[0], expected.mean[0, 2], 1e-9)
    close(reasons.without.stddev[0], expected.stddev[0, 2], 1e-9)
    close(reasons.bits[1:], torch.zeros(2, dtype=F64), 1e-12)


def test_without_a_neighbour_of_a_strip() -> None:
    """Three pixels in a row: without its left neighbour the middle one is the first of two, without the right one the last."""
    model = tree("GridMRF", 1, 1.5)
    reading = torch.tensor([[[1.0, 0.0, 1.0]]], dtype=F64)
    seen = torch.ones_like(reading, dtype=torch.bool)
    reasons = arriving(model, Query(reading, seen), 1)
    assert reasons.senders.tolist() == [0, 2]
    parts = ((slice(1, 3), 0), (slice(0, 2), 1))
    for without, (columns, place) in zip(reasons.without.probs, parts, strict=True):  # type: ignore[attr-defined]
        close(without, model(Query(reading[..., columns], seen[..., columns])).probs[0, 0, place], 1e-9)
    corner = arriving(build("GridMRF", 1), Query(torch.zeros(1, 2, 3, dtype=F64), torch.ones(1, 2, 3)), 0)
    assert corner.senders.tolist() == [3, 1, 4]  # below, right, below right


def test_odd_questions() -> None:
    model = build("RBM", 0)
    query = Query(torch.ones(2, 4, dtype=F64), torch.tensor([[True, True, True, False]] * 2))
    nothing = Query(query.values[:1], torch.zeros(1, 4))
    for call, said in (
        (lambda: leave_one_out(model, query, 3), "one row at a time, but this query has 2"),
        (lambda: leave_one_out(model, query[:1], 4), "from 0 to 3, not 4"),
        (lambda: leave_one_out(model, query[:1], True), "not True"),
        (lambda: leave_one_out(model, query[:1], 0), "variable 0 is known"),
        (lambda: leave_one_out(model, nothing, 3), "nothing is known"),
        (lambda: leave_one_out(model, query[:1], 3, [[3]]), "no piece of this evidence"),
        (lambda: leave_one_out(model, query[:1], 3, [7]), "no piece of this evidence"),
        (lambda: leave_one_out(model, query[:1], 3, [0.5]), "no piece of this evidence"),  # type: ignore[list-item]
        (lambda: arriving(model, query[:1], 0), "variable 0 is known"),
        (lambda: arriving(model, query[:1], 3, n_layers=0), "no messages were sent"),
        (lambda: arriving(model, query[:1], 3, engine=Exact()), "no messages were sent"),
        (lambda: arriving(build("FactorGraph"), Query(torch.zeros(1, 3), torch.zeros(1, 3)), 0), "go to factors"),
    ):
        with pytest.raises(InputError, match=said):
            call()
