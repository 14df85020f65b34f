"""Tables that visitors upload: checked for their size, read by the library, mended as they say, refused in plain words."""

import io
from collections.abc import Iterable, Mapping
from typing import Any

from qtcore.errors import InputError
from qtcore.tabular import Column, Table
from qtcore.tabular.columns import KINDS
from qtcore.tabular.reading import Cells, read_csv
from qtcore.tabular.schema import MAX_LEVELS
from qtcore_app.uploads import MAX_BYTES, UploadError

MAX_ROWS, MAX_COLUMNS = 10_000, 40
MEGABYTES = MAX_BYTES // 2**20
LIMITS = f"A CSV file whose first line names the columns: up to {MEGABYTES} MB, {MAX_ROWS:,} rows, {MAX_COLUMNS} columns."
SHOWN = 60
"""Characters of a text from a table that a browser gets to see."""

Overrides = Mapping[str, Any]
"""What the visitor says that columns are: kinds, or levels in order."""


def read(data: bytes) -> Table:
    """The table in the bytes of a CSV file, or an UploadError."""
    if not data:
        raise UploadError(f"The file is empty. {LIMITS}")
    if len(data) > MAX_BYTES:
        raise UploadError(f"The file is {len(data) / 2**20:.1f} MB; tables up to {MEGABYTES} MB are read.")
    try:
        cells = read_csv(io.BytesIO(data))
        rows = len(next(iter(cells.values())))
        if len(cells) > MAX_COLUMNS:
            raise UploadError(f"The table has {len(cells):,} columns; up to {MAX_COLUMNS} are taken, so leave some out.")
        if rows > MAX_ROWS:
            raise UploadError(f"The table has {rows:,} rows; up to {MAX_ROWS:,} are taken, so leave some out.")
        return made(cells, {})
    except InputError as error:
        raise UploadError(sentence(error)) from error


def sentence(error: InputError) -> str:
    """What the library says, as a sentence that stands by itself."""
    said = str(error)
    return said[:1].upper() + said[1:]


def made(cells: Cells, overrides: Overrides) -> Table:
    """The table of these cells; raise an InputError if a column cannot be what the visitor says, or not in this app."""
    table = Table(cells, overrides)
    for column in table.schema.used:
        if column.n_states > MAX_LEVELS + 1:  # all others are one more
            raise InputError(f"the column {short(column.name)!r} has {column.n_states:,} values, too many for levels.")
    return table


def mended(table: Table, overrides: Overrides, place: int, kind: str) -> tuple[Table, dict[str, Any]]:
    """The table after its column of this number was made of another kind, and what the visitor has said so far."""
    column = table.schema.columns[place]
    given: Any = kind
    if kind == "ordered" and not column.is_number:  # in the order in which they are listed; the visitor can move them
        if column.kind == "ignore":
            (column,) = made({column.name: table.cells[column.name]}, {column.name: "categorical"}).schema
        given = [level for level in column.levels if level != column.other]
    said = {**overrides, column.name: given}
    return made(table.cells, said), said


def moved(table: Table, overrides: Overrides, place: int, level: int, to: int) -> tuple[Table, dict[str, Any]]:
    """The table after a level of its ordered column went to another place in the order."""
    column = table.schema.columns[place]
    levels = list(column.levels)
    levels.insert(to, levels.pop(level))
    said = {**overrides, column.name: levels}
    return made(table.cells, said), said


def described(table: Table) -> list[dict[str, Any]]:
    """Each column for the browser: its name, kind, states, gaps, and why it is left out, if it is."""
    return [
        {
            "name": short(column.name),
            "kind": KINDS.index(column.kind),
            "states": shown(column),
            "gaps": sum(cell is None for cell in table.cells[column.name]),
            "why": short(column.why, 200),
        }
        for column in table.schema
    ]


def notes(table: Table) -> list[str]:
    """What else is special about the table."""
    told = {f"{column.name!r} is left out: {column.why}." for column in table.schema}
    return [short(note, 200) for note in table.notes if note not in told]


def listed(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Columns that can be asked about, for the browser."""
    return [{"name": short(column.name), "states": shown(column), "number": column.is_number} for column in columns]


def shown(column: Column) -> list[str]:
    return [short(state) for state in column.states]


def short(text: str, most: int = SHOWN) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def is_permutable(table: Table, place: int, level: int, to: int) -> bool:
    """Whether a level of a column can be moved there."""
    column = table.schema.columns[place]
    return column.kind == "ordered" and 0 <= level < len(column.levels) and 0 <= to < len(column.levels)
