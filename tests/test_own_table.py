"""A table from CSV to answers on the command line: train, infer, sample."""

import csv
import functools
import signal
from pathlib import Path

import pytest

import qtcore
from qtcore import infer, sample, train
from qtcore.learn.run import BEST

from .commands import Command, command  # noqa: F401
from .test_train import process

HEADER = "id,age,work,income"
QUESTIONS = "income,age\n,20\nhigh,\n,70\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with people.csv: the income is high from 45 years on."""
    monkeypatch.chdir(tmp_path)
    lines = [HEADER]
    for k in range(240):
        age = 20 + k % 50
        work = ["State", '"Self, own"', "", "?"][k % 4]
        lines.append(f"{k},{'NA' if k % 7 == 0 else age},{work},{'' if k % 5 == 0 else 'high' if age >= 45 else 'low'}")
    Path("people.csv").write_text("\n".join(lines) + "\n")
    Path("questions.csv").write_text(QUESTIONS)
    return tmp_path


@pytest.fixture
def run(command: Command) -> Command:  # noqa: F811
    """train("table", *arguments)."""
    return functools.partial(command, train.main, "table")


@pytest.fixture
def ask(command: Command, folder: Path) -> Command:  # noqa: F811
    """infer(model, *arguments), of a trained model."""
    model = qtcore.fit_table(qtcore.Table.read("people.csv"), steps=120)
    model.save("model.safetensors")
    return functools.partial(command, infer.main, "model.safetensors")


def lines_of(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_training_says_what_it_makes_of_the_table(run: Command, folder: Path) -> None:
    done = run("people.csv", "--minutes", "0.005", "--hidden", "2")
    assert done.code == 0, done.err
    assert ["work", "binary", "120", "Self,", "own,", "State"] in map(str.split, done.out.splitlines())
    assert "'id' is left out" in done.out
    assert done.out.rstrip().endswith("bits; the model is runs/people/best.safetensors.")
    model = qtcore.load(Path("runs/people") / BEST)
    assert isinstance(model, qtcore.TableModel)
    assert model.n_hidden == 2
    assert "is not empty" in run("people.csv").err
    assert run("people.csv", "--resume").code == 0


def test_describe_alone_and_overrides(run: Command, folder: Path) -> None:
    done = run("people.csv", "--describe", "--schema", "age=categorical", "work=State,Self", "id=real", "--bins", "3")
    assert done.code == 0
    lines = [line.split()[:2] for line in done.out.splitlines()]
    assert lines[2:5] == [["id", "real"], ["age", "categorical"], ["work", "ordered"]]
    assert "0 – 79, 80 – 159, 160 – 239" in done.out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("no.csv",), "no.csv does not exist; give a table (CSV)."),
        (("people.csv", "--schema", "age"), "--schema takes NAME=KIND or NAME=LEVEL,LEVEL,…, not 'age'."),
        (("people.csv", "--schema", "ages=real"), "there is no column named 'ages' to override; did you mean age?"),
        (("people.csv", "--bins", "1"), "bins must be a whole number ≥ 2, not 1."),
        (("people.csv", "--describe", "--out", "people.csv", "--minutes", "x"), "could not convert string to float"),
        (("people.csv", "--out", "people.csv"), "people.csv is a file; give a folder for the run."),
    ],
)
def test_bad_tables_and_options(run: Command, folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in run(*arguments).sentence


def test_bad_minutes(run: Command, folder: Path) -> None:
    done = run("people.csv", "--minutes", "0")
    assert done.code == 2
    assert done.err == "error: minutes must be a number above 0, not 0.0.\n"


def test_probabilities_of_the_gaps(ask: Command) -> None:
    done = ask("questions.csv")
    assert done == (0, "6 blanks in 3 rows; their marginals are in questions.marginals.csv.\n", "")
    header, *lines = lines_of("questions.marginals.csv")
    assert header == ["row", "column", "level", "probability", "mean", "q10", "median", "q90"]
    p = {tuple(line[:3]): float(line[3]) for line in lines}
    assert p["1", "income", "low"] > 0.8
    assert p["3", "income", "high"] > 0.8
    mean, low, median, high = next([float(cell) for cell in line[4:]] for line in lines if line[:2] == ["2", "age"])
    assert 45 < mean < 70
    assert low < median < high
    assert {line[1] for line in lines if line[0] == "2"} == {"age", "work"}


def test_unknown_words_and_columns(ask: Command) -> None:
    Path("odd.csv").write_text("work,age,id\nPrivate,old,7\n")
    done = ask("odd.csv")
    assert done.code == 0
    assert done.err == (
        "note: a cell of 'age' is no number, but 'old', and counts as a gap.\n"
        "note: a cell of 'work' is no level that it is known to have, but 'Private', and counts as a gap.\n"
    )
    Path("odd.csv").write_text("work,ages\nState,20\n")
    assert ask("odd.csv").sentence == "there is no column named 'ages'; did you mean age?"
    Path("odd.csv").write_text("work,age\nState,20,3\n")
    assert ask("odd.csv").sentence.startswith("odd.csv, line 2: there are 3 fields")


def test_samples_joint_probabilities_and_questions(ask: Command, command: Command) -> None:  # noqa: F811
    assert ask("questions.csv", "--samples", 4).out == "4 samples of each of 3 rows are in questions.samples.csv.\n"
    header, *lines = lines_of("questions.samples.csv")
    assert header == ["row", "sample", *HEADER.split(",")]
    assert [line[:2] for line in lines] == [[str(1 + k // 4), str(1 + k % 4)] for k in range(12)]
    assert [line[3] for line in lines[:4]] == ["20"] * 4
    assert all(line[4] and line[5] for line in lines)
    assert ask("questions.csv", "--joint").out == "the log-probabilities of 3 rows are in questions.joint.csv.\n"
    assert all(float(line[1]) < 0 for line in lines_of("questions.joint.csv")[1:])
    assert ask("questions.csv", "--next", "work").out.startswith("what the blanks of 3 rows would tell about work")
    assert [line[:2] for line in lines_of("questions.next.csv")[1:]] == [["1", "income"], ["2", "age"], ["3", "income"]]
    sentence = ask("questions.csv", "--next", "age").sentence
    assert sentence == "row 1: age is known there; leave it blank to ask what tells about it."
    drawn = command(sample.main, "model.safetensors", "--n", 3, "--out", "drawn.csv")
    assert drawn.out == "3 samples are in drawn.csv.\n"
    assert len(lines_of("drawn.csv")) == 4
    assert "written as .csv" in command(sample.main, "model.safetensors", "--n", 3, "--out", "drawn.npz").sentence


@pytest.mark.slow
def test_a_stopped_training_goes_on(folder: Path) -> None:
    child = process("table", "people.csv", "--minutes", "0.05", "--out", "run")
    assert child.stdout is not None
    while not (line := child.stdout.readline()).startswith("step"):
        assert line, child.communicate()
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM
    assert err == "Stopped by SIGTERM; the state is saved. Continue with --resume and --out run.\n"
    assert isinstance(qtcore.load(Path("run") / BEST), qtcore.TableModel)
    child = process("table", "people.csv", "--resume", "--out", "run")
    out, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (0, "")
    assert "Done: validation NCE" in out
