"""Measure how fast the models are.

    python -m qtcore.bench              the tables of docs/speed.md; about ten minutes
    python -m qtcore.bench --quick      a quick run, about a minute
    python -m qtcore.bench --json bench.json
    python -m qtcore.bench samples      joint samples of faces and records
    python -m qtcore.bench graphs       random factor graphs, beside PGMax and pgmpy where they are installed

Fast path and naive twin (the authors' way, qtcore/paper/naive.py) are timed in turn, in one run; what counts is the ratio of
the medians. Each case has a process of its own. The naive twin has its best conditions: batches of the size that suits it
best, and an allocator that keeps freed memory. Timings of a shared machine are noisy: ratios less so.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from qtcore.errors import InputError
from qtcore.paper import graph_benchmark
from qtcore.paper.benchmark import measure, samples, tables
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically


@dataclass(frozen=True)
class Command:
    """What to measure."""

    what: Annotated[Literal["models", "samples", "graphs"], tyro.conf.Positional] = "models"
    """The models of the paper, joint samples, or factor graphs."""
    quick: bool = False
    """Fewer repetitions, one batch of the naive twin (which mostly suits it best), and a smaller table."""
    json: Path | None = None
    """Keep the numbers in this file."""


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.bench", description=__doc__)
    if command.what != "models":
        if command.json is not None:
            raise InputError(f"--json goes with the models of the paper; the table of {command.what} is only printed.")
        for line in (graph_benchmark.table if command.what == "graphs" else samples)(command.quick):
            print(line, flush=True)
        return 0
    result = measure(command.quick)
    print(tables(result))
    if command.json is not None:
        write_atomically(command.json, json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    guarded(main)
