"""Threads and processes: every sample is handled once, several callers do not disturb each other, and a fork does not hang."""

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from qtcore.kernels import buffers, threads
from qtcore.kernels.threads import share

from ..strategies import answer, ask, build, close, learnable
from .support import HAS_KERNEL, needs_compiler


@pytest.mark.parametrize(("batch", "threads", "least"), [(7, 3, 1), (2, 4, 1), (1, 2, 1), (10, 4, 5)])
def test_every_sample_is_handled_once(batch: int, threads: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    parts: list[tuple[int, int, int]] = []
    count = share(batch, lambda first, last, thread: parts.append((first, last, thread)), least)
    assert count == len(parts) == min(threads, batch // least)
    assert [i for first, last, _ in sorted(parts) for i in range(first, last)] == list(range(batch))
    assert sorted(thread for _, _, thread in parts) == list(range(count))


def test_an_error_in_any_part_is_raised_when_all_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    done = []

    def work(first: int, last: int, thread: int) -> None:
        if thread == which:
            raise ValueError(f"part {thread}")
        done.append(thread)

    for which in range(3):
        done.clear()
        with pytest.raises(ValueError, match=f"part {which}"):
            share(6, work)
        assert sorted(done) == [thread for thread in range(3) if thread != which]


def test_no_part_runs_twice_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool queues a part before it starts a thread for it: the next call's threads once ran it again, on memory that was
    somebody else's by then."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_pool", None)
    start, failed = threading.Thread.start, []

    def fails_once(thread: threading.Thread) -> None:
        if not failed:
            failed.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails_once)
    ran: list[tuple[str, int]] = []
    for call in ("first", "second"):
        share(6, lambda first, last, thread, call=call: ran.append((call, thread)))  # type: ignore[misc]
    pool = threads._pool
    assert pool is not None
    pool.shutdown(wait=True)  # whatever is queued has run by then
    assert failed
    assert sorted(ran) == [(call, thread) for call in ("first", "second") for thread in range(3)]


def test_an_error_is_raised_when_all_are_done_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(threads, "_pool", None)

    def fails(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    done = []

    def work(first: int, last: int, thread: int) -> None:
        done.append(thread)
        if thread == 1:
            raise ValueError("part 1")

    with pytest.raises(ValueError, match="part 1"):
        share(6, work)
    assert sorted(done) == [0, 1, 2]


def loss_and_gradient(model: Any, query: Any) -> list[Tensor]:
    loss = model.loss(query)
    return [loss.detach(), *torch.autograd.grad(loss, list(learnable(model).values()))]


@needs_compiler
@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_many_callers_at_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads ask one model different questions, each of them shared by two threads more."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model = build(kind, 3)
    queries = [ask(model, seed, batch=3 + seed % 3) for seed in range(24)]
    expected = [[answer(model(query)), *loss_and_gradient(model, query)] for query in queries]
    with ThreadPoolExecutor(8) as callers:
        for _ in range(3):
            result = callers.map(lambda query: [answer(model(query)), *loss_and_gradient(model, query)], queries)
            for ours, theirs in zip(result, expected, strict=True):
                for a, b in zip(ours, theirs, strict=True):
                    close(a, b, 1e-12)


class Answers(Dataset[Tensor]):
    """What a model says, computed by whoever loads it."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Tensor:
        return answer(self.model(ask(self.model, i, batch=4))).detach()


def child(model: Any, queue: Any) -> None:
    queue.put(answer(model(ask(model, 0, batch=4))).detach().tolist())


@needs_compiler
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.parametrize("kind", ["RBM", "GridMRF"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_works_after_a_call(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads do not survive a fork: a child once waited for ever for those of its parent. Here they are ours alone."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model = build(kind, 3)
    with torch.no_grad():
        expected = [answer(model(ask(model, i, batch=4))) for i in range(4)]
        assert threads._pool is not None
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(model, queue), daemon=True)
        process.start()
        result = torch.tensor(queue.get(timeout=300), dtype=expected[0].dtype)
        process.join(30)
        assert process.exitcode == 0
        close(result, expected[0], 1e-12)
        loader = DataLoader(Answers(model), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=300)
        for ours, theirs in zip(loader, expected, strict=True):
            close(ours, theirs, 1e-12)


FORKED = """
import os, signal, sys, time
import torch
import qtcore

torch.set_num_threads(2)
model = qtcore.RBM(200, 80)
query = qtcore.Query(torch.ones(400, 200), torch.arange(200).expand(400, 200) < 120)
with torch.no_grad():
    expected = model(query).probs
    child = os.fork()
    if child == 0:
        same = torch.allclose(model(query).probs, expected, atol=1e-6) and torch.rand(10**6).log().exp().sum() > 0
        os._exit(0 if same and torch.get_num_threads() == 1 else 1)
for _ in range(300):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, signal.SIGKILL)
sys.exit("the child hangs")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_a_fork_works_after_torch_has_used_its_threads(backend: str) -> None:
    """torch's threads do not survive it either: a child once hung in the first function that it shared among them."""
    environment = os.environ | {"QTCORE_BACKEND": backend, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_lock_that_was_held_at_a_fork_is_free_in_the_child() -> None:
    pool = buffers.Pool()
    pool._lock.acquire()
    pool.after_fork()
    assert pool.lend((2, 3), torch.float32).shape == (2, 3)
