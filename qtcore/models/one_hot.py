"""A model of bits that stand in one-of-k groups: it answers about single bits, but knows that at most one of a group is 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution

from qtcore.errors import InputError
from qtcore.evidence import HARD_LOGIT
from qtcore.models.base import Model
from qtcore.models.factor_graph import FactorGraph
from qtcore.models.table_model import MAX_FACTORS
from qtcore.potentials import FactorPotentials
from qtcore.query import Query
from qtcore.support.tensors import has_values, normal
from qtcore.variables import Binary

INITIAL_WEIGHT = 0.5
"""Standard deviation of the initial log-potentials of groups and hidden units, as in a `TableModel`."""

PRIOR_ROWS = 0.5
"""Rows that every state of a group is thought to have besides those of the data."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each bit is: its group, and its state there (0 is the state in which no bit of the group is 1)."""

    group: Tensor
    """[V]"""
    state: Tensor
    """[V], from 1"""
    entry: Tensor
    """Its place among all states of all groups [V]."""
    none: Tensor
    """The place of each group's state 0 [G]."""

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]]) -> "Layout":
        count = sum(map(len, groups))
        group, state, entry = torch.zeros(3, count, dtype=torch.long)
        start, none = 0, []
        for number, bits in enumerate(groups):
            order = torch.arange(1, len(bits) + 1)
            group[list(bits)], state[list(bits)], entry[list(bits)] = number, order, start + order
            none.append(start)
            start += len(bits) + 1
        return cls(group, state, entry, torch.tensor(none))

    def to(self, device: torch.device) -> "Layout":
        return Layout(*(tensor.to(device) for tensor in (self.group, self.state, self.entry, self.none)))


@dataclass(frozen=True, eq=False)
class OneHotPotentials(FactorPotentials):
    """A factor graph of groups, with answers about their bits."""

    layout: Layout

    def answers(self, logits: Tensor) -> tuple[Distribution, Distribution]:
        where = self.wiring.on(logits.device)
        odds = log_odds(logits[:, where.visible]).clamp(-HARD_LOGIT, HARD_LOGIT)
        bits = odds[:, self.layout.group, self.layout.state]
        hidden = Categorical(logits=logits[:, where.hidden], validate_args=False)
        return Bernoulli(logits=bits, validate_args=False), hidden

    def states(self, states: Tensor) -> tuple[Tensor, Tensor]:
        where = self.wiring.on(states.device)
        return (states[:, where.visible][:, self.layout.group] == self.layout.state).to(states), states[:, where.hidden]


def log_odds(logits: Tensor) -> Tensor:
    """log p/(1 − p) of every state, from logits over the states [..., S].

    1 − p would round to 0 where p is almost 1. So the others of the most probable state are added up without it; of any other
    state, they include the most probable one, and taking a state off their sum loses nothing.
    """
    top = logits.argmax(-1, keepdim=True)
    largest = logits.gather(-1, top)
    scaled = (logits - largest).scatter(-1, top, -torch.inf)
    rest = scaled.logsumexp(-1, keepdim=True)
    others = torch.log1p((rest.exp() - scaled.exp()).clamp_min(0))
    return (logits - largest - others).scatter(-1, top, -rest)


