"""The parts of a factor graph as they are given: variables, tables by name, and the factors that share one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from qtcore.errors import InputError
from qtcore.logic import RULES
from qtcore.wiring import Whole

MAX_PADDED = 2**26
"""Variables times states of the largest one, the size of an answer: its indices take eight bytes each."""

Shape = tuple[int, ...]


class Tables(nn.Module):
    """Parameters by name, whatever the name: nn.ParameterDict refuses those of its own methods, such as "copy"."""

    def __setitem__(self, name: str, table: nn.Parameter) -> None:
        self._parameters[name] = table

    def __getitem__(self, name: str) -> nn.Parameter:
        table = self._parameters[name]
        assert table is not None
        return table

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def items(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, self[name]) for name in self)

    def keys(self) -> list[str]:
        return list(self)

    def extra_repr(self) -> str:
        return ", ".join(f"{name} {list(table.shape)}" for name, table in self.items())


class Template(NamedTuple):
    """All factors of one name: they share its table, or each has its own in a stack of them."""

    scopes: Whole
    """[F, order]"""
    numbers: Whole
    """Their indices among all factors [F]."""
    stacked: bool
    first: int
    """The index of its first table among all tables of the graph."""


def read_rule(name: str, given: str) -> str:
    """A rule of logic factors by its name, spelled in any case."""
    rule = " ".join(given.lower().replace("_", " ").split())
    if rule not in RULES:
        known = ", ".join(map(repr, RULES))
        raise InputError(
            f"the table {name!r} must be a shape or an array of log-potentials, or one of {known}, not {given!r:.80}."
        )
    return rule


def logic_templates(
    n_states: Shape, name: str, rule: str, scopes: Sequence[Sequence[int]], numbers: Sequence[int]
) -> list[Template]:
    """Logic factors of one name, those with scopes of one length together."""
    orders: dict[int, list[int]] = {}
    for k, scope in enumerate(scopes):
        orders.setdefault(len(scope), []).append(k)
        if len(scope) < 2:
            raise InputError(f"the rule {rule!r} of {name!r} is about two variables or more, not about {tuple(scope)}.")
        for i in scope:
            if not 0 <= i < len(n_states):
                raise InputError(f"the rule {rule!r} of {name!r} must name variables among 0 … {len(n_states) - 1}, not {i}.")
            if n_states[i] != 2:
                raise InputError(f"the rule {rule!r} of {name!r} is about binary variables, but {i} has {n_states[i]} states.")
        if len(set(scope)) < len(scope):
            raise InputError(f"the rule {rule!r} of {name!r} names a variable twice in {tuple(scope[:20])}.")
    return [
        Template(np.array([scopes[k] for k in own], dtype=np.int64), np.array([numbers[k] for k in own]), False, -1)
        for own in orders.values()
    ]


def read_variables(given: Any) -> tuple[Shape, tuple[str, ...], tuple[tuple[str, ...] | None, ...]]:
    """Numbers of states, names of the variables, and names of their states, () where there are none."""
    if not isinstance(given, Mapping):
        try:
            sizes = np.asarray(given)
            if sizes.ndim != 1 or (sizes.size and sizes.dtype.kind not in "iu"):
                raise ValueError(f"not {given!r:.80}")
        except (TypeError, ValueError) as error:
            raise InputError(f"n_states must be whole numbers, one for each variable ({error}).") from error
        return tuple(sizes.astype(np.int64).tolist()), (), ()
    sizes_of: list[int] = []
    labels: list[tuple[str, ...] | None] = []
    for name, states in given.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"a variable's name must be a word, not {name!r}.")
        if isinstance(states, int) and not isinstance(states, bool):
            sizes_of.append(states)
            labels.append(None)
            continue
        if isinstance(states, str) or not all(isinstance(label, str) for label in states) or len(set(states)) < len(states):
            raise InputError(f"the states of {name!r} must be a number or a list of different names, not {states!r}.")
        sizes_of.append(len(states))
        labels.append(tuple(states))
    return tuple(sizes_of), tuple(given), tuple(labels)


def check_variables(n_states: Shape, hidden: Shape) -> None:
    """Raise an InputError unless each variable has a state, and hidden ones leave a visible one."""
    count = len(n_states)
    if count == 0 or min(n_states) < 1:
        raise InputError(f"n_states must give each variable at least one state, not {list(n_states[:20])}.")
    if count * max(n_states) > MAX_PADDED:
        raise InputError(
            f"{count} variables with up to {max(n_states)} states are too many: answers have as many states for each, "
            f"and may have {MAX_PADDED} in all."
        )
    if any(not 0 <= i < count for i in hidden) or len(set(hidden)) < len(hidden):
        raise InputError(f"hidden must name distinct variables among 0 … {count - 1}, not {list(hidden)}.")
    if len(hidden) == count:
        raise InputError("at least one variable must be visible.")


def read_shape(given: Any) -> Shape | None:
    """A shape: a list or tuple of whole numbers; None for anything else, which are log-potentials."""
    if not isinstance(given, list | tuple | torch.Size):
        return None
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in given):
        return None
    if any(size < 1 for size in given) or math.prod(given) > 2**40:
        raise InputError(f"the shape of a table must be whole numbers ≥ 1, not {list(given)}.")
    return tuple(int(size) for size in given)
