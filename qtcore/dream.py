"""Faces that a model dreams up: drawn block by block through its own marginals, by the chain rule.

The file holds them as they were drawn (`samples`, to score) and without their grain (`faces`, to look at).

    python -m qtcore.dream --out faces.npz               # sixteen faces from the shipped model
    python -m qtcore.dream --out faces.npz --count 64 --seed 3 --sheet faces.png
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import qtcore
from qtcore.data.frey import grey_levels
from qtcore.errors import InputError
from qtcore.inference.sampling import smoothed
from qtcore.io.images import contact_sheet
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically


@dataclass(frozen=True)
class Settings:
    """Dream up images with a model and write them as float32 [n, V] under the keys `samples` and `faces` of an npz file."""

    out: Path
    """The npz file to write."""
    model: str = "grbm/frey"
    """A shipped model or a file."""
    count: int = 16
    """How many to dream."""
    size: int = 3
    """Side of a block in pixels."""
    smooth: float = 1.0
    """Share of each pixel's mean given the others, in the last pass, which makes `faces` of `samples`."""
    seed: int = 0
    """Two runs with the same seed dream the same."""
    keep: tuple[int, ...] = ()
    """Numbers of those to keep (after a look at the sheet); none means all."""
    sheet: Path | None = None
    """A picture of all of them, sixteen a row."""


def main() -> None:
    settings = arguments(Settings, prog="python -m qtcore.dream", description=__doc__)
    if not 0 <= settings.seed < 2**63:
        raise InputError(f"seed must be between 0 and 2**63, not {settings.seed}.")
    if settings.sheet is not None and settings.sheet.resolve() == settings.out.resolve():
        raise InputError("the sheet and the faces need a file each; give --sheet another name.")
    model = qtcore.load(settings.model)
    if not 0 <= settings.smooth <= 1:
        raise InputError(f"smooth must be between 0 and 1, not {settings.smooth:g}.")
    if any(not 0 <= number < settings.count for number in settings.keep):
        raise InputError(f"keep holds a number that is not among the {settings.count} dreams (they count from 0).")
    nothing = torch.zeros(1, model.size, dtype=torch.bool)
    block, generator = (settings.size, settings.size), torch.Generator().manual_seed(settings.seed)
    samples = model.sample(qtcore.Query(nothing.float(), nothing), settings.count, "outwards", block, generator)[:, 0]
    faces = torch.lerp(samples, smoothed(model, samples, block), settings.smooth)
    if settings.sheet is not None:
        assert model.image_shape is not None
        picture = contact_sheet(grey_levels(faces, model.statistics), model.image_shape)
        write_atomically(settings.sheet, lambda path: picture.save(path, "PNG"))
    kept = list(settings.keep or range(settings.count))

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, samples=samples[kept].numpy(), faces=faces[kept].numpy())

    write_atomically(settings.out, write)
    print(f"{len(kept)} of {settings.count} dreams written to {settings.out}")


if __name__ == "__main__":
    guarded(main)
