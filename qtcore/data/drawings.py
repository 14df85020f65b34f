"""Drawings such as people make: letters, blobs with holes, polygons, bent and coiled bands, open lines, two things at once.

A dataset of noisy contours like the border sets, for a model that is asked about whatever somebody draws. Each image has
noise of its own strength: from none up to 40 % of the contour missing, and up to 16 spurious strokes.
"""

import functools
import string
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageDraw

from qtcore.data.border import CONTOUR, IN, OUT, THRESHOLD, add_noise, border_labels, emission_of
from qtcore.data.checks import Findings, shapes
from qtcore.data.dataset import Dataset
from qtcore.data.glyphs import MARGIN, SIDE, draw_glyph
from qtcore.data.reading import Array
from qtcore.data.specification import Specification

N_ROWS = {"train": 5_000, "valid": 400, "test": 600}
SHAPE = (SIDE + 2, SIDE + 2)  # a frame of one pixel
MAX_MISSING, MAX_SPURIOUS = 0.4, 16
DETAIL = 4  # pictures are drawn this much larger than they end up
CHARACTERS = string.ascii_letters + string.digits + "&?@$€ß"
HOLES, THICK = 0.4, 0.15  # how often a shape has a hole, and the contour of one of `WIDE` a width of two pixels
WIDE = ("blob", "polygon", "pair", "line")
SHORTEST = 9  # pixels between the ends of a line
TURN = 2 * np.pi


def load_drawings(seed: int = 0) -> Dataset:
    """Noisy contours of drawings; `seed` draws both."""
    noisy, labels, missing = {}, {}, {}
    for stream, (split, n) in enumerate(N_ROWS.items()):
        drawn, strength = _drawn(seed, stream, n)
        labels[split], missing[split] = torch.from_numpy(drawn.copy()), strength
        strokes = np.random.default_rng((seed, stream, 1)).integers(MAX_SPURIOUS + 1, size=n)
        noisy[split] = add_noise(labels[split], strength, strokes, (seed, stream, 2))
    return Dataset(
        name="drawings",
        kind="grid",
        train=noisy["train"],
        valid=noisy["valid"],
        test=noisy["test"],
        source="exact",
        note=f"Drawn on this machine with seed {seed}.",
        image_shape=SHAPE,
        statistics={"emission": emission_of(noisy["train"], labels["train"], float(missing["train"].mean()))},
        truth=labels,
    )


@functools.lru_cache(len(N_ROWS))
def _drawn(seed: int, stream: int, n: int) -> tuple[Array, Array]:
    """The label images of a split, and which fraction of each contour goes missing."""
    rng = np.random.default_rng((seed, stream))
    kinds = rng.permutation(np.arange(n) % len(KINDS))  # each equally often
    drawn = np.stack([draw_labels(tuple(KINDS)[kind], rng) for kind in kinds])
    return drawn, rng.uniform(0, MAX_MISSING, n)


def draw_labels(kind: str, rng: np.random.Generator) -> Array:
    """The labels of one drawing of a kind of `KINDS`: uint8 CONTOUR, OUT or IN [30, 30]."""
    drawn = KINDS[kind](rng)
    labels = drawn if kind == "line" else border_labels(torch.from_numpy(drawn.copy())).numpy()
    return _thickened(labels) if kind in WIDE and rng.random() < THICK else labels


def _letter(rng: np.random.Generator) -> Array:
    return draw_glyph(str(rng.choice(list(CHARACTERS))), rng)


def _blob(rng: np.random.Generator) -> Array:
    """A smooth closed curve around a centre, often with a hole of another such shape."""
    image, draw = _canvas()
    centre, radius = _place(rng, 4.5, 12)
    draw.polygon(_around(centre, radius, rng), fill=255)
    if radius > 7 and rng.random() < HOLES:
        draw.polygon(_around(centre, radius * rng.uniform(0.35, 0.6), rng), fill=0)
    return _small(image)


def _around(centre: Array, radius: float, rng: np.random.Generator) -> list[float]:
    """Points of a curve whose distance from the centre swings by a few slow waves, `radius` at most."""
    angle = np.linspace(0, TURN, 120, endpoint=False)
    waves = np.arange(1, 6)
    height = rng.normal(size=5) * 0.35 / waves
    swing = (height[:, None] * np.sin(waves[:, None] * angle + rng.uniform(0, TURN, (5, 1)))).sum(0)
    distance = np.exp(swing - swing.max()) * radius
    return _points(centre + distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1))


