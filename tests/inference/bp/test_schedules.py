"""Sequential, random and residual belief propagation: as loops, exact on trees, with the fixed points of flooding."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.autograd import gradcheck

import qtcore
from qtcore import BP, Exact, FactorGraph, PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.inference.bp import bethe
from qtcore.inference.bp.schedules import random_order, sets_of_factors
from qtcore.wiring import Wiring

from ... import naive
from ...strategies import (
    F64,
    answer,
    ask,
    ask_possible,
    build,
    close,
    evidences,
    factor_graphs,
    factor_trees,
    normal,
    randomise,
    seeds,
)

OTHERS = ("sequential", "random", "residual")
others = st.sampled_from(OTHERS)


def untied(graph: Any, seed: int) -> Any:
    """The same graph with a table of its own for every factor: no two pending changes are the same."""
    tables = {
        f"own {k}": graph["tables"][name] + normal(seed + k, *graph["tables"][name].shape)
        for k, (name, _) in enumerate(graph["factors"])
    }
    return graph | {"tables": tables, "factors": [(f"own {k}", scope) for k, (_, scope) in enumerate(graph["factors"])]}


@given(factor_graphs(), seeds, evidences, others)
def test_as_loops_layer_by_layer(graph: Any, seed: int, evidence: str, schedule: str) -> None:
    """Zeros, hidden variables, orders 1 to 4; sum-product, max-product and in between; damped or not."""
    T, damping = ((1.0, 0.0), (0.6, 0.3), (0.0, 0.2))[seed % 3]
    graph = untied(graph, seed) if schedule == "residual" else graph
    model = FactorGraph(**graph, temperature=T, damping=damping, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    for layer in model.layers(query, 4, engine=BP(schedule=schedule)):
        visible, hidden = naive.factor_graph(model, query, layer.index, damping, schedule)
        close(answer(layer.marginals).exp(), visible.exp())
        close(answer(layer.hidden).exp(), hidden.exp())
    close(answer(model(query, 4, engine=BP(schedule=schedule))).exp(), visible.exp())


@given(factor_trees(), seeds, evidences, others)
def test_exact_on_trees(graph: Any, seed: int, evidence: str, schedule: str) -> None:
    model = FactorGraph(**graph, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    engine = BP(schedule=schedule, until=0.0, at_most=60)
    close(model(query, engine=engine).probs, model(query, engine=Exact()).probs)


@pytest.mark.parametrize("schedule", OTHERS)
def test_the_fixed_points_are_those_of_flooding(schedule: str) -> None:
    tables = {"three": normal(1, 2, 3, 2, scale=0.5), "edge": normal(2, 2, 3, scale=0.5), "one": "at most one"}
    factors = [("three", [(0, 1, 2), (3, 4, 5)]), ("edge", [(0, 4), (3, 1), (5, 1)]), ("one", (0, 2, 3, 5))]
    model = FactorGraph([2, 3, 2, 2, 3, 2], tables, factors, dtype=F64)
    query = ask(model, 3, "soft")
    first, second = (model(query, engine=BP(schedule=s, until=1e-12, at_most=500)) for s in ("flooding", schedule))
    close(first.probs, second.probs)
    one, two = (bethe.log_z(model, query, BP(schedule=s, until=1e-12, at_most=500)) for s in ("flooding", schedule))
    close(one, two)
    *_, last = model.layers(query, engine=BP(schedule=schedule, until=1e-12, at_most=500))
    assert float(last.residual.detach().max()) <= 1e-12


@pytest.mark.parametrize("schedule", OTHERS)
def test_what_flooding_never_finds(schedule: str) -> None:
    """Where each of five bits should differ from the others, flooding goes back and forth for ever."""
    pairs = [(i, j) for i in range(5) for j in range(i)]
    tables = {"apart": torch.tensor([[-1.0, 0.0], [0.0, -1.0]]), "bias": normal(0, 5, 2, scale=0.3)}
    model = FactorGraph([2] * 5, tables, [("apart", pairs), ("bias", [(i,) for i in range(5)])], dtype=F64)
    nothing = Query(torch.zeros(1, 5), torch.zeros(1, 5))
    with torch.no_grad():
        *_, flooding = model.layers(nothing, engine=BP(until=1e-6, at_most=200))
        *_, other = model.layers(nothing, engine=BP(until=1e-6, at_most=200, schedule=schedule))
    assert float(flooding.residual) > 1
    assert float(other.residual) <= 1e-6


@pytest.mark.parametrize("schedule", OTHERS)
def test_a_query_does_not_depend_on_the_others_of_its_batch(schedule: str) -> None:
    model = build("FactorGraph", 2)
    query = ask(model, 1, "mixed", batch=4)
    engine = BP(schedule=schedule, n_layers=5)
    together = model(query, engine=engine).probs
    for row in range(4):
        close(model(Query(query.values[row : row + 1], query.observed[row : row + 1]), engine=engine).probs[0], together[row])


@pytest.mark.parametrize("schedule", OTHERS)
def test_gradients(schedule: str) -> None:
    """Of tables and of the temperature, with zeros in a table and a rule beside it."""
    edge = normal(0, 2, 2).requires_grad_()
    T = torch.tensor(0.8, dtype=F64, requires_grad=True)
    fixed = torch.tensor([[0.0, -math.inf], [0.3, -0.2]], dtype=F64)
    factors = [("edge", [(0, 1), (1, 2), (2, 3), (3, 0)]), ("fixed", (0, 2)), ("one", (1, 2, 3))]

    def beliefs(edge: torch.Tensor, T: torch.Tensor) -> Any:
        tables = {"edge": [2, 2], "fixed": fixed, "one": "at most one"}
        model = FactorGraph([2] * 4, tables, factors, fixed=["fixed"], n_layers=3, damping=0.1, dtype=F64)
        model.tables._parameters["edge"] = edge  # type: ignore[assignment]
        del model.T
        model.T = T  # type: ignore[assignment]
        model.engine = BP(schedule=schedule, n_layers=3, damping=0.1)
        return model(Query(torch.tensor([[1, 0, 0, 0]]), torch.tensor([[0.6, 0, 0, 0]]))).probs

    assert gradcheck(beliefs, [edge, T])


@given(factor_graphs(zeros=False))
def test_sets_of_factors(graph: Any) -> None:
    model = FactorGraph(**graph)
    sets = sets_of_factors(model.wiring)
    groups = model.wiring.groups
    order = [[int(groups[g].number[k]) for g, members in each for k in members] for each in sets]
    scopes = {int(n): tuple(s) for group in groups for n, s in zip(group.number, group.scope.tolist(), strict=True)}
    assert [f for each in order for f in sorted(each)] == naive.in_sets([scopes[f] for f in range(len(scopes))])
    for each in order:
        variables = [i for f in each for i in scopes[f]]
        assert len(set(variables)) == len(variables)


def test_a_random_order_is_another_in_each_layer_and_the_same_in_each_run() -> None:
    orders = [random_order(20, layer) for layer in range(5)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len(set(map(tuple, orders))) == 5
    assert orders == [random_order(20, layer) for layer in range(5)]


def test_a_long_chain_takes_two_sets() -> None:
    wiring = Wiring.of([2] * 1001, np.stack([np.arange(1000), np.arange(1, 1001)], 1))
    assert [[len(members) for _, members in each] for each in sets_of_factors(wiring)] == [[500], [500]]


def test_which_models_have_which_schedules(tmp_path: Path) -> None:
    graph = randomise(PairwiseMRF([2, 3, 2], [(0, 1), (1, 2), (2, 0)], dtype=F64), 1)
    for schedule in OTHERS:
        graph.engine = BP(n_layers=3, schedule=schedule)
        graph.save(tmp_path / "graph.safetensors")
        again: Any = qtcore.load(tmp_path / "graph.safetensors")
        assert again.engine == graph.engine
        query = ask(graph, 1)
        assert torch.equal(again(query).probs, graph(query).probs)
    for kind in ("RBM", "DBM", "GridMRF"):
        with pytest.raises(InputError, match=f"schedule must be 'flooding' for a {kind}, not 'residual'"):
            build(kind)(ask(build(kind)), engine=BP(schedule="residual"))
    with pytest.raises(
        InputError, match="schedule must be 'flooding' or 'sequential' or 'random' or 'residual' for a PairwiseMRF, not 'other'"
    ):
        graph(query, engine=BP(schedule="other"))
    without = PairwiseMRF([2, 3], [])
    for schedule in OTHERS:
        close(without(ask(without, 1), engine=BP(schedule=schedule)).probs, without(ask(without, 1)).probs)


@pytest.mark.parametrize("schedule", OTHERS)
def test_training(schedule: str) -> None:
    torch.manual_seed(0)
    model = FactorGraph([2, 2, 2], {"edge": [3, 2, 2]}, [("edge", [(0, 1), (1, 2), (2, 0)])])
    model.engine = BP(n_layers=4, schedule=schedule)
    data = torch.tensor([[0, 0, 0], [1, 1, 1]]).repeat(50, 1)
    query = Query(data, torch.tensor([[True, False, True]]).expand(100, 3))
    before = float(model.loss(query).detach())
    qtcore.fit(model, data, steps=40, learning_rate=0.1, batch=50, seed=0)
    assert float(model.loss(query).detach()) < before / 2
