"""The reproduction command: its cells, its sweep over workers, and what it leaves behind."""

import functools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import qtcore
from qtcore import DBM, RBM, reproduce
from qtcore.data import Dataset
from qtcore.errors import DataError, InputError
from qtcore.paper import cells, reproduction
from qtcore.paper.beyond import new_models
from qtcore.paper.calibrations import calibration_error
from qtcore.paper.cells import Cell
from qtcore.paper.experiments import EXPERIMENTS
from qtcore.paper.printed import PUBLISHED
from qtcore.paper.records import is_record
from qtcore.query import Query

from .commands import Command, command  # noqa: F401


def process(*arguments: str, cwd: Path) -> tuple[str, str]:
    """What the command prints, and what it reports meanwhile, in a process of its own."""
    line = [sys.executable, "-m", "qtcore.reproduce", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def kill(when: Path, *arguments: str, cwd: Path) -> None:
    """Start the command, and kill it as soon as this file is there."""
    line = [sys.executable, "-m", "qtcore.reproduce", *arguments]
    with subprocess.Popen(line, cwd=cwd, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL) as begun:
        while not when.exists():
            assert begun.poll() is None
            time.sleep(0.02)
        begun.kill()


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    """The same command in this process: quicker, since torch is there already."""
    monkeypatch.chdir(tmp_path)
    return functools.partial(command, reproduce.main)


def test_the_cells_are_those_of_the_paper() -> None:
    everything = cells.cells("all", (), (), 5)
    qt = [cell for cell in everything if cell.method == "qt"]
    assert len({(cell.model, cell.dataset) for cell in qt if cell.table == "table1"}) == 18
    assert {cell.dataset for cell in qt if cell.table == "grid"} == {"border", "border-fixed", "border-authors"}
    assert len({cell.key for cell in everything}) == len(everything)
    others = ("depth", "calibration", "joint", "questions", "queries")
    trained = [cell.name for cell in everything if cell.trained and cell.table not in others]
    assert len(set(trained)) == len(trained)
    joint = [cell.name for cell in everything if cell.table == "joint"]
    assert len(joint) == len(set(joint)) == 6 * len(PUBLISHED)
    for table in ("depth", "calibration"):
        trained = [cell.name for cell in everything if cell.table == table and cell.method == "qt"]
        assert set(trained) == EXPERIMENTS.keys() - new_models().keys()
        shipped = {name for name in qtcore.available() if "-seed" not in name} - new_models().keys()
        assert shipped <= {cell.name for cell in everything if cell.table == table}
    assert {cell.name for cell in everything if cell.table in ("queries", "engines")} >= new_models().keys()
    assert [cell.name for cell in cells.cells("table1", ("qt",), ("adult",), 2)] == [
        *("rbm/adult", "dbm/adult", "rbm/adult-seed1", "dbm/adult-seed1")
    ]


def test_names_and_numbers_that_do_not_exist_are_refused(run: Command) -> None:
    for words, said in {
        ("table1", "--datasets", "adult", "mushroom"): "no dataset named 'mushroom' in table1; did you mean mushrooms?",
        ("all", "--methods", "pdc"): "no method named 'pdc' in all; did you mean pcd?",
        ("frey", "--models", "rbm"): "no model named 'rbm' in frey; did you mean grbm?",
        ("all", "--methods", "pcd", "--datasets", "frey"): "no cell has such a method, such a model and such a dataset at once",
        ("all", "--update", "--budget", "quick"): "leave --out and --budget quick out.",
        ("table1", "--seeds", "0"): "seeds",
    }.items():
        assert said in run(*words).sentence
    result = run("--help")
    assert result.code == 0
    assert "--evaluate-only" in result.out


@pytest.mark.slow
def test_trains_what_is_missing_once_and_scores_it(run: Command, tmp_path: Path) -> None:
    """The whole chain on data that need no download, after a call that was killed in the middle of its first training; another
    call computes nothing and says the same."""
    arguments = ("table1", "--datasets", "digits", "--methods", "qt", "--seeds", "1", "--budget", "quick")
    kill(tmp_path / "quick" / "runs" / "table1-qt-rbm-digits-0" / "log.jsonl", *arguments, cwd=tmp_path)
    assert not list((tmp_path / "quick").glob("results/*"))  # no record of what was not finished
    first, reported = process(*arguments, cwd=tmp_path)
    assert not list(tmp_path.rglob("*.tmp"))
    assert reported.startswith("2 to train: rbm/digits, dbm/digits\n")
    assert "trained rbm/digits (" in reported
    assert "scored rbm/digits, table1 (1 of 2): " in reported
    record_file = tmp_path / "quick" / "results" / "table1-qt-rbm-digits-0.json"
    record = json.loads(record_file.read_text())
    assert 0.4 < record["scores"]["bp"]["mean"] < 0.8
    assert {"seed", "versions", "source", "training", "checkpoint"} <= record.keys()
    assert record["training"]["quick"]
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "quick" / "checkpoints").rglob("*.safetensors")}
    assert len(files) == 2
    again = run(*arguments)
    assert again.code == 0, again.err
    assert (again.out, again.err) == (first, "")
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert "quick run" in again.out
    assert (tmp_path / "quick" / "results" / "table1.png").stat().st_size > 1000


