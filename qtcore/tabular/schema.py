"""What the columns of a table are: inferred from their cells, overridden where it is known better."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from qtcore.errors import InputError, nearest
from qtcore.tabular.columns import KINDS, NUMBERS, Column, of_numbers
from qtcore.tabular.reading import Cells, number, text

if TYPE_CHECKING:
    from qtcore.tabular.table import Table

BINS = 10
"""Bins of a column of numbers, with at least `PER_BIN` rows in each."""
PER_BIN = 15
MOSTLY = 0.9
"""A column holds numbers, or dates, if this share of its cells does; the others count as gaps."""
MAX_LEVELS = 50
"""Levels of a column, the rare ones pooled."""
RARE, RARE_SHARE = 10, 0.01
"""A level is rare below so many rows, or below this share of the rows of a small table."""
FEW_ROWS = 20
"""Fewer rows than this do not show that a column is an identifier, or a level rare."""
FREE_TEXT = 40
"""Different texts of so many characters on average are free text."""

CODE = re.compile(r"0\d+")
"""A number with zeros in front is a code, such as that of a place."""
IDENTIFIER = re.compile(r"(^|[\W_])(id|ids|uuid|index|key|rownames?|nr|no)$", re.IGNORECASE)
DATE = re.compile(r"(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4})([T ].*)?|\d{1,2}:\d{2}(:\d{2})?")


@dataclass(frozen=True)
class Schema:
    """The columns of a table in their order.

    Example:
        >>> import qtcore
        >>> schema = qtcore.Table({"size": ["S", "L", None, "S"], "price": [1.5, 9, 8, 2]}).schema
        >>> [(column.name, column.kind, column.n_states) for column in schema]
        [('size', 'binary', 2), ('price', 'real', 4)]
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if len(self._places) < len(self.columns):
            raise InputError("two columns of a table have the same name.")

    @cached_property
    def _places(self) -> dict[str, int]:
        return {column.name: place for place, column in enumerate(self.columns)}

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that a model has variables for: all but those that are ignored."""
        return tuple(column for column in self.columns if column.kind != "ignore")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of those."""
        return tuple(column.name for column in self.used)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Column:
        if name not in self._places:
            raise InputError(f"there is no column named {name!r}; {nearest(str(name), list(self._places))}")
        return self.columns[self._places[name]]

    def place(self, name: str) -> int:
        """The number of a used column, from 0."""
        column = self[name]
        if column.kind == "ignore":
            raise InputError(f"the column {name!r} is left out, so that nothing is known about it: {column.why or 'as asked'}.")
        return self.names.index(name)

    def as_list(self) -> list[dict[str, Any]]:
        """As plain values, for a file."""
        return [column.as_dict() for column in self.columns]

    @classmethod
    def from_list(cls, stored: Any) -> "Schema":
        """The inverse; raise an InputError for anything that `as_list` does not make."""
        if not isinstance(stored, Sequence) or isinstance(stored, str):
            raise InputError(f"a schema is a list of columns, not {stored!r:.40}.")
        return cls(tuple(Column.from_dict(each) for each in stored))


def infer(cells: Cells, overrides: "Mapping[str, Any] | None" = None, bins: int = BINS) -> tuple[Schema, list[str]]:
    """The schema of these cells, and a sentence about everything in them that is special."""
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 2:
        raise InputError(f"bins must be a whole number ≥ 2, not {bins!r}.")
    overrides = overrides or {}
    for name in overrides:
        if name not in cells:
            raise InputError(f"there is no column named {name!r} to override; {nearest(str(name), list(cells))}")
    columns, notes = [], []
    for name, own in cells.items():
        column, told = _overridden(name, own, overrides[name], bins) if name in overrides else _inferred(name, own, bins)
        columns.append(column)
        notes += told
    return Schema(tuple(columns)), notes


Inferred = tuple[Column, list[str]]


def _left_out(name: str, why: str) -> Inferred:
    return Column(name, "ignore", why=why), [f"{name!r} is left out: {why}."]