def _polygon(rng: np.random.Generator) -> Array:
    """Three to six corners around a centre, or the corners of a star; often with a hole of the same shape."""
    image, draw = _canvas()
    centre, radius = _place(rng, 5, 12.5)
    corners = int(rng.integers(3, 7))
    angle = TURN * (np.arange(corners) + rng.uniform(-0.25, 0.25, corners)) / corners + rng.uniform(0, TURN)
    distance = radius * rng.uniform(0.75, 1, corners)
    if corners == 5 and rng.random() < 0.5:
        angle = TURN * np.arange(10) / 10 + rng.uniform(0, TURN)
        distance = radius * np.where(np.arange(10) % 2, 0.5, 1)
    outline = distance[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    draw.polygon(_points(centre + outline), fill=255)
    if radius > 8 and rng.random() < HOLES:
        draw.polygon(_points(centre + outline * rng.uniform(0.35, 0.55)), fill=0)
    return _small(image)


def _band(rng: np.random.Generator) -> Array:
    """A bent band: the inside of what somebody draws around a thick pen's line, sometimes closed to a ring."""
    image, draw = _canvas()
    width = rng.uniform(2, 5.5)
    edge = MARGIN + width / 2
    corners = rng.uniform(edge, SIDE - edge, (int(rng.integers(2, 6)), 2))
    closed = len(corners) > 3 and bool(rng.random() < 0.3)
    _pen(draw, _smooth(corners, closed), width)
    return _small(image)


def _coil(rng: np.random.Generator) -> Array:
    """A spiral band."""
    image, draw = _canvas()
    width, gap = rng.uniform(2, 3), rng.uniform(3.2, 4.5)
    reach = SIDE / 2 - MARGIN - width / 2
    turns = min(rng.uniform(1, 2.5), (reach - 1) / (width + gap))
    angle = np.linspace(0, TURN * turns, 100)
    distance = reach - (width + gap) * angle / TURN
    turned = (angle + rng.uniform(0, TURN)) * rng.choice([-1, 1])
    _pen(draw, _even(SIDE / 2 + distance[:, None] * np.stack([np.cos(turned), np.sin(turned)], 1)), width)
    return _small(image)


def _pair(rng: np.random.Generator) -> Array:
    """Two blobs side by side, or one above the other."""
    image, draw = _canvas()
    axis = rng.integers(2)
    for start in (0, SIDE / 2):
        radius = rng.uniform(3, SIDE / 4 - MARGIN)
        edge = radius + MARGIN
        centre = rng.uniform(edge, SIDE - edge, 2)
        centre[axis] = rng.uniform(start + edge, start + SIDE / 2 - edge)
        draw.polygon(_around(centre, radius, rng), fill=255)
    return _small(image)


def _line(rng: np.random.Generator) -> Array:
    """The labels of an open line, which has no inside."""
    image = Image.new("L", SHAPE[::-1])
    start, bend, end = rng.uniform(3, SHAPE[0] - 4, (3, 2))
    while np.linalg.norm(end - start) < SHORTEST:
        start, end = rng.uniform(3, SHAPE[0] - 4, (2, 2))
    path = _smooth(np.stack([start, bend, end]), False)
    ImageDraw.Draw(image).line(path.round().ravel().tolist(), fill=255, width=1)
    return np.where(np.asarray(image) > THRESHOLD, CONTOUR, OUT).astype(np.uint8)


KINDS: dict[str, Callable[[np.random.Generator], Array]] = {
    "letter": _letter,
    "blob": _blob,
    "polygon": _polygon,
    "band": _band,
    "coil": _coil,
    "pair": _pair,
    "line": _line,
}
"""Each draws one thing in grey levels, uint8 [28, 28], but for the line, whose labels are drawn."""


def _place(rng: np.random.Generator, least: float, most: float) -> tuple[Array, float]:
    """A centre and a radius with which a circle fits the canvas."""
    radius = rng.uniform(least, most)
    edge = radius + MARGIN
    return rng.uniform(edge, SIDE - edge, 2), radius


def _canvas() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("L", (SIDE * DETAIL, SIDE * DETAIL))
    return image, ImageDraw.Draw(image)


def _small(image: Image.Image) -> Array:
    return np.asarray(image.reduce(DETAIL))


def _points(places: Array) -> list[float]:
    """x and y in turn, as Pillow takes them."""
    return (places * DETAIL).ravel().tolist()


def _pen(draw: ImageDraw.ImageDraw, path: Array, width: float) -> None:
    """Draw along a path with a round pen."""
    radius = width * DETAIL / 2
    for box in np.concatenate([path * DETAIL - radius, path * DETAIL + radius], 1).tolist():
        draw.ellipse(box, fill=255)


def _smooth(corners: Array, closed: bool) -> Array:
    """Points of a curve near these corners: corners are cut again and again (Chaikin), and the ends stay."""
    path = corners
    for _ in range(5):
        following = np.roll(path, -1, 0)
        cut = np.stack([0.75 * path + 0.25 * following, 0.25 * path + 0.75 * following], 1).reshape(-1, 2)
        path = cut if closed else np.concatenate([path[:1], cut[1:-3], path[-1:]])
    return _even(np.concatenate([path, path[:1]]) if closed else path)


def _even(path: Array) -> Array:
    """The same path as points half a pixel apart."""
    far = np.concatenate([[0], np.linalg.norm(np.diff(path, axis=0), axis=1).cumsum()])
    places = np.linspace(0, far[-1], int(2 * far[-1]) + 2)
    return np.stack([np.interp(places, far, axis) for axis in path.T], 1)


def _thickened(labels: Array) -> Array:
    """A contour that is one pixel wider, to the outside; the frame stays OUT."""
    grown = border_labels(torch.from_numpy(labels[1:-1, 1:-1] != OUT)).numpy()
    thick = np.where((grown == CONTOUR) & (labels == OUT), CONTOUR, labels).astype(np.uint8)
    thick[[0, -1]] = labels[[0, -1]]
    thick[:, [0, -1]] = labels[:, [0, -1]]
    return thick


def _check_labels(data: Dataset, findings: Findings) -> None:
    assert data.truth is not None
    inside = (data.truth["train"] == IN).flatten(1).any(1).double().mean().item()
    findings.near("drawings with an inside", inside, (1 - 1 / len(KINDS), 0.01))
    findings.require(not data.train[data.truth["train"] == IN].any(), "an inside pixel is on")


DRAWINGS = Specification(
    name="drawings",
    title="Drawings",
    kind="grid",
    origin="drawn when loaded",
    load=load_drawings,
    checks=(shapes(tuple(N_ROWS.values()), SHAPE), _check_labels),
    image_shape=SHAPE,
)
