"""python -m qtcore.train, as it is written in its header."""

import functools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import qtcore
from qtcore import data, train
from qtcore.data import glyphs
from qtcore.learn.run import BEST, CONFIG, LOG, STATE
from qtcore.paper.experiments import EXPERIMENTS, recipe

from .commands import Command, Run, command  # noqa: F401
from .learn.folders import FILES, assert_same_run, log, state

QUICK = ("--steps", "4", "--batch", "60", "--hidden", "3", "--layers", "2", "--valid-rows", "20", "--device", "cpu")
original = data.load


@functools.cache
def load(name: str) -> data.Dataset:
    """A dataset, made once for all tests; of glyphs only a few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glyphs, "N_ROWS", {"train": 200, "valid": 40, "test": 40})
        return original(name)


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:  # noqa: F811
    """train(*arguments)."""
    monkeypatch.setattr(data, "load", load)
    return functools.partial(command, train.main)


def process(*arguments: object, **options: object) -> "subprocess.Popen[str]":
    """The real command, warnings being errors."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    line = [sys.executable, "-W", "error", "-m", "qtcore.train", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(line, env=environment, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


# ---------------------------------------------------------------------------------------------------------------------
# As written


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("rbm/digits", (), "RBM"),
        ("dbm/digits", (), "DBM"),
        ("grid/border-glyphs", ("--batch", "2", "--clones", "3", "1", "1", "--validate-every", "4"), "GridMRF"),
        ("grid/border-glyphs", ("--batch", "2", "--clones", "3", "1", "1", "--queries", "uniform:0.2"), "GridMRF"),
        ("rbm/digits", ("--queries", "patches:3", "--averaging", "0.9", "--schedule", "cosine", "--warmup", "2"), "RBM"),
        ("rbm/digits", ("--temperature", "1", "--no-learn-temperature", "--train-layers", "3"), "RBM"),
    ],
)
def test_what_needs_no_data_trains(name: str, options: tuple[str, ...], kind: str, run: Command, tmp_path: Path) -> None:
    result = run(name, *QUICK, *options, "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert result.err == ""
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    model = qtcore.load(tmp_path / "run" / BEST)
    assert type(model).__name__ == kind
    assert model.provenance.experiment == name
    assert model.n_layers == 2
    *lines, last = result.out.splitlines()
    assert lines[-1].startswith("step 4/4: loss ")
    assert last == f"Done: validation NCE {model.provenance.valid_nce_bits:.4f} bits; the model is {tmp_path / 'run' / BEST}."
    config = json.loads((tmp_path / "run" / CONFIG).read_text())
    assert config["experiment"]["name"] == name
    assert config["experiment"]["settings"]["steps"] == 4
    assert config["versions"]["qtcore"] == qtcore.__version__


def test_with_no_terminal_there_are_quiet_lines(run: Command, tmp_path: Path) -> None:
    result = run("rbm/digits", *QUICK, "--steps", "6", "--validate-every", "2", "--out", tmp_path / "run")
    number = r"\d+\.\d{4}"
    line = rf"step \d/6: loss {number} nats, valid {number}, best {number} bits(, \d+ img/s)?"
    *lines, _ = result.out.splitlines()
    assert [text.split("/")[0] for text in lines] == ["step 2", "step 4", "step 6"]
    assert all(re.fullmatch(line, text) for text in lines)


def test_epochs_seed_and_the_usual_folder(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = len(load("digits").train)
    quick = ("--batch", "2000", "--hidden", "3", "--layers", "2", "--valid-rows", "20")
    assert run("rbm/digits", "--epochs", "2", *quick).code == 0
    assert state(tmp_path / "runs" / "rbm-digits")[1]["step"] == 2 * -(-rows // 2000)
    for seed in (0, 0, 1):
        assert run("rbm/digits", "--epochs", "2", *quick, "--seed", seed, "--out", f"{seed}", "--resume").code == 0
    assert_same_run(tmp_path / "0", tmp_path / "runs" / "rbm-digits")
    one, other = (qtcore.load(tmp_path / name / BEST).get_parameter("W") for name in "01")
    assert not torch.equal(one, other)


def test_recipes(run: Command, tmp_path: Path) -> None:
    """--recipe is the shipped model's, phase by phase; without it, the settings are the paper's."""
    for words, whose in (
        ((), EXPERIMENTS["rbm/digits"]),
        (("--recipe", "paper"), EXPERIMENTS["rbm/digits"]),
        (("--recipe",), recipe("rbm/digits")),
        (("--recipe", "--seed", "0"), recipe("rbm/digits")),
        (("--recipe", "ours"), recipe("rbm/digits")),
        (("--seed", "0", "--recipe=ours"), recipe("rbm/digits")),
    ):
        assert train.parse_command(["rbm/digits", *words]).experiment == whose, words
    assert len(train.parse_command(["rbm/ocr_letters", "--recipe"]).experiment.phases) == 3
    assert run("rbm/digits", "--recipe", "theirs", "--out", tmp_path / "run").code == 2
    assert run("rbm/digits", "--recipe", *QUICK, "--out", tmp_path / "run").code == 0
    config = json.loads((tmp_path / "run" / CONFIG).read_text())
    assert config["experiment"]["settings"]["averaging"] == recipe("rbm/digits").settings.averaging > 0


def test_folders(run: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("rbm/digits", *QUICK, "--out", tmp_path / "empty").code == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "empty").iterdir()}
    assert run("rbm/digits", *QUICK, "--out", tmp_path / "empty").sentence.startswith(f"{tmp_path / 'empty'} is not empty")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "empty").iterdir()}
    assert run("rbm/digits", *QUICK, "--out", tmp_path / "new", "--resume").code == 0
    assert_same_run(tmp_path / "new", tmp_path / "empty")
    assert run("rbm/digits", *QUICK, "--out", tmp_path / "new", "--resume").out.startswith("Done: validation NCE 0.")
    (tmp_path / "file").write_text("mine")
    for words in ((), ("--resume",)):
        said = run("rbm/digits", *QUICK, "--out", tmp_path / "file", *words).sentence
        assert said == f"{tmp_path / 'file'} is a file; give a folder for the run."
    assert "Not a directory" in run("rbm/digits", *QUICK, "--out", tmp_path / "file" / "below").sentence
    assert (tmp_path / "file").read_text() == "mine"


