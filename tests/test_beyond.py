"""The query matrix and the table of engines: scores that are known beforehand, what is missing, and how it is shown."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from qtcore import RBM, GaussianRBM
from qtcore.data import Dataset
from qtcore.inference.reweighted import attach
from qtcore.paper import cells, reproduction, scoring
from qtcore.paper.beyond import ASKED, ENGINE_DEPTHS, ENGINE_KINDS
from qtcore.paper.cells import Cell
from qtcore.paper.matrices import engine_matrices, query_matrices
from qtcore.paper.records import is_record


def toy(name: str, values: torch.Tensor, **options: Any) -> Dataset:
    about: dict[str, Any] = {"name": name, "kind": "binary", "source": "stand-in", "note": ""} | options
    return Dataset(**about, train=values, valid=values, test=values)


def sure(p: float) -> RBM:
    """Six independent bits, each 1 with probability p."""
    model = RBM(6, 2, dtype=torch.float64)
    with torch.no_grad():
        model.W.zero_()
        model.c_v.fill_(math.log(p / (1 - p)))
    return model


def record_of(cell: Cell, model: Any, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(cells.data, "load", lambda _: dataset)
    record: dict[str, Any] = json.loads(json.dumps(cells.score_cell(cell, model, False, 0)))
    assert is_record(record)
    return record


@pytest.mark.parametrize("image_shape", [None, (2, 3)])
def test_independent_bits_cost_the_same_however_they_are_asked(
    image_shape: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if image_shape is not None:
        monkeypatch.setattr(scoring, "ASKED", {**ASKED, "5×5 patches": "patches:2"})
    dataset = toy("digits", torch.ones(300, 6), image_shape=image_shape)
    record = record_of(Cell("queries", "qt", "rbm", "digits"), sure(0.75), dataset, monkeypatch)
    scores = record["scores"]
    assert len(scores) == (len(ASKED) if image_shape else len(ASKED) - 1)
    for score in scores.values():
        assert score["mean"] == pytest.approx(-math.log2(0.75))
        assert score["error"] == pytest.approx(0, abs=1e-12)
    assert scores["one-target"]["samples"] == 300


def test_a_matrix_has_a_row_for_each_training_and_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = toy("adult", torch.ones(50, 6))
    one = record_of(Cell("queries", "qt", "rbm", "adult"), sure(0.5), dataset, monkeypatch)
    other = record_of(Cell("queries", "qt", "rbm-queries", "adult-one-target"), sure(0.25), dataset, monkeypatch)
    (matrix,) = query_matrices([one, other])
    assert matrix.title == "Adult"
    assert matrix.columns == [title for title in ASKED if "patches" not in title]
    filled = {title: row for title, row in zip(matrix.rows, matrix.figures, strict=True) if row[0] is not None}
    assert [row[3][0] for row in filled.values() if row[3]] == pytest.approx([1.0, 2.0])
    assert [*filled] == ["50 % asked (the paper's)", "one variable asked (pseudo-likelihood)"]
    (text,) = reproduction.write_tables([one, other], [], "queries", tmp_path)
    assert "| 50 % asked (the paper's) | 1.000 ± 0" in text
    assert "| 10 % asked | not yet trained |" in text
    picture = tmp_path / "results" / "queries.png"
    assert picture.stat().st_size > 1000
    before = picture.read_bytes(), picture.stat().st_mtime_ns
    reproduction.write_tables([one, other], [], "queries", tmp_path)  # draws the same, and leaves the file alone
    assert (picture.read_bytes(), picture.stat().st_mtime_ns) == before
    (some,) = reproduction.write_tables([one], [other], "queries", tmp_path, whole=False)
    assert some.count("not yet trained") == 0
    assert some.count("| 50 % asked") == 1
    assert "pseudo-likelihood" not in some
    assert picture.read_bytes() != before[0]


def test_engines_agree_on_independent_bits_and_differ_on_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = toy("adult", torch.ones(60, 6))
    record = record_of(Cell("engines", "qt", "rbm-mf", "adult"), sure(0.75), dataset, monkeypatch)
    assert record["scores"].keys() == {f"{engine}-{depth}" for engine in ENGINE_KINDS for depth in ENGINE_DEPTHS}
    for score in record["scores"].values():
        assert score["mean"] == pytest.approx(-math.log2(0.75))
    torch.manual_seed(0)
    joined = RBM(6, 2, dtype=torch.float64)
    with torch.no_grad():
        joined.W.normal_()
    scores = record_of(Cell("engines", "qt", "rbm-bp", "adult"), joined, dataset, monkeypatch)["scores"]
    assert len({round(scores[f"{engine}-10"]["mean"], 9) for engine in ENGINE_KINDS}) == 3
    attach(joined, 1.0)  # what it has learned counts: here that 1 is best
    scores = record_of(Cell("engines", "qt", "rbm-rw", "adult"), joined, dataset, monkeypatch)["scores"]
    assert [scores[f"rw-{n}"]["mean"] for n in ENGINE_DEPTHS] == pytest.approx(
        [scores[f"bp-{n}"]["mean"] for n in ENGINE_DEPTHS]
    )
    own, cross = engine_matrices([record])
    place = own.rows.index("Adult, trained through mean field")
    assert [figure is not None for figure in own.figures[place]] == [True] * 5
    assert cross.figures[place - 1] == [None] * 3
    (text,) = reproduction.write_tables([record], [], "engines", tmp_path)
    assert "| Adult, trained through mean field | 0.415 ± 0" in text
    assert "| DNA, trained through BP | not yet trained |" in text
    assert (tmp_path / "results" / "engines.png").stat().st_size > 1000


def test_a_gaussian_model_is_not_asked_by_the_engine_that_it_cannot_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = toy("frey", torch.randn(30, 6), kind="gaussian", image_shape=(2, 3))
    record = record_of(Cell("engines", "qt", "grbm-mf", "frey"), GaussianRBM(6, 2), dataset, monkeypatch)
    assert {part.split("-")[0] for part in record["scores"]} == {"bp", "mf"}
    _, cross = engine_matrices([record])
    (figures,) = [row for row, used in zip(cross.figures, cross.records, strict=True) if used]
    assert [figure is not None for figure in figures] == [True, True, False]
    reproduction.write_tables([record], [], "engines", tmp_path)  # all its figures are above a bit
    assert (tmp_path / "results" / "engines.png").stat().st_size > 1000
    (text,) = [
        line for line in reproduction.markdown("engines", [record]).splitlines() if line.startswith("| Frey") and "– |" in line
    ]
    assert "mean field" in text


def test_nothing_scored_is_an_empty_table(tmp_path: Path) -> None:
    for name in ("queries", "engines"):
        (text,) = reproduction.write_tables([], [], name, tmp_path)
        assert "## " not in text
