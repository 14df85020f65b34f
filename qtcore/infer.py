"""Ask a trained model: fill in what is missing in a table or an image.

    python -m qtcore.infer rbm/adult rows.csv                      marginals of the blanks, in rows.marginals.csv
    python -m qtcore.infer runs/d/best.safetensors rows.csv --out answers.csv
    python -m qtcore.infer grbm/frey face.png --mask mask.png      mean.png and deviation.png, in face.marginals/
    python -m qtcore.infer grid/border contour.png --out answer    labels.png and p_contour.png, p_out.png, p_in.png

A table is a CSV file in UTF-8, one variable per column, with or without a line of names. A blank (nothing, ?, NA or NaN) is
unknown. Binary variables are 0, 1 or in between (a soft reading), categorical ones whole numbers from 0. The answer has one
line per blank: its row and variable, then `probability` (of a 1), `mean` and `deviation` (in the standardised units that
the model was trained in), or one probability per state.

In a mask, white pixels are known and black ones hidden (the threshold is half way). A face needs one. Its answer is in grey
levels; in deviation.png, white is a standard deviation of 64 levels or more. A contour image is bright on dark, of any size;
its mask is optional, and hidden pixels give no evidence. In labels.png contours are red, insides blue, outsides yellow.
"""

import csv
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from torch import Tensor
from torch.distributions import Bernoulli, Normal
from tqdm import tqdm

from qtcore import images
from qtcore.cli import arguments, guarded
from qtcore.data.variables import pixel_names, variable_names
from qtcore.errors import InputError
from qtcore.files import write_atomically
from qtcore.learn.run import device
from qtcore.models.base import Model, load
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.pairwise import PairwiseMRF
from qtcore.query import Query

BLANKS = ("", "?", "na", "nan")
MAX_BATCH, MAX_BYTES = 512, 2**28
"""Rows that are asked about at a time, and about how much memory they may take."""


@dataclass(frozen=True)
class Command:
    """What to ask, and whom."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Name of a shipped model, or a file."""
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A table (CSV) with blanks, or an image."""
    mask: Path | None = None
    """An image of the same size: white is known, black is hidden."""
    out: Path | None = None
    """File (of a table) or folder (of an image) for the answer; by default next to FILE."""
    fit: bool = False
    """Faces: crop and scale the image and its mask to the size that the model expects."""
    layers: int | None = None
    """Layers of belief propagation; by default the model's own number."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first of these that is there."""


# ---------------------------------------------------------------------------------------------------------------------
# Tables


@dataclass
class Table:
    """A table with blanks, read row by row."""

    path: Path
    known: tuple[str, ...] | None
    """Names of the variables, where the model knows them."""
    width: int
    read: int = 0
    """Bytes so far."""
    names: tuple[str, ...] = ()

    def rows(self) -> Iterator[tuple[int, int, list[float]]]:
        """The number of each row, its line in the file, and its values, NaN for blanks."""
        self.names = self.known or tuple(str(column + 1) for column in range(self.width))
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
                yield row, reader.line_num, [self._number(cell, where, column) for column, cell in enumerate(cells)]
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
        """Whether this first line has names: no cell of it is a number, and not all are blank."""
        names = [cell.strip() for cell in cells]
        if any(map(_is_number, names)) or all(name.lower() in BLANKS for name in names):
            return False
        if self.known is not None and set(names) == set(self.known) and names != list(self.known):
            column = next(i for i, (name, known) in enumerate(zip(names, self.known, strict=True)) if name != known)
            raise InputError(
                f"{self.path}: the columns are in another order than the model's; "
                f"column {column + 1} is {names[column]!r}, not {self.known[column]!r}."
            )
        self.names = tuple(names)
        return True

    def _number(self, cell: str, where: str, column: int) -> float:
        text = cell.strip()
        if text.lower() in BLANKS:
            return float("nan")
        try:
            return float(text)
        except ValueError as error:
            raise InputError(f"{where}, column {column + 1} ({self.names[column]}): {text!r} is no number.") from error


def _is_number(text: str) -> bool:
    try:
        return text.lower() != "nan" and float(text) is not None
    except ValueError:
        return False


def table_for(model: Model, path: Path) -> Table:
    """The table in a file, as this model reads it."""
    (width,) = model._sample_shape()
    assert width is not None
    shape = model.notes.get("image_shape")
    known = variable_names(str(model.notes.get("dataset"))) or (pixel_names(*shape) if shape else None)
    return Table(path, known if known is not None and len(known) == width else None, width)


def check_values(model: Model, table: Table, batch: list[tuple[int, int, list[float]]], values: Tensor) -> None:
    """Refuse values that a variable cannot take, with their row and column."""
    good, expected = values.isfinite(), "a number that is not too large"
    if isinstance(model, PairwiseMRF):
        good &= (values >= 0) & (values < model._sizes[model.visible].cpu()) & (values == values.floor())
    elif not isinstance(model, GaussianRBM):
        good, expected = good & (values >= 0) & (values <= 1), "0, 1 or in between"
    bad = (~good & ~values.isnan()).nonzero()
    if len(bad):
        i, j = bad[0].tolist()
        if isinstance(model, PairwiseMRF):
            expected = f"a whole number from 0 to {int(model._sizes[model.visible][j]) - 1}"
        row, line, numbers = batch[i]
        where = f"{table.path}, row {row} (line {line}), column {j + 1} ({table.names[j]})"
        raise InputError(f"{where}: {numbers[j]:g} must be {expected}.")


