"""The reliability diagram: what it shows is what the library measures."""

import re

import numpy as np
import pytest
import torch
from qtcore_app import calibration
from qtcore_app.calibration import MISSING, Reliability, describe, diagram, measured

import qtcore
from qtcore.data import load
from qtcore.metrics import Calibration
from qtcore.query import uniform


def test_of_a_binary_model() -> None:
    result = measured("rbm/digits")
    assert result is not None
    test, model = load("digits").test[: calibration.ROWS], qtcore.load("rbm/digits")
    with torch.no_grad():  # any other half of the pixels is much like it
        query = uniform()(test, torch.Generator().manual_seed(1))
        p, truth = (each[query.target] for each in (model(query).probs, test))
    error = sum(
        float((p[part].mean() - truth[part].mean()).abs()) * float(part.float().mean())
        for k in range(10)
        if (part := (p * 10).long().clamp(0, 9) == k).any()
    )
    assert result.error == pytest.approx(error, abs=0.02)
    assert measured("rbm/digits") is result  # once for all users


def test_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "IMAGES", 4)
    measured.cache_clear()
    result = measured("grid/border")
    assert result is not None
    assert int(result.count.sum()) <= 4 * 900 * 3
    assert result.error < 0.05
    measured.cache_clear()


def test_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> object:
        return type("Holding", (), {"source": None})

    monkeypatch.setattr(calibration, "holding", none)
    measured.cache_clear()
    assert measured("rbm/adult") is None
    assert MISSING in describe("rbm/adult", None)
    measured.cache_clear()


def test_the_diagram_has_a_circle_for_each_bin() -> None:
    result = Calibration(torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0]), torch.tensor([300, 100]))
    drawn = diagram(result)
    x = [float(value) for value in re.findall('cx="([0-9.]+)"', drawn)]
    y = [float(value) for value in re.findall('cy="([0-9.]+)"', drawn)]
    r = [float(value) for value in re.findall(' r="([0-9.]+)"', drawn)]
    assert np.diff(x) == pytest.approx(0.8 * calibration.SIDE, abs=0.2)
    assert np.diff(y) == pytest.approx(-calibration.SIDE, abs=0.2)
    assert r[0] > r[1]
    assert "0.1000, over 400 probabilities" in describe("a model", result)


def test_the_button_shows_and_hides_it() -> None:
    model = ["rbm/digits"]
    shown = Reliability(lambda: model[0], 200)
    assert not shown.pane.visible
    shown.row.clicks = [0, 1]
    assert shown.pane.visible
    assert "<svg" in shown.pane.object
    assert "rbm/digits" in shown.pane.object
    model[0] = "dbm/digits"
    shown.refresh()
    assert "dbm/digits" in shown.pane.object
    shown.row.clicks = [0, 2]
    assert (shown.pane.visible, shown.row.selected) == (False, -1)