def _inferred(name: str, cells: Sequence[str | None], bins: int) -> Inferred:
    known = [cell for cell in cells if cell is not None]
    counts = Counter(known)
    if not counts:
        return _left_out(name, "it has no values")
    if len(counts) == 1:
        return _left_out(name, f"all its values are {known[0]!r:.60}")
    values = [value for cell in known if (value := number(cell)) is not None]
    codes = any(CODE.fullmatch(cell) for cell in counts)
    if len(values) >= MOSTLY * len(known) and not codes:
        return _of_numbers(name, known, values, bins)
    if sum(DATE.fullmatch(cell) is not None for cell in counts) >= MOSTLY * len(counts):
        return _left_out(name, f"it holds dates or times such as {known[0]!r:.40}; give numbers, such as years")
    once = len(counts) == len(known) >= FEW_ROWS
    long = sum(map(len, counts)) / len(counts) >= FREE_TEXT
    if once and not long:
        return _left_out(name, f"it has another value in every row, such as {known[0]!r:.40}, as an identifier has")
    if len(known) >= FEW_ROWS and long and len(counts) > len(known) / 2:
        return _left_out(name, "it holds free text")
    return _of_levels(name, "categorical", counts)


def _of_numbers(name: str, known: list[str], values: list[float], bins: int) -> Inferred:
    """A column of numbers, by what they are."""
    distinct = set(values)
    notes = _no_numbers(name, known)
    whole = all(value.is_integer() for value in distinct)
    if len(distinct) == 1:
        return _left_out(name, f"all its numbers are {text(values[0])}")
    if len(distinct) == 2:
        return Column(name, "binary", tuple(str(text(value)) for value in sorted(distinct))), notes
    if whole and len(distinct) == len(values) >= FEW_ROWS:
        in_a_row = max(distinct) - min(distinct) == len(values) - 1
        if in_a_row or IDENTIFIER.search(name):
            return _left_out(name, "it has another whole number in every row, as an identifier has")
    return of_numbers(name, "count" if whole else "real", values, _bins(len(values), bins)), notes


