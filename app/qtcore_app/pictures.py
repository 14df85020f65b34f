"""Make the pictures of the documentation.

    python -m qtcore_app.pictures docs/pictures/face.gif        a sampled face is completed, layer by layer, under three masks
    python -m qtcore_app.pictures docs/pictures/drawings.png    twelve noisy drawings, and what the grid models make of them
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import qtcore
from qtcore.data import CONTOUR, OUT, add_noise, border_labels, faces_offline
from qtcore.data.frey import SHAPE
from qtcore.io.images import grid_marginals, grid_pictures, write_png
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically
from qtcore_app import masks
from qtcore_app.components.player import GAUSSIAN_VIEWS
from qtcore_app.frames import GaussianEncoder
from qtcore_app.sheets import picture

FACE, ZOOM, GAP = 0, 7, 8
MASKS = ("left half", "mouth", "80 %")
SHOWN = (0, 1, 2, 3, 4, 6, 8, 12, 20, 50)
"""Layers in the picture: little changes after the first few."""
MILLISECONDS, PAUSE = 220, 1400
HIDDEN = (120, 150, 190)

GRIDS = (("grid/border-fixed", 15), ("grid/border", 30), ("grid/drawings", 30))
"""Models of the drawings, and layers."""
NOISE = (0.15, 6)
"""Of the drawings: the share of a contour that is missing, and spurious strokes."""


@dataclass(frozen=True)
class Command:
    """Where to write the picture."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A GIF for the face, a PNG for the drawings."""


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


def drawings() -> list[NDArray[np.uint8]]:
    """Twelve label images: shapes, letters, two things at once, larger canvases, and an open line."""
    made = []
    for side, shapes in (
        (28, [("ellipse", (5, 5, 22, 22), 255)]),
        (28, [("ellipse", (3, 3, 24, 24), 255), ("ellipse", (9, 9, 18, 18), 0)]),
        (28, [("polygon", (14, 3, 25, 24, 3, 24), 255)]),
        (28, [("A", (6, -3), 26)]),
        (28, [("g", (6, -6), 28)]),
        (28, [("rectangle", (4, 11, 23, 16), 255)]),
        (28, [("ellipse", (2, 2, 12, 12), 255), ("rectangle", (16, 15, 25, 25), 255)]),
        (28, [("polygon", [place for k in range(10) for place in _corner(k)], 255)]),
        (28, [("ellipse", box, 255) for box in _coil()]),
        (44, [("ellipse", (4, 6, 40, 38), 255), ("ellipse", (14, 14, 30, 30), 0)]),
        (44, [("S", (5, -3), 44)]),
    ):
        image = Image.new("L", (side, side))
        draw = ImageDraw.Draw(image)
        for shape, place, number in shapes:
            if len(shape) == 1:
                draw.text((place[0], place[1]), shape, fill=255, font=ImageFont.load_default(number), stroke_width=number // 16)
            else:
                getattr(draw, shape)(place, fill=number)
        made.append(border_labels(torch.from_numpy(np.array(image) > 127)).numpy())
    image = Image.new("L", (30, 30))
    ImageDraw.Draw(image).arc((5, 5, 24, 40), 190, 350, fill=255)
    return [*made, np.where(np.asarray(image) > 127, CONTOUR, OUT).astype(np.uint8)]


def _corner(k: int) -> tuple[float, float]:
    """A corner of a star."""
    radius, angle = (12 if k % 2 == 0 else 5.5), np.pi * (k / 5 - 0.5)
    return 14 + radius * np.cos(angle), 14 + radius * np.sin(angle)


def _coil() -> list[tuple[float, float, float, float]]:
    """Discs along a spiral."""
    angle = np.linspace(0, 3.4 * np.pi, 160)
    radius = 11 - 0.95 * angle
    places = zip(14 + radius * np.cos(angle), 14 + radius * np.sin(angle), strict=True)
    return [(x - 1.3, y - 1.3, x + 1.3, y + 1.3) for x, y in places]


def drawing_rows() -> list[NDArray[np.uint8]]:
    """For each drawing, side by side: the noisy contour, and the most probable labels by each model."""
    models = [(qtcore.load(name), layers) for name, layers in GRIDS if name in qtcore.available()]
    rows = []
    for number, labels in enumerate(drawings()):
        noisy = (add_noise(torch.from_numpy(labels), *NOISE, seed=number).numpy() * 255).astype(np.uint8)
        panels = [np.repeat(255 - noisy[..., None], 3, 2)]
        for model, layers in models:
            panels.append(grid_pictures(grid_marginals(model, noisy, None, layers))["labels"].numpy())
        zoom = 120 // labels.shape[0]
        rows.append(np.concatenate([_framed(panel.repeat(zoom, 0).repeat(zoom, 1)) for panel in panels], 1))
    return rows


def _framed(panel: NDArray[np.uint8], side: int = 128) -> NDArray[np.uint8]:
    """The panel in the middle of a square of white."""
    result = np.full((side, side, 3), 255, np.uint8)
    top, left = (side - panel.shape[0]) // 2, (side - panel.shape[1]) // 2
    result[top : top + panel.shape[0], left : left + panel.shape[1]] = panel
    return result


def main() -> int:
    command = arguments(Command, prog="python -m qtcore_app.pictures", description=__doc__)
    if command.file.suffix == ".png":
        rows = drawing_rows()
        gap = np.full((128 * len(rows) // 2, 32, 3), 255, np.uint8)
        half = len(rows) // 2
        sheet = np.concatenate([np.concatenate(rows[:half]), gap, np.concatenate(rows[half:])], 1)
        write_png(command.file, sheet)
        print(f"{command.file}: {len(rows)} drawings.")
        return 0
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
