"""Ask a trained model: fill in what is missing in a table or an image.

    python -m qtcore.infer rbm/adult rows.csv                      marginals of the blanks, in rows.marginals.csv
    python -m qtcore.infer runs/d/best.safetensors rows.csv --out answers.csv
    python -m qtcore.infer grbm/frey face.png --mask mask.png      mean.png and deviation.png, in face.marginals/
    python -m qtcore.infer grid/border contour.png --out answer    labels.png and p_contour.png, p_out.png, p_in.png

A table is a CSV file in UTF-8, one variable per column, with or without a line of names. Columns below the names of the
model's variables may stand in any order; of a model without names, they stand in its own. A blank (nothing, ?, NA or NaN) is
unknown. Binary variables are 0, 1 or in between (a soft reading), categorical ones whole numbers from 0. The answer has one
line per blank: its row and variable, then `probability` (of a 1), `mean` and `deviation` (in the standardised units that
the model was trained in), or one probability per state.

In a mask, white pixels are known and black ones hidden (the threshold is half way). A face needs one. Its answer is in grey
levels; in deviation.png, white is a standard deviation of 64 levels or more. A contour image is bright on dark, of any size;
its mask is optional, and hidden pixels give no evidence. In labels.png contours are red, insides blue, outsides yellow.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from qtcore.data import variable_names
from qtcore.data.variables import pixel_names
from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.inference.engine import named
from qtcore.io import images
from qtcore.io.tables import Table, infer_table
from qtcore.learn.run import device
from qtcore.models.base import Model
from qtcore.models.files import load
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically


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
    engine: str | None = None
    """How marginals are computed: bp, gibbs, or exact (small models); by default as the model was trained."""
    layers: int | None = None
    """Layers of belief propagation (sweeps of gibbs); by default the engine's own number."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first of these that is there."""


def table_for(model: Model, path: Path) -> Table:
    """The table in a file, as this model reads it."""
    (width,) = model.variables.shape
    assert width is not None
    known = variable_names(str(model.provenance.dataset)) or (pixel_names(*model.image_shape) if model.image_shape else None)
    return Table(path, known if known is not None and len(known) == width else None, width)


def ask_table(model: Model, command: Command, engine: Engine | None) -> str:
    if images.is_image(command.file):
        raise InputError(f"{command.model} answers tables (CSV), not images such as {command.file}.")
    if command.mask is not None or command.fit:
        raise InputError("--mask and --fit go with an image; in a table, blanks say what is unknown.")
    out = command.out or command.file.with_name(f"{command.file.stem}.marginals.csv")
    _spare(command, out)
    counts: list[tuple[int, int]] = []
    table = table_for(model, command.file)
    write_atomically(out, lambda temporary: counts.append(infer_table(model, table, temporary, command.layers, engine)))
    if table.labelled:
        print("note: the model has no names for its variables; the columns were taken in its own order.", file=sys.stderr)
    rows, blanks = counts[0]
    return f"{blanks} blanks in {rows} rows; their marginals are in {out}."


def ask_image(model: Model, command: Command, engine: Engine | None) -> str:
    if model.variables.kind == "real":
        shape = images.face_shape(model)
        if command.mask is None:
            raise InputError("a face needs --mask, an image that is white where the face is known and black elsewhere.")
        known = images.read_mask(command.mask, shape, command.fit)
        grey = images.read_grey(command.file, shape, command.fit)
        pictures = images.face_pictures(images.face_marginals(model, grey, known, command.layers, engine))
    else:
        if command.fit:
            raise InputError("--fit is for faces; a contour image may have any size.")
        grey = images.read_grey(command.file)
        if (grey > images.ON).mean() > 0.5:
            print("note: most pixels are on; a contour should be bright on dark.", file=sys.stderr)
        mask = None if command.mask is None else images.read_mask(command.mask, (grey.shape[0], grey.shape[1]))
        pictures = images.grid_pictures(images.grid_marginals(model, grey, mask, command.layers, engine))
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
    model = load(command.model, device(command.device))
    if not command.file.exists() or command.file.is_dir():
        raise InputError(
            f"{command.file} {'is a folder' if command.file.is_dir() else 'does not exist'}; give a table or an image."
        )
    engine = None if command.engine is None else named(command.engine)
    kind = model.variables.kind
    if kind == "label" or (kind == "real" and images.is_image(command.file)):
        print(ask_image(model, command, engine))
    else:
        print(ask_table(model, command, engine))
    return 0


if __name__ == "__main__":
    guarded(main)
