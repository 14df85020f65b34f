"""What the clones of CONTOUR stand for: measured on a few digits and shown as colours.

Training gives the clones no names. But where a clone wins, the truth says on which side the inside lies; the mean of these
directions is the clone's own, and its length says how consistent the clone is.
"""

import functools

import numpy as np
import torch
from numpy.typing import NDArray

import qtcore
from qtcore.data.border import CONTOUR, IN, add_noise, border_labels
from qtcore.data.glyphs import draw_glyph
from qtcore.inference import Layer
from qtcore.models.grid import GridMRF
from qtcore_app import engine
from qtcore_app.colours import tables

N_DIGITS, SEED = 16, 7
UNKNOWN = (150, 150, 150)
"""The colour of a clone that never won, or has no side."""


def towards_inside(labels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """For each pixel of label images [n, h, w], the direction (right, down) to the IN pixels around it, length 1 or 0."""
    inside = np.pad((labels == IN).astype(float), ((0, 0), (1, 1), (1, 1)))
    height, width = labels.shape[1:]
    direction = np.zeros((*labels.shape, 2))
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            part = inside[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]
            direction += part[..., None] * np.array([right, down])
    length = np.linalg.norm(direction, axis=-1, keepdims=True)
    return np.asarray(np.divide(direction, length, out=np.zeros_like(direction), where=length > 0))


def sides(clone: NDArray[np.int64], labels: NDArray[np.uint8], won: NDArray[np.bool_], n_clones: int) -> NDArray[np.float64]:
    """The mean direction to the inside of each clone [n_clones, 2], where it `won` (all [n, h, w])."""
    direction = towards_inside(labels)
    total, count = np.zeros((n_clones, 2)), np.zeros(n_clones)
    np.add.at(total, clone[won], direction[won])
    np.add.at(count, clone[won], 1)
    return np.asarray(total / np.maximum(count, 1)[:, None])


def colours(directions: NDArray[np.float64]) -> list[list[int]]:
    """A colour for each clone: the hue says the direction, grey that it has none."""
    angle = np.arctan2(directions[:, 1], directions[:, 0]) % (2 * np.pi)
    faithful = np.clip(np.linalg.norm(directions, axis=1) * 1.5, 0, 1)[:, None]
    wheel = tables()["wheel"][(angle / (2 * np.pi) * 256).astype(int) % 256]
    mixed = faithful * wheel + (1 - faithful) * np.array(UNKNOWN)
    return [[int(part) for part in colour] for colour in mixed.round()]


def _last_layer(model: GridMRF, query: qtcore.Query) -> Layer:
    with torch.inference_mode():
        *_, last = model.trace(query)
    return last


@functools.lru_cache(maxsize=8)
def clone_colours(model: GridMRF) -> list[list[int]]:
    """The colours of a model's clones, measured once (about a second)."""
    n_clones = model.clones[CONTOUR]
    rng = np.random.default_rng(SEED)
    labels = border_labels(torch.from_numpy(np.stack([draw_glyph(digit % 10, rng) for digit in range(N_DIGITS)])))
    noisy = add_noise(labels, seed=SEED).float().to(model.device)
    clone, won = [], []
    for part in noisy.split(4):
        last = engine.in_pool(_last_layer, model, qtcore.Query(part, torch.ones_like(part)))
        clone.append(last.hidden.probs[..., :n_clones].argmax(-1).cpu())  # type: ignore[attr-defined]
        won.append(last.marginals.probs.argmax(-1).cpu() == CONTOUR)  # type: ignore[attr-defined]
    return colours(sides(torch.cat(clone).numpy(), labels.numpy(), torch.cat(won).numpy(), n_clones))
