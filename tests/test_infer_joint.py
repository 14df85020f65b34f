"""python -m qtcore.infer with --samples, --joint and --next: joint answers about the rows of a table, graphs and images."""

import csv
import functools
import math
from pathlib import Path

import pytest
import torch
from PIL import Image

import qtcore
from qtcore import FactorGraph, Query, infer
from qtcore.io.images import image_query, write_png
from qtcore.io.joint_tables import ORDERS

from .commands import Command, command  # noqa: F401
from .joint import query_of, tree
from .strategies import F64, build, normal, rng

NAN = math.nan


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    tree("RBM", 0, 2.0).save("rbm.safetensors")
    return functools.partial(command, infer.main)


def lines_of(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_samples(run: Command) -> None:
    Path("rows.csv").write_text("1,,0,\n0,1,1,0\n,,,\n")
    result = run("rbm.safetensors", "rows.csv", "--samples", 3)
    assert result == (0, "3 samples of each of 3 rows are in rows.samples.csv.\n", "")
    header, *lines = lines_of("rows.samples.csv")
    assert header == ["row", "sample", "1", "2", "3", "4"]
    assert [line[:2] for line in lines] == [[str(row), str(k)] for row in (1, 2, 3) for k in (1, 2, 3)]
    values = torch.tensor([[1, NAN, 0, NAN], [0, 1, 1, 0], [NAN] * 4], dtype=torch.float64)
    expected = tree("RBM", 0, 2.0).sample(Query(values, ~values.isnan()), 3, generator=rng(0))
    drawn = torch.tensor([[float(x) for x in line[2:]] for line in lines], dtype=torch.float64).view(3, 3, 4)
    assert torch.equal(drawn.transpose(0, 1), expected)


def test_samples_of_real_numbers_and_states(run: Command) -> None:
    for kind, row in (("GaussianRBM", "0.5,,-1.25,\n"), ("PairwiseMRF", "1,,3\n")):
        build(kind).save("model.safetensors")
        Path("rows.csv").write_text(row)
        assert run("model.safetensors", "rows.csv", "--samples", 2, "--out", "answer.csv").code == 0
        for line in lines_of("answer.csv")[1:]:
            for text, given in zip(line[2:], row.strip().split(","), strict=True):
                assert math.isfinite(float(text))
                assert given in ("", text)


def test_the_probability_of_what_is_known(run: Command) -> None:
    """Blanks are summed out; on a tree, all orders agree."""
    Path("rows.csv").write_text("1,,0,\n0,1,1,0\n")
    assert run("rbm.safetensors", "rows.csv", "--joint").out == "the log-probabilities of 2 rows are in rows.joint.csv.\n"
    header, *lines = lines_of("rows.joint.csv")
    assert header == ["row", "log_prob", "spread"]
    model = tree("RBM", 0, 2.0)
    whole = qtcore.exact.log_likelihood(model, torch.tensor([[1.0, a, 0, b] for a in (0, 1) for b in (0, 1)])).logsumexp(0)
    assert float(lines[0][1]) == pytest.approx(float(whole), abs=1e-5)
    assert float(lines[1][1]) == pytest.approx(
        float(qtcore.exact.log_likelihood(model, torch.tensor([[0.0, 1, 1, 0]]))), abs=1e-5
    )
    assert all(float(line[2]) < 1e-5 for line in lines)
    assert ORDERS > 1


def test_what_to_ask_next(run: Command) -> None:
    Path("rows.csv").write_text("1,,,\n1,0,1,\n")
    result = run("rbm.safetensors", "rows.csv", "--next", "4")
    assert result.out == "what the blanks of 1 rows would tell about 4 is in rows.next.csv.\n"
    header, *lines = lines_of("rows.next.csv")
    assert header == ["row", "variable", "bits"]
    model = tree("RBM", 0, 2.0)
    bits = qtcore.next_question(model, query_of(model), about=[3]).bits[0]
    assert [(line[0], line[1]) for line in lines] == [
        ("1", str(j + 1)) for j in bits.nan_to_num(-1).argsort(descending=True)[:2].tolist()
    ]
    assert [float(line[2]) for line in lines] == pytest.approx(sorted(bits[1:3].tolist(), reverse=True), rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--samples", 0], "--samples must be at least 1, not 0."),
        (["--samples", 2, "--joint"], "--samples and --joint are answers of their own; give one of them."),
        (["--next", "weather"], "rows.csv: there is no variable 'weather'; the first is '1'."),
        (["--next", "1"], "rows.csv, row 1: 1 is known there; leave it blank to ask what tells about it."),
        (["--joint"], "rows.csv, row 2: every variable is blank, so there is nothing to give the probability of."),
    ],
)
def test_bad_input(arguments: list[object], said: str, run: Command) -> None:
    Path("rows.csv").write_text("1,,0,\n,,,\n")
    assert run("rbm.safetensors", "rows.csv", *arguments).sentence == said
    assert [path.name for path in Path().glob("rows.*")] == ["rows.csv"]


# ---------------------------------------------------------------------------------------------------------------------
# Graphs


@pytest.fixture
def graph(run: Command) -> FactorGraph:
    """graph.uai, a chain of three, with its middle observed in graph.evid."""
    tables = {"one": normal(0, 2, 3), "other": normal(1, 3, 2)}
    FactorGraph([2, 3, 2], tables, [("one", (0, 1)), ("other", (1, 2))], dtype=F64).to_uai("graph.uai")
    Path("graph.evid").write_text("1 1 2\n")
    return FactorGraph.from_uai("graph.uai")


