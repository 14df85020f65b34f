"""Cells from files and from whatever holds a table."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qtcore
from qtcore.errors import InputError
from qtcore.tabular.reading import GAPS, cells_of, csv_text, number, read_csv, text

CELLS = {"a": ["1", None, "2.5"], "b": ["x, y", 'say "no"', None]}


def written(folder: Path, data: "str | bytes") -> Path:
    path = folder / "table.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# ---------------------------------------------------------------------------------------------------------------------
# One table, however it comes


@pytest.mark.parametrize(
    "data",
    [
        {"a": [1, None, 2.5], "b": ["x, y", ' say "no"', "NA"]},
        {"a": np.array([1, math.nan, 2.5]), "b": ("x, y", 'say "no" ', None)},
        [{"a": 1.0, "b": "x, y"}, {"b": 'say "no"'}, {"a": 2.5}],
        pd.DataFrame({"a": [1, None, 2.5], "b": ["x, y", 'say "no"', None]}),
        pd.DataFrame({"a": pd.array([1, None, 2.5], dtype="Float64"), "b": pd.Categorical(["x, y", 'say "no"', None])}),
    ],
    ids=["columns", "arrays", "rows", "pandas", "pandas' own types"],
)
def test_the_same_cells_from_everything(data: Any) -> None:
    assert cells_of(data) == CELLS


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries(library: str) -> None:
    module = pytest.importorskip(library)
    make = module.DataFrame if library == "polars" else module.table
    assert cells_of(make({"a": [1.0, None, 2.5], "b": ["x, y", 'say "no"', None]})) == CELLS


def test_frames_are_recognised_by_what_they_offer() -> None:
    """As of polars and Arrow, which need not be here."""

    class Series(list[Any]):
        def to_list(self) -> list[Any]:
            return list(self)

        to_pylist = to_list

    class Polars:
        columns, shape = ("a", "b"), (3, 2)

        def __getitem__(self, name: str) -> Series:
            return Series(CELLS[name])

    class Arrow:
        column_names, columns = ("a", "b"), tuple(Series(cells) for cells in CELLS.values())
        to_pydict = None

    assert cells_of(Polars()) == cells_of(Arrow()) == CELLS


def test_a_row_and_a_matrix() -> None:
    assert cells_of({"age": 37, "work": "State"}) == {"age": ["37"], "work": ["State"]}
    assert cells_of(np.array([[1.0, np.nan], [2.0, 3.5]])) == {"x0": ["1", "2"], "x1": [None, "3.5"]}


def test_every_gap_is_one() -> None:
    assert {text(f" {word.upper()} ") for word in GAPS} == {None}
    assert {text(value) for value in (None, math.nan, np.nan, pd.NA, pd.NaT, np.float32("nan"))} == {None}
    assert text("None") is None
    assert [text(value) for value in (0, False, "0", "-", "nana", "none")] == ["0", "False", "0", "-", "nana", "none"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_from_their_text(value: float) -> None:
    told = text(value)
    assert told is not None
    assert number(told) == value


@pytest.mark.parametrize("cell", ["", "a", "inf", "-Infinity", "nan", "1_000", "1e999", "0x1"])
def test_what_is_no_number(cell: str) -> None:
    assert number(cell) is None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, "not a int"),
        ([[1, 2]], "not a list"),
        ({"a": [1], "b": [1, 2]}, "'b' has 2 values, but 'a' has 1"),
        ({"a": [1], "b": 2}, "'b' must be a list of values"),
        ({" ": [1]}, "has no name"),
        ({"a": [1], " a": [2]}, "two columns are named 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a'"),
        (np.zeros(3), r"shape \[3\]"),
        ([], "at least one column"),
    ],
)
def test_what_is_no_table(data: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        cells_of(data)


def test_an_empty_table() -> None:
    with pytest.raises(InputError, match="at least one row"):
        qtcore.Table({"a": []})


# ---------------------------------------------------------------------------------------------------------------------
# CSV


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_delimiters_line_ends_and_marks(tmp_path: Path, mark: str, end: str, start: str) -> None:
    lines = ["a|b", '1|"x, y"', '|"say ""no"""', "", "2.5|NA", ""]
    assert read_csv(written(tmp_path, start + end.join(line.replace("|", mark) for line in lines))) == CELLS


def test_quoted_names_and_line_ends_in_cells(tmp_path: Path) -> None:
    path = written(tmp_path, '"a, b";"c"\n1;"two\nlines"\n2;x\n')
    assert read_csv(path) == {"a, b": ["1", "2"], "c": ["two\nlines", "x"]}


def test_a_column_without_a_name_is_named_by_its_place(tmp_path: Path) -> None:
    assert read_csv(written(tmp_path, ",b\n0,x\n1,y\n")) == {"column 1": ["0", "1"], "b": ["x", "y"]}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("a,b\n1,2\n3\n", "line 3: there are 1 fields, but 2 columns are named"),
        ('a,b\n1,"x\ny"\n1,2,3\n', "line 4: there are 3 fields"),
        ("a;b\n1;2;3\n", "text that holds a semicolon in double quotes"),
        ('a,b\n1,"2\n3,4\n', "this is not a table"),
        ("a,b\n", "holds no rows below its line of names"),
        ("", "holds no rows"),
        ("1,2\n3,4\n", "the first line must name the columns, but it holds '1, 2'"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 are both named 'a'"),
        (b"a,b\n1,\xe9\n", "line 2: this is no text in UTF-8"),
    ],
)
def test_bad_files(tmp_path: Path, data: "str | bytes", sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_csv(written(tmp_path, data))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_csv(tmp_path / "no.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_csv(tmp_path)


cell = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=5).map(str.strip)


@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]]) -> None:
    cells = cells_of({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})
    path = tmp_path_factory.getbasetemp() / "written.csv"
    path.write_text(csv_text(cells), encoding="utf-8", newline="")
    assert read_csv(path) == cells
    assert len(list(csv.reader(io.StringIO(csv_text(cells), newline="")))) == 1 + len(rows)


def test_a_file_that_is_open(tmp_path: Path) -> None:
    data = b"a,b\n1,x\n,y\n"
    assert read_csv(io.BytesIO(data)) == read_csv(written(tmp_path, data)) == {"a": ["1", None], "b": ["x", "y"]}
    with pytest.raises(InputError, match=r"^the table, line 2: there are 3 fields"):
        qtcore.Table.read(io.BytesIO(b"a,b\n1,2,3\n"))
