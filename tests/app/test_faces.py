"""Faces: what is scored, what it is compared with, and pictures that the model does not expect."""

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image
from qtcore_app import masks
from qtcore_app.frames import unpack
from qtcore_app.pages.faces import (
    EXPECTED,
    SHAPE,
    SMOOTHED,
    FacesPage,
    baselines,
    galleries,
    surprise,
    to_grey,
    trained,
)
from qtcore_app.shell import Shell
from qtcore_app.state import encode_bytes

ENTROPY = 0.5 * math.log2(2 * math.pi * math.e)
"""Bits of a pixel with the model's own noise, σ = 1."""


def test_samples_are_scored_with_their_grain() -> None:
    """Without it the bits fell below what the model's own noise allows."""
    curves = []
    for number in range(4):
        page = FacesPage(Shell(f"?image=dream-{number}"))
        page.painter.give(weights=page.presets["left half"]((28, 20), 0))
        page.first()
        header, _ = unpack(page.player.frames)
        assert {each["label"] for each in header["baselines"]["nce"]} == {"mean face", "one Gaussian"}
        curves.append(header["runs"][0]["curves"]["nce"])
        assert curves[-1][-1] < min(each["value"] for each in header["baselines"]["nce"])
    bits = np.mean(curves, 0)
    assert bits[-1] == pytest.approx(ENTROPY, abs=0.1)
    assert bits[-1] < bits.min() + 0.02


def test_smoothed_samples_are_shown_and_not_scored() -> None:
    page = FacesPage(Shell(f"?image={SMOOTHED}-3"))
    page.painter.give(weights=page.presets["left half"]((28, 20), 0))
    page.first()
    header, _ = unpack(page.player.frames)
    assert not header["truth"]
    assert not header["baselines"]
    assert {each["name"] for each in header["channels"]} == {"mean", "deviation"}
    assert set(header["runs"][0]["curves"]["nce"]) == {None}
    assert "not scored" in header["without"]["nce"]


def test_a_smoothed_sample_is_that_sample_without_its_grain() -> None:
    samples, smoothed = (next(faces for faces in galleries() if faces.key == key) for key in ("dream", SMOOTHED))
    assert (samples.label, samples.heading) == ("samples", "Samples from the model")
    match = torch.corrcoef(torch.cat([samples.values, smoothed.values]))[: len(samples.values), len(samples.values) :]
    assert match.argmax(1).tolist() == list(range(len(samples.values)))


def test_baselines() -> None:
    truth, target = torch.tensor([0.0, 2.0, 1.0, 3.0]), torch.tensor([True, True, False, False])
    log2_e, half_log = math.log2(math.e), 0.5 * math.log2(2 * math.pi)
    expected = {"mean face": half_log + 0.5 * (0 + 4) / 2 * log2_e, "one Gaussian": half_log + 0.5 * (4 + 0) / 2 * log2_e}
    assert baselines(truth, target) == pytest.approx(expected)
    assert list(baselines(truth, torch.ones(4, dtype=torch.bool))) == ["mean face"]
    assert baselines(torch.zeros(4), target).keys() == {"mean face"}  # the evidence has no variance
    assert baselines(truth, torch.zeros(4, dtype=torch.bool)) == {}


@pytest.mark.parametrize("name", masks.FACES)
def test_the_shown_faces_are_what_the_model_expects(name: str) -> None:
    weights = torch.from_numpy(masks.FACES[name](SHAPE, 3).reshape(-1).astype(np.float32)) / 255
    scores = [surprise(trained(), values, weights) for faces in galleries() for values in faces.values]
    assert all(score is not None and score < 1.5 < EXPECTED for score in scores), max(filter(None, scores))


def test_too_few_pixels_say_nothing() -> None:
    weights = torch.zeros(560)
    weights[:3] = 1
    assert surprise(trained(), galleries()[0].values[0], weights) is None


def test_a_picture_that_is_no_face_is_warned_of() -> None:
    page = FacesPage(Shell("?image=dream-1"))
    assert page.upload.problem == ""
    file = io.BytesIO()
    Image.effect_noise((200, 280), 80).save(file, "PNG")
    page.upload.file = b"1234" + file.getvalue()
    assert "does not know such pictures" in page.upload.problem
    again = FacesPage(Shell(page.shell.states["faces"].to_query()))  # from its address
    assert again.upload.problem == page.upload.problem
    page.gallery.clicks = [2, 1]
    assert page.upload.problem == ""


def test_a_face_that_was_uploaded_is_not() -> None:
    face = to_grey(galleries()[0].values[1], trained())
    page = FacesPage(Shell(f"?image=upload&pixels={encode_bytes(face)}"))
    assert page.source == "upload"
    assert page.upload.problem == ""
