"""Clamped Gibbs sampling, the slow way to marginals, for models that were not trained with belief propagation.

One chain per sample of the query, all in one batch. A sweep draws the hidden units given the visible variables and then
the visible variables (and h2 of a DBM) given the hidden units. Marginals are averages of the conditionals p(v_i | h), which
have a lower variance than the samples (Rao-Blackwell); soft evidence enters these conditionals, and clamped variables keep
their values. On a factor graph, variables that share no factor are drawn together, one such set after the other. A model's
temperature plays no part: its distribution does not depend on it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, MixtureSameFamily, Normal
from torch.nn.functional import pad

from qtcore.errors import InputError, NotFiniteError
from qtcore.evidence import BinaryEvidence, GaussianEvidence
from qtcore.inference.bp.factors import Logs, outgoing
from qtcore.inference.engine import Answerable, Engine, change_of_marginals, expectations
from qtcore.potentials import BinaryPotentials, FactorPotentials, GaussianPotentials
from qtcore.query import Query
from qtcore.support.progress import progress
from qtcore.support.tensors import has_values
from qtcore.wiring import Wiring


class Kept(NamedTuple):
    """Statistics of the sweeps kept so far: their number, and what the chain accumulates."""

    sweeps: int
    tensors: tuple[Tensor, ...]


class BinaryChain:
    """RBM and DBM: one side of the bipartite graph given the other."""

    def __init__(self, potentials: BinaryPotentials, evidence: BinaryEvidence, generator: torch.Generator) -> None:
        self.potentials, self.generator = potentials, generator
        W, c_v, c_h = (tensor.detach() for tensor in (potentials.W, potentials.c_v, potentials.c_h))
        extra = W.shape[1] - evidence.soft.shape[1]
        soft, self.hard = (pad(tensor, (0, extra)) for tensor in evidence)
        self.W = 2 * W
        self.bias_h = c_h - W.sum(1)
        self.bias_v = c_v - W.sum(0) + soft
        self.start = self._draw(self._clamp(torch.sigmoid(self.bias_v)))

    def _draw(self, p: Tensor) -> Tensor:
        return (torch.rand(p.shape, generator=self.generator, dtype=p.dtype, device=p.device) < p).to(p.dtype)

    def _clamp(self, p: Tensor) -> Tensor:
        """Probabilities with the clamped variables at their values."""
        return torch.where(self.hard != 0, (self.hard + 1) / 2, p)

    def given_visible(self, state: Tensor) -> Tensor:
        """p(h = 1 | v)"""
        return torch.sigmoid(state @ self.W.T + self.bias_h)

    def given_hidden(self, hidden: Tensor) -> Tensor:
        """p(v = 1 | h)"""
        return self._clamp(torch.sigmoid(hidden @ self.W + self.bias_v))

    def sweep(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next state of the visible side, and the conditionals p(v = 1 | h) and p(h = 1 | v) it was drawn from."""
        p_hidden = self.given_visible(state)
        conditional = self.given_hidden(self._draw(p_hidden))
        return self._draw(conditional), conditional, p_hidden

    def keep(self, kept: "Kept | None", visible: Tensor, hidden: Tensor) -> "Kept":
        """Accumulate the sum of the conditionals."""
        both = torch.cat([visible, hidden], 1)
        return Kept(1, (both,)) if kept is None else Kept(kept.sweeps + 1, (kept.tensors[0] + both,))

    def answers(self, kept: "Kept") -> tuple[Distribution, Distribution]:
        """Marginals are the averaged conditionals."""
        visible, hidden = self.potentials.split(kept.tensors[0] / kept.sweeps)
        return Bernoulli(probs=visible, validate_args=False), Bernoulli(probs=hidden, validate_args=False)


