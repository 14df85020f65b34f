"""The reproduction command: its cells, its sweep over workers, and what it leaves behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qtcore import DBM, RBM, cells, reproduce
from qtcore.cells import Cell
from qtcore.errors import DataError, InputError

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def command(*arguments: str, cwd: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "qtcore.reproduce", *arguments],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expect, done.stderr
    return done


def test_the_cells_are_those_of_the_paper() -> None:
    everything = cells.cells("all", (), (), 5)
    qt = [cell for cell in everything if cell.method == "qt"]
    assert len({(cell.model, cell.dataset) for cell in qt if cell.table == "table1"}) == 18
    assert {cell.dataset for cell in qt if cell.table == "grid"} == {"border", "border-authors"}
    assert len({cell.key for cell in everything}) == len(everything)
    assert len({cell.name for cell in everything if cell.trained}) == sum(cell.trained for cell in everything)
    assert [cell.name for cell in cells.cells("table1", ("qt",), ("adult",), 2)] == [
        *("rbm/adult", "dbm/adult", "rbm/adult-seed1", "dbm/adult-seed1")
    ]


def test_names_and_numbers_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    for words, said in {
        ("table1", "--datasets", "adult", "mushroom"): "no dataset named 'mushroom' in table1; did you mean mushrooms?",
        ("all", "--methods", "pdc"): "no method named 'pdc' in all; did you mean pcd?",
        ("all", "--methods", "pcd", "--datasets", "frey"): "no cell has both such a method and such a dataset",
    }.items():
        assert said in command(*words, cwd=tmp_path, expect=2).stderr
    assert "seeds" in command("table1", "--seeds", "0", cwd=tmp_path, expect=2).stderr
    assert "--evaluate-only" in command("--help", cwd=tmp_path).stdout


def test_trains_what_is_missing_once_and_scores_it(tmp_path: Path) -> None:
    """The whole chain on data that need no download; a second call computes nothing and says the same."""
    arguments = ("table1", "--datasets", "digits", "--methods", "qt", "--seeds", "1", "--budget", "quick")
    first = command(*arguments, cwd=tmp_path)
    assert "trained rbm/digits" in first.stdout
    record_file = tmp_path / "quick" / "results" / "table1-qt-rbm-digits-0.json"
    record = json.loads(record_file.read_text())
    assert 0.4 < record["scores"]["bp"]["mean"] < 0.8
    assert {"seed", "versions", "source", "training", "checkpoint"} <= record.keys()
    assert record["training"]["quick"]
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "quick" / "checkpoints").rglob("*.safetensors")}
    assert len(files) == 2
    again = command(*arguments, cwd=tmp_path)
    assert "trained" not in again.stdout.split("#")[0]
    assert again.stdout[again.stdout.index("#") :] == first.stdout[first.stdout.index("#") :]
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert "quick run" in again.stdout
    assert (tmp_path / "quick" / "results" / "table1.png").stat().st_size > 1000


def test_evaluate_only_scores_what_is_there_and_trains_nothing(tmp_path: Path) -> None:
    model = RBM(64, 3)
    model.notes = {"dataset": "digits"}
    model.save(tmp_path / "checkpoints" / "rbm" / "digits.safetensors")
    done = command("table1", "--datasets", "digits", "--seeds", "1", "--evaluate-only", "--out", str(tmp_path), cwd=tmp_path)
    line = next(line for line in done.stdout.splitlines() if line.startswith("| Digits"))
    assert "**1.0" in line
    assert "not yet trained" in line
    assert [path.name for path in (tmp_path / "checkpoints").rglob("*.safetensors")] == ["digits.safetensors"]


def test_without_the_data_what_was_computed_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("table1", "qt", "rbm", "digits", 0)
    RBM(64, 3).save(cells.checkpoint_path(tmp_path, cell))
    command = reproduce.Command("table1", evaluate_only=True, out=tmp_path)
    before, problems = reproduce.score_all([cell], command)
    assert (len(before), problems) == (1, [])

    def missing(*_: Any) -> None:
        raise DataError("digits could not be fetched.")

    monkeypatch.setattr(reproduce, "score_cell", missing)
    assert reproduce.score_all([cell], command) == (json.loads(json.dumps(before)), ["digits could not be fetched."])
    assert reproduce.score_all([Cell("table1", "qt", "dbm", "digits", 0)], command) == ([], [])


@pytest.mark.parametrize("damaged", ["{", "[]", "{}", '{"table": "table1", "scores": {}}'])
def test_a_damaged_file_is_named_and_costs_only_its_own_cell(damaged: str, tmp_path: Path) -> None:
    for kind, model in (("rbm", RBM(64, 3)), ("dbm", DBM(64, 3, 3))):
        model.save(cells.checkpoint_path(tmp_path, Cell("table1", "qt", kind, "digits", 0)))
    other = Cell("table1", "qt", "rbm", "adult", 0)
    for cell in (Cell("table1", "qt", "rbm", "digits", 0), other):
        cells.record_path(tmp_path, cell).parent.mkdir(exist_ok=True)
        cells.record_path(tmp_path, cell).write_text(damaged)
    arguments = ("table1", "--datasets", "digits", "--methods", "qt", "--seeds", "1", "--evaluate-only", "--out", str(tmp_path))
    done = command(*arguments, cwd=tmp_path, expect=1)
    for cell in (Cell("table1", "qt", "rbm", "digits", 0), other):
        assert f"not done: {cells.record_path(tmp_path, cell)} is damaged" in done.stderr
    assert done.stdout.count("| Digits | **") == 1  # of the DBM
    cells.record_path(tmp_path, other).unlink()
    cells.record_path(tmp_path, Cell("table1", "qt", "rbm", "digits", 0)).unlink()
    cells.checkpoint_path(tmp_path, Cell("table1", "qt", "rbm", "digits", 0)).write_text("junk")
    done = command(*arguments, cwd=tmp_path, expect=1)
    assert "rbm/digits.safetensors" in done.stderr
    assert done.stdout.count("| Digits | **") == 1


class _Assets:
    """Stands in for the command line in direct calls."""

    def __init__(self, assets: Path, scheduler: str | None = None) -> None:
        self.assets, self.scheduler, self.budget = assets, scheduler, "quick"


def test_a_killed_worker_costs_only_its_own_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real scheduler and two workers. One of them dies in the middle of its cell: the cell is computed by the other, and
    no other cell is computed twice."""
    distributed = pytest.importorskip("distributed")
    log = tmp_path / "log.txt"
    flag = tmp_path / "died"
    monkeypatch.setattr(reproduce, "compute", _compute(str(log), str(flag)))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        todo = [Cell("table1", "qt", "rbm", "digits", seed) for seed in range(5)]
        problems = reproduce.train_missing(todo, _Assets(tmp_path, cluster.scheduler_address))  # type: ignore[arg-type]
    assert problems == []
    assert flag.exists()
    assert len(list((tmp_path / "checkpoints").rglob("*.safetensors"))) == 5
    begun = log.read_text().split()
    assert sorted(begun) == sorted([*(cell.key for cell in todo), todo[2].key])


def _compute(log: str, flag: str) -> Any:
    """A quick stand-in for the training of a cell, which kills its process at the third cell, once."""

    def compute(cell: Cell, budget: Any, folder: str | None) -> bytes:
        import os
        import signal
        import time
        from pathlib import Path

        with open(log, "a") as file:
            file.write(cell.key + "\n")
        time.sleep(0.2)
        if cell.seed == 2 and not Path(flag).exists():
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

    monkeypatch.setattr(reproduce, "compute", compute)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False) as cluster:
        todo = [Cell("table1", "qt", "rbm", "digits", seed) for seed in range(3)]
        problems = reproduce.train_missing(todo, _Assets(tmp_path, cluster.scheduler_address))  # type: ignore[arg-type]
    assert problems == ["rbm/digits-seed1: this one is impossible."]
    assert len(list((tmp_path / "checkpoints").rglob("*.safetensors"))) == 2
