"""Factor graphs that are made of other things: chains, trees, grids, semi-restricted machines, other models and libraries."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest
import torch

import qtcore
from qtcore import DBM, RBM, Exact, FactorGraph, GaussianRBM, GridMRF, Query
from qtcore.errors import InputError

from ..graphs import bits_as_likelihoods, pixels_as_likelihoods
from ..strategies import EVIDENCE, F64, ask, clamped, close, normal, randomise


def scopes_of(graph: FactorGraph, name: str) -> list[list[int]]:
    return [scope for table, scopes in graph.factors() if table == name for scope in scopes]


# ---------------------------------------------------------------------------------------------------------------------
# Chains, trees, grids


def test_a_chain_and_a_tree() -> None:
    chain = FactorGraph.chain(4, 3, n_layers=7, dtype=F64)
    assert scopes_of(chain, "edge") == [[0, 1], [1, 2], [2, 3]]
    assert scopes_of(chain, "unary") == [[0], [1], [2], [3]]
    assert chain.n_layers == 7
    assert FactorGraph.chain(1, 3).n_factors == 1
    tree = FactorGraph.tree([None, 0, 0, 1, None], 2, tables={"edge": normal(0, 2, 2)}, fixed=["edge"])
    assert scopes_of(tree, "edge") == [[0, 1], [0, 2], [1, 3]]
    close(tree.tables["edge"].to(F64), normal(0, 2, 2), 1e-6)
    assert not tree.tables["edge"].requires_grad
    for graph in (chain, tree):
        query = ask(graph, 1, "mixed")
        close(graph(query).probs, graph(query, engine=Exact()).probs, 1e-5)


def test_a_chain_by_hand() -> None:
    """p(x) ∝ Π exp(unary(x_i)) Π exp(edge(x_i, x_i+1)), the earlier variable on the first axis."""
    unary, edge = normal(1, 2), normal(2, 2, 2)
    chain = FactorGraph.chain(3, 2, tables={"edge": edge, "unary": unary}, dtype=F64)
    weights = torch.zeros(2, 2, 2, dtype=F64)
    for state in itertools.product(range(2), repeat=3):
        weights[state] = sum(unary[s] for s in state) + edge[state[0], state[1]] + edge[state[1], state[2]]
    close(qtcore.exact.log_z(chain), weights.logsumexp((0, 1, 2)))
    close(chain(Query(torch.zeros(1, 3), torch.zeros(1, 3))).probs[0, 2], weights.logsumexp((0, 1)).softmax(0))


def test_grids_with_any_neighbourhood() -> None:
    grid = FactorGraph.grid(2, 3, 2, [(0, 1), (1, -1), (0, 2), (5, 5)])
    assert grid.image_shape == (2, 3)
    assert list(grid.tables) == ["unary", "offset_0_1", "offset_1_-1", "offset_0_2"]
    assert scopes_of(grid, "offset_0_1") == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert scopes_of(grid, "offset_1_-1") == [[1, 3], [2, 4]]
    assert scopes_of(grid, "offset_0_2") == [[0, 2], [3, 5]]
    assert FactorGraph.grid(28, 28, 2).n_factors == 28 * 28 + 2 * 27 * 28


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FactorGraph.chain(0, 2), "n must be a whole number ≥ 1, not 0"),
        (lambda: FactorGraph.chain(3, 0), "states must be a whole number ≥ 1, not 0"),
        (lambda: FactorGraph.chain(3, 2, tables={"egde": [2, 2]}), r"no table named 'egde' in this graph; did you mean edge\?"),
        (lambda: FactorGraph.tree([None, 5], 2), "the parent of variable 1 must be None or one of 0 … 1, not 5"),
        (lambda: FactorGraph.tree([1, 2, 0], 2), "hangs from itself"),
        (lambda: FactorGraph.tree([0], 2), "variable 0 hangs from itself"),
        (lambda: FactorGraph.grid(2, 2, 2, [(0, 0)]), r"the offset \(0, 0\) is no neighbour"),
        (lambda: FactorGraph.grid(2, 2, 2, [(0, 1), (0, -1)]), r"the offset \(0, -1\) is no neighbour, or is given twice"),
        (lambda: FactorGraph.grid(2, 2, 2, [1]), r"an offset is a pair of whole numbers \(down, right\), not 1"),
        (lambda: FactorGraph.grid(2, 2, 2, [(0.5, 1)]), "an offset is a pair of whole numbers"),
        (lambda: FactorGraph.semi_restricted(3, 0), "n_hidden must be a whole number"),
        (lambda: FactorGraph.semi_restricted(3, 2, edges=[(0, 3)]), "edges and groups are of visible bits, 0 … 2, not of 3"),
        (lambda: FactorGraph.semi_restricted(3, 2, groups=[(0, 4)]), "edges and groups are of visible bits, 0 … 2, not of 4"),
        (lambda: FactorGraph.from_model(GaussianRBM(3, 2)), "an RBM, a DBM or a GridMRF, not of a GaussianRBM"),
        (lambda: FactorGraph.from_networkx(3), "this is no graph of networkx, but a int"),
        (lambda: FactorGraph.from_pgmpy(3), "this is no discrete model of pgmpy, but a int"),
    ],
)
def test_what_makes_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


# ---------------------------------------------------------------------------------------------------------------------
# Machines


def test_a_semi_restricted_machine() -> None:
    """By enumeration; and its groups are one-of-k codes."""
    machine = FactorGraph.semi_restricted(5, 2, edges=[(0, 1), (1, 2)], groups=[(2, 3, 4)], dtype=F64)
    randomise(machine, 1)
    assert machine.hidden == (5, 6)
    bias, weights, lateral = (machine.tables[name].detach() for name in ("bias", "weights", "lateral"))
    total = torch.full((2,) * 7, -math.inf, dtype=F64)
    for x in itertools.product(range(2), repeat=7):
        if sum(x[2:5]) == 1:
            score = sum(bias[i, x[i]] for i in range(7)) + lateral[0, x[0], x[1]] + lateral[1, x[1], x[2]]
            total[x] = score + sum(weights[2 * v + h, x[v], x[5 + h]] for v in range(5) for h in range(2))
    close(qtcore.exact.log_z(machine), total.logsumexp(tuple(range(7))))
    probs = machine(machine.query({0: 1}), engine=Exact()).probs[0]
    close(probs[4], total[1].logsumexp((0, 1, 2, 4, 5)).softmax(0))
    close(machine(machine.query({3: 1})).probs[0, [2, 4], 1], torch.zeros(2, dtype=F64))


def test_without_edges_and_groups_it_is_an_rbm() -> None:
    rbm = randomise(RBM(3, 2, dtype=F64), 0)
    machine = FactorGraph.semi_restricted(3, 2, dtype=F64)
    given = FactorGraph.from_model(rbm)
    with torch.no_grad():
        machine.tables["bias"].copy_(given.tables["unary"])
        order = [2 * v + h for v, h in ((scope[0], scope[1] - 3) for scope in scopes_of(given, "edge_0"))]
        machine.tables["weights"][order] = given.tables["edge_0"].detach().clone()
    query = bits_as_likelihoods(ask(rbm, 1))
    close(machine(query).probs, given(query).probs)


def test_a_semi_restricted_machine_learns() -> None:
    torch.manual_seed(0)
    machine = FactorGraph.semi_restricted(4, 2, edges=[(0, 1)], groups=[(2, 3)], n_layers=4)
    rows = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]]).repeat(40, 1)
    query = Query(rows, torch.tensor([[True, False, False, False]]).expand(80, 4))
    before = float(machine.loss(query).detach())
    qtcore.fit(machine, rows, steps=40, learning_rate=0.1, batch=40, seed=0)
    assert float(machine.loss(query).detach()) < before / 2


@pytest.mark.parametrize("T", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("kind", [RBM, DBM])
def test_bits_layer_by_layer(kind: Any, evidence: str, T: float) -> None:
    model = randomise(kind(*((3, 2) if kind is RBM else (3, 2, 2)), n_layers=4, temperature=T, damping=0.2, dtype=F64), 1)
    graph = FactorGraph.from_model(model)
    query = ask(model, 2, evidence)
    free = ~clamped(query)
    for own, other in zip(model.layers(query), graph.layers(bits_as_likelihoods(query)), strict=True):
        close(other.marginals.probs[..., 1][free], own.marginals.probs[free])  # type: ignore[attr-defined]
        close(other.hidden.probs[..., 1], own.hidden.probs)  # type: ignore[attr-defined]
        close(other.residual, own.residual)


@pytest.mark.parametrize("T", [1.0, 0.0])
@pytest.mark.parametrize("size", [(2, 3), (1, 1), (4, 4)])
def test_grids_layer_by_layer(size: tuple[int, int], T: float) -> None:
    model = randomise(GridMRF(*size, clones=(2, 1, 1), n_layers=4, temperature=T, damping=0.1, dtype=F64), 1)
    graph = FactorGraph.from_model(model)
    query = ask(model, 2, "mixed", batch=2)
    for own, other in zip(model.layers(query), graph.layers(pixels_as_likelihoods(model, query)), strict=True):
        close(other.marginals.probs, own.hidden.probs.flatten(1, 2))  # type: ignore[attr-defined]
        close(other.residual, own.residual)


# ---------------------------------------------------------------------------------------------------------------------
# Other libraries


def test_graphs_of_networkx() -> None:
    nothing: Any = networkx.Graph()
    nothing.add_node("rain", states=["no", "yes"], table=[0.5, -0.5])
    nothing.add_node("wet", states=3)
    nothing.add_edge("rain", "wet", table=np.arange(6.0).reshape(2, 3))
    nothing.add_edge("rain", "fog.")
    graph = FactorGraph.from_networkx(nothing, dtype=F64)
    assert graph.names == ("rain", "wet", "fog.")
    assert graph.n_states == (2, 3, 2)
    assert graph.state_names == (("no", "yes"), None, None)
    assert {name: list(table.shape) for name, table in graph.tables.items()} == {
        "given_2": [1, 2],
        "given_2x3": [1, 2, 3],
        "learned_2x2": [1, 2, 2],
    }
    close(graph.tables["given_2x3"][0], torch.arange(6.0, dtype=F64).view(2, 3))
    ring = FactorGraph.from_networkx(networkx.cycle_graph(5), states=3, tied=True)
    assert list(ring.tables["learned_3x3"].shape) == [3, 3]
    assert sorted(map(sorted, scopes_of(ring, "learned_3x3"))) == [[0, 1], [0, 4], [1, 2], [2, 3], [3, 4]]
    own = FactorGraph.from_networkx(networkx.DiGraph([(1, 0), (2, 1)]))
    assert own.names == ("1", "0", "2")
    assert scopes_of(own, "learned_2x2") == [[0, 1], [2, 0]]
    nothing.edges["rain", "wet"]["table"] = [0.0]
    with pytest.raises(
        InputError, match=r"the table of \('rain', 'wet'\) has the shape \[1\], but its variables have \[2, 3\]"
    ):
        FactorGraph.from_networkx(nothing)
    with pytest.raises(InputError, match="names a variable twice"):
        FactorGraph.from_networkx(networkx.Graph([(1, 1)]))
    with pytest.raises(InputError, match="two nodes of the graph have the same name"):
        FactorGraph.from_networkx(networkx.Graph([(1, "1")]))


class Factor(SimpleNamespace):
    """What pgmpy's DiscreteFactor and TabularCPD show of themselves."""

    def to_factor(self) -> "Factor":
        return self


