"""Ctrl-C is heard inside a kernel, whatever it computes, and nobody's memory goes away meanwhile."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import qtcore
from qtcore import infer, kernels
from qtcore.errors import NotFiniteError
from qtcore.kernels import buffers, build, threads
from qtcore.kernels.ops import shared

from ..commands import Command, command  # noqa: F401  (a fixture)
from ..strategies import F64, ask
from ..strategies import build as build_model
from .support import HAS_KERNEL, needs_compiler
from .test_ops import CASES, tracked

pytestmark = needs_compiler
FOREVER = 2**40
"""Layers that nobody lives to see the end of."""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ctrl-C is pressed as soon as a kernel runs that takes long."""
    waited = []

    def wait(futures: Any) -> Any:
        waited.append(len(futures))
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        return real(futures)

    real = threads.wait
    monkeypatch.setattr(threads, "wait", wait)
    return waited


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", [name for name in CASES if "depths" not in name])
def test_an_interrupt_is_heard(name: str, n_threads: int, soon: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    layers, _, make = CASES[name]
    before = buffers.usage().lent
    with pytest.raises(KeyboardInterrupt):
        layers(*make(n=FOREVER))
    assert soon == [n_threads]
    assert buffers.usage().lent == before


def test_an_interrupt_that_is_no_end_changes_nothing(soon: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal whose handler raises nothing, such as a training's, which ends after its step."""
    monkeypatch.setattr(shared, "LONG", 0)
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        layers, _, make = CASES["binary"]
        result = layers(*make(n=100_000))
        while not heard:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert soon
    monkeypatch.undo()
    assert torch.equal(result, layers(*make(n=100_000)))


@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_a_backward_pass_hears_it_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model(kind)
    loss = model.loss(ask(model))

    def wait(futures: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shared, "LONG", 0)
    monkeypatch.setattr(threads, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        loss.backward()


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What each kernel returned when it was told to stop before its first layer."""
    returned: dict[str, int] = {}
    code = build.library(F64).code

    def recorded(name: str, kernel: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            returned[name] = kernel(*arguments)
            return returned[name]

        return call

    def run(parts: Any, work: Any, stop: Any) -> None:
        if stop is not None:
            stop()
        threads.run(parts, work)

    for name in build.KERNELS:
        monkeypatch.setattr(code, name, recorded(name, getattr(code, name)))
    monkeypatch.setattr(shared, "LONG", 0)
    monkeypatch.setattr(shared, "run", run)
    return returned


def test_every_kernel_stops(results: dict[str, int]) -> None:
    for layers, _, make in CASES.values():
        outputs = layers(*tracked(make()))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum(output.sum() for output in outputs if output.requires_grad).backward()
    for kind in HAS_KERNEL:
        for damping in (0.0, 0.3):
            model = build_model(kind, damping=damping)
            with contextlib.suppress(NotFiniteError):  # what was not computed is whatever was in memory
                list(model.trace(ask(model)))
    no_layers = {"factors_prepare": 0}
    assert results == dict.fromkeys(build.KERNELS, shared.STOPPED) | no_layers


def test_memory_outlives_whoever_works_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt may come twice: once during the work, once while the threads are waited for."""
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    code = build.library(F64).code

    def slow(*_: Any) -> int:
        begun.set()
        go_on.wait()
        return 0

    def run(parts: Any, work: Any, stop: Any) -> None:
        def once() -> None:
            work(*parts[0])
            ended.set()

        threading.Thread(target=once).start()
        begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(code, "binary_forward", slow)
    monkeypatch.setattr(shared, "run", run)
    before = buffers.usage().lent
    layers, _, make = CASES["binary"]
    with pytest.raises(KeyboardInterrupt) as interrupt:
        layers(*make())
    del interrupt
    assert buffers.usage().lent > before
    go_on.set()
    ended.wait()


def test_the_command_hears_it(command: Command, soon: list[int], tmp_path: Any) -> None:  # noqa: F811
    """It was still computing ten seconds later."""
    qtcore.RBM(400, 100).save(tmp_path / "model.safetensors")
    (tmp_path / "rows.csv").write_text("?," * 399 + "1\n")
    with kernels.use("native"):
        result = command(infer.main, tmp_path / "model.safetensors", tmp_path / "rows.csv", "--layers", 10**6)
    assert soon
    assert (result.code, result.err) == (130, "Interrupted.\n")
    assert not (tmp_path / "rows.marginals.csv").exists()


def test_more_layers_than_anybody_waits_for_are_refused(command: Command, tmp_path: Any) -> None:  # noqa: F811
    qtcore.RBM(4, 3).save(tmp_path / "model.safetensors")
    (tmp_path / "rows.csv").write_text("?,1,0,1\n")
    result = command(infer.main, tmp_path / "model.safetensors", tmp_path / "rows.csv", "--layers", 10**12)
    assert result.sentence == "n_layers must be at most 1000000, not 1000000000000."
