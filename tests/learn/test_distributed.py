"""Several processes give the gradient of one: tested with two, and gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import qtcore
from qtcore.errors import NotFiniteError
from qtcore.learn import query_training
from qtcore.learn.query_training import Progress
from qtcore.learn.run import BEST, STATE
from qtcore.query import uniform
from tests.strategies import KINDS, build, close

from .children import Child, together
from .folders import FILES, log
from .support import data_for, gradients, twins, weights_of

pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    **{f"{kind}, an even batch": {"kind": kind, "batch": 8} for kind in KINDS},
    "an odd batch": {"batch": 7},
    "one row: one process has nothing to do": {"batch": 1},
    "chunks, and not equally many": {"batch": 11, "chunk": 2},
    "chunks without targets": {"batch": 11, "chunk": 2, "p_target": 0.06},
    "one process has no targets": {"batch": 3, "p_target": 0.02},
}


def case(kind: str = "RBM", batch: int = 8, chunk: int | None = None, p_target: float = 0.5) -> dict[str, torch.Tensor]:
    model = build(kind, scale=0.5)
    data = data_for(model, rows=11)
    each = model.engine.kept_bytes(model, tuple((data[0] if isinstance(data, tuple) else data).shape[1:]))
    query_training.KEPT_BYTES = 2**31 if chunk is None else chunk * each + 1
    try:
        queries = None if kind == "GridMRF" else uniform(p_target)
        return gradients(model, data, queries, batch=batch, seed=4)
    finally:
        query_training.KEPT_BYTES = 2**31


def all_cases(rank: int, folder: Path) -> None:
    for name, options in CASES.items():
        save_file(case(**options), folder / f"{name} {rank}.safetensors")


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    together(all_cases, folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_the_gradient_of_one(name: str, of_two: Path) -> None:
    expected = case(**CASES[name])
    assert any(gradient.any() for gradient in expected.values())
    for rank in (0, 1):
        result = load_file(of_two / f"{name} {rank}.safetensors")
        assert result.keys() == expected.keys()
        for key, gradient in expected.items():
            close(result[key], gradient, 1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# A whole training


def fit(**options: Any) -> Any:
    data = twins(11)
    settings = {"epochs": 3, "batch": 4, "learning_rate": 0.03, "validate_every": 2, "save_every": 4}
    return qtcore.fit(build("RBM", scale=0.5), data, **({"valid": twins(9, seed=1)} | settings | options))


def train_in_folder(rank: int, folder: Path) -> None:
    weights = weights_of(fit(folder=folder / "run", callback=lambda progress: rank == 1 and progress.step == 6))
    save_file(weights, folder / f"stopped {rank}.safetensors")
    weights = weights_of(fit(folder=folder / "run", resume=True))
    save_file(weights, folder / f"trained {rank}.safetensors")


def test_two_processes_train_the_model_of_one_also_when_one_was_asked_to_stop(tmp_path: Path) -> None:
    together(train_in_folder, tmp_path)
    stopped = weights_of(fit(callback=lambda progress: progress.step == 6))
    trained = weights_of(fit(folder=tmp_path / "one"))
    for rank in (0, 1):
        for name, expected in {"stopped": stopped, "trained": trained}.items():
            result = load_file(tmp_path / f"{name} {rank}.safetensors")
            for key, tensor in expected.items():
                close(result[key], tensor, 1e-9)
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    mine, theirs = log(tmp_path / "one"), log(tmp_path / "run")
    assert [line["step"] for line in mine] == [line["step"] for line in theirs]
    assert [line["loss"] for line in mine if "loss" in line] == pytest.approx([x["loss"] for x in theirs if "loss" in x])


def start_apart(rank: int, folder: Path) -> None:
    model = build("RBM", seed=rank, scale=0.5)  # another one in each process
    qtcore.fit(model, twins(11), steps=3, batch=4)
    save_file(weights_of(model), folder / f"{rank}.safetensors")


def test_the_first_process_decides_where_to_start(tmp_path: Path) -> None:
    together(start_apart, tmp_path)
    expected = weights_of(qtcore.fit(build("RBM", seed=0, scale=0.5), twins(11), steps=3, batch=4))
    for rank in (0, 1):
        for key, tensor in load_file(tmp_path / f"{rank}.safetensors").items():
            close(tensor, expected[key], 1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# What happens to one of them


def out_of_memory_in_one(rank: int, folder: Path) -> None:
    forward, tried = query_training._Loss.forward, []

    def cramped(self: Any, query: Any, *engine: Any) -> Any:
        tried.append(None if query is None else len(query))
        if rank == 1 and query is not None and len(query) > 1:
            raise torch.OutOfMemoryError
        return forward(self, query, *engine)

    query_training._Loss.forward = cramped  # type: ignore[method-assign]
    save_file(case(batch=8), folder / f"{rank}.safetensors")
    assert tried == ([4, None] if rank == 0 else [4, 4, 2, 1, 1, 1, 1, None])  # a chunk of 8, 4, 2 and 1 rows


def test_one_process_may_run_out_of_memory(tmp_path: Path) -> None:
    together(out_of_memory_in_one, tmp_path)
    for key, gradient in case(batch=8).items():
        for rank in (0, 1):
            close(load_file(tmp_path / f"{rank}.safetensors")[key], gradient, 1e-12)


def not_finite_in_one(rank: int, folder: Path) -> None:
    data = torch.randn(11, 4, generator=torch.Generator().manual_seed(0))
    truth = data.clone()
    data[7] = 3e38  # messages from here overflow: one process meets it, both stop
    told: list[Progress] = []
    model = build("GaussianRBM", scale=0.1, dtype=torch.float32)
    with pytest.raises(NotFiniteError) as error:
        qtcore.fit(model, (data, truth), epochs=2, batch=4, callback=told.append)
    (folder / f"{rank}.json").write_text(json.dumps([str(error.value), len(told)]))


def test_all_stop_when_one_meets_a_number_that_is_not_finite(tmp_path: Path) -> None:
    together(not_finite_in_one, tmp_path)
    said = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert said[0] == said[1]
    message, steps = said[0]
    assert message.startswith(f"step {steps + 1}: ")


# ---------------------------------------------------------------------------------------------------------------------
# The command


THREADS_AT_EXIT = """
import atexit, os, pathlib
def threads():
    names = [pathlib.Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
    (pathlib.Path(__file__).parent / f"{os.environ.get('RANK')}.threads").write_text("".join(names))
atexit.register(threads)
"""


def test_torchrun(tmp_path: Path) -> None:
    """The command of the header, with two processes: the weights of one, to rounding. They leave no thread behind."""
    (tmp_path / "sitecustomize.py").write_text(THREADS_AT_EXIT)
    options = ("rbm/digits", "--hidden", "4", "--steps", "8", "--batch", "101", "--validate-every", "4", "--valid-rows", "50")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "qtcore.train"]
    two = subprocess.run(
        [*torchrun, *options, "--out", str(tmp_path / "two")],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert two.returncode == 0, two.stderr
    for rank in (0, 1):  # gloo's, which may abort the interpreter's exit
        assert (tmp_path / f"{rank}.threads").read_text().splitlines() == ["python"]
    assert two.stdout.count("Done: ") == 1
    assert [line.split(":")[0] for line in two.stdout.splitlines() if line.startswith("step")] == ["step 4/8", "step 8/8"]
    one = Child(*options, "--out", str(tmp_path / "one"), output=tmp_path / "output")
    assert one.end() == 0
    for name in (BEST, STATE):
        expected = load_file(tmp_path / "one" / name)
        for key, tensor in load_file(tmp_path / "two" / name).items():
            torch.testing.assert_close(tensor, expected[key], rtol=1e-3, atol=1e-5)