def factor(variables: list[str], values: Any, **state_names: Any) -> Factor:
    return Factor(variables=variables, values=np.array(values), state_names=state_names)


def test_models_of_pgmpy_by_their_interface() -> None:
    rain = factor(["rain"], [0.8, 0.2], rain=["no", "yes"])
    wet = factor(["wet", "rain"], [[0.9, 0.0], [0.1, 1.0]], wet=[0, 1], rain=["no", "yes"])
    directed = SimpleNamespace(get_cpds=lambda: [rain, wet], nodes=["rain", "wet"])
    undirected = SimpleNamespace(get_factors=lambda: [rain, wet], nodes=["rain", "wet", rain])
    for model in (directed, undirected):
        graph = FactorGraph.from_pgmpy(model, fixed=True)
        assert graph.names == ("rain", "wet")
        assert graph.state_names == (("no", "yes"), None)
        close(qtcore.exact.log_z(graph), torch.zeros((), dtype=F64))
        close(graph(graph.query({"wet": 1})).probs[0, 0], torch.tensor([0.08, 0.2], dtype=F64) / 0.28)
        assert not any(table.requires_grad for _, table in graph.tables.items())
    for change, message in (
        ({"get_cpds": lambda: [wet, factor(["rain"], [0.8, 0.2], rain=["a", "b"])]}, "'rain' has different states"),
        ({"get_cpds": lambda: [rain]}, "there is no factor with the variable 'wet'"),
        ({"get_cpds": lambda: [factor(["rain"], [0.8, -0.2])]}, "must be finite and not negative"),
        ({"get_cpds": lambda: [3]}, "this is no discrete model of pgmpy"),
    ):
        with pytest.raises(InputError, match=message):
            FactorGraph.from_pgmpy(SimpleNamespace(**(vars(directed) | change)))


