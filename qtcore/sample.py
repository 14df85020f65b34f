"""Samples of a model: all unknown variables drawn jointly, given what is known, by the chain rule through its own marginals.

    python -m qtcore.sample rbm/adult --n 1000 --out records.csv           records, one variable after the other
    python -m qtcore.sample rbm/adult rows.csv --n 5                       five completions of each row, in rows.samples.csv
    python -m qtcore.sample grbm/frey --n 64 --out faces.png               faces, in patches of 3×3 pixels
    python -m qtcore.sample grbm/frey face.png --mask mask.png --smooth    six completions of a face, in face.samples.png
    python -m qtcore.sample grid/border contour.png                        six labellings of a contour
    python -m qtcore.sample graph.uai --evidence graph.uai.evid --out states.csv

Tables, images and masks are as for `python -m qtcore.infer`. The end of --out says what is written: .csv (a line for each
sample), .png (a sheet of pictures), or .npz (arrays: `samples` [n, rows, …], without a FILE [n, …], and `faces`, which are the
samples without their grain if --smooth is given: better to look at, but not to be scored).

A block is drawn at a time, its variables independently given those before: larger blocks are quicker and less coherent. 9 is
nine variables that are far apart, 3x3 a patch of an image. Orders are random (another one for each sample), forward, and
outwards, from the middle of an image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from torch import Tensor

from qtcore.errors import InputError
from qtcore.inference.engine import named
from qtcore.inference.sampling import smoothed
from qtcore.io import images, named_tables
from qtcore.io.joint_tables import write_samples
from qtcore.io.tables import MAX_BATCH, batches, table_for
from qtcore.learn.run import device
from qtcore.models import uai
from qtcore.models.base import Model
from qtcore.models.builders import FILES
from qtcore.models.factor_graph import FactorGraph
from qtcore.models.files import load
from qtcore.models.table_model import TableModel
from qtcore.query import Query
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically
from qtcore.support.ranges import parse_block

KINDS = (".csv", ".npz", ".png")
PATCH = "3x3"
"""Patches of images, unless --block is given."""


@dataclass(frozen=True)
class Command:
    """What to draw, and from which model."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Name of a shipped model, or a file; or a graph (.uai, .bif, .xml)."""
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None
    """A table (CSV) with blanks, or an image; without one, nothing is known."""
    n: int = 6
    """Samples (of each row)."""
    block: str | None = None
    """What is drawn at a time: a number of variables, or a patch such as 3x3; by default 1, for images 3x3."""
    order: str = "random"
    """random, forward or outwards."""
    seed: int = 0
    """Two runs with the same seed draw the same."""
    mask: Path | None = None
    """An image of the same size: white is known, black is hidden."""
    fit: bool = False
    """Faces: crop and scale the image and its mask to the size that the model expects."""
    evidence: Path | None = None
    """Graphs: the observed variables and their states (.evid)."""
    smooth: bool = False
    """Faces: take their grain away; each patch gets its mean given all others."""
    keep: tuple[int, ...] = ()
    """Numbers of the samples to keep (after a look at them), from 0; none means all."""
    out: Path | None = None
    """The file to write; by default next to FILE."""
    engine: str | None = None
    """How marginals are computed: bp, mean-field, reweighted, gibbs, or exact (small models); by default as the model was
    trained."""
    layers: int | None = None
    """Layers of belief propagation; by default the engine's own number."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first of these that is there."""


def read(model: Model, command: Command) -> tuple[Query, Sequence[str] | None]:
    """What is known, and the names of the variables if there are any."""
    if command.evidence is not None and not isinstance(model, FactorGraph):
        raise InputError("--evidence goes with a graph; what is known to other models stands in a table or an image.")
    if command.file is None:
        if command.mask is not None or command.fit:
            raise InputError("--mask and --fit go with an image.")
        if isinstance(model, FactorGraph) and command.evidence is not None:
            known = uai.read_evidence(command.evidence, model.n_states, model.names, model.state_names)
            return model.query(known), model.column_names()
        shape = model.image_shape if model.variables.kind == "label" else model.variables.shape
        nothing = torch.zeros(1, *(size or 0 for size in shape or ()), dtype=torch.bool)
        names = None if model.variables.kind == "label" else table_for(model, Path()).known
        return Query(nothing.to(model.dtype), nothing), names
    if not command.file.is_file():
        raise InputError(
            f"{command.file} {'is a folder' if command.file.is_dir() else 'does not exist'}; give a table or an image."
        )
    if images.is_image(command.file):
        return images.image_query(model, command.file, command.mask, command.fit), None
    if model.variables.kind == "label":
        raise InputError(f"{command.model} labels images, not tables such as {command.file}.")
    if command.mask is not None or command.fit:
        raise InputError("--mask and --fit go with an image; in a table, blanks say what is unknown.")
    table = table_for(model, command.file)
    values = torch.cat([values for _, values in batches(model, table, MAX_BATCH)])
    return Query(values, ~values.isnan()), table.names


