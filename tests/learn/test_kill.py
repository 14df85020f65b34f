"""Nothing is lost: training processes that are killed, interrupted, or run out of disk, and go on."""

import random
import signal
import time
from pathlib import Path

import pytest

from qtcore.learn.run import BEST, LOG, STATE

from .children import STAGES, Child, Trap
from .folders import FILES, assert_same_run, assert_whole, log, state

COMMAND = ("rbm/digits", "--hidden", "4", "--layers", "4", "--batch", "50", "--averaging", "0.9", "--device", "cpu")
COMMAND += ("--validate-every", "7", "--valid-rows", "50", "--save-every", "3")

KILLS, IN_A_SAVE = 20, 6

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 300 steps that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    child = Child(*COMMAND, "--steps", "300", "--out", str(folder), output=folder.parent / "output")
    assert child.end() == 0, child.text
    assert {path.name for path in folder.iterdir()} == FILES
    return folder


def put_aside(folder: Path, most: int) -> set[str]:
    """Logs of runs that were killed before their first state: the next one starts anew and keeps them under other names."""
    result = {path.name for path in folder.glob("log-*.jsonl")}
    assert len(result) <= most
    return result


def test_a_run_killed_at_twenty_moments_ends_bit_by_bit_like_one_that_was_not(whole: Path, tmp_path: Path) -> None:
    """Some kills wait until the process is inside a save; the others come at any time, the start of a process included."""
    draw = random.Random(0)
    saves: list[Trap] = [(name, stage, draw.randint(1, 3)) for name in (STATE, BEST) for stage in STAGES]
    moments: list[Trap | None] = [*saves, *[None] * (KILLS - 1 - len(saves))]
    draw.shuffle(moments)
    moments.append((STATE, "half written", 1))  # the first kill: there is a log, but no state yet
    assert len(saves) >= IN_A_SAVE

    attempt, in_a_save, stateless = 0, 0, 0
    while moments:
        folder, trap = tmp_path / f"run{attempt}", moments[-1]
        child = Child(*COMMAND, "--steps", "300", "--out", str(folder), "--resume", output=tmp_path / "output", trap=trap)
        alive = child.wait_for("trapped") if trap else child.wait_for("begun") if draw.random() < 0.7 else True
        if alive:
            time.sleep(draw.uniform(0, 0.01 if trap else 0.25))
        child.signal(signal.SIGKILL)
        code = child.end()
        if code == 0:  # it was done before its time had come: the remaining kills are for another run
            assert_same_run(folder, whole)
            attempt, stateless = attempt + 1, 0
            continue
        assert code == 137, child.text
        moments.pop()
        in_a_save += trap is not None
        if folder.exists():
            assert_whole(folder)
            left = {path.name for path in folder.iterdir()} - FILES - put_aside(folder, stateless)
            stateless += (folder / LOG).exists() and not (folder / STATE).exists()
            assert len(left) <= 1
            assert all(name.startswith(".") for name in left)
            if trap and trap[1] != "renamed":
                assert left, "it was not killed in the middle of a save"

    assert in_a_save >= IN_A_SAVE
    child = Child(*COMMAND, "--steps", "300", "--out", str(folder), "--resume", output=tmp_path / "output")
    assert child.end() == 0, child.text
    assert {path.name for path in folder.iterdir()} - put_aside(folder, stateless) == FILES
    assert_same_run(folder, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_first_and_says_how_to_go_on(number: signal.Signals, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = (*COMMAND, "--steps", "300", "--save-every", "100000", "--out", str(folder))
    child = Child(*words, output=tmp_path / "output", hold=20)
    assert child.wait_for("trapped")
    child.signal(number)
    assert child.end() == 128 + number
    said = child.text.splitlines()[-1]
    assert said == f"Stopped by {number.name}; the state is saved. Continue with --resume and --out {folder}."
    assert state(folder)[1]["step"] == log(folder)[-1]["step"] == 20  # at once, though it was not time to save
    child = Child(*COMMAND, "--steps", "300", "--out", str(folder), "--resume", output=tmp_path / "output")
    assert child.end() == 0, child.text
    assert_same_run(folder, whole)


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(whole: Path, tmp_path: Path) -> None:
    """No file may grow beyond what the log has after some steps: the log cannot be written, the state is as it was."""
    folder = tmp_path / "run"
    room = (whole / STATE).stat().st_size + 1000
    child = Child(*COMMAND, "--steps", "300", "--out", str(folder), output=tmp_path / "output", room=room)
    assert child.end() == 2
    assert child.text.splitlines()[-1].startswith(f"error: {folder}/log.jsonl could not be written ([Errno 27] File too large")
    assert "Traceback" not in child.text
    assert_whole(folder)
    child = Child(*COMMAND, "--steps", "300", "--out", str(folder), "--resume", output=tmp_path / "output")
    assert child.end() == 0, child.text
    assert_same_run(folder, whole)


def test_no_room_for_a_state(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = Child(*COMMAND, "--steps", "9", "--out", str(folder), output=tmp_path / "output", room=4000)
    assert child.end() == 2
    assert child.text.startswith(f"error: {folder}/{STATE} could not be written")
    assert child.text.count("\n") == 1
    assert not (folder / STATE).exists()
    assert not list(folder.glob(".*"))
