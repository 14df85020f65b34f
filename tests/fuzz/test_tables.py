"""Tables in every state of disorder: probabilities for every blank, or a sentence."""

import csv
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from qtcore.io.tables import Table, infer_table

from ..strategies import build
from .support import tried

good = st.sampled_from(["0", "1", "?", "", "NA", " 1 ", "0.5", "nan"])
odd = st.one_of(
    good,
    st.sampled_from(["1e999", "-1", "2", "inf", "0x1", "1_0", "١", '"', '"1"', "a", "b", "=1+1", "1,0", "\0", "\ufeff"]),
    st.text(max_size=4),
)
_folder = tempfile.TemporaryDirectory()


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    width = draw(st.sampled_from([4, 4, 4, 3, 3, 5, 0]))
    cells = odd if draw(st.integers(0, 2)) == 0 else good
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width), max_size=5))
    delimiter, end = draw(st.sampled_from([",", ",", ";", "\t", " "])), draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
    if draw(st.booleans()):
        rows.insert(0, draw(st.permutations(["a", "b", "c", "d"])))
    text = end.join(delimiter.join(row) for row in rows)
    data = bytearray(text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"])), "surrogatepass"))
    if data and draw(st.integers(0, 5)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(tables(), st.sampled_from(["RBM", "GaussianRBM", "DBM"]), st.booleans())
def test_tables(data: bytes, kind: str, named: bool) -> None:
    model = build(kind)
    width = model.variables.shape[0]
    path, out = Path(_folder.name) / "rows.csv", Path(_folder.name) / "answers.csv"
    path.write_bytes(data)
    table = Table(path, tuple("abcd"[:width]) if named else None, width)
    counts = tried("tables", lambda: infer_table(model, table, out))
    if counts is None:
        return
    with out.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert len(lines) == 1 + counts[1]
    for line in lines[1:]:
        numbers = [float(cell) for cell in line[2:]]
        assert all(number == number for number in numbers)
        assert kind == "GaussianRBM" or 0 <= numbers[0] <= 1
