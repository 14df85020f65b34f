"""The checks of `--verify` do fail when something is wrong."""

import dataclasses
from pathlib import Path

import pytest
import torch

from qtcore.data import add_noise, inventory
from qtcore.data.border import emission_of
from qtcore.data.dataset import Dataset
from qtcore.paper import baselines
from tests.data.conftest import kept


def verdict(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> inventory.Report:
    """What `fetch --verify` says when loading gives `data`."""
    monkeypatch.setattr(inventory, "load", lambda name: data)
    return inventory.verify(data.name, baselines.CHECKS.get(data.name, ()))


def test_wrong_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    data = kept("digits")
    assert verdict(data, monkeypatch).result == "right"
    wrong = dataclasses.replace(data, test=data.test[:-5])
    report = verdict(wrong, monkeypatch)
    assert report.result == "WRONG"
    assert report.remarks == ("test has shape (1795, 64), expected (1800, 64)",)


def test_wrong_glyphs(monkeypatch: pytest.MonkeyPatch) -> None:
    data = kept("glyphs")
    assert data.truth is not None
    assert verdict(data, monkeypatch).result == "right"
    # The digits were once counted in eight bits, which made some of them rarer.
    uneven = dict(data.truth) | {"train": (torch.arange(10_000) % 256 % 10).to(torch.uint8)}
    assert "not equally frequent" in verdict(dataclasses.replace(data, truth=uneven), monkeypatch).remarks[0]
    assert "foreground is" in verdict(dataclasses.replace(data, train=255 - data.train), monkeypatch).remarks[0]


def test_wrong_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    data = kept("border-glyphs")
    assert data.truth is not None
    assert verdict(data, monkeypatch).result == "right"
    labels = data.truth["train"]
    for p_missing, n_spurious, complaint in ((0.3, 8, "contour kept is 0.7"), (0.2, 5, "p(on | OUT) is 0.02")):
        noisy = add_noise(labels, p_missing, n_spurious)
        statistics = {"emission": emission_of(noisy, labels, p_missing)}
        report = verdict(dataclasses.replace(data, train=noisy, statistics=statistics), monkeypatch)
        assert report.result == "WRONG"
        assert report.remarks[0].startswith(complaint)


def test_rows_in_another_order_are_right_and_other_rows_are_not(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = kept("dna")
    assert verdict(data, monkeypatch).result == "right"
    assert verdict(dataclasses.replace(data, test=data.test.flip(0)), monkeypatch).result == "right"
    swapped = data.test.clone()
    swapped[:, :2] = data.test[:, :2].flip(1)  # the same number of ones
    report = verdict(dataclasses.replace(data, test=swapped), monkeypatch)
    assert report.result == "WRONG"
    assert "its rows are not the published ones" in report.remarks[0]
    assert "ones, expected" in verdict(dataclasses.replace(data, test=1 - data.test), monkeypatch).remarks[0]


def test_faces_with_another_preparation_are_wrong(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The baseline is sensitive: without the standardisation per pixel it is far off."""
    monkeypatch.setattr(baselines, "DRAWS", 2)
    data = kept("frey")
    assert data.raw is not None
    flat = data.raw["test"].flatten(1).float()
    wrong = dataclasses.replace(data, test=(flat - flat.mean()) / flat.std())
    assert verdict(wrong, monkeypatch).result == "WRONG"
