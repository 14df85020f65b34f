"""What contours are drawn of: the digits of the gallery, what a drawing encloses, and which model answers."""

import functools
import logging
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qtcore.data import CONTOUR, IN, OUT, border_labels
from qtcore.data.glyphs import draw_glyph
from qtcore.data.inventory import holding
from qtcore.data.mnist import load_mnist
from qtcore.errors import DataError
from qtcore.models.grid import GridMRF
from qtcore_app import engine

log = logging.getLogger(__name__)

Bytes = NDArray[np.uint8]

SHAPE = (30, 30)
MODELS = ("grid/border", "grid/border-glyphs")
"""Models of digits; the first that is shipped answers."""
N_SHOWN = 10
SEED = 4  # of the glyphs in the gallery
DRAWING = "drawing"
"""The source of what a user drew or uploaded."""
FOR_DRAWINGS = ("grid/drawings", *MODELS)


@dataclass(frozen=True)
class Digits:
    """A row of the gallery: label images [n, 30, 30] and what they are."""

    key: str
    label: str
    heading: str
    labels: Tensor


def trained(source: str) -> tuple[str, GridMRF]:
    """The name of the shipped model for such pictures, and the model; without a name, the untrained one."""
    name = engine.first_available(*(FOR_DRAWINGS if source == DRAWING else MODELS))
    model = engine.untrained(GridMRF(*SHAPE)) if name is None else engine.model(name)
    return name or "", model  # type: ignore[return-value]


@functools.cache
def galleries() -> tuple[Digits, ...]:
    """The digits available on this machine; nothing is downloaded."""
    rows = []
    try:
        if holding("mnist").source is not None:
            test = load_mnist()
            assert test.truth is not None
            first = [int((test.truth["test"] == digit).nonzero()[0]) for digit in range(10)]
            rows.append(Digits("mnist", "MNIST", "Digits of MNIST (test set)", border_labels(test.test[first])))
    except DataError as error:
        log.info("no MNIST: %s", error)
    rng = np.random.default_rng(SEED)
    glyphs = torch.from_numpy(np.stack([draw_glyph(digit % 10, rng) for digit in range(N_SHOWN)]))
    rows.append(Digits("glyph", "glyphs", "Printed digits", border_labels(glyphs)))
    return tuple(rows)


def thumbnails(labels: Tensor) -> Bytes:
    """Grey pictures of label images: the inside light, the contour dark."""
    shades = torch.tensor([40, 255, 205], dtype=torch.uint8)  # CONTOUR, OUT, IN
    return shades[labels.long()].numpy()


def labels_of(drawing: Bytes) -> Tensor:
    """The truth of a drawing [h, w]: its pixels are CONTOUR, IN is what they enclose, as seen from the edge."""
    drawn = torch.from_numpy(drawing > 127)
    outside = torch.zeros(drawn.shape[0] + 2, drawn.shape[1] + 2, dtype=torch.bool)
    free = torch.nn.functional.pad(~drawn, (1, 1, 1, 1), value=True)
    outside[0] = True
    for _ in range(outside.numel()):  # each round reaches the next pixels
        reached = outside.clone()
        reached[1:] |= outside[:-1]
        reached[:-1] |= outside[1:]
        reached[:, 1:] |= outside[:, :-1]
        reached[:, :-1] |= outside[:, 1:]
        reached &= free
        if torch.equal(reached, outside):
            break
        outside = reached
    inner = outside[1:-1, 1:-1]
    return torch.where(drawn, CONTOUR, torch.where(inner, OUT, IN)).to(torch.uint8)