def test_samples_of_a_graph(run: Command, graph: FactorGraph) -> None:
    result = run("graph.uai", "--evidence", "graph.evid", "--samples", 4)
    assert result == (0, "4 joint states are in graph.samples.csv.\n", "")
    header, *lines = lines_of("graph.samples.csv")
    assert header == ["row", "sample", "0", "1", "2"]
    assert [line[:2] + line[3:4] for line in lines] == [["1", str(k), "2"] for k in (1, 2, 3, 4)]


def test_the_probability_of_evidence(run: Command, graph: FactorGraph) -> None:
    Path("two.evid").write_text("2 0 1 2 0\n")
    with torch.no_grad():
        expected = qtcore.exact.joint(graph).log_marginal(0, 2)[1, 0]
    for options in (("--until", 1e-9), ("--engine", "exact")):
        said = run("graph.uai", "--evidence", "two.evid", "--joint", *options)
        number = said.out.removeprefix("the log-probability of the evidence is ").split()[0]
        assert float(number) == pytest.approx(float(expected), abs=1e-6)
    assert not Path("graph.joint.csv").exists()
    Path("same.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 0 0 1\n")
    Path("never.evid").write_text("2 0 0 1 1\n")
    assert run("same.uai", "--evidence", "never.evid", "--joint").out.endswith("is -inf: it is impossible.\n")


def test_what_to_ask_next_of_a_graph(run: Command, graph: FactorGraph) -> None:
    assert run("graph.uai", "--next", "2").out == "what the other variables would tell about 2 is in graph.next.csv.\n"
    header, *lines = lines_of("graph.next.csv")
    bits = qtcore.next_question(graph, graph.query({}), about=[2], engine=qtcore.Exact()).bits[0]
    assert (header, [line[0] for line in lines]) == (["variable", "bits"], ["1", "0"])
    assert [float(line[1]) for line in lines] == pytest.approx([float(bits[1]), float(bits[0])], abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--joint"], "--joint gives the probability of what is known; say what that is with --evidence."),
        (["--next", "wet"], "the graph has no variable 'wet'; the first is '0'."),
        (["--next", "1", "--evidence", "graph.evid"], "1 is observed; leave it out of the evidence to ask "),
        (["--samples", 0], "--samples must be at least 1, not 0."),
        (["--samples", 2, "--engine", "auto"], "--engine auto and --reference go with marginals; with --samples give bp"),
        (["--joint", "--out", "x.csv"], "of a graph, --joint prints a single number; leave --out away."),
    ],
)
def test_what_does_not_go_with_a_graph(arguments: list[object], said: str, run: Command, graph: FactorGraph) -> None:
    assert run("graph.uai", *arguments).sentence.startswith(said)
    assert run(".", "--joint").sentence == "--joint goes with a single graph, not with a folder of them."
    assert not list(Path().glob("*.csv"))


# ---------------------------------------------------------------------------------------------------------------------
# Images


def test_images(run: Command) -> None:
    model = qtcore.load("grbm/frey")
    write_png(Path("face.png"), torch.full((28, 20), 100.0))
    known = torch.zeros(28, 20)
    known[5:8, 5:10] = 255
    write_png(Path("mask.png"), known)
    face = ("grbm/frey", "face.png", "--mask", "mask.png", "--layers", 2)
    assert run(*face, "--samples", 2).out == "2 samples are in face.samples.png.\n"
    with Image.open("face.samples.png") as picture:
        assert picture.size == (2 * 22 * 4, 30 * 4)
    said = run(*face, "--joint").out
    query = image_query(model, Path("face.png"), Path("mask.png"))
    asked = Query(query.values, torch.zeros_like(query.observed), query.observed)
    expected = model.log_prob(asked, ORDERS, infer.BLOCK, rng(0), model.engine.at(2))
    assert said.startswith(f"the log-density of 15 known pixels is {float(expected.mean):.7g} nats (± ")
    qtcore.GridMRF(4, 5, (2, 1, 1), n_layers=2).save("grid.safetensors")
    write_png(Path("contour.png"), torch.eye(4, 5) * 255)
    assert run("grid.safetensors", "contour.png", "--samples", 3).code == 0
    for arguments, sentence in (
        ((*face, "--next", "3"), "--next names a variable of a table or of a graph; pixels have no names."),
        ((*face, "--joint", "--out", "x.txt"), "of an image, --joint prints a single number; leave --out away."),
        ((*face, "--samples", 2, "--out", "x.csv"), "x.csv must end in .png: samples of an image are written side by side."),
        (("grbm/frey", "face.png", "--samples", 2), "a face needs --mask, an image that is white where the face is known"),
        (("grid.safetensors", "contour.png", "--joint"), "--joint gives the probability of what is known, and of an image no"),
        (("rbm.safetensors", "face.png", "--samples", 2), "rbm.safetensors answers tables (CSV), not images such as face.png."),
    ):
        assert run(*arguments).sentence.startswith(sentence)
    write_png(Path("mask.png"), torch.zeros(28, 20))
    assert run(*face, "--joint").sentence.startswith("nothing is known of this face")