def test_evaluate_only_scores_what_is_there_and_trains_nothing(run: Command, tmp_path: Path) -> None:
    model = RBM(64, 3)
    model.provenance.dataset = "digits"
    model.save(tmp_path / "checkpoints" / "rbm" / "digits.safetensors")
    only = ("--methods", "qt", "--models", "rbm", "--datasets", "digits", "--seeds", "1")
    done = run("table1", *only, "--evaluate-only", "--out", tmp_path)
    assert done.code == 0, done.err
    (line,) = (line for line in done.out.splitlines() if line.startswith("| Digits"))
    assert "**1.0" in line
    assert "**0.5" in line  # PCD, from its shipped record
    assert done.out.count("\n| ") == 2  # with the columns' names
    assert done.err.startswith("scored rbm/digits, table1 (1 of 1): ")
    assert [path.name for path in (tmp_path / "checkpoints").rglob("*.safetensors")] == ["digits.safetensors"]


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The project's assets: two models with records, and the record of a third, as in a wheel."""
    assets = tmp_path / "assets"
    for kind, model in (("rbm", RBM(64, 3)), ("dbm", DBM(64, 3, 3))):
        model.save(assets / "checkpoints" / kind / "digits.safetensors")
    chosen = cells.cells("table1", ("qt",), ("digits",), 2)
    reproduction.score_all(chosen, [assets])
    record = json.loads(cells.record_path(assets, chosen[0]).read_text())
    cells.record_path(assets, chosen[2]).write_text(json.dumps(record | {"seed": 1}))
    monkeypatch.setattr(reproduce, "checkpoint_folder", lambda: assets / "checkpoints")
    return assets


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_shipped_is_used_and_stays_as_it_is(run: Command, shipped: Path, tmp_path: Path) -> None:
    before = contents(shipped)
    words = ("table1", "--datasets", "digits", "--methods", "qt", "--seeds", "2")
    assert set(before) == {
        *(f"checkpoints/{kind}/digits.safetensors" for kind in ("rbm", "dbm")),
        *(f"results/table1-qt-{name}.json" for name in ("rbm-digits-0", "dbm-digits-0", "rbm-digits-1")),
    }
    assert [cell.name for cell in reproduction.missing(cells.cells("table1", ("qt",), ("digits",), 2), [shipped])] == [
        "dbm/digits-seed1"  # of rbm/digits-seed1 there is no model, but a record
    ]
    only = (*words, "--models", "rbm", "--evaluate-only")
    done = run(*only)
    assert done.code == 0, done.err
    assert "## DBM" not in done.out
    assert "(2 runs)" in done.out
    written = contents(tmp_path / "reproduced")
    assert set(written) == {f"results/{name}" for name in ("table1-qt-rbm-digits-0.json", "table1.md", "table1.png")}
    assert run(*only, "--out", tmp_path / "mine").out == done.out
    assert contents(tmp_path / "mine").keys() == written.keys()
    assert contents(shipped) == before


