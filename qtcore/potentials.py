"""A model from an engine's point of view: a graph and the log-potentials on it, at T = 1.

There are four kinds, one for each form of message passing: binary and Gaussian bipartite graphs, the grid, and the general
factor graph with its `Wiring`. Every discrete one can be converted to a factor graph (`as_factors`), so that whatever runs
on factor graphs runs on every discrete model, and the special cases can be tested against the general one.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution
from torch.nn.functional import pad

from qtcore.evidence import HARD_LOGIT, BinaryEvidence
from qtcore.wiring import Whole, Wiring

__all__ = ["BinaryPotentials", "FactorPotentials", "GaussianPotentials", "GridPotentials", "Potentials", "Wiring"]


NAMED_FACTORS = 4
"""How many factors an error message lists."""


# ---------------------------------------------------------------------- any factor graph


@dataclass(frozen=True, eq=False)
class FactorPotentials:
    """Any factor graph: p(x) ∝ exp(Σ_i unary_i(x_i) + Σ_f table_f(x_f)).

    Its evidence is a log-likelihood of every state [total, B], −∞ where a state is ruled out.
    """

    wiring: Wiring
    unary: Tensor
    """Log-potentials of all states of all variables [total]."""
    tables: tuple[Tensor, ...]
    """The tables of each group `[tables, *shape]`; −∞ [1, 1] for a group of logic factors, which have none."""

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        """Visible and hidden marginals from the logits of all variables [B, n, S]."""
        where = self.wiring.on(logits.device)
        visible, hidden = logits[:, where.visible], logits[:, where.hidden]
        return Categorical(logits=visible, validate_args=False), Categorical(logits=hidden, validate_args=False)

    def states(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Joint states of all variables [B, n], split into visible and hidden ones."""
        where = self.wiring.on(states.device)
        return states[:, where.visible], states[:, where.hidden]

    def contradiction(self, variable: int, row: int | None) -> str:
        """The sentence for evidence that leaves a variable no state; `row` is its number in the batch."""
        wiring = self.wiring
        near = [scope for group in wiring.groups for scope in group.scope[(group.scope == variable).any(1)].tolist()]
        named = ["(" + ", ".join(map(wiring.name, scope)) + ")" for scope in near[:NAMED_FACTORS]]
        more = f" and {len(near) - NAMED_FACTORS} more" if len(near) > NAMED_FACTORS else ""
        under = f" under the factors {', '.join(named)}{more}" if named else ""
        where = "" if row is None else f" in row {row}"
        return f"this evidence{where} has probability 0{under}: it leaves the variable {wiring.name(variable)} no state."

    def as_factors(self, evidence: Tensor) -> "tuple[FactorPotentials, Tensor]":
        """Itself: this is the general form."""
        return self, evidence


# ---------------------------------------------------------------------- bipartite binary graphs


@dataclass(frozen=True, eq=False)
class BinaryPotentials:
    """A bipartite graph of binary variables; a factor scores 0 for agreement and −w for disagreement.

    The first `n_visible` variables of side v are visible; the others are hidden (the upper layer of a DBM).
    """

    W: Tensor
    """[H, V]"""
    c_v: Tensor
    c_h: Tensor
    n_visible: int

    def split(self, both: Tensor) -> tuple[Tensor, Tensor]:
        """Values for all variables, side v first [B, V + H], split into visible and hidden ones."""
        visible, rest, hidden = both.tensor_split((self.n_visible, len(self.c_v)), 1)
        return visible, torch.cat([hidden, rest], 1)

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        """Visible and hidden marginals from the log-odds of all variables, side v first [B, V + H]."""
        visible, hidden = self.split(logits)
        return Bernoulli(logits=visible, validate_args=False), Bernoulli(logits=hidden, validate_args=False)

    def as_factors(self, evidence: BinaryEvidence) -> tuple[FactorPotentials, Tensor]:
        """The same as a pairwise graph: side v, then side h, with a table for every weight."""
        H, V = self.W.shape
        scopes = np.stack([np.tile(np.arange(V), H), V + np.repeat(np.arange(H), V)], 1)
        hidden = (*range(self.n_visible, V), *range(V, V + H))
        wiring = Wiring.of((2,) * (V + H), scopes, hidden=hidden)
        bias = torch.cat([self.c_v, self.c_h])
        unary = torch.stack([torch.zeros_like(bias), bias], 1).flatten()
        w = self.W.flatten()
        zero = torch.zeros_like(w)
        tables = torch.stack([zero, -w, -w, zero], 1).view(-1, 2, 2)
        soft, hard = (pad(tensor, (0, V + H - tensor.shape[1])) for tensor in evidence)
        log = torch.stack([torch.zeros_like(soft), soft], 2)
        log = log.masked_fill(torch.stack([hard > 0, hard < 0], 2), -torch.inf)
        return BinaryAsFactors(wiring, unary, (tables,), self), wiring.on(log.device).flat(log)


