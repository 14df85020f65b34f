"""The page Results says what the records say."""

import json
import re
from pathlib import Path

import pytest
from bokeh.plotting import figure

from app.pages import results
from qtcore.paper.cells import cells
from qtcore.paper.printed import DATASETS, TABLE_1
from qtcore.paper.tables import TABLES

PATH = re.compile(r"""(?:^|[\s"'>(=:,])(?:~?/\w|[A-Za-z]:\\)""")
"""A place on somebody's machine."""


def record(dataset: str = "adult", mean: float = 0.15, source: str = "exact", **more: object) -> dict[str, object]:
    scores = {"bp": {"mean": mean, "error": 0.001, "samples": 7}}
    result = {
        "table": "table1",
        "method": "qt",
        "model": "rbm",
        "dataset": dataset,
        "seed": 0,
        "source": source,
        "scores": scores,
    }
    return result | more


def page_html(records: list[dict[str, object]]) -> str:
    return "".join(text for text, _ in results.sections(records))


def plots(records: list[dict[str, object]]) -> list[figure]:
    return [plot() for _, plot in results.sections(records) if plot is not None]


def verdicts(html: str) -> list[str]:
    return re.findall(r'<td data-verdict="([^"]*)"', html)


def test_every_figure_of_the_paper_is_there() -> None:
    html = page_html([])
    for printed in TABLE_1.values():
        assert f"paper {printed.mean:.3f}" in html
    assert verdicts(html).count("not yet trained") == len(TABLE_1) + 8 + 2 + 12 + 1
    drawn = plots([])
    assert len(drawn) == 3
    data = drawn[0].renderers[0].data_source.data
    assert sorted(data["figure"]) == sorted(printed.mean for (_, model, _), printed in TABLE_1.items() if model == "rbm")
    assert set(data["fill"]) == {0.0}  # the paper's alone


def test_verdicts() -> None:
    records = [record(mean=0.15), record("dna", 0.9), record("web", 0.133), record("rcv1", 0.4, "stand-in")]
    result = page_html(records)
    names = [verdict for verdict in verdicts(result) if verdict != "not yet trained"]
    assert sorted(names) == ["better", "not comparable", "same", "worse"]
    assert "-0.017 ✓ better" in result
    assert "<em>✓ better</em> 1" in result  # the legend counts


def test_how_a_figure_was_made() -> None:
    training = {"settings": {"epochs": 600.0, "steps": None, "rates": [0.1, 0.01]}, "step": 12, "minutes": 2.5}
    html = page_html([record(checkpoint="rbm/adult", training=training, note="Somewhere."), record(seed=2, mean=0.2)])
    assert "python -m qtcore.reproduce table1 --methods qt --datasets adult --seeds 3 --out again" in html
    assert "epochs 600, rates 0.1 / 0.01; kept: step 12, best on the validation rows; 2.5 minutes" in html
    assert "phase" not in html
    longer = training | {"start": {"settings": {"epochs": 5.0}, "step": 3}}
    both_phases = page_html([record(checkpoint="rbm/adult", training=longer)])
    assert "phase 1: epochs 5; kept: step 3" in both_phases
    assert "<br>phase 2: epochs 600" in both_phases
    assert "How each of these was made (1)" in html
    assert "Scored on 7 samples.<br>" in html
    both = {"gibbs": {"mean": 0.3, "error": 0.1, "samples": 5}, "bp": {"mean": 0.2, "error": 0.1, "samples": 7}}
    assert "Scored on 7 samples, by Gibbs on 5.<br>" in page_html([record(method="pcd", scores=both)])
    assert "(2 runs)" in html
    assert cells("table1", ("qt",), ("adult",), 3)  # the command has something to do


def test_our_figures_are_drawn_beside_the_paper_s() -> None:
    (source, *_) = (drawn.renderers[0].data_source for drawn in plots([record(mean=0.15)]))
    marks = list(zip(*(source.data[name] for name in ("figure", "line", "shown", "fill")), strict=True))
    assert (0.15, 0, "Adult, QT: ours 0.150", 1.0) in marks
    assert (0.167, 0, "Adult, QT: paper 0.167", 0.0) in marks


def test_scores_over_the_depth_are_drawn() -> None:
    scores = {"layer": [1, 2, 60], "nce_bits": [0.5, 0.3, 0.25], "residual": [3.0, 1.0, 0.0], "samples": 7}
    one = record(scores=scores) | {"table": "depth"}
    records = [one, one | {"dataset": "dna<"}, one | {"model": "grid", "scores": scores | {"iou": [20, 50, 97]}}]
    *_, of_grid, of_bits = (drawn.renderers[0].data_source.data for drawn in plots(records))  # the grid first
    assert [list(line) for line in of_grid["ys"]] == [[20, 50, 97]]
    assert [list(line) for line in of_grid["xs"]] == [[1, 2, 60]]
    assert [list(line) for line in of_bits["ys"]] == [[0.5, 0.3, 0.25]] * 2
    assert list(of_bits["shown"]) == ["adult", "dna<"]
    assert len(plots([])) == 3
    assert "reproduce depth --evaluate-only" in page_html(records)
    assert "reproduce depth" not in page_html([])


def test_what_a_file_says_is_escaped() -> None:
    assert "<script" not in page_html([record(note="<script>alert(1)</script>", checkpoint="<script>")])


def test_broken_records_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And so are those of another shape: a page once failed when a figure was a text."""
    good = record()
    wrong: list[object] = [
        [], {}, None, record(table="table9"), record(scores={"bp": {"mean": "0.15", "error": 0.1, "samples": 7}}),
        record(scores={"bp": 0.15}), record(scores={"bp": {"mean": float("nan"), "error": 0.1, "samples": 7}}),
        record(seed="0"), record(training=[]), record(training={"settings": 3}), record(training={"start": {"settings": 3}}),
        record(method="advil", training={"settings": {}}), record(versions={"torch": 2}), record(note=["a"]),
        record(table="depth", scores={"layer": [1, 2], "nce_bits": [0.1]}), record(dataset=None),
    ]  # fmt: skip
    for number, each in enumerate((good, *wrong)):
        (tmp_path / f"{number:02}.json").write_text(json.dumps(each))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert results.results(tmp_path) == [good]
    assert str(tmp_path) not in caplog.text


def test_the_shipped_records() -> None:
    result = results.results()
    assert {each["table"] for each in result} <= set(TABLES)
    assert {each["dataset"] for each in result if each["table"] == "table1"} <= set(DATASETS)
    html = page_html(result)
    assert len([verdict for verdict in verdicts(html) if verdict in ("better", "worse", "same")]) >= 4
    assert not PATH.search(html)
    assert PATH.search(page_html([record(note="Trained in /home/somebody/runs.")]))  # or it would find nothing anywhere
