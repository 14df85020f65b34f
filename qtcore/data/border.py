"""Border ownership: which side of a broken, noisy contour is the inside?

From a grey image: IN is the foreground, CONTOUR the ring of its 4-neighbours outside it, OUT the rest, in a frame of
one OUT pixel. The noisy image is the contour with each pixel deleted with probability `p_missing`, and `n_spurious`
strokes of three pixels, each placed where its whole 5×5 surround is clean OUT.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qtcore.data.reading import Array
from qtcore.errors import InputError

CONTOUR, OUT, IN = 0, 1, 2
THRESHOLD = 127  # a pixel brighter than this is foreground
P_MISSING, N_SPURIOUS = 0.2, 8  # the paper's noise
EMISSION_IN = 1e-10  # p(on | IN): no inside pixel is ever on, but the model needs its logarithm
EMISSION_MAX = 1 - 1e-6  # likewise for p(off | CONTOUR) when nothing is deleted; still below 1 in float32
CHUNK = 4096  # images whose noise is drawn at a time: bounds the memory, and is part of what a seed means

# The pixels of a stroke around its centre: horizontal, vertical, the two diagonals.
_STROKES = np.array(
    [[(0, -1), (0, 0), (0, 1)], [(-1, 0), (0, 0), (1, 0)], [(-1, -1), (0, 0), (1, 1)], [(-1, 1), (0, 0), (1, -1)]]
)
_REACH = 2  # the surround of a centre goes two pixels in each direction


class Border(NamedTuple):
    """Noisy contours, their labels, and p(pixel on | label)."""

    noisy: Tensor
    """uint8 0 or 1, [n, h + 2, w + 2] (without n for a single image)."""
    labels: Tensor
    """uint8 CONTOUR, OUT or IN, of the same shape."""
    emission: Tensor
    """float64 [3]: p(on | CONTOUR), p(on | OUT), p(on | IN)."""


def make_border(
    images: Tensor, p_missing: float = P_MISSING, n_spurious: int = N_SPURIOUS, seed: int | tuple[int, ...] = 0
) -> Border:
    """Noisy contours, labels and emission for one image [h, w] or many [n, h, w], uint8 or bool.

    >>> noisy, labels, emission = make_border(torch.eye(28, dtype=torch.bool))
    >>> tuple(noisy.shape)
    (30, 30)
    """
    labels = border_labels(images)
    noisy = add_noise(labels, p_missing, n_spurious, seed)
    return Border(noisy, labels, emission_of(noisy, labels, p_missing))


def border_labels(images: Tensor) -> Tensor:
    """The label of each pixel, uint8 [(n,) h + 2, w + 2], of grey (uint8) or black-and-white (bool) images."""
    if images.dim() not in (2, 3) or images.dtype not in (torch.uint8, torch.bool):
        raise InputError(
            f"images are {images.dtype} {tuple(images.shape)}; expected uint8 or bool, [height, width] or [n, height, width]."
        )
    inside = torch.nn.functional.pad(images if images.dtype == torch.bool else images > THRESHOLD, (1, 1, 1, 1))
    ring = torch.zeros_like(inside)
    ring[..., 1:, :] |= inside[..., :-1, :]
    ring[..., :-1, :] |= inside[..., 1:, :]
    ring[..., :, 1:] |= inside[..., :, :-1]
    ring[..., :, :-1] |= inside[..., :, 1:]
    labels = torch.full_like(inside, OUT, dtype=torch.uint8)
    labels[ring] = CONTOUR
    labels[inside] = IN
    return labels


def add_noise(
    labels: Tensor,
    p_missing: float | Array = P_MISSING,
    n_spurious: int | Array = N_SPURIOUS,
    seed: int | tuple[int, ...] = 0,
) -> Tensor:
    """A noisy contour, uint8 0 or 1, for label images [(n,) h, w]; the same seed gives the same noise.

    The noise is the same for all images, or has one entry for each. Strokes are placed one after another, each on OUT
    that is free of earlier ones too. Where no place is left, an image gets fewer strokes.
    """
    if labels.dim() not in (2, 3) or labels.dtype != torch.uint8:
        raise InputError(
            f"labels are {labels.dtype} {tuple(labels.shape)}; expected uint8, [height, width] or [n, height, width]."
        )
    batch = labels.detach().cpu().numpy()
    batch = batch[None] if labels.dim() == 2 else batch
    missing, strokes = _each("p_missing", p_missing, len(batch)), _each("n_spurious", n_spurious, len(batch))
    if not ((missing >= 0) & (missing <= 1)).all():
        raise InputError(f"p_missing is {p_missing}; expected a probability from 0 to 1.")
    if strokes.dtype.kind not in "iu" or (strokes < 0).any():
        raise InputError(f"n_spurious is {n_spurious}; expected a whole number from 0 up.")
    noisy = np.empty_like(batch)
    rng = np.random.default_rng(seed)
    for start in range(0, len(batch), CHUNK):
        chunk = slice(start, start + CHUNK)
        part = batch[chunk]
        kept = (part == CONTOUR) & (rng.random(part.shape, np.float32) >= missing[chunk, None, None])
        noisy[chunk] = kept | _strokes(part, strokes[chunk], rng)
    return torch.from_numpy(noisy).reshape(labels.shape).to(labels.device)


def _each(name: str, value: float | Array, n: int) -> Array:
    """One entry for each image."""
    given = np.asarray(value)
    if given.shape not in ((), (n,)):
        raise InputError(f"{name} has the shape {list(given.shape)}; expected one number, or one for each of {n} images.")
    return np.broadcast_to(given.astype(np.float32) if given.dtype.kind == "f" else given, n)


def emission_of(noisy: Tensor, labels: Tensor, p_missing: float = P_MISSING) -> Tensor:
    """p(on | CONTOUR, OUT, IN), float64 [3], in closed form from pairs of noisy and label images."""
    out = labels == OUT
    spurious = int((out & (noisy != 0)).sum()) / max(int(out.sum()), 1)
    return torch.tensor([1 - p_missing, spurious, EMISSION_IN], dtype=torch.float64).clamp(EMISSION_IN, EMISSION_MAX)


def _strokes(labels: Array, n_strokes: Array, rng: np.random.Generator) -> Array:
    """Which pixels lie on spurious strokes, bool [n, h, w]; `n_strokes` [n] of them in each image."""
    n, height, width = labels.shape
    strokes = np.zeros(labels.shape, bool)
    if height <= 2 * _REACH or width <= 2 * _REACH:
        return strokes
    free = _clean_centres(labels == OUT)
    grid = free[:, 3:-3, 3:-3]  # the frame takes up what the blocks below write beyond the edge
    for number in range(int(n_strokes.max(initial=0))):
        # The k-th free centre of each image, k uniform: flat positions of all free centres, image after image.
        counts = grid.sum((1, 2))
        chance, orientation = rng.random(n), rng.integers(4, size=n)
        image = np.flatnonzero((counts > 0) & (number < n_strokes))
        if not len(image):
            break
        first = np.cumsum(counts)[image] - counts[image]
        chosen = np.flatnonzero(grid)[first + (chance[image] * counts[image]).astype(np.int64)]
        row, column = np.divmod(chosen % (grid.shape[1] * grid.shape[2]), grid.shape[2])
        pixels = _STROKES[orientation[image]]  # [images, 3, 2]
        strokes[image[:, None], row[:, None] + _REACH + pixels[..., 0], column[:, None] + _REACH + pixels[..., 1]] = True
        window = np.arange(7)
        block = (image[:, None, None], row[:, None, None] + window[:, None], column[:, None, None] + window)
        free[block] &= ~_BLOCKED[orientation[image]]
    return strokes


def _clean_centres(out: Array) -> Array:
    """Where a 5×5 window of `out` [n, h, w] is all true: bool [n, h - 4, w - 4] in a frame of three pixels."""
    rows = out[:, :-4] & out[:, 1:-3] & out[:, 2:-2] & out[:, 3:-1] & out[:, 4:]
    both = rows[..., :-4] & rows[..., 1:-3] & rows[..., 2:-2] & rows[..., 3:-1] & rows[..., 4:]
    return np.pad(both, ((0, 0), (3, 3), (3, 3)))


def _blocked_centres() -> Array:
    """[4, 7, 7]: relative to a stroke's centre, the centres whose 5×5 surround would touch the stroke."""
    blocked = np.zeros((len(_STROKES), 7, 7), bool)
    for orientation, pixels in enumerate(_STROKES):
        for row, column in pixels + 3:
            blocked[orientation, row - _REACH : row + _REACH + 1, column - _REACH : column + _REACH + 1] = True
    return blocked


_BLOCKED = _blocked_centres()