def _bins(count: int, bins: int) -> int:
    return max(2, min(bins, count // PER_BIN)) if count >= 4 * PER_BIN else min(bins, 4)


def _no_numbers(name: str, known: list[str]) -> list[str]:
    others = [cell for cell in known if number(cell) is None]
    if not others:
        return []
    count = f"{len(others)} cells of {name!r} are" if len(others) > 1 else f"a cell of {name!r} is"
    return [f"{count} no number, such as {others[0]!r:.40}, and count as gaps."]


def _of_levels(name: str, kind: str, counts: Counter[str]) -> Inferred:
    """A column of levels, those that are rare pooled."""
    rows = sum(counts.values())
    least = 1 if rows < FEW_ROWS else min(RARE, max(2, round(RARE_SHARE * rows)))
    kept = [level for level, count in counts.most_common() if count >= least][:MAX_LEVELS]
    rare = counts.keys() - set(kept)
    if len(rare) < 2:
        kept, rare = list(counts), set()
    if not kept:
        return _left_out(name, "hardly any of its values occurs twice")
    notes, other = [], None
    if rare:
        other = next(word for word in ("other", "(other)", "(all others)") if word not in kept)
        rows_of = sum(counts[level] for level in rare)
        notes.append(f"{len(rare)} rare levels of {name!r} ({rows_of} rows) are taken together as {other!r}.")
    levels = (*_sorted(kept), *([] if other is None else [other]))
    return Column(name, "binary" if len(levels) == 2 and kind == "categorical" else kind, levels, other=other), notes


def _sorted(levels: Sequence[str]) -> list[str]:
    """By number where all are numbers, else by the alphabet."""
    numbers = {level: value for level in levels if (value := number(level)) is not None}
    return sorted(levels, key=lambda level: numbers[level]) if len(numbers) == len(levels) else sorted(levels)


# ---------------------------------------------------------------------------------------------------------------------
# Overrides


def _overridden(name: str, cells: Sequence[str | None], given: Any, bins: int) -> Inferred:
    if isinstance(given, Column):
        if given.name != name:
            raise InputError(f"the column for {name!r} is named {given.name!r}.")
        return given, []
    if isinstance(given, Mapping):
        return Column.from_dict({"name": name} | dict(given)), []
    known = [cell for cell in cells if cell is not None]
    if not isinstance(given, str):
        return _in_order(name, known, given)
    if given not in KINDS:
        raise InputError(f"the column {name!r} cannot be {given!r}; give {', '.join(KINDS)}, or its levels in a list.")
    if given == "ignore":
        return Column(name, "ignore", why="as asked"), []
    counts = Counter(known)
    if len(counts) < 2:
        raise InputError(f"the column {name!r} has fewer than two values, so that it cannot be {given}.")
    if given in NUMBERS:
        values = [value for cell in known if (value := number(cell)) is not None]
        if given == "count":
            values = [value for value in values if value.is_integer()]
        if len(set(values)) < 2:
            kind = "whole numbers" if given == "count" else "numbers"
            raise InputError(f"the column {name!r} cannot be {given}: it has no two different {kind}.")
        return of_numbers(name, given, values, _bins(len(values), bins)), _no_numbers(name, known)
    if given == "binary":
        if len(counts) > 2:
            raise InputError(f"the column {name!r} cannot be binary: it has {len(counts)} values, not 2.")
        return Column(name, given, tuple(_sorted(list(counts)))), []
    if given == "ordered":
        if any(number(level) is None for level in counts):
            raise InputError(f"the levels of {name!r} are no numbers; give them in their order, in a list.")
        return Column(name, given, tuple(_sorted(list(counts)))), []
    column, notes = _of_levels(name, given, counts)
    if column.kind == "ignore":
        raise InputError(f"the column {name!r} cannot be categorical: {column.why}.")
    return column, notes


def _in_order(name: str, known: list[str], given: Any) -> Inferred:
    """An ordered column, from all its levels."""
    if not isinstance(given, Sequence):
        raise InputError(f"the column {name!r} is overridden by a kind or a list of its levels, not by {given!r:.40}.")
    levels = tuple(str(text(level)) for level in given)
    column = Column(name, "ordered", levels)
    _, strange = column.encode(known)
    return column, [strange_cells(column, strange)] if strange else []


def strange_cells(column: Column, strange: Counter[str]) -> str:
    """A sentence about cells that a column has no state for."""
    first, count = next(iter(strange)), sum(strange.values())
    cells = f"{count} cells of {column.name!r} are" if count > 1 else f"a cell of {column.name!r} is"
    what = "no number" if column.is_number else "no level that it is known to have"
    taken = "count as gaps" if column.other is None else f"are taken as {column.other!r}"
    if count == 1:
        taken = "counts as a gap" if column.other is None else f"is taken as {column.other!r}"
    return f"{cells} {what}, {'such as' if count > 1 else 'but'} {first!r:.40}, and {taken}."


# ---------------------------------------------------------------------------------------------------------------------
# For people


def describe(table: "Table") -> str:
    """What was inferred about a table: each column with its kind, its gaps and its states, and all notes.

    Example:
        >>> import qtcore
        >>> print(qtcore.describe(qtcore.Table({"size": ["S", "L", None, "S"], "price": [1.5, 9, 8, 2]})))
        4 rows, 2 columns
        column  kind    gaps  states
        size    binary     1  L, S
        price   real       0  1.5, 2, 8, 9
    """
    rows = [("column", "kind", "gaps", "states")]
    for column in table.schema:
        gaps = sum(cell is None for cell in table.cells[column.name])
        rows.append((column.name, column.kind, str(gaps), _states(column)))
    wide = [max(len(row[k]) for row in rows) for k in range(3)]
    lines = [f"{name:{wide[0]}}  {kind:{wide[1]}}  {gaps:>{wide[2]}}  {states}" for name, kind, gaps, states in rows]
    notes = [f"note: {note}" for note in table.notes]
    return "\n".join([f"{len(table)} rows, {len(table.schema)} columns", *lines, *notes])


def _states(column: Column) -> str:
    if column.kind == "ignore":
        return "–"
    states = ", ".join(column.states[:5])
    return states if column.n_states <= 5 else f"{column.n_states}: {states}, …"
