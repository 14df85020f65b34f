"""UAI files in the lab: what is opened is the library's graph, what is saved is opened again, and what is refused."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from qtcore_app.lab import files, inference
from qtcore_app.lab.address import decode, encode
from qtcore_app.lab.drawings import PARTS, table
from qtcore_app.lab.files import opened, parts_of, saved
from qtcore_app.lab.graphs import default
from qtcore_app.pages.lab import LabPage
from qtcore_app.shell import Shell

from qtcore import Exact, FactorGraph, Query, exact
from qtcore.errors import InputError

from .test_lab_drawing import loopy

UAI = "MARKOV 4 2 2 2 2 6  1 0  2 0 1  2 2 1  3 1 3 2  2 3 0  1 2 "
TABLES = "2 1 3  4 2 1 1 2  4 1 3 2 1  8 1 2 3 1 2 1 1 4  4 2 1 1 2  2 1 .5"


def test_a_file_is_the_same_graph_as_for_the_library(tmp_path: Path) -> None:
    lab = opened((UAI + TABLES).encode())
    (tmp_path / "graph.uai").write_text(UAI + TABLES)
    graph = FactorGraph.from_uai(tmp_path / "graph.uai", dtype=torch.float64)
    nothing = Query(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool))
    expected = graph(nothing, engine=Exact()).probs[0, :, 1]
    np.testing.assert_allclose(inference.exact_marginals(lab), expected.detach(), atol=1e-4)
    assert inference.exact_answers(lab).log_z == pytest.approx(float(exact.log_z(graph)), abs=2e-4)
    run = inference.layers(lab)
    wrong = graph(nothing, 60).probs[0, :, 1].detach()  # the factors are the same too, and so is where the messages converge
    assert inference.verdicts(run, hand=False)[-1].word == "converged"
    np.testing.assert_allclose(run.beliefs[-1], wrong, atol=2e-4)
    assert np.abs(run.beliefs[-1] - inference.exact_marginals(lab)).max() > 0.01
    assert decode(encode(lab)) == lab


def test_what_is_saved_is_opened_again() -> None:
    for lab in (default(), loopy(7), replace(opened((UAI + TABLES).encode()), strength=0.5)):
        again = opened(saved(lab).encode())
        assert again.graph.factors == tuple(tuple(sorted(scope)) for scope in lab.graph.factors)
        np.testing.assert_allclose(inference.exact_marginals(again), inference.exact_marginals(lab), atol=1e-3)
        assert inference.exact_answers(again).log_z == pytest.approx(inference.exact_answers(lab).log_z, abs=1e-3)
    trained = replace(default(), trained=(0.25,) * 8, trained_for=(1, 0, 40, 0), shown=1)
    assert opened(saved(trained).encode()).couplings == pytest.approx((0.25,) * 4)  # the parameters that are shown


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_parts_of_a_table_add_up_to_it(order: int) -> None:
    log = np.random.default_rng(order).normal(size=(2,) * order)
    parts = parts_of(log)
    again = np.full(log.shape, parts[()])
    for axis in range(order):
        again += parts[(axis,)] * np.indices(log.shape)[axis]
    if order == 2:
        again += table((parts[(0, 1)],))
    if order == 3:
        again += table(tuple(parts[part] for part in PARTS))
    np.testing.assert_allclose(again, log, atol=1e-12)


def test_factors_of_the_same_variables_are_multiplied() -> None:
    lab = opened(b"MARKOV 2 2 2 2  2 0 1  2 1 0  4 2 1 1 2  4 3 1 1 3")
    assert lab.couplings == pytest.approx((math.log(6),), abs=1e-4)


PAIRS = "".join(f"2 {i} {j} " for i, j in list(itertools.combinations(range(12), 2))[:41])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "ends where MARKOV or BAYES should be"),
        ("hello", "line 1: the file should begin with MARKOV or BAYES, not 'hello'"),
        ("MARKOV 13 " + "2 " * 13 + "0", "the graph has 13 variables; the lab takes up to 12"),
        ("MARKOV 2 2 3 0", "the lab is for variables of two states, but the variable 1 has 3"),
        ("MARKOV 4 2 2 2 2 1 4 0 1 2 3 16 " + "1 " * 16, "the factor 0 has 4 variables"),
        ("MARKOV 2 2 2 1 2 0 1 4 1 0 0 1", "the table of factor 0 has a zero"),
        ("MARKOV 2 2 2 1 2 0 1 4 1e300 1 1 1e300", "the lab takes log-potentials of up to 30"),
        ("MARKOV 2 2 2 1 2 0 1 4 1 1 nan 1", "should be finite and not negative"),
        ("MARKOV 999999999 2 2", "only 2 words are left"),
        ("MARKOV 12 " + "2 " * 12 + "41 " + PAIRS + "4 2 1 1 2 " * 41, "the graph has 41 factors"),
        ("MARKOV" + " " * files.MAX_BYTES, "the lab opens UAI files of up to 64 kB"),
    ],
)
def test_files_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        opened(text.encode())
    said = str(refused.value)
    assert sentence in said
    assert said.endswith(".")
    assert "\n" not in said
    assert "/" not in said  # no place on this machine


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"this is no text; the lab opens graphs in the UAI format"):
        opened(b"\xff\xfe\x00\x01")


def test_the_page_opens_files_and_says_why_it_does_not() -> None:
    shell = Shell("?page=lab")
    page = LabPage(shell)
    before = page.lab
    page.component.file = b"\x01\x00\x00\x00hello"
    assert page.component.notice == "The file, line 1: the file should begin with MARKOV or BAYES, not 'hello'."
    assert page.lab == before
    page.component.file = b"\x02\x00\x00\x00" + (UAI + TABLES).encode()
    assert page.component.notice == ""
    assert page.lab.graph.factors == ((0, 1), (1, 2), (0, 3), (1, 2, 3))
    assert LabPage(Shell(shell.states["lab"].to_query())).lab == page.lab
    page.component.packet = [1, "undo"]
    assert page.lab == before
    page.component.packet = [2, "undo"]  # nothing more
    assert page.lab == before


def test_the_page_saves_and_starts_over() -> None:
    page = LabPage(Shell("?page=lab"))
    page.component.packet = [1, "save"]
    assert '"name": "loop.uai"' in page.component.saved
    page.component.packet = [2, "add", 0.5, 0.5]
    page.component.packet = [3, "join", 0, 4]
    drawn_lab = page.lab
    assert drawn_lab.graph.edges == ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4))
    tried = (["evidence", 1, 1], ["coupling", 0, -1], ["temperature", 0.5], ["schedule", 2], ["hand", 0], ["send", 1, 0])
    for k, action in enumerate(tried):
        page.component.packet = [4 + k, *action]
    assert page.lab != drawn_lab
    page.component.packet = [20, "start"]
    assert page.lab == drawn_lab
    page.component.packet = [21, "undo"]
    assert page.lab.graph.n == 5
    assert len(page.lab.graph.edges) == 4