def test_an_update_writes_whole_tables_and_nothing_that_has_not_changed(run: Command, shipped: Path) -> None:
    before = contents(shipped)
    words = ("table1", "--datasets", "digits", "--models", "rbm", "--seeds", "2", "--evaluate-only", "--update")
    assert run(*words).code == 0
    after = contents(shipped)
    assert after.keys() - before.keys() == {f"results/{name}" for name in ("table1.md", "table1.png", "summary.md")}
    assert before.items() <= after.items()  # the record differs in its minutes alone
    text = after["results/table1.md"].decode()
    assert text.count("| Digits | **") == 2
    assert "| Adult | not yet trained" in text
    picture = shipped / "results" / "table1.png"
    drawn = picture.stat().st_mtime_ns
    assert run(*words).code == 0
    assert picture.stat().st_mtime_ns == drawn
    RBM(64, 4).save(shipped / "checkpoints" / "rbm" / "digits.safetensors")
    assert run(*words).code == 0
    assert picture.stat().st_mtime_ns > drawn
    assert contents(shipped)["results/table1-qt-rbm-digits-0.json"] != after["results/table1-qt-rbm-digits-0.json"]


def test_where_nothing_is_trained_it_says_so(run: Command, shipped: Path) -> None:
    done = run("table1", "--datasets", "adult", "--methods", "qt", "--evaluate-only")
    assert (done.code, done.out) == (1, "")
    assert done.err == "not done: none of these cells is trained; without --evaluate-only they are.\n"


@pytest.mark.parametrize("module", ["matplotlib", "distributed"])
def test_without_an_extra_nothing_is_begun(
    module: str, run: Command, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    said = run("table1", "--datasets", "digits", "--methods", "qt", "--seeds", "2").sentence
    assert said == f"this needs {module}, which is not installed; pip install 'qtcore[bench]' brings it."
    assert contents(tmp_path) == before


def test_joint_scores_of_a_tree_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """An RBM with one hidden unit is a tree: every order says the same, and that is the truth."""
    rows = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 4)[torch.randperm(16)]
    about: dict[str, Any] = {"name": "nips", "kind": "binary", "source": "stand-in", "note": ""}
    dataset = Dataset(**about, train=rows, valid=rows, test=rows)
    model = RBM(4, 1, dtype=torch.float64)
    monkeypatch.setattr(cells.data, "load", lambda _: dataset)
    monkeypatch.setattr(cells, "FEWER_ROWS", {"nips": 7})
    scores = cells.score_cell(Cell("joint", "qt", "rbm", "nips"), model, False, 0)["scores"]
    chosen = rows[[0, 2, 4, 6, 9, 11, 13]]  # 7 of 16, at equal distances
    nothing = Query(chosen, torch.zeros(7, 4, dtype=torch.bool))
    expected = -model.log_prob(nothing, engine=qtcore.Exact()).mean.mean()
    assert scores["nll"] == {"mean": pytest.approx(float(expected)), "error": scores["nll"]["error"], "samples": 7}
    assert scores["mixture"]["mean"] == pytest.approx(float(expected))
    assert scores["spread"]["mean"] == pytest.approx(0, abs=1e-12)
    assert scores["inconsistency"]["mean"] == pytest.approx(0, abs=1e-12)
    untrained = cells.score_cell(Cell("joint", "untrained", "rbm", "nips"), None, False, 0)
    assert untrained["scores"]["nll"]["mean"] > 0
    assert "checkpoint" not in untrained


