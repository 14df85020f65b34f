"""python -m qtcore.infer with tables: what it answers, and what it says of a table that it cannot read."""

import csv
import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import qtcore
from qtcore import RBM, PairwiseMRF, Query, infer
from qtcore.data import variable_names
from qtcore.io import tables

from .commands import Command, command  # noqa: F401
from .strategies import build, rng

NAN = math.nan


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    """infer(*arguments) in a folder with rbm.safetensors (4 variables), grbm… (4), graph… (3, of 2, 3 and 4 states), grid…"""
    monkeypatch.chdir(tmp_path)
    models = {"rbm": "RBM", "dbm": "DBM", "grbm": "GaussianRBM", "graph": "PairwiseMRF", "grid": "GridMRF"}
    for name, kind in models.items():
        build(kind, scale=0.7).save(f"{name}.safetensors")
    return functools.partial(command, infer.main)


def answers_in(path: str = "rows.marginals.csv") -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def marginals(model: Any, rows: list[list[float]], n_layers: int | None = None) -> Any:
    values = torch.tensor(rows, dtype=torch.float64)
    with torch.no_grad():
        return model(Query(values, ~values.isnan()), n_layers)


# ---------------------------------------------------------------------------------------------------------------------
# Answers


def test_bits(run: Command) -> None:
    Path("rows.csv").write_text("1,,0,\n0,1,1,0\n,NaN,?,na\n0.25,0,,1\n")
    result = run("rbm.safetensors", "rows.csv")
    assert result == (0, "7 blanks in 4 rows; their marginals are in rows.marginals.csv.\n", "")
    header, *lines = answers_in()
    assert header == ["row", "variable", "probability"]
    p = marginals(build("RBM", scale=0.7), [[1, NAN, 0, NAN], [0, 1, 1, 0], [NAN] * 4, [0.25, 0, NAN, 1]]).probs
    blanks = [(0, 1), (0, 3), (2, 0), (2, 1), (2, 2), (2, 3), (3, 2)]
    assert [(line[0], line[1]) for line in lines] == [(str(i + 1), str(j + 1)) for i, j in blanks]
    assert [float(line[2]) for line in lines] == pytest.approx([float(p[i, j]) for i, j in blanks], rel=1e-6)


def test_numbers_are_in_the_models_own_units(run: Command) -> None:
    Path("rows.csv").write_text("1.5,,-2e-1,\n")
    assert run("grbm.safetensors", "rows.csv").code == 0
    header, *lines = answers_in()
    assert header == ["row", "variable", "mean", "deviation"]
    result = marginals(build("GaussianRBM", scale=0.7), [[1.5, NAN, -0.2, NAN]])
    for line, j in zip(lines, (1, 3), strict=True):
        assert line[:2] == ["1", str(j + 1)]
        assert float(line[2]) == pytest.approx(float(result.mean[0, j]), rel=1e-6)
        assert float(line[3]) == pytest.approx(float(result.stddev[0, j]), rel=1e-6)


def test_states(run: Command) -> None:
    """One probability for each state that a variable has; its hidden variable has no column."""
    Path("rows.csv").write_text("1,,\n,2,3\n")
    assert run("graph.safetensors", "rows.csv").code == 0
    header, *lines = answers_in()
    assert header == ["row", "variable", "p_0", "p_1", "p_2", "p_3"]
    p = marginals(build("PairwiseMRF", scale=0.7), [[1, NAN, NAN], [NAN, 2, 3]]).probs
    for line, (i, j, states) in zip(lines, [(0, 1, 3), (0, 2, 4), (1, 0, 2)], strict=True):
        assert line[:2] == [str(i + 1), str(j + 1)]
        assert [float(x) for x in line[2:]] == pytest.approx(p[i, j, :states].tolist(), rel=1e-6)
        assert sum(float(x) for x in line[2:]) == pytest.approx(1)


def test_a_name_for_each_column(run: Command) -> None:
    Path("rows.csv").write_text('sunny," warm, dry ",wind,größe\n1,,0,1\n')
    result = run("rbm.safetensors", "rows.csv")
    assert result.code == 0
    assert result.err == "note: the model has no names for its variables; the columns were taken in its own order.\n"
    assert answers_in()[1][:2] == ["1", "warm, dry"]


