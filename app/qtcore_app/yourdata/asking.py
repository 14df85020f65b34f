"""One record of a trained table: which cells are known, asked or unknown, and what the model answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qtcore.inference.questions import Asking
from qtcore.models.table_model import TableModel
from qtcore.tabular import Column, Schema, Table
from qtcore.tabular.reading import number, text
from qtcore_app.completions import Drawn, Joint, draw

UNKNOWN, ASKED, KNOWN = ROLES = 0, 1, 2
"""Neither known nor asked for, so summed out; asked for, and scored where the table has it; known."""
CHUNK = 200
"""Rows that are filled at a time."""

Value = str | float | None


@dataclass(frozen=True)
class Record:
    """For each used column its role, and its value if there is one: a level, or a number."""

    roles: tuple[int, ...]
    values: tuple[Value, ...]

    def known(self, schema: Schema) -> dict[str, Value]:
        """By name, as `TableModel` takes it."""
        each = zip(schema.names, self.roles, self.values, strict=True)
        return {name: value for name, role, value in each if role == KNOWN}

    def columns(self, schema: Schema, *roles: int) -> list[str]:
        return [name for name, role in zip(schema.names, self.roles, strict=True) if role in roles]


def empty(schema: Schema) -> Record:
    """Nothing known, the last column asked for."""
    count = len(schema.used)
    return Record((UNKNOWN,) * (count - 1) + (ASKED,), (None,) * count)


def of_row(table: Table, row: int) -> Record:
    """A row of the table: its gaps are asked for, and of its known cells, for which there is a truth, the last that holds a
    level and the last that holds a number, unless nothing would be known any more."""
    values: list[Value] = []
    for column in table.schema.used:
        cell = table.cells[column.name][row]
        state = column.encode([cell])[0][0]
        known = cell is not None and not np.isnan(state)
        values.append(None if not known else number(str(cell)) if column.is_number else column.levels[int(state)])
    roles = [ASKED if value is None else KNOWN for value in values]
    for kind in (str, float):
        there = [place for place, value in enumerate(values) if isinstance(value, kind)]
        if there and roles.count(KNOWN) > 1:
            roles[there[-1]] = ASKED
    if ASKED not in roles:
        roles[-1] = ASKED
    return Record(tuple(roles), tuple(values))


def decoded(cells: Any, schema: Schema) -> Record | None:
    """The record that a browser sends: for each used column a role, and for a known one the number of its level, or a number;
    None for anything else."""
    if not isinstance(cells, list) or len(cells) != len(schema.used):
        return None
    roles, values = [], []
    for cell, column in zip(cells, schema.used, strict=True):
        if not isinstance(cell, list) or len(cell) != 2 or type(cell[0]) is not int or cell[0] not in ROLES:
            return None
        value = _value(cell[1], column)
        if cell[0] == KNOWN and value is None:
            return None
        roles.append(cell[0])
        values.append(value)
    return Record(tuple(roles), tuple(values))


def _value(given: Any, column: Column) -> Value:
    if isinstance(given, bool) or not isinstance(given, int | float) or not np.isfinite(given):
        return None
    if column.is_number:
        return float(given)
    return column.levels[given] if isinstance(given, int) and 0 <= given < len(column.levels) else None


def encoded(record: Record, schema: Schema) -> list[list[Any]]:
    """The inverse, for the browser."""
    return [
        [role, column.levels.index(value) if isinstance(value, str) else value]
        for role, value, column in zip(record.roles, record.values, schema.used, strict=True)
    ]


def states(record: Record, schema: Schema) -> list[int | None]:
    """The state of each value."""
    found = [column.encode([text(value)])[0][0] for column, value in zip(schema.used, record.values, strict=True)]
    return [None if np.isnan(state) else int(state) for state in found]


# ---------------------------------------------------------------------- answers


def answers(model: TableModel, record: Record, truth: Sequence[int | None]) -> dict[str, Any]:
    """Probabilities of all states of what is not known, mean and quantiles of numbers; and the bits per asked cell whose
    truth (a state of each column, or None) is there."""
    schema = model.schema
    wanted = record.columns(schema, ASKED, UNKNOWN)
    result: list[dict[str, Any] | None] = [None] * len(schema.used)
    losses = []
    with torch.inference_mode():
        given = model.ask(record.known(schema), about=wanted) if wanted else {}
    for name in wanted:
        place = schema.place(name)
        answer, true = given[name], truth[place]
        numbers = {kind: float(f"{values[0]:.4g}") for kind, values in answer.numbers().items()}
        result[place] = {"p": [round(float(p), 4) for p in answer.probs[0]], **numbers}
        if record.roles[place] == ASKED and true is not None:
            losses.append(-float(np.log2(max(answer.probs[0][true], 1e-30))))
    return {"columns": result, "bits": round(float(np.mean(losses)), 3) if losses else None, "scored": len(losses)}


def completions(model: TableModel, record: Record, seed: int) -> Iterator[Drawn]:
    """Samples of all that is not known, and the most probable completion, step by step."""
    return draw(Joint(model, model.query(record.known(model.schema)), 1), seed)


def told(drawn: Drawn, schema: Schema, seed: int) -> list[list[str]]:
    """For each column its value in each sample and in the most probable completion; "" where nothing is drawn yet."""
    values = torch.cat([drawn.samples, drawn.best]).double().cpu().numpy()
    uniform = np.random.default_rng(seed).random(values.shape)
    return [_words(column, values[:, place], uniform[:, place]) for place, column in enumerate(schema.used)]


def _words(column: Column, drawn: NDArray[np.float64], uniform: NDArray[np.float64]) -> list[str]:
    there = ~np.isnan(drawn)
    found = iter(column.draw(drawn[there].astype(int), uniform[there]))
    words = [str(text(next(found))) if each else "" for each in there]
    if there[-1]:  # the most probable one is no draw
        words[-1] = str(text(column.value(int(drawn[-1]))))
    return words


def next_questions(model: TableModel, record: Record) -> Asking:
    """What each unknown cell would tell about those that are asked for."""
    about = torch.tensor([role == ASKED for role in record.roles])
    return Asking(model, model.query(record.known(model.schema)), about=about)


def filled(model: TableModel, table: Table) -> Iterator[tuple[float, Table]]:
    """The table with its gaps filled, some rows at a time, with the share that is done."""
    for start in range(0, len(table), CHUNK):
        part = table[start : start + CHUNK]
        yield min(1.0, (start + CHUNK) / len(table)), model.fill(part)