class GaussianChain:
    """Gaussian RBM: v | h is normal with the precision of the unary, h | v is Bernoulli."""

    def __init__(self, potentials: GaussianPotentials, evidence: GaussianEvidence, generator: torch.Generator) -> None:
        self.generator = generator
        self.W, self.c = potentials.W.detach(), potentials.c.detach()
        self.linear, self.precision, self.clamped = (tensor.detach() for tensor in evidence)
        self.deviation = self.precision.rsqrt()
        self.start = self._draw(self.linear / self.precision)

    def _draw(self, mean: Tensor) -> Tensor:
        noise = torch.randn(mean.shape, generator=self.generator, dtype=mean.dtype, device=mean.device)
        return torch.where(self.clamped, self.linear / self.precision, mean + self.deviation * noise)

    def given_visible(self, state: Tensor) -> Tensor:
        """p(h = 1 | v)"""
        return torch.sigmoid(state @ self.W.T + self.c)

    def given_hidden(self, hidden: Tensor) -> Tensor:
        """The mean of v given h."""
        mean = (self.linear + hidden @ self.W) / self.precision
        return torch.where(self.clamped, self.linear / self.precision, mean)

    def sweep(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next state of the pixels, and the conditionals: their means given h, and p(h = 1 | v)."""
        p = self.given_visible(state)
        hidden = (torch.rand(p.shape, generator=self.generator, dtype=p.dtype, device=p.device) < p).to(p.dtype)
        mean = self.given_hidden(hidden)
        return self._draw(mean), mean, p

    def keep(self, kept: "Kept | None", visible: Tensor, hidden: Tensor) -> "Kept":
        """Accumulate the sum of the hidden units' conditionals and the list of all pixel means."""
        if kept is None:
            return Kept(1, (hidden, visible))
        total, *means = kept.tensors
        return Kept(kept.sweeps + 1, (total + hidden, *means, visible))

    def answers(self, kept: "Kept") -> tuple[Distribution, Distribution]:
        """A pixel's marginal is the mixture of its conditionals: the density is averaged, not its moments."""
        total, *means = kept.tensors
        stacked = torch.stack(means, -1)
        weights = Categorical(logits=torch.zeros_like(stacked), validate_args=False)
        normals = Normal(stacked, self.deviation[..., None].expand_as(stacked), validate_args=False)
        mixture = MixtureSameFamily(weights, normals, validate_args=False)
        return mixture, Bernoulli(probs=total / kept.sweeps, validate_args=False)


def colours(wiring: Wiring) -> list[list[int]]:
    """Sets of variables without a common factor, as few as a greedy choice makes."""
    near: list[set[int]] = [set() for _ in wiring.n_states]
    for group in wiring.groups:
        for scope in group.scope.tolist():
            for i in scope:
                near[i].update(scope)
    colour: dict[int, int] = {}
    for i in sorted(range(len(near)), key=lambda i: -len(near[i])):
        taken = {colour[j] for j in near[i] if j in colour}
        colour[i] = next(c for c in range(len(taken) + 1) if c not in taken)
    return [[i for i in sorted(colour) if colour[i] == c] for c in range(max(colour.values()) + 1)]


class FactorChain:
    """Any factor graph without zeros, from which no state could be reached."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, generator: torch.Generator) -> None:
        tables = [table.detach() for table in potentials.tables]
        if any(bool(each.isneginf().any()) for each in (potentials.unary, *tables)):
            raise InputError("Gibbs sampling needs tables without zeros: from one state a chain might not reach the others.")
        self.potentials, self.generator = potentials, generator
        self.where, self.groups = potentials.wiring.on(evidence.device), potentials.wiring.groups
        self.alone = potentials.unary.detach()[:, None] + evidence
        self.tables = [
            (each if used is None else each.index_select(0, used)).movedim(0, -1)
            for each, used in zip(tables, self.where.tables, strict=True)
        ]
        self.sets = [torch.tensor(each, device=evidence.device) for each in colours(potentials.wiring)]
        self.start = self._draw(self.where.rows(self.alone).softmax(-1))

    def _draw(self, p: Tensor) -> Tensor:
        """States [B, n], as numbers of the model's own type, from probabilities [B, n, S]."""
        chosen = torch.multinomial(p.flatten(0, 1), 1, generator=self.generator)
        return chosen.view(p.shape[:2]).to(p.dtype)

    def conditionals(self, state: Tensor) -> Tensor:
        """p(x_i | all others) of every variable [B, n, S]."""
        others = torch.arange(self.where.entry.shape[1], device=state.device) != state[..., None]
        certain = self.where.flat(torch.zeros_like(others, dtype=state.dtype).masked_fill(others, -torch.inf))
        incoming, parts = self.where.spread(certain), [state.new_zeros(0, len(state))]
        for blocks, group, table in zip(self.where.blocks, self.groups, self.tables, strict=True):
            given = [incoming[block].view(size, -1, len(state)) for block, size in zip(blocks, group.shape, strict=True)]
            parts += [message.flatten(0, 1) for message in outgoing(table, given, Logs)]
        return self.where.rows(self.alone + self.where.collect(torch.cat(parts))).softmax(-1)

    def given_visible(self, state: Tensor) -> Tensor:
        return self.conditionals(state)

    def given_hidden(self, conditionals: Tensor) -> Tensor:
        return conditionals

    def sweep(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next state, and the conditionals that its variables were drawn from (twice, as other chains have two sides)."""
        result = torch.zeros(0)
        for together in self.sets:
            p = self.conditionals(state)
            result = p if not len(result) else result.index_copy(1, together, p[:, together])
            state = state.index_copy(1, together, self._draw(p[:, together]))
        return state, result, result

    def keep(self, kept: "Kept | None", visible: Tensor, hidden: Tensor) -> "Kept":
        """Accumulate the sum of the conditionals."""
        return Kept(1, (visible,)) if kept is None else Kept(kept.sweeps + 1, (kept.tensors[0] + visible,))

    def answers(self, kept: "Kept") -> tuple[Distribution, Distribution]:
        """Marginals are the averaged conditionals."""
        return self.potentials.answers((kept.tensors[0] / kept.sweeps).log())


CHAINS = {BinaryPotentials: BinaryChain, GaussianPotentials: GaussianChain, FactorPotentials: FactorChain}


class State(NamedTuple):
    """The current values of the chains, the number of sweeps, and the conditionals kept so far."""

    chain: "BinaryChain | GaussianChain | FactorChain"
    values: Tensor
    sweeps: int
    kept: Kept | None


@dataclass(frozen=True)
class Gibbs(Engine):
    """Clamped Gibbs sampling: `sweeps` in all; after the first `burn`, every `every`-th is kept (defaults: the paper's).

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.RBM.from_textbook(torch.zeros(2, 3), torch.zeros(3), torch.zeros(2))
        >>> query = qtcore.Query(torch.ones(1, 3), torch.tensor([[True, False, False]]))
        >>> model(query, engine=qtcore.Gibbs(sweeps=100)).probs
        tensor([[1.0000, 0.5000, 0.5000]])
    """

    name = "gibbs"
    differentiable = False
    sweeps: int = 5000
    burn: int = 20
    every: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if self.burn < 0 or self.every < 1 or self.sweeps < 0:
            raise InputError(f"Gibbs sampling needs sweeps ≥ 0, burn ≥ 0 and every ≥ 1, not {self}.")

    def init(self, model: Answerable, query: Query) -> State:
        potentials = model.graph()
        kind = CHAINS.get(type(potentials))
        if kind is None:
            known = "RBM, DBM, GaussianRBM, FactorGraph and PairwiseMRF"
            raise InputError(f"Gibbs sampling is available for {known}, not for {type(model).__name__}.")
        generator = torch.Generator(query.device).manual_seed(self.seed)
        with torch.no_grad():
            chain = kind(potentials, model.evidence(query), generator)
        return State(chain, chain.start, 0, None)

    @torch.no_grad()
    def step(self, state: State) -> tuple[State, dict[str, Tensor]]:
        """One sweep. Its `residual` is the largest change of a marginal, and so 0 when the sweep is not kept."""
        new = self._sweep(state)
        if new.kept is state.kept and new.kept is not None:
            return new, {"residual": state.values.new_zeros(len(state.values))}
        return new, {"residual": change_of_marginals(self._answers(state), self._answers(new))}

    @torch.no_grad()
    def _sweep(self, state: State) -> State:
        values, visible, hidden = state.chain.sweep(state.values)
        kept = state.kept
        if state.sweeps >= self.burn and (state.sweeps - self.burn) % self.every == 0:
            kept = state.chain.keep(kept, visible, hidden)
        return State(state.chain, values, state.sweeps + 1, kept)

    def _answers(self, state: State) -> tuple[Distribution, Distribution]:
        kept = state.kept
        if kept is None:  # nothing kept yet: the conditionals of the current state, without drawing
            hidden = state.chain.given_visible(state.values)
            kept = state.chain.keep(None, state.chain.given_hidden(hidden), hidden)
        return state.chain.answers(kept)

    def marginals(self, state: State) -> Distribution:
        return self._answers(state)[0]

    def hidden(self, state: State) -> Distribution:
        return self._answers(state)[1]

    def steps(self, model: Answerable) -> int:
        return self.sweeps

    def at(self, n: int | None) -> "Gibbs":
        return self if n is None else replace(self, sweeps=n)

    def run(self, model: Answerable, query: Query) -> Distribution:
        if self.sweeps <= self.burn:
            raise InputError(f"Gibbs sampling needs more sweeps than burn, not {self.sweeps} and {self.burn}.")
        model.check(query)
        state = self.init(model, query)
        for _ in progress(range(self.sweeps), "Gibbs"):
            state = self._sweep(state)
        marginals = self.marginals(state)
        (numbers,) = expectations(marginals)
        if has_values(numbers) and not bool(numbers.isfinite().all()):
            raise NotFiniteError(f"{type(model).__name__}: a marginal is not finite; the parameters are too extreme.")
        return marginals
