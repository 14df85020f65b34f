"""Drawings: many kinds, closed contours, noise of every strength, always the same for a seed."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from qtcore.data import CONTOUR, IN, OUT, Dataset, add_noise
from qtcore.data.drawings import KINDS, MAX_MISSING, MAX_SPURIOUS, WIDE, draw_labels
from qtcore.errors import InputError
from tests.data.conftest import kept


@pytest.fixture(scope="module")
def drawings() -> Dataset:
    return kept("drawings")


def beside(labels: Tensor) -> Tensor:
    """Whether a pixel or one of its four neighbours is set."""
    up, down = labels.roll(-1, 1), labels.roll(1, 1)
    return labels | up | down | labels.roll(-1, 2) | labels.roll(1, 2)


def test_no_inside_touches_the_outside(drawings: Dataset) -> None:
    assert drawings.truth is not None
    labels = torch.cat(list(drawings.truth.values()))
    assert not (beside(labels == IN) & (labels == OUT)).any()
    frame = torch.ones(30, 30, dtype=torch.bool)
    frame[1:-1, 1:-1] = False
    assert not (labels[:, frame] == IN).any()


def test_noise_of_every_strength(drawings: Dataset) -> None:
    assert drawings.truth is not None
    labels, noisy = drawings.truth["train"], drawings.train.bool()
    contour, out = labels == CONTOUR, labels == OUT
    assert not (noisy & (labels == IN)).any()
    kept_share = (noisy & contour).sum((1, 2)) / contour.sum((1, 2))
    long = contour.sum((1, 2)) > 40
    assert kept_share[long].min() < 0.62
    assert kept_share.max() == 1
    assert abs(kept_share.mean() - (1 - MAX_MISSING / 2)) < 0.01
    strokes = (noisy & out).sum((1, 2)) / 3
    assert strokes.min() == 0
    assert MAX_SPURIOUS - 1 < strokes.max() <= MAX_SPURIOUS
    assert abs(float(drawings.statistics["emission"][0]) - kept_share.mean()) < 0.01  # type: ignore[index]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind(kind: str) -> None:
    rng = np.random.default_rng(7)
    labels = torch.from_numpy(np.stack([draw_labels(kind, rng) for _ in range(60)]))
    again = np.random.default_rng(7)
    assert torch.equal(labels[0], torch.from_numpy(draw_labels(kind, again)))
    assert ((labels == IN).flatten(1).any(1) == (kind != "line")).all()
    assert (labels == CONTOUR).flatten(1).sum(1).min() >= 8
    assert len(labels.flatten(1).unique(dim=0)) == 60
    contour = (labels == CONTOUR).float()[:, None]
    whole = -max_pool2d(-contour, 2, 1)  # 1 where four pixels of a square are contour
    squares = whole.flatten(1).sum(1) > 8
    assert squares.any() == (kind in WIDE) or kind == "letter"


def test_noise_may_differ_from_image_to_image() -> None:
    labels = torch.from_numpy(np.stack([draw_labels("blob", np.random.default_rng(i)) for i in range(3)]))
    noisy = add_noise(labels, np.array([0.0, 1.0, 0.5]), np.array([0, 2, 1]), seed=1).bool()
    contour, out = labels == CONTOUR, labels == OUT
    assert (noisy & contour).sum((1, 2))[:2].tolist() == [int(contour[0].sum()), 0]
    assert (noisy & out).sum((1, 2)).tolist() == [0, 6, 3]
    assert torch.equal(add_noise(labels, 0.3, 4, 5), add_noise(labels, np.full(3, 0.3), np.full(3, 4), 5))
    with pytest.raises(InputError, match=r"p_missing has the shape \[2\]; expected one number, or one for each of 3 images"):
        add_noise(labels, np.zeros(2), 0)
    with pytest.raises(InputError, match=r"n_spurious is .*; expected a whole number from 0 up"):
        add_noise(labels, 0.1, np.array([1, -1, 2]))
