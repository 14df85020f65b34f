"""The tables: the paper's figures, ours beside them, and what is said of the difference."""

import math
from pathlib import Path

import pytest
from PIL import Image

from qtcore.paper import plots, tables
from qtcore.paper.printed import DATASETS, FREY, GRID, TABLE_1, Printed


def record(method: str, model: str, dataset: str, seed: int = 0, source: str = "exact", **scores: float) -> tables.Record:
    table = "frey" if dataset == "frey" else "grid" if dataset.startswith("border") else "table1"
    parts = {name: {"mean": mean, "error": 0.004, "samples": 10} for name, mean in scores.items()}
    return {
        "table": table, "method": method, "model": model, "dataset": dataset, "seed": seed, "source": source, "scores": parts
    }  # fmt: skip


def joint(method: str, model: str, dataset: str, nll: float) -> tables.Record:
    scores = record(method, model, dataset, nll=nll, mixture=nll - 0.1, spread=0.2, inconsistency=0.03)
    return scores | {"table": "joint"}


def depths(model: str, dataset: str, layers: list[int], nce: list[float], **more: list[float]) -> tables.Record:
    return record("qt", model, dataset) | {"table": "depth", "scores": {"layer": layers, "nce_bits": nce} | more}


def test_the_papers_own_claims_hold_in_what_we_typed() -> None:
    """QT is best on all sets but DNA for the RBM, and on 8 of 9 for the DBM (main text)."""
    for model, rivals in (("rbm", ("advil-bp", "advil-gibbs", "pcd-bp", "pcd-gibbs")), ("dbm", ("advil-bp", "advil-gibbs"))):
        best = [d for d in DATASETS if all(TABLE_1["qt", model, d].mean < TABLE_1[r, model, d].mean for r in rivals)]
        assert set(DATASETS) - set(best) == {"dna"}
    assert FREY["qt", "uniform"].mean < FREY["advil-bp", "uniform"].mean < FREY["image-gaussian", "uniform"].mean
    assert GRID["qt", "iou"].mean > GRID["random", "iou"].mean
    assert len(TABLE_1) == 8 * len(DATASETS)


def test_mean_and_error_over_runs() -> None:
    runs = [record("qt", "rbm", "adult", seed, bp=value) for seed, value in enumerate((0.16, 0.18, 0.17))]
    mean, error, count = tables.mean_over_seeds(runs, "bp") or (0, 0, 0)
    assert (mean, count) == (pytest.approx(0.17), 3)
    assert error == pytest.approx(0.01 / math.sqrt(3))
    assert tables.mean_over_seeds(runs[:1], "bp") == (0.16, 0.004, 1)
    assert tables.mean_over_seeds(runs, "gibbs") is None


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(0.16, "-0.007 better"), (0.1674, "+0.000 same"), (0.168, "+0.001 same"), (0.166, "-0.001 same"), (0.17, "+0.003 worse")],
)
def test_a_difference_is_called_by_its_name(ours: float, verdict: str) -> None:
    """One within the errors of both figures is none."""
    assert verdict in str(tables.comparison((ours, 0.0009, 1), Printed(0.167, 0.0006)))
    assert ("same" in verdict) == (abs(ours - 0.167) < math.hypot(0.0009, 0.0006))


def test_errors_are_shown_with_one_more_decimal() -> None:
    """The supplement's standard deviations of the mean beside the paper's figures, our own beside ours."""
    assert str(tables.comparison((0.16, 0.0012, 3), Printed(0.167, 3.26e-4))) == (
        "**0.160** ± 0.0012 (3 runs); paper 0.167 ± 0.0003, -0.007 better"
    )
    assert "paper 0.778 ± 2e-05," in str(tables.comparison((0.776, 0.0024, 1), Printed(0.778, 2.22e-5)))
    assert str(tables.comparison(None, Printed(0.5, 0.01))) == "not yet trained (paper 0.500 ± 0.0100)"
    text = tables.markdown("table1", [])
    assert all(f"{printed.mean:.3f} ± " in text for printed in TABLE_1.values())
    assert "standard deviation of the mean, from its supplement" in text