def test_a_training_starts_from_a_trained_model(run: Command, tmp_path: Path) -> None:
    assert run("rbm/digits", *QUICK, "--out", tmp_path / "first").code == 0
    words = ("rbm/digits", *QUICK, "--learning-rate", "1e-9", "--start", tmp_path / "first" / BEST)
    assert run(*words, "--out", tmp_path / "second").code == 0
    first, second = (qtcore.load(tmp_path / name / BEST) for name in ("first", "second"))
    for (name, before), after in zip(first.named_parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-7, msg=name)
    start = second.provenance.start
    assert start is not None
    assert (start["name"], start["settings"]["learning_rate"]) == (str(tmp_path / "first" / BEST), 0.003)
    said = run(*words[:-2], "--out", tmp_path / "second", "--resume").sentence
    assert "was begun with start = " in said
    said = run("rbm/digits", *QUICK, "--out", tmp_path / "other", "--start", "dbm/digits").sentence
    assert "is a DBM (" in said
    assert "cannot start rbm/digits, a RBM (" in said
    taller = ("dbm/digits", *QUICK, "--hidden", "4", "--start", tmp_path / "first" / BEST)
    said = run(*taller, "--out", tmp_path / "other").sentence
    assert "is a RBM (" in said
    assert "cannot start dbm/digits, a DBM (" in said
    smaller = ("rbm/digits", *QUICK, "--hidden", "2", "--start", tmp_path / "first" / BEST)
    said = run(*smaller, "--out", tmp_path / "other").sentence
    assert "W [3, 64]" in said
    assert "W [2, 64]" in said
    assert not (tmp_path / "other").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Going on


def test_the_length_may_change_and_nothing_else(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("rbm/digits", *QUICK, "--out", folder).code == 0
    for words in (
        ("--learning-rate", "0.5"),
        ("--seed", "1"),
        ("--hidden", "4"),
        ("--queries", "uniform:0.3"),
        ("--batch", "61"),
    ):
        said = run("rbm/digits", *QUICK, *words, "--out", folder, "--resume").sentence
        assert "give the same settings, or another folder" in said
        assert words[1] in said
    assert "name = rbm/digits, not dbm/digits" in run("dbm/digits", *QUICK, "--out", folder, "--resume").sentence
    for words in (("--steps", "6"), ("--save-every", "1", "--steps", "7")):
        assert run("rbm/digits", *QUICK, *words, "--out", folder, "--resume").code == 0
        assert state(folder)[1]["step"] == int(words[-1])
    assert [line["step"] for line in log(folder) if "loss" in line] == list(range(1, 8))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"experiment": 3}', '{"experiment": {"settings": null}}'])