@torch.no_grad()
def answers(model: Model, values: Tensor, n_layers: int | None) -> Tensor:
    """Marginals of all variables [B, V, numbers]: a probability, mean and deviation, or one probability per state."""
    found = model(Query(values, ~values.isnan()).to(model.device), n_layers)
    if isinstance(found, Bernoulli):
        return found.probs[..., None].cpu()
    if isinstance(found, Normal):
        return torch.stack([found.mean, found.stddev], -1).cpu()
    return found.probs.cpu()


def infer_table(model: Model, table: Table, out: Path, n_layers: int | None = None) -> tuple[int, int]:
    """Write the marginals of all blanks; returns the numbers of rows and of blanks."""
    columns, sizes = ["probability"], [1] * table.width
    if isinstance(model, GaussianRBM):
        columns, sizes = ["mean", "deviation"], [2] * table.width
    elif isinstance(model, PairwiseMRF):
        sizes = model._sizes[model.visible].tolist()
        columns = [f"p_{state}" for state in range(model.valid.shape[1])]
    batch_size = max(1, min(MAX_BATCH, MAX_BYTES // model.kept_bytes((table.width,), 1)))
    rows = blanks = 0
    with (
        open(out, "w", encoding="utf-8", newline="") as file,
        tqdm(total=table.path.stat().st_size, unit="B", unit_scale=True, disable=None) as bar,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "variable", *columns])
        for batch in _batched(table.rows(), batch_size):
            values = torch.tensor([numbers for _, _, numbers in batch], dtype=torch.float64).to(model.dtype)
            check_values(model, table, batch, values)
            missing = values.isnan().nonzero().tolist()
            if missing:
                found = answers(model, values, n_layers).tolist()
                for i, j in missing:
                    writer.writerow([batch[i][0], table.names[j], *(f"{number:.7g}" for number in found[i][j][: sizes[j]])])
            rows, blanks = rows + len(batch), blanks + len(missing)
            bar.update(table.read - bar.n)
    return rows, blanks


def _batched(rows: Iterator[tuple[int, int, list[float]]], size: int) -> Iterator[list[tuple[int, int, list[float]]]]:
    while batch := list(itertools.islice(rows, size)):
        yield batch


# ---------------------------------------------------------------------------------------------------------------------
# The command


def ask_table(model: Model, command: Command) -> str:
    if images.is_image(command.file):
        raise InputError(f"{command.model} answers tables (CSV), not images such as {command.file}.")
    if command.mask is not None or command.fit:
        raise InputError("--mask and --fit go with an image; in a table, blanks say what is unknown.")
    out = command.out or command.file.with_name(f"{command.file.stem}.marginals.csv")
    _spare(command, out)
    found: list[tuple[int, int]] = []
    table = table_for(model, command.file)
    write_atomically(out, lambda temporary: found.append(infer_table(model, table, temporary, command.layers)))
    rows, blanks = found[0]
    return f"{blanks} blanks in {rows} rows; their marginals are in {out}."


def ask_image(model: "GaussianRBM | GridMRF", command: Command) -> str:
    if isinstance(model, GaussianRBM):
        shape = images.face_shape(model)
        if command.mask is None:
            raise InputError("a face needs --mask, an image that is white where the face is known and black elsewhere.")
        known = images.read_mask(command.mask, shape, command.fit)
        grey = images.read_grey(command.file, shape, command.fit)
        pictures = images.face_pictures(images.face_marginals(model, grey, known, command.layers))
    else:
        if command.fit:
            raise InputError("--fit is for faces; a contour image may have any size.")
        grey = images.read_grey(command.file)
        if (grey > images.ON).mean() > 0.5:
            print("note: most pixels are on; a contour should be bright on dark.", file=sys.stderr)
        mask = None if command.mask is None else images.read_mask(command.mask, (grey.shape[0], grey.shape[1]))
        pictures = images.grid_pictures(images.grid_marginals(model, grey, mask, command.layers))
    out = command.out or command.file.with_name(f"{command.file.stem}.marginals")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a folder for the images.")
    for name in pictures:
        _spare(command, out / f"{name}.png")
    for name, picture in pictures.items():
        images.write_png(out / f"{name}.png", picture)
    return f"{', '.join(f'{name}.png' for name in pictures)} are in {out}."


def _spare(command: Command, out: Path) -> None:
    """Refuse to write over what was read, or over a folder."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; give a file for the answer.")
    for path in (command.file, command.mask, Path(command.model)):
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"{out} is also read; give another place for the answer with --out.")


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.infer", description=__doc__)
    model = load(command.model, device(command.device)).compile_layers()
    if not command.file.exists() or command.file.is_dir():
        raise InputError(
            f"{command.file} {'is a folder' if command.file.is_dir() else 'does not exist'}; give a table or an image."
        )
    if isinstance(model, GridMRF) or (isinstance(model, GaussianRBM) and images.is_image(command.file)):
        said = ask_image(model, command)
    else:
        said = ask_table(model, command)
    print(said)
    return 0


if __name__ == "__main__":
    guarded(main)
