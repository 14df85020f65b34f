"""The page Results says what the records say."""

import gc
import gzip
import json
import re
import weakref
from pathlib import Path

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.io.doc import patch_curdoc
from bokeh.plotting import figure
from qtcore_app import plots
from qtcore_app.pages import results

from qtcore.paper.cells import cells
from qtcore.paper.contests import EVIDENCE
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


def places(html: str) -> list[str]:
    return re.findall(r'data-figure="([^"]*)"', html)


def verdicts(html: str) -> list[str]:
    return re.findall(r'<td data-verdict="([^"]*)"', html)


def test_every_figure_of_the_paper_is_there() -> None:
    html = results.html([])
    for printed in TABLE_1.values():
        assert f"paper {printed.mean:.3f}" in html
    assert verdicts(html).count("not yet trained") == len(TABLE_1) + 10 + 2 + 12 + 1
    assert places(html) == ["table1-0", "table1-1", "frey-0"]
    assert len(results.figures([])["table1"]) == 2


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


def test_ours_and_the_paper_s_are_drawn() -> None:
    rbm, _ = results.figures([record(mean=0.15)])["table1"]
    points = {element.label: element for element in rbm}
    assert list(points) == ["QT", "PCD-BP", "PCD-Gibbs", "AdVIL-BP", "AdVIL-Gibbs"]
    marks = list(points["QT"].array().tolist())
    assert [0.15, 0, "Adult, QT: ours 0.150 ± 0.0010", 1.0] in marks
    assert [0.167, 0, "Adult, QT: paper 0.167 ± 0.0003", 0.0] in marks
    assert len(marks) == 1 + 9


def test_scores_over_the_depth_are_drawn() -> None:
    scores = {"layer": [1, 2, 60], "nce_bits": [0.5, 0.3, 0.25], "residual": [3.0, 1.0, 0.0], "samples": 7}
    one = record(scores=scores) | {"table": "depth"}
    records = [one, one | {"dataset": "dna<"}, one | {"model": "grid", "scores": scores | {"iou": [20, 50, 97]}}]
    grid, rbm = results.figures(records)["depth"]  # the grid first
    assert [(line.label, line.array().tolist()) for line in grid] == [("adult", [[1, 20], [2, 50], [60, 97]])]
    assert [line.label for line in rbm] == ["adult", "dna<"]
    html = results.html(records)
    assert places(html)[-2:] == ["depth-0", "depth-1"]
    assert "reproduce depth --evaluate-only" in html
    assert not results.figures([])["depth"]
    assert "depth-0" not in results.html([])


def test_every_place_has_its_figure() -> None:
    """Of the shipped records: those of a group share their axis, and all are one document that a browser can read."""
    packed, identities = results.drawn()
    document = Document.from_json(json.loads(gzip.decompress(packed)))
    assert sorted(identities) == sorted(places(results.html(results.results())))
    figures = {name: document.get_model_by_id(identity) for name, identity in identities.items()}
    assert {type(each) for each in figures.values()} == {figure}
    depths = [each.x_range for name, each in figures.items() if name.startswith("depth")]  # type: ignore[union-attr]
    assert len(depths) == len(results.figures(results.results())["depth"])
    assert len({each.id for each in depths}) == 1
    both = [each for name, each in figures.items() if name.startswith("table1")]
    for each in both:
        drawn = np.concatenate([line.data_source.data["figure"] for line in each.renderers])  # type: ignore[union-attr]
        assert each.x_range.start < drawn.min() < drawn.max() < each.x_range.end  # type: ignore[union-attr]


def test_drawing_takes_nobody_s_document() -> None:
    """HoloViews takes the current one, unless it is given another: a user who was served meanwhile was kept in memory."""
    somebody = Document()
    theme = somebody.theme
    with patch_curdoc(somebody):
        plots.draw({"a": [plots.curves([("x", [1, 2], [3.0, 4.0])], "layer", "bits")]})
    assert not somebody.session_destroyed_callbacks
    assert not somebody.roots
    assert somebody.theme is theme
    gone = weakref.ref(somebody)
    del somebody
    gc.collect()
    assert gone() is None


def test_the_comparison_has_a_curve_for_each_dataset_and_its_own_command() -> None:
    scores = {f"evidence-{percent}": {"mean": 0.1 + 1 / percent, "error": 0.01, "samples": 5} for percent in EVIDENCE}
    more = {"table": "compare", "scores": scores, "command": "python -m qtcore.compare --methods <mlp>", "parameters": 1234}
    html = results.html([record(**more), record("dna", model="none", method="mlp", **more), record("web", **more)])
    assert places(html)[-3:] == ["compare-0", "compare-1", "compare-2"]
    assert "0.1200 ± 0.0100" in html
    assert "1,234" in html
    assert "<code>python -m qtcore.compare --methods &lt;mlp&gt;</code>" in html
    assert "no groups" in html
    assert results.html([]).count("same rows and masks") == 0


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
