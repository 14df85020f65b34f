"""Reweighted belief propagation: every edge counts ρ times (tree-reweighted, fractional), with ρ fixed or learned.

A belief is θ_i + u_i + Σ_k ρ_ik m_ki, and the message along an edge is made of the table divided by its weight,

    m_ij(x_j) = log Σ_{x_i} exp(table_ij(x_i, x_j)/ρ_ij + cavity_ij(x_i)),   cavity_ij = belief_i − m_ji.

With ρ = 1 this is belief propagation, bit by bit; with ρ = 2 it is that of the graph whose edges are doubled, with half the
table on each. Where ρ_ij is the probability that a random spanning tree has the edge, fixed points are unique, and log Z
estimated from one (`log_z`) is an upper bound, since log Z is convex in the potentials: Wainwright, Jaakkola and Willsky, "A
new class of upper bounds on the log partition function" (2005). A learned ρ is a parameter of the model like any other, one
number for each table, trained by `qtcore.fit` from ρ = 1 on and positive always, since training moves its logarithm.

    model(query, engine=qtcore.Reweighted(rho=0.5))          # the same weight for every edge
    model(query, engine=qtcore.Reweighted(rho="trees"))      # those of uniform random spanning trees
    model.engine = qtcore.Reweighted(10, rho="learned")      # learned by the next qtcore.fit, and saved with the model
    reweighted.log_z(model, query)                           # the bound, by spanning trees

For pairwise graphs of discrete variables: RBM, DBM, GridMRF, PairwiseMRF, and a FactorGraph or a TableModel whose factors have
two variables at most. Larger factors, logic factors and Gaussian models are refused.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from qtcore.errors import InputError
from qtcore.inference.bp import BP, MessagePassing, bethe, categorical
from qtcore.inference.bp.binary import BinaryPassing
from qtcore.inference.bp.factors import FactorPassing
from qtcore.inference.bp.passing import Choices, Passing
from qtcore.inference.engine import Answerable
from qtcore.potentials import BinaryPotentials, FactorPotentials, GaussianPotentials, GridPotentials, Potentials
from qtcore.query import Query
from qtcore.support.tensors import has_values
from qtcore.wiring import Wiring

LEARNED, TREES = "learned", "trees"
MAX_TREE_VARIABLES = 5000
"""Spanning trees of larger graphs are not counted: that inverts a matrix of this size."""


# ---------------------------------------------------------------------- weights


def tree_probabilities(potentials: Potentials) -> Tensor:
    """For each edge, the probability that a uniform random spanning tree (of each connected part) has it: [H, V] of an RBM or
    a DBM written as one, of a factor graph one number for each factor, in the order of the graph. (A grid's edges depend on the
    size of the image: give it as factors.)

    Example:
        >>> import qtcore
        >>> from qtcore.inference.reweighted import tree_probabilities
        >>> loop = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2), (2, 0)])
        >>> tree_probabilities(loop.graph())  # each of three trees leaves out one edge
        tensor([0.6667, 0.6667, 0.6667])
    """
    if isinstance(potentials, BinaryPotentials):  # V·H edges, all alike, of which a tree has V + H − 1
        H, V = potentials.W.shape
        return torch.full_like(potentials.W.detach(), (V + H - 1) / (V * H))
    check(potentials)
    if not isinstance(potentials, FactorPotentials):
        raise InputError("give a grid as factors, of images of one size: potentials.as_factors(evidence)[0].")
    wiring, like = potentials.wiring, potentials.unary.detach()
    if not wiring.groups:
        return like.new_zeros(0)
    scopes = np.concatenate([group.scope for group in wiring.groups])
    numbers = np.concatenate([group.number for group in wiring.groups])
    pairs = np.ascontiguousarray(scopes[np.argsort(numbers)])
    return torch.tensor(_effective_resistances(len(wiring.n_states), pairs.tobytes())).to(like)


@lru_cache(maxsize=8)
def _effective_resistances(n: int, pairs: bytes) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Between the ends of every edge when each is a resistor of 1: the share of spanning trees with this edge (Kirchhoff)."""
    if n > MAX_TREE_VARIABLES:
        raise InputError(
            f"spanning trees are counted for up to {MAX_TREE_VARIABLES} variables; this graph has {n}; give rho as a number."
        )
    first, second = np.frombuffer(pairs, dtype=np.int64).reshape(-1, 2).T
    laplacian = np.zeros((n, n))
    for i, j, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
        np.add.at(laplacian, (i, j), sign)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    result: np.ndarray[tuple[int], np.dtype[np.float64]] = inverse[first, first] + inverse[second, second]
    return np.minimum(result - 2 * inverse[first, second], 1.0)


