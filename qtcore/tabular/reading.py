"""Cells as text, from whatever holds a table: a CSV file, a DataFrame, columns or rows by name.

Every cell becomes its text without blanks around it, or None for a gap; a number's text is the shortest that gives it back.
So a table means the same whether it came from a file or from a DataFrame.
"""

import csv
import io
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from qtcore.errors import InputError

Cells = dict[str, list[str | None]]
"""The cells of each column, by its name."""

GAPS = frozenset({"", "na", "n/a", "nan", "null", "?", "<na>", "nat"})
"""What stands for a gap, in any case; the last two are those of pandas. And None, so written: "none" may be a level."""

DELIMITERS = ",;\t"
EXACT = 2**53
"""Up to here every whole number is a float."""


def text(value: Any) -> str | None:
    """The text of a cell, None for a gap.

    Example:
        >>> from qtcore.tabular.reading import text
        >>> [text(value) for value in (37.0, 0.5, " a ", True, float("nan"), None, "N/A")]
        ['37', '0.5', 'a', 'True', None, None, None]
    """
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < EXACT else repr(value)
    plain = str(value).strip()
    return None if plain == "None" or plain.lower() in GAPS else plain


def number(cell: str) -> float | None:
    """The finite number that a cell's text stands for, if it is one."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in cell else None


def cells_of(data: Any) -> Cells:
    """The cells of a DataFrame (pandas or polars), an Arrow table, columns by name, rows by name, one such row, or a matrix."""
    if isinstance(data, Mapping):
        several = any(_is_column(value) for value in data.values())
        return _of_columns([(name, value if several else [value]) for name, value in data.items()])
    if hasattr(data, "column_names") and hasattr(data, "to_pydict"):  # Arrow
        names, columns = list(data.column_names), list(data.columns)
        return _of_columns([(name, column.to_pylist()) for name, column in zip(names, columns, strict=True)])
    if hasattr(data, "columns") and hasattr(data, "shape"):
        return _of_frame(data)
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise InputError(f"a table has rows and columns, but the array has the shape {list(data.shape)}.")
        return _of_columns([(f"x{k}", list(data[:, k])) for k in range(data.shape[1])])
    if isinstance(data, Sequence) and not isinstance(data, str | bytes) and all(isinstance(row, Mapping) for row in data):
        names = list(dict.fromkeys(name for row in data for name in row))
        return _of_columns([(name, [row.get(name) for row in data]) for name in names])
    raise InputError(
        f"a table is a DataFrame, a dictionary of columns, a list of rows by name or an array, not a {type(data).__name__}; "
        f"of a file, give its path to qtcore.Table.read."
    )


def _is_column(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray) or (hasattr(value, "__len__") and not isinstance(value, str | bytes))


def _of_frame(data: Any) -> Cells:
    names = list(data.columns)
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two columns are named {name!r}; rename one of them.")
    return _of_columns([(name, data[name].to_list()) for name in names])


def _of_columns(columns: list[tuple[Any, Any]]) -> Cells:
    cells: Cells = {}
    for given, values in columns:
        name = str(given).strip()
        if not name:
            raise InputError("a column has no name; give each one.")
        if name in cells:
            raise InputError(f"two columns are named {name!r}; rename one of them.")
        if not _is_column(values):
            raise InputError(f"the column {name!r} must be a list of values, as others are, not {values!r:.40}.")
        cells[name] = [text(value) for value in values]
    if not cells:
        raise InputError("a table needs at least one column.")
    first, size = next(iter(cells)), len(next(iter(cells.values())))
    for name, values in cells.items():
        if len(values) != size:
            raise InputError(f"the column {name!r} has {len(values)} values, but {first!r} has {size}.")
    return cells


# ---------------------------------------------------------------------------------------------------------------------
# CSV


def read_csv(source: "str | os.PathLike[str] | IO[bytes]") -> Cells:
    """The cells of a CSV file in UTF-8 whose first line names the columns; with commas, semicolons or tabs between them."""
    if not isinstance(source, str | os.PathLike):
        return _read(source, "the table")
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a table (CSV).")
    if not path.exists():
        raise InputError(f"{path} does not exist; give a table (CSV).")
    with open(path, "rb") as file:
        return _read(file, str(path))


def _read(file: "IO[bytes]", path: str) -> Cells:
    lines = _lines(file, path)
    first = next(lines, "")
    delimiter = _delimiter(first)
    reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    names: list[str] = []
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip() and len(names) != 1):  # an empty line
                continue
            if not names:
                names = _names(path, row)
            elif len(row) != len(names):
                raise InputError(
                    f"{path}, line {reader.line_num}: there are {len(row)} fields, but {len(names)} columns are named in the "
                    f"first line; put text that holds {_said(delimiter)} in double quotes."
                )
            else:
                rows.append(row)
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: this is not a table ({error}).") from error
    if not rows:
        raise InputError(f"{path} holds no rows{' below its line of names' if names else ''}.")
    return {name: [text(cell) for cell in column] for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _lines(file: "IO[bytes]", path: str) -> Iterator[str]:
    for count, raw in enumerate(file, 1):
        try:
            yield raw.decode("utf-8-sig" if count == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, line {count}: this is no text in UTF-8; save the table so.") from error


def _delimiter(line: str) -> str:
    """The one that divides the line of names most often, outside quotes."""
    outside = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _said(delimiter: str) -> str:
    return {",": "a comma", ";": "a semicolon"}.get(delimiter, "a tab")


def _names(path: str, row: list[str]) -> list[str]:
    """Names of the columns; one without gets the name of its place, as the index that pandas writes."""
    names = [name.strip() or f"column {place}" for place, name in enumerate(row, 1)]
    if all(text(name) is None or number(name) is not None for name in row):
        raise InputError(f"{path}: the first line must name the columns, but it holds {', '.join(row)[:60]!r}.")
    first: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if first.setdefault(name, place) != place:
            raise InputError(f"{path}: columns {first[name]} and {place} are both named {name!r}.")
    return names


def csv_text(cells: "Mapping[str, Sequence[Any]]") -> str:
    """A CSV file of these cells, gaps empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows(["" if cell is None else cell for cell in row] for row in zip(*cells.values(), strict=True))
    return file.getvalue()
