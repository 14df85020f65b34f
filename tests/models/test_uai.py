"""Files of the UAI format: read as written, and one sentence with its line for whatever is wrong."""

import math
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import qtcore
from qtcore import FactorGraph, Query
from qtcore.errors import InputError
from qtcore.models import uai

from ..strategies import F64, close, factor_graphs

SMALL = """MARKOV
3
2 2 3
3
1 0
2 0 1
2 1 2

2
 0.436 0.564

4
 0.128 0.872
 0.920 0.080

6
 0.210 0.333 0.457
 0.811 0.000 0.189
"""
"""The example of the format's own description, with a zero."""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.uai"
    path.write_text(SMALL)
    return path


def test_the_last_variable_of_a_scope_runs_fastest(small: Path) -> None:
    model = FactorGraph.from_uai(small)
    assert model.n_states == (2, 2, 3)
    assert model.dtype == F64
    joint = np.zeros((2, 2, 3))
    for a in range(2):
        for b in range(2):
            for c in range(3):
                first, second = [[0.128, 0.872], [0.920, 0.080]], [[0.210, 0.333, 0.457], [0.811, 0.0, 0.189]]
                joint[a, b, c] = [0.436, 0.564][a] * first[a][b] * second[b][c]
    nothing = Query(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
    probs = model(nothing).probs[0]
    for i, others in enumerate([(1, 2), (0, 2), (0, 1)]):
        close(probs[i, : model.n_states[i]], torch.tensor(joint.sum(others) / joint.sum()))
    close(qtcore.exact.log_z(model), torch.tensor(math.log(joint.sum())))


@given(factor_graphs())
def test_there_and_back(tmp_path_factory: pytest.TempPathFactory, graph: Any) -> None:
    path = tmp_path_factory.mktemp("uai") / "graph.uai"
    model = FactorGraph(**graph, dtype=F64)
    if any(bool(table.isneginf().all()) for _, table in model.tables.items()):
        model.to_uai(path)
        with pytest.raises(InputError, match="is all zeros, so that no state is possible"):
            FactorGraph.from_uai(path)
        return
    model.to_uai(path)
    again = FactorGraph.from_uai(path, hidden=model.hidden)
    assert [scope for _, scopes in again.factors() for scope in scopes] == [s for _, scopes in model.factors() for s in scopes]
    one, other = model.graph(), again.graph()
    close(one.unary.exp(), other.unary.exp(), 1e-12)
    again.to_uai(path.with_suffix(".again"))
    once, twice = (uai.read(each).tables for each in (path, path.with_suffix(".again")))
    for before, after in zip(once, twice, strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-14)


def test_evidence_marginals_and_partition_functions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    two = {0: 1, 2: 2}
    for text, expected in (("", {}), ("0", {}), ("1 0", {}), ("2 0 1 2 2\n", two), ("1\n2 0 1 2 2", two), ("1 2 0", {2: 0})):
        path.write_text(text)
        assert uai.read_evidence(path, (2, 2, 3)) == expected
    uai.write_evidence(path, {0: 1, 2: 2})
    assert uai.read_evidence(path, (2, 2, 3)) == {0: 1, 2: 2}
    marginals = [[0.25, 0.75], [1.0, 0.0], [0.2, 0.3, 0.5]]
    uai.write_marginals(path, marginals)
    assert path.read_text() == "MAR\n3 2 0.25 0.75 2 1.0 0.0 3 0.2 0.3 0.5\n"
    assert [each.tolist() for each in uai.read_marginals(path, (2, 2, 3))] == marginals
    path.write_text(path.read_text().replace("MAR\n", "MAR\n1\n"))
    assert [each.tolist() for each in uai.read_marginals(path, (2, 2, 3))] == marginals
    uai.write_partition(path, 3.5)
    assert uai.read_partition(path) == pytest.approx(3.5)


WRONG: list[tuple[str, str, str]] = [  # what is replaced in the small file, by what, and what is said
    ("MARKOV", "LIMID", "line 1: the file should begin with MARKOV or BAYES, not 'LIMID'"),
    ("MARKOV\n3", "MARKOV\n1000000000", "line 2: the number of variables is 1000000000, but only 27 words are left"),
    ("MARKOV\n3", "MARKOV\n0", "line 2: the number of variables is 0, but should be 1 or more"),
    ("MARKOV\n3", "MARKOV\n-3", "line 2: the number of variables should be a whole number, not '-3'"),
    ("MARKOV\n3", "MARKOV\n" + "9" * 50, "line 2: the number of variables is 9999"),
    ("2 2 3\n3", "2 two 3\n3", "line 3: the number of states of variable 1 should be a whole number, not 'two'"),
    ("2 2 3\n3", "2 0 3\n3", "line 3: the number of states of variable 1 is 0, but should be 1 or more"),
    ("2 2 3\n3", "2 2 1000000000\n3", "line 16: factor 2 has 6 entries, but its variables have 2000000000 states together"),
    ("2 2 3\n3", "2 2 3\n1000000000", "line 4: the number of factors is 1000000000, but only"),
    ("1 0", "1 3", "line 5: factor 0 names the variable 3, but there are the variables 0 … 2"),
    ("2 0 1", "2 1 1", "line 6: factor 1 names the variable 1 twice"),
    ("2 0 1", "900000000 0 1", "line 6: the number of variables of factor 1 is 900000000, but only"),
    ("\n4\n", "\n5\n", "line 12: factor 1 has 5 entries, but its variables have 4 states together"),
    ("0.872", "nan", "line 13: the table of factor 1 should be finite and not negative, but there is nan"),
    ("0.872", "inf", "line 13: .* but there is inf"),
    ("0.920", "-0.92", "line 14: the table of factor 1 should be finite and not negative, but there is -0.92"),
    ("0.920", "much", "line 14: the table of factor 1 should be numbers, but there is 'much'"),
    ("0.436 0.564", "0 0", "line 10: the table of factor 0 is all zeros"),
    ("0.000 0.189\n", "0.000\n", "line 16: the table of factor 2 needs 6 numbers, but only 5 words are left"),
    ("0.189\n", "0.189\n\n7\n", "line 20: there is more text after the last table: '7'"),
    (SMALL, f"MARKOV 40 {'1 ' * 40} 1 40 {' '.join(map(str, range(40)))} 1 1", "line 1: factor 0 has 40 variables, but 32 are"),
    (SMALL, "", "the file ends where MARKOV or BAYES should be"),
    (SMALL, "MARKOV\n1\n2", "line 3: the file ends where the number of factors should be"),
    (SMALL, "\0\0\0", "should begin with MARKOV"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_graphs_that_are_wrong(small: Path, old: str, new: str, message: str) -> None:
    assert old in SMALL
    small.write_text(SMALL.replace(old, new, 1))
    tracemalloc.start()
    with pytest.raises(InputError, match=message) as caught:
        FactorGraph.from_uai(small)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20  # nothing was made of the sizes that a header claims
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 0 1 7 0", "line 1: the variable 7 is observed, but there are the variables 0 … 2"),
        ("1 2 3", "line 1: the variable 2 is observed in state 3, but has only 3 states"),
        ("2 0 1", "line 1: the number of observed variables is 2, but only 2 words are left"),
        ("2 0 1\n0 0", "line 2: the variable 0 is observed in two states, 1 and 0"),
        ("1 0 one", "should be a whole number, not 'one'"),
        ("1000000000", "is 1000000000, but only 0 words are left"),
        ("2 1 0 1 1 0 0 0", "several samples of evidence"),
        ("1 0 1 5 5", "there is more text after the last observed variable"),
    ],
)
def test_evidence_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "e").write_text(text)
    with pytest.raises(InputError, match=message):
        uai.read_evidence(tmp_path / "e", (2, 2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PR\n3", "should begin with MAR, not 'PR'"),
        ("MAR\n2 2 1 0 2 1 0", "line 2: there are marginals of 2 variables, but the graph has 3"),
        ("MAR\n3 2 1 0 3 1 0 0 2 1 0", "the variable 1 has 3 states here, but 2 in the graph"),
        ("MAR\n3 2 1 0 2 1 0 3 1 0", "needs 3 numbers, but only 2 words are left"),
        ("MAR\n3 2 1 0 2 1 0 3 1 0 nan", "but there is nan"),
    ],
)
def test_marginals_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m").write_text(text)
    with pytest.raises(InputError, match=message):
        uai.read_marginals(tmp_path / "m", (2, 2, 3))