def test_questions_about_a_copy_are_answered_by_the_first_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Property a has two options, and b says which; c says nothing. A chosen question settles it, a random one does not."""
    rows = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 0], [0, 0, 1, 1]])
    names = ("odor good", "odor bad", "b", "c")
    about: dict[str, Any] = {"name": "mushrooms", "kind": "binary", "source": "exact", "note": "", "variable_names": names}
    dataset = Dataset(**about, train=rows, valid=rows, test=rows.repeat(20, 1))
    model = RBM(4, 1, dtype=torch.float64)
    model.W.data[:] = torch.tensor([4.0, -4.0, 4.0, 0.0])
    monkeypatch.setattr(cells.data, "load", lambda _: dataset)
    monkeypatch.setattr(cells, "QUESTIONS", 2)
    record = cells.score_cell(Cell("questions", "qt", "rbm", "mushrooms"), model, False, 0)
    scores = record["scores"]
    assert (scores["questions"], scores["samples"]) == ([0, 1, 2], 80)
    assert scores["chosen"] == [50, 100, 100]
    assert 60 < scores["random"][1] < 90
    assert scores["random"][2] == 100
    assert is_record(json.loads(json.dumps(record)))
    damaged = record | {"scores": {**scores, "random": [1.0]}}
    assert not is_record(damaged)
    (text,) = reproduction.write_tables([record], [], "questions", tmp_path)
    assert "## Mushr, odor: the most probable option is the true one, in %" in text
    assert "| QT: chosen | 50.0 | 100.0 | 100.0 |" in text
    assert (tmp_path / "results" / "questions.png").stat().st_size > 1000


def test_the_calibration_of_a_model_that_claims_three_quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without edges every marginal is σ(c_v), whatever is observed: of ones alone it is wrong by 0.25."""
    ones, both = torch.ones(50, 4), torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]]).repeat(50, 1)
    model = RBM(4, 1, dtype=torch.float64)
    model.W.data.zero_()
    model.c_v.data.fill_(math.log(3.0))
    for rows, so in ((ones, 1.0), (both, 0.5)):
        dataset = Dataset(name="adult", kind="binary", source="exact", note="", train=rows, valid=rows, test=rows)
        monkeypatch.setattr(cells.data, "load", lambda _, made=dataset: made)
        record = json.loads(json.dumps(cells.score_cell(Cell("calibration", "qt", "rbm", "adult"), model, False, 0)))
        assert is_record(record)
        assert record["scores"]["claimed"] == [0.75]
        assert record["scores"]["true"] == [pytest.approx(so, abs=0.1)]  # of both, the queries draw a few more of one
        assert calibration_error(record) == pytest.approx(abs(0.75 - record["scores"]["true"][0]))
    assert not is_record(record | {"scores": {"claimed": [0.75], "true": [0.5]}})
    (text,) = reproduction.write_tables([record], [], "calibration", tmp_path)
    tenths = [""] * 10
    tenths[7] = f"0.75 → {record['scores']['true'][0]:.2f}"
    assert f"| adult | {calibration_error(record):.4f} | {' | '.join(tenths)} |" in text
    assert (tmp_path / "results" / "calibration.png").stat().st_size > 1000


def test_without_the_data_what_was_computed_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("table1", "qt", "rbm", "digits", 0)
    RBM(64, 3).save(cells.checkpoint_path(tmp_path, cell))
    before, problems = reproduction.score_all([cell], [tmp_path], again=True)
    assert (len(before), problems) == (1, [])

    def missing(*_: Any) -> None:
        raise DataError("digits could not be fetched.")

    monkeypatch.setattr(reproduction, "score_cell", missing)
    after = reproduction.score_all([cell], [tmp_path], again=True)
    assert after == (json.loads(json.dumps(before)), ["digits could not be fetched."])
    assert reproduction.score_all([Cell("table1", "qt", "dbm", "digits", 0)], [tmp_path], again=True) == ([], [])


