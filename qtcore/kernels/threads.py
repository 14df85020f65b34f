"""A batch shared by threads: as many as torch uses, each with a part of its own."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch

Part = tuple[int, int, int]
Work = Callable[[int, int, int], None]

_pool: ThreadPoolExecutor | None = None


def parts_of(batch: int, least: int = 1) -> list[Part]:
    """(first, last, thread) of each part of a batch, in parts of no fewer than `least` samples."""
    threads = max(1, min(torch.get_num_threads(), batch // least))
    cuts = [batch * i // threads for i in range(threads + 1)]
    return list(zip(cuts, cuts[1:], range(threads), strict=False))


def share(batch: int, work: Work, least: int = 1) -> int:
    """Call work(first, last, thread) for parts of the batch, at the same time. Returns the number of parts."""
    parts = parts_of(batch, least)
    run(parts, work)
    return len(parts)


def run(parts: Sequence[Part], work: Work, stop: Callable[[], None] | None = None) -> None:
    """Call work(first, last, thread) for each part, at the same time. An error is raised when all are done.

    The first part is the caller's own, so that a single sample needs no other thread. But Python tells only the main thread
    of a signal such as Ctrl-C, and only between two of its own instructions: when work is so long that there is a way to
    `stop` it, the main thread leaves all parts to others and waits.
    """
    waits = stop is not None and threading.current_thread() is threading.main_thread()
    waiting = [_start(work, part) for part in (parts if waits else parts[1:])]
    try:
        if waits:
            wait(waiting)
        else:
            work(*parts[0])
    except BaseException:
        if stop is not None:
            stop()
        raise
    finally:
        errors = [future.exception() for future in waiting]  # nobody may still write when this returns
    for error in errors:
        if error is not None:
            raise error


def _start(work: Work, part: Part) -> "Future[None]":
    """Give a part to a thread of the pool, or do it here if there can be none."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="qtcore-kernels")
    done: Future[None] = Future()
    taken = threading.Lock()

    def once() -> None:
        if not taken.acquire(blocking=False):
            return
        try:
            work(*part)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    try:
        _pool.submit(once)
    except RuntimeError:  # no new thread: too many already, or the interpreter is shutting down
        once()  # the pool may have queued it all the same, and then finds it taken: its memory is somebody else's by then
    return done


def _forget() -> None:
    """In a child process: threads do not survive a fork, neither ours nor torch's, and work given to them is never done."""
    global _pool
    _pool = None
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
