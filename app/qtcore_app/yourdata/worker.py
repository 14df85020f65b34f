"""Trains a model of a table, in a process of its own that gives way to everything else on the machine.

Of standard input the first line is the order (JSON: "cells", "schema", "minutes"), a later one "stop" ends the training with
the best weights so far, and its end, as when the app is gone, ends the process. To standard output goes a line of JSON for
each thing there is to tell: "rows" and "baseline" once, "step", "steps", "left" and "valid" on the way, and at last "model", or
"error". Nothing is written to any file.
"""

import os

if hasattr(os, "nice"):
    os.nice(10)  # as `engine.PATIENT`; before anything else is imported, which takes seconds

import base64
import json
import sys
import threading
import time
from typing import Any

import torch

from qtcore.errors import InputError
from qtcore.learn.query_training import VALID, Progress, generator
from qtcore.learn.table_training import QUERIES, fit_table, split
from qtcore.metrics import BITS, score
from qtcore.models.table_model import TableModel
from qtcore.tabular import Schema, Table

EVERY = 0.5
"""Seconds between two lines about the same validation."""


def tell(**words: Any) -> None:
    print(json.dumps(words), flush=True)


class Teller:
    """Tells how the training goes, and stops it when it should."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop, self.told = stop, 0.0
        self.first: float | None = None
        """When the first step was done: before, a few are tried."""
        self.valid: float | None = None

    def __call__(self, progress: Progress) -> bool:
        now = time.monotonic()
        self.first = now if self.first is None else self.first
        if progress.valid != self.valid or now > self.told + EVERY:
            left = (now - self.first) / max(1, progress.step - 1) * (progress.steps - progress.step)
            fresh = progress.valid if progress.valid != self.valid else None
            tell(step=progress.step, steps=progress.steps, left=round(left, 1), valid=fresh)
            self.valid, self.told = progress.valid, now
        return self.stop.is_set()


def listen(stop: threading.Event) -> None:
    """Until nobody speaks any more."""
    for line in sys.stdin:
        if line.strip() == "stop":
            stop.set()
    os._exit(0)


def frequencies(table: Table) -> float:
    """The NCE in bits of answers that know how frequent each level is, and nothing else, on the held-out cells."""
    train, valid = split(table)
    model = TableModel(table.schema, n_hidden=0, lateral=False)
    model.start_from(train)
    valid = valid.repeat(-(-QUERIES // len(valid)), 1)
    return float(score(model, valid, model.queries(), generator(VALID)).mean) * BITS


def work(order: dict[str, Any]) -> None:
    stop = threading.Event()
    threading.Thread(target=listen, args=[stop], daemon=True).start()
    table = Table(order["cells"], Schema.from_list(order["schema"]))
    tell(rows=len(table), baseline=frequencies(table))
    model = fit_table(table, order["minutes"], callback=Teller(stop))
    tell(model=base64.b64encode(model.to_bytes()).decode())


def main() -> None:
    torch.set_num_threads(1)
    try:
        work(json.loads(sys.stdin.readline()))
    except InputError as error:
        tell(error=str(error))
    except MemoryError:
        tell(error="there is not enough memory for a table of this size.")


if __name__ == "__main__":
    main()
