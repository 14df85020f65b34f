"""The graph of a factor graph: which variables, which factors on them, which table each uses, and how messages are laid out.

Everything here is whole numbers, made once for a graph. The states of all variables form one row, variable after variable,
without padding; the messages of all factors form another, group after group. To add up the messages that arrive at each
state (`Indices.collect`), and to hand every message its variable's belief (`Indices.spread`), are adjoint to each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from qtcore.support.tensors import has_values

Whole = npt.NDArray[np.int64]

TIED = 8
"""A table that so many factors share forms a group of its own, in which it is not copied for each of them …"""
MAX_TIED_GROUPS = 64
"""… unless there were more groups of one shape than this: each takes its own calls."""


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
    tables: Whole
    """The group's tables, in rising order, as indices among all tables of the graph [tables]."""
    rule: str = ""
    """Of logic factors, which have no table (`qtcore.logic.RULES`)."""


@dataclass(frozen=True, eq=False)
class Wiring:
    """An immutable graph: variables with their numbers of states, factors with their scopes, and which table each uses."""

    n_states: tuple[int, ...]
    groups: tuple[Factors, ...]
    hidden: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    """Names of the variables, for messages; by default their indices."""
    _indices: "dict[torch.device, Indices]" = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        n_states: Sequence[int],
        scopes: "Sequence[Sequence[int]] | Whole",
        tables: "Sequence[int] | Whole | None" = None,
        hidden: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> "Wiring":
        """From the scope of every factor and the index of its table (by default each has its own)."""
        used = np.arange(len(scopes)) if tables is None else np.asarray(tables, dtype=np.int64)
        if isinstance(scopes, np.ndarray):
            return cls.of_arrays(n_states, [(scopes, used, np.arange(len(scopes)))], hidden, names)
        orders: dict[int, list[int]] = {}
        for number, scope in enumerate(scopes):
            orders.setdefault(len(scope), []).append(number)
        blocks = [
            (np.array([scopes[number] for number in numbers], dtype=np.int64), used[numbers], np.array(numbers))
            for numbers in orders.values()
        ]
        return cls.of_arrays(n_states, blocks, hidden, names)

    @classmethod
    def of_arrays(
        cls,
        n_states: Sequence[int],
        blocks: Sequence[tuple[Whole, Whole, Whole]],
        hidden: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> "Wiring":
        """From blocks of factors of one order: their scopes [F, order], the indices of their tables and their own [F].

        Factors are grouped by the shape of their tables, in the order in which the shapes first occur.
        """
        sizes = np.array(n_states, dtype=np.int64)
        shaped: dict[tuple[int, ...], list[tuple[Whole, Whole, Whole]]] = {}
        for scope, table, number in blocks:
            for shape, members in by_shape(sizes[scope]):
                shaped.setdefault(shape, []).append((scope[members], table[members], number[members]))
        groups: list[Factors] = []
        for shape, parts in shaped.items():
            scope, table, number = (np.concatenate(each) for each in zip(*parts, strict=True))
            order = np.argsort(number, kind="stable")
            groups += _grouped(shape, scope[order], table[order], number[order])
        return cls(tuple(n_states), tuple(groups), tuple(hidden), tuple(names))

    @property
    def visible(self) -> tuple[int, ...]:
        """The visible variables, in increasing order: the columns of a query."""
        hidden = set(self.hidden)
        return tuple(i for i in range(len(self.n_states)) if i not in hidden)

    @property
    def total(self) -> int:
        """The total number of states of all variables."""
        return sum(self.n_states)

    def name(self, variable: int) -> str:
        """A variable as messages call it."""
        return self.names[variable] if self.names else str(variable)

    def on(self, device: torch.device) -> "Indices":
        """The layout as index tensors on a device."""
        if device not in self._indices:
            with torch.inference_mode(False):  # they stay, and training will need them
                self._indices[device] = Indices.of(self, device)
        return self._indices[device]


def by_shape(sizes: Whole) -> list[tuple[tuple[int, ...], Whole]]:
    """The factors of each shape, from the numbers of states on their axes [F, order]; shapes as they first occur."""
    if not len(sizes):
        return []
    if (sizes == sizes[0]).all():
        return [(tuple(sizes[0].tolist()), np.arange(len(sizes)))]
    code = np.zeros(len(sizes), dtype=np.int64)
    for column in sizes.T:  # number the distinct rows, axis after axis
        _, code = np.unique(code * (int(column.max()) + 1) + column, return_inverse=True)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    members = np.split(np.argsort(which, kind="stable"), np.bincount(which).cumsum()[:-1])
    return [(tuple(sizes[first[k]].tolist()), members[k]) for k in np.argsort(first)]


def _grouped(shape: tuple[int, ...], scope: Whole, table: Whole, number: Whole) -> list[Factors]:
    """Factors of one shape, with each table that many of them share in a group of its own."""
    _, local, uses = np.unique(table, return_inverse=True, return_counts=True)
    shared = uses >= max(TIED, len(table) / MAX_TIED_GROUPS)
    parts = [np.flatnonzero(local == k) for k in np.flatnonzero(shared)]
    parts.append(np.flatnonzero(~shared[local]))
    groups = []
    for part in parts:
        if len(part):
            own, which = np.unique(table[part], return_inverse=True)
            groups.append(Factors(shape, scope[part], which.astype(np.int64), number[part], own))
    return groups


@dataclass(frozen=True, eq=False)
class Indices:
    """Layout of the row of all states (state s of variable i is entry `offset[i] + s`) and of the row of all messages."""

    visible: Tensor
    hidden: Tensor
    variable: Tensor
    """The variable of each entry [total]."""
    entry: Tensor
    """The entries, one row per variable [n, S]; 0 for padding."""
    padding: Tensor
    """Which of these are padding [n, S]: states that a variable does not have."""
    place: Tensor
    """The position of each entry in a flattened table of one row per variable [total]."""
    blocks: tuple[tuple[slice, ...], ...]
    """For each group of factors and each axis of their tables, the messages to the variables on that axis: state after
    state, and in each state factor after factor [S·F]."""
    sent: Tensor
    """The entry that each message is about [M]."""
    order: Tensor
    """The messages in the order of their entries [M]."""
    start: Tensor
    """Where the messages about each entry start in that order [total]."""
    tables: tuple[Tensor | None, ...]
    """Which table each factor of a group uses [F]; None where the k-th factor uses the k-th table, or all the only one."""
    places: Tensor
    """The first entry of each factor's variables: for each group [order, F], flat, int32."""

    @classmethod
    def of(cls, wiring: Wiring, device: torch.device) -> "Indices":
        sizes = np.array(wiring.n_states, dtype=np.int64)
        offset = sizes.cumsum() - sizes
        variable = np.repeat(np.arange(len(sizes)), sizes)
        state = np.arange(sizes.max())
        exists = state < sizes[:, None]
        place = variable * len(state) + np.arange(len(variable)) - offset[variable]
        blocks, sent, end = [], [np.zeros(0, dtype=np.int64)], 0
        places = [offset[group.scope].T.ravel() for group in wiring.groups]
        for group in wiring.groups:
            axes = []
            for axis, size in enumerate(group.shape):
                sent.append((offset[group.scope[:, axis]] + np.arange(size)[:, None]).ravel())
                axes.append(slice(end, end + len(sent[-1])))
                end = axes[-1].stop
            blocks.append(tuple(axes))
        about = np.concatenate(sent)
        arrived = np.bincount(about, minlength=len(variable))

        def tensor(array: Any) -> Tensor:
            return torch.tensor(array, device=device)

        tables = (None if _simple(group) else tensor(group.table) for group in wiring.groups)
        visible, hidden = (tensor(np.array(which, dtype=np.int64)) for which in (wiring.visible, wiring.hidden))
        return cls(
            visible=visible,
            hidden=hidden,
            variable=tensor(variable),
            entry=tensor(np.where(exists, offset[:, None] + state, 0)),
            padding=tensor(~exists),
            place=tensor(place),
            blocks=tuple(blocks),
            sent=tensor(about),
            order=tensor(np.argsort(about, kind="stable")),
            start=tensor(arrived.cumsum() - arrived),
            tables=tuple(tables),
            places=tensor(np.concatenate([np.zeros(0, dtype=np.int64), *places]).astype(np.int32)),
        )

    def rows(self, flat: Tensor) -> Tensor:
        """Values for all states [total, B] as one row per variable [B, n, S], padded with −∞."""
        return flat[self.entry].masked_fill(self.padding[..., None], -torch.inf).permute(2, 0, 1)

    def flat(self, rows: Tensor) -> Tensor:
        """The inverse of `rows`: [B, n, S] to [total, B]."""
        return rows.permute(1, 2, 0).flatten(0, 1)[self.place]

    def spread(self, flat: Tensor) -> Tensor:
        """Values for all states [total, B], handed to every message about them [M, B]."""
        if _plain(flat) or not (flat.requires_grad and torch.is_grad_enabled()):
            return flat.index_select(0, self.sent)
        result: Tensor = _Spread.apply(flat, self)  # torch would add up its gradient message by message
        return result

    def collect(self, messages: Tensor) -> Tensor:
        """The sum of all messages about each state: [M, B] to [total, B]."""
        if _plain(messages):
            return messages.new_zeros(len(self.start), messages.shape[1]).index_add(0, self.sent, messages)
        if messages.requires_grad and torch.is_grad_enabled():
            result: Tensor = _Collect.apply(messages, self)
            return result
        return embedding_bag(self.order, messages, self.start, mode="sum")  # many times faster than index_add


def _simple(group: Factors) -> bool:
    return len(group.tables) == 1 or bool((group.table == np.arange(len(group.table))).all())


def _plain(tensor: Tensor) -> bool:
    """Whether to use torch's own index_add and index_select: on other devices, where they are fast, and for the transforms
    of torch.func and forward mode, which know nothing else."""
    transformed = torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0
    return transformed or tensor.device.type != "cpu" or not has_values(tensor) or not len(tensor)


class _Spread(torch.autograd.Function):
    """index_select with `Indices.collect` for its gradient."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, where: Indices) -> Tensor:
        ctx.where = where
        return where.spread(flat)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.where.collect(gradient), None


class _Collect(torch.autograd.Function):
    """embedding_bag with `Indices.spread` for its gradient."""

    @staticmethod
    def forward(ctx: Any, messages: Tensor, where: Indices) -> Tensor:
        ctx.where = where
        return where.collect(messages)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.where.spread(gradient), None
