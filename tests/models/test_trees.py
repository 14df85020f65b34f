"""On a tree belief propagation is exact: marginals equal enumeration, and max-product finds the max-marginals and the mode."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from qtcore import DBM, RBM, GaussianRBM, GridMRF, PairwiseMRF, Query

from .. import oracle as exact
from ..strategies import F64, answer, ask, bipartite_trees, clamped, close, evidences, normal, randomise, seeds, trees, ways

POTENTIALS = ("vertical", "horizontal", "diagonal", "antidiagonal")


def is_exact(model: Any, query: Any, n_layers: int) -> None:
    """Visible and hidden marginals, by every road."""
    expected: Any = exact.marginals(model, query)
    for way, result in ways(model, query, n_layers).items():
        if isinstance(model, RBM | DBM):
            close(result.sigmoid(), expected.probs)
            assert torch.equal(result[clamped(query)], answer(expected)[clamped(query)]), way
        elif isinstance(model, GaussianRBM):
            close(result, answer(expected))
        else:
            close(result.exp(), expected.probs)
    *_, last = model.layers(query, n_layers)
    hidden: Any = exact.hidden_marginals(model, query)
    close(last.hidden.probs, hidden.probs)


@given(trees(), seeds, evidences)
def test_pairwise_on_random_trees(tree: Any, seed: int, evidence: str) -> None:
    model = randomise(PairwiseMRF(**tree, dtype=F64), seed, 1.5)
    is_exact(model, ask(model, seed, evidence), n_layers=len(tree["n_states"]))


@given(bipartite_trees(), seeds, evidences)
def test_rbm_on_random_trees(mask: Tensor, seed: int, evidence: str) -> None:
    H, V = mask.shape
    model = randomise(RBM(V, H, dtype=F64), seed, 1.5)
    model.W.data.mul_(mask)
    is_exact(model, ask(model, seed, evidence), n_layers=H + V)


@given(st.integers(1, 6), seeds, evidences)
def test_rbm_with_one_hidden_unit(n_visible: int, seed: int, evidence: str) -> None:
    model = randomise(RBM(n_visible, 1, dtype=F64), seed, 2.0)
    is_exact(model, ask(model, seed, evidence), n_layers=2)


@given(bipartite_trees(least_visible=2), seeds, evidences)
def test_dbm_on_random_trees(mask: Tensor, seed: int, evidence: str) -> None:
    """One side of the tree is h1; half of the other side is v, the rest is h2."""
    H, both = mask.shape
    V = both // 2
    model = randomise(DBM(V, H, both - V, dtype=F64), seed, 1.5)
    model.W1.data.mul_(mask[:, :V])
    model.W2.data.mul_(mask[:, V:].T)
    is_exact(model, ask(model, seed, evidence), n_layers=H + both)


@given(st.integers(1, 5), st.booleans(), seeds, evidences)
def test_grid_of_one_row_or_one_column(n: int, upright: bool, seed: int, evidence: str) -> None:
    size = (n, 1) if upright else (1, n)
    model = randomise(GridMRF(*size, clones=(2, 1, 1), dtype=F64), seed, 1.5)
    is_exact(model, ask(model, seed, evidence, batch=2), n_layers=n)


@pytest.mark.parametrize("alone", POTENTIALS)
@given(seed=seeds, evidence=evidences)
def test_grid_with_one_kind_of_neighbour(alone: str, seed: int, evidence: str) -> None:
    """Where three of the four potentials are 0 a grid falls into chains, each along one direction."""
    model = randomise(GridMRF(2, 3, clones=(1, 1, 1), dtype=F64), seed, 1.5)
    for name in POTENTIALS:
        if name != alone:
            model.potentials[name].data.zero_()
    is_exact(model, ask(model, seed, evidence, batch=2), n_layers=3)


@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
@given(n_visible=st.integers(1, 5), seed=seeds, evidence=evidences, sigma=st.sampled_from([1.0, 0.6, 2.0]))
def test_gaussian_rbm_with_one_hidden_unit(schedule: Any, n_visible: int, seed: int, evidence: str, sigma: float) -> None:
    """The projection on a Gaussian keeps the exact mean and variance of the mixture."""
    model = randomise(GaussianRBM(n_visible, 1, schedule=schedule, learn_sigma="pixel", dtype=F64), seed)
    model.sigma.data.copy_(sigma * torch.linspace(0.7, 1.3, n_visible, dtype=F64))
    is_exact(model, ask(model, seed, evidence), n_layers=2)


@given(seed=seeds, evidence=evidences)
def test_gaussian_rbm_whose_pixels_have_one_hidden_unit_each(seed: int, evidence: str) -> None:
    """Several stars side by side: as exact as one, once the initial messages along absent edges are gone."""
    model = randomise(GaussianRBM(5, 2, dtype=F64), seed)
    model.W.data.mul_(torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]]))
    is_exact(model, ask(model, seed, evidence), n_layers=4)


def test_gaussian_rbm_hidden_units_are_exact_when_all_is_seen() -> None:
    model = randomise(GaussianRBM(4, 3, dtype=F64), 0)
    is_exact(model, Query(normal(1, 3, 4), torch.ones(3, 4)), n_layers=1)


# ---------------------------------------------------------------------------------------------------------------------
# Max-product


def log_max_marginals(model: Any, query: Any, variables: list[int]) -> Tensor:
    """max over all else of the log-weight of each state [B, n, S], the largest at 0; padded with −∞."""
    oracle: Any = exact._oracle(model, tuple(query.values.shape[1:]))
    rows = []
    for row in oracle.rows(query.values, query.observed):
        table = row.log_weights
        width, answers = max(table.shape), []
        for i in variables:
            others = [k for k in range(table.ndim) if k != i]
            best = table.amax(others) if others else table
            best = (best - best.max()).clamp_min(-1000)
            answers.append(torch.nn.functional.pad(best, (0, width - len(best)), value=-torch.inf))
        rows.append(torch.stack(answers))
    return torch.stack(rows)


def from_the_top(logits: Tensor) -> Tensor:
    return logits - logits.amax(-1, keepdim=True)


@given(trees(most_states=3), seeds, evidences)
def test_pairwise_max_product_on_random_trees(tree: Any, seed: int, evidence: str) -> None:
    model = randomise(PairwiseMRF(**tree, temperature=0.0, dtype=F64), seed, 1.5)
    query = ask(model, seed, evidence)
    marginals: Any = model(query, len(tree["n_states"]))
    *_, last = model.layers(query, len(tree["n_states"]))
    visible = [i for i in range(len(tree["n_states"])) if i not in tree["hidden"]]
    expected = log_max_marginals(model, query, visible)
    result = from_the_top(marginals.logits)
    possible = expected > -900  # a state that is ruled out shows as −1000, give or take the messages it receives
    close(result[possible], expected[possible])
    assert bool((result[~possible] < -900).all())
    best = exact.most_probable(model, query)
    assert torch.equal(marginals.logits.argmax(-1), best.visible)
    hidden: Any = last.hidden
    assert torch.equal(hidden.logits.argmax(-1), best.hidden)


@given(bipartite_trees(), seeds, evidences)
def test_rbm_max_product_on_random_trees(mask: Tensor, seed: int, evidence: str) -> None:
    H, V = mask.shape
    model = randomise(RBM(V, H, temperature=0.0, dtype=F64), seed, 1.5)
    model.W.data.mul_(mask)
    query = ask(model, seed, evidence)
    expected = log_max_marginals(model, query, list(range(V)))
    free = ~clamped(query)
    close(model(query, H + V).logits[free], (expected[..., 1] - expected[..., 0])[free])
    best = exact.most_probable(model, query)
    assert torch.equal((model(query, H + V).logits > 0).long(), best.visible)
    *_, last = model.layers(query, H + V)
    hidden: Any = last.hidden
    assert torch.equal((hidden.logits > 0).long(), best.hidden)


@given(st.integers(1, 5), st.booleans(), seeds, evidences)
def test_grid_max_product_on_a_chain(n: int, upright: bool, seed: int, evidence: str) -> None:
    size = (n, 1) if upright else (1, n)
    model = randomise(GridMRF(*size, clones=(2, 1, 1), temperature=0.0, dtype=F64), seed, 1.5)
    query = ask(model, seed, evidence, batch=2)
    *_, last = model.layers(query, n)
    states: Any = last.hidden
    close(from_the_top(states.logits).flatten(1, 2), log_max_marginals(model, query, list(range(n))))
    assert torch.equal(states.logits.argmax(-1), exact.most_probable(model, query).hidden)