def place(command: Command) -> Path:
    """The file to write."""
    out, file = command.out, command.file
    if out is None:
        if file is None:
            raise InputError(f"give a file for the samples with --out ({', '.join(KINDS)}).")
        out = file.with_name(f"{file.stem}.samples{'.png' if images.is_image(file) else '.csv'}")
    if out.suffix.lower() not in KINDS:
        raise InputError(f"{out} must end in {', '.join(KINDS[:-1])} or {KINDS[-1]}, which says what to write.")
    if out.is_dir():
        raise InputError(f"{out} is a folder; give a file for the samples.")
    for path in (file, command.mask, command.evidence, Path(command.model)):
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"{out} is also read; give another place for the samples with --out.")
    return out


def check(command: Command) -> None:
    if not 0 <= command.seed < 2**63:
        raise InputError(f"seed must be between 0 and 2**63, not {command.seed}.")
    if any(not 0 <= number < command.n for number in command.keep):
        raise InputError(f"keep holds a number that is not among the {command.n} samples (they count from 0).")


def write(model: Model, out: Path, samples: Tensor, faces: Tensor | None, one: bool, names: Sequence[str] | None) -> None:
    """Write samples [n, rows, …], and the same without their grain; `one` if there is no other row than the first."""
    kind = out.suffix.lower()
    if kind == ".png":
        images.write_sheet(out, model, samples if faces is None else faces)
    elif kind == ".npz":
        named_arrays = {"samples": samples} | ({} if faces is None else {"faces": faces})
        arrays = {name: (array[:, 0] if one else array).numpy() for name, array in named_arrays.items()}

        def save(path: Path) -> None:
            with path.open("wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

        write_atomically(out, save)
    else:
        if model.variables.kind == "label":
            raise InputError("labels of images are written as .png or .npz.")
        write_atomically(out, lambda path: write_samples(path, samples if faces is None else faces, names))


def sample_named(model: TableModel, command: Command, out: Path) -> str:
    """Write rows of a model of a table, by name; what was written."""
    if out.suffix.lower() != ".csv" or command.keep or command.smooth or command.mask or command.evidence:
        raise InputError("samples of a table are written as .csv; --keep, --smooth, --mask and --evidence are for others.")
    table = model.table(None) if command.file is None else named_tables.read(model, command.file)
    engine = (named(command.engine) if command.engine else model.engine).at(command.layers)
    how: dict[str, Any] = {"order": command.order, "block": parse_block(command.block or "1"), "engine": engine}
    generator = torch.Generator().manual_seed(command.seed)

    def save(path: Path) -> None:
        named_tables.sample_table(model, table, path, command.n, generator, **how)

    write_atomically(out, save)
    return f"{command.n} samples{'' if command.file is None else f' of each of {len(table)} rows'} are in {out}."


def main() -> None:
    command = arguments(Command, prog="python -m qtcore.sample", description=__doc__)
    check(command)
    out = place(command)
    graph = command.model.lower().endswith(FILES)
    where = device(command.device)
    model = FactorGraph.from_file(command.model, device=where) if graph else load(command.model, where)
    if isinstance(model, TableModel):
        print(sample_named(model, command, out))
        return
    query, names = read(model, command)
    query = query.to(model.device)
    block = parse_block(command.block or ("1" if model.image_shape is None else PATCH))
    if command.smooth and (model.variables.kind != "real" or model.image_shape is None):
        raise InputError("--smooth is for faces, whose pixels are real numbers.")
    if out.suffix.lower() == ".png":
        images.check_pictures(model)
    engine = (named(command.engine) if command.engine else model.engine).at(command.layers)
    generator = torch.Generator().manual_seed(command.seed)
    samples = model.sample(query, command.n, command.order, block, generator, engine)
    faces = None
    if command.smooth:
        means = smoothed(model, samples.flatten(0, 1), block, engine).reshape(samples.shape)
        faces = torch.where(query.observed == 1, samples, means).cpu()
    kept = list(command.keep or range(command.n))
    write(model, out, samples.cpu()[kept], None if faces is None else faces[kept], command.file is None, names)
    rows = "" if command.file is None or len(query) == 1 else f" of each of {len(query)} rows"
    print(f"{len(kept)} samples{rows} are in {out}.")


if __name__ == "__main__":
    guarded(main)
