"""The transcription itself: exact on trees, and the same whichever of its functions runs a model."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from . import naive
from . import oracle as exact
from .test_oracle import DBM, RBM, GaussianRBM, GridMRF, PairwiseMRF, hidden_marginals, marginals

F64 = torch.float64
ONE = torch.tensor(1.0)


def close(result: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def evidence(seed: int, shape: tuple[int, ...], n_states: Any = 2) -> tuple[Tensor, Tensor]:
    """Whole values, and weights of which a third each are 0 (with NaN for a value), 1, and in between."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.floor(torch.rand(shape, generator=generator, dtype=F64) * torch.as_tensor(n_states))
    kind = torch.randint(3, shape, generator=generator)
    weights = torch.where(kind == 2, torch.rand(shape, generator=generator, dtype=F64), kind.to(F64))
    return torch.where(weights == 0, math.nan, values), weights


def random(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def random_pairwise(seed: int, n_states: list[int], edges: list[tuple[int, int]], hidden: Any = (), T: float = 1.0) -> Any:
    return PairwiseMRF(
        n_states=tuple(n_states),
        edges=tuple(edges),
        hidden=tuple(hidden),
        unary=[random(seed + i, n) for i, n in enumerate(n_states)],
        pairwise=[random(seed + 100 + e, n_states[i], n_states[j]) for e, (i, j) in enumerate(edges)],
        T=torch.tensor(T, dtype=F64),
    )


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]], list[int], int]:
    """Numbers of states, edges of a random tree (each either way round), hidden variables, a seed."""
    n_states = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    edges = []
    for j in range(1, len(n_states)):
        i = draw(st.integers(0, j - 1))
        edges.append((i, j) if draw(st.booleans()) else (j, i))
    hidden = draw(st.lists(st.integers(1, max(1, len(n_states) - 1)), unique=True, max_size=len(n_states) - 1))
    return n_states, edges, [i for i in hidden if i < len(n_states)], draw(st.integers(0, 10**6))


@settings(max_examples=50, deadline=None)
@given(trees())
def test_pairwise_is_exact_on_trees(tree: Any) -> None:
    n_states, edges, hidden, seed = tree
    model = random_pairwise(seed, n_states, edges, hidden)
    visible = [n for i, n in enumerate(n_states) if i not in hidden]
    values, weights = evidence(seed, (2, len(visible)), visible)
    query = SimpleNamespace(values=values, observed=weights)
    visible_beliefs, hidden_beliefs = naive.pairwise_mrf(model, query, n_layers=len(n_states))
    close(visible_beliefs.exp(), marginals(model, query).probs)
    close(hidden_beliefs.exp(), hidden_marginals(model, query).probs)


@settings(max_examples=50, deadline=None)
@given(trees())
def test_max_product_finds_the_mode_of_trees(tree: Any) -> None:
    n_states, edges, hidden, seed = tree
    model = random_pairwise(seed, n_states, edges, hidden, T=0.0)
    visible = [n for i, n in enumerate(n_states) if i not in hidden]
    values, weights = evidence(seed, (2, len(visible)), visible)
    query = SimpleNamespace(values=values, observed=weights)
    visible_beliefs, hidden_beliefs = naive.pairwise_mrf(model, query, n_layers=len(n_states))
    best = exact.most_probable(model, query)
    assert torch.equal(visible_beliefs.argmax(-1), best.visible)
    assert torch.equal(hidden_beliefs.argmax(-1), best.hidden)


@pytest.mark.parametrize("seed", range(5))
def test_rbm_with_one_hidden_unit_is_exact(seed: int) -> None:
    model = RBM(W=random(seed, 1, 5), c_v=random(seed + 1, 5), c_h=random(seed + 2, 1), T=ONE)
    values, weights = evidence(seed, (3, 5))
    query = SimpleNamespace(values=values, observed=weights)
    visible, hidden = naive.rbm(model, query, n_layers=2)
    close(torch.sigmoid(visible), marginals(model, query).probs)
    close(torch.sigmoid(hidden), hidden_marginals(model, query).probs)


@pytest.mark.parametrize("seed", range(5))
def test_dbm_that_is_a_tree_is_exact(seed: int) -> None:
    """v0 … v3 – h1 – h2_0 … h2_2: a star around the only unit of the first hidden layer."""
    model = DBM(W1=random(seed, 1, 4), W2=random(seed + 1, 3, 1), T=ONE)
    model.c_v, model.c_h1, model.c_h2 = random(seed + 2, 4), random(seed + 3, 1), random(seed + 4, 3)
    values, weights = evidence(seed, (3, 4))
    query = SimpleNamespace(values=values, observed=weights)
    visible, hidden = naive.dbm(model, query, n_layers=2)
    close(torch.sigmoid(visible), marginals(model, query).probs)
    close(torch.sigmoid(hidden), hidden_marginals(model, query).probs)


