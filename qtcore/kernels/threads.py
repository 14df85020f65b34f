"""A batch shared by threads: as many as torch uses, each with a part of its own."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

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


def run(parts: Sequence[Part], work: Work) -> None:
    """Call work(first, last, thread) for each part, at the same time.

    The first part is the caller's own, so that a single sample needs no other thread. An error is raised when all are done.
    """
    own, *others = parts
    waiting = [_start(work, part) for part in others]
    try:
        work(*own)
    finally:
        errors = [future.exception() for future in waiting]  # nobody may still write when this returns
    for error in errors:
        if error is not None:
            raise error


def _start(work: Work, part: Part) -> "Future[None]":
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1), thread_name_prefix="qtcore-kernels")
    try:
        return _pool.submit(work, *part)
    except RuntimeError:  # the interpreter is shutting down: no new threads
        done: Future[None] = Future()
        work(*part)
        done.set_result(None)
        return done


def _forget() -> None:
    """In a child process: threads do not survive a fork, and work given to them would never be done."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