@given(st.data())
def test_any_damage_is_one_sentence(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Words dropped, doubled or replaced: a graph, or an InputError, never anything else."""
    path = tmp_path_factory.mktemp("uai") / "graph.uai"
    words = SMALL.split()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(words) - 1))
        new = data.draw(st.sampled_from(["", "0", "3", "-1", "1e400", "x", "10" * 9, "nan", f"{words[place]} 1", "٣", "1_0"]))
        words[place : place + 1] = new.split()
        words = words or ["0"]
    path.write_text(" ".join(words), encoding="utf-8")
    said = f"{path}, line "
    try:
        FactorGraph.from_uai(path)
    except InputError as error:
        said = str(error)
    assert said.startswith(f"{path}, line ")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        FactorGraph.from_uai(tmp_path / "none.uai")
    with pytest.raises(InputError, match="cannot be read as text"):
        FactorGraph.from_uai(tmp_path)
    (tmp_path / "binary.uai").write_bytes(os.urandom(64) + b"\xff\xfe")
    with pytest.raises(InputError, match=r"cannot be read as text|should begin with"):
        FactorGraph.from_uai(tmp_path / "binary.uai")
    extreme = FactorGraph([2], {"steep": torch.tensor([0.0, 1000.0])}, [("steep", (0,))])
    with pytest.raises(InputError, match="potentials of factor 0 are too large or too small"):
        extreme.to_uai(tmp_path / "steep.uai")
    assert not (tmp_path / "steep.uai").exists()
