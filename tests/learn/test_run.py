"""Run folders: what they hold, how a run goes on, and what is said when it cannot."""

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import qtcore
from qtcore import RBM, GaussianRBM
from qtcore.errors import InputError, ModelFileError, NotFiniteError
from qtcore.learn import query_training, run
from qtcore.learn.query_training import Progress
from qtcore.learn.run import BEST, CONFIG, LOG, STATE, Run, device
from qtcore.models.provenance import Provenance
from tests.strategies import KINDS, build, rng

from .folders import FILES, assert_same_run, assert_whole, log, state
from .support import data_for, same, twins, weights_of

OPTIONS: dict[str, Any] = {"steps": 11, "batch": 5, "validate_every": 3, "save_every": 4, "learning_rate": 0.05}


class Crash(Exception):
    """What a kill looks like from inside: nothing more is done."""


def fit(folder: Path, kind: str = "RBM", resume: bool = False, **options: Any) -> Any:
    model = build(kind, dtype=torch.float32)
    data = data_for(model)
    return qtcore.fit(model, data, valid=data_for(model, seed=5), folder=folder, resume=resume, **(OPTIONS | options))


def crash(folder: Path, step: int, kind: str = "RBM", **options: Any) -> None:
    def callback(progress: Progress) -> None:
        if progress.step == step:
            raise Crash

    with pytest.raises(Crash):
        fit(folder, kind, callback=callback, **options)


# ---------------------------------------------------------------------------------------------------------------------
# What is in a folder


def test_what_a_folder_holds(tmp_path: Path) -> None:
    model = fit(tmp_path / "new" / "run", config={"hello": "you"})
    folder = tmp_path / "new" / "run"
    assert {path.name for path in folder.iterdir()} == FILES
    assert json.loads((folder / CONFIG).read_text()) == {"hello": "you"}
    best = qtcore.load(folder / BEST)
    assert same(weights_of(best), weights_of(model))
    assert best.provenance == Provenance(valid_nce_bits=model.provenance.valid_nce_bits, step=model.provenance.step)
    lines = log(folder)
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 12))
    assert [line["step"] for line in lines if "valid" in line] == [3, 6, 9, 11]
    assert {tuple(line) for line in lines} == {("step", "loss", "learning_rate"), ("step", "valid", "best")}
    assert min(line["valid"] for line in lines if "valid" in line) == model.provenance.valid_nce_bits
    tensors, numbers = state(folder)
    assert numbers["step"] == 11
    assert {name.split(".")[0] for name in tensors} == {"coordinate", "exp_avg", "exp_avg_sq", "step", "best"}


def test_without_a_config_the_settings_are_kept(tmp_path: Path) -> None:
    fit(tmp_path)
    assert json.loads((tmp_path / CONFIG).read_text())["settings"]["learning_rate"] == 0.05


def test_without_validation_there_is_no_best_model(tmp_path: Path) -> None:
    qtcore.fit(build("RBM"), twins(), folder=tmp_path, **OPTIONS)
    assert {path.name for path in tmp_path.iterdir()} == FILES - {BEST}


# ---------------------------------------------------------------------------------------------------------------------
# One training at a time

SLOW = """
import sys, qtcore, torch
qtcore.fit(qtcore.RBM(4, 3), torch.zeros(20, 4), folder=sys.argv[1], steps=10**9, save_every=1,
           callback=lambda progress: print(progress.step, flush=True))
"""


@pytest.mark.slow
def test_a_second_training_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    """Each once wrote over the other's state; what the first one left by being killed can be continued."""
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", SLOW, folder], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"1\n"
        with pytest.raises(InputError, match=r"another training is running in .*run; wait for its end, or give another folder"):
            qtcore.fit(RBM(4, 3), torch.zeros(20, 4), folder=folder, resume=True, **OPTIONS)
        Run(folder, resume=True, main=False)  # another process of the same run
        first.kill()
    qtcore.fit(RBM(4, 3), torch.zeros(20, 4), folder=folder, resume=True, callback=lambda _: True, steps=10**9)


def test_a_folder_is_free_again_when_a_training_ends_or_fails(tmp_path: Path) -> None:
    crash(tmp_path, 5)
    fit(tmp_path, resume=True)
    fit(tmp_path, resume=True)
    keeper = Run(tmp_path, resume=True)
    with pytest.raises(InputError, match="another training is running"):
        fit(tmp_path, resume=True)
    del keeper
    fit(tmp_path, resume=True)


