"""Make the pictures of the documentation.

    python -m qtcore_app.pictures docs/pictures/answers.gif     drawn contours and sampled faces are completed, layer by layer
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
from qtcore.data.frey import SHAPE, grey_levels
from qtcore.inference.sampling import smoothed
from qtcore.io.images import grid_marginals, grid_pictures, write_png
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically
from qtcore_app import colours, masks
from qtcore_app.sheets import COVER

FACES, MASKS = (0, 4, 9), ("left half", "mouth", "80 %")
DRAWN = (7, 4, 6)
"""Which of the drawings below."""
FACE_MODEL, CONTOUR_MODEL = "grbm/frey-sigma", "grid/drawings"
SHOWN = ((0, 1), (1, 2), (2, 4), (3, 6), (4, 7), (6, 8), (8, 9), (12, 10), (20, 12), (35, 16), (50, 24))
"""Layers in the picture, of the face and of the contour: the former's answer is there after a few."""
SAMPLES, BLOCK = 3, 9
ZOOM, GAP = 5, 6
MILLISECONDS, PAUSE = 220, 2200
PAPER, PALETTE = 255, 96

GRIDS = (("grid/border-fixed", 15), ("grid/border", 30), ("grid/drawings", 30))
"""Models of the drawings, and layers."""
NOISE = (0.15, 6)
"""Of the drawings: the share of a contour that is missing, and spurious strokes."""


@dataclass(frozen=True)
class Command:
    """Where to write the picture."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A GIF of contours and faces, or a PNG of the drawings."""


def scene(number: int) -> list[NDArray[np.uint8]]:
    """The layers of a contour and of a face side by side, and at last samples of the face: a picture for each."""
    noisy, labels = _contour(DRAWN[number], number)
    seen, means, samples = _face(FACES[number], MASKS[number])
    empty = [np.full_like(seen, 235)] * SAMPLES
    images = [_row([noisy, label], [seen, mean, *empty]) for label, mean in zip(labels, means, strict=True)]
    return [*images, _row([noisy, labels[-1]], [seen, means[-1], *samples])]


def _contour(drawing: int, seed: int) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]]]:
    """A noisy drawing, and its labels after each of the shown layers, blended by their probabilities."""
    model = qtcore.load(CONTOUR_MODEL)
    noisy = add_noise(torch.from_numpy(drawings()[drawing]), *NOISE, seed=seed).numpy()
    query = qtcore.Query(torch.from_numpy(noisy)[None].float(), torch.ones(1, *noisy.shape, dtype=torch.bool))
    palette = np.array([colours.CONTOUR, colours.OUT, colours.IN])
    with torch.inference_mode():
        layers = {layer.index: layer.marginals.probs[0].numpy() for layer in model.layers(query, SHOWN[-1][1])}  # type: ignore[attr-defined]
    labels = [(layers[shown] @ palette).round().clip(0, 255).astype(np.uint8) for _, shown in SHOWN]
    return (255 - 255 * noisy[..., None].astype(np.uint8)).repeat(3, 2), labels


def _face(face: int, mask: str) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]], list[NDArray[np.uint8]]]:
    """A sampled face with hidden pixels covered, the mean of the marginals after each of the shown layers, and samples."""
    model = qtcore.load(FACE_MODEL)
    values = faces_offline()[face : face + 1]
    weights = masks.FACES[mask](SHAPE, 0)
    observed = torch.from_numpy(weights.reshape(1, -1) > 0)
    query = qtcore.Query(values, observed)

    def grey(pixels: torch.Tensor) -> NDArray[np.uint8]:
        levels = grey_levels(pixels, model.statistics).round().clamp(0, 255)
        return levels.reshape(SHAPE).numpy().astype(np.uint8)[..., None].repeat(3, 2)

    with torch.inference_mode():
        layers = {layer.index: layer.marginals.mean for layer in model.layers(query, SHOWN[-1][0])}
        drawn = model.sample(query, SAMPLES, "random", BLOCK, torch.Generator().manual_seed(face)).flatten(0, 1)
        drawn = torch.where(observed, values, smoothed(model, drawn))
    seen = np.where(weights[..., None] > 0, grey(values[0]), np.array(COVER, np.uint8))
    return seen, [grey(torch.where(observed, values, layers[shown])[0]) for shown, _ in SHOWN], [grey(one) for one in drawn]


def _row(contours: list[NDArray[np.uint8]], faces: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Contours to the left, faces to the right, on white."""
    panels = [panel.repeat(ZOOM, 0).repeat(ZOOM, 1) for panel in (*contours, *faces)]
    height = max(panel.shape[0] for panel in panels)
    parts = []
    for place, panel in enumerate(panels):
        high = np.full((height, panel.shape[1], 3), PAPER, np.uint8)
        top = (height - panel.shape[0]) // 2
        high[top : top + panel.shape[0]] = panel
        parts += [high, np.full((height, GAP * (4 if place == len(contours) - 1 else 1), 3), PAPER, np.uint8)]
    return np.concatenate(parts[:-1], 1)


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
    scenes = [scene(number) for number in range(len(DRAWN))]
    pictures = [Image.fromarray(picture) for pictures in scenes for picture in pictures]
    durations = [duration for pictures in scenes for duration in [MILLISECONDS] * (len(pictures) - 1) + [PAUSE]]
    palette = Image.fromarray(np.concatenate([pictures[-1] for pictures in scenes])).quantize(PALETTE)
    images = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]

    def save(path: Path) -> None:
        images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, disposal=1)

    write_atomically(command.file, save)
    print(f"{command.file}: {len(images)} frames.")
    return 0


if __name__ == "__main__":
    guarded(main)
