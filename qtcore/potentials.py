"""A model from an engine's point of view: a graph and the log-potentials on it, at T = 1.

There are four kinds, one for each form of message passing: binary and Gaussian bipartite graphs, the grid, and the general
factor graph with its `Wiring`. Every discrete one can be converted to a factor graph (`as_factors`), so that whatever runs
on factor graphs runs on every discrete model, and the special cases can be tested against the general one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution
from torch.nn.functional import pad

from qtcore.evidence import HARD_LOGIT, BinaryEvidence

Whole = npt.NDArray[np.int64]

__all__ = ["BinaryPotentials", "FactorPotentials", "Factors", "GaussianPotentials", "GridPotentials", "Potentials", "Wiring"]


# ---------------------------------------------------------------------- any factor graph


@dataclass(frozen=True, eq=False)
class Factors:
    """Factors of one shape, each with its scope and, unless tied, its own table."""

    shape: tuple[int, ...]
    """Numbers of states along the axes of a table."""
    scope: Whole
    """The variables of each factor, in the order of the table's axes [F, order]."""
    table: Whole
    """Which of the group's tables each factor uses [F]; factors that share one are tied."""
    number: Whole
    """Each factor's index among all factors of the graph [F]."""


@dataclass(frozen=True, eq=False)
class Wiring:
    """An immutable graph: variables with their numbers of states, factors with their scopes, and which table each uses.

    The states of all variables are laid out in one row, variable after variable, without padding.
    """

    n_states: tuple[int, ...]
    groups: tuple[Factors, ...]
    hidden: tuple[int, ...] = ()
    _indices: "dict[torch.device, Indices]" = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        n_states: Sequence[int],
        scopes: Sequence[Sequence[int]],
        tables: Sequence[int] | None = None,
        hidden: Sequence[int] = (),
    ) -> "Wiring":
        """From the scope of every factor and the index of its table (by default each has its own).

        Factors are grouped by the shape of their tables, in the order in which the shapes first occur; the tables of a
        group are numbered in the order in which its factors first use them.
        """
        members: dict[tuple[int, ...], list[int]] = {}
        for number, scope in enumerate(scopes):
            members.setdefault(tuple(n_states[i] for i in scope), []).append(number)
        groups = []
        for shape, numbers in members.items():
            used = numbers if tables is None else [tables[number] for number in numbers]
            local = {table: place for place, table in enumerate(dict.fromkeys(used))}
            parts = [scopes[number] for number in numbers], [local[table] for table in used], numbers
            groups.append(Factors(shape, *(np.array(part, dtype=np.int64) for part in parts)))
        return cls(tuple(n_states), tuple(groups), tuple(hidden))

    @property
    def visible(self) -> tuple[int, ...]:
        """The visible variables, in increasing order: the columns of a query."""
        hidden = set(self.hidden)
        return tuple(i for i in range(len(self.n_states)) if i not in hidden)

    @property
    def total(self) -> int:
        """The total number of states of all variables."""
        return sum(self.n_states)

    def on(self, device: torch.device) -> "Indices":
        """The layout as index tensors on a device."""
        if device not in self._indices:
            with torch.inference_mode(False):  # they stay, and training will need them
                self._indices[device] = Indices.of(self, device)
        return self._indices[device]


