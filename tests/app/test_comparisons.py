"""What a model can be compared with, and the runs that this makes."""

import pytest
import torch
from qtcore_app import comparisons, engine
from qtcore_app.comparisons import Comparison, offered

import qtcore
from qtcore.models.base import Model


def shipped(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(qtcore, "available", lambda: list(names))


def make(label: str, model: Model, n_layers: int) -> engine.Run:
    query = qtcore.Query(torch.zeros(1, 4), torch.zeros(1, 4))
    return engine.Run(label, model, query, None, n_layers)  # type: ignore[arg-type]


def test_only_what_is_there_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped(monkeypatch, "rbm/adult", "rbm-pcd/adult", "rbm-advil/mushrooms", "dbm/adult", "grbm/frey", "grbm-advil/frey")
    assert list(offered("rbm/adult", (3,), 10)) == ["", "pcd", "dbm", "untrained", "layers-3"]
    assert list(offered("dbm/adult", (), 10)) == ["", "rbm", "untrained"]
    assert list(offered("grbm/frey", (5, 15), 50)) == ["", "advil", "untrained", "layers-5", "layers-15"]
    assert list(offered("rbm/digits", (3,), 10)) == ["", "layers-3"]  # what is shown is untrained already


def test_the_same_model_at_another_layer_is_not_called_another_model() -> None:
    assert list(offered("grbm/none", (5, 100), 50).values()) == ["off", "stop at 5", "go on to 100"]


def test_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped(monkeypatch, "rbm/adult", "rbm-pcd/adult", "dbm/adult")
    own, pcd, dbm = qtcore.RBM(4, 2), qtcore.RBM(4, 2, n_layers=7), qtcore.DBM(4, 2, 2)
    others = {"rbm-pcd/adult": pcd, "dbm/adult": dbm}
    monkeypatch.setattr(engine, "model", others.__getitem__)

    def runs(value: str) -> list[tuple[str, Model, int]]:
        result = Comparison("rbm/adult", 10, (3, 30), value, lambda: None, 200).runs(own, make)
        return [(run.label, run.model, run.n_layers) for run in result]

    assert runs("") == runs("rubbish") == runs("layers-99") == [("10 layers", own, 10)]
    assert runs("layers-3") == [("all 10 layers", own, 10), ("stopped at 3 layers", own, 3)]
    assert runs("layers-30") == [("stopped at 10 layers", own, 10), ("all 30 layers", own, 30)]
    assert runs("pcd") == [("QT", own, 10), ("PCD", pcd, 10)]
    assert runs("dbm") == [("RBM", own, 10), ("DBM", dbm, 10)]
    assert [label for label, _, _ in runs("untrained")] == ["trained", "untrained"]
    assert runs("untrained")[1][1] is engine.untrained(own)


def test_clicks_and_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped(monkeypatch, "rbm/adult", "rbm-pcd/adult", "dbm/adult")
    changes: list[str] = []
    comparison = Comparison("rbm/adult", 10, (3,), "", lambda: changes.append(comparison.value), 200)
    comparison.row.clicks = [1, 1]
    comparison.row.clicks = [99, 2]  # not one of ours
    assert changes == ["pcd"]
    assert comparison.row.labels[comparison.row.selected] == "trained with PCD"
    comparison.use("dbm/adult", 10)  # for which there are no PCD weights
    assert comparison.value == ""
    assert comparison.row.selected == 0
    assert "RBM" in comparison.row.labels
    assert comparisons.METHODS["pcd"] not in comparison.row.labels