@pytest.mark.parametrize("damaged", ["{", "[]", "{}", '{"table": "table1", "scores": {}}'])
def test_a_damaged_file_is_named_and_costs_only_its_own_cell(damaged: str, run: Command, tmp_path: Path) -> None:
    for kind, model in (("rbm", RBM(64, 3)), ("dbm", DBM(64, 3, 3))):
        model.save(cells.checkpoint_path(tmp_path, Cell("table1", "qt", kind, "digits", 0)))
    other = Cell("table1", "qt", "rbm", "adult", 0)
    for cell in (Cell("table1", "qt", "rbm", "digits", 0), other):
        cells.record_path(tmp_path, cell).parent.mkdir(exist_ok=True)
        cells.record_path(tmp_path, cell).write_text(damaged)
    arguments = ("table1", "--datasets", "digits", "--methods", "qt", "--seeds", "1", "--evaluate-only", "--out", tmp_path)
    done = run(*arguments)
    assert done.code == 1
    for cell in (Cell("table1", "qt", "rbm", "digits", 0), other):
        assert f"not done: {cells.record_path(tmp_path, cell)} is damaged" in done.err
    assert done.out.count("| Digits | **") == 1  # of the DBM
    cells.record_path(tmp_path, other).unlink()
    cells.record_path(tmp_path, Cell("table1", "qt", "rbm", "digits", 0)).unlink()
    cells.checkpoint_path(tmp_path, Cell("table1", "qt", "rbm", "digits", 0)).write_text("junk")
    done = run(*arguments)
    assert done.code == 1
    assert "rbm/digits.safetensors" in done.err
    assert done.out.count("| Digits | **") == 1


@pytest.mark.slow
def test_a_killed_worker_costs_only_its_own_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real scheduler and two workers. One of them dies in the middle of its cell: the cell is computed by the other, and
    no other cell is computed twice."""
    distributed = pytest.importorskip("distributed")
    log = tmp_path / "log.txt"
    flag = tmp_path / "died"
    todo = [Cell("table1", "qt", "rbm", "digits", seed) for seed in range(5)]
    written = {cell.key: str(cells.checkpoint_path(tmp_path, cell)) for cell in todo}
    monkeypatch.setattr(reproduction, "compute", _compute(str(log), str(flag), written))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        problems = reproduction.train_missing(todo, tmp_path, True, cluster.scheduler_address)
    assert problems == []
    assert flag.exists()
    assert len(list((tmp_path / "checkpoints").rglob("*.safetensors"))) == 5
    begun = [line.split()[1] for line in log.read_text().splitlines()]
    assert sorted(begun) == sorted([*(cell.key for cell in todo), todo[2].key])


def _compute(log: str, flag: str, written: dict[str, str]) -> Any:
    """A quick stand-in for the training of a cell, which kills its process at the third cell, once: as soon as what this
    process computed before has been fetched and written, or that would be lost with it."""

    def compute(cell: Cell, budget: Any, folder: str | None) -> bytes:
        import os
        import signal
        import time
        from pathlib import Path

        done = [line.split() for line in Path(log).read_text().splitlines()] if Path(log).exists() else []
        with open(log, "a") as file:
            file.write(f"{os.getpid()} {cell.key}\n")
        time.sleep(0.2)
        if cell.seed == 2 and not Path(flag).exists():
            while not all(Path(written[key]).exists() for process, key in done if process == str(os.getpid())):
                time.sleep(0.1)
            time.sleep(1)  # for the scheduler to hear that it is not needed any more
            Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return cell.key.encode()

    return compute


def test_a_cell_that_fails_is_named_and_the_others_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")

    def compute(cell: Cell, budget: Any, folder: str | None) -> bytes:
        if cell.seed == 1:
            raise InputError("this one is impossible.")
        return b"model"

    monkeypatch.setattr(reproduction, "compute", compute)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False) as cluster:
        todo = [Cell("table1", "qt", "rbm", "digits", seed) for seed in range(3)]
        problems = reproduction.train_missing(todo, tmp_path, True, cluster.scheduler_address)
    assert problems == ["rbm/digits-seed1: this one is impossible."]
    assert len(list((tmp_path / "checkpoints").rglob("*.safetensors"))) == 2