@pytest.mark.filterwarnings("ignore")  # pgmpy deprecates its own modules when it is imported
def test_models_of_pgmpy_itself() -> None:
    models = pytest.importorskip("pgmpy.models", reason="pgmpy is not installed")
    from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
    from pgmpy.inference import VariableElimination

    model = models.DiscreteBayesianNetwork([("a", "b"), ("c", "b")])
    names = {"a": ["no", "yes"], "c": [0, 1, 2], "b": ["x", "y"]}
    model.add_cpds(
        TabularCPD("a", 2, [[0.3], [0.7]], state_names={"a": names["a"]}),
        TabularCPD("c", 3, [[0.2], [0.3], [0.5]]),
        TabularCPD("b", 2, [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]], ["a", "c"], [2, 3], names),
    )
    graph = FactorGraph.from_pgmpy(model)
    expected = VariableElimination(model).query(["c"], evidence={"b": "y"}, show_progress=False).values
    probs = graph(graph.query({"b": "y"})).probs[0, graph.names.index("c")]
    close(probs, torch.tensor(expected, dtype=F64))
    markov = models.DiscreteMarkovNetwork([("a", "b")])
    markov.add_factors(DiscreteFactor(["a", "b"], [2, 2], [1, 2, 3, 4]))
    close(qtcore.exact.log_z(FactorGraph.from_pgmpy(markov)).exp(), torch.tensor(10.0, dtype=F64))
