"""Faces that a model dreams up: drawn block by block through its own marginals, by the chain rule.

    python -m qtcore.dream --out faces.npz               # sixteen faces from the shipped model
    python -m qtcore.dream --out faces.npz --count 64 --seed 3 --sheet faces.png
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import qtcore
from qtcore.data.frey import grey_levels
from qtcore.errors import InputError
from qtcore.inference.sampling import dream
from qtcore.io.images import contact_sheet
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically


@dataclass(frozen=True)
class Settings:
    """Dream up images with a model and write them as float32 [n, V] under the key `faces` of an npz file."""

    out: Path
    """The npz file to write."""
    model: str = "grbm/frey"
    """A shipped model or a file."""
    count: int = 16
    """How many to dream."""
    size: int = 3
    """Side of a block in pixels."""
    temperature: float = 1.0
    """Factor on the standard deviation of every draw."""
    smooth: float = 1.0
    """Share of each pixel's mean given the others, in the last pass."""
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
    dreams = dream(
        model,
        settings.count,
        size=settings.size,
        temperature=settings.temperature,
        smooth=settings.smooth,
        seed=settings.seed,
    )
    if any(not 0 <= number < len(dreams) for number in settings.keep):
        raise InputError(f"keep holds a number that is not among the {len(dreams)} dreams (they count from 0).")
    if settings.sheet is not None:
        assert model.image_shape is not None
        picture = contact_sheet(grey_levels(dreams, model.statistics), model.image_shape)
        write_atomically(settings.sheet, lambda path: picture.save(path, "PNG"))
    kept = dreams[list(settings.keep)] if settings.keep else dreams

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez_compressed(file, faces=kept.numpy().astype(np.float32))

    write_atomically(settings.out, write)
    print(f"{len(kept)} of {len(dreams)} dreams written to {settings.out}")


if __name__ == "__main__":
    guarded(main)