@pytest.mark.parametrize(
    "text",
    [
        "﻿a,b,c,d\r\n1,,0,\r\n",  # as a spreadsheet writes it
        "1;;0;\n",
        "1\t\t0\t\n",
        "a;b;c;d\n1;;0;\n",
        "\n\n1,,0,\n\n\n",
        ' 1 , , 0 ,"?"\n',
        '"1","","0",""',
        "1.0,NAN,0e0,N/A\n".replace("N/A", "NA"),
    ],
)
def test_spellings_of_the_same_table(text: str, run: Command) -> None:
    Path("plain.csv").write_text("1,,0,\n")
    Path("rows.csv").write_bytes(text.encode())
    assert run("rbm.safetensors", "plain.csv").code == 0
    assert run("rbm.safetensors", "rows.csv").code == 0
    assert [line[2] for line in answers_in()] == [line[2] for line in answers_in("plain.marginals.csv")]


def test_a_table_without_blanks(run: Command) -> None:
    Path("rows.csv").write_text("1,0,0,1\n")
    assert run("rbm.safetensors", "rows.csv").out.startswith("0 blanks in 1 rows;")
    assert answers_in() == [["row", "variable", "probability"]]


def test_layers_and_another_place_for_the_answer(run: Command) -> None:
    Path("rows.csv").write_text("1,,0,1\n")
    assert run("rbm.safetensors", "rows.csv", "--layers", "1", "--out", "new/folder/answer.txt").code == 0
    expected = marginals(build("RBM", scale=0.7), [[1, NAN, 0, 1]], 1).probs[0, 1]
    assert float(answers_in("new/folder/answer.txt")[1][2]) == pytest.approx(float(expected), rel=1e-6)
    assert not Path("rows.marginals.csv").exists()
    Path("new/folder/answer.txt").write_text("old")
    assert run("rbm.safetensors", "rows.csv", "--out", "new/folder/answer.txt").code == 0  # an old answer is replaced
    assert answers_in("new/folder/answer.txt")[0] == ["row", "variable", "probability"]


