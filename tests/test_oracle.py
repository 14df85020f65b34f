"""The oracle itself, against cases done by hand and against loops that sum one joint state after the other."""

import itertools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from qtcore.errors import InputError

from . import oracle as exact

F64 = torch.float64
marginals: Any = exact.marginals  # some Distribution: the tests know which
hidden_marginals: Any = exact.hidden_marginals


# Models as the oracle sees them: stored parameters under a class name.
class RBM(SimpleNamespace):
    pass


class DBM(SimpleNamespace):
    pass


class GaussianRBM(SimpleNamespace):
    pass


class PairwiseMRF(SimpleNamespace):
    pass


class GridMRF(SimpleNamespace):
    pass


def query(values: Any, observed: Any) -> SimpleNamespace:
    """A query as the oracle sees it: two tensors, in float64 so that 0.3 is 0.3 to the last digit."""
    values, observed = (
        given if isinstance(given, Tensor) else torch.from_numpy(np.asarray(given)) for given in (values, observed)
    )
    return SimpleNamespace(values=values, observed=observed)


def close(result: Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(result, torch.as_tensor(expected, dtype=result.dtype), rtol=tolerance, atol=tolerance)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def enumerate_states(n_states: Sequence[int], weight: Callable[[tuple[int, ...]], float]) -> tuple[list[list[float]], Any]:
    """Marginals and mode of p(x) ∝ weight(x), one state at a time."""
    sums = [[0.0] * n for n in n_states]
    best, best_weight, total = None, -1.0, 0.0
    for state in itertools.product(*map(range, n_states)):
        w = weight(state)
        total += w
        for i, s in enumerate(state):
            sums[i][s] += w
        if w > best_weight:
            best, best_weight = state, w
    return [[x / total for x in row] for row in sums], best


def bit_evidence(v: float, w: float, bit: int) -> float:
    if w == 0:
        return 0.5
    p = w * v + (1 - w) / 2
    return p if bit else 1 - p


# ---------------------------------------------------------------------------------------------------------------------
# By hand


def test_one_hidden_unit_one_visible_by_hand() -> None:
    """A factor scores 0 for agreement and −w for disagreement, so agreement has probability σ(w)."""
    model = RBM(W=torch.tensor([[1.5]]), c_v=torch.zeros(1), c_h=torch.zeros(1))
    close(exact.log_z(model), math.log(2 + 2 * math.exp(-1.5)))
    asked = query([[1.0], [0.0], [math.nan]], [[True], [True], [False]])
    agree = 1 / (1 + math.exp(-1.5))
    close(hidden_marginals(model, asked).probs, [[agree], [1 - agree], [0.5]])
    close(marginals(model, asked).probs, [[1.0], [0.0], [0.5]])
    close(exact.log_likelihood(model, torch.tensor([[0.0], [1.0]])), [math.log(0.5)] * 2)


def test_soft_bit_by_hand() -> None:
    """Without weights a soft reading is the answer: a 1 that is right with probability 0.6 has p = 0.8."""
    model = RBM(W=torch.zeros(1, 2), c_v=torch.zeros(2), c_h=torch.zeros(1))
    p = marginals(model, query([[1.0, 0.3]], [[0.6, 1.0]])).probs
    close(p, [[0.8, 0.3]])


def test_biases_are_log_odds_by_hand() -> None:
    model = RBM(W=torch.zeros(1, 2), c_v=torch.tensor([2.0, -3.0]), c_h=torch.tensor([0.5]))
    asked = query([[0.0, 0.0]], [[False, False]])
    close(marginals(model, asked).logits, [[2.0, -3.0]])
    close(hidden_marginals(model, asked).logits, [[0.5]])


def test_soft_category_by_hand() -> None:
    model = PairwiseMRF(n_states=(4,), edges=(), hidden=(), unary=[torch.zeros(4)], pairwise=[])
    close(marginals(model, query([[2]], [[0.6]])).probs, [[[0.1, 0.1, 0.7, 0.1]]])
    likelihoods = [[[1.0, 0.0, 3.0, 0.0]]]
    close(marginals(model, query(likelihoods, [[True]])).probs, [[[0.25, 0, 0.75, 0]]])
    close(marginals(model, query(likelihoods, [[0.2]])).probs, [[[0.25, 0.2, 0.35, 0.2]]])


def test_soft_grid_pixel_by_hand() -> None:
    """A single pixel has no neighbours: its states are weighted by w·p(v | label) + (1 − w)/2 alone."""
    model = GridMRF(clones=(2, 1, 1), emission=torch.tensor([0.8, 0.1, 0.0]), potentials={})
    model.potentials = dict.fromkeys(("vertical", "horizontal", "diagonal", "antidiagonal"), torch.zeros(4, 4))
    on = marginals(model, query([[[1.0]]], [[[True]]])).probs
    close(on, [[[[1.6 / 1.7, 0.1 / 1.7, 0.0]]]], 1e-6)  # two clones of CONTOUR; the emission is float32
    half_on = marginals(model, query([[[0.25]]], [[[True]]])).probs
    contour, out, inside = 2 * (0.25 * 0.8 + 0.75 * 0.2), 0.25 * 0.1 + 0.75 * 0.9, 0.75
    total = contour + out + inside
    close(half_on, [[[[contour / total, out / total, inside / total]]]], 1e-6)
    soft = marginals(model, query([[[1.0]]], [[[0.5]]])).probs
    contour, out, inside = 2 * (0.4 + 0.25), 0.05 + 0.25, 0.25
    total = contour + out + inside
    close(soft, [[[[contour / total, out / total, inside / total]]]], 1e-6)


def test_gaussian_unary_by_hand() -> None:
    """With W = 0: N(b, σ²) unobserved, N(v, ε) clamped, and the natural parameters of both in between."""
    model = GaussianRBM(W=torch.zeros(1, 3), b=torch.tensor([0.5, 0.5, 0.5]), c=torch.zeros(1), sigma=2.0)
    answer = marginals(model, query([[math.nan, 3.0, 3.0]], [[0.0, 1.0, 0.25]]))
    evidence = 0.25 / (0.75 + 1e-3)
    precision = evidence + 0.75 / 4
    close(answer.mean, [[0.5, 3.0, (evidence * 3 + 0.75 * 0.5 / 4) / precision]])
    close(answer.variance, [[4.0, 1e-3, 1 / precision]])
    close(exact.log_z(model), 1.5 * math.log(2 * math.pi * 4) + math.log(2))


# ---------------------------------------------------------------------------------------------------------------------
# Against loops

VALUES = [[1.0, 0.0, 1.0], [math.nan, 0.3, 1.0], [math.nan, math.nan, math.nan], [0.0, 1.0, 0.0]]
WEIGHTS = [[1.0, 1.0, 0.4], [0.0, 1.0, 0.9], [0.0, 0.0, 0.0], [0.5, 1.0, 0.0]]


def test_rbm() -> None:
    W, c_v, c_h = random(2, 3, seed=0), random(3, seed=1), random(2, seed=2)
    model = RBM(W=W, c_v=c_v, c_h=c_h, T=torch.tensor(3.0))

    def phi(v: Tensor, h: Tensor) -> float:
        one_h, one_v = torch.ones(2, dtype=F64), torch.ones(3, dtype=F64)
        return float(2 * h @ W @ v + h @ (c_h - W @ one_v) + v @ (c_v - W.T @ one_h))

    check_binary(model, 3, 2, lambda x: phi(x[:3], x[3:]))


def test_dbm() -> None:
    W1, W2, c_v, c_h1, c_h2 = (
        random(2, 3, seed=0),
        random(1, 2, seed=1),
        random(3, seed=2),
        random(2, seed=3),
        random(1, seed=4),
    )
    model = DBM(W1=W1, W2=W2, c_v=c_v, c_h1=c_h1, c_h2=c_h2, T=torch.tensor(1.0))

    def phi(x: Tensor) -> float:
        v, h1, h2 = x[:3], x[3:5], x[5:]
        pairs = 2 * h2 @ W2 @ h1 + 2 * h1 @ W1 @ v
        biases = h2 @ (c_h2 - W2.sum(1)) + v @ (c_v - W1.sum(0)) + h1 @ (c_h1 - W2.sum(0) - W1.sum(1))
        return float(pairs + biases)

    check_binary(model, 3, 3, phi)


def check_binary(model: Any, n_visible: int, n_hidden: int, phi: Callable[[Tensor], float]) -> None:
    n = n_visible + n_hidden
    prior = {x: math.exp(phi(torch.tensor(x, dtype=F64))) for x in itertools.product((0, 1), repeat=n)}
    close(exact.log_z(model), math.log(sum(prior.values())))
    asked = query(VALUES, WEIGHTS)
    visible, hidden = marginals(model, asked), hidden_marginals(model, asked)
    best = exact.most_probable(model, asked)
    for b, (values, weights) in enumerate(zip(VALUES, WEIGHTS, strict=True)):

        def weight(x: tuple[int, ...], values: Any = values, weights: Any = weights) -> float:
            return prior[x] * math.prod(bit_evidence(v, w, s) for v, w, s in zip(values, weights, x, strict=False))

        expected, mode = enumerate_states([2] * n, weight)
        close(visible.probs[b], [p[1] for p in expected[:n_visible]])
        close(hidden.probs[b], [p[1] for p in expected[n_visible:]])
        assert (*best.visible[b].tolist(), *best.hidden[b].tolist()) == mode
    rows = list(itertools.product((0, 1), repeat=n_visible))
    likelihood = exact.log_likelihood(model, torch.tensor(rows, dtype=torch.float32))
    for row, result in zip(rows, likelihood, strict=True):
        close(result, math.log(sum(p for x, p in prior.items() if x[:n_visible] == row) / sum(prior.values())))
    close(likelihood.exp().sum(), 1.0)


def test_pairwise() -> None:
    """Variables of 3, 2, 4 and 2 states, the second one hidden, an edge in each direction, a loop."""
    n_states, edges, hidden = (3, 2, 4, 2), ((0, 1), (2, 1), (2, 0), (3, 2)), (1,)
    unary = [random(n, seed=n + i) for i, n in enumerate(n_states)]
    pairwise = [random(n_states[i], n_states[j], seed=10 * i + j) for i, j in edges]
    model = PairwiseMRF(n_states=n_states, edges=edges, hidden=hidden, unary=unary, pairwise=pairwise)

    def prior(x: tuple[int, ...]) -> float:
        total = sum(float(unary[i][s]) for i, s in enumerate(x))
        return math.exp(total + sum(float(pairwise[e][x[i], x[j]]) for e, (i, j) in enumerate(edges)))

    values, weights = [[2, 3, 1], [0, 1, 0]], [[0.5, 1.0, 0.0], [0.0, 0.3, 1.0]]
    asked = query(values, weights)
    result, found_hidden, best = marginals(model, asked), hidden_marginals(model, asked), None
    assert result.logits.shape == (2, 3, 4)
    for b in range(2):

        def weight(x: tuple[int, ...], b: int = b) -> float:
            total = prior(x)
            for v, w, i in zip(values[b], weights[b], (0, 2, 3), strict=True):
                total *= w * (x[i] == v) + (1 - w) / n_states[i]
            return total

        expected, mode = enumerate_states(n_states, weight)
        for column, i in enumerate((0, 2, 3)):
            close(result.probs[b, column], expected[i] + [0.0] * (4 - n_states[i]))
        close(found_hidden.probs[b, 0], [*expected[1], 0.0, 0.0])
        best = exact.most_probable(model, asked)
        assert (int(best.visible[b, 0]), int(best.hidden[b, 0]), *best.visible[b, 1:].tolist()) == mode
    z = sum(prior(x) for x in itertools.product(*map(range, n_states)))
    close(exact.log_z(model), math.log(z))
    row = sum(prior((2, h, 3, 1)) for h in range(2)) / z
    close(exact.log_likelihood(model, torch.tensor([[2, 3, 1]])), [math.log(row)])


def test_grid() -> None:
    """Two rows of three pixels with 2 + 1 + 1 states: every direction occurs, and none is symmetric."""
    names = ("vertical", "horizontal", "diagonal", "antidiagonal")
    potentials = {name: random(4, 4, seed=k) for k, name in enumerate(names)}
    emission, label = torch.tensor([0.8, 0.1, 0.3], dtype=F64), [0, 0, 1, 2]
    model = GridMRF(height=2, width=3, clones=(2, 1, 1), emission=emission, potentials=potentials)

    def prior(x: tuple[int, ...]) -> float:
        at = {(r, c): x[3 * r + c] for r in range(2) for c in range(3)}
        total = 0.0
        for r, c in at:
            if (r + 1, c) in at:
                total += float(potentials["vertical"][at[r, c], at[r + 1, c]])
            if (r, c + 1) in at:
                total += float(potentials["horizontal"][at[r, c], at[r, c + 1]])
            if (r + 1, c + 1) in at:
                total += float(potentials["diagonal"][at[r, c], at[r + 1, c + 1]])
            if (r - 1, c + 1) in at:
                total += float(potentials["antidiagonal"][at[r, c], at[r - 1, c + 1]])
        return math.exp(total)

    image, weights = [1.0, 0.0, 0.25, math.nan, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0, 0.5, 1.0]

    def weight(x: tuple[int, ...]) -> float:
        total = prior(x)
        for s, v, w in zip(x, image, weights, strict=True):
            p = float(emission[label[s]])
            total *= w * (v * p + (1 - v) * (1 - p)) + (1 - w) / 2 if w else 0.5
        return total

    expected, mode = enumerate_states([4] * 6, weight)
    asked = query([[image[:3], image[3:]]], [[weights[:3], weights[3:]]])
    states = hidden_marginals(model, asked).probs
    close(states, torch.tensor(expected, dtype=F64).view(1, 2, 3, 4))
    labels = marginals(model, asked).probs
    close(labels, torch.stack([states[..., 0] + states[..., 1], states[..., 2], states[..., 3]], -1))
    best = exact.most_probable(model, asked)
    assert tuple(best.hidden.flatten().tolist()) == mode
    assert best.visible.flatten().tolist() == [label[s] for s in mode]
    total = sum(prior(x) for x in itertools.product(range(4), repeat=6))
    close(exact.log_z(model), math.log(total))
    images = torch.tensor(list(itertools.product((0.0, 1.0), repeat=6))).view(-1, 2, 3)
    close(exact.log_likelihood(model, images).exp().sum(), 1.0)


@pytest.mark.parametrize("sigma", [1.0, 0.7])
def test_gaussian(sigma: float) -> None:
    """Each pixel integrated numerically, one hidden state after the other."""
    W, b, c = random(2, 3, seed=0), random(3, seed=1), random(2, seed=2)
    model = GaussianRBM(W=W, b=b, c=c, sigma=torch.tensor(sigma, dtype=F64))
    x = torch.linspace(-12, 12, 200_001, dtype=F64)

    def integral(density: Tensor) -> float:
        return float(density.sum() * (x[1] - x[0]))

    def moments(factor: Callable[[int, float], Tensor], copies: dict[int, Tensor]) -> tuple[Any, ...]:
        """Z, E[h], E[v], Var[v] when given h pixel j has the density factor(j, Σ_i h_i W_ij / σ), and pixels in
        `copies` are read by each hidden unit for itself."""
        z, e_h = 0.0, torch.zeros(2, dtype=F64)
        e_v, e_vv = torch.zeros(3, dtype=F64), torch.zeros(3, dtype=F64)
        for h in itertools.product((0, 1), repeat=2):
            weight, first, second = math.exp(sum(c[i] * h[i] for i in range(2))), [0.0] * 3, [0.0] * 3
            for j in range(3):
                if j in copies:
                    weight *= math.prod(integral(copies[j] * torch.exp(h[i] * W[i, j] / sigma * x)) for i in range(2))
                    density = copies[j]
                else:
                    density = factor(j, sum(h[i] * float(W[i, j]) for i in range(2)) / sigma)
                    weight *= integral(density)
                mass = integral(density)
                first[j], second[j] = integral(density * x) / mass, integral(density * x * x) / mass
            z += weight
            e_h += weight * torch.tensor(h, dtype=F64)
            e_v += weight * torch.tensor(first, dtype=F64)
            e_vv += weight * torch.tensor(second, dtype=F64)
        return z, e_h / z, e_v / z, e_vv / z - (e_v / z) ** 2

    z, e_h, e_v, var_v = moments(lambda j, a: torch.exp(-((x - b[j]) ** 2) / (2 * sigma**2) + a * x), {})
    close(exact.log_z(model), math.log(z), 1e-8)
    nothing = query([[math.nan] * 3], [[False] * 3])
    close(hidden_marginals(model, nothing).probs[0], e_h, 1e-8)
    close(marginals(model, nothing).mean[0], e_v, 1e-8)
    close(marginals(model, nothing).variance[0], var_v, 1e-8)

    values, weights = [0.7, -1.2, math.nan], [1.0, 0.6, 0.0]

    def factor(j: int, a: float) -> Tensor:
        evidence = weights[j] / (1 - weights[j] + 1e-3)
        v = values[j] if weights[j] else 0.0
        theta1 = evidence * v + (1 - weights[j]) * float(b[j]) / sigma**2
        return torch.exp((theta1 + a) * x - (evidence + (1 - weights[j]) / sigma**2) * x * x / 2)

    seen = torch.exp(-((x - 0.7) ** 2) / (2 * 1e-3)) / math.sqrt(2 * math.pi * 1e-3)
    _, e_h, e_v, var_v = moments(factor, {0: seen})
    asked = query([values], [weights])
    close(hidden_marginals(model, asked).probs[0], e_h, 1e-6)
    close(marginals(model, asked).mean[0], e_v, 1e-6)
    close(marginals(model, asked).variance[0], var_v, 1e-6)
    close(marginals(model, asked).mean[0, 0], 0.7)  # the clamped pixel itself receives nothing from the hidden units
    close(marginals(model, asked).variance[0, 0], 1e-3)
    close(exact.most_probable(model, asked).visible[0, 0], 0.7)

    rows = random(4, 3, seed=5)
    for row, result in zip(rows, exact.log_likelihood(model, rows), strict=True):
        phi = [
            float(-((row - b) ** 2).sum() / (2 * sigma**2) + c @ h + h @ W @ row / sigma)
            for h in torch.tensor(list(itertools.product((0.0, 1.0), repeat=2)), dtype=F64)
        ]
        close(result, math.log(sum(map(math.exp, phi)) / z), 1e-8)


def test_gaussian_mode_is_a_maximum() -> None:
    """No other hidden state, and no nearby picture, is more probable."""
    W, b, c = random(3, 2, seed=0), random(2, seed=1), random(3, seed=2)
    model = GaussianRBM(W=W, b=b, c=c, sigma=1.0)
    best = exact.most_probable(model, query([[math.nan, 0.4]], [[False, 0.5]]))
    evidence = 0.5 / (0.5 + 1e-3)

    def phi(v: Tensor, h: Tensor) -> float:
        unary = b[0] * v[0] - v[0] ** 2 / 2
        unary += (evidence * 0.4 + 0.5 * b[1]) * v[1] - (evidence + 0.5) * v[1] ** 2 / 2
        return float(unary + c @ h + h @ W @ v)

    v, h = best.visible[0], best.hidden[0].to(F64)
    for other in itertools.product((0.0, 1.0), repeat=3):
        o = torch.tensor(other, dtype=F64)
        pixel0 = b[0] + o @ W[:, 0]
        pixel1 = (evidence * 0.4 + 0.5 * b[1] + o @ W[:, 1]) / (evidence + 0.5)
        assert phi(torch.stack([pixel0, pixel1]), o) <= phi(v, h) + 1e-12
    for step in ([1e-3, 0], [-1e-3, 0], [0, 1e-3], [0, -1e-3]):
        assert phi(v + torch.tensor(step), h) < phi(v, h)


# ---------------------------------------------------------------------------------------------------------------------
# Refusals, and what must not matter


def test_unseen_values_do_not_matter() -> None:
    model = RBM(W=random(2, 3, seed=0), c_v=random(3, seed=1), c_h=random(2, seed=2))
    answers = [
        marginals(model, query([[value, 1.0, value]], [[False, True, False]])).logits
        for value in (0.0, 1.0, math.nan, math.inf)
    ]
    assert all(torch.equal(answers[0], answer) for answer in answers)


def test_clamped_bits_show_finite_logits() -> None:
    model = RBM(W=random(1, 2, seed=0), c_v=torch.zeros(2), c_h=torch.zeros(1))
    answer = marginals(model, query([[1.0, 0.0]], [[True, True]]))
    assert answer.logits.tolist() == [[1000.0, -1000.0]]
    assert answer.log_prob(torch.tensor([[1.0, 0.0]], dtype=F64)).tolist() == [[0.0, 0.0]]


def test_a_subclass_is_answered_too() -> None:
    class Trained(RBM):
        pass

    close(exact.log_z(Trained(W=torch.zeros(1, 1), c_v=torch.zeros(1), c_h=torch.zeros(1))), math.log(4))


def test_too_large() -> None:
    model = RBM(W=torch.zeros(12, 12), c_v=torch.zeros(12), c_h=torch.zeros(12))
    with pytest.raises(InputError, match=r"1\.68e\+07 joint states is too large"):
        exact.log_z(model)


def test_twenty_two_bits_are_not_too_large() -> None:
    model = RBM(W=torch.zeros(11, 11), c_v=torch.zeros(11), c_h=torch.zeros(11))
    close(exact.log_z(model), 22 * math.log(2))


def test_unknown_model() -> None:
    with pytest.raises(InputError, match="no exact answer for a SimpleNamespace"):
        exact.log_z(SimpleNamespace())


@pytest.mark.parametrize(
    ("values", "observed", "message"),
    [
        ([[0.0, 1.0]], [[True, True]], "do not fit a model of 3 visible variables"),
        ([[0.0, 1.0, 0.0]], [[True, True]], "do not fit"),
        ([[0.0, math.nan, 0.0]], [[True, True, True]], "must be finite where"),
    ],
)
def test_bad_queries(values: Any, observed: Any, message: str) -> None:
    rbm = RBM(W=torch.zeros(1, 3), c_v=torch.zeros(3), c_h=torch.zeros(1))
    gaussian = GaussianRBM(W=torch.zeros(1, 3), b=torch.zeros(3), c=torch.zeros(1), sigma=1.0)
    for model in (rbm, gaussian):
        with pytest.raises(InputError, match=message):
            marginals(model, query(values, observed))


def test_impossible_evidence() -> None:
    pairwise = [torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])]
    model = PairwiseMRF(n_states=(2, 2), edges=((0, 1),), hidden=(), unary=[torch.zeros(2)] * 2, pairwise=pairwise)
    with pytest.raises(InputError, match="probability 0"):
        marginals(model, query([[0, 1]], [[True, True]]))


def test_fractional_values_have_no_likelihood() -> None:
    model = RBM(W=torch.zeros(1, 2), c_v=torch.zeros(2), c_h=torch.zeros(1))
    for bad in (0.5, math.nan):
        with pytest.raises(InputError, match="exact values"):
            exact.log_likelihood(model, torch.tensor([[0.0, bad]]))
