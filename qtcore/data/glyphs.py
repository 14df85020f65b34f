"""Digit-like images for machines with no MNIST: the ten digits in Pillow's own font, each drawn differently."""

import functools

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from qtcore.data.border import THRESHOLD
from qtcore.data.checks import Findings, shapes
from qtcore.data.dataset import Dataset
from qtcore.data.reading import Array
from qtcore.data.specification import Specification

SIDE = 28
N_ROWS = {"train": 10_000, "valid": 1_000, "test": 2_000}
SCALE = 4  # templates are drawn this much larger than the images
DETAIL = 2  # images are drawn this much larger than they end up: averaging makes smooth edges
MAX_STROKE = 4  # widest pen that is drawn around a glyph, in template pixels
HEIGHT = (15.0, 20.0)  # the ranges below are uniform; pixels of the final image
WIDENING = (0.85, 1.3)  # extra width, relative to the font's
SLANT = (-0.15, 0.4)  # pixels to the right per pixel up: handwriting leans forward
ANGLE = (-12.0, 12.0)  # degrees
SHIFT = 3  # pixels from the centre, as far as the frame allows
MARGIN = 1  # pixels that stay empty at each edge
INK = (0.15, 0.02)  # foreground, and tolerance: font rendering may differ slightly between machines


def load_glyphs(seed: int = 0) -> Dataset:
    """Glyphs: uint8 grey levels [n, 28, 28], the digits themselves in `truth`."""
    images, truth = {}, {}
    for stream, (split, n) in enumerate(N_ROWS.items()):
        drawn, digits = _drawn(seed, stream, n)
        images[split], truth[split] = torch.from_numpy(drawn.copy()), torch.from_numpy(digits.copy())
    return Dataset(
        name="glyphs",
        kind="image",
        train=images["train"],
        valid=images["valid"],
        test=images["test"],
        source="stand-in",
        note=f"Digits drawn on this machine with Pillow's font and seed {seed}, in place of MNIST.",
        image_shape=(SIDE, SIDE),
        truth=truth,
    )


@functools.lru_cache(2 * len(N_ROWS))  # seconds; two datasets are made of the same glyphs
def _drawn(seed: int, stream: int, n: int) -> tuple[Array, Array]:
    """The images of a split, and their digits."""
    rng = np.random.default_rng((seed, stream))
    digits = rng.permutation(np.arange(n) % 10).astype(np.uint8)  # the ten digits equally often
    return np.stack([draw_glyph(int(digit), rng) for digit in digits]), digits


def draw_glyph(character: int | str, rng: np.random.Generator) -> Array:
    """One digit or letter in a random size, slant, stroke width and place: uint8 [28, 28]."""
    template, box = _template(str(character), int(rng.integers(MAX_STROKE + 1)))
    size = rng.uniform(*HEIGHT) / box[1] * DETAIL  # template pixels to drawn pixels
    angle, slant = np.deg2rad(rng.uniform(*ANGLE)), rng.uniform(*SLANT)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    forward = turn @ np.array([[1, -slant], [0, 1]]) @ np.diag([size * rng.uniform(*WIDENING), size])
    reach = (np.abs(forward) @ box / 2).max() / DETAIL  # distance of the box's corners from the centre
    forward *= min(1.0, (SIDE / 2 - MARGIN - 0.5) / reach)  # half a pixel is for the smooth edge
    back = np.linalg.inv(forward)  # Pillow needs the map from the result to the source
    offset = np.array(template.size) / 2 - back @ np.full(2, SIDE * DETAIL / 2)
    matrix = (*back[0], offset[0], *back[1], offset[1])
    drawn = template.transform(
        (SIDE * DETAIL, SIDE * DETAIL), Image.Transform.AFFINE, tuple(map(float, matrix)), Image.Resampling.BILINEAR
    )
    image = np.asarray(drawn.reduce(DETAIL))
    return np.roll(image, (_shift(image.max(1), rng), _shift(image.max(0), rng)), (0, 1))


def _shift(used: Array, rng: np.random.Generator) -> int:
    """A random shift along one axis that keeps the `used` pixels inside the margin."""
    (places,) = np.nonzero(used)
    low, high = MARGIN - places[0], SIDE - 1 - MARGIN - places[-1]
    return int(rng.integers(max(low, -SHIFT), min(high, SHIFT) + 1))


@functools.cache
def _template(character: str, stroke: int) -> tuple[Image.Image, Array]:
    """A large upright digit or letter in the middle of a square image, and the width and height of its box."""
    font = ImageFont.load_default(size=SIDE * SCALE * 0.8)
    side = 2 * SIDE * SCALE
    image = Image.new("L", (side, side))
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = draw.textbbox((0, 0), character, font=font, stroke_width=stroke)
    corner = (side / 2 - (left + right) / 2, side / 2 - (top + bottom) / 2)
    draw.text(corner, character, fill=255, font=font, stroke_width=stroke)
    return image, np.array([right - left, bottom - top])


def _check_digits(data: Dataset, findings: Findings) -> None:
    assert data.truth is not None
    counts = torch.bincount(data.truth["train"].long(), minlength=10)
    findings.require(bool((counts == counts[0]).all()), "the ten digits are not equally frequent")


def _check_ink(data: Dataset, findings: Findings) -> None:
    ink = (data.train > THRESHOLD).double().mean((1, 2))
    findings.require(bool((ink > 0).all()), "an image is empty")
    findings.near("foreground", ink.mean().item(), INK)


GLYPHS = Specification(
    name="glyphs",
    title="Glyphs",
    kind="image",
    origin="drawn when loaded",
    load=load_glyphs,
    checks=(shapes(tuple(N_ROWS.values()), (SIDE, SIDE)), _check_digits, _check_ink),
    source="stand-in",
    image_shape=(SIDE, SIDE),
)
