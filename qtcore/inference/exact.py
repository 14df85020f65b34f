"""Exact answers for small or narrow models: marginals, log Z and the most probable state.

A discrete model of up to 2²² joint states, as a factor graph, is added up into one table of log-weights with an axis per
variable, in float64; every answer is a sum or a maximum over that table. This is slow, but it passes no messages: it is the
reference for belief propagation. In a larger one variables are eliminated one after the other (`elimination`), which needs
a graph of moderate width. For a Gaussian RBM the pixels are integrated out and the hidden states enumerated.

    model(query, engine=qtcore.Exact())    # the same kind of distribution as model(query), with gradients
    exact.marginals(model, query)          # the same without gradients, as all that follows
    exact.hidden_marginals(model, query)
    exact.most_probable(model, query)      # State(visible, hidden)
    exact.sample(model, query, count)      # joint states, drawn independently of each other
    exact.joint(model)                     # the table itself
    exact.log_z(model)
    exact.log_likelihood(model, values)    # log p(v) of fully observed rows

A temperature changes belief propagation, not the model's distribution: none of this depends on a model's `T`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Normal

from qtcore import logic
from qtcore.errors import InputError
from qtcore.evidence import GaussianEvidence
from qtcore.inference.elimination import EliminationPosterior
from qtcore.inference.engine import Answerable, Engine, change_of_marginals
from qtcore.potentials import FactorPotentials, GaussianPotentials
from qtcore.query import Query
from qtcore.support.tensors import log_sum

MAX_STATES = 2**22
"""Largest table: 32 MB of float64, and a few seconds per query."""


class State(NamedTuple):
    """One joint state per query, batch first. For a grid, `visible` holds labels and `hidden` states, clones distinguished."""

    visible: Tensor
    hidden: Tensor


class Discrete:
    """A distribution over a few discrete variables, p(x) ∝ exp(log_weights[x_0, x_1, …])."""

    def __init__(self, log_weights: Tensor) -> None:
        self.log_weights = log_weights

    @classmethod
    def of(cls, n_states: Sequence[int], terms: "Sequence[tuple[tuple[int, ...], Tensor]]") -> "Discrete":
        """From log-potentials, each with its scope: the variables on its axes."""
        if math.prod(n_states) > MAX_STATES:
            raise InputError(
                f"a model of about 10^{sum(math.log10(size) for size in n_states):.1f} joint states is too large to enumerate; "
                f"exact answers need at most {MAX_STATES} of them."
            )
        table = torch.zeros(tuple(n_states), dtype=torch.float64)
        for scope, values in terms:
            table += _along(_float64(values), scope, table.ndim)
        return cls(table)

    def with_evidence(self, log_evidence: Sequence[Tensor]) -> "Discrete":
        """The same distribution times a likelihood of each variable, given as logarithms [S_i]."""
        table = self.log_weights.clone()
        for i, values in enumerate(log_evidence):
            table += _along(values, (i,), table.ndim)
        return Discrete(table)

    @property
    def log_z(self) -> Tensor:
        """log Σ_x exp(log_weights[x]), a scalar."""
        return self.log_weights.flatten().logsumexp(0)

    def log_marginal(self, *variables: int) -> Tensor:
        """log p of some variables, listed in increasing order: [S_i], or [S_i, S_j], …"""
        log_z = self.log_z
        if torch.isneginf(log_z):
            raise InputError("the evidence has probability 0 under this model, so that no marginals exist.")
        others = [i for i in range(self.log_weights.ndim) if i not in variables]
        return (log_sum(self.log_weights, others) if others else self.log_weights) - log_z

    def mode(self) -> Tensor:
        """The most probable joint state, one index per variable; the first one if there are ties."""
        flat = self.log_weights.flatten()
        return torch.stack(torch.unravel_index(flat.argmax(), self.log_weights.shape))


class Answers(NamedTuple):
    """The exact marginals of a query."""

    visible: Distribution
    hidden: Distribution


@dataclass(frozen=True)
class Exact(Engine):
    """Exact marginals of a small or narrow model, in float64. There are no steps: `init` computes the answer.

    Example:
        >>> import torch, qtcore
        >>> tree = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> exact = tree(query, engine=qtcore.Exact())
        >>> torch.allclose(tree(query).probs.double(), exact.probs, atol=1e-5)  # BP is exact on a tree
        True
    """

    name = "exact"

    def init(self, model: Answerable, query: Query) -> Answers:
        return Answers(*_posterior(model, query).answers())

    def step(self, state: Answers) -> tuple[Answers, dict[str, Tensor]]:
        """Nothing: the answer is there, and the residual is 0."""
        return state, {"residual": change_of_marginals(state, state)}

    def marginals(self, state: Answers) -> Distribution:
        return state.visible

    def hidden(self, state: Answers) -> Distribution:
        return state.hidden

    def steps(self, model: Answerable) -> int:
        return 0

    def at(self, n: int | None) -> "Exact":
        return self


# ---------------------------------------------------------------------------------------------------------------------
# Functions of a model


def marginals(model: Any, query: Query) -> Distribution:
    """Marginals of the visible variables given the evidence, as the same kind of distribution as `model(query)`.

    RBM and DBM: Bernoulli [B, V]; GaussianRBM: the mean and deviation of the exact mixture, as Normal [B, V], and
    N(v, ε) where a pixel is clamped; PairwiseMRF: Categorical [B, V] over the variables that are not hidden, padded with
    −inf; GridMRF: Categorical [B, H, W] over the labels CONTOUR = 0, OUT = 1, IN = 2.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> tree = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> torch.allclose(tree(query).probs.double(), exact.marginals(tree, query).probs, atol=1e-5)  # BP is exact on a tree
        True
    """
    with torch.no_grad():
        return Exact().run(model, query)


def hidden_marginals(model: Any, query: Query) -> Distribution:
    """Marginals of the hidden variables: RBM and GaussianRBM Bernoulli [B, H]; DBM Bernoulli [B, H1 + H2]; PairwiseMRF
    Categorical over its hidden variables; GridMRF Categorical [B, H, W] over all states, clones distinguished.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> query = qtcore.Query(torch.ones(2, 4), torch.ones(2, 4, dtype=torch.bool))
        >>> exact.hidden_marginals(qtcore.RBM(4, 3), query).probs.shape
        torch.Size([2, 3])
    """
    model.check(query)
    with torch.no_grad():
        return Exact().init(model, query).hidden


def most_probable(model: Any, query: Query) -> State:
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
    model.check(query)
    with torch.no_grad():
        return _posterior(model, query).most_probable()


def sample(model: Any, query: Query, count: int = 1, generator: torch.Generator | None = None) -> State:
    """Joint states of a discrete model drawn from its distribution given the evidence, independently of each other: for each
    row of the query so many [count, B, …].

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> chain = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> nothing = qtcore.Query(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
        >>> exact.sample(chain, nothing, 1000).visible.shape
        torch.Size([1000, 1, 3])
    """
    model.check(query)
    if not isinstance(count, int) or count < 1:
        raise InputError(f"count must be a whole number ≥ 1, not {count!r}.")
    potentials = model.graph()
    if isinstance(potentials, GaussianPotentials):
        raise InputError(f"a {type(model).__name__} has real variables; samples are of models of discrete ones.")
    factors, evidence = potentials.as_factors(model.evidence(query, torch.float64))
    return State(*EliminationPosterior(factors, evidence).sample(count, generator))


def joint(model: Any) -> Discrete:
    """The joint distribution of all variables of a discrete model, hidden ones too, without evidence."""
    with torch.no_grad():
        posterior = _posterior(model, _nothing_observed(model))
    if isinstance(posterior, _GaussianPosterior):
        raise InputError(f"a {type(model).__name__} has real variables, so that its joint distribution is no table.")
    if isinstance(posterior, _WidePosterior):
        posterior = _DiscretePosterior(posterior.posterior.potentials, posterior.posterior.evidence)  # says how large it is
    return posterior.joint


def log_z(model: Any) -> Tensor:
    """log of the sum (GaussianRBM: and integral) of exp φ over all visible and hidden states, without evidence.

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> model = qtcore.RBM.from_textbook(torch.zeros(2, 3), torch.zeros(3), torch.zeros(2))
        >>> round(exact.log_z(model).exp().item())  # 2³ visible and 2² hidden states, all of weight 1
        32
    """
    with torch.no_grad():
        return _posterior(model, _nothing_observed(model)).log_z


def log_likelihood(model: Any, values: Tensor) -> Tensor:
    """log p(v) [B] of rows with every visible variable observed, the hidden ones summed out (GaussianRBM: a density).

    Example:
        >>> import torch, qtcore
        >>> from qtcore import exact
        >>> every_v = torch.cartesian_prod(*[torch.arange(2.0)] * 3)
        >>> round(exact.log_likelihood(qtcore.RBM(3, 2), every_v).exp().sum().item(), 6)
        1.0
    """
    query = Query(values, torch.ones(values.shape, dtype=torch.bool, device=values.device))
    model.check(query)
    with torch.no_grad():
        return _posterior(model, query).log_likelihood(_float64(values), log_z(model))


def _nothing_observed(model: Any) -> Query:
    shape = tuple(size if size is not None else own for size, own in zip(model.variables.shape, _image(model), strict=False))
    nothing = torch.zeros((1, *shape), dtype=torch.bool, device=model.device)
    return Query(nothing.float(), nothing)


def _image(model: Any) -> Sequence[int]:
    return model.image_shape or (0,) * len(model.variables.shape)


def _posterior(model: Any, query: Query) -> "_DiscretePosterior | _WidePosterior | _GaussianPosterior":
    potentials, evidence = model.graph(), model.evidence(query, torch.float64)
    if isinstance(potentials, GaussianPotentials):
        return _GaussianPosterior(potentials, evidence)
    factors, log = potentials.as_factors(evidence)
    small = math.prod(factors.wiring.n_states) <= MAX_STATES
    return _DiscretePosterior(factors, log) if small else _WidePosterior(factors, log)


# ---------------------------------------------------------------------------------------------------------------------
# Discrete models


class _DiscretePosterior:
    """p(x | evidence) for each query of a batch, as a table."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor) -> None:
        self.potentials, self.evidence = potentials, _float64(evidence)
        wiring = potentials.wiring
        self.sizes = list(wiring.n_states)
        terms: list[tuple[tuple[int, ...], Tensor]] = [
            ((i,), values) for i, values in enumerate(_float64(potentials.unary).split(self.sizes))
        ]
        for group, tables in zip(wiring.groups, potentials.tables, strict=True):
            if group.rule:
                tables = logic.table(group.rule, len(group.shape))[None]
            for scope, table in zip(group.scope.tolist(), group.table.tolist(), strict=True):
                terms.append((tuple(scope), tables[table]))
        self.joint = Discrete.of(self.sizes, terms)

    def rows(self) -> Iterator[Discrete]:
        """The joint distribution given the evidence, for each query of the batch in turn."""
        for row in self.evidence.T:
            yield self.joint.with_evidence(row.split(self.sizes))

    def answers(self) -> tuple[Distribution, Distribution]:
        width = max(self.sizes)
        logits = torch.full((self.evidence.shape[1], len(self.sizes), width), -math.inf, dtype=torch.float64)
        for b, row in enumerate(self.rows()):
            for i, size in enumerate(self.sizes):
                logits[b, i, :size] = row.log_marginal(i)
        return self.potentials.answers(logits)

    def most_probable(self) -> State:
        return State(*self.potentials.states(torch.stack([row.mode() for row in self.rows()])))

    @property
    def log_z(self) -> Tensor:
        return self.joint.log_z

    def log_likelihood(self, values: Tensor, log_z: Tensor) -> Tensor:
        if not torch.equal(values, values.round()):
            raise InputError("a likelihood needs exact values, but some of these are fractional or missing.")
        return torch.stack([row.log_z for row in self.rows()]) - log_z


class _WidePosterior:
    """The same by elimination, for models that are too large to enumerate."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor) -> None:
        self.posterior = EliminationPosterior(potentials, evidence)

    def answers(self) -> tuple[Distribution, Distribution]:
        return self.posterior.answers()

    def most_probable(self) -> State:
        return State(*self.posterior.most_probable())

    @property
    def log_z(self) -> Tensor:
        return self.posterior.log_z[0]

    def log_likelihood(self, values: Tensor, log_z: Tensor) -> Tensor:
        if not torch.equal(values, values.round()):
            raise InputError("a likelihood needs exact values, but some of these are fractional or missing.")
        return self.posterior.log_z - log_z


# ---------------------------------------------------------------------------------------------------------------------
# The Gaussian RBM


class _GaussianPosterior:
    """φ(v, h) = −‖v − b‖²/(2σ²) + cᵀh + hᵀWv/σ, with the pixels integrated out and the hidden states enumerated.

    Given h the pixels are independent Gaussians with natural parameters θ1 + Wᵀh/σ and θ2 = −P/2, where θ1 and P are the
    unary of a pixel. Integrating a pixel out leaves (θ1 + a)²/(2P) with a = Σ_i h_i W_ij/σ, a quadratic function of h:
    unaries and pairs of hidden units.

    A clamped pixel (w = 1) is cut out of the graph: each hidden unit receives N(v, ε), and the pixel itself stays N(v, ε). It
    therefore couples no two hidden units.
    """

    def __init__(self, potentials: GaussianPotentials, evidence: GaussianEvidence) -> None:
        self.W, self.c = _float64(potentials.W), _float64(potentials.c)
        self.prior = _float64(potentials.prior_linear), _float64(potentials.prior_precision)
        self.unary = _float64(evidence.linear), _float64(evidence.precision), evidence.clamped.cpu()

    def hidden_joint(self, theta: Tensor, precision: Tensor, clamped: Tensor) -> Discrete:
        """p(h) with all pixels integrated out, up to a factor that does not depend on h; arguments [V]."""
        coupling = (self.W / precision) @ self.W.T
        unary = self.c + self.W @ (theta / precision) + coupling.diagonal() / 2
        free = torch.where(clamped, 0.0, 1 / precision)
        coupling = (self.W * free) @ self.W.T
        pairs = [(i, k) for i in range(len(self.c)) for k in range(i + 1, len(self.c))]
        terms: list[tuple[tuple[int, ...], Tensor]] = [((i,), _bit(a)) for i, a in enumerate(unary)]
        return Discrete.of([2] * len(self.c), terms + [(pair, _both(coupling[pair])) for pair in pairs])

    def answers(self) -> tuple[Distribution, Distribution]:
        means, variances, logits = [], [], []
        for theta, precision, clamped in zip(*self.unary, strict=True):
            joint = self.hidden_joint(theta, precision, clamped)
            p, covariance = _moments(joint)
            mean = (theta + p @ self.W) / precision
            variance = 1 / precision + ((covariance @ self.W) * self.W).sum(0) / precision**2
            means.append(torch.where(clamped, theta / precision, mean))
            variances.append(torch.where(clamped, 1 / precision, variance))
            logits.append(torch.stack([log_p[1] - log_p[0] for log_p in map(joint.log_marginal, range(len(self.c)))]))
        visible = Normal(torch.stack(means), torch.stack(variances).sqrt(), validate_args=False)
        return visible, Bernoulli(logits=torch.stack(logits), validate_args=False)

    def most_probable(self) -> State:
        """The best v for each h is its conditional mean, whose height differs from the integral by a constant."""
        visible, hidden = [], []
        for theta, precision, clamped in zip(*self.unary, strict=True):
            hidden.append(self.hidden_joint(theta, precision, clamped).mode())
            mean = theta + torch.where(clamped, 0.0, hidden[-1].to(torch.float64) @ self.W)
            visible.append(mean / precision)
        return State(torch.stack(visible), torch.stack(hidden))

    @property
    def log_z(self) -> Tensor:
        linear, precision = self.prior
        gaussians = (2 * math.pi / precision).log().sum() / 2
        return gaussians + self.hidden_joint(linear, precision, torch.zeros_like(linear, dtype=torch.bool)).log_z

    def log_likelihood(self, values: Tensor, log_z: Tensor) -> Tensor:
        linear, precision = self.prior
        unary = -((values - linear / precision) ** 2 * precision).sum(1) / 2
        return unary + torch.nn.functional.softplus(self.c + values @ self.W.T).sum(1) - log_z


# ---------------------------------------------------------------------------------------------------------------------
# Helpers


def _float64(values: Any) -> Tensor:
    return torch.as_tensor(values).to("cpu", torch.float64)


def _along(values: Tensor, scope: tuple[int, ...], n_axes: int) -> Tensor:
    """`values` with its axes moved to the positions `scope` of `n_axes`, to be broadcast over the others."""
    order = sorted(range(len(scope)), key=lambda axis: scope[axis])
    shape = [1] * n_axes
    for axis in order:
        shape[scope[axis]] = values.shape[axis]
    return values.permute(order).reshape(shape)


def _bit(a: Tensor) -> Tensor:
    """The log-potential a·x of a bit x."""
    return torch.stack([torch.zeros_like(a), a])


def _both(a: Tensor) -> Tensor:
    """The log-potential a·x·y of two bits."""
    table = torch.zeros(2, 2, dtype=torch.float64)
    table[1, 1] = a
    return table


def _moments(joint: Discrete) -> tuple[Tensor, Tensor]:
    """Means [H] and covariances [H, H] of bits."""
    n = joint.log_weights.ndim
    p = torch.stack([joint.log_marginal(i)[1].exp() for i in range(n)])
    both = p.diag()
    for i in range(n):
        for k in range(i + 1, n):
            both[i, k] = both[k, i] = joint.log_marginal(i, k)[1, 1].exp()
    return p, both - p[:, None] * p[None, :]