def test_a_folder_by_another_name_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    keeper = Run(tmp_path / "link", resume=False)
    with pytest.raises(InputError, match="another training is running"):
        fit(tmp_path / "real")
    del keeper
    crash(tmp_path / "link", 5)
    fit(tmp_path / "real", resume=True)
    assert (tmp_path / "link").is_symlink()
    fit(tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "link")


def test_files_that_are_links_stay_links(tmp_path: Path) -> None:
    """Such as a state that lies on a larger disk."""
    crash(tmp_path / "run", 5)
    (tmp_path / "disk").mkdir()
    for name in FILES:
        if (tmp_path / "run" / name).exists():
            (tmp_path / "run" / name).rename(tmp_path / "disk" / name)
            (tmp_path / "run" / name).symlink_to(tmp_path / "disk" / name)
    fit(tmp_path / "run", resume=True)
    assert (tmp_path / "run" / STATE).is_symlink()
    assert {path.name for path in (tmp_path / "disk").iterdir()} == FILES
    fit(tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.fixture
def nobody() -> Iterator[None]:
    """As root nothing is read-only: as somebody else for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


def test_a_folder_that_is_read_only(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Said before the first step, and nothing in it changes."""
    fit(tmp_path / "run", steps=4)
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for path in (*before, tmp_path / "run"):
        path.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o111)
    request.getfixturevalue("nobody")
    steps: list[int] = []
    with pytest.raises(OSError, match="Permission denied"):
        fit(tmp_path / "run", resume=True, steps=8, callback=lambda progress: steps.append(progress.step))
    with pytest.raises(OSError, match="Permission denied"):
        fit(tmp_path / "run" / "new", callback=lambda progress: steps.append(progress.step))
    assert not steps
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize("missing", ["flock", "fcntl"])
def test_a_system_without_locks(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(*((run.fcntl, "flock", flock) if missing == "flock" else (run, "fcntl", None)))
    fit(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES


def test_data_that_are_refused_leave_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0, 1 or in between"):
        qtcore.fit(build("RBM"), 2 * torch.ones(5, 4), folder=tmp_path / "run", steps=1)
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------------------------------------------------------
# Going on


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [1, 6, 10])
def test_a_run_that_went_on_is_the_run_that_was_never_interrupted(kind: str, step: int, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", kind, averaging=0.9)
    crash(tmp_path / "cut", step, kind, averaging=0.9)
    went_on = fit(tmp_path / "cut", kind, resume=True, averaging=0.9)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert same(weights_of(went_on), weights_of(whole))
    assert went_on.provenance == whole.provenance


@pytest.mark.parametrize("when", [1, 3])
def test_a_run_killed_during_a_validation_goes_on_like_any_other(
    when: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first, after which there is no best model yet, and a later one."""
    fit(tmp_path / "whole")
    validate, calls = query_training._Training._validate, []

    def killed(training: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == when:
            raise Crash
        return validate(training, *arguments)

    monkeypatch.setattr(query_training._Training, "_validate", killed)
    with pytest.raises(Crash):
        fit(tmp_path / "killed")
    assert_whole(tmp_path / "killed")
    fit(tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_stopping_saves_first(tmp_path: Path) -> None:
    fit(tmp_path / "whole")
    fit(tmp_path / "cut", callback=lambda progress: progress.step == 6)
    assert state(tmp_path / "cut")[1]["step"] == 6
    fit(tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_finished_run_can_be_lengthened(tmp_path: Path) -> None:
    fit(tmp_path / "whole")
    fit(tmp_path / "short", steps=6)
    fit(tmp_path / "short", resume=True, steps=11)
    assert [line for line in log(tmp_path / "short") if line["step"] > 6] == [
        line for line in log(tmp_path / "whole") if line["step"] > 6
    ]
    before = (tmp_path / "short" / STATE).read_bytes()
    again = fit(tmp_path / "short", resume=True, steps=5)  # there is nothing left to do
    assert (tmp_path / "short" / STATE).read_bytes() == before
    assert same(weights_of(again), weights_of(qtcore.load(tmp_path / "short" / BEST)))


def test_resume_with_nothing_saved_starts_anew(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole")
    crash(tmp_path / "early", 3)  # validated and logged, but never saved
    assert {path.name for path in (tmp_path / "early").iterdir()} == FILES - {STATE}
    for name in ("early", "missing", "empty"):
        if name == "empty":
            (tmp_path / name).mkdir()
        assert same(weights_of(fit(tmp_path / name, resume=True)), weights_of(whole))
        assert_same_run(tmp_path / name, tmp_path / "whole")


def test_the_log_is_cut_back_to_the_state_and_broken_lines_are_dropped(tmp_path: Path) -> None:
    fit(tmp_path / "whole")
    crash(tmp_path / "cut", 7)
    with open(tmp_path / "cut" / LOG, "ab") as file:
        file.write(b'{"step": 7, "loss": 0.5\n\0\0\0\xff\n[]\n12\n{"step": 8, "lo')
    fit(tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_best_model_that_was_removed_comes_back(tmp_path: Path) -> None:
    fit(tmp_path)
    best = (tmp_path / BEST).read_bytes()
    (tmp_path / BEST).unlink()
    fit(tmp_path, resume=True)
    assert (tmp_path / BEST).read_bytes() == best
    (tmp_path / BEST).write_text("junk")
    fit(tmp_path, resume=True)
    assert (tmp_path / BEST).read_bytes() == best


def test_a_model_without_a_state_is_kept_under_another_name(tmp_path: Path) -> None:
    fit(tmp_path)
    kept = {name: (tmp_path / name).read_bytes() for name in (BEST, LOG)}
    for number in (1, 2):
        (tmp_path / STATE).unlink()
        fit(tmp_path, resume=True, steps=3)
        assert {path.name for path in tmp_path.iterdir()} >= {f"best-{number}.safetensors", f"log-{number}.jsonl"}
    assert (tmp_path / "best-1.safetensors").read_bytes() == kept[BEST]
    assert (tmp_path / "log-1.jsonl").read_bytes() == kept[LOG]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (f".{STATE}.x1.tmp", f".{BEST}.x2.tmp", f".{LOG}.x3.tmp", f".{CONFIG}.x4.tmp", ".mine.tmp"):
        (tmp_path / name).write_text("left")
    Run(tmp_path, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == [".mine.tmp"]


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize("name", [STATE, BEST, LOG, CONFIG, "letter.txt"])
def test_a_used_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=f"is not empty \\({name}\\); continue its run with --resume"):
        fit(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match="is a file; give a folder"):
            fit(tmp_path / "file", resume=resume)
    assert (tmp_path / "file").read_text() == "mine"


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    keeper = Run(tmp_path / "other", resume=False, main=False)
    keeper.write_config({})
    keeper.log({"step": 1}, 0.1)
    keeper.save_state({}, {})
    keeper.save_best(build("RBM"))
    keeper.go_on(3, build("RBM"))
    assert keeper.load_state() is None
    assert not (tmp_path / "other").exists()


def foreign(folder: Path) -> None:
    save_file({"a": torch.zeros(3)}, folder / STATE)


def no_numbers(folder: Path) -> None:
    save_file(load_file(folder / STATE), folder / STATE, {"numbers": "{"})


def few_numbers(folder: Path) -> None:
    save_file(load_file(folder / STATE), folder / STATE, {"numbers": "{}"})


def few_tensors(folder: Path) -> None:
    numbers = json.dumps(state(folder)[1] | {"seconds": 1.0})
    tensors = {name: tensor for name, tensor in load_file(folder / STATE).items() if not name.startswith("exp_avg.")}
    save_file(tensors, folder / STATE, {"numbers": numbers})


def half(folder: Path) -> None:
    whole = (folder / STATE).read_bytes()
    (folder / STATE).write_bytes(whole[: len(whole) // 2])


def empty(folder: Path) -> None:
    (folder / STATE).write_bytes(b"")


def a_folder(folder: Path) -> None:
    (folder / STATE).unlink()
    (folder / STATE).mkdir()


def altered(tensors: dict[str, torch.Tensor] | None = None, **numbers: Any) -> Any:
    """A state that is whole but for some tensors or numbers."""

    def damage(folder: Path) -> None:
        kept = json.dumps(state(folder)[1] | {"seconds": 1.0} | numbers)
        save_file(load_file(folder / STATE) | (tensors or {}), folder / STATE, {"numbers": kept})

    return damage


ALTERED = [altered(step="x"), altered(step=-5), altered(step=math.nan), altered(chunk=0), altered(chunk=None)]
ALTERED += [altered(best=math.nan), altered(best="x"), altered({"coordinate.W": torch.zeros(1, 1)})]
ALTERED += [altered({"exp_avg.W": torch.zeros(2)}), altered({"step.W": torch.zeros(3)}), altered({"best.W": torch.zeros(2)})]


@pytest.mark.parametrize("damage", [foreign, no_numbers, few_numbers, few_tensors, half, empty, a_folder, *ALTERED])
def test_a_damaged_state_is_named_and_left_alone(damage: Any, tmp_path: Path) -> None:
    fit(tmp_path)
    damage(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(ModelFileError, match="state") as error:
        fit(tmp_path, resume=True)
    assert str(tmp_path) in str(error.value)
    assert str(error.value).count("\n") == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert before == after


def test_the_state_of_another_model_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    with pytest.raises(ModelFileError, match="another model"):
        qtcore.fit(RBM(4, 7), twins(), folder=tmp_path, resume=True, **OPTIONS)
    with pytest.raises(ModelFileError, match="another model"):
        fit(tmp_path, resume=True, averaging=0.5)  # no average was kept


# ---------------------------------------------------------------------------------------------------------------------
# When something goes wrong in the middle


def test_a_full_disk_leaves_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(tmp_path / "whole")
    real, count = Path.write_bytes, 0

    def full(path: Path, content: bytes) -> int:
        nonlocal count
        count += STATE in path.name
        if count == 2:
            real(path, content[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelFileError, match=r"state\.safetensors could not be written .*No space left on device.*intact"):
        fit(tmp_path / "cut")
    assert {path.name for path in (tmp_path / "cut").iterdir()} == FILES  # no half file is left
    assert state(tmp_path / "cut")[1]["step"] == 4
    monkeypatch.undo()
    fit(tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_full_disk_while_the_best_model_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelFileError, match=r"best\.safetensors could not be written .*No space left on device"):
        fit(tmp_path)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    def callback(progress: Progress) -> None:
        (tmp_path / LOG).unlink()
        (tmp_path / LOG).symlink_to("/dev/full")

    with pytest.raises(ModelFileError, match=f"{LOG} could not be written .*No space left on device"):
        fit(tmp_path, callback=callback)


def test_a_loss_that_is_not_finite_leaves_the_last_good_state(tmp_path: Path) -> None:
    """One row is so large that its messages overflow; where it stands in the first epoch follows from the seed."""
    data = torch.randn(20, 4, generator=rng(0))
    truth = data.clone()
    data[13] = 3e38
    options: dict[str, Any] = {"steps": 10, "batch": 2, "save_every": 1, "folder": tmp_path}
    with pytest.raises(NotFiniteError, match=r"^step \d+: .* is not finite in layer") as error:
        qtcore.fit(build("GaussianRBM", scale=0.1, dtype=torch.float32), (data, truth), **options)
    step = int(str(error.value).split(":")[0].removeprefix("step "))
    assert_whole(tmp_path)
    tensors, numbers = state(tmp_path)
    assert numbers["step"] == step - 1
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    data[13] = 0.0
    model = qtcore.fit(build("GaussianRBM", scale=0.1, dtype=torch.float32), (data, truth), resume=True, **options)
    assert isinstance(model, GaussianRBM)
    assert state(tmp_path)[1]["step"] == 10


@pytest.mark.parametrize("name", ["cpu", "auto"])
def test_devices(name: str) -> None:
    assert isinstance(device(name), torch.device)


@pytest.mark.parametrize("name", ["abacus", "", "cuda:99"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(InputError, match="there is no device named"):
        device(name)


def test_a_run_that_is_shorter_than_its_interval_is_saved_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed without warning, it once lost all of its training. States also go by the clock, which moves here but once."""
    clock = iter([0.0, *[query_training.SAVE_SECONDS] * 1000])
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    fit(whole, save_every=10**6)
    monkeypatch.setattr(query_training.time, "monotonic", lambda: next(clock))

    def crash(progress: Progress) -> None:
        if progress.step == 2:
            raise Crash

    with pytest.raises(Crash):
        fit(broken, save_every=10**6, callback=crash)
    monkeypatch.undo()
    assert state(broken)[1]["step"] == 1
    fit(broken, save_every=10**6, resume=True)
    assert_same_run(broken, whole)