def test_a_foreign_configuration_is_refused(text: str, run: Command, tmp_path: Path) -> None:
    assert run("rbm/digits", *QUICK, "--out", tmp_path).code == 0
    (tmp_path / CONFIG).write_text(text)
    said = run("rbm/digits", *QUICK, "--out", tmp_path, "--resume").sentence
    assert said == f"{tmp_path / CONFIG} is not the configuration of a run of this command; give another folder."


def test_a_damaged_state_is_one_sentence(run: Command, tmp_path: Path) -> None:
    assert run("rbm/digits", *QUICK, "--out", tmp_path).code == 0
    (tmp_path / STATE).write_bytes(b"\0" * 50)
    assert run("rbm/digits", *QUICK, "--out", tmp_path, "--resume").sentence.startswith(f"{tmp_path / STATE} is not a whole")


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rbm/digts"], "there is no experiment named 'rbm/digts'; did you mean rbm/digits or dbm/digits"),
        (["nothing/like/it"], "there is no experiment named 'nothing/like/it'; known names: dbm/adult, "),
        ([], "name an experiment first: one of rbm/adult, "),
        (["--steps", "3", "rbm/digits"], "name an experiment first: one of rbm/adult, "),
        (["rbm/digits", "--learning-rate", "-1"], "learning_rate cannot be -1.0."),
        (["rbm/digits", "--learning-rate", "nan"], "learning_rate cannot be nan."),
        (
            ["rbm/digits", "--learning-rate", "fast"],
            "Error parsing --learning-rate: could not convert string to float: 'fast'.",
        ),
        (["rbm/digits", "--epochs", "0"], "epochs cannot be 0.0."),
        (["rbm/digits", "--epochs", "inf"], "epochs cannot be inf."),
        (["rbm/digits", "--steps", "-3"], "steps cannot be -3."),
        (["rbm/digits", "--steps", "2.5"], "Error parsing --steps: "),
        (["rbm/digits", "--batch", "0"], "batch cannot be 0."),
        (["rbm/digits", "--seed", "-1"], "seed cannot be -1."),
        (["rbm/digits", "--averaging", "1"], "averaging cannot be 1.0."),
        (["rbm/digits", "--schedule", "sinus"], "invalid choice 'sinus' for argument '--schedule'."),
        (["rbm/digits", "--stepps", "3"], "Unrecognized options: --stepps, 3."),
        (["rbm/digits", "dbm/digits"], "Unrecognized options: dbm/digits."),
        (["rbm/digits", "--device", "abacus"], "there is no device named 'abacus'; try auto, cuda, mps or cpu."),
        (["rbm/digits", "--start", "rbm/digts"], "there is no model and no file named 'rbm/digts'; did you mean rbm/digits "),
        (["rbm/digits", "--hidden", "0"], "n_hidden must be a whole number ≥ 1, not 0."),
        (["rbm/digits", "--layers", "-1"], "n_layers must be a whole number ≥ 0, not -1."),
        (["rbm/digits", "--temperature", "-2"], "the temperature must be ≥ 0, not -2.0;"),
        (["rbm/digits", "--temperature", "0"], "a learned temperature must start above 0."),
        (["rbm/digits", "--queries", "some"], "queries cannot be 'some'; give uniform[:p], "),
        (["rbm/digits", "--queries", "everything"], "100 minibatches had no targets"),
        (["rbm/digits", "--queries", "patches:9"], "a patch of 9 pixels does not fit"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words: list[str], said: str, run: Command, tmp_path: Path) -> None:
    if words[:1] == ["rbm/digits"]:
        words = [words[0], "--out", str(tmp_path / "run"), *words[1:]]
    assert run(*words).sentence.startswith(said)


