"""Graphs in model files: tensors of whole numbers, once words in the header; damaged ones are refused by name."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import qtcore
from qtcore import FactorGraph, PairwiseMRF

from ..strategies import build
from .test_saving import about, in_words, refused, rewrite


def interleaved() -> FactorGraph:
    """Factors of several tables in turn, constants, rules with scopes of several lengths, names, fixed and hidden ones."""
    factors: list[Any] = [("edge", (0, 1)), ("own", [(1, 2), (2, 0)]), ("edge", [(1, 0), (2, 1)])]
    factors += [("three", (2, 1, 0)), ("own", (0, 2))]
    factors += [("constant", ()), ("any", (0, 1, 2)), ("one", [(0, 1), (2, 1)]), ("any", (2, 1)), ("constant", ())]
    tables = {"any": "or", "edge": [2, 2], "own": [3, 2, 2], "three": [2, 2, 2], "constant": [], "one": "at most one"}
    named = {"a": ["no", "yes"], "b": 2, "c": 2}
    return FactorGraph(named, tables, factors, hidden=["c"], fixed=["three"])


@pytest.mark.parametrize("make", [interleaved, lambda: build("FactorGraph"), lambda: build("PairwiseMRF")])
def test_graphs_are_tensors_in_files_and_once_were_words(make: Any, tmp_path: Path) -> None:
    model, path = make(), tmp_path / "m.safetensors"
    model.save(path)
    stored = about(path)
    assert stored["version"] == 2
    assert not stored["config"].keys() & {"factors", "edges", "hidden"}
    new = qtcore.load(path)
    in_words(model, path)
    old = qtcore.load(path)
    for result in (new, old):
        assert result.config() == model.config()
        assert all(torch.equal(value, result.state_dict()[name]) for name, value in model.state_dict().items())


GRAPH_DAMAGE = {
    "table out of range": ({"graph.table": [0, 9, 0]}, "other numbers of factors"),
    "table far out of range": ({"graph.table": [0, 2**31 - 1, 0]}, "other numbers of factors"),
    "table below 0": ({"graph.table": [0, -1, 0]}, "other numbers of factors"),
    "no factor": ({"graph.table": []}, "other numbers of factors"),
    "a factor too few": ({"graph.table": [0, 1]}, "other numbers of factors"),
    "a variable out of range": ({"graph.scopes.edge.2": [[0, 1], [1, 3]]}, "must name variables among 0 … 2"),
    "a variable below 0": ({"graph.scopes.edge.2": [[0, 1], [1, -1]]}, "must name variables among 0 … 2"),
    "scopes of three": ({"graph.scopes.edge.2": [[0, 1, 2], [1, 0, 2]]}, "which no table is for"),
    "a row of scopes": ({"graph.scopes.edge.2": [0, 1]}, "the shape \\[2\\]"),
    "scopes of no table": ({"graph.scopes.more.2": [[0, 1]]}, "which no table is for"),
    "scopes of more factors": ({"graph.scopes.edge.3": [[0, 1, 2]]}, "other numbers of factors"),
    "no states": ({"graph.n_states": [2, 0, 2]}, "at least one state"),
    "too many states": ({"graph.n_states": [2, 2**31 - 1, 2]}, "too many"),
    "other states": ({"graph.n_states": [2, 3, 2]}, "have .* states"),
    "hidden twice": ({"graph.hidden": [1, 1]}, "distinct variables"),
    "hidden elsewhere": ({"graph.hidden": [7]}, "distinct variables"),
    "more": ({"graph.colour": [1]}, "other colour"),
}


@pytest.mark.parametrize("damage", GRAPH_DAMAGE)
def test_a_graph_that_is_not_what_was_written(damage: str, tmp_path: Path) -> None:
    factors = [("edge", (0, 1)), ("bias", (1,)), ("edge", (1, 2))]
    model, path = FactorGraph([2] * 3, {"edge": [2, 2], "bias": [2]}, factors), tmp_path / "m.safetensors"
    model.save(path)
    arrays, message = GRAPH_DAMAGE[damage]
    rewrite(path, tensors={name: torch.tensor(value, dtype=torch.int32) for name, value in arrays.items()})
    refused(path, message)


def test_a_graph_of_another_type_or_in_another_place(tmp_path: Path) -> None:
    model, path = build("FactorGraph"), tmp_path / "m.safetensors"
    for name in ("graph.table", "graph.scopes.edge.2", "graph.n_states", "graph.hidden"):
        for dtype in (torch.int64, torch.float32, torch.bool):
            model.save(path)
            with safe_open(path, "pt") as file:
                array = file.get_tensor(name)
            rewrite(path, tensors={name: array.to(dtype)})
            refused(path, "is of the type")
    model.save(path)
    rewrite(path, config=about(path)["config"] | {"hidden": [2]})
    refused(path, "has the hidden twice")
    model.save(path)
    rewrite(path, config=about(path)["config"] | {"tables": 3})
    refused(path, "does not understand")
    build("RBM").save(path)
    rewrite(path, tensors={"graph.table": torch.zeros(3, dtype=torch.int32)})
    refused(path, "holds a graph, which a RBM does not need")


def test_a_graph_of_many_edges(tmp_path: Path) -> None:
    model = PairwiseMRF((2,) * 30, [(i, j) for i in range(30) for j in range(i)], hidden=range(20, 30))
    model.save(tmp_path / "m.safetensors")
    result: Any = qtcore.load(tmp_path / "m.safetensors")
    assert (result.n_states, result.edges, result.hidden) == (model.n_states, model.edges, model.hidden)
