"""python -m qtcore.infer with graphs of the UAI format: marginals, convergence, distances from a reference."""

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qtcore import BP, FactorGraph, Query, exact, infer
from qtcore.io import graphs
from qtcore.models import uai

from .commands import Command, command  # noqa: F401
from .models.test_networks import BIF, XMLBIF
from .strategies import F64, normal

LOOP = [(0, 1, 2), (2, 3, 4), (4, 5, 0)]


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    """infer(*arguments) in a folder with tree.uai (where BP is exact), loop.uai and frustrated.uai (where it oscillates)."""
    monkeypatch.chdir(tmp_path)
    FactorGraph([2, 3, 2], {"edge": normal(0, 2, 3)}, [("edge", [(0, 1), (2, 1)])], dtype=F64).to_uai("tree.uai")
    FactorGraph([2] * 6, {"three": normal(1, 2, 2, 2)}, [("three", LOOP)], dtype=F64).to_uai("loop.uai")
    pairs = [(i, j) for i in range(5) for j in range(i)]
    tables = {"apart": torch.tensor([[-3.0, 0.0], [0.0, -3.0]]), "bias": torch.tensor([0.0, 1.0])}
    factors = [("apart", pairs), ("bias", [(i,) for i in range(5)])]
    FactorGraph([2] * 5, tables, factors, dtype=F64).to_uai("frustrated.uai")
    return functools.partial(command, infer.main)


def exactly(path: str, known: dict[int, int]) -> list[np.ndarray]:
    model = FactorGraph.from_uai(path)
    probs = exact.marginals(model, model.query(known)).probs[0]  # type: ignore[attr-defined]
    return [row[:size].numpy() for row, size in zip(probs, model.n_states, strict=True)]


