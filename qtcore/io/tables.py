"""Tables in and out: rows with blanks from a CSV file, the marginals of the blanks as another one."""

import csv
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from qtcore.data import variable_names
from qtcore.data.variables import pixel_names
from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.models.base import Model
from qtcore.query import Query

BLANKS = ("", "?", "na", "nan")
MAX_BATCH, MAX_BYTES = 512, 2**28
"""Rows per batch, and approximately how much memory they may take."""


@dataclass
class Table:
    """A table with blanks, read row by row."""

    path: Path
    known: tuple[str, ...] | None
    """Names of the variables, if the model has them."""
    width: int
    read: int = 0
    """Bytes so far."""
    names: tuple[str, ...] = ()
    """Of the variables, in the model's order."""
    labelled: bool = False
    """Whether the names are those of the file, as the model has none."""
    columns: tuple[int, ...] = ()
    """Where in the file each variable stands."""

    def rows(self) -> Iterator[tuple[int, int, list[float]]]:
        """The number of each row, its line in the file, and its values, NaN for blanks."""
        self.names = self.known or tuple(str(column + 1) for column in range(self.width))
        self.columns = tuple(range(self.width))
        lines = self._lines()
        first = next(lines, "")
        delimiter = next((mark for mark in ";\t" if mark in first and "," not in first), ",")
        reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, skipinitialspace=True)
        row = 0
        try:
            for cells in reader:
                if not any(cell.strip() for cell in cells) and len(cells) < 2:  # an empty line
                    continue
                where = f"{self.path}, row {row + 1} (line {reader.line_num})"
                if len(cells) != self.width:
                    raise InputError(f"{where}: there are {len(cells)} columns, but the model has {self.width} variables.")
                if row == 0 and self._take_header(cells):
                    continue
                row += 1
                yield row, reader.line_num, [self._number(cells, where, variable) for variable in range(self.width)]
        except csv.Error as error:
            raise InputError(f"{self.path}, line {reader.line_num}: this is not a table ({error}).") from error
        if row == 0:
            raise InputError(f"{self.path} holds no rows.")

    def _lines(self) -> Iterator[str]:
        with open(self.path, "rb") as file:
            for number, raw in enumerate(file, 1):
                self.read += len(raw)
                try:
                    yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{self.path}, line {number}: this is no text in UTF-8; save the table so.") from error

    def _take_header(self, cells: list[str]) -> bool:
        """Whether this first line is a header: no cell is a number, and not all are blank. Names that the model knows say
        where each variable stands; for a model without names they are labels of the answer."""
        names = [cell.strip() for cell in cells]
        if any(map(_is_number, names)) or all(name.lower() in BLANKS for name in names):
            return False
        for place, name in enumerate(names):
            if name in names[:place]:
                raise InputError(f"{self.path}: columns {names.index(name) + 1} and {place + 1} are both named {name!r}.")
            if self.known is not None and name not in self.known:
                raise InputError(
                    f"{self.path}: column {place + 1} is named {name!r}, but no variable of the model is; "
                    f"name all columns as the model does, such as {self.known[0]!r}, or none."
                )
        if self.known is None:
            self.names, self.labelled = tuple(names), True
        else:
            self.columns = tuple(names.index(name) for name in self.known)
        return True

    def place(self, variable: int) -> str:
        """A column in an error message."""
        return f"column {self.columns[variable] + 1} ({self.names[variable]})"

    def _number(self, cells: list[str], where: str, variable: int) -> float:
        text = cells[self.columns[variable]].strip()
        if text.lower() in BLANKS:
            return float("nan")
        try:
            return float(text)
        except ValueError as error:
            raise InputError(f"{where}, {self.place(variable)}: {text!r} is no number.") from error


def table_for(model: Model, path: Path) -> Table:
    """The table in a file, as this model reads it."""
    (width,) = model.variables.shape
    assert width is not None
    pixels = pixel_names(*model.image_shape) if model.image_shape else None
    known = variable_names(str(model.provenance.dataset)) or model.column_names() or pixels
    return Table(path, known if known is not None and len(known) == width else None, width)


def _is_number(text: str) -> bool:
    try:
        return text.lower() != "nan" and float(text) is not None
    except ValueError:
        return False


def check_values(model: Model, table: Table, batch: list[tuple[int, int, list[float]]], values: Tensor) -> None:
    """Raise an InputError with row and column for a value that a variable cannot take."""
    bad = (~model.variables.valid(values) & ~values.isnan()).nonzero()
    if len(bad):
        i, j = bad[0].tolist()
        row, line, numbers = batch[i]
        where = f"{table.path}, row {row} (line {line}), {table.place(j)}"
        raise InputError(f"{where}: {numbers[j]:g} must be {model.variables.expected(j)}.")


@torch.no_grad()
def answers(model: Model, values: Tensor, n_layers: int | None = None, engine: Engine | None = None) -> Tensor:
    """Marginals of all variables [B, V, numbers]: a probability, mean and deviation, or one probability per state."""
    marginals = model(Query(values, ~values.isnan()).to(model.device), n_layers, engine)
    return model.variables.numbers(marginals).cpu()


def batches(model: Model, table: Table, size: int) -> Iterator[tuple[list[int], Tensor]]:
    """The numbers of some rows, and their values [B, V], NaN for blanks; with a progress bar on a terminal."""
    with tqdm(total=table.path.stat().st_size, unit="B", unit_scale=True, disable=None) as bar:
        for batch in _batched(table.rows(), size):
            values = torch.tensor([numbers for _, _, numbers in batch], dtype=torch.float64).to(model.dtype)
            check_values(model, table, batch, values)
            yield [row for row, _, _ in batch], values
            bar.update(table.read - bar.n)


def infer_table(
    model: Model, table: Table, out: Path, n_layers: int | None = None, engine: Engine | None = None
) -> tuple[int, int]:
    """Write the marginals of all blanks; return the numbers of rows and of blanks."""
    variables = model.variables
    kept = (engine or model.engine).at(1).kept_bytes(model, (table.width,))
    batch_size = max(1, min(MAX_BATCH, MAX_BYTES // kept))
    rows = blanks = 0
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "variable", *variables.columns()])
        for numbers_of_rows, values in batches(model, table, batch_size):
            missing = values.isnan().nonzero().tolist()
            if missing:
                numbers = answers(model, values, n_layers, engine).tolist()
                for i, j in missing:
                    fields = (f"{number:.7g}" for number in numbers[i][j][: variables.count(j)])
                    writer.writerow([numbers_of_rows[i], table.names[j], *fields])
            rows, blanks = rows + len(values), blanks + len(missing)
    return rows, blanks


def _batched(rows: Iterator[tuple[int, int, list[float]]], size: int) -> Iterator[list[tuple[int, int, list[float]]]]:
    while batch := list(itertools.islice(rows, size)):
        yield batch
