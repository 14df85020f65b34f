"""The border generator against a naive reading of its definition, and its statistics."""

import numpy as np
import pytest
import torch
from torch import Tensor

from qtcore.data import CONTOUR, IN, OUT, Border, add_noise, border_labels, glyphs, load, make_border
from qtcore.data.border import CHUNK, EMISSION_IN, emission_of
from qtcore.errors import InputError
from tests.data.conftest import kept


def blobs(n: int, side: int = 28, seed: int = 0) -> Tensor:
    """Grey images with one rectangle each, away from the edges."""
    rng = np.random.default_rng(seed)
    images = np.zeros((n, side, side), np.uint8)
    for image in images:
        top, left = rng.integers(5, 12, 2)
        height, width = rng.integers(4, 10, 2)
        image[top : top + height, left : left + width] = rng.integers(128, 256)
    return torch.from_numpy(images)


def naive_labels(image: np.ndarray) -> np.ndarray:
    height, width = image.shape
    labels = np.full((height + 2, width + 2), OUT)
    bright = {(r + 1, c + 1) for r in range(height) for c in range(width) if image[r, c] > 127}
    for r, c in bright:
        labels[r, c] = IN
        for place in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if place not in bright:
                labels[place] = CONTOUR
    return labels


def strokes_in(noisy: np.ndarray) -> list[set[tuple[int, int]]]:
    """The 8-connected groups of pixels that are on."""
    left = set(zip(*(axis.tolist() for axis in np.nonzero(noisy)), strict=True))
    groups = []
    while left:
        group, todo = set(), [left.pop()]
        while todo:
            r, c = todo.pop()
            group.add((r, c))
            near = {(r + i, c + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            todo += near
        groups.append(group)
    return groups


def surround(stroke: set[tuple[int, int]]) -> set[tuple[int, int]]:
    r, c = sorted(stroke)[1]  # the middle one of three in a line
    return {(r + i, c + j) for i in range(-2, 3) for j in range(-2, 3)}


def test_labels_against_the_definition() -> None:
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (20, 9, 7)).astype(np.uint8)  # noise: foreground at the edges too
    images[:5] = rng.choice([0, 127, 128, 255], (5, 9, 7), p=[0.8, 0.05, 0.05, 0.1])
    labels = border_labels(torch.from_numpy(images))
    assert labels.dtype == torch.uint8
    for image, result in zip(images, labels.numpy(), strict=True):
        np.testing.assert_array_equal(result, naive_labels(image))


def test_black_and_white_images_have_the_labels_of_grey_ones() -> None:
    images = blobs(5)
    assert torch.equal(border_labels(images > 127), border_labels(images))


def test_strokes_lie_on_clean_ground() -> None:
    """Without its contour, an image shows its strokes alone: eight lines of three, each in a clean 5×5 of OUT."""
    labels = border_labels(blobs(60))
    noisy = add_noise(labels, p_missing=1.0, n_spurious=8, seed=3)
    assert not noisy[labels != OUT].any()
    orientations = []
    for image, truth in zip(noisy.numpy(), labels.numpy(), strict=True):
        strokes = strokes_in(image)
        assert len(strokes) == 8
        for stroke in strokes:
            a, b, c = sorted(stroke)
            step = (b[0] - a[0], b[1] - a[1])
            assert (c[0] - b[0], c[1] - b[1]) == step
            orientations.append(step)
            assert all(0 <= r < 30 and 0 <= c < 30 and truth[r, c] == OUT for r, c in surround(stroke))
        for i, one in enumerate(strokes):
            for other in strokes[:i]:  # whichever came later found its surround free of the earlier one
                assert not (surround(one) & other) or not (surround(other) & one)
    counts = {step: orientations.count(step) for step in set(orientations)}
    assert set(counts) == {(0, 1), (1, 0), (1, 1), (1, -1)}
    assert all(abs(count - 120) < 40 for count in counts.values())  # 480 in all, deviation 9.5


def test_a_stroke_lands_everywhere_with_the_same_chance() -> None:
    """On an empty 9×9 image the centre is uniform over the middle 5×5."""
    n = 20_000
    labels = torch.full((n, 9, 9), OUT, dtype=torch.uint8)
    noisy = add_noise(labels, 0.0, 1, seed=5).numpy()
    image, row, column = np.nonzero(noisy)
    assert (np.bincount(image) == 3).all()
    centres = np.stack([row.reshape(n, 3).mean(1), column.reshape(n, 3).mean(1)], 1).astype(int) - 2
    counts = np.zeros((5, 5))
    np.add.at(counts, tuple(centres.T), 1)
    chi2 = ((counts - n / 25) ** 2 / (n / 25)).sum()
    assert chi2 < 51.2  # the 0.1 % point with 24 degrees of freedom


@pytest.mark.parametrize("p_missing", [0.0, 0.2, 0.7, 1.0])
def test_contour_pixels_vanish_at_the_given_rate(p_missing: float) -> None:
    labels = border_labels(blobs(2000))
    noisy = add_noise(labels, p_missing, 0)
    contour = labels == CONTOUR
    n = int(contour.sum())
    kept = noisy[contour].double().mean().item()
    assert abs(kept - (1 - p_missing)) <= 4 * (p_missing * (1 - p_missing) / n) ** 0.5
    assert not noisy[~contour].any()


def test_seeds() -> None:
    images = blobs(50)
    first, again, other = (make_border(images, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.noisy, again.noisy)
    assert torch.equal(first.labels, other.labels)
    assert not torch.equal(first.noisy, other.noisy)


def test_no_two_chunks_have_the_same_noise() -> None:
    labels = torch.full((CHUNK + 10, 9, 9), OUT, dtype=torch.uint8)
    noisy = add_noise(labels, 0.0, 2)
    assert noisy.flatten(1).sum(1).min() > 0
    assert not torch.equal(noisy[:10], noisy[CHUNK:])


def test_single_image() -> None:
    image = blobs(1)[0]
    one = make_border(image, seed=7)
    many = make_border(image[None], seed=7)
    assert isinstance(one, Border)
    assert one.noisy.shape == one.labels.shape == (30, 30)
    assert torch.equal(one.noisy, many.noisy[0])
    assert torch.equal(one.labels, many.labels[0])
    assert torch.equal(add_noise(one.labels, seed=7), one.noisy)
    assert one.noisy.dtype == one.labels.dtype == torch.uint8


def test_emission() -> None:
    noisy, labels, emission = make_border(blobs(200), p_missing=0.3, n_spurious=4)
    n_out = int((labels == OUT).sum())
    assert emission.dtype == torch.float64
    assert emission.tolist() == pytest.approx([0.7, 200 * 4 * 3 / n_out, 1e-10])
    assert not noisy[labels == IN].any()


@pytest.mark.parametrize(("p_missing", "n_spurious"), [(0.0, 0), (1.0, 0), (0.0, 200)])
def test_emission_has_finite_logarithms_at_the_ends_of_the_knobs(p_missing: float, n_spurious: int) -> None:
    emission = make_border(blobs(3), p_missing, n_spurious).emission.float()
    assert torch.isfinite(emission.log()).all()
    assert torch.isfinite((1 - emission).log()).all()


@pytest.mark.parametrize(
    "image",
    [
        torch.ones(28, 28, dtype=torch.bool),  # all foreground: OUT is a corner pixel or two
        torch.zeros(2, 2, dtype=torch.bool),  # smaller than any surround
        torch.zeros(3, 3, dtype=torch.bool),  # a single place, for the first stroke only
        torch.zeros(0, 28, 28, dtype=torch.bool),
    ],
    ids=["full", "tiny", "one place", "no image"],
)
def test_images_without_place_get_fewer_strokes(image: Tensor) -> None:
    noisy, labels, emission = make_border(image, n_spurious=8)
    room = 3 if tuple(image.shape) == (3, 3) else 0
    assert int(noisy[labels == OUT].sum()) == room
    assert emission.min() >= EMISSION_IN


def test_crowded_image_keeps_the_rule() -> None:
    """With more strokes than places, every image is filled until no place is left."""
    labels = torch.full((20, 30, 30), OUT, dtype=torch.uint8)
    noisy = add_noise(labels, 0.0, 500)
    for image in noisy.numpy():
        assert all(len(stroke) == 3 for stroke in strokes_in(image))
        windows = np.lib.stride_tricks.sliding_window_view(image, (5, 5))
        assert (windows.sum((2, 3)) > 0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_border(torch.zeros(28, 28)), "images are torch.float32"),
        (lambda: make_border(torch.zeros(28, dtype=torch.uint8)), r"\(28,\)"),
        (lambda: add_noise(torch.zeros(5, 5)), "labels are torch.float32"),
        (lambda: make_border(blobs(1), p_missing=1.5), "p_missing is 1.5"),
        (lambda: make_border(blobs(1), p_missing=float("nan")), "p_missing is nan"),
        (lambda: make_border(blobs(1), n_spurious=-1), "n_spurious is -1"),
        (lambda: make_border(blobs(1), n_spurious=2.5), "n_spurious is 2.5"),
    ],
)
def test_wrong_input_is_named(call, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_many_images_have_noise_of_their_own() -> None:
    images = blobs(1000).repeat(7, 1, 1)
    noisy, _, emission = make_border(images)
    assert len(noisy) == 7_000
    assert (noisy[:1000] != noisy[1000:2000]).any()
    assert emission[1].item() == pytest.approx(0.03, abs=0.01)


def test_border_glyphs() -> None:
    data = kept("border-glyphs")
    assert data.truth is not None
    assert (data.kind, data.source, data.image_shape) == ("grid", "stand-in", (30, 30))
    for split, n in {"train": 10_000, "valid": 1_000, "test": 2_000}.items():
        noisy, labels = data.splits[split], data.truth[split]
        assert noisy.shape == labels.shape == (n, 30, 30)
        assert noisy.dtype == labels.dtype == torch.uint8
        assert noisy[labels == CONTOUR].double().mean().item() == pytest.approx(0.8, abs=0.005)
        assert not noisy[labels == IN].any()
        per_image = (noisy.bool() & (labels == OUT)).sum((1, 2))
        assert (per_image == 24).double().mean() > 0.99
    emission = data.statistics["emission"]
    assert torch.equal(emission, emission_of(data.train, data.truth["train"]))
    assert not torch.equal(data.train[:1000], data.valid)  # each part has noise of its own


def test_border_has_the_noise_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "N_ROWS", {"train": 200, "valid": 40, "test": 40})
    data = load("border-glyphs", p_missing=0.0, n_spurious=0, seed=4)
    assert data.truth is not None
    assert torch.equal(data.test.bool(), data.truth["test"] == CONTOUR)
    assert (data.statistics["p_missing"], data.statistics["n_spurious"]) == (0.0, 0)