def test_a_large_table_is_read_in_parts(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """1000 rows in batches of 7: every row keeps its number, whatever the batch."""
    monkeypatch.setattr(tables, "MAX_BATCH", 7)
    bits = (torch.rand(1000, 4, generator=rng(0)) < 0.5).int().tolist()
    Path("rows.csv").write_text("".join(f"{a},{b},,{c}\n" for a, b, _, c in bits))
    asked: list[int] = []
    forward = RBM.forward
    monkeypatch.setattr(RBM, "forward", lambda self, query, *how: (asked.append(len(query)), forward(self, query, *how))[1])
    assert run("rbm.safetensors", "rows.csv").out.startswith("1000 blanks in 1000 rows")
    assert asked == [7] * 142 + [6]
    p = marginals(build("RBM", scale=0.7), [[a, b, NAN, c] for a, b, _, c in bits]).probs[:, 2]
    lines = answers_in()[1:]
    assert [int(line[0]) for line in lines] == list(range(1, 1001))
    assert [float(line[2]) for line in lines] == pytest.approx(p.tolist(), rel=1e-6)


def test_names_from_the_dataset(run: Command) -> None:
    model = RBM(123, 2)
    model.provenance.dataset = "adult"
    model.save("adult.safetensors")
    names = variable_names("adult")
    assert names is not None
    Path("rows.csv").write_text("," + ",".join(["0"] * 122) + "\n")
    assert run("adult.safetensors", "rows.csv").code == 0
    assert answers_in()[1][1] == names[0] == "age 17-25"
    with open("named.csv", "w", newline="") as file:
        csv.writer(file).writerows([names, [0] * 122 + [""]])
    assert run("adult.safetensors", "named.csv").code == 0
    assert answers_in("named.marginals.csv")[1][1] == names[-1]


def test_columns_are_found_by_their_names(run: Command) -> None:
    """A table with two columns swapped once got the answer of another table, where a name differed from the model's too."""
    model = build("RBM", scale=0.7)
    model.image_shape = (2, 2)
    model.save("pixels.safetensors")
    names = ["row 0, column 0", "row 0, column 1", "row 1, column 0", "row 1, column 1"]

    def write(path: str, order: list[int], *rows: list[str], names: list[str] = names) -> None:
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([[line[j] for j in order] for line in (names, *rows)])

    rows = ["1", "", "0", ""], ["", "0", "1", "1"]
    write("plain.csv", [0, 1, 2, 3], *rows)
    write("moved.csv", [3, 1, 0, 2], *rows)
    for path in ("plain.csv", "moved.csv"):
        assert run("pixels.safetensors", path).code == 0
    assert answers_in("moved.marginals.csv") == answers_in("plain.marginals.csv")
    assert [line[:2] for line in answers_in("moved.marginals.csv")[1:]] == [["1", names[1]], ["1", names[3]], ["2", names[0]]]

    write("moved.csv", [3, 1, 0, 2], ["7", "", "0", ""])
    said = run("pixels.safetensors", "moved.csv").sentence
    assert said == "moved.csv, row 1 (line 2), column 3 (row 0, column 0): 7 must be 0, 1 or in between."
    write("moved.csv", [3, 1, 0, 2], ["x", "", "0", ""])
    said = run("pixels.safetensors", "moved.csv").sentence
    assert said == "moved.csv, row 1 (line 2), column 3 (row 0, column 0): 'x' is no number."

    write("other.csv", [1, 0, 2, 3], *rows, names=[*names[:3], "pixel"])
    said = run("pixels.safetensors", "other.csv").sentence
    assert said.startswith("other.csv: column 4 is named 'pixel', but no variable of the model is; name all columns as the")
    write("twice.csv", [0, 1, 1, 3], *rows)
    assert run("pixels.safetensors", "twice.csv").sentence == "twice.csv: columns 2 and 3 are both named 'row 0, column 1'."
    assert not Path("other.marginals.csv").exists()


def test_names_of_pixels(run: Command) -> None:
    model: RBM = build("RBM")
    model.provenance.dataset, model.image_shape = "nobody knows", (2, 2)
    model.save("pixels.safetensors")
    Path("rows.csv").write_text("1,1,,1\n")
    assert run("pixels.safetensors", "rows.csv").code == 0
    assert answers_in()[1][1] == "row 1, column 0"


def test_every_kind_of_model_with_one_column_per_variable(run: Command) -> None:
    for name, model in (("dbm", build("DBM", scale=0.7)), ("single", PairwiseMRF((3,), []))):
        model.save(f"{name}.safetensors")
    Path("rows.csv").write_text("1,,0\n")
    assert run("dbm.safetensors", "rows.csv").code == 0
    Path("rows.csv").write_text("?\n2\n?\n")
    assert run("single.safetensors", "rows.csv").out.startswith("2 blanks in 3 rows")
    assert [line[0] for line in answers_in()[1:]] == ["1", "3"]


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "rows.csv holds no rows."),
        (b"\n\n\n", "rows.csv holds no rows."),
        (b"a,b,c,d\n", "rows.csv holds no rows."),
        (b"1,0,1\n", "rows.csv, row 1 (line 1): there are 3 columns, but the model has 4 variables."),
        (b"a,b,c,d\n1,0,1,0\n1,0,1,0,\n", "rows.csv, row 2 (line 3): there are 5 columns, but the model has 4 variables."),
        (b"a,b,c\n1,0,1\n", "rows.csv, row 1 (line 1): there are 3 columns, but the model has 4 variables."),
        (b"1,0,x,1\n", "rows.csv, row 1 (line 1), column 3 (3): 'x' is no number."),
        (b"a,b,c,d\n1,0,1,0\n\n1,one,1,0\n", "rows.csv, row 2 (line 4), column 2 (b): 'one' is no number."),
        (b"1,0,,2\n", "rows.csv, row 1 (line 1), column 4 (4): 2 must be 0, 1 or in between."),
        (b"1,0,,1\n-0.5,0,,1\n", "rows.csv, row 2 (line 2), column 1 (1): -0.5 must be 0, 1 or in between."),
        (b"1,0,,inf\n", "rows.csv, row 1 (line 1), column 4 (4): inf must be 0, 1 or in between."),
        (b"1,0,,1\n1,0,,\xff\n", "rows.csv, line 2: this is no text in UTF-8; save the table so."),
        ("1,0,,1\n".encode("utf-16"), "rows.csv, line 1: this is no text in UTF-8; save the table so."),
        (b"1,0,1\x00,1\n", "rows.csv, "),
        (b'1,0,"' + b"x" * 200_000 + b'",1\n', "rows.csv, line 1: this is not a table (field larger than field limit"),
    ],
)
def test_a_table_that_cannot_be_read(text: bytes, said: str, run: Command) -> None:
    Path("rows.csv").write_bytes(text)
    Path("rows.marginals.csv").write_text("old")
    assert run("rbm.safetensors", "rows.csv").sentence.startswith(said)
    assert Path("rows.marginals.csv").read_text() == "old"
    assert not [path.name for path in Path().iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("model", "text", "said"),
    [
        ("graph", "2,,\n", "column 1 (1): 2 must be a whole number from 0 to 1."),
        ("graph", ",0.5,\n", "column 2 (2): 0.5 must be a whole number from 0 to 2."),
        ("graph", ",,-1\n", "column 3 (3): -1 must be a whole number from 0 to 3."),
        ("grbm", "1,inf,,\n", "column 2 (2): inf must be a finite number."),
        ("grbm", "1,2,,1e400\n", "column 4 (4): inf must be a finite number."),
        ("grbm", "1,2,,1,5\n", "there are 5 columns"),
    ],
)
def test_values_that_a_variable_cannot_take(model: str, text: str, said: str, run: Command) -> None:
    Path("rows.csv").write_text(text)
    assert said in run(f"{model}.safetensors", "rows.csv").sentence


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "rows.csv"], "there is no model and no file named 'nothing'; "),
        (["rbm.safetensors", "missing/rows.csv"], "missing/rows.csv does not exist; give a table or an image."),
        (["rbm.safetensors", "folder"], "folder is a folder; give a table or an image."),
        (["rbm.safetensors", "rows.csv", "--out", "folder"], "folder is a folder; give a file for the answer."),
        (["rbm.safetensors", "rows.csv", "--out", "rows.csv"], "rows.csv is also read; give another place"),
        (["rbm.safetensors", "rows.csv", "--out", "folder/../rows.csv"], "folder/../rows.csv is also read; give another"),
        (["rbm.safetensors", "rows.csv", "--out", "rbm.safetensors"], "rbm.safetensors is also read; give another place"),
        (["rbm.safetensors", "rows.csv", "--mask", "rows.csv"], "--mask and --fit go with an image; in a table, blanks say"),
        (["rbm.safetensors", "rows.csv", "--fit"], "--mask and --fit go with an image; in a table, blanks say"),
        (["rbm.safetensors", "face.png"], "rbm.safetensors answers tables (CSV), not images such as face.png."),
        (["grid.safetensors", "rows.csv"], "rows.csv is not an image (PNG, JPEG, GIF, BMP, TIFF, PPM)."),
        (["rbm.safetensors", "rows.csv", "--layers", "-1"], "n_layers must be a whole number ≥ 0, not -1."),
        (["rbm.safetensors", "rows.csv", "--device", "abacus"], "there is no device named 'abacus'; try "),
        (["rbm.safetensors"], "give a table or an image to ask rbm.safetensors about."),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words: list[str], said: str, run: Command) -> None:
    Path("rows.csv").write_text("1,,0,1\n")
    Path("face.png").write_text("no image, but nobody looks")
    Path("folder").mkdir()
    assert run(*words).sentence.startswith(said)
    assert Path("rows.csv").read_text() == "1,,0,1\n"
    assert not Path("missing").exists()