@dataclass(frozen=True, eq=False)
class Indices:
    """Layout of the row of all states: state s of variable i is entry `offset[i] + s`."""

    visible: Tensor
    hidden: Tensor
    entry: Tensor
    """The entries, one row per variable [n, S]; 0 for padding."""
    padding: Tensor
    """Which of these are padding [n, S]: states that a variable does not have."""
    place: Tensor
    """The position of each entry in a flattened table of one row per variable [total]."""
    entries: tuple[tuple[Tensor, ...], ...]
    """For each group of factors and each axis of their tables, the entries of the variables on that axis [F, S]."""
    tables: tuple[Tensor | None, ...]
    """Which table each factor of a group uses [F]; None where the k-th factor uses the k-th table."""

    @classmethod
    def of(cls, wiring: Wiring, device: torch.device) -> "Indices":
        sizes = np.array(wiring.n_states, dtype=np.int64)
        offset = sizes.cumsum() - sizes
        variable = np.repeat(np.arange(len(sizes)), sizes)
        state = np.arange(sizes.max())
        exists = state < sizes[:, None]
        place = variable * len(state) + np.arange(len(variable)) - offset[variable]

        def tensor(array: Any) -> Tensor:
            return torch.tensor(array, device=device)

        entries = tuple(
            tuple(tensor(offset[group.scope[:, axis], None] + np.arange(size)) for axis, size in enumerate(group.shape))
            for group in wiring.groups
        )
        tables = (None if (g.table == np.arange(len(g.table))).all() else tensor(g.table) for g in wiring.groups)
        visible, hidden = (tensor(np.array(which, dtype=np.int64)) for which in (wiring.visible, wiring.hidden))
        entry = tensor(np.where(exists, offset[:, None] + state, 0))
        return cls(visible, hidden, entry, tensor(~exists), tensor(place), entries, tuple(tables))

    def rows(self, flat: Tensor) -> Tensor:
        """Values for all states [total, B] as one row per variable [B, n, S], padded with −∞."""
        return flat[self.entry].masked_fill(self.padding[..., None], -torch.inf).permute(2, 0, 1)

    def flat(self, rows: Tensor) -> Tensor:
        """The inverse of `rows`: [B, n, S] to [total, B]."""
        return rows.permute(1, 2, 0).flatten(0, 1)[self.place]


@dataclass(frozen=True, eq=False)
class FactorPotentials:
    """Any factor graph: p(x) ∝ exp(Σ_i unary_i(x_i) + Σ_f table_f(x_f)).

    Its evidence is a log-likelihood of every state [total, B], −∞ where a state is ruled out.
    """

    wiring: Wiring
    unary: Tensor
    """Log-potentials of all states of all variables [total]."""
    tables: tuple[Tensor, ...]
    """The tables of each group [tables, *shape]."""

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        """Visible and hidden marginals from the logits of all variables [B, n, S]."""
        where = self.wiring.on(logits.device)
        visible, hidden = logits[:, where.visible], logits[:, where.hidden]
        return Categorical(logits=visible, validate_args=False), Categorical(logits=hidden, validate_args=False)

    def states(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Joint states of all variables [B, n], split into visible and hidden ones."""
        where = self.wiring.on(states.device)
        return states[:, where.visible], states[:, where.hidden]

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
        scopes = [(j, V + i) for i in range(H) for j in range(V)]
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
        repeats = torch.tensor(self.clones, device=evidence.device)
        return evidence.repeat_interleave(repeats, -1, output_size=sum(self.clones))

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        """Marginals of the labels and of the states, from the logits of the states [B, height, width, S]."""
        labels = torch.stack([part.logsumexp(-1) for part in logits.split(list(self.clones), -1)], -1)
        return Categorical(logits=labels, validate_args=False), Categorical(logits=logits, validate_args=False)

    def as_factors(self, evidence: Tensor) -> tuple[FactorPotentials, Tensor]:
        """The same as a pairwise graph, pixels row by row, with four tied tables."""
        batch, height, width, _ = evidence.shape
        scopes, tables = [], []
        for down, right, kind in DIRECTIONS[::2]:  # index 0 is the pixel named in DIRECTIONS
            for y in range(height):
                for x in range(width):
                    if 0 <= y + down < height and 0 <= x + right < width:
                        scopes.append(((y + down) * width + x + right, y * width + x))
                        tables.append(kind)
        states = sum(self.clones)
        wiring = Wiring.of((states,) * (height * width), scopes, tables)
        used = [self.tables[list(dict.fromkeys(tables))]] if scopes else []
        log = self.spread(evidence).reshape(batch, height * width, states)
        unary = self.tables.new_zeros(wiring.total)
        return GridAsFactors(wiring, unary, tuple(used), self, (height, width)), wiring.on(log.device).flat(log)


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
