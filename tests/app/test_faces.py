"""Faces: what is scored, and what it is compared with."""

import math

import numpy as np
import pytest
import torch

from app.frames import unpack
from app.pages.faces import SMOOTHED, FacesPage, baselines, galleries
from app.shell import Shell

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