def compared(method: str, dataset: str, bits: float, valid: float = 0.5) -> tables.Record:
    """Of the comparison; bits at half of the evidence, one more with less and half with more."""
    ours = method in ("rbm", "dbm", "groups", "lateral", "rbm-large")
    scores = {f"evidence-{percent}": bits + 1 for percent in (2, 10, 25)} | {"evidence-50": bits}
    scores |= {f"evidence-{percent}": bits / 2 for percent in (75, 90, 98)}
    one = record("qt" if ours else method, method if ours else "none", dataset, **scores)
    return one | {"table": "compare", "training": {"valid_nce_bits": valid, "minutes": 2.34}}


def test_the_comparison_takes_our_best_by_validation_and_the_others_best_by_test() -> None:
    """The DBM would be better on the test rows, but that is not for us to know."""
    records = [compared("rbm", "dna", 0.7), compared("dbm", "dna", 0.6, valid=0.51), compared("mlp", "dna", 0.69, valid=0.1)]
    records.append(compared("circuit", "dna", 0.68, valid=0.9) | {"parameters": 12345})
    records += [compared("rbm", "web", 0.1301), compared("mlp", "web", 0.1304), compared("rbm", "nips", 0.7)]
    text = tables.markdown("compare", records)
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}
    assert lines["DNA"] == "| DNA | QT, the paper's RBM: 0.7000 | probabilistic circuit: 0.6800 | +0.0200 worse, so far |"
    assert lines["Web"].endswith("| -0.0003 same, so far |")
    assert lines["NIPS"] == "| NIPS | QT, the paper's RBM: 0.7000 | not yet done |  |"
    every = [compared(method, "adult", 0.2) for method in ("mlp", "imputer", "circuit", "frequencies")]
    whole = tables.markdown("compare", [compared("groups", "adult", 0.15), *every])
    assert "| Adult | QT, one-of-k groups: 0.1500 | masked network: 0.2000 | -0.0500 better |" in whole
    by_method = [line for line in text.splitlines() if line.startswith("| probabilistic circuit |")]
    assert "0.6800 ± 0.0040" in by_method[0]
    assert "12,345" in by_method[1]
    assert "| 2.3 |" in by_method[2]
    assert by_method[3] == "| probabilistic circuit | 1.680 | 1.680 | 1.680 | 0.680 | 0.340 | 0.340 | 0.340 |"
    groups = next(line for line in text.splitlines() if line.startswith("| QT, one-of-k groups |"))
    assert groups.count("no groups") == 4  # digits, NIPS, OCR, Web
    assert "same rows and masks" in text


@pytest.mark.parametrize("name", tables.TABLES)
def test_plots(name: str, tmp_path: Path) -> None:
    """A plot of each group of tables, also when nothing was computed yet; what has no axis in common has panels of its own."""
    assert [table.title for table in tables.panels(name, [])] == {
        "table1": ["RBM: NCE in bits", "DBM: NCE in bits"],
        "frey": ["NCE in bits"],
        "grid": ["IoU % (higher is better)", "NCE in nats (lower is better)"],
        "depth": [],
        "calibration": [],
        "joint": [],
        "questions": [],
        "compare": [],
        "queries": [],
        "engines": [],
    }[name]
    ours = [record("qt", "rbm", "adult", bp=0.1), record("qt", "grbm", "frey", uniform=1.5, patches=1.4)]
    ours.append(record("qt", "grid", "border-fixed", iou=97.0, nce=0.03, iou_framed=96.0, nce_framed=0.04))
    ours.append(depths("grid", "border", [1, 2, 15], [0.5, 0.2, 0.1], iou=[20.0, 60.5, 97.25]))
    ours.append(joint("qt", "rbm", "adult", 13.9))
    asked = {"questions": [0, 1, 2], "chosen": [40.0, 50.0, 70.0], "random": [40.0, 40.0, 41.0], "samples": 300}
    ours.append(record("qt", "rbm", "adult") | {"table": "questions", "scores": asked})
    ours.append(compared("groups", "dna", 0.6) | {"parameters": 7})
    claims = {"claimed": [0.05, 0.95], "true": [0.1, 0.9], "count": [30, 10], "samples": 7}
    ours.append(record("qt", "rbm", "adult") | {"table": "calibration", "scores": claims})
    figure = {"mean": 0.3, "error": 0.01, "samples": 9}
    ours.append(record("qt", "rbm", "adult") | {"table": "queries", "scores": {"uniform:0.5": figure}})
    ours.append(record("qt", "rbm-mf", "adult") | {"table": "engines", "scores": {"mf-5": figure}})
    pictures = []
    for records in ([], ours):
        plots.plot(name, records, tmp_path / "plot.png")
        with Image.open(tmp_path / "plot.png") as picture:
            pictures.append(picture.tobytes())
    assert pictures[0] != pictures[1]


