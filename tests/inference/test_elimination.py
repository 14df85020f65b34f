"""Variables eliminated one after the other: the same answers as by enumeration, for graphs of any order, with zeros."""

from typing import Any

import pytest
import torch
from hypothesis import assume, given

from qtcore import RBM, Exact, FactorGraph, PairwiseMRF, Query, exact
from qtcore.errors import InputError
from qtcore.inference import elimination, orders
from qtcore.inference.elimination import EliminationPosterior
from qtcore.inference.orders import TooWideError, best_order, degeneracy, min_fill, sweep

from .. import oracle
from ..strategies import (
    F64,
    answer,
    ask_possible,
    build,
    close,
    evidences,
    factor_graphs,
    factor_trees,
    normal,
    possible_states,
    seeds,
)


def posterior(model: Any, query: Query) -> EliminationPosterior:
    return EliminationPosterior(*model.graph().as_factors(model.evidence(query, F64)))


@given(factor_graphs(), seeds, evidences)
def test_enumeration_and_elimination_agree(graph: Any, seed: int, evidence: str) -> None:
    """Marginals, log Z and the most probable state; orders 1 to 4, states 1 to 5, zeros, ties, hidden variables."""
    model = FactorGraph(**graph, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    result = posterior(model, query)
    visible, hidden = result.answers()
    close(visible.probs, oracle.marginals(model, query).probs)  # type: ignore[attr-defined]
    close(hidden.probs, oracle.hidden_marginals(model, query).probs)  # type: ignore[attr-defined]
    nothing = Query(torch.zeros_like(query.values), torch.zeros_like(query.observed))
    close(posterior(model, nothing).log_z, oracle.log_z(model).expand(2))
    whole = oracle._oracle(model, None)
    rows = list(whole.rows(query.values, query.observed))  # type: ignore[union-attr]
    close(result.log_z, torch.stack([row.log_z for row in rows]))
    states = torch.zeros(2, len(model.n_states), dtype=torch.long)
    found = result.most_probable()
    states[:, list(model.wiring.visible)], states[:, list(model.wiring.hidden)] = found[0], found[1]
    for row, state in zip(rows, states.tolist(), strict=True):
        close(row.log_weights[tuple(state)], row.log_weights.max())


@given(factor_trees(), seeds, evidences)
def test_belief_propagation_is_exact_on_trees_of_factors(graph: Any, seed: int, evidence: str) -> None:
    """And so is its maximum at temperature 0."""
    model = FactorGraph(**graph, n_layers=12, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    *_, last = model.layers(query)
    close(last.marginals.probs, oracle.marginals(model, query).probs)  # type: ignore[attr-defined]
    close(last.hidden.probs, oracle.hidden_marginals(model, query).probs)  # type: ignore[attr-defined]
    assert not bool((last.residual > 1e-9).any())


@given(factor_graphs(), seeds)
def test_what_has_no_possible_state_is_refused(graph: Any, seed: int) -> None:
    model = FactorGraph(**graph, dtype=F64)
    states, visible = possible_states(model), list(model.wiring.visible)
    values = torch.stack([torch.arange(seed, seed + len(visible)) % torch.tensor([model.n_states[i] for i in visible])])
    query = Query(values, torch.ones_like(values, dtype=torch.bool))
    if len(states) and bool((states[:, visible] == values).all(1).any()):
        assert posterior(model, query).log_z.isfinite().all()
    else:
        with pytest.raises(InputError, match="probability 0"):
            posterior(model, query).answers()


@pytest.mark.parametrize("kind", ["RBM", "DBM", "GridMRF", "PairwiseMRF", "FactorGraph"])
def test_gradients_are_those_of_enumeration(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model can be trained through it."""
    model = build(kind, 1)
    shape = (2, *(model.image_shape or (model.size,)))
    query = Query(torch.zeros(shape), torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.4)

    def gradients() -> tuple[torch.Tensor, list[torch.Tensor]]:
        model.zero_grad()
        marginals = answer(model(query, engine=Exact())).softmax(-1)
        (marginals * normal(0, *marginals.shape)).sum().backward()
        return marginals, [p.grad.clone() for p in model.parameters() if p.grad is not None]

    expected, expected_gradients = gradients()
    monkeypatch.setattr(exact, "MAX_STATES", 1)
    result, result_gradients = gradients()
    close(result, expected)
    assert len(result_gradients) == len(expected_gradients) > 0
    for one, other in zip(result_gradients, expected_gradients, strict=True):
        close(one, other, 1e-8)


def test_long_chains_and_wide_machines() -> None:
    """Far beyond enumeration: a chain of 300 variables, and an RBM with few hidden units."""
    chain = FactorGraph([3] * 300, {"edge": normal(0, 3, 3)}, [("edge", [(i, i + 1) for i in range(299)])], dtype=F64)
    query = Query(torch.zeros(2, 300), torch.arange(300)[None].expand(2, 300) % 97 == 0)
    close(chain(query, 300).probs, chain(query, engine=Exact()).probs, 1e-8)
    transfer, start = chain.tables["edge"].detach().exp(), torch.ones(3, dtype=F64)
    for _ in range(299):
        start = transfer @ start
    close(exact.log_z(chain), start.sum().log())
    wide = RBM(40, 3, dtype=F64)
    with torch.no_grad():
        wide.W.copy_(normal(1, 3, 40))
    hidden = torch.cartesian_prod(*[torch.arange(2.0, dtype=F64)] * 3)
    logits = 2 * hidden @ wide.W + wide.c_v - wide.W.sum(0)
    weights = hidden @ (wide.c_h - wide.W.sum(1)) + torch.nn.functional.softplus(logits).sum(1)
    close(exact.log_z(wide), weights.logsumexp(0))
    rows = (torch.rand(3, 40, generator=torch.Generator().manual_seed(0)) < 0.5).double()
    by_hand = (2 * rows @ wide.W.T + wide.c_h - wide.W.sum(1)).exp().log1p().sum(1) + rows @ (wide.c_v - wide.W.sum(0))
    close(exact.log_likelihood(wide, rows), by_hand - weights.logsumexp(0))


def test_the_order_is_good_where_a_good_one_is_known() -> None:
    tree = [(i, (i - 1) // 2) for i in range(1, 60)]
    assert min_fill([2] * 60, tree).width == 1
    ring = [(i, (i + 1) % 40) for i in range(40)]
    assert min_fill([3] * 40, ring).width == 2
    n = 16
    right = [(n * y + x, n * y + x + 1) for y in range(n) for x in range(n - 1)]
    down = [(n * y + x, n * y + x + n) for y in range(n - 1) for x in range(n)]
    assert min_fill([2] * n * n, right + down, refuse=False).width >= n  # no order has a smaller one
    assert sweep([2] * n * n, right + down).width == n
    assert best_order([2] * n * n, right + down).total <= sweep([2] * n * n, right + down).total
    assert sorted(sweep([2] * (n * n + 2), right + down).variables) == list(range(n * n + 2))
    assert min_fill([5] * 4, [(0, 1, 2, 3)]).largest == 5**4
    clique = [set(range(7)) - {i} for i in range(7)]
    assert degeneracy(clique) == 6


def test_a_graph_that_is_too_wide_says_how_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 30
    model = PairwiseMRF([2] * n, [(i, j) for i in range(n) for j in range(i)])
    query = Query(torch.zeros(1, n), torch.zeros(1, n, dtype=torch.bool))
    with pytest.raises(TooWideError, match=r"a width of 29 or more, with a table of at least 1\.07e\+09 entries"):
        model(query, engine=Exact())
    seen = Query(torch.zeros(1, n), torch.arange(n)[None] > 9)  # evidence makes it narrow
    assert model(seen, engine=Exact()).probs.shape == (1, n, 2)
    monkeypatch.setattr(orders, "MAX_TABLE", 8)
    with pytest.raises(TooWideError, match="a width of"):
        model(seen, engine=Exact())


@given(factor_graphs(), seeds)
def test_both_ways_to_the_gradient_agree(graph: Any, seed: int) -> None:
    """Without derivatives of marginals the sums of tables are made again for the backward pass."""
    model = FactorGraph(**graph, dtype=F64)
    query = ask_possible(model, seed, "mixed")
    assume(query is not None)
    assert query is not None
    with_derivatives = posterior(model, query).answers()[0].probs  # type: ignore[attr-defined]
    with torch.no_grad():
        close(posterior(model, query).answers()[0].probs, with_derivatives, 1e-12)  # type: ignore[attr-defined]


def test_large_batches_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("FactorGraph", 4)
    query = Query(torch.zeros(7, 3), torch.zeros(7, 3, dtype=torch.bool))
    whole = posterior(model, query).answers()[0].probs  # type: ignore[attr-defined]
    monkeypatch.setattr(elimination, "MAX_TOTAL", 200)
    close(posterior(model, query).answers()[0].probs, whole)  # type: ignore[attr-defined]