@dataclass(frozen=True, eq=False)
class BinaryAsFactors(FactorPotentials):
    """A bipartite binary graph as a factor graph, with answers in the model's own form."""

    own: BinaryPotentials

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        odds = (logits[..., 1] - logits[..., 0]).clamp(-HARD_LOGIT, HARD_LOGIT)
        return self.own.answers(odds)

    def states(self, states: Tensor) -> tuple[Tensor, Tensor]:
        return self.own.split(states)


# ---------------------------------------------------------------------- Gaussian pixels, binary hidden units


@dataclass(frozen=True, eq=False)
class GaussianPotentials:
    """φ(v, h) = cᵀh + hᵀWv with real v, in units of σ; the unary Gaussian of each v is part of the evidence.

    `prior_linear` and `prior_precision` are the natural parameters of that Gaussian for an unobserved v.
    """

    W: Tensor
    """W/σ [H, V]"""
    c: Tensor
    prior_linear: Tensor
    prior_precision: Tensor


# ---------------------------------------------------------------------- the grid

DIRECTIONS = (
    (-1, 0, 0),  # from the upper pixel (rows down, columns right), through the table 0: vertical
    (1, 0, 0),
    (0, -1, 1),  # from the left pixel: horizontal
    (0, 1, 1),
    (-1, -1, 2),  # from the upper left pixel: diagonal
    (1, 1, 2),
    (1, -1, 3),  # from the lower left pixel: antidiagonal
    (-1, 1, 3),
)
"""The neighbour that a message comes from, and the table it passes. Index 0 of a table is the pixel named here; every second
direction passes the same table backwards, so that the reverse of direction d is d ^ 1."""


@dataclass(frozen=True, eq=False)
class GridPotentials:
    """Pixels connected to their 8 neighbours by four tied tables [4, S, S]. The evidence is a log-likelihood of each label
    [B, height, width, labels]; label k has `clones[k]` states."""

    tables: Tensor
    clones: tuple[int, ...]
    own_evidence: bool
    """Whether a pixel's belief includes its own evidence."""

    def by_direction(self) -> Tensor:
        """The log-potential of each direction, source first [8, S, S]."""
        tables = [self.tables[kind] for _, _, kind in DIRECTIONS]
        return torch.stack([table.T if d % 2 else table for d, table in enumerate(tables)])

    def spread(self, evidence: Tensor) -> Tensor:
        """The labels' evidence, repeated for each of their clones [..., S]."""
        parts = zip(evidence.split(1, -1), self.clones, strict=True)
        return torch.cat([part.expand(*part.shape[:-1], count) for part, count in parts], -1)

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        """Marginals of the labels and of the states, from the logits of the states [B, height, width, S]."""
        labels = torch.stack([part.logsumexp(-1) for part in logits.split(list(self.clones), -1)], -1)
        return Categorical(logits=labels, validate_args=False), Categorical(logits=logits, validate_args=False)

    def as_factors(self, evidence: Tensor) -> tuple[FactorPotentials, Tensor]:
        """The same as a pairwise graph, pixels row by row, with four tied tables."""
        batch, height, width, _ = evidence.shape
        states = sum(self.clones)
        wiring = Wiring.of((states,) * (height * width), *_neighbours(height, width))
        used = [self.tables[torch.tensor(group.tables, device=self.tables.device)] for group in wiring.groups]
        log = self.spread(evidence).reshape(batch, height * width, states)
        unary = self.tables.new_zeros(wiring.total)
        return GridAsFactors(wiring, unary, tuple(used), self, (height, width)), wiring.on(log.device).flat(log)


def _neighbours(height: int, width: int) -> tuple[Whole, Whole]:
    """Pairs of neighbouring pixels [F, 2], the one that DIRECTIONS names first, and the table of each [F]."""
    y, x = np.divmod(np.arange(height * width), width)
    scopes, tables = [], []
    for down, right, kind in DIRECTIONS[::2]:
        inside = (y + down >= 0) & (y + down < height) & (x + right >= 0) & (x + right < width)
        here = np.flatnonzero(inside)
        scopes.append(np.stack([here + down * width + right, here], 1))
        tables.append(np.full(len(here), kind))
    return np.concatenate(scopes), np.concatenate(tables)


@dataclass(frozen=True, eq=False)
class GridAsFactors(FactorPotentials):
    """A grid as a factor graph, with answers in the model's own form."""

    own: GridPotentials
    size: tuple[int, int]

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        return self.own.answers(logits.reshape(len(logits), *self.size, -1))

    def states(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Labels, and states with clones distinguished."""
        label = torch.arange(len(self.own.clones)).repeat_interleave(torch.tensor(self.own.clones))
        states = states.reshape(len(states), *self.size)
        return label[states], states


Potentials = BinaryPotentials | GaussianPotentials | GridPotentials | FactorPotentials
