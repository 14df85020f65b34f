"""Measure how fast the models are.

    python -m qtcore.bench              the tables of docs/speed.md; about ten minutes
    python -m qtcore.bench --quick      a quick run, about a minute
    python -m qtcore.bench --json bench.json
    python -m qtcore.bench samples      joint samples of faces and records
    python -m qtcore.bench graphs       random factor graphs, beside PGMax and pgmpy where they are installed
    python -m qtcore.bench growth --plot growth.png     by image size, layers, batch and edges
    python -m qtcore.bench paper        minutes of training until the paper's figures are reached; --only frey digits

Fast path and naive twin (the authors' way, qtcore/paper/naive.py) are timed in turn, in one run; what counts is the ratio of
the medians. Each case has a process of its own. The naive twin has its best conditions: batches of the size that suits it
best, and an allocator that keeps freed memory. Timings of a shared machine are noisy: ratios less so.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from qtcore.errors import InputError
from qtcore.paper import graph_benchmark, growth, time_to_paper
from qtcore.paper.benchmark import machine, measure, samples, tables
from qtcore.support.cli import arguments, guarded
from qtcore.support.extras import needs
from qtcore.support.files import write_atomically


@dataclass(frozen=True)
class Command:
    """What to measure."""

    what: Annotated[Literal["models", "samples", "graphs", "growth", "paper"], tyro.conf.Positional] = "models"
    """The models of the paper, joint samples, factor graphs, how the cost grows, or trainings until the paper's figures are
    reached."""
    quick: bool = False
    """Fewer repetitions, one batch of the naive twin (which mostly suits it best), and a smaller table."""
    only: tuple[Literal["frey", "adult", "mushrooms", "digits", "grid"], ...] = ()
    """With paper: these alone."""
    plot: Path | None = None
    """With growth: draw it in this file (PNG)."""
    json: Path | None = None
    """Keep the numbers in this file."""


def _lines(command: Command) -> Iterator[str]:
    """The table of anything but the models."""
    if command.what == "paper":
        return time_to_paper.table(command.only or tuple(time_to_paper.GOALS), command.quick, machine())
    if command.what == "growth":
        return growth.table(command.quick, machine(), command.plot)
    return (graph_benchmark.table if command.what == "graphs" else samples)(command.quick)


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.bench", description=__doc__)
    for option, given, what in (("--only", command.only, "paper"), ("--plot", command.plot, "growth")):
        if given and command.what != what:
            raise InputError(f"{option} goes with `{what}`.")
    if command.plot is not None:
        needs("bench", "matplotlib")
    if command.what != "models":
        if command.json is not None:
            raise InputError(f"--json goes with the models of the paper; the table of {command.what} is only printed.")
        for line in _lines(command):
            print(line, flush=True)
        return 0
    result = measure(command.quick)
    print(tables(result))
    if command.json is not None:
        write_atomically(command.json, json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    guarded(main)
