"""Dreams: samples by the chain rule through a model's own marginals."""

from pathlib import Path

import numpy as np
import pytest
import torch

import qtcore
from qtcore.data import faces_offline
from qtcore.dream import main
from qtcore.errors import InputError
from qtcore.inference.sampling import blocks, dream, dream_records
from qtcore.io.images import contact_sheet

from .commands import Command, command  # noqa: F401


def test_blocks_cover_each_pixel_once() -> None:
    result = blocks((7, 5), 3, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(result).tolist()) == list(range(35))


def test_independent_pixels_come_out_with_their_mean_and_deviation() -> None:
    """With no weights the chain rule draws from N(b, σ²)."""
    model = qtcore.GaussianRBM(12, 3, n_layers=2)
    model.W.data.zero_()
    model.b.data[:] = torch.linspace(-2, 2, 12)
    result = dream(model, 4000, image_shape=(3, 4), size=2, smooth=0)
    torch.testing.assert_close(result.mean(0), model.b.detach(), atol=0.1, rtol=0)
    torch.testing.assert_close(result.std(0), torch.ones(12), atol=0.1, rtol=0)
    smooth = dream(model, 3, image_shape=(3, 4), size=2)
    torch.testing.assert_close(smooth, model.b.detach().expand(3, -1), atol=1e-4, rtol=0)


def test_correlated_pixels_come_out_correlated() -> None:
    """One strong hidden unit makes two pixels agree; drawn one after the other they must."""
    model = qtcore.GaussianRBM(2, 1, n_layers=20)
    model.W.data[:] = 4.0
    model.c.data[:] = -16.0  # the mixture is even: the unit is on or off with the same probability
    result = dream(model, 2000, image_shape=(1, 2), size=1, smooth=0)
    assert float(torch.corrcoef(result.T)[0, 1]) > 0.6


def test_the_same_seed_dreams_the_same() -> None:
    model = qtcore.GaussianRBM(12, 3, n_layers=2)
    first, again, other = (dream(model, 2, image_shape=(3, 4), smooth=0, seed=seed) for seed in (1, 1, 2))
    torch.testing.assert_close(first, again)
    assert (first != other).any()


def test_bad_input() -> None:
    with pytest.raises(InputError, match="image_shape"):
        dream(qtcore.GaussianRBM(12, 3))
    with pytest.raises(InputError, match="at least 1"):
        dream(qtcore.GaussianRBM(12, 3), 0, image_shape=(3, 4))
    for wrong in ({"temperature": float("nan")}, {"temperature": -1.0}, {"smooth": 7.0}, {"smooth": float("nan")}):
        with pytest.raises(InputError, match=r"temperature .* and smooth"):
            dream(qtcore.GaussianRBM(12, 3), image_shape=(3, 4), **wrong)
    with pytest.raises(InputError, match="this model is a RBM"):
        dream(qtcore.RBM(12, 3), image_shape=(3, 4))


def test_the_shipped_faces_are_there() -> None:
    faces = faces_offline()
    assert 12 <= len(faces) <= 16
    assert float(faces.abs().max()) < 8
    assert contact_sheet(torch.zeros(3, 560), (28, 20)).size == (16 * 22 * 4, 30 * 4)


@pytest.mark.parametrize(("grain", "least", "most"), [(True, 0.9, 1.1), (False, 0.0, 0.3)])
def test_the_grain_of_the_shipped_faces_is_what_the_model_expects(grain: bool, least: float, most: float) -> None:
    """The squared error of each block given the others, in units of its variance; smoothed faces have too little of it."""
    model, faces = qtcore.load("grbm/frey"), faces_offline(grain)[:4]
    parts = blocks((28, 20), 4, torch.Generator().manual_seed(0))
    observed = torch.stack([(torch.arange(560)[:, None] != part).all(1) for part in parts])
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
    torch.testing.assert_close(samples, dream(model, 4, size=3, smooth=0)[[2, 0]])
    torch.testing.assert_close(faces, dream(model, 4, size=3, smooth=1)[[2, 0]])


def test_independent_variables_come_out_with_their_probabilities() -> None:
    model = qtcore.RBM(5, 2, n_layers=2)
    model.W.data.zero_()
    model.c_v.data[:] = torch.linspace(-2, 2, 5)
    result = dream_records(model, 4000)
    assert set(result.unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(result.mean(0), model.c_v.detach().sigmoid(), atol=0.03, rtol=0)
    assert (result[:2] == dream_records(model, 4000)[:2]).all()
    assert (result != dream_records(model, 4000, seed=1)).any()


def test_variables_that_agree_come_out_so_unless_they_are_drawn_together() -> None:
    model = qtcore.RBM(2, 1, n_layers=4)
    model.W.data[:] = 8.0  # both agree with the hidden one
    one_by_one, together = dream_records(model, 1000), dream_records(model, 1000, rounds=1)
    assert float((one_by_one[:, 0] == one_by_one[:, 1]).float().mean()) > 0.98
    assert float((together[:, 0] == together[:, 1]).float().mean()) < 0.6
    with pytest.raises(InputError, match="at least 1"):
        dream_records(model, 0)
