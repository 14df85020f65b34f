"""`qtcore.widget` shows any model with an image shape."""

import struct

import numpy as np
import pytest
import torch
from qtcore_app.frames import unpack
from qtcore_app.inline import Inline, shape_of

import qtcore
from qtcore.errors import InputError


def stroke(inline: Inline, weights: np.ndarray, drawing: np.ndarray | None = None) -> None:
    packet = struct.pack("<I", inline.painter.seq + 1) + weights.astype(np.uint8).tobytes()
    inline.painter.packet = packet + (b"" if drawing is None else drawing.astype(np.uint8).tobytes())


def test_gaussian() -> None:
    model = qtcore.load("grbm/frey")
    inline = Inline(model, torch.randn(560), n_layers=3)
    first = inline.player.frames
    described, (layers,) = unpack(first)
    assert layers.shape == (4, 3, 28, 20)
    assert described["runs"][0]["curves"]["nce"] == [None] * 4  # nothing is hidden yet
    stroke(inline, np.zeros(560))
    described, _ = unpack(inline.player.frames)
    assert described["seq"] == 1
    assert described["runs"][0]["curves"]["nce"][-1] > 0


@pytest.mark.parametrize("kind", ["RBM", "DBM"])
def test_binary(kind: str) -> None:
    model = qtcore.RBM(12, 5) if kind == "RBM" else qtcore.DBM(12, 5, 4)
    inline = Inline(model, torch.ones(12), n_layers=2, image_shape=(3, 4))
    stroke(inline, np.arange(12) % 2 * 255)
    described, (layers,) = unpack(inline.player.frames)
    assert [channel["name"] for channel in described["channels"]] == ["mean", "entropy", "difference"]
    assert layers.shape == (3, 3, 3, 4)
    assert (layers[-1, 0].reshape(-1)[1::2] == 255).all()  # what is observed is clamped


def test_grid() -> None:
    model = qtcore.GridMRF(6, 7, clones=(3, 1, 1), n_layers=2)
    inline = Inline(model, truth=torch.ones(6, 7, dtype=torch.long))
    before = unpack(inline.player.frames)[1][0]
    drawing = np.zeros((6, 7))
    drawing[2, 2] = 255
    stroke(inline, np.full((6, 7), 255), drawing)
    described, (after,) = unpack(inline.player.frames)
    assert (after != before).any()
    assert described["runs"][0]["curves"]["iou"][-1] is not None


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(InputError, match="image_shape"):
        qtcore.widget(qtcore.RBM(12, 5))
    with pytest.raises(InputError, match="13 numbers"):
        qtcore.widget(qtcore.RBM(12, 5), torch.zeros(13), image_shape=(3, 4))
    with pytest.raises(InputError, match="sides from 1"):
        shape_of(qtcore.RBM(12, 5), (1, 1000))
    with pytest.raises(AttributeError):
        qtcore.nothing  # noqa: B018


def test_the_documented_call() -> None:
    from qtcore.data import faces_offline

    assert len(qtcore.widget(qtcore.load("grbm/frey"), faces_offline()[0])) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", [qtcore.Exact(), qtcore.Gibbs(6, burn=2, every=1), qtcore.BP(n_layers=4, damping=0.5)])
@pytest.mark.parametrize("kind", ["RBM", "GaussianRBM"])
def test_any_engine(kind: str, engine: qtcore.Engine) -> None:
    model = qtcore.RBM(6, 3) if kind == "RBM" else qtcore.GaussianRBM(6, 3)
    inline = Inline(model, torch.ones(6), image_shape=(2, 3), how=engine)
    stroke(inline, np.arange(6) % 2 * 255)
    described, (layers,) = unpack(inline.player.frames)
    assert len(layers) == engine.steps(model) + 1
    assert all(value > 0 for value in described["runs"][0]["curves"]["nce"])
