"""The page Results says what the records say."""

import json
import re
from pathlib import Path

import pytest
from qtcore_app.pages import results

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


def verdicts(html: str) -> list[str]:
    return re.findall(r'<td data-verdict="([^"]*)"', html)


def test_every_figure_of_the_paper_is_there() -> None:
    html = results.html([])
    for printed in TABLE_1.values():
        assert f"paper {printed.mean:.3f}" in html
    assert verdicts(html).count("not yet trained") == len(TABLE_1) + 10 + 2 + 12 + 1
    assert html.count("<svg") == 3


def test_verdicts() -> None:
    records = [record(mean=0.15), record("dna", 0.9), record("web", 0.133), record("rcv1", 0.4, "stand-in")]
    result = results.html(records)
    names = [verdict for verdict in verdicts(result) if verdict != "not yet trained"]
    assert sorted(names) == ["better", "not comparable", "same", "worse"]
    assert "-0.017 ✓ better" in result
    assert "<em>✓ better</em> 1" in result  # the legend counts


def test_how_a_figure_was_made() -> None:
    training = {"settings": {"epochs": 600.0, "steps": None, "rates": [0.1, 0.01]}, "step": 12, "minutes": 2.5}
    html = results.html([record(checkpoint="rbm/adult", training=training, note="Somewhere."), record(seed=2, mean=0.2)])
    assert "python -m qtcore.reproduce table1 --methods qt --datasets adult --seeds 3 --out again" in html
    assert "epochs 600, rates 0.1 / 0.01; kept: step 12, best on the validation rows; 2.5 minutes" in html
    assert "phase" not in html
    longer = training | {"start": {"settings": {"epochs": 5.0}, "step": 3}}
    both_phases = results.html([record(checkpoint="rbm/adult", training=longer)])
    assert "phase 1: epochs 5; kept: step 3" in both_phases
    assert "<br>phase 2: epochs 600" in both_phases
    assert "How each of these was made (1)" in html
    assert "Scored on 7 samples.<br>" in html
    both = {"gibbs": {"mean": 0.3, "error": 0.1, "samples": 5}, "bp": {"mean": 0.2, "error": 0.1, "samples": 7}}
    assert "Scored on 7 samples, by Gibbs on 5.<br>" in results.html([record(method="pcd", scores=both)])
    assert "(2 runs)" in html
    assert cells("table1", ("qt",), ("adult",), 3)  # the command has something to do


def test_scores_over_the_depth_are_drawn() -> None:
    scores = {"layer": [1, 2, 60], "nce_bits": [0.5, 0.3, 0.25], "residual": [3.0, 1.0, 0.0], "samples": 7}
    one = record(scores=scores) | {"table": "depth"}
    html = results.html([one, one | {"dataset": "dna<"}, one | {"model": "grid", "scores": scores | {"iou": [20, 50, 97]}}])
    drawn = re.findall(r'<svg class="dots curves".*?</svg>', html, re.S)
    assert [svg.count("<polyline") for svg in drawn] == [1, 2]  # the grid first
    assert "97 after 60" in drawn[0]
    assert "dna&lt;" in drawn[1]
    heights = [float(point.split(",")[1]) for point in re.findall(r'<polyline points="([^"]*)"', drawn[0])[0].split()]
    assert heights == sorted(heights, reverse=True)  # a larger IoU is further up
    assert "reproduce depth --evaluate-only" in html
    assert "curves" not in results.html([])


def test_calibration_is_a_row_for_each_model() -> None:
    scores = {"claimed": [0.05, 0.95], "true": [0.1, 0.9], "count": [30, 10], "samples": 7}
    html = results.html([record(table="calibration", scores=scores)])
    assert "0.0500" in html
    assert "0.05 → 0.10" in html
    assert "reproduce calibration --evaluate-only" in html
    assert "reproduce calibration --evaluate-only" not in results.html([])


def test_what_a_file_says_is_escaped() -> None:
    assert "<script" not in results.html([record(note="<script>alert(1)</script>", checkpoint="<script>")])


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
    html = results.html(result)
    assert len([verdict for verdict in verdicts(html) if verdict in ("better", "worse", "same")]) >= 4
    assert not PATH.search(html)
    assert PATH.search(results.html([record(note="Trained in /home/somebody/runs.")]))  # or it would find nothing anywhere


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.8), (1.46, 2.05), (0.2, 0.2), (16.0, 97.0)])
def test_axes_hold_what_they_show(low: float, high: float) -> None:
    ticks = results.axis(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8


def test_the_query_matrix_and_the_engines() -> None:
    asked = {"table": "queries", "scores": {"one-target": {"mean": 1.5, "error": 0.01, "samples": 7}}}
    engine = {"table": "engines", "model": "rbm-mf", "scores": {"mf-5": {"mean": 0.25, "error": 0.001, "samples": 7}}}
    html = results.html([record(**asked), record(**engine)])
    for name in ("queries", "engines"):
        assert TABLES[name][0] in html
        assert f"python -m qtcore.reproduce {name} --evaluate-only" in html
        assert TABLES[name][0] not in results.html([record()])
    assert "1.500 ± 0.0100" in html
    assert "0.250 ± 0.0010" in html
