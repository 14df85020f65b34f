"""Training over a range of depths: every step draws its number of layers."""

from pathlib import Path
from typing import Any

import pytest

import qtcore
from qtcore import kernels
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


@pytest.mark.parametrize("bad", [0, -1, 6, 1.5, True])
def test_how_many_are_drawn_at_once(bad: Any) -> None:
    assert Settings(steps=1, train_layers="2-6", train_depths=5).train_depths == 5
    with pytest.raises(InputError, match="train_depths cannot be"):
        Settings(steps=1, train_layers="2-6", train_depths=bad)
    with pytest.raises(InputError, match="train_depths cannot be 2"):
        Settings(steps=1, train_depths=2)


def drawn(steps: int, rank: int = 0, **changes: Any) -> list[list[int]]:
    run = training(build("RBM"), twins(), **({"train_layers": "2-6"} | changes))
    run.rank = rank
    depths = []
    for run.step in range(steps):
        depths.append(run._depths())
    return depths


def test_every_step_draws_anew_and_all_processes_draw_the_same() -> None:
    depths = drawn(60)
    assert {depth for (depth,) in depths} == {2, 3, 4, 5, 6}
    assert depths == drawn(60) == drawn(60, rank=1)
    assert depths != drawn(60, seed=1)
    assert drawn(30) == depths[:30]
    for three in drawn(60, train_depths=3):
        assert len(set(three)) == 3
        assert three == sorted(three)
    assert drawn(3, train_layers=None) == [[], [], []]
    assert drawn(3, train_layers=4) == [[4], [4], [4]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_that_of_its_depth(kind: str) -> None:
    model = build(kind, scale=0.5)
    (depth,) = training(model, data_for(model), train_layers="2-6")._depths()
    ranged = gradients(build(kind, scale=0.5), data_for(model), train_layers="2-6")
    for name, gradient in gradients(build(kind, scale=0.5), data_for(model), train_layers=depth).items():
        close(ranged[name], gradient, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_several_depths_are_averaged(kind: str, backend: Any) -> None:
    with kernels.use(backend):
        model = build(kind, scale=0.5)
        depths = training(model, data_for(model), train_layers="1-6", train_depths=3)._depths()
        together = gradients(build(kind, scale=0.5), data_for(model), train_layers="1-6", train_depths=3)
        each = [gradients(build(kind, scale=0.5), data_for(model), train_layers=depth) for depth in depths]
    for name in together:
        close(together[name], sum(gradient[name] for gradient in each) / 3, 1e-9)


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