@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
@pytest.mark.parametrize("sigma", [1.0, 0.6])
def test_gaussian_rbm_with_one_hidden_unit_is_exact(schedule: str, sigma: float) -> None:
    """With one hidden unit the projection keeps the mixture's own moments, after one layer or (flooding) two."""
    model = GaussianRBM(W=random(0, 1, 4), b=random(1, 4), c=random(2, 1), sigma=torch.tensor(sigma, dtype=F64))
    values, weights = evidence(3, (4, 4))
    query = SimpleNamespace(values=values + random(4, 4, 4), observed=weights)
    mean, variance, hidden = naive.gaussian_rbm(model, query, 2, schedule=schedule)
    close(mean, marginals(model, query).mean)
    close(variance, marginals(model, query).variance)
    close(hidden, hidden_marginals(model, query).logits)


def test_gaussian_rbm_with_everything_seen_is_exact() -> None:
    """Clamped pixels receive nothing, so that the hidden units are independent, however many there are."""
    model = GaussianRBM(W=random(0, 3, 4), b=random(1, 4), c=random(2, 3), sigma=1.0)
    query = SimpleNamespace(values=random(3, 2, 4), observed=torch.ones(2, 4, dtype=torch.bool))
    mean, variance, hidden = naive.gaussian_rbm(model, query, 3)
    close(mean, query.values)
    close(variance, torch.full((2, 4), 1e-3, dtype=F64))
    close(hidden, hidden_marginals(model, query).logits)


def test_gaussian_floors_keep_extreme_models_finite() -> None:
    model = GaussianRBM(W=random(0, 6, 4, scale=5.0), b=random(1, 4), c=random(2, 6), sigma=1.0)
    query = SimpleNamespace(values=random(3, 2, 4), observed=torch.zeros(2, 4))
    for answer in naive.gaussian_rbm(model, query, 20, damping=0.1):
        assert answer.isfinite().all()


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)])
def test_grid_of_one_line_is_exact(shape: tuple[int, int]) -> None:
    model = random_grid(0)
    values, weights = evidence(1, (2, *shape))
    query = SimpleNamespace(values=values, observed=weights)
    labels, states = naive.grid_mrf(model, query, n_layers=3)
    close(labels.exp(), marginals(model, query).probs)
    close(states.exp(), hidden_marginals(model, query).probs)


