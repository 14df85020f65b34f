"""Models, devices and runs: layers of belief propagation computed outside the event loop, the latest query first.

Nothing here depends on a browser. A run is advanced in short slices in a thread pool; between two slices it can be
cancelled, so that a new stroke never waits for an old one, and many users take turns.
"""

import asyncio
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

import qtcore
from qtcore.inference import Engine, Layer
from qtcore.models.base import Model
from qtcore.query import Query
from qtcore_app.frames import Encoder, Header, Trace, pack

log = logging.getLogger(__name__)
T = TypeVar("T")

SLICE = 0.02
"""Seconds of layers between two points where a run can be cancelled (or another user's run continues)."""
EMIT = 0.05
"""Seconds between two unfinished pictures of the same run."""
PATIENT = 10
"""The niceness of what may wait."""


@dataclass(frozen=True)
class Device:
    """Where the layers run, and what to tell the user about it."""

    name: str
    label: str
    sentence: str = ""
    refused: bool = False
    """Whether another device was requested."""


@functools.cache
def device() -> Device:
    """The device named by QTCORE_DEVICE, else CUDA, MPS or the CPU; with a sentence if it is not the expected one."""
    wanted = os.environ.get("QTCORE_DEVICE", "").strip().lower()
    names = [wanted] if wanted else ["cuda", "mps"]
    for name in names:
        if name and _works(name):
            return Device(name, name.split(":")[0].upper())
    if wanted and wanted != "cpu":
        return Device("cpu", "CPU", f"The device {wanted[:20]!r} cannot be used here, so the layers run on the CPU.", True)
    return Device("cpu", "CPU", "" if wanted else "No GPU was found, so the layers run on the CPU.")


def _works(name: str) -> bool:
    try:
        return float((torch.ones(2, device=name) * 2).sum()) == 4
    except (RuntimeError, AssertionError, ValueError, NotImplementedError):
        return False


# ---------------------------------------------------------------------- models, one of each for all users

_lock = threading.Lock()
_models: dict[str, Model] = {}


def model(name: str) -> Model:
    """The shipped model of this name, shared by all sessions."""
    return _shared(name, lambda: qtcore.load(name))


def untrained(like: Model) -> Model:
    """A model of the same kind and size with random initial parameters, shared as well."""

    def make() -> Model:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            fresh = type(like)(**like.config())
        fresh.statistics, fresh.provenance, fresh.image_shape = like.statistics, like.provenance, like.image_shape
        return fresh

    return _shared(f"untrained {type(like).__name__} {sorted(like.config().items())}", make)


def _shared(key: str, make: Callable[[], Model]) -> Model:
    with _lock:
        if key not in _models:
            _models[key] = make().to(device().name).requires_grad_(False)
        return _models[key]


def first_available(*names: str) -> str | None:
    """The first of these names that is shipped."""
    shipped = qtcore.available()
    return next((name for name in names if name in shipped), None)


# ---------------------------------------------------------------------- runs


@dataclass(frozen=True, eq=False)
class Run:
    """One model's answer to one query: what to compute and how to encode a layer."""

    label: str
    model: Model
    query: Query
    encoder: Encoder
    n_layers: int
    """At most so many: an engine may stop by itself."""
    engine: Engine | None = None
    """Another engine than the model's own."""

    def layers(self) -> Iterator[Layer]:
        return self.model.trace(self.query.to(self.model.device), self.n_layers, self.engine)


@dataclass(eq=False)
class Progress:
    """A run in progress: advanced slice by slice, in any thread."""

    run: Run
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        self.trace = Trace(self.run.label, self.run.n_layers)
        self._layers = self.run.layers()

    @property
    def done(self) -> bool:
        return self.trace.count > self.trace.total

    def advance(self, seconds: float) -> None:
        """Compute layers for about this many seconds, at least one if there is one left."""
        deadline = time.perf_counter() + seconds
        with torch.inference_mode():
            for layer in self._layers:
                self.trace.add(*self.run.encoder.encode(layer))
                if self.done or time.perf_counter() >= deadline:
                    return
        self.trace.total = self.trace.count - 1  # the engine has stopped by itself


def _one_thread() -> None:
    torch.set_num_threads(1)  # the tensors of one image are small: a second thread costs more than it saves


pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2), thread_name_prefix="qtcore-app", initializer=_one_thread)


def _patiently() -> None:
    _one_thread()
    if sys.platform == "linux":  # elsewhere this would slow down the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PATIENT)


background = ThreadPoolExecutor(1, thread_name_prefix="qtcore-background", initializer=_patiently)
"""Joint answers take seconds: in a thread of their own they never stand in the way of a stroke, anybody's."""


def in_pool(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a thread of the pool, with one thread for its tensors, and wait. Not from within the pool."""
    return pool.submit(function, *arguments).result()


def compute(header: Header, runs: Sequence[Run]) -> bytes:
    """All frames of all runs at once: for the first picture of a page, and for tests."""

    def traces() -> list[Trace]:
        progresses = [Progress(run) for run in runs]
        for progress in progresses:
            progress.advance(float("inf"))
        return [progress.trace for progress in progresses]

    return pack(header, in_pool(traces))


async def stream(header: Header, runs: Sequence[Run]) -> AsyncIterator[bytes]:
    """Blobs of frames, each with all layers so far; the last one is complete. Cancel the task to cancel the runs."""
    loop = asyncio.get_running_loop()
    progresses = [Progress(run) for run in runs]
    emitted = float("-inf")
    for progress in progresses:
        while not progress.done:
            await loop.run_in_executor(pool, progress.advance, SLICE)
            complete = all(item.done for item in progresses)
            if complete or time.monotonic() - emitted >= EMIT:
                yield pack(header, [item.trace for item in progresses if item.trace.count])
                emitted = time.monotonic()


async def one_by_one(items: Iterable[T]) -> AsyncIterator[T]:
    """The items, each computed by a call of its own in the background, so that users take turns. Cancel the task to stop."""
    loop, iterator, end = asyncio.get_running_loop(), iter(items), object()

    def following() -> Any:
        with torch.inference_mode():
            return next(iterator, end)

    while (item := await loop.run_in_executor(background, following)) is not end:
        yield item


class Latest:
    """Runs only the latest job: `submit` cancels the previous one, between two of its slices.

    Must be used from the thread of one event loop; without a running loop a job runs to completion immediately.
    """

    def __init__(self, failed: Callable[[str], None] | None = None) -> None:
        self._task: asyncio.Task[None] | None = None
        self._failed = failed or (lambda sentence: None)
        self.cancelled = 0

    def submit(self, job: Callable[[], Awaitable[None]]) -> None:
        self.cancel()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self._guard(job))
            return
        self._task = loop.create_task(self._guard(job))

    def cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self.cancelled += 1
        self._task = None

    async def _guard(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job; a failure is logged and reported in plain words, so that no traceback reaches a browser."""
        try:
            await job()
        except asyncio.CancelledError:
            raise
        except (ValueError, OSError) as error:  # the library's own sentences
            log.warning("a run was refused: %s", error)
            self._failed("The model could not answer this question; try another mask or image.")
        except Exception:
            log.exception("a run failed")
            self._failed("Something went wrong in this run; the rest of the page still works.")
