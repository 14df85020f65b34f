"""A column of a table: its kind, and its states, which are named levels or bins of numbers."""

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from qtcore.errors import InputError
from qtcore.tabular.reading import number, text

KINDS = ("binary", "categorical", "ordered", "count", "real", "ignore")
NUMBERS = ("count", "real")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """A column with its states. One of kind "ignore" has none: it is read past, and `why` says why.

    Example:
        >>> from qtcore.tabular import Column
        >>> Column("size", "ordered", ("S", "M", "L")).states
        ('S', 'M', 'L')
        >>> Column("age", "count", low=(17, 25), high=(24, 90), mean=(20.5, 48.25)).states
        ('17 – 24', '25 – 90')
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    """Of columns of levels: their names, each a state."""
    low: tuple[float, ...] = ()
    """Of columns of numbers: the least number of each bin …"""
    high: tuple[float, ...] = ()
    """… the largest one …"""
    mean: tuple[float, ...] = ()
    """… and the mean of those that were there when the bins were made."""
    other: str | None = None
    """The level that stands for all that have none of their own: rare ones, and those of later rows."""
    why: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"a column's name must be a word, not {self.name!r}.")
        if self.kind not in KINDS:
            raise InputError(f"the kind of column {self.name!r} must be one of {', '.join(KINDS)}, not {self.kind!r}.")
        if self.kind == "ignore":
            good = not (self.levels or self.low)
        elif self.is_number:
            good = not self.levels and self._good_bins()
        else:
            words = all(isinstance(level, str) and level for level in self.levels)
            good = not self.low and words and len(set(self.levels)) == len(self.levels) >= 2
            good = good and (self.kind != "binary" or len(self.levels) == 2)
            good = good and (self.other is None or self.other in self.levels)
        if not good:
            raise InputError(f"the column {self.name!r} cannot be {self.kind} with the states that are given for it.")

    def _good_bins(self) -> bool:
        ends = list(zip(self.low, self.mean, self.high, strict=False))
        if not len(self.low) == len(self.high) == len(self.mean) >= 2:
            return False
        if not all(isinstance(end, int | float) and math.isfinite(end) for each in ends for end in each):
            return False
        rising = all(before[2] < after[0] for before, after in itertools.pairwise(ends))
        return rising and all(low <= mean <= high for low, mean, high in ends) and self.other is None

    # ------------------------------------------------------------------ states

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def n_states(self) -> int:
        return len(self.low) if self.is_number else len(self.levels)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The names of the states: levels, or bins as "17 – 24"."""
        if not self.is_number:
            return self.levels
        for digits in range(4, 18):
            ends = [tuple(_short(end, digits) for end in pair) for pair in zip(self.low, self.high, strict=True)]
            told = tuple(low if low == high else f"{low} – {high}" for low, high in ends)
            if len(set(told)) == len(told):
                return told
        return told

    @cached_property
    def edges(self) -> Floats:
        """The numbers at which one bin ends and the next begins, half way between the numbers that were there."""
        low, high = np.array(self.low, dtype=np.float64), np.array(self.high, dtype=np.float64)
        middle = high[:-1] / 2 + low[1:] / 2
        return np.where(middle > high[:-1], middle, low[1:])  # of neighbours among floats there is no middle

    @cached_property
    def _edges(self) -> list[float]:
        return self.edges.tolist()

    @cached_property
    def _place(self) -> dict[str, int]:
        return {level: state for state, level in enumerate(self.levels)}

    def encode(self, cells: Sequence[str | None]) -> tuple[Floats, Counter[str]]:
        """The state of each cell, NaN for a gap; and the texts without a state, which count as "other", or as gaps."""
        states = np.full(len(cells), np.nan)
        strange: Counter[str] = Counter()
        for row, cell in enumerate(cells):
            if cell is None:
                continue
            state = self._state(cell)
            if state is None:
                strange[cell] += 1
                state = self._place[self.other] if self.other is not None else None
            if state is not None:
                states[row] = state
        return states, strange

    def _state(self, cell: str) -> int | None:
        if self.is_number:
            value = number(cell)
            return None if value is None else bisect.bisect_right(self._edges, value)
        state = self._place.get(cell)
        if state is None and (value := number(cell)) is not None:  # 1.0 for the level 1
            state = self._place.get(text(value) or "")
        return state

    def value(self, state: int) -> Any:
        """What stands for a state: its level, or the mean of its bin (a whole number in a column of counts)."""
        if self.is_number:
            mean = self.mean[state]
            return round(mean) if self.kind == "count" else mean
        return self.levels[state]

    def draw(self, states: "Sequence[int] | npt.NDArray[Any]", uniform: Floats) -> list[Any]:
        """Values for drawn states: levels, or numbers anywhere in their bins, at the fractions `uniform` of [0, 1]."""
        if not self.is_number:
            return [self.levels[int(state)] for state in states]
        low, high = np.array(self.low)[states], np.array(self.high)[states]
        if self.kind == "count":
            return [int(value) for value in np.minimum(np.floor(low + uniform * (high - low + 1)), high)]
        return [float(value) for value in np.clip(self.rounded(low + uniform * (high - low)), low, high)]

    def rounded(self, values: Floats) -> list[float]:
        """To whole numbers in a column of counts, else to about a thousandth of its range, as nobody knows them better."""
        if self.kind == "count":
            return [round(value) for value in values.tolist()]
        half = max(self.high[-1] / 2 - self.low[0] / 2, math.ulp(0.0))  # the whole range may be beyond all numbers
        digits = 3 - math.floor(math.log10(half))
        return [round(value, digits) for value in values.tolist()]

    # ------------------------------------------------------------------ numbers from probabilities

    def expected(self, probs: Floats) -> Floats:
        """The mean number, from probabilities of the bins [rows, states]."""
        return probs @ np.array(self.mean, dtype=np.float64)

    def quantile(self, probs: Floats, q: float) -> Floats:
        """The number below which a share q lies [rows], numbers spread evenly over each bin."""
        low, high = np.array(self.low, dtype=np.float64), np.array(self.high, dtype=np.float64)
        below = np.cumsum(probs, 1)
        state = np.minimum((below < q - 1e-12).sum(1), len(low) - 1)
        own = np.take_along_axis(probs, state[:, None], 1)[:, 0]
        before = np.take_along_axis(below, state[:, None], 1)[:, 0] - own
        share = np.clip((q - before) / np.maximum(own, 1e-300), 0, 1)
        found = low[state] + share * (high - low)[state]
        return np.round(found) if self.kind == "count" else found

    # ------------------------------------------------------------------ files

    def as_dict(self) -> dict[str, Any]:
        """As plain values, without those that are not there."""
        parts = {name: list(getattr(self, name)) for name in ("levels", "low", "high", "mean") if getattr(self, name)}
        other = {} if self.other is None else {"other": self.other}
        return {"name": self.name, "kind": self.kind} | parts | other | ({"why": self.why} if self.why else {})

    @classmethod
    def from_dict(cls, stored: Any) -> "Column":
        """The inverse; raise an InputError for anything that `as_dict` does not make."""
        if not isinstance(stored, Mapping):
            raise InputError(f"a column is described by a dictionary, not by {stored!r:.40}.")
        for name, value in stored.items():
            plain = isinstance(value, list) if name in ("levels", "low", "high", "mean") else isinstance(value, str)
            if name not in ("name", "kind", "levels", "low", "high", "mean", "other", "why") or not plain:
                raise InputError(f"a column cannot have the {name} {value!r:.40}.")
        parts: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
        try:
            return cls(**parts)
        except TypeError as error:
            raise InputError(f"a column has a name and a kind ({error}).") from error


def _short(value: float, digits: int) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.{digits}g}"


# ---------------------------------------------------------------------------------------------------------------------
# Columns from cells


def of_numbers(name: str, kind: str, values: Iterable[float], bins: int) -> Column:
    """Bins with about as many numbers in each; a number that fills a bin by itself has one of its own."""
    counts = Counter(float(value) for value in values)
    distinct = sorted(counts)
    groups: list[list[float]] = []
    if len(distinct) <= bins:
        groups = [[value] for value in distinct]
    else:
        left, share = sum(counts.values()), 0.0
        filled = 0
        for value in distinct:
            if not groups or filled + counts[value] / 2 > share or counts[value] >= share:
                left -= filled
                share = left / max(1, bins - len(groups))
                groups.append([])
                filled = 0
            groups[-1].append(value)
            filled += counts[value]
    low, high = tuple(group[0] for group in groups), tuple(group[-1] for group in groups)
    return Column(name, kind, low=low, high=high, mean=tuple(_mean(group, counts) for group in groups))


def _mean(group: list[float], counts: Counter[float]) -> float:
    total = sum(counts[value] for value in group)
    mean = math.fsum(value * (counts[value] / total) for value in group)
    return min(max(mean, group[0]), group[-1])  # rounding
