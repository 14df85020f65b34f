"""Joint answers about the rows of a table, or about a graph, as a table: completions, probabilities, and what to ask next."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.inference.questions import next_question
from qtcore.inference.sampling import Block, Order
from qtcore.io.tables import MAX_BATCH, Table, batches
from qtcore.models.base import Model
from qtcore.models.factor_graph import FactorGraph
from qtcore.query import Query

ORDERS = 8
"""Random orders in which the probability of a row is computed."""


def sample_table(
    model: Model,
    table: Table,
    out: Path,
    n: int,
    order: Order = "random",
    block: Block = 1,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
) -> int:
    """Write n completions of every row, drawn jointly; return the number of rows. A row without blanks stays as it is."""

    def lines() -> Iterator[Sequence[Any]]:
        for rows, values in batches(model, table, max(1, MAX_BATCH // n)):
            samples = values.expand(n, *values.shape)
            if bool(values.isnan().any()):
                samples = model.sample(_given(model, values), n, order, block, generator, engine).cpu()
            yield from _completions(rows, samples)

    return _write(out, lines(), lambda: ["row", "sample", *table.names])


def write_samples(out: Path, samples: Tensor, names: Sequence[str] | None) -> None:
    """Write samples [n, rows, V] below the names of the variables, or their numbers from 1."""
    names = names or [str(column + 1) for column in range(samples.shape[2])]
    _write(out, _completions(range(1, samples.shape[1] + 1), samples), lambda: ["row", "sample", *names])


def _completions(rows: Sequence[int], samples: Tensor) -> Iterator[Sequence[Any]]:
    for i, row in enumerate(rows):
        for k, values in enumerate(samples[:, i].tolist()):
            yield row, k + 1, *(f"{value:.7g}" for value in values)


def joint_table(
    model: Model, table: Table, out: Path, generator: "torch.Generator | None" = None, engine: Engine | None = None
) -> int:
    """Write the joint log-probability of what is known in every row (in nats), the blanks summed out, averaged over random
    orders, and its spread over them; return the number of rows."""

    def lines() -> Iterator[Sequence[Any]]:
        for rows, values in batches(model, table, MAX_BATCH // ORDERS):
            known = ~values.isnan()
            if not bool(known.any(1).all()):
                empty = rows[int((~known.any(1)).nonzero()[0])]
                raise InputError(
                    f"{table.path}, row {empty}: every variable is blank, so there is nothing to give the probability of."
                )
            query = Query(values, torch.zeros_like(known), known).to(model.device)
            answer = model.log_prob(query, ORDERS, generator=generator, engine=engine)
            for row, mean, spread in zip(rows, answer.mean.tolist(), answer.spread.tolist(), strict=True):
                yield row, f"{mean:.7g}", f"{spread:.3g}"

    return _write(out, lines(), lambda: ["row", "log_prob", "spread"])


def next_table(model: Model, table: Table, out: Path, about: str, engine: Engine | None = None) -> int:
    """Write what each blank would tell about one variable, in bits, the most first; return the number of rows."""

    def lines() -> Iterator[Sequence[Any]]:
        for rows, values in batches(model, table, MAX_BATCH):
            column = _column(table, about)
            if not bool(values[:, column].isnan().all()):
                row = rows[int((~values[:, column].isnan()).nonzero()[0])]
                raise InputError(f"{table.path}, row {row}: {about} is known there; leave it blank to ask what tells about it.")
            if not bool(values.isnan().sum(1).gt(1).any()):
                continue
            bits = next_question(model, _given(model, values), about=[column], engine=engine).bits.cpu()
            for row, own in zip(rows, bits, strict=True):
                for j in own.nan_to_num(-1).argsort(descending=True).tolist():
                    if not bool(own[j].isnan()):
                        yield row, table.names[j], f"{float(own[j]):.7g}"

    return _write(out, lines(), lambda: ["row", "variable", "bits"])


def graph_samples(
    model: FactorGraph,
    query: Query,
    out: Path,
    n: int,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
) -> None:
    """Write n joint states of a graph given the evidence of a query of one row, below the names of its variables or their
    numbers from 0, as in the file; states are numbers."""
    samples = model.sample(query, n, generator=generator, engine=engine).cpu()
    write_samples(out, samples, _names(model))


def graph_joint(
    model: FactorGraph, query: Query, generator: "torch.Generator | None" = None, engine: Engine | None = None
) -> tuple[float, float]:
    """The log-probability of the evidence (in nats), the mean over random orders and its spread over them."""
    known = query.observed > 0
    if not bool(known.any()):
        raise InputError("--joint gives the probability of what is known; say what that is with --evidence.")
    states = query.values.argmax(-1)
    answer = model.log_prob(Query(states, torch.zeros_like(known), known), ORDERS, generator=generator, engine=engine)
    return float(answer.mean), float(answer.spread)


def graph_next(model: FactorGraph, query: Query, out: Path, about: str, engine: Engine | None = None) -> None:
    """Write what each unobserved variable would tell about one of them, in bits, the most first."""
    names = _names(model)
    if about not in names:
        raise InputError(f"the graph has no variable {about!r}; the first is {names[0]!r}.")
    column = names.index(about)
    if bool(query.observed[0, column]):
        raise InputError(f"{about} is observed; leave it out of the evidence to ask what tells about it.")
    bits = next_question(model, query, about=[column], engine=engine).bits[0].cpu()
    ranked = [j for j in bits.nan_to_num(-1).argsort(descending=True).tolist() if not bool(bits[j].isnan())]
    _write(out, ((names[j], f"{max(0.0, float(bits[j])):.7g}") for j in ranked), lambda: ["variable", "bits"])


def _names(model: FactorGraph) -> list[str]:
    return list(model.column_names() or map(str, model.wiring.visible))


def _given(model: Model, values: Tensor) -> Query:
    return Query(values, ~values.isnan()).to(model.device)


def _column(table: Table, name: str) -> int:
    if name not in table.names:
        raise InputError(f"{table.path}: there is no variable {name!r}; the first is {table.names[0]!r}.")
    return table.names.index(name)


def _write(out: Path, lines: Iterator[Sequence[Any]], header: Any) -> int:
    """Write a table; the names in its header are known after the first row. The number of different rows."""
    rows: set[int] = set()
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for line in lines:
            if not rows:
                writer.writerow(header())
            rows.add(line[0])
            writer.writerow(line)
        if not rows:
            writer.writerow(header())
    return len(rows)