def shape_of_learned(potentials: Potentials) -> tuple[int, ...]:
    """The shape of a learned ρ: a number for each table."""
    if isinstance(potentials, BinaryPotentials):
        return tuple(potentials.W.shape)
    if isinstance(potentials, GridPotentials):
        return (len(potentials.tables),)
    check(potentials)
    assert isinstance(potentials, FactorPotentials)
    return (len(_numbers_of_tables(potentials.wiring)),)


def _numbers_of_tables(wiring: Wiring) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(group.tables for group in wiring.groups)]))


def attach(model: nn.Module, rho: "float | Tensor" = 1.0) -> None:
    """Give a model edge weights as a parameter, `model.rho`: a number, or one for each table (of an RBM: of the shape of W).
    Engines with rho=None or "learned" take them, a training with rho="learned" moves them, and files keep them.

    Example:
        >>> import torch, qtcore
        >>> from qtcore.inference import reweighted
        >>> model = qtcore.RBM(6, 3)
        >>> reweighted.attach(model, 0.5)
        >>> model.rho.shape
        torch.Size([3, 6])
    """
    potentials = model.graph()  # type: ignore[operator]
    shape = shape_of_learned(potentials)
    given = torch.as_tensor(rho).detach()
    if given.dim() and tuple(given.shape) != shape:
        raise InputError(f"rho must be a number, or one for each table {list(shape)}, not {list(given.shape)}.")
    if has_values(given) and not bool(((given > 0) & given.isfinite()).all()):
        raise InputError("rho must be > 0 and finite everywhere.")
    like = next(model.parameters())
    model.rho = nn.Parameter(given.to(like).expand(shape).clone(), requires_grad=False)


# ---------------------------------------------------------------------- message passing


class ReweightedFactors(FactorPassing):
    """Reweighted messages on a pairwise graph, with a weight for each factor (rho, a tensor for each group: [F] or [1])."""

    def __init__(
        self, potentials: FactorPotentials, evidence: Tensor, choices: Choices, rho: list[Tensor], own_evidence: bool = True
    ) -> None:
        super().__init__(potentials, evidence, choices)
        self.rho, self.own_evidence = rho, own_evidence
        least = [float(each.detach().min()) if has_values(each) else 1.0 for each in rho]
        self.arithmetic = [
            self._arithmetic(tables, extent / smallest)
            for tables, extent, smallest in zip(self.scaled_tables, self.extents, least, strict=True)
        ]
        parts = [
            each.expand(len(group.scope)).repeat(sum(group.shape)) for each, group in zip(rho, self.wiring.groups, strict=True)
        ]
        self.weight = torch.cat(parts)[:, None] if parts else evidence.new_ones(0, 1)
        """ρ of each message [M, 1]."""

    def used(self, group: int) -> Tensor:
        tables, rho = super().used(group), self.rho[group][:, None, None]
        return categorical.scale(tables, 1 / rho) if self.has_zeros else tables / rho

    def counted(self, group: int) -> Tensor:
        return self.rho[group].expand(len(self.wiring.groups[group].scope))

    def _weighted(self, messages: Tensor) -> Tensor:
        return categorical.scale(messages, self.weight) if self.has_zeros else self.weight * messages

    def sums(self, messages: Tensor) -> Tensor:
        return self.unary + self.where.collect(self._weighted(messages))

    def cavities(self, messages: Tensor) -> Tensor:
        if not self.has_zeros:
            return super().cavities(messages)
        zero = messages.isneginf()
        ruled_out = super().cavities(messages).isneginf()
        others = messages.masked_fill(zero, 0)
        alone = self.unary + self.scaled_evidence
        belief = alone.masked_fill(alone.isneginf(), 0) + self.where.collect(self.weight * others)
        return (self.where.spread(belief) - others).masked_fill(ruled_out, -torch.inf)

    def answers(self, messages: Tensor) -> tuple[Distribution, Distribution]:
        collected = self.where.collect(self._weighted(messages))
        if self.own_evidence:
            return self._answers(collected)
        return self.potentials.answers(self.where.rows((self.unary + collected) * self.T))

    def shown(self, messages: Tensor) -> dict[str, Tensor]:
        """What arrives: ρ times each message."""
        return super().shown(self._weighted(messages))

    def _native(self) -> bool:
        return False