def test_what_is_missing_or_not_comparable_says_so() -> None:
    assert "not yet trained" in str(tables.comparison(None, Printed(0.1)))
    text = tables.markdown("table1", [record("qt", "rbm", "rcv1", source="stand-in", bp=0.4)])
    line = next(line for line in text.splitlines() if line.startswith("| RCV1"))
    assert "**0.400**" in line
    assert "not comparable" in line.split("|")[2]
    assert "better" not in line.split("|")[2]


def test_bp_and_gibbs_rows_of_one_training_are_kept_apart() -> None:
    text = tables.markdown("table1", [record("pcd", "rbm", "adult", bp=0.21, gibbs=0.33)])
    cells = next(line for line in text.splitlines() if line.startswith("| Adult")).split("|")
    assert "0.210" in cells[3]
    assert "0.330" in cells[4]
    assert "not yet trained" in cells[2]


def test_more_iou_is_better_and_less_nce_is() -> None:
    good = record("qt", "grid", "border-authors", iou_framed=97.5, nce_framed=0.03, iou=97.0, nce=0.04)
    line = next(line for line in tables.markdown("grid", [good]).splitlines() if "in the authors' code" in line)
    assert "+0.53 better" in line
    assert "-0.0098 better" in line
    bad = record("qt", "grid", "border-authors", iou_framed=90.0, nce_framed=0.05, iou=90.0, nce=0.05)
    line = next(line for line in tables.markdown("grid", [bad]).splitlines() if "in the authors' code" in line)
    assert "-6.97 worse" in line
    assert "worse" in line.split("|")[3]


def test_a_grid_over_depths_has_rows_of_its_own() -> None:
    ours = record("qt", "grid", "border", iou=95.0, nce=0.05, iou_deep=96.5, nce_deep=0.04)
    text = tables.markdown("grid", [ours])
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| QT")}
    assert "**95.00**" in lines["QT over depths, own evidence in the belief, after 15 layers"]
    assert "**96.50**" in lines["QT over depths, own evidence in the belief, after 60 layers"]
    assert "not yet trained" in lines["QT, own evidence in the belief"]


def test_joint_probabilities_stand_beside_published_ones() -> None:
    ours = [joint("qt", "rbm", "adult", 14.0), joint("qt", "rbm", "adult-cardinality", 13.5), joint("pcd", "rbm", "dna", 90.0)]
    assert tables.joint_tables([]) == []
    mixture, one, spread, inconsistency = tables.joint_tables(ours)
    rows = {row.title: row for row in mixture.rows}
    adult = dict(zip(mixture.columns, rows["Adult"].cells, strict=True))
    assert adult["QT"] == "13.90 ± 0.00"
    assert adult["QT, any number observed"] == "13.40 ± 0.00"
    assert adult["PCD"] == adult["untrained"] == "not yet trained"
    assert adult["NADE, EoNADE, MADE"] == "13.2"
    assert rows["Adult"].records == ours[:2]
    assert rows["DNA"].cells[-1] == "79.7–84.8"
    assert one.rows[0].cells[0] == "14.00 ± 0.00"
    assert (spread.rows[0].cells[0], inconsistency.rows[0].cells[0]) == ("0.200 ± 0.004", "0.030 ± 0.004")
    assert "two random orders" in tables.markdown("joint", ours)