def test_help(run: Command) -> None:
    result = run("--help")
    assert (result.code, result.err) == (0, "")
    text = " ".join(result.out.split())
    assert "python -m qtcore.infer rbm/adult rows.csv" in text
    assert "A blank (nothing, ?, NA or NaN) is unknown." in text
    assert "in the standardised units that the model was trained in" in text
    assert "white pixels are known and black ones hidden" in text
    for option in ("--mask", "--out", "--fit", "--layers", "--device"):
        assert option in text


def test_a_shipped_model_by_its_name(run: Command) -> None:
    if "rbm/adult" not in qtcore.available():
        pytest.skip("no model of this name is shipped")
    Path("rows.csv").write_text("," * 122 + "\n")
    assert run("rbm/adult", "rows.csv").code == 0
    lines = answers_in()[1:]
    assert len(lines) == 123
    assert all(0 < float(line[2]) < 1 for line in lines)


def test_another_engine(run: Command) -> None:
    Path("rows.csv").write_text("1,1,,1\n")
    assert run("rbm.safetensors", "rows.csv", "--engine", "exact").code == 0
    model: RBM = build("RBM", scale=0.7)
    query = Query(torch.tensor([[1.0, 1.0, NAN, 1.0]]), torch.tensor([[True, True, False, True]]))
    expected: Any = qtcore.exact.marginals(model, query)
    assert float(answers_in()[1][2]) == pytest.approx(float(expected.probs[0, 2]), rel=1e-6)
    assert "no engine named" in run("rbm.safetensors", "rows.csv", "--engine", "x").sentence