def check(potentials: Potentials) -> None:
    """Raise an InputError for a graph that cannot be reweighted."""
    if isinstance(potentials, GaussianPotentials):
        raise InputError("reweighted belief propagation is for models of discrete variables, not for a Gaussian RBM.")
    if isinstance(potentials, FactorPotentials):
        for group in potentials.wiring.groups:
            if group.rule or len(group.shape) > 2:
                what = f"the logic factor {group.rule!r}" if group.rule else f"a factor of {len(group.shape)} variables"
                names = ", ".join(map(potentials.wiring.name, group.scope[0].tolist()))
                raise InputError(f"reweighted belief propagation is for factors of two variables, not for {what}: ({names}).")


@dataclass(frozen=True)
class Reweighted(MessagePassing):
    """Reweighted belief propagation, unrolled. An option that is None is taken from the model's own engine, if that is of this
    kind too; the number of layers from any engine that has one.

    Args:
        n_layers: number of updates of all messages.
        damping: weight of the old message in the new one; 0 means none.
        temperature: 1 is sum-product, 0 is max-product.
        schedule: "flooding" alone.
        until: stop when no message changes by more than this.
        at_most: the largest number of layers, if `until` is given.
        rho: the weight of every edge; "trees" for those of uniform random spanning trees; "learned" for the model's own
            (`model.rho`), which `qtcore.fit` makes and trains. None: the model's own if it has them, else "trees".

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.RBM(6, 3)
        >>> query = qtcore.Query(torch.ones(1, 6), torch.arange(6)[None] < 4)
        >>> torch.equal(model(query, engine=qtcore.Reweighted(rho=1)).probs, model(query).probs)
        True
    """

    name = "reweighted"
    rho: float | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        rho = self.rho
        if isinstance(rho, Tensor):
            raise InputError("rho must be one number here; give each table its own with reweighted.attach(model, rho).")
        number = isinstance(rho, int | float) and not isinstance(rho, bool) and 0 < rho < math.inf
        if rho is not None and rho not in (LEARNED, TREES) and not number:
            raise InputError(f"rho must be a number > 0, {TREES!r} or {LEARNED!r}, not {rho!r}.")

    def prepare(self, model: Answerable) -> None:
        if (self.rho if self.rho is not None else self._own(model).rho) == LEARNED:
            if model.rho is None:
                attach(model)  # type: ignore[arg-type]
            assert model.rho is not None
            model.rho.requires_grad_()

    def _rho(self, model: Answerable) -> "float | str":
        chosen = self.rho if self.rho is not None else self._own(model).rho
        return (TREES if model.rho is None else LEARNED) if chosen is None else chosen

    def passing(self, model: Answerable, query: Query) -> Passing:
        potentials = model.graph()
        check(potentials)
        rho = self._rho(model)
        if rho == 1:
            how = self._damping(model), self.temperature, self._schedule(model, ("flooding",))
            return BP(None, *how).passing(model, query)
        if not isinstance(potentials, BinaryPotentials):
            return self.factor_passing(model, query)
        if rho == TREES:
            weights = tree_probabilities(potentials)
        else:
            weights = self._learned(model) if rho == LEARNED else torch.full_like(potentials.W.detach(), float(rho))
        return BinaryPassing(potentials, model.evidence(query), self._choices(model), weights)

    def factor_passing(self, model: Answerable, query: Query) -> ReweightedFactors:
        potentials = model.graph()
        check(potentials)
        assert not isinstance(potentials, GaussianPotentials)
        factors, evidence = potentials.as_factors(model.evidence(query))
        rho, wiring, like = self._rho(model), factors.wiring, factors.unary
        if rho == LEARNED:
            every, numbers = self._learned(model).flatten(), _numbers_of_tables(wiring)
            if isinstance(potentials, GridPotentials):  # a narrow image has not all of them
                numbers = np.arange(len(every))
            places = [np.searchsorted(numbers, group.tables) for group in wiring.groups]
            own = [p if len(p) == 1 else p[group.table] for p, group in zip(places, wiring.groups, strict=True)]
            weights = [every[torch.tensor(which, device=like.device)] for which in own]
        elif rho == TREES:
            every = tree_probabilities(factors).to(like)
            weights = [every[torch.tensor(group.number, device=like.device)] for group in wiring.groups]
        else:
            weights = [like.new_full((1,), float(rho)) for _ in wiring.groups]
        with_own_evidence = not isinstance(potentials, GridPotentials) or potentials.own_evidence
        return ReweightedFactors(factors, evidence, self._choices(model), weights, with_own_evidence)

    def _learned(self, model: Answerable) -> Tensor:
        if model.rho is None:
            raise InputError(
                f"this {type(model).__name__} has learned no edge weights; train it with this engine, "
                f"or give rho as a number or {TREES!r}."
            )
        return model.rho

    def _choices(self, model: Answerable) -> Choices:
        T, sums = self._unit(model)
        schedule = self._schedule(model, ("flooding",))
        unit = torch.ones(()) if T is None else T
        return Choices(unit, sums, self._damping(model), schedule, False, type(model).__name__)

    def kept_bytes(self, model: Answerable, shape: tuple[int, ...]) -> int:
        potentials = model.graph()
        check(potentials)
        if isinstance(potentials, BinaryPotentials):
            return self.steps(model) * 6 * potentials.W.numel() * potentials.W.dtype.itemsize
        if isinstance(potentials, GridPotentials):
            table = potentials.tables
            return self.steps(model) * 12 * 8 * shape[0] * shape[1] * table.shape[-1] * table.dtype.itemsize
        assert isinstance(potentials, FactorPotentials)
        messages = sum(len(group.scope) * sum(group.shape) for group in potentials.wiring.groups)
        return self.steps(model) * max(1, 12 * messages) * potentials.unary.dtype.itemsize


def log_z(model: Answerable, query: Query, engine: Reweighted | None = None) -> Tensor:
    """log Z given the evidence of each query [B] as the messages after the layers of an engine have it, at temperature 1: at
    their fixed point an upper bound, if rho are the edge probabilities of some distribution of spanning trees ("trees", which
    is the default, or smaller numbers).

    Example:
        >>> import torch, qtcore
        >>> from qtcore.inference import reweighted
        >>> loop = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2), (2, 0)])
        >>> nothing = qtcore.Query(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
        >>> bool(reweighted.log_z(loop, nothing) > qtcore.exact.log_z(loop))
        True
    """
    return bethe.log_z(model, query, engine or Reweighted(rho=TREES, damping=0.5, until=1e-6, at_most=1000))
