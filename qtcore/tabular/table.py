"""A table of data: cells by column, with the schema that says what they are."""

import os
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from qtcore.errors import InputError, nearest
from qtcore.support.files import write_atomically
from qtcore.tabular.columns import Column
from qtcore.tabular.reading import Cells, cells_of, csv_text, number, read_csv, text
from qtcore.tabular.schema import BINS, Schema, describe, infer, strange_cells


class Table:
    """Rows with named columns and gaps.

    Args:
        data: a DataFrame (pandas or polars), an Arrow table, a dictionary of columns, a list of rows by name, or an array.
        schema: for some columns what they are: "binary", "categorical", "ordered", "count", "real", "ignore", or their
            levels in order; what is not named is inferred. Or a whole `Schema`, such as that of a trained model: columns
            that it lacks are an error, columns that are missing are gaps.
        bins: the largest number of bins of a column of numbers.

    Example:
        >>> import qtcore
        >>> table = qtcore.Table({"age": [37, 52, None], "work": ["Private", None, "State"]}, schema={"age": "real"})
        >>> table.values
        tensor([[0., 0.],
                [1., nan],
                [nan, 1.]])
    """

    schema: Schema
    notes: list[str]
    """A sentence about everything special."""
    cells: Cells
    """Texts, None for gaps, by column; of those in the schema, in its order."""

    def __init__(self, data: Any, schema: "Schema | Mapping[str, Any] | None" = None, bins: int = BINS) -> None:
        self._take(data.cells if isinstance(data, Table) else cells_of(data), schema, bins)

    @classmethod
    def read(
        cls, path: "str | os.PathLike[str] | IO[bytes]", schema: "Schema | Mapping[str, Any] | None" = None, bins: int = BINS
    ) -> "Table":
        """The table in a CSV file in UTF-8 (a path, or a file opened to read bytes), whose first line names the columns."""
        table = object.__new__(cls)
        table._take(read_csv(path), schema, bins)
        return table

    def _take(self, cells: Cells, schema: "Schema | Mapping[str, Any] | None", bins: int) -> None:
        if schema is not None and not isinstance(schema, Schema | Mapping):
            raise InputError(f"schema must say by name what columns are, not be a {type(schema).__name__}.")
        size = len(next(iter(cells.values())))
        if not size:
            raise InputError("a table needs at least one row.")
        if isinstance(schema, Schema):
            self.schema, self.notes = schema, []
            for name in cells:
                if name not in schema:
                    raise InputError(f"there is no column named {name!r}; {nearest(name, [column.name for column in schema])}")
            cells = {column.name: cells[column.name] if column.name in cells else [None] * size for column in schema}
        else:
            self.schema, self.notes = infer(cells, schema, bins)
        self.cells = cells
        columns = [self._encoded(column, isinstance(schema, Schema)) for column in self.schema.used]
        states = np.stack(columns, 1) if columns else np.zeros((len(self), 0))
        self.values: Tensor = torch.from_numpy(states).float()
        """The state of each cell of the used columns [n, V], NaN for gaps."""

    def _encoded(self, column: Column, tell: bool) -> Any:
        states, strange = column.encode(self.cells[column.name])
        if strange and tell:
            self.notes.append(strange_cells(column, strange))
        return states

    # ------------------------------------------------------------------ as a table

    def __len__(self) -> int:
        return len(next(iter(self.cells.values())))

    def __getitem__(self, rows: "slice | Sequence[int]") -> "Table":
        """Some of the rows, with the same schema."""
        which = range(len(self))[rows] if isinstance(rows, slice) else [int(row) for row in rows]
        return self._with({name: [cells[row] for row in which] for name, cells in self.cells.items()})

    def _with(self, cells: Cells) -> "Table":
        table = object.__new__(Table)
        table._take(cells, self.schema, BINS)
        table.notes = list(self.notes)
        return table

    def filled(self, values: Mapping[str, Sequence[Any]]) -> "Table":
        """The same table with gaps of some columns filled: for each of them values [n], None for a gap that stays."""
        cells = dict(self.cells)
        for name, given in values.items():
            cells[name] = [text(value) if cell is None else cell for cell, value in zip(cells[name], given, strict=True)]
        return self._with(cells)

    def as_dict(self) -> dict[str, list[Any]]:
        """The columns as Python values (numbers where all of a column are), None for gaps; `pandas.DataFrame` takes it."""
        return {column.name: _typed(column, self.cells[column.name]) for column in self.schema}

    def write(self, path: "str | os.PathLike[str]") -> None:
        """Write a CSV file."""
        write_atomically(path, csv_text(self.cells))

    def __repr__(self) -> str:
        shown = csv_text({name: [cell or "" for cell in cells[:3]] for name, cells in list(self.cells.items())[:8]})
        return f"<Table of {len(self)} rows, {len(self.schema)} columns>\n{shown}{'…' if len(self) > 3 else ''}".rstrip("\n")

    def __str__(self) -> str:
        return describe(self)


def _typed(column: Column, cells: Sequence[str | None]) -> list[Any]:
    """Cells as numbers if all are; of other columns than those of numbers, only if nothing of their texts is lost."""
    values = [None if cell is None else number(cell) for cell in cells]
    for cell, value in zip(cells, values, strict=True):
        if cell is not None and (value is None or not (column.is_number or text(value) == cell)):
            return list(cells)
    whole = all(value is None or value.is_integer() for value in values)
    return [None if value is None else int(value) if whole else value for value in values]
