"""Tables with names and levels in files: what is asked in one CSV file, what a model of a table answers in another one."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.io.joint_tables import ORDERS
from qtcore.models.table_model import TableModel
from qtcore.support.progress import progress
from qtcore.tabular import Table

AT_ONCE = 256
"""Rows that are asked about together."""


def read(model: TableModel, path: Path) -> Table:
    """The rows of a file, as this model reads them: columns in any order by name, those that are missing unknown."""
    return Table.read(path, model.schema)


def answer(
    model: TableModel,
    table: Table,
    out: Path,
    samples: int | None = None,
    joint: bool = False,
    about: str | None = None,
    engine: Engine | None = None,
) -> str:
    """Write completions, joint probabilities, what the gaps would tell about a column, or else the probabilities of all
    gaps; the beginning of a sentence about it."""
    generator = torch.Generator().manual_seed(0)
    if samples:
        return f"{samples} samples of each of {sample_table(model, table, out, samples, generator, engine)} rows are"
    if joint:
        return f"the log-probabilities of {joint_table(model, table, out, generator, engine)} rows are"
    if about is not None:
        return f"what the blanks of {next_table(model, table, out, about, engine)} rows would tell about {about} is"
    rows, gaps = infer_table(model, table, out, engine)
    return f"{gaps} blanks in {rows} rows; their marginals are"


def _parts(table: Table) -> Iterator[tuple[int, Table]]:
    """Some rows at a time, with the number of those before."""
    for start in progress(range(0, len(table), AT_ONCE), "rows"):
        yield start, table[start : start + AT_ONCE]


def _write(out: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> int:
    """Write lines below a header; return how many."""
    count = 0
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for count, line in enumerate(lines, 1):  # noqa: B007  (the number of the last one is returned)
            writer.writerow("" if cell is None else f"{cell:.7g}" if isinstance(cell, float) else cell for cell in line)
    return count


def infer_table(model: TableModel, table: Table, out: Path, engine: Engine | None = None) -> tuple[int, int]:
    """Write the probability of every level of all gaps, with mean and quantiles of numbers; the numbers of rows and gaps."""
    gaps = table.values.isnan()

    def lines() -> Iterator[Sequence[Any]]:
        for start, part in _parts(table):
            if not bool(part.values.isnan().any()):
                continue
            answers = model.ask(part, engine=engine)
            for row in range(len(part)):
                names = [name for name, gap in zip(model.schema.names, gaps[start + row].tolist(), strict=True) if gap]
                for line in answers.lines(row, names):
                    yield start + line[0], *line[1:]

    _write(out, ["row", "column", "level", "probability", "mean", "q10", "median", "q90"], lines())
    return len(table), int(gaps.sum())


def sample_table(
    model: TableModel,
    table: Table,
    out: Path,
    n: int,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
    **how: Any,
) -> int:
    """Write n completions of every row, drawn jointly; return the number of rows."""

    def lines() -> Iterator[Sequence[Any]]:
        for start, part in _parts(table):
            cells = model.sample(part, n, generator=generator, engine=engine, **how).cells.values()
            for k, row in enumerate(zip(*cells, strict=True)):
                yield start + k // n + 1, k % n + 1, *row

    return _write(out, ["row", "sample", *(column.name for column in table.schema)], lines()) // n


def joint_table(
    model: TableModel, table: Table, out: Path, generator: "torch.Generator | None" = None, engine: Engine | None = None
) -> int:
    """Write the joint log-probability of what is known in every row, in nats, and its spread over orders."""

    def lines() -> Iterator[Sequence[Any]]:
        for start, part in _parts(table):
            answer = model.log_prob(part, ORDERS, generator=generator, engine=engine)
            for row, (mean, spread) in enumerate(zip(answer.mean.tolist(), answer.spread.tolist(), strict=True)):
                yield start + row + 1, mean, f"{spread:.3g}"

    return _write(out, ["row", "log_prob", "spread"], lines())


def next_table(model: TableModel, table: Table, out: Path, about: str, engine: Engine | None = None) -> int:
    """Write what each gap would tell about one column, in bits, the most first; return the number of rows."""
    place = model.schema.place(about)
    known = (~table.values[:, place].isnan()).nonzero()[:, 0]
    if len(known):
        row = int(known[0]) + 1
        raise InputError(f"row {row}: {about} is known there; leave it blank to ask what tells about it.")

    def lines() -> Iterator[Sequence[Any]]:
        for start, part in _parts(table):
            for row, bits in enumerate(model.information(part, about, engine).tolist()):
                told = [(value, name) for name, value in zip(model.schema.names, bits, strict=True) if value == value]
                for value, name in sorted(told, key=lambda each: -each[0]):
                    yield start + row + 1, name, value

    _write(out, ["row", "column", "bits"], lines())
    return len(table)
