"""Glyphs: digits, each different, always the same for a seed."""

import numpy as np
import pytest
import torch
from torch import Tensor

from qtcore.data import Dataset, border_labels
from qtcore.data.border import CONTOUR
from qtcore.data.glyphs import MARGIN, N_ROWS, draw_glyph
from tests.data.conftest import kept


@pytest.fixture(scope="module")
def glyphs() -> Dataset:
    return kept("glyphs")


def test_form(glyphs: Dataset) -> None:
    assert glyphs.truth is not None
    assert (glyphs.kind, glyphs.source, glyphs.image_shape) == ("image", "stand-in", (28, 28))
    for split, n in N_ROWS.items():
        images, digits = glyphs.splits[split], glyphs.truth[split]
        assert images.shape == (n, 28, 28)
        assert images.dtype == digits.dtype == torch.uint8
        assert torch.bincount(digits.long()).tolist() == [n // 10] * 10


def test_every_glyph_is_whole(glyphs: Dataset) -> None:
    """Ink in every image and none at the edges, so that every contour is closed."""
    for images in glyphs.splits.values():
        assert (images > 127).flatten(1).any(1).all()
        inner = torch.zeros(28, 28, dtype=torch.bool)
        inner[MARGIN:-MARGIN, MARGIN:-MARGIN] = True
        assert not images[:, ~inner].any()
    labels = border_labels(glyphs.test)
    frame = torch.ones(30, 30, dtype=torch.bool)
    frame[1:-1, 1:-1] = False
    assert not (labels[:, frame] == CONTOUR).any()


def test_glyphs_differ_in_size_slant_weight_and_place(glyphs: Dataset) -> None:
    assert glyphs.truth is not None
    ones = (glyphs.train[glyphs.truth["train"] == 1] > 127).double()
    rows, columns = ones.sum(2), ones.sum(1)
    heights, tops = (rows > 0).sum(1), (rows > 0).int().argmax(1)
    lefts = (columns > 0).int().argmax(1)
    assert heights.unique().numel() >= 5
    assert tops.unique().numel() >= 5
    assert lefts.unique().numel() >= 5
    weight = ones.sum((1, 2)) / heights
    assert weight.quantile(0.9) > 1.4 * weight.quantile(0.1)
    place = torch.arange(28.0, dtype=torch.float64)
    lean = []
    for image in ones[:300]:  # the horizontal drift of the ink from the bottom to the top
        used = image.sum(1) > 0
        centres = (image[used] * place).sum(1) / image[used].sum(1)
        lean.append(np.polyfit(place[used].numpy(), centres.numpy(), 1)[0])
    assert np.std(lean) > 0.1


def test_no_glyph_occurs_twice(glyphs: Dataset) -> None:
    rows = torch.cat(list(glyphs.splits.values())).flatten(1)
    assert len(rows.unique(dim=0)) > 0.99 * len(rows)


def test_glyphs_look_like_their_digits(glyphs: Dataset) -> None:
    """Moved into the same corner, a glyph almost always resembles most one of the same digit."""
    assert glyphs.truth is not None

    def in_the_corner(images: Tensor) -> Tensor:
        first = [images.amax(axis).bool().int().argmax(1).tolist() for axis in (2, 1)]
        return torch.stack([i.roll((-r, -c), (0, 1)) for i, r, c in zip(images, *first, strict=True)]).flatten(1).float()

    train, test = in_the_corner(glyphs.train[:5000]), in_the_corner(glyphs.test[:500])
    nearest = torch.cdist(test, train).argmin(1)
    right = glyphs.truth["train"][:5000][nearest] == glyphs.truth["test"][:500]
    assert right.double().mean().item() > 0.95


def test_seeds(glyphs: Dataset) -> None:
    assert glyphs.truth is not None
    rng = np.random.default_rng((0, 2))  # the stream of the test part
    digits = rng.permutation(np.arange(N_ROWS["test"]) % 10)
    assert torch.equal(glyphs.truth["test"], torch.from_numpy(digits.astype(np.uint8)))
    again = np.stack([draw_glyph(int(digit), rng) for digit in digits[:50]])
    assert torch.equal(glyphs.test[:50], torch.from_numpy(again))
    assert not np.array_equal(draw_glyph(3, np.random.default_rng(1)), draw_glyph(3, np.random.default_rng(2)))
