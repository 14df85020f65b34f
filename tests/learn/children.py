"""Training in processes of their own, which can be killed.

A server imports torch once and forks a child for each run: the child is a process like any other, but starts in a moment.
What a child does beyond the command itself (wait in the middle of a save, run out of disk) is done to it from here.
"""

import functools
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from qtcore import data, train
from qtcore.learn import processes, query_training
from qtcore.support.cli import guarded

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.learn.warm"])

load = functools.cache(data.load)

STAGES = ("half written", "written", "synced", "renamed")
"""Moments of a save: in the middle of the bytes, before the flush, before the rename, after it."""


Trap = tuple[str, str, int]
"""Part of a file's name, a stage, and how many times it passes before."""


class Child:
    """One run of the train command."""

    def __init__(
        self, *arguments: str, output: Path, trap: "Trap | None" = None, room: int | None = None, hold: int | None = None
    ) -> None:
        """`trap`: wait for death at a stage of the n-th save of a file; `room`: no file may be larger than so many bytes;
        `hold`: wait for a signal within the n-th step."""
        self.output = output
        output.write_bytes(b"")
        self.news, there = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=_train, args=(arguments, str(output), there, trap, room, hold))
        self.process.start()
        there.close()

    def wait_for(self, event: str, seconds: float = 300) -> bool:
        """Whether the child came to "begun" or "trapped"; False when it ended before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.news.poll(end - time.monotonic()) and self.news.recv() == event:
                    return True
            except EOFError:
                return False
        raise TimeoutError(f"nothing of {event!r} within {seconds} s: {self.text}")

    def signal(self, number: int) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)

    def end(self, seconds: float = 300) -> int:
        """The exit code as a shell shows it: 128 + n for a signal."""
        self.process.join(seconds)
        code = self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
            raise TimeoutError(f"still running after {seconds} s: {self.text}")
        self.news.close()
        self.process.close()
        return code if code >= 0 else 128 - code

    @property
    def text(self) -> str:
        """What it printed, on both outputs."""
        return self.output.read_text(encoding="utf-8")


def _train(
    arguments: tuple[str, ...], output: str, news: Connection, trap: Trap | None, room: int | None, hold: int | None
) -> None:
    with open(output, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    data.load = load
    _announce(news)
    if trap is not None:
        _set_trap(*trap, news)
    if hold is not None:
        _hold(hold, news)
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    sys.argv = ["train", *arguments]
    try:
        guarded(train.main)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _announce(news: Connection) -> None:
    go = query_training._Training.run

    def announced(self: Any, callback: Any) -> Any:
        news.send("begun")
        return go(self, callback)

    query_training._Training.run = announced  # type: ignore[method-assign]


def _hold(number: int, news: Connection) -> None:
    """Wait for a signal within this step, however long it takes to come."""
    go, steps, heard = query_training._Training._one_step, 0, []

    def held(self: Any) -> float:
        nonlocal steps
        steps += 1
        if steps == number:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, functools.partial(hear, signal.getsignal(each)))
            news.send("trapped")
            while not heard:
                time.sleep(0.01)
        return go(self)

    def hear(handler: Any, each: int, frame: Any) -> None:
        heard.append(each)
        handler(each, frame)

    query_training._Training._one_step = held  # type: ignore[method-assign]


def _set_trap(file: str, stage: str, count: int, news: Connection) -> None:
    """Stop for good at this stage of the count-th save of this file."""
    result = 0

    def passing(here: str, path: str) -> None:
        nonlocal result
        if here == stage and file in Path(path).name:
            result += 1
            if result == count:
                news.send("trapped")
                time.sleep(600)

    sync, rename, write = os.fsync, os.replace, Path.write_bytes

    def slow_sync(handle: Any) -> None:
        path = os.readlink(f"/proc/self/fd/{handle if isinstance(handle, int) else handle.fileno()}")
        passing("written", path)
        sync(handle)

    def slow_rename(old: Any, new: Any) -> None:
        passing("synced", str(new))
        rename(old, new)
        passing("renamed", str(new))

    def slow_write(path: Path, content: Any) -> int:
        write(path, content[: len(content) // 2])
        passing("half written", str(path))
        return write(path, content)

    os.fsync, os.replace = slow_sync, slow_rename
    Path.write_bytes = slow_write  # type: ignore[method-assign]


# ---------------------------------------------------------------------------------------------------------------------
# Several processes that train together


def together(work: Callable[..., None], *arguments: Any, world: int = 2, seconds: float = 300) -> None:
    """Call work(rank, *arguments) in so many processes that know each other by gloo."""
    store = arguments[0] / "store"
    processes = [CONTEXT.Process(target=_member, args=(rank, world, str(store), work, arguments)) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(seconds)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
        process.join()
    assert codes == [0] * world


def _member(rank: int, world: int, store: str, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ["WORLD_SIZE"] = str(world)
    with pytest.MonkeyPatch.context() as patch:
        place = {"init_method": f"file://{store}", "rank": rank, "world_size": world}
        patch.setattr(torch.distributed, "init_process_group", functools.partial(torch.distributed.init_process_group, **place))
        processes.start_processes(torch.device("cpu"))
    work(rank, *arguments)
    torch.distributed.destroy_process_group()
    names = [Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
    assert not [name for name in names if "gloo" in name], "a thread that outlives its group may abort the exit"
