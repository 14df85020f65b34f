"""Directed networks: variables with named states, and the probabilities of each given its parents.

What BIF (`bif`) and XMLBIF (`xmlbif`) files have in common. A variable's probabilities given its parents become a factor on
the parents and the variable.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qtcore.models.uai import MAX_ORDER, Floats, is_number

SUM_TOLERANCE = 0.01
"""Files hold rounded numbers: probabilities that add up to 1 this nearly are divided by their sum, others are refused."""


class Network(NamedTuple):
    """A directed network as it is in a file."""

    variables: dict[str, tuple[str, ...]]
    """The names of the states, by the name of the variable."""
    scopes: list[tuple[str, ...]]
    """For each variable, in the order of the file: its parents, then the variable itself."""
    tables: list[Floats]
    """Probabilities, with the axes of a scope; they add up to 1 over the last one."""


class Draft:
    """A network in the making. Its methods raise a ValueError with what is wrong, to which a reader adds the line."""

    def __init__(self) -> None:
        self.network = Network({}, [], [])
        self._defined: set[str] = set()

    def add_variable(self, name: str, states: Sequence[str]) -> None:
        if name in self.network.variables:
            raise ValueError(f"the variable {short(name)} is declared twice")
        if not name or not states or not all(states):
            raise ValueError(f"the variable {short(name)} needs a name, and at least one state with a name")
        if len(set(states)) < len(states):
            twice = next(state for k, state in enumerate(states) if state in states[:k])
            raise ValueError(f"the variable {short(name)} has the state {short(twice)} twice")
        self.network.variables[name] = tuple(states)

    def scope(self, child: str, parents: Sequence[str]) -> tuple[str, ...]:
        """Parents, then the child, all of them known and different."""
        scope = (*parents, child)
        for k, name in enumerate(scope):
            if name not in self.network.variables:
                raise ValueError(f"the probabilities of {short(child)} name {short(name)}, but there is no such variable")
            if name in scope[:k]:
                raise ValueError(f"the probabilities of {short(child)} name {short(name)} twice")
        if child in self._defined:
            raise ValueError(f"the probabilities of {short(child)} are given twice")
        if len(scope) > MAX_ORDER:
            raise ValueError(f"the variable {short(child)} has {len(parents)} parents, but {MAX_ORDER - 1} are the most")
        return scope

    def shape(self, scope: Sequence[str]) -> tuple[int, ...]:
        return tuple(len(self.network.variables[name]) for name in scope)

    def add_table(self, scope: tuple[str, ...], table: Floats) -> None:
        sums = table.sum(-1)
        wrong = np.abs(sums - 1) > SUM_TOLERANCE
        if wrong.any():
            first = np.unravel_index(int(wrong.argmax()), sums.shape)
            given = ", ".join(f"{n} = {self.network.variables[n][s]}" for n, s in zip(scope[:-1], first, strict=True))
            raise ValueError(
                f"the probabilities of {short(scope[-1])}{f' given {given[:200]}' if given else ''} add up to "
                f"{float(sums[first]):.6g}, not to 1"
            )
        self._defined.add(scope[-1])
        self.network.scopes.append(scope)
        self.network.tables.append(table / sums[..., None])

    def end(self) -> Network:
        """The network, if all is there."""
        if not self.network.variables:
            raise ValueError("there is no variable in it")
        missing = [name for name in self.network.variables if name not in self._defined]
        if missing:
            raise ValueError(f"there are no probabilities of the variable {short(missing[0])}")
        self._refuse_cycles()
        return self.network

    def _refuse_cycles(self) -> None:
        waiting = {scope[-1]: len(scope) - 1 for scope in self.network.scopes}
        children: dict[str, list[str]] = {}
        for *parents, child in self.network.scopes:
            for parent in parents:
                children.setdefault(parent, []).append(child)
        ready = [name for name, count in waiting.items() if count == 0]
        while ready:
            name = ready.pop()
            del waiting[name]
            for child in children.get(name, ()):
                waiting[child] -= 1
                if waiting[child] == 0:
                    ready.append(child)
        if waiting:
            raise ValueError(f"the variable {short(min(waiting))} is among its own ancestors, or below some that are")


def short(name: str) -> str:
    return repr(name[:60])


def probabilities(words: Sequence[str], what: str) -> Floats:
    """Numbers ≥ 0; a `WrongWordError` for anything else."""
    try:
        numbers = np.array(words, dtype=np.float64)
    except ValueError:
        bad = next(k for k, word in enumerate(words) if not is_number(word))
        raise WrongWordError(f"{what} should be numbers, but there is {words[bad][:40]!r}", bad) from None
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        bad = int(wrong.argmax())
        raise WrongWordError(f"{what} should be finite and not negative, but there is {words[bad][:40]}", bad)
    return numbers


class WrongWordError(ValueError):
    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)
        self.place = place
