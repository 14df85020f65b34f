"""Training over a range of depths: every step draws its number of layers."""

from pathlib import Path
from typing import Any

import pytest

import qtcore
from qtcore.errors import InputError
from qtcore.learn.settings import Settings
from qtcore.train import parse_command
from tests.strategies import KINDS, build, close

from .folders import assert_same_run
from .support import data_for, gradients, training, twins
from .test_run import OPTIONS, Crash


@pytest.mark.parametrize("bad", [0, -3, "0", "8-", "-8", "20-8", "0-3", "8-20-30", "x", "", 8.0, (8, 20), True])
def test_what_is_no_depth_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="train_layers cannot be"):
        Settings(steps=1, train_layers=bad)


@pytest.mark.parametrize(("given", "depths"), [(None, None), (7, (7, 7)), ("7", (7, 7)), ("8-20", (8, 20)), ("3-3", (3, 3))])
def test_a_number_or_a_range(given: Any, depths: Any) -> None:
    assert Settings(steps=1, train_layers=given).depths == depths


def test_on_the_command_line() -> None:
    assert parse_command(["rbm/digits", "--train-layers", "8-20"]).experiment.settings.depths == (8, 20)
    assert parse_command(["rbm/digits", "--train-layers", "8"]).experiment.settings.depths == (8, 8)


def drawn(steps: int, seed: int = 0, rank: int = 0) -> list[int]:
    run = training(build("RBM"), twins(), train_layers="2-6", seed=seed)
    run.rank = rank
    depths = []
    for run.step in range(steps):
        depths.append(run._train_engine().steps(run.model))
    return depths


def test_every_step_draws_anew_and_all_processes_draw_the_same() -> None:
    depths = drawn(60)
    assert set(depths) == {2, 3, 4, 5, 6}
    assert depths == drawn(60) == drawn(60, rank=1)
    assert depths != drawn(60, seed=1)
    assert drawn(30) == depths[:30]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_that_of_its_depth(kind: str) -> None:
    model = build(kind, scale=0.5)
    (depth,) = {training(model, data_for(model), train_layers="2-6")._train_engine().steps(model)}
    ranged = gradients(build(kind, scale=0.5), data_for(model), train_layers="2-6")
    for name, gradient in gradients(build(kind, scale=0.5), data_for(model), train_layers=depth).items():
        close(ranged[name], gradient, 0)


def test_the_chunk_is_that_of_the_deepest(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("RBM")
    deepest = model.engine.at(40).kept_bytes(model, (4,))
    monkeypatch.setattr("qtcore.learn.query_training.KEPT_BYTES", 3 * deepest)
    assert training(model, twins(), train_layers="2-40").chunk == 3


def test_a_run_goes_on_bit_by_bit(tmp_path: Path) -> None:
    options = OPTIONS | {"train_layers": "2-9"}

    def fit(folder: Path, resume: bool = False, callback: Any = None) -> None:
        qtcore.fit(build("RBM"), twins(), valid=twins(seed=5), folder=folder, resume=resume, callback=callback, **options)

    def crash(progress: Any) -> None:
        if progress.step == 6:
            raise Crash

    fit(tmp_path / "whole")
    with pytest.raises(Crash):
        fit(tmp_path / "parts", callback=crash)
    fit(tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