def test_scores_over_the_depth() -> None:
    records = [depths("rbm", "adult", [1, 5, 60], [0.5, 0.2, 0.125])]
    records.append(depths("grid", "border", [1, 2], [0.5, 0.2], iou=[20.0, 60.52]))
    text = tables.markdown("depth", records)
    assert text.index("Grid MRF: IoU in %") < text.index("RBM: NCE in bits")
    (grid,) = (line for line in text.splitlines() if line.startswith("| border"))
    (rbm,) = (line for line in text.splitlines() if line.startswith("| adult"))
    assert [cell.strip() for cell in grid.split("|")[2:5]] == ["20.0", "60.5", ""]  # layers 1, 2 and 3
    assert [cell.strip() for cell in rbm.split("|")[2:6]] == ["0.500", "", "", "0.200"]
    assert rbm.split("|")[-2].strip() == "0.125"
    assert tables.depth_curves([record("qt", "rbm", "adult") | {"table": "depth"}]) == {}  # an empty record


def test_frey_rows() -> None:
    result = tables.markdown(
        "frey", [record("advil", "grbm", "frey", **{"uniform": 1.55, "uniform-gibbs": 1.6, "patches": 1.5})]
    )
    bp, gibbs = (next(line for line in result.splitlines() if line.startswith(f"| AdVIL-{name}")) for name in ("BP", "Gibbs"))
    assert "1.550" in bp
    assert "1.600" in gibbs
    assert "not sampled" in gibbs.split("|")[3]
    ours = [record("qt", "grbm", "frey", uniform=1.47, patches=1.46)]
    ours.append(record("qt", "grbm", "frey-sigma", uniform=0.92, patches=0.9) | {"table": "frey"})
    lines = tables.markdown("frey", ours).splitlines()
    titles = ("QT", "QT, a learned σ for each pixel")
    fixed, learned = (next(line for line in lines if line.startswith(f"| {title} |")) for title in titles)
    assert ("1.470" in fixed, "1.503" in fixed) == (True, True)
    assert ("0.920" in learned, "1.503" in learned) == (True, False)


def test_summary_has_the_query_trained_figures() -> None:
    records = [record("qt", "rbm", "adult", bp=0.160), record("pcd", "rbm", "adult", bp=0.001)]
    lines = tables.summary(records).splitlines()
    assert "| RBM, Adult: NCE in bits | 0.160 | 0.167 | better |" in lines
    assert "| DBM, Adult: NCE in bits | – | 0.169 | not yet trained |" in lines
    assert len(lines) == 2 + 9 + 9 + 2 + 6


def test_what_was_spent_on_advil_stands_below_the_table(tmp_path: Path) -> None:
    settings = {"steps": 500, "decoder_steps": 7, "rate": 0.003, "helper_rate": 0.01}
    training = {"settings": settings, "course": [[10, 1.7], [20, 1.56]]}
    ours = record("advil", "grbm", "frey", uniform=1.55) | {"training": training}
    below = tables.markdown("frey", [ours]).splitlines()[-2:]
    assert below[0].startswith("AdVIL here: 500 model steps with 7 decoder steps each, rates 0.003 and 0.01 (the paper's: ")
    assert "advil.png" in below[1]
    assert tables.histories([ours], "frey") == [("GRBM, Frey", [[10, 1.7], [20, 1.56]], 1.542)]
    plots.plot_histories([ours], tmp_path / "advil.png")
    with Image.open(tmp_path / "advil.png") as picture:
        assert picture.size == (770, 440)
    assert "AdVIL here" not in tables.markdown("frey", [record("qt", "grbm", "frey", uniform=1.5)])
