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
def tables(draw: st.DrawFn, width: int) -> bytes:
    """Usually of this many columns."""
    width = draw(st.sampled_from([width] * 6 + [0, 1, 5]))
    cells = odd if draw(st.integers(0, 2)) == 0 else good
    least = draw(st.sampled_from([0, 1, 1, 1]))
    rows = draw(st.lists(st.lists(cells, min_size=width, max_size=width), min_size=least, max_size=5))
    delimiter, end = draw(st.sampled_from([*",,,,;", "\t", " "])), draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    if draw(st.booleans()):
        rows.insert(0, draw(st.permutations("abcde"[:width])))
    text = end.join(delimiter.join(row) for row in rows)
    data = bytearray(text.encode(draw(st.sampled_from(["utf-8"] * 4 + ["utf-8-sig", "utf-16"])), "surrogatepass"))
    if data and draw(st.integers(0, 5)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(st.data(), st.sampled_from(["RBM", "GaussianRBM", "DBM"]), st.booleans())
def test_tables(drawn: st.DataObject, kind: str, named: bool) -> None:
    model = build(kind)
    width = model.variables.shape[0]
    data = drawn.draw(tables(width))
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