def test_marginals_of_a_tree(run: Command) -> None:
    uai.write_evidence("tree.evid", {1: 2})
    uai.write_marginals("reference.MAR", exactly("tree.uai", {1: 2}))
    result = run("tree.uai", "--evidence", "tree.evid", "--reference", "reference.MAR", "--until", 1e-9)
    assert result.code == 0
    assert result.err == ""
    first, second = result.out.splitlines()
    assert first.startswith("bp: converged after ")
    assert first.endswith("the marginals of 3 variables are in tree.MAR.")
    assert second.startswith("beside reference.MAR: mean Hellinger distance ")
    assert second.endswith("score 100.0.")
    for one, other in zip(uai.read_marginals("tree.MAR", (2, 3, 2)), exactly("tree.uai", {1: 2}), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("schedule", ["flooding", "sequential", "random", "residual"])
def test_schedules(run: Command, schedule: str) -> None:
    assert run("tree.uai", "--schedule", schedule, "--until", 1e-9).out.startswith("bp: converged after ")
    for one, other in zip(uai.read_marginals("tree.MAR", (2, 3, 2)), exactly("tree.uai", {}), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("engine", ["exact", "auto"])
def test_exact_engines(run: Command, engine: str) -> None:
    assert run("loop.uai", "--engine", engine, "--out", "answer.MAR").out.startswith("exact, in ")
    for one, other in zip(uai.read_marginals("answer.MAR", (2,) * 6), exactly("loop.uai", {}), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_reweighted(run: Command) -> None:
    """On a tree it is exact, and with the weights of spanning trees it converges where belief propagation does not."""
    assert run("tree.uai", "--engine", "reweighted").out.startswith("reweighted: converged after ")
    for one, other in zip(uai.read_marginals("tree.MAR", (2, 3, 2)), exactly("tree.uai", {}), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    loopy = run("frustrated.uai", "--engine", "reweighted", "--damping", 0.3)
    assert loopy.out.startswith("reweighted: converged after ")
    assert loopy.err == ""
    few = run("frustrated.uai", "--engine", "reweighted", "--layers", 2)
    assert few.out.startswith("reweighted: not converged after 2 layers (the last changed messages by up to ")
    assert "try --damping 0.5, or another engine." in few.err


def test_auto_takes_clusters_where_a_graph_is_too_wide(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """And belief propagation where it is too large for these as well."""
    expected = exactly("loop.uai", {})
    monkeypatch.setattr(exact, "MAX_STATES", 1)
    monkeypatch.setattr("qtcore.inference.orders.MAX_TABLE", 2)
    assert run("loop.uai", "--engine", "auto", "--out", "answer.MAR").out.startswith("join-graph: converged after ")
    for one, other in zip(uai.read_marginals("answer.MAR", (2,) * 6), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)  # the whole loop fits into one cluster
    monkeypatch.setattr(graphs, "SECONDS", 0.0)
    assert run("loop.uai", "--engine", "auto").out.startswith("join-graph: not converged after 1 layers")
    monkeypatch.setattr(graphs, "CLUSTERS", 0)
    assert run("loop.uai", "--engine", "auto").out.startswith("bp: converged after ")
    monkeypatch.setattr(graphs, "DAMPED", BP(until=1e-4, at_most=1))  # which does not converge
    (automatic, _), (residual, _) = (
        run("loop.uai", *options).out.split(", in ")
        for options in (("--engine", "auto"), ("--schedule", "residual", "--damping", 0.5))
    )
    assert automatic == residual


def test_what_does_not_converge_warns_and_says_what_to_try(run: Command) -> None:
    result = run("frustrated.uai")
    assert result.code == 0
    assert result.out.startswith("bp: not converged after 1000 layers (the last changed messages by up to ")
    assert result.err.startswith("warning: the messages have not converged")
    assert "try --damping 0.5, --schedule residual, or --engine exact." in result.err
    by_residuals = run("frustrated.uai", "--schedule", "residual", "--layers", 20)
    assert "try --damping 0.5, or --engine exact." in by_residuals.err
    damped = run("frustrated.uai", "--damping", 0.7)
    assert damped.out.startswith("bp: converged after ")
    assert damped.err == ""
    few = run("frustrated.uai", "--layers", 7, "--damping", 0.5)
    assert few.out.startswith("bp: not converged after 7 layers")
    assert "try --damping 0.9 with --layers 10000" in few.err


def test_the_partition_function(run: Command) -> None:
    uai.write_evidence("loop.evid", {0: 1})
    assert run("loop.uai", "--evidence", "loop.evid", "--out", "loop.PR").out.endswith("it is in loop.PR.\n")
    model = FactorGraph.from_uai("loop.uai")
    nothing = Query(torch.zeros(1, 6), torch.zeros(1, 6, dtype=torch.bool))
    share = float(exact.marginals(model, nothing).probs[0, 0, 1])  # type: ignore[attr-defined]
    assert uai.read_partition("loop.PR") == pytest.approx(float(exact.log_z(model)) + math.log(share), abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.uai",), "none.uai does not exist."),
        (("tree.uai", "rows.csv"), "a graph is asked by itself; what is observed is given with --evidence."),
        (("tree.uai", "--evidence", "none.evid"), "none.evid does not exist."),
        (("tree.uai", "--reference", "tree.uai"), "tree.uai, line 1: the file should begin with MAR, not 'MARKOV'."),
        (("tree.uai", "--out", "tree.uai"), "tree.uai is also read; give another place for the answer with --out."),
        (
            ("tree.uai", "--engine", "exact", "--damping", "0.5"),
            "--damping goes with the engines bp, mean-field, reweighted and join-graph, not with exact.",
        ),
        (
            ("tree.uai", "--engine", "exact", "--schedule", "residual"),
            "--schedule goes with the engines bp, mean-field, reweighted and join-graph, not with exact.",
        ),
        (
            ("tree.uai", "--schedule", "backwards"),
            "schedule must be 'flooding' or 'sequential' or 'random' or 'residual' for a FactorGraph, not 'backwards'.",
        ),
        (("tree.uai", "--engine", "gibs"), "there is no engine named 'gibs'; did you mean gibbs?"),
        (("tree.uai", "--damping", "1"), "damping must lie in [0, 1), not 1.0; 0 means none."),
        (
            ("rbm/adult", "rows.csv", "--until", "1"),
            "--until goes with a graph (.uai, .bif, .xml, .xmlbif), not with the model rbm/adult.",
        ),
        (("rbm/adult",), "give a table or an image to ask rbm/adult about."),
    ],
)
def test_what_is_refused(run: Command, arguments: tuple[str, ...], message: str) -> None:
    assert run(*arguments).sentence == message
    assert not Path("tree.MAR").exists()


def test_impossible_evidence_is_named(run: Command) -> None:
    Path("same.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 0 0 1\n")
    uai.write_evidence("same.evid", {0: 0, 1: 1})
    said = run("same.uai", "--evidence", "same.evid").sentence
    assert said.startswith("this evidence has probability 0 under the factors (0, 1)")
    assert "probability 0" in run("same.uai", "--evidence", "same.evid", "--engine", "exact").sentence


def test_directed_networks(run: Command) -> None:
    """The same network in BIF and in XMLBIF: numbers of variables and states are those of the file."""
    Path("lawn.bif").write_text(BIF)
    Path("lawn.xml").write_text(XMLBIF)
    uai.write_evidence("lawn.evid", {2: 1})
    model = FactorGraph.from_bif("lawn.bif")
    expected: Any = exact.marginals(model, model.query({"wet": "wet"}))
    for path in ("lawn.bif", "lawn.xml"):
        result = run(path, "--evidence", "lawn.evid", "--engine", "exact", "--out", "lawn.MAR")
        assert result.out.endswith("the marginals of 3 variables are in lawn.MAR.\n")
        for i, marginal in enumerate(uai.read_marginals("lawn.MAR", (2, 3, 2))):
            np.testing.assert_allclose(marginal, expected.probs[0, i, : len(marginal)], atol=1e-12)
    Path("names.evid").write_text("2 wet wet 0 no")
    assert uai.read_evidence("names.evid", model.n_states, model.names, model.state_names) == {2: 1, 0: 0}
    Path("names.evid").write_text("1 wet moist")
    said = "names.evid, line 1: the state of variable wet should be one of the names or a whole number, not 'moist'."
    assert run("lawn.bif", "--evidence", "names.evid").sentence == said
    Path("lawn.bif").write_text(BIF.replace("0.3,", "much,"))
    assert run("lawn.bif").sentence.startswith("lawn.bif, line 16: the probabilities of 'sprinkler' should be numbers")


def test_distances_by_hand() -> None:
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    result = graphs.compare([p, q, p], [q, q, np.array([1.0, 0.0])], {2})
    distance = math.sqrt(1 - math.sqrt(0.45) - math.sqrt(0.05))
    assert result.hellinger == pytest.approx(distance / 2)
    assert result.mean == pytest.approx(0.2)
    assert result.largest == pytest.approx(0.4)
    assert result.score == pytest.approx(50)
    assert graphs.compare([p], [q], ()).score == 0
    assert graphs.compare([p], [p], ()).score == 100


def test_columns_by_the_names_of_a_graph(run: Command) -> None:
    table = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    FactorGraph({"rain": 2, "wet": 2}, {"edge": table}, [("edge", ("rain", "wet"))]).save("rain.safetensors")
    Path("rows.csv").write_text("wet,rain\n1,\n")
    assert run("rain.safetensors", "rows.csv").code == 0
    header, line = Path("rows.marginals.csv").read_text().splitlines()
    assert line.split(",")[1] == "rain"
    assert float(line.split(",")[3]) == pytest.approx(math.e / (1 + math.e), rel=1e-5)
    assert header == "row,variable,p_0,p_1"


def test_a_table_over_a_folder(run: Command) -> None:
    for name in ("tree", "frustrated"):
        known = {0: 1}
        uai.write_evidence(f"{name}.uai.evid", known)
        uai.write_marginals(f"{name}.uai.MAR", exactly(f"{name}.uai", known))
    result = run(".")
    assert result.code == 0
    _, _, frustrated, tree, total = result.out.splitlines()
    assert frustrated.startswith("| frustrated | 5 | 15 | 3 | ")
    assert "not converged" in frustrated
    assert tree.startswith(f"| tree | 3 | 2 | 1 | {' | '.join(['0.0000 (100.0)'] * 5)} | exact, ")
    assert total.startswith("| all 2 | | | | mean score ")
    Path("empty").mkdir()
    assert run("empty").sentence == "empty has no graph with its reference marginals (name.uai with name.uai.MAR)."