class OneHotModel(FactorGraph):
    """Bits in one-of-k groups: a Boltzmann machine of categorical variables, one for each group, that is asked about bits.

    Each group has a state for each of its bits and one for none of them. All groups are joined to all hidden units (binary),
    and some pairs of groups to each other. An observed 1 fixes a group, an observed 0 rules out one state; the marginal of a
    bit is that of its state. Groups of single bits make a semi-restricted Boltzmann machine.

    Args:
        groups: the bits of each group; together they are all the numbers from 0, each once.
        n_hidden: binary hidden units; 0 for none.
        pairs: pairs of groups with a table of their own, or "all".

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.OneHotModel([[0, 1, 2], [3]], n_hidden=2)
        >>> query = qtcore.Query(torch.tensor([[0.0, 1, 0, 0]]), torch.tensor([[False, True, False, False]]))
        >>> model(query).probs[0, :3].tolist()
        [0.0, 1.0, 0.0]
    """

    variables: Binary  # type: ignore[assignment]

    def __init__(
        self,
        groups: Sequence[Sequence[int]],
        n_hidden: int = 16,
        pairs: "str | Sequence[tuple[int, int]]" = "all",
        n_layers: int = 4,
        damping: float = 0.0,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.groups = _read_groups(groups)
        count = len(self.groups)
        if isinstance(n_hidden, bool) or not isinstance(n_hidden, int) or n_hidden < 0:
            raise InputError(f"n_hidden must be a whole number ≥ 0, not {n_hidden!r}.")
        joined = count * n_hidden + (count * (count - 1) // 2 if isinstance(pairs, str) else 0)
        if joined > MAX_FACTORS:
            raise InputError(f"{count} groups and {n_hidden} hidden units make {joined} pairs, more than {MAX_FACTORS}.")
        self.pairs, self.n_hidden = _read_pairs(pairs, count), n_hidden
        sizes = [len(bits) + 1 for bits in self.groups]
        tables, factors = _factors(sizes, n_hidden, self.pairs)
        super().__init__(
            sizes + [2] * n_hidden,
            tables,
            factors,
            hidden=range(count, count + n_hidden),
            n_layers=n_layers,
            damping=damping,
            temperature=temperature,
            learn_temperature=learn_temperature,
            device=device,
            dtype=dtype,
        )
        self.layout = Layout.of(self.groups)
        self.variables = Binary((sum(map(len, self.groups)),))

    def config(self) -> dict[str, Any]:
        own = {"groups": self.groups, "n_hidden": self.n_hidden, "pairs": self.pairs.tolist()}
        return own | self._tempered_config()

    def packed(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return self.config(), {}  # the graph follows from it

    @classmethod
    def unpacked(cls, config: dict[str, Any], arrays: dict[str, Tensor]) -> dict[str, Any]:
        return Model.unpacked.__func__(cls, config, arrays)  # type: ignore[attr-defined]

    def extra_repr(self) -> str:
        sizes = f"{len(self.groups)} groups, {len(self.pairs)} pairs, {self.n_hidden} hidden units"
        return f"{self.variables.shape[0]} bits, {sizes}, n_layers={self.n_layers}"

    def column_names(self) -> None:
        return None

    def query(self, known: Any) -> Query:
        """A query of one row: the value of each bit that is observed, by its number."""
        values, observed = torch.zeros(1, self.size, dtype=self.dtype), torch.zeros(1, self.size, dtype=torch.bool)
        for bit, value in known.items():
            if isinstance(bit, bool) or not isinstance(bit, int) or not 0 <= bit < self.size:
                raise InputError(f"a bit is named by its number from 0 to {self.size - 1}, not by {bit!r}.")
            values[0, bit], observed[0, bit] = value, True
        return Query(values, observed).to(self.device)

    def _own_layout(self) -> Layout:
        if self.layout.group.device != self.device:
            self.layout = self.layout.to(self.device)
        return self.layout

    def graph(self) -> FactorPotentials:
        whole = super().graph()
        return OneHotPotentials(whole.wiring, whole.unary, whole.tables, self._own_layout())

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> Tensor:
        """Log-likelihoods of all states [total, B]: a state is one bit at 1 and the others of its group at 0."""
        dtype, layout = dtype or self.dtype, self._own_layout()
        weight = query.observed.to(dtype)
        value = torch.where(weight > 0, query.values.to(dtype), 0.5)
        one = (weight * value + (1 - weight) / 2).T
        zero = (weight * (1 - value) + (1 - weight) / 2).T
        is_one, is_zero = (zero == 0), (one == 0)  # for certain
        log_one, log_zero = (torch.where(each > 0, each, 1).log() for each in (one, zero))
        shape = len(self.groups), len(query)
        none = log_zero.new_zeros(shape).index_add(0, layout.group, log_zero)
        ones = log_zero.new_zeros(shape).index_add(0, layout.group, is_one.to(dtype))
        self._refuse_two(ones)
        bit = none[layout.group] + log_one - log_zero
        bit = bit.masked_fill(is_zero | (ones[layout.group] > is_one), -torch.inf)
        log = bit.new_zeros(sum(self.n_states), len(query))
        return log.index_copy(0, layout.none, none.masked_fill(ones > 0, -torch.inf)).index_copy(0, layout.entry, bit)

    def _refuse_two(self, ones: Tensor) -> None:
        """Raise an InputError where two bits of a group are observed as 1: how many are [G, B]."""
        if has_values(ones) and bool((ones > 1).any()):
            group, row = (ones > 1).nonzero()[0].tolist()
            bits = ", ".join(map(str, self.groups[group]))
            raise InputError(f"row {row} has {ones[group, row]:g} ones among the bits {bits}, of which at most one can be.")

    @torch.no_grad()
    def start_from(self, rows: Tensor) -> None:
        """Set the terms of single groups to the logarithms of their states' frequencies in rows of bits [n, V]."""
        total = rows.to(self.dtype).sum(0)
        for name, template in self.templates.items():
            if name.startswith("bias_"):
                for own, number in zip(self.tables[name], template.scopes[:, 0].tolist(), strict=True):
                    counts = total[list(self.groups[number])]
                    none = (len(rows) - counts.sum()).clamp_min(0)
                    states = torch.cat([none[None], counts]).to(own) + PRIOR_ROWS
                    own.copy_((states / states.sum()).log())


def _read_groups(groups: Any) -> list[list[int]]:
    try:
        read = [[int(bit) for bit in bits] for bits in groups]
    except (TypeError, ValueError) as error:
        raise InputError(f"groups must list the bits of each group by their numbers ({error}).") from error
    every = sorted(bit for bits in read for bit in bits)
    if not every or not all(read) or every != list(range(len(every))):
        raise InputError("groups must hold every number from 0 once, and at least one each.")
    return read


def _read_pairs(pairs: Any, count: int) -> np.ndarray:
    """Pairs of groups [P, 2]."""
    if isinstance(pairs, str):
        if pairs != "all":
            raise InputError(f'pairs must be "all" or list pairs of groups, not {pairs!r}.')
        return np.stack(np.triu_indices(count, 1), 1)
    try:
        read = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    except (TypeError, ValueError) as error:
        raise InputError(f"pairs must list pairs of groups by their numbers ({error}).") from error
    outside = ((read < 0) | (read >= count)).any(1) | (read[:, 0] == read[:, 1])
    if outside.any():
        raise InputError(f"the pair {tuple(read[outside][0].tolist())} must join two distinct groups among 0 … {count - 1}.")
    return read


def _factors(sizes: Sequence[int], n_hidden: int, pairs: np.ndarray) -> tuple[dict[str, Any], list[Any]]:
    """The tables and factors of the graph, those with equal numbers of states together."""
    count, tables, factors = len(sizes), dict[str, Any](), list[Any]()
    for size in dict.fromkeys(sizes):
        own = np.array([group for group in range(count) if sizes[group] == size])
        tables[f"bias_{size}"] = torch.zeros(len(own), size)
        factors.append((f"bias_{size}", own[:, None]))
        if n_hidden:
            scopes = np.stack([np.repeat(own, n_hidden), np.tile(count + np.arange(n_hidden), len(own))], 1)
            tables[f"weights_{size}"] = normal(len(scopes), size, 2, scale=INITIAL_WEIGHT)
            factors.append((f"weights_{size}", scopes))
    if n_hidden:
        tables["hidden"] = torch.zeros(n_hidden, 2)
        factors.append(("hidden", count + np.arange(n_hidden)[:, None]))
    scopes_of: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, j in pairs.tolist():
        one, other = (i, j) if sizes[i] <= sizes[j] else (j, i)
        scopes_of.setdefault((sizes[one], sizes[other]), []).append((one, other))
    for (small, large), joined in scopes_of.items():
        tables[f"pairs_{small}x{large}"] = torch.zeros(len(joined), small, large)
        factors.append((f"pairs_{small}x{large}", np.array(joined)))
    return tables, factors
