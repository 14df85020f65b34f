"""CSV files of strangers: a table with a schema, or a sentence; and what is made of it is read back the same."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from qtcore.tabular import Schema, Table, describe

from .support import tried
from .test_tables import odd

_folder = tempfile.TemporaryDirectory()
words = st.sampled_from(["yes", "no", "2020-01-02", "1", "0", "2.5", "-3e5", "a b", '"c, d"', "", "NA", "007", "other"])


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Usually with a line of names, and as many cells in every row; some rows many times over."""
    width = draw(st.integers(1, 4))
    cells = draw(st.sampled_from([words, words, odd]))
    row = st.lists(cells, min_size=width, max_size=width if draw(st.integers(0, 4)) else width + 1)
    rows = draw(st.lists(row, max_size=8)) * draw(st.sampled_from([1, 1, 7, 40]))
    if draw(st.integers(0, 5)):
        rows.insert(0, draw(st.permutations(["id", "b", " c", '"d; e"']))[:width])
    mark, end = draw(st.sampled_from(",,;\t")), draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = "".join(mark.join(row) + end for row in rows)
    data = bytearray(text.encode(draw(st.sampled_from(["utf-8"] * 4 + ["utf-8-sig", "utf-16"])), "surrogatepass"))
    if data and draw(st.integers(0, 5)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(tables())
def test_own_tables(data: bytes) -> None:
    path = Path(_folder.name) / "table.csv"
    path.write_bytes(data)
    table = tried("own tables", lambda: Table.read(path))
    if table is None:
        return
    assert describe(table)
    assert Schema.from_list(table.schema.as_list()) == table.schema
    again = Table.read(path, table.schema).values
    assert again.nan_to_num(-1).equal(table.values.nan_to_num(-1))
    for place, column in enumerate(table.schema.used):
        known = again[:, place][~again[:, place].isnan()]
        assert bool(((known >= 0) & (known < column.n_states)).all())
