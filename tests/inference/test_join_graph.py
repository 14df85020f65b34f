"""Belief propagation between clusters: exact where they are large enough, and always another way to write the same graph."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from qtcore import Exact, FactorGraph, JoinGraph
from qtcore.errors import InputError
from qtcore.inference.join_graph import AVERAGED, Clusters, Sent

from ..strategies import EVIDENCE, F64, TEMPERED, ask, ask_possible, build, close, evidences, factor_graphs, factor_trees, seeds


def graph_of(arguments: dict[str, Any]) -> FactorGraph:
    return FactorGraph(**arguments, dtype=F64)


@given(factor_graphs(), seeds, evidences)
def test_large_clusters_are_exact_after_one_layer(arguments: dict[str, Any], seed: int, evidence: str) -> None:
    """They are the tables of elimination: zeros, ties, hidden variables and all."""
    model = graph_of(arguments)
    query = ask_possible(model, seed, evidence)
    if query is not None:
        *_, layer = model.layers(query, engine=JoinGraph(n_layers=1, table=10**6))
        *_, exact = model.layers(query, engine=Exact())
        close(layer.marginals.probs, exact.marginals.probs)  # type: ignore[attr-defined]
        close(layer.hidden.probs, exact.hidden.probs)  # type: ignore[attr-defined]
        assert float(layer.residual.max()) <= 1


@given(factor_trees(), seeds, evidences)
def test_trees_are_exact_however_small_the_clusters(arguments: dict[str, Any], seed: int, evidence: str) -> None:
    model = graph_of(arguments)
    query = ask_possible(model, seed, evidence)
    if query is not None:
        close(model(query, engine=JoinGraph(n_layers=20, table=1)).probs, model(query, engine=Exact()).probs)


@pytest.mark.parametrize("kind", TEMPERED)
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_every_model(kind: str, evidence: str) -> None:
    """A temperature changes belief propagation, not the distribution."""
    model = build(kind, 1)
    query = ask(model, 2, evidence)
    expected = model.variables.numbers(model(query, engine=Exact()))
    close(model.variables.numbers(model(query, engine=JoinGraph(n_layers=2))), expected, 1e-6)


def log_weights(clusters: Clusters, messages: dict[Sent, Tensor]) -> Tensor:
    """Beliefs of all clusters, less the two messages on every edge: log-weights of all joint states."""
    n = len(clusters.sizes)

    def spread(scope: Any, table: Tensor) -> Tensor:
        order = sorted(range(len(scope)), key=lambda axis: scope[axis])
        return table.permute(order).reshape([clusters.sizes[i] if i in scope else 1 for i in range(n)])

    total = torch.zeros(clusters.sizes, dtype=F64)
    for cluster in clusters.clusters:
        total = total + spread(cluster.scope, clusters.belief(cluster, messages))
    for number, edge in enumerate(clusters.edges):
        for forth in (True, False):
            total = total - spread(edge.separator, messages[Sent(number, forth)])
    return total - total.max()


@given(factor_graphs(zeros=False), seeds, st.sampled_from([1, 6, 30]), st.sampled_from([0.0, 0.4]))
def test_messages_only_move_weight_between_clusters(arguments: dict[str, Any], seed: int, table: int, damping: float) -> None:
    """After any number of layers the clusters, less what they told each other, are the graph itself."""
    model = graph_of(arguments)
    query = ask_possible(model, seed, "soft", batch=1)
    assert query is not None
    engine = JoinGraph(table=table, damping=damping)
    state = engine.init(model, query)
    clusters = state.rows[0].clusters
    expected = sum(
        (log_weights_of(clusters, scope, own) for cluster in clusters.clusters for scope, own in cluster.tables),
        start=torch.zeros(clusters.sizes, dtype=F64),
    )
    for _ in range(3):
        state, info = engine.step(state)
        assert info["residual"].shape == (1,)
        close(log_weights(clusters, state.rows[0].messages), expected - expected.max(), 1e-8)


def log_weights_of(clusters: Clusters, scope: Any, table: Tensor) -> Tensor:
    order = sorted(range(len(scope)), key=lambda axis: scope[axis])
    return table.permute(order).reshape([size if i in scope else 1 for i, size in enumerate(clusters.sizes)])


def frustrated(strength: float) -> FactorGraph:
    """A ring of five with an edge across, which cannot all agree to differ."""
    table = torch.tensor([[-strength, strength], [strength, -strength]], dtype=F64)
    edges = [(i, (i + 1) % 5) for i in range(5)] + [(0, 2)]
    own = torch.linspace(-0.5, 0.5, 10, dtype=F64).view(5, 2)
    tables = {"differ": table, "own": own}
    return FactorGraph((2,) * 5, tables, [("differ", edges), ("own", [(i,) for i in range(5)])], dtype=F64)


def test_larger_clusters_are_nearer_to_the_truth_and_none_leaves_the_simplex() -> None:
    model = frustrated(1.0)
    query = model.query({})
    exact = model(query, engine=Exact()).probs
    with torch.no_grad():
        errors = [
            float((model(query, engine=JoinGraph(until=1e-9, at_most=200, table=table)).probs - exact).abs().max())
            for table in (4, 8, 32)
        ]
    assert errors[0] > 1e-3
    assert errors[1] < errors[0]
    assert errors[2] < 1e-9
    wild = frustrated(8.0)
    answer = wild(wild.query({}), engine=JoinGraph(n_layers=4 * AVERAGED, table=4)).probs
    close(answer.sum(-1), torch.ones(1, 5, dtype=F64))
    assert bool((answer >= 0).all())


def test_sizes_are_chosen_and_kept() -> None:
    model = frustrated(1.0)
    state = JoinGraph(table=4).init(model, model.query({}))
    assert all(math.prod(cluster.shape) <= 4 for cluster in state.rows[0].clusters.clusters)
    assert JoinGraph().init(model, model.query({})).rows[0].clusters.entries <= 32
    query, engine = ask(model, 3, "mixed", batch=2), JoinGraph(n_layers=3, table=8)
    close(model(query, engine=engine).probs[:1], model(query[:1], engine=engine).probs)


def test_what_clusters_cannot_do() -> None:
    for options, sentence in (
        ({"table": 0}, "table must be a whole number ≥ 1, the entries of the largest cluster, not 0"),
        ({"temperature": 1.0}, "clusters have no temperature"),
        ({"schedule": "residual"}, "clusters have no schedule"),
    ):
        with pytest.raises(InputError, match=sentence):
            JoinGraph(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="clusters are for models of discrete variables"):
        build("GaussianRBM")(ask(build("GaussianRBM")), engine=JoinGraph())
    many = FactorGraph((2,) * 30, {"one": "exactly one"}, [("one", tuple(range(30)))])
    with pytest.raises(InputError, match="a factor 'exactly one' of 30 variables is too large to be written out"):
        many(many.query({}), engine=JoinGraph())
    xor = torch.tensor([[-math.inf, 0.0], [0.0, -math.inf]])
    ring = FactorGraph((2, 2, 2), {"differ": xor}, [("differ", [(0, 1), (1, 2), (2, 0)])])
    with pytest.raises(InputError, match="the evidence has probability 0 under this model"):
        ring(ring.query({}), engine=JoinGraph(n_layers=3))
