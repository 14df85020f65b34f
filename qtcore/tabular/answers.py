"""Answers about the columns of a table: a probability for every level, and numbers where the column holds numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qtcore.errors import InputError, nearest
from qtcore.tabular.columns import Column, Floats
from qtcore.tabular.reading import text

QUANTILES = {"q10": 0.1, "median": 0.5, "q90": 0.9}
SHOWN = 6
"""Levels of an answer, and rows of many, that are shown."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known about one column in each row."""

    column: Column
    probs: Floats
    """Of its states [rows, states]."""

    @property
    def states(self) -> tuple[str, ...]:
        """Levels, or bins of numbers, in the order of `probs`."""
        return self.column.states

    def __getitem__(self, level: Any) -> Any:
        """The probability of a level: a number for a single row, else an array [rows]."""
        states, _ = self.column.encode([text(level)])
        if np.isnan(states[0]):
            raise InputError(f"{self.column.name!r} has no level {level!r}; {nearest(str(level), list(self.states))}")
        probs = self.probs[:, int(states[0])]
        return float(probs[0]) if len(probs) == 1 else probs

    @property
    def best(self) -> list[Any]:
        """The most probable level of each row; of numbers, the mean of the most probable bin."""
        return [self.column.value(int(state)) for state in self.probs.argmax(1)]

    @property
    def mean(self) -> Floats:
        """The expected number of each row."""
        self._need_numbers()
        return self.column.expected(self.probs)

    def quantile(self, q: float) -> Floats:
        """The number of each row below which a share q lies."""
        self._need_numbers()
        if not 0 <= q <= 1:
            raise InputError(f"a quantile is a share between 0 and 1, not {q!r}.")
        return self.column.quantile(self.probs, q)

    def _need_numbers(self) -> None:
        if not self.column.is_number:
            raise InputError(f"{self.column.name!r} holds levels, not numbers; ask for their probabilities.")

    def numbers(self) -> dict[str, Floats]:
        """Mean and quantiles, of a column of numbers; else nothing."""
        if not self.column.is_number:
            return {}
        return {"mean": self.mean} | {name: self.quantile(q) for name, q in QUANTILES.items()}


@dataclass(frozen=True, eq=False)
class Answers(Mapping[str, Answer]):
    """Answers by column; shown as a small table."""

    each: dict[str, Answer]
    notes: list[str] = field(default_factory=list)
    """A sentence about every cell that was taken for something else than it says."""

    def __getitem__(self, name: str) -> Answer:
        if name not in self.each:
            raise InputError(f"nothing was asked about {name!r}; {nearest(str(name), list(self.each))}")
        return self.each[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    @property
    def rows(self) -> int:
        return len(next(iter(self.each.values())).probs)

    def as_dict(self) -> dict[str, list[Any]]:
        """A line for every row, column and level, as columns; `pandas.DataFrame` takes it."""
        names = ["row", "column", "level", "probability", "mean", *QUANTILES]
        lines = [line for row in range(self.rows) for line in self.lines(row)]
        return {name: [line[k] for line in lines] for k, name in enumerate(names)}

    def lines(self, row: int, columns: "Sequence[str] | None" = None) -> Iterator[tuple[Any, ...]]:
        """Those of one row: its number from 1, column, level, probability, mean and quantiles (None for levels)."""
        for name in self.each if columns is None else columns:
            answer = self.each[name]
            numbers: list[float | None] = [float(values[row]) for values in answer.numbers().values()]
            numbers = numbers or [None] * (1 + len(QUANTILES))
            for level, p in zip(answer.states, answer.probs[row], strict=True):
                yield row + 1, name, level, float(p), *numbers

    def __repr__(self) -> str:
        parts = [_block(answer) for answer in self.each.values()] if self.rows == 1 else [self._many()]
        return "\n\n".join(parts) + "".join(f"\nnote: {note}" for note in self.notes)

    def _many(self) -> str:
        """The likeliest level of each column in the first rows, with its probability."""
        lines = [["row", *self.each]]
        for row in range(min(self.rows, SHOWN)):
            best = [(answer, int(answer.probs[row].argmax())) for answer in self.each.values()]
            lines.append([str(row + 1), *(f"{a.states[state]} ({a.probs[row, state]:.2f})" for a, state in best)])
        return _aligned(lines) + ("" if self.rows <= SHOWN else f"\n… {self.rows} rows")


def _block(answer: Answer) -> str:
    """One column of one row: numbers in their order, levels by their probability."""
    probs = answer.probs[0]
    order = np.argsort(-probs, kind="stable")[: SHOWN if len(probs) > SHOWN + 1 else None]
    if answer.column.is_number or answer.column.kind == "ordered":
        order = np.arange(len(probs))
    lines = [[answer.column.name, "probability"], *([answer.states[state], f"{probs[state]:.3f}"] for state in order)]
    if len(order) < len(probs):
        lines.append([f"{len(probs) - len(order)} more", f"{1 - probs[order].sum():.3f}"])
    told = ", ".join(f"{name} {values[0]:.4g}" for name, values in answer.numbers().items())
    return _aligned(lines) + (f"\n{told}" if told else "")


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(f"{cell:{w}}" for cell, w in zip(line, wide, strict=True)).rstrip() for line in lines)
