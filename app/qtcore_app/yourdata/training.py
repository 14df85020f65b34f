"""Trainings of all visitors, each in a process of its own at a low priority, so that none stands in the way of a stroke.

As many run at once as there are places; the others wait in the order in which they came.
"""

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from qtcore.errors import InputError
from qtcore.models.files import from_bytes
from qtcore.models.table_model import TableModel
from qtcore.tabular import Table

PLACES = 2 if (os.cpu_count() or 1) > 2 else 1
"""Trainings that run at once."""
TICK = 0.5
"""Seconds after which whoever follows a training hears of it even if there is no news."""
PATIENCE, MORE = 3.0, 120.0
"""A training is given up after so many times the time that it was given, and so many seconds more."""
WORKER = ("-m", "qtcore_app.yourdata.worker")
ALONE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

readers = ThreadPoolExecutor(2 * PLACES, thread_name_prefix="qtcore-tables")
"""Threads that wait for what processes say."""

Event = dict[str, Any]


class Turns:
    """A queue with so many places at its head.

    Example:
        >>> turns = Turns(1)
        >>> first, second = turns.enter(), turns.enter()
        >>> turns.before(first), turns.before(second)
        (0, 1)
        >>> turns.leave(first)
        >>> turns.before(second)
        0
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._tickets: list[object] = []

    def enter(self) -> object:
        ticket = object()
        with self._lock:
            self._tickets.append(ticket)
        return ticket

    def before(self, ticket: object) -> int:
        """How many have to end before it is this one's turn."""
        with self._lock:
            return max(0, self._tickets.index(ticket) + 1 - self.places)

    def leave(self, ticket: object) -> None:
        with self._lock:
            self._tickets.remove(ticket)


turns = Turns(PLACES)


class Training:
    """One training. `events` begins it and follows it; whoever stops to follow it ends it."""

    def __init__(self, table: Table, minutes: float) -> None:
        self.table, self.minutes = table, minutes
        self.process: subprocess.Popen[bytes] | None = None
        self.model: TableModel | None = None
        self.file = b""
        """The model's file."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """What there is to tell (see `worker`), nothing every now and then, and {"waiting": number of others} before; at the
        end `model` is there, or an InputError is raised."""
        ticket = turns.enter()
        try:
            while before := turns.before(ticket):
                yield {"waiting": before}
                await asyncio.sleep(TICK)
            async with contextlib.aclosing(self._run()) as run:
                async for event in run:
                    yield event
        finally:
            turns.leave(ticket)

    def stop(self) -> None:
        """End the training soon, with the best weights so far."""
        if self.process is not None and self.process.stdin is not None:
            readers.submit(said, self.process.stdin, b"stop")  # which may have to wait until the order is read

    async def _run(self) -> AsyncGenerator[Event, None]:
        loop = asyncio.get_running_loop()
        process = self.process = started()
        deadline = loop.time() + PATIENCE * 60 * self.minutes + MORE
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            await loop.run_in_executor(readers, self._order, process.stdin)
            while True:
                reading = loop.run_in_executor(readers, process.stdout.readline)
                while not (await asyncio.wait([reading], timeout=TICK))[0]:
                    if loop.time() > deadline:
                        raise InputError("the training took too long and was given up; try a smaller table.")
                    yield {}
                event = parsed(reading.result())
                if "error" in event:
                    raise InputError(event["error"])
                if "model" in event:
                    await loop.run_in_executor(readers, self._take, event["model"])
                    return
                yield event
        finally:
            self.process = None
            ended(process)

    def _order(self, stdin: "IO[bytes]") -> None:
        order = {"cells": self.table.cells, "schema": self.table.schema.as_list(), "minutes": self.minutes}
        said(stdin, json.dumps(order).encode())

    def _take(self, text: str) -> None:
        self.file = base64.b64decode(text)
        model = from_bytes(self.file)
        assert isinstance(model, TableModel)
        self.model = model.requires_grad_(False)


def started() -> "subprocess.Popen[bytes]":
    """A process that waits for its order."""
    return subprocess.Popen(
        [sys.executable, *WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a traceback could hold cells of the table
        env=os.environ | ALONE,
        creationflags=getattr(subprocess, "IDLE_PRIORITY_CLASS", 0),  # Windows has no niceness
    )


def said(stdin: "IO[bytes]", line: bytes) -> None:
    """Say a line to a process; one that has died is noticed when it is listened to."""
    with contextlib.suppress(OSError, ValueError):
        stdin.write(line + b"\n")
        stdin.flush()


def ended(process: "subprocess.Popen[bytes]") -> None:
    """End a process, whatever it does."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def parsed(line: bytes) -> Event:
    """A line that the process said; raise an InputError if it has ended instead."""
    if not line:
        raise InputError("the training ended unexpectedly; try again, or try a smaller table.")
    event: Event = json.loads(line)
    return event
