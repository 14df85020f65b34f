"""Dreams: samples by the chain rule through a model's own marginals."""

from pathlib import Path

import numpy as np
import pytest
import torch

import qtcore
from qtcore.data import faces_offline
from qtcore.dream import main
from qtcore.inference.sampling import smoothed, steps_of
from qtcore.io.images import contact_sheet

from .commands import Command, command  # noqa: F401


def test_the_shipped_faces_are_there() -> None:
    faces = faces_offline()
    assert 12 <= len(faces) <= 16
    assert float(faces.abs().max()) < 8
    assert contact_sheet(torch.zeros(3, 560), (28, 20)).size == (16 * 22 * 4, 30 * 4)


@pytest.mark.parametrize(("grain", "least", "most"), [(True, 0.9, 1.1), (False, 0.0, 0.3)])
def test_the_grain_of_the_shipped_faces_is_what_the_model_expects(grain: bool, least: float, most: float) -> None:
    """The squared error of each block given the others, in units of its variance; smoothed faces have too little of it."""
    model, faces = qtcore.load("grbm/frey"), faces_offline(grain)[:4]
    steps = steps_of(torch.ones(1, 560, dtype=torch.bool), "forward", (4, 4), image_shape=(28, 20))
    parts = range(35)
    observed = torch.stack([steps[0] != part for part in parts])
    with torch.inference_mode():
        answer = model(qtcore.Query(faces.repeat_interleave(len(parts), 0), observed.repeat(len(faces), 1)))
    errors = ((faces.repeat_interleave(len(parts), 0) - answer.mean) / answer.stddev)[~observed.repeat(len(faces), 1)]
    assert least < float(errors.square().mean()) < most


def test_the_command_writes_samples_and_what_is_left_without_their_grain(
    command: Command,  # noqa: F811
    tmp_path: Path,
) -> None:
    model, out = qtcore.GaussianRBM(12, 3, n_layers=2), tmp_path / "faces.npz"
    model.image_shape = (3, 4)
    model.save(tmp_path / "model.safetensors")
    options = ("--model", tmp_path / "model.safetensors", "--out", out, "--count", 4)
    assert command(main, *options, "--keep", 2, 0).code == 0
    assert "not among the 4 dreams" in command(main, *options, "--keep", 4).sentence
    assert "smooth must be" in command(main, *options, "--smooth", 2).sentence
    with np.load(out) as file:
        samples, faces = torch.from_numpy(file["samples"]), torch.from_numpy(file["faces"])
    query = qtcore.Query(torch.zeros(1, 12), torch.zeros(1, 12, dtype=torch.bool))
    expected = model.sample(query, 4, "outwards", (3, 3), torch.Generator().manual_seed(0))[[2, 0], 0]
    torch.testing.assert_close(samples, expected)
    torch.testing.assert_close(faces, smoothed(model, expected, (3, 3)))