def random_grid(seed: int, T: float = 1.0) -> Any:
    names = ("vertical", "horizontal", "diagonal", "antidiagonal")
    return GridMRF(
        clones=(2, 1, 1),
        emission=torch.tensor([0.8, 0.1, 0.01], dtype=F64),
        potentials={name: random(seed + k, 4, 4) for k, name in enumerate(names)},
        T=torch.tensor(T, dtype=F64),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Loops or not, the special cases are the general graph, layer by layer

SETTINGS = list(itertools.product([0, 1, 2, 5], [(1.0, 0.0), (0.7, 0.3), (0.0, 0.2)]))


def bits(logits: Tensor) -> Tensor:
    """Log-beliefs [..., 2] of logits."""
    return torch.stack([-torch.nn.functional.softplus(logits), -torch.nn.functional.softplus(-logits)], -1)


def agreement(w: Tensor) -> Tensor:
    """The factor of an RBM's ±1 form: ½ w x̃ ỹ."""
    return torch.stack([torch.stack([w, -w]), torch.stack([-w, w])]) / 2


@pytest.mark.parametrize(("n_layers", "how"), SETTINGS)
def test_rbm_and_dbm_are_pairwise_graphs(n_layers: int, how: tuple[float, float]) -> None:
    T, damping = how
    W1, W2, c_v, c_h1, c_h2 = random(0, 2, 3), random(1, 2, 2), random(2, 3), random(3, 2), random(4, 2)
    values, weights = evidence(5, (4, 3))
    query = SimpleNamespace(values=values, observed=weights)

    def as_pairwise(weights_of: dict[tuple[int, int], Tensor], biases: Tensor) -> tuple[Tensor, Tensor]:
        unary = [torch.stack([-c, c]) / 2 for c in biases]
        pairwise = [agreement(w) for w in weights_of.values()]
        graph = PairwiseMRF(n_states=(2,) * len(biases), edges=tuple(weights_of), hidden=range(3, len(biases)))
        graph.unary, graph.pairwise, graph.T = unary, pairwise, T
        return naive.pairwise_mrf(graph, query, n_layers, damping)

    first = {(j, 3 + i): W1[i, j] for i in range(2) for j in range(3)}
    result = naive.rbm(RBM(W=W1, c_v=c_v, c_h=c_h1, T=T), query, n_layers, damping)
    for logits, expected in zip(result, as_pairwise(first, torch.cat([c_v, c_h1])), strict=True):
        close(bits(logits), expected)

    both = first | {(3 + i, 5 + k): W2[k, i] for k in range(2) for i in range(2)}
    model = DBM(W1=W1, W2=W2, c_v=c_v, c_h1=c_h1, c_h2=c_h2, T=T)
    result = naive.dbm(model, query, n_layers, damping)
    for logits, expected in zip(result, as_pairwise(both, torch.cat([c_v, c_h1, c_h2])), strict=True):
        close(bits(logits), expected)


@pytest.mark.parametrize(("n_layers", "how"), SETTINGS)
def test_grid_is_a_pairwise_graph(n_layers: int, how: tuple[float, float]) -> None:
    T, damping = how
    model = random_grid(0, T)
    values, weights = evidence(5, (2, 2, 3))
    edges, pairwise = [], []
    for r, c in itertools.product(range(2), range(3)):
        for name, (r0, c0), (r1, c1) in (
            ("vertical", (r, c), (r + 1, c)),
            ("horizontal", (r, c), (r, c + 1)),
            ("diagonal", (r, c), (r + 1, c + 1)),
            ("antidiagonal", (r + 1, c), (r, c + 1)),
        ):
            if max(r0, r1) < 2 and max(c0, c1) < 3:
                edges.append((3 * r0 + c0, 3 * r1 + c1))
                pairwise.append(model.potentials[name])
    graph = PairwiseMRF(n_states=(4,) * 6, edges=edges, hidden=(), unary=[torch.zeros(4)] * 6, pairwise=pairwise, T=T)
    p_on = model.emission[[0, 0, 1, 2]]
    v, w = values.nan_to_num()[..., None], weights[..., None]
    likelihoods = w * (v * p_on + (1 - v) * (1 - p_on)) + (1 - w) / 2
    asked = SimpleNamespace(values=likelihoods.flatten(1, 2), observed=torch.ones(2, 6))
    _, states = naive.grid_mrf(model, SimpleNamespace(values=values, observed=weights), n_layers, damping)
    close(states.flatten(1, 2), naive.pairwise_mrf(graph, asked, n_layers, damping)[0])


def test_grid_without_local_evidence_divides_it_out() -> None:
    model = random_grid(0)
    query = SimpleNamespace(values=torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), observed=torch.ones(1, 2, 2))
    _, with_it = naive.grid_mrf(model, query, 3)
    _, without = naive.grid_mrf(model, query, 3, local_evidence=False)
    p_on = model.emission[[0, 0, 1, 2]]
    factor = torch.where(query.values[..., None] == 1, p_on, 1 - p_on)
    close(with_it, (without + factor.log()).log_softmax(-1))


# ---------------------------------------------------------------------------------------------------------------------
# Single messages


@given(st.floats(-20, 20), st.floats(-20, 20), st.sampled_from([0.3, 1.0, 4.0]))
def test_the_robust_form_is_the_derived_one(w: float, x: float, T: float) -> None:
    """f_w(x) = log(1 + e^{x+w}) − log(1 + e^{x−w}) − w, and T·f_{w/T}(x/T) at another temperature."""
    derived = T * (math.log1p(math.exp((x + w) / T)) - math.log1p(math.exp((x - w) / T))) - w
    assert naive.f(w, x, T) == pytest.approx(derived, abs=1e-9)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.1, 5))
def test_the_gaussian_belief_has_the_mixtures_moments(w: float, x: float, mu: float, var: float) -> None:
    """Against the supplement's formulas exactly as they are printed, save for the factor in θ2."""
    theta1, theta2 = mu / var, -1 / (2 * var)
    e = math.exp(x + w * mu + var * w**2 / 2)
    mu_b = (e * (mu + var * w) + mu) / (e + 1)
    var_b = (e * ((mu + var * w) ** 2 + var) + mu**2 + var) / (e + 1) - mu_b**2
    new1, new2 = naive.g_gaussian(w, x, theta1, theta2)
    assert new1 == pytest.approx(mu_b / var_b - theta1, rel=1e-6, abs=1e-6)
    assert new2 == pytest.approx(-1 / (2 * var_b) - theta2, rel=1e-6, abs=1e-6)


def test_clamped_evidence_is_exact_beyond_its_shown_size() -> None:
    """A clip at ±1000 would let a weight of 5000 through only in part."""
    model = RBM(W=torch.tensor([[5000.0]]), c_v=torch.zeros(1), c_h=torch.zeros(1), T=ONE)
    query = SimpleNamespace(values=torch.tensor([[1.0], [0.0]]), observed=torch.tensor([[True], [True]]))
    visible, hidden = naive.rbm(model, query, 1)
    assert hidden.tolist() == [[5000.0], [-5000.0]]
    assert visible.tolist() == [[1000.0], [-1000.0]]