def test_numbers_that_are_not_finite_stop_the_run(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faces = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    toy = data.Dataset("toy", "gaussian", faces, faces, faces, "stand-in", "")
    monkeypatch.setattr(data, "load", lambda name: toy)
    words = ("--steps", "5", "--batch", "7", "--hidden", "3", "--layers", "4", "--save-every", "1")
    result = run("grbm/frey", *words, "--learning-rate", "1e30", "--out", tmp_path / "run")
    assert result.sentence.startswith("step 2: GaussianRBM: the message 'to_hidden' is not finite in layer 1;")
    assert state(tmp_path / "run")[1]["step"] == 1


def test_data_that_are_not_here(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "load", load.__wrapped__)
    monkeypatch.delenv("QTCORE_DATA", raising=False)
    monkeypatch.setenv("QTCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("QTCORE_MIRROR", "http://127.0.0.1:9")  # the discard port: nobody listens
    monkeypatch.setattr(data.download, "PAUSE", 0.01)
    assert "adult" in run("rbm/adult", *QUICK, "--out", tmp_path / "run").err
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Help


@pytest.mark.parametrize("words", [("--help",), ("rbm/digits", "--help"), ("grid/border", "-h")])
def test_help(words: tuple[str, ...], run: Command) -> None:
    result = run(*words)
    assert (result.code, result.err) == (0, "")
    text = " ".join(result.out.split())
    assert "python -m qtcore.train rbm/adult" in text
    assert "torchrun --nproc-per-node 2 -m qtcore.train" in text
    assert "torchrun --nnodes 2" in text
    assert all(name in text for name in EXPERIMENTS)
    for option in ("epochs", "steps", "seed", "out", "resume", "batch", "learning-rate", "schedule", "averaging", "layers"):
        assert f"--{option}" in text
    for option in ("queries", "temperature", "learn-temperature", "device", "validate-every", "save-every"):
        assert f"--{option}" in text
    name = words[0] if len(words) == 2 else "rbm/adult"
    assert f"The defaults below are those of {name}." in text
    assert f"(default: {EXPERIMENTS[name].settings.learning_rate})" in text


# ---------------------------------------------------------------------------------------------------------------------
# The real thing


@pytest.mark.slow
def test_a_real_process_is_killed_and_goes_on(tmp_path: Path) -> None:
    """Without any of the tests' own machinery: start, kill -9, resume."""
    words = ("rbm/digits", "--hidden", "3", "--layers", "2", "--batch", "50", "--save-every", "2", "--validate-every", "5")
    words += ("--valid-rows", "20", "--out", str(tmp_path / "run"))
    first = process(*words, "--steps", "100000")
    _wait_for(tmp_path / "run" / STATE, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    reached = state(tmp_path / "run")[1]["step"]
    second = process(*words, "--steps", str(reached + 3), "--resume")
    out, err = second.communicate(timeout=300)
    assert (second.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("Done: ")
    assert [line["step"] for line in log(tmp_path / "run") if "loss" in line] == list(range(1, reached + 4))


def _wait_for(path: Path, process: "subprocess.Popen[str]", seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_in_a_terminal_there_is_a_bar(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = ("rbm/digits", "--hidden", "3", "--layers", "2", "--batch", "50", "--steps", "200", "--validate-every", "20")
    child = process(*words, "--valid-rows", "20", "--out", tmp_path / "run", stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how a terminal says that nobody is at the other end any more
            break
        if not part:
            break
        shown += part
    os.close(ours)
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0
    bars = [bar for bar in shown.decode().split("\r") if "img" in bar]
    number = r"\d\.\d{4}"
    assert re.search(rf"100%\|█+\| 00:00 left, [\d.]+k?img/s, loss {number}, valid {number}, best {number}", bars[-1]), bars[-1]
    assert "left, ?img/s" in bars[0]
    assert max(len(bar.rstrip()) for bar in bars) <= 80
    assert out.splitlines() == [f"Done: validation NCE {_best(tmp_path):.4f} bits; the model is {tmp_path / 'run' / BEST}."]


def _best(folder: Path) -> float:
    result = qtcore.load(folder / "run" / BEST).provenance.valid_nce_bits
    assert result is not None
    return result


def test_an_interrupt_before_training_begins(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "load", interrupted)
    assert run("rbm/digits", *QUICK, "--out", tmp_path / "run") == Run(130, "", "Interrupted.\n")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / LOG).exists()
