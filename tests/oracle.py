"""The oracle of the tests: marginals, log Z and the most probable state of small models, by enumerating every joint state.

Nothing here passes a message. A model's stored parameters, in the paper's convention, are added up into one table of
log-weights with an axis per variable, in float64, and everything asked for is a sum or a maximum over that table. So
it is slow, refuses models of more than 2²² joint states, and shares no code with `qtcore.bp`: it is what belief
propagation is compared with.

    exact.marginals(model, query)          # the same kind of distribution as model(query)
    exact.hidden_marginals(model, query)
    exact.most_probable(model, query)      # State(visible, hidden)
    exact.log_z(model)
    exact.log_likelihood(model, values)    # log p(v) of fully observed rows

A temperature changes belief propagation, not the model's distribution: none of this depends on a model's `T`.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Normal

from qtcore.errors import InputError

MAX_STATES = 2**22
"""Largest table: 32 MB of float64, and a few seconds for a query."""

MAX_LOGIT = 1000.0
"""What a clamped bit shows as its log-odds, which are infinite (the paper clips its evidence at the same number)."""

EPSILON = 1e-3
"""Variance of the evidence on a seen pixel of a Gaussian RBM (the supplement's ε)."""


class State(NamedTuple):
    """One joint state per query, batch first. For a grid, `visible` holds labels and `hidden` states, clones apart."""

    visible: Tensor
    hidden: Tensor


class Discrete:
    """A distribution over a few discrete variables, p(x) ∝ exp(log_weights[x_0, x_1, …])."""

    def __init__(self, log_weights: Tensor) -> None:
        self.log_weights = log_weights

    @classmethod
    def pairwise(
        cls, unary: Sequence[Tensor], edges: Sequence[tuple[int, int]] = (), pairwise: Sequence[Tensor] = ()
    ) -> "Discrete":
        """From log-potentials `unary[i]` [S_i] and, for each edge (i, j), `pairwise[e]` [S_i, S_j]."""
        n_states = [len(values) for values in unary]
        if math.prod(n_states) > MAX_STATES:
            raise InputError(
                f"a model of {math.prod(n_states):.3g} joint states is too large to enumerate; "
                f"exact answers need at most {MAX_STATES} of them."
            )
        table = torch.zeros(n_states, dtype=torch.float64)
        for i, values in enumerate(unary):
            table += _along(_float64(values), (i,), table.ndim)
        for (i, j), values in zip(edges, pairwise, strict=True):
            values = _float64(values)
            table += _along(values, (i, j), table.ndim) if i < j else _along(values.T, (j, i), table.ndim)
        return cls(table)

    def with_evidence(self, log_evidence: Mapping[int, Tensor]) -> "Discrete":
        """The same variables, with a log-likelihood [S_i] for each variable named."""
        table = self.log_weights.clone()
        for i, values in log_evidence.items():
            table += _along(values, (i,), table.ndim)
        return Discrete(table)

    @property
    def log_z(self) -> Tensor:
        """log Σ_x exp(log_weights[x]), a scalar."""
        return self.log_weights.flatten().logsumexp(0)

    def log_marginal(self, *variables: int) -> Tensor:
        """log p of the variables, given in increasing order: [S_i], or [S_i, S_j], …"""
        log_z = self.log_z
        if torch.isneginf(log_z):
            raise InputError("the evidence has probability 0 under this model, so that no marginals exist.")
        others = [i for i in range(self.log_weights.ndim) if i not in variables]
        return (self.log_weights.logsumexp(others) if others else self.log_weights) - log_z

    def mode(self) -> Tensor:
        """The most probable joint state, one index per variable; the first of several equals."""
        flat = self.log_weights.flatten()
        return torch.stack(torch.unravel_index(flat.argmax(), self.log_weights.shape))


# ---------------------------------------------------------------------------------------------------------------------
# What a model is asked


def marginals(model: Any, query: Any) -> Distribution:
    """Marginals of the visible variables given the evidence, as the same kind of distribution as `model(query)`.

    RBM and DBM: Bernoulli [B, V]; GaussianRBM: the mean and deviation of the exact mixture, as Normal [B, V], and
    N(v, ε) where a pixel is seen; PairwiseMRF: Categorical [B, V] over the variables that are not hidden, padded with
    −inf; GridMRF: Categorical [B, H, W] over the labels CONTOUR = 0, OUT = 1, IN = 2.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> tree = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> torch.allclose(tree(query).probs.double(), exact.marginals(tree, query).probs, atol=1e-5)  # on a tree LBP is exact
        True
    """
    return _oracle(model, tuple(query.values.shape[1:])).marginals(query)


def hidden_marginals(model: Any, query: Any) -> Distribution:
    """Marginals of the hidden variables: RBM, GaussianRBM Bernoulli [B, H]; DBM Bernoulli [B, H1 + H2]; PairwiseMRF
    Categorical over its hidden variables; GridMRF Categorical [B, H, W] over all states, clones apart.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> query = qtcore.Query(torch.ones(2, 4), torch.ones(2, 4, dtype=torch.bool))
        >>> exact.hidden_marginals(qtcore.RBM(4, 3), query).probs.shape
        torch.Size([2, 3])
    """
    return _oracle(model, tuple(query.values.shape[1:])).hidden_marginals(query)


def most_probable(model: Any, query: Any) -> State:
    """The joint state of visible and hidden variables with the highest probability given the evidence.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> model = qtcore.RBM.from_textbook(torch.tensor([[4.0, -4.0]]), torch.zeros(2), torch.zeros(1))
        >>> query = qtcore.Query(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]))
        >>> state = exact.most_probable(model, query)
        >>> state.visible, state.hidden
        (tensor([[1, 0]]), tensor([[1]]))
    """
    return _oracle(model, tuple(query.values.shape[1:])).most_probable(query)


def log_z(model: Any) -> Tensor:
    """log of the sum (GaussianRBM: and integral) of exp φ over all visible and hidden states, without evidence.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> model = qtcore.RBM.from_textbook(torch.zeros(2, 3), torch.zeros(3), torch.zeros(2))
        >>> round(exact.log_z(model).exp().item())  # 2³ visible and 2² hidden states, all of weight 1
        32
    """
    return _oracle(model, None).log_z()


def log_likelihood(model: Any, values: Tensor) -> Tensor:
    """log p(v) [B] of rows with every visible variable seen, the hidden ones summed out (GaussianRBM: a density).

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> every_v = torch.cartesian_prod(*[torch.arange(2.0)] * 3)
        >>> round(exact.log_likelihood(qtcore.RBM(3, 2), every_v).exp().sum().item(), 6)
        1.0
    """
    return _oracle(model, tuple(values.shape[1:])).log_likelihood(values)


# ---------------------------------------------------------------------------------------------------------------------
# Discrete models


class _DiscreteOracle:
    """A model as one table; subclasses fill in the three attributes, and say how evidence and answers look.

    `size` is the shape of a sample, for the models that have no fixed one.
    """

    joint: Discrete
    visible: Sequence[int]  # variables of the table that take evidence, in the order of a query's columns
    hidden: Sequence[int]

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        raise NotImplementedError

    def log_evidence(self, variable: int, value: Tensor, weight: Tensor) -> Tensor:
        """log φ(s) [S] of one variable: soft evidence of weight w, a reading that is right with probability w."""
        raise NotImplementedError

    def distribution(self, log_p: list[list[Tensor]]) -> Distribution:
        """The answer for rows of variables, each given by its log-probabilities [S]."""
        raise NotImplementedError

    def columns(self, values: Tensor) -> Tensor:
        """`values` or weights with one column per visible variable."""
        return values

    def rows(self, values: Tensor, observed: Tensor) -> Iterator[Discrete]:
        """The joint distribution given the evidence, for one query of the batch after the other."""
        values, weights = _evidence(self.columns(values), self.columns(observed), len(self.visible))
        for row, row_weights in zip(values, weights, strict=True):
            yield self.joint.with_evidence(
                {
                    variable: self.log_evidence(variable, value, weight)
                    for variable, value, weight in zip(self.visible, row, row_weights, strict=True)
                    if weight != 0
                }
            )

    def marginals(self, query: Any) -> Distribution:
        rows = self.rows(query.values, query.observed)
        return self.distribution([[row.log_marginal(i) for i in self.visible] for row in rows])

    def hidden_marginals(self, query: Any) -> Distribution:
        rows = self.rows(query.values, query.observed)
        return self.distribution([[row.log_marginal(i) for i in self.hidden] for row in rows])

    def most_probable(self, query: Any) -> State:
        modes = torch.stack([row.mode() for row in self.rows(query.values, query.observed)])
        return State(modes[:, list(self.visible)], modes[:, list(self.hidden)])

    def log_z(self) -> Tensor:
        return self.joint.log_z

    def log_likelihood(self, values: Tensor) -> Tensor:
        values = _float64(values)
        if not torch.equal(values, values.round()):
            raise InputError("a likelihood needs exact values, but some of these are fractional or missing.")
        rows = self.rows(values, torch.ones(values.shape))
        return torch.stack([row.log_z for row in rows]) - self.joint.log_z


class _BinaryOracle(_DiscreteOracle):
    """Bits: φ(1) = w·v + (1 − w)/2, where v may be fractional."""

    def log_evidence(self, variable: int, value: Tensor, weight: Tensor) -> Tensor:
        return torch.stack([weight * (1 - value), weight * value]).add((1 - weight) / 2).log()

    def distribution(self, log_p: list[list[Tensor]]) -> Distribution:
        logits = [[(p[1] - p[0]).clamp(-MAX_LOGIT, MAX_LOGIT) for p in row] for row in log_p]
        return Bernoulli(logits=_stack(logits), validate_args=False)


class _RBMOracle(_BinaryOracle):
    """Eq. eqn:rbm: φ(v, h) = 2hᵀWv + hᵀ(c_h − W1) + vᵀ(c_v − Wᵀ1); the table's axes are v, then h."""

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        W, c_v, c_h = (_float64(tensor) for tensor in (model.W, model.c_v, model.c_h))
        H, V = W.shape
        unary = [_bit(a) for a in torch.cat([c_v - W.sum(0), c_h - W.sum(1)])]
        edges = [(j, V + i) for i in range(H) for j in range(V)]
        self.joint = Discrete.pairwise(unary, edges, [_both(2 * w) for w in W.flatten()])
        self.visible, self.hidden = range(V), range(V, V + H)


class _DBMOracle(_BinaryOracle):
    """Eq. eqn:dbm: φ = 2h₂ᵀW₂h₁ + 2h₁ᵀW₁v + h₂ᵀ(c_h2 − W₂1) + h₁ᵀ(c_h1 − W₂ᵀ1 − W₁1) + vᵀ(c_v − W₁ᵀ1)."""

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        W1, W2, c_v, c_h1, c_h2 = (_float64(tensor) for tensor in (model.W1, model.W2, model.c_v, model.c_h1, model.c_h2))
        (H1, V), H2 = W1.shape, len(W2)
        biases = [c_v - W1.sum(0), c_h1 - W2.sum(0) - W1.sum(1), c_h2 - W2.sum(1)]
        edges = [(j, V + i) for i in range(H1) for j in range(V)]
        edges += [(V + i, V + H1 + k) for k in range(H2) for i in range(H1)]
        weights = torch.cat([W1.flatten(), W2.flatten()])
        self.joint = Discrete.pairwise([_bit(a) for a in torch.cat(biases)], edges, [_both(2 * w) for w in weights])
        self.visible, self.hidden = range(V), range(V, V + H1 + H2)


class _PairwiseOracle(_DiscreteOracle):
    """Any graph of log-potentials: φ(s) = w·1[s = v] + (1 − w)/S, or w·L(s)/ΣL + (1 − w)/S for a likelihood L."""

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        self.n_states = [int(n) for n in model.n_states]
        edges = [(int(i), int(j)) for i, j in model.edges]
        unary = [_float64(model.unary[i]) for i in range(len(self.n_states))]
        self.joint = Discrete.pairwise(unary, edges, [_float64(model.pairwise[e]) for e in range(len(edges))])
        self.hidden = sorted(int(i) for i in model.hidden)
        self.visible = [i for i in range(len(self.n_states)) if i not in self.hidden]

    def log_evidence(self, variable: int, value: Tensor, weight: Tensor) -> Tensor:
        S = self.n_states[variable]
        if value.ndim:
            likelihood = value[:S] / value[:S].sum()
        else:
            likelihood = (torch.arange(S) == value).to(torch.float64)
        return (weight * likelihood + (1 - weight) / S).log()

    def distribution(self, log_p: list[list[Tensor]]) -> Distribution:
        width = max(self.n_states)
        padded = [[torch.nn.functional.pad(p, (0, width - len(p)), value=-math.inf) for p in row] for row in log_p]
        return Categorical(logits=_stack(padded, width), validate_args=False)


class _FactorGraphOracle(_PairwiseOracle):
    """Factors of any order: every joint state by itself, every factor looked up in its table."""

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        from .naive import entry, factors_of

        self.n_states = [int(n) for n in model.n_states]
        weights = torch.zeros(self.n_states, dtype=torch.float64)
        for scope, table in factors_of(model):
            for state in itertools.product(*map(range, self.n_states)):
                weights[state] += entry(table, tuple(state[i] for i in scope))
        self.joint = Discrete(weights)
        self.hidden = sorted(int(i) for i in model.hidden)
        self.visible = [i for i in range(len(self.n_states)) if i not in self.hidden]


class _GridOracle(_DiscreteOracle):
    """Pixels, row by row; the evidence is w·p(v | label) + (1 − w)/2, where a fractional v mixes p(on) and p(off)."""

    NEIGHBOURS = (  # name, then (row, column) of index 0 and of index 1 of the log-potential
        ("vertical", (0, 0), (1, 0)),
        ("horizontal", (0, 0), (0, 1)),
        ("diagonal", (0, 0), (1, 1)),
        ("antidiagonal", (1, 0), (0, 1)),
    )

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        if size is not None and len(size) != 2:
            raise InputError(f"a grid expects images [batch, height, width], not samples of shape {list(size)}.")
        self.height, self.width = size or (int(model.height), int(model.width))
        clones = torch.tensor([int(n) for n in model.clones])
        self.labels = torch.arange(3).repeat_interleave(clones)
        self.p_on = _float64(model.emission)[self.labels]
        edges, pairwise = [], []
        for name, (r0, c0), (r1, c1) in self.NEIGHBOURS:
            for r in range(self.height - max(r0, r1)):
                for c in range(self.width - max(c0, c1)):
                    edges.append(((r + r0) * self.width + c + c0, (r + r1) * self.width + c + c1))
                    pairwise.append(_float64(model.potentials[name]))
        n = self.height * self.width
        self.joint = Discrete.pairwise([torch.zeros(len(self.labels))] * n, edges, pairwise)
        self.visible = self.hidden = range(n)

    def columns(self, values: Tensor) -> Tensor:
        return values.flatten(1)

    def log_evidence(self, variable: int, value: Tensor, weight: Tensor) -> Tensor:
        seen = value * self.p_on + (1 - value) * (1 - self.p_on)
        return (weight * seen + (1 - weight) / 2).log()

    def distribution(self, log_p: list[list[Tensor]]) -> Categorical:
        logits = _stack(log_p)
        return Categorical(logits=logits.view(-1, self.height, self.width, logits.shape[-1]), validate_args=False)

    def marginals(self, query: Any) -> Distribution:
        rows = self.rows(query.values, query.observed)
        states = self.distribution([[row.log_marginal(i) for i in self.visible] for row in rows]).logits
        labels = [states[..., self.labels == label].logsumexp(-1) for label in range(3)]
        return Categorical(logits=torch.stack(labels, -1), validate_args=False)

    def most_probable(self, query: Any) -> State:
        states = super().most_probable(query).hidden.view(-1, self.height, self.width)
        return State(self.labels[states], states)


# ---------------------------------------------------------------------------------------------------------------------
# The Gaussian RBM


class _GaussianOracle:
    """φ(v, h) = −‖v − b‖²/(2σ²) + cᵀh + hᵀWv/σ, with the pixels integrated out and the hidden states enumerated.

    Given h the pixels are independent Gaussians with natural parameters θ1 + Wᵀh/σ and θ2 = −P/2, where the unary of a
    pixel of weight w has θ1 = λv + (1 − w)b/σ² and P = λ + (1 − w)/σ², with λ = w/(1 − w + ε). Integrating a pixel
    out leaves (θ1 + a)²/(2P) with a = Σ_i h_i W_ij/σ: a quadratic function of h: unaries and pairs of hidden units.

    A clamped pixel (w = 1) is cut out of the graph: each hidden unit reads N(v, ε), and the pixel
    itself stays N(v, ε). It therefore couples no two hidden units.
    """

    def __init__(self, model: Any, size: tuple[int, ...] | None) -> None:
        self.sigma, self.b, self.c = (_float64(tensor) for tensor in (model.sigma, model.b, model.c))
        self.W = _float64(model.W) / self.sigma  # in the only form in which it is used

    def unary(self, query: Any) -> tuple[Tensor, Tensor, Tensor]:
        """θ1 and P of each pixel's own factor, and which pixels are seen outright; each [B, V]."""
        values, weights = _evidence(query.values, query.observed, len(self.b))
        evidence = weights / (1 - weights + EPSILON)
        precision = evidence + (1 - weights) / self.sigma**2
        return evidence * values + (1 - weights) * self.b / self.sigma**2, precision, weights == 1

    def hidden_joint(self, theta: Tensor, precision: Tensor, seen: Tensor) -> Discrete:
        """p(h) with all pixels integrated out, up to a factor that does not depend on h; arguments [V]."""
        coupling = (self.W / precision) @ self.W.T
        unary = self.c + self.W @ (theta / precision) + coupling.diagonal() / 2
        free = torch.where(seen, 0.0, 1 / precision)
        coupling = (self.W * free) @ self.W.T
        pairs = [(i, k) for i in range(len(self.c)) for k in range(i + 1, len(self.c))]
        return Discrete.pairwise([_bit(a) for a in unary], pairs, [_both(coupling[pair]) for pair in pairs])

    def marginals(self, query: Any) -> Distribution:
        means, variances = [], []
        for theta, precision, seen in zip(*self.unary(query), strict=True):
            p, covariance = _moments(self.hidden_joint(theta, precision, seen))
            mean = (theta + p @ self.W) / precision
            variance = 1 / precision + ((covariance @ self.W) * self.W).sum(0) / precision**2
            means.append(torch.where(seen, theta / precision, mean))
            variances.append(torch.where(seen, 1 / precision, variance))
        return Normal(torch.stack(means), torch.stack(variances).sqrt(), validate_args=False)

    def hidden_marginals(self, query: Any) -> Distribution:
        rows = [self.hidden_joint(*row) for row in zip(*self.unary(query), strict=True)]
        logits = [[log_p[1] - log_p[0] for log_p in map(row.log_marginal, range(len(self.c)))] for row in rows]
        return Bernoulli(logits=_stack(logits), validate_args=False)

    def most_probable(self, query: Any) -> State:
        """The best v for each h is its conditional mean, whose height differs from the integral by a constant."""
        visible, hidden = [], []
        for theta, precision, seen in zip(*self.unary(query), strict=True):
            hidden.append(self.hidden_joint(theta, precision, seen).mode())
            mean = theta + torch.where(seen, 0.0, hidden[-1].to(torch.float64) @ self.W)
            visible.append(mean / precision)
        return State(torch.stack(visible), torch.stack(hidden))

    def log_z(self) -> Tensor:
        prior = self.b / self.sigma**2, torch.ones_like(self.b) / self.sigma**2
        gaussians = torch.log(2 * math.pi * self.sigma**2).expand_as(self.b).sum() / 2
        return gaussians + self.hidden_joint(*prior, torch.zeros_like(self.b, dtype=torch.bool)).log_z

    def log_likelihood(self, values: Tensor) -> Tensor:
        values = _float64(values)
        own = -((values - self.b) ** 2 / (2 * self.sigma**2)).sum(1)
        return own + torch.nn.functional.softplus(self.c + values @ self.W.T).sum(1) - self.log_z()


# ---------------------------------------------------------------------------------------------------------------------
# Helpers

_ORACLES: dict[str, type[_DiscreteOracle] | type[_GaussianOracle]] = {
    "RBM": _RBMOracle,
    "DBM": _DBMOracle,
    "GaussianRBM": _GaussianOracle,
    "GridMRF": _GridOracle,
    "PairwiseMRF": _PairwiseOracle,
    "FactorGraph": _FactorGraphOracle,
}


def _oracle(model: Any, size: tuple[int, ...] | None) -> _DiscreteOracle | _GaussianOracle:
    """By the name of the model's class or of a base class: the oracle reads parameters and needs no model's code."""
    for cls in type(model).__mro__:
        if cls.__name__ in _ORACLES:
            return _ORACLES[cls.__name__](model, size)
    raise InputError(f"there is no exact answer for a {type(model).__name__}, only for {', '.join(_ORACLES)}.")


def _float64(values: Any) -> Tensor:
    return torch.as_tensor(values).detach().to("cpu", torch.float64)


def _evidence(values: Any, observed: Any, n_visible: int) -> tuple[Tensor, Tensor]:
    """Values [B, V] (or [B, V, S]) and weights [B, V]; what is unobserved has no say, whatever number stands there."""
    values, weights = _float64(values), _float64(observed)
    if weights.shape != (len(values), n_visible) or values.shape[:2] != weights.shape:
        raise InputError(
            f"values of shape {list(values.shape)} with weights of shape {list(weights.shape)} do not fit "
            f"a model of {n_visible} visible variables."
        )
    unobserved = (weights == 0).reshape(weights.shape + (1,) * (values.ndim - 2))
    values = torch.where(unobserved, 0.0, values)
    if not values.isfinite().all():
        raise InputError("values must be finite where they are observed, but there is NaN or infinity.")
    return values, weights


def _along(values: Tensor, axes: tuple[int, ...], n_axes: int) -> Tensor:
    """`values` with its axes, in increasing order, at those places among `n_axes`, to be broadcast over the others."""
    shape = [1] * n_axes
    for axis, n in zip(axes, values.shape, strict=True):
        shape[axis] = n
    return values.reshape(shape)


def _bit(a: Tensor) -> Tensor:
    """The log-potential a·x of a bit x."""
    return torch.stack([torch.zeros_like(a), a])


def _both(a: Tensor) -> Tensor:
    """The log-potential a·x·y of two bits."""
    table = torch.zeros(2, 2, dtype=torch.float64)
    table[1, 1] = a
    return table


def _stack(rows: list[list[Tensor]], width: int = 0) -> Tensor:
    """[B, V, …] from B rows of V tensors; with V = 0, [B, 0, width]."""
    return torch.stack([torch.stack(row) if row else torch.zeros(0, width, dtype=torch.float64) for row in rows])


def _moments(joint: Discrete) -> tuple[Tensor, Tensor]:
    """Means [H] and covariances [H, H] of bits."""
    n = joint.log_weights.ndim
    p = torch.stack([joint.log_marginal(i)[1].exp() for i in range(n)])
    both = p.diag()
    for i in range(n):
        for k in range(i + 1, n):
            both[i, k] = both[k, i] = joint.log_marginal(i, k)[1, 1].exp()
    return p, both - p[:, None] * p[None, :]
