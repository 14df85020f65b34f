"""Ready-made masks: what to hide, as weights 255 (seen) and 0 (hidden)."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from qtcore.query import patches

Bytes = NDArray[np.uint8]


def _seen(shape: tuple[int, int]) -> Bytes:
    return np.full(shape, 255, np.uint8)


def _box(top: float, bottom: float, left: float, right: float) -> Callable[[tuple[int, int], int], Bytes]:
    """A rectangle in fractions of height and width."""

    def make(shape: tuple[int, int], seed: int) -> Bytes:
        mask, (height, width) = _seen(shape), shape
        mask[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = 0
        return mask

    return make


def _random(share: float) -> Callable[[tuple[int, int], int], Bytes]:
    """Exactly this share of the pixels, anywhere."""

    def make(shape: tuple[int, int], seed: int) -> Bytes:
        mask = _seen(shape).reshape(-1)
        hidden = np.random.default_rng(seed).permutation(mask.size)[: round(share * mask.size)]
        mask[hidden] = 0
        return mask.reshape(shape)

    return make


def _patches(shape: tuple[int, int], seed: int) -> Bytes:
    observed = patches(5, 6).draw((1, *shape), torch.Generator().manual_seed(seed))[0]
    return (observed.numpy() * 255).astype(np.uint8)


def _stripes(shape: tuple[int, int], seed: int) -> Bytes:
    mask = _seen(shape)
    for start in range(2, shape[0], 4):
        mask[start : start + 2] = 0
    return mask


def _nothing(shape: tuple[int, int], seed: int) -> Bytes:
    return _seen(shape)


FACES: dict[str, Callable[[tuple[int, int], int], Bytes]] = {
    "left half": _box(0, 1, 0, 0.5),
    "eyes": _box(0.16, 0.4, 0.1, 0.9),
    "mouth": _box(0.6, 0.86, 0.2, 0.8),
    "30 %": _random(0.3),
    "50 %": _random(0.5),
    "80 %": _random(0.8),
    "5×5 patches": _patches,
    "stripes": _stripes,
    "nothing": _nothing,
}
CONTOURS: dict[str, Callable[[tuple[int, int], int], Bytes]] = {
    "nothing": _nothing,
    "left half": _box(0, 1, 0, 0.5),
    "middle": _box(0.33, 0.67, 0.25, 0.75),
    "30 %": _random(0.3),
    "5×5 patches": _patches,
    "stripes": _stripes,
}
PIXELS: dict[str, Callable[[tuple[int, int], int], Bytes]] = {
    "left half": _box(0, 1, 0, 0.5),
    "top half": _box(0, 0.5, 0, 1),
    "middle": _box(0.25, 0.75, 0.25, 0.75),
    "30 %": _random(0.3),
    "50 %": _random(0.5),
    "80 %": _random(0.8),
    "everything": _box(0, 1, 0, 1),
    "nothing": _nothing,
}
