"""Make the README's picture: a dreamed face is completed, layer by layer, under three masks.

python -m app.pictures docs/pictures/face.gif
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from PIL import Image

import qtcore
from app import masks
from app.components.player import GAUSSIAN_VIEWS, picture
from app.frames import GaussianEncoder
from qtcore.data import faces_offline
from qtcore.data.frey import SHAPE
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically

FACE, ZOOM, GAP = 0, 7, 8
MASKS = ("left half", "mouth", "80 %")
SHOWN = (0, 1, 2, 3, 4, 6, 8, 12, 20, 50)
"""Layers in the picture: little changes after the first few."""
MILLISECONDS, PAUSE = 220, 1400
HIDDEN = (120, 150, 190)


@dataclass(frozen=True)
class Command:
    """Where to write the picture."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A GIF."""


def frames(mask: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    """The observed pixels, the mean and the standard deviation after each of the shown layers, side by side."""
    model = qtcore.load("grbm/frey")
    face = faces_offline()[FACE : FACE + 1]
    observed = torch.from_numpy(mask.reshape(1, -1) > 0)
    encoder = GaussianEncoder(model, face[0], ~observed[0])
    face_bytes = encoder.truth_bytes()
    assert face_bytes is not None
    grey = face_bytes.reshape(*SHAPE, 1).repeat(3, 2)
    shown = np.where(mask[..., None] > 0, grey, np.array(HIDDEN, np.uint8))
    names = [channel.name for channel in encoder.channels]
    views = [view for view in GAUSSIAN_VIEWS if view["channel"] in ("mean", "deviation")]
    images = []
    with torch.inference_mode():
        for layer in model.layers(qtcore.Query(face, observed)):
            if layer.index in SHOWN:
                channels = np.stack([channel.reshape(SHAPE) for channel in encoder.encode(layer)[0]])
                maps = [shown, *(picture(channels, names, view, []) for view in views)]
                maps = [panel.repeat(ZOOM, 0).repeat(ZOOM, 1) for panel in maps]
                gap = np.full((maps[0].shape[0], GAP, 3), 255, np.uint8)
                images.append(np.concatenate([part for panel in maps for part in (panel, gap)][:-1], 1))
    return images


def main() -> int:
    command = arguments(Command, prog="python -m app.pictures", description=__doc__)
    images: list[Image.Image] = []
    durations: list[int] = []
    for name in MASKS:
        made = frames(masks.FACES[name](SHAPE, 0))
        images += [Image.fromarray(frame).convert("P", palette=Image.Palette.ADAPTIVE) for frame in made]
        durations += [MILLISECONDS] * (len(made) - 1) + [PAUSE]

    def save(path: Path) -> None:
        images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, disposal=1)

    write_atomically(command.file, save)
    print(f"{command.file}: {len(images)} frames.")
    return 0


if __name__ == "__main__":
    guarded(main)
