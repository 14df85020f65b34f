"""Factor graphs: how they are written down, what they refuse, and what equals what."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from safetensors.torch import save_file
from torch.autograd import gradcheck

import qtcore
from qtcore import BP, Exact, FactorGraph, PairwiseMRF, Query
from qtcore.errors import InputError, ModelFileError, NotFiniteError
from qtcore.potentials import FactorPotentials
from qtcore.wiring import MAX_TIED_GROUPS, TIED, Wiring

from .. import naive
from ..strategies import EVIDENCE, F64, answer, ask, ask_possible, build, close, evidences, factor_graphs, normal, rng, seeds

RAIN = {"rain": ["no", "yes"], "sprinkler": 2, "wet": ["dry", "damp", "wet"]}


def rain(**options: Any) -> FactorGraph:
    tables = {"prior": normal(0, 2), "lawn": normal(1, 2, 2, 3)}
    factors = [("prior", ["rain"]), ("prior", ["sprinkler"]), ("lawn", ["rain", "sprinkler", "wet"])]
    return FactorGraph(RAIN, tables, factors, dtype=F64, **options)


# ---------------------------------------------------------------------------------------------------------------------
# Writing one down


def test_names_stand_for_numbers() -> None:
    named = rain()
    by_number = FactorGraph([2, 2, 3], dict(named.tables), [("prior", [[0], [1]]), ("lawn", (0, 1, 2))], dtype=F64)
    query = named.query({"wet": "damp", "sprinkler": [0.2, 0.8]})
    assert query.observed.tolist() == [[False, True, True]]
    close(named(query).probs, by_number(query).probs)
    assert named.names == ("rain", "sprinkler", "wet")
    with pytest.raises(InputError, match=r"no variable named 'rian'; did you mean rain\?"):
        named.query({"rian": 1})
    with pytest.raises(InputError, match="wet has no state 'drenched'"):
        named.query({"wet": "drenched"})
    with pytest.raises(InputError, match=r"wet has the states 0 … 2, not 3"):
        named.query({"wet": 3})
    with pytest.raises(InputError, match="'rain' is hidden, so that it cannot be observed"):
        rain(hidden=["rain"]).query({"rain": 0})


def test_arrays_of_scopes_and_stacks_of_tables() -> None:
    """The same graph factor by factor, as arrays, and with a table for each factor."""
    edge, edges = normal(0, 3, 3), [(0, 1), (1, 2), (3, 2), (0, 3)]
    one = FactorGraph([3] * 4, {"edge": edge}, [("edge", pair) for pair in edges], dtype=F64)
    for scopes in (np.array(edges), torch.tensor(edges), edges):
        other = FactorGraph([3] * 4, {"edge": edge}, [("edge", scopes)], dtype=F64)
        assert other.config() == one.config()
    stack = FactorGraph([3] * 4, {"edge": edge.expand(4, 3, 3)}, [("edge", edges)], dtype=F64)
    pairwise = PairwiseMRF([3] * 4, edges, dtype=F64)
    with torch.no_grad():
        for table in pairwise.pairwise:
            table.copy_(edge)
    query = ask(one, 1, "mixed")
    for layers in zip(*(list(model.layers(query, 6)) for model in (one, stack, pairwise)), strict=True):
        close(layers[1].marginals.logits, layers[0].marginals.logits)
        close(layers[2].marginals.logits, layers[0].marginals.logits)
        close(layers[1].residual, layers[0].residual)


def test_factors_keep_their_order() -> None:
    factors = [("a", (0, 1)), ("b", (2,)), ("a", (1, 2)), ("b", (0,)), ("b", (1,))]
    model = FactorGraph([2, 2, 2], {"b": [2], "a": [2, 2, 2]}, factors)
    assert model.factors() == [("a", [[0, 1]]), ("b", [[2]]), ("a", [[1, 2]]), ("b", [[0], [1]])]
    assert FactorGraph([2, 2, 2], {"b": [2], "a": [2, 2, 2]}, model.factors()).factors() == model.factors()


def test_a_factor_without_variables_is_a_constant() -> None:
    tables = {"edge": normal(0, 2, 3), "constant": torch.tensor(0.7, dtype=F64)}
    model = FactorGraph([2, 3], tables, [("edge", (0, 1)), ("constant", ())], dtype=F64)
    alone = FactorGraph([2, 3], {"edge": tables["edge"]}, [("edge", (0, 1))], dtype=F64)
    query = ask(model, 0, "soft")
    close(model(query).logits, alone(query).logits)
    close(qtcore.exact.log_z(model), qtcore.exact.log_z(alone) + 0.7)


def test_a_wide_graph_is_one_group_of_each_shape() -> None:
    """However many factors and tables there are, no Python loop runs over them when messages are sent."""
    count = 3000
    scopes = np.stack([np.arange(count), np.arange(count) + 1], 1)
    wiring = Wiring.of([2] * (count + 1), scopes)
    assert [len(group.scope) for group in wiring.groups] == [count]
    tied = Wiring.of([2] * (count + 1), scopes, np.arange(count) % 3)
    assert [group.tables.tolist() for group in tied.groups] == [[0], [1], [2]]  # none is copied for its factors
    few = Wiring.of([2] * (count + 1), scopes, np.arange(count) // 2)
    assert [len(group.tables) for group in few.groups] == [count // 2]
    assert len(Wiring.of([2] * (count + 1), scopes, np.arange(count) // TIED).groups) <= MAX_TIED_GROUPS


def test_shapes_are_told_apart() -> None:
    n_states = (2, 3, 2, 3)
    wiring = Wiring.of(n_states, [(0, 1), (1, 0), (2, 3), (0, 1, 2), (3, 2), (1, 2, 3)])
    assert [(group.shape, group.number.tolist()) for group in wiring.groups] == [
        ((2, 3), [0, 2]),
        ((3, 2), [1, 4]),
        ((2, 3, 2), [3]),
        ((3, 2, 3), [5]),
    ]


BAD: list[tuple[Any, str]] = [
    ({"n_states": [2, 0]}, "at least one state"),
    ({"n_states": [2.5, 2]}, "n_states must be whole numbers"),
    ({"n_states": {"a": 2, "b": "xy"}}, r"the states of 'b' must be a number or a list of different names, not 'xy'"),
    ({"n_states": {"a": 2, "b": ["x", "x"]}}, "list of different names"),
    ({"tables": [[2, 2]]}, "tables must be given by name"),
    ({"tables": {"a.b": [2, 2]}}, "a table cannot be named 'a.b'"),
    ({"tables": {"edge": [2, 0]}}, r"shape of a table must be whole numbers ≥ 1, not \[2, 0\]"),
    ({"tables": {"edge": "ab"}}, "must be a shape or an array of log-potentials"),
    ({"tables": {"edge": torch.tensor([[0.0, torch.nan], [0, 0]])}}, "'edge' holds NaN or infinity"),
    ({"tables": {"edge": torch.tensor([[0.0, torch.inf], [0, 0]])}}, "'edge' holds NaN or infinity"),
    ({"tables": {"edge": [2, 2], "more": [2]}}, "the table 'more' is used by no factor"),
    ({"tables": {"edge": [2, 3]}}, r"'edge' has the shape \[2, 3\], but \(0, 1\) have \[2, 2\] states"),
    ({"tables": {"edge": [2]}}, "'edge' has 1 axes, but its factors have 2 variables"),
    ({"tables": {"edge": [3, 2, 2]}}, "a stack of 3 tables for 1 factors"),
    ({"n_states": [1] * 40, "tables": {"edge": [1] * 40}, "factors": [("edge", range(40))]}, "40 variables, but 32 are"),
    ({"factors": [("egde", (0, 1))]}, r"no table named 'egde'; did you mean edge\?"),
    ({"factors": [("edge", (0, 2))]}, r"the scope \(0, 2\) of table 'edge' must name variables among 0 … 1"),
    ({"factors": [("edge", (0, -1))]}, "must name variables among"),
    ({"factors": [("edge", (1, 1))]}, r"the scope \(1, 1\) of table 'edge' names a variable twice"),
    ({"factors": [("edge", (0, 1)), ("edge", (0,))]}, "scopes of one length"),
    ({"factors": [("edge", (0.0, 1.0))]}, "by whole numbers or names"),
    ({"factors": [("edge", ("a", "b"))]}, "by whole numbers or names"),
    ({"factors": ["edge"]}, r"a factor is a pair \(table's name, scope\), not 'edge'"),
    ({"hidden": [5]}, "hidden must name distinct variables"),
    ({"hidden": [0, 1]}, "at least one variable must be visible"),
    ({"hidden": [0.5]}, "named by its number or its name, not by 0.5"),
    ({"fixed": ["corner"]}, "no table named 'corner' to be fixed"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_graphs_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"n_states": [2, 2], "tables": {"edge": [2, 2]}, "factors": [("edge", (0, 1))]}
    FactorGraph(**good)
    with pytest.raises(InputError, match=message) as caught:
        FactorGraph(**good | change)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------------
# Equal to the others


def as_factor_graph(model: Any, query: Query) -> tuple[FactorGraph, Query]:
    """A discrete model as a FactorGraph without hidden variables, and its evidence as likelihoods of all states."""
    potentials, log = model.graph().as_factors(model.evidence(query))
    assert isinstance(potentials, FactorPotentials)
    wiring = potentials.wiring
    tables: dict[str, Any] = {"unary": potentials.unary.view(len(wiring.n_states), -1)}
    factors: list[Any] = [("unary", np.arange(len(wiring.n_states))[:, None])]
    for g, (group, stack) in enumerate(zip(wiring.groups, potentials.tables, strict=True)):
        tables[f"group_{g}"] = stack[torch.tensor(group.table)]
        factors.append((f"group_{g}", group.scope))
    options = {"n_layers": model.n_layers, "damping": model.damping, "temperature": float(model.T), "dtype": model.dtype}
    graph = FactorGraph(wiring.n_states, tables, factors, **options)
    likelihood = wiring.on(log.device).rows(log).exp()
    return graph, Query(likelihood, torch.ones(likelihood.shape[:2], dtype=torch.bool))


@pytest.mark.parametrize("T", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("kind", ["RBM", "DBM", "GridMRF"])
def test_the_fast_models_are_factor_graphs_layer_by_layer(kind: str, evidence: str, T: float) -> None:
    model = build(kind, 2, 0.8, damping=0.2, temperature=T)
    query = ask(model, 3, evidence)
    graph, asked = as_factor_graph(model, query)
    for layer, other in zip(model.layers(query, 6), graph.layers(asked, 6), strict=True):
        visible, hidden = model.graph().as_factors(model.evidence(query))[0].answers(other.marginals.logits)
        close(visible.probs, layer.marginals.probs)  # type: ignore[attr-defined]
        close(hidden.probs, layer.hidden.probs)  # type: ignore[attr-defined]
        if kind == "GridMRF":  # in the others clamped variables send constants from the first layer on
            close(other.residual, layer.residual)


@given(factor_graphs(), seeds, evidences)
def test_a_naive_transcription_layer_by_layer(graph: Any, seed: int, evidence: str) -> None:
    """Zeros, ties, hidden variables, orders 1 to 4; sum-product, max-product and in between; damped or not."""
    T, damping = ((1.0, 0.0), (0.6, 0.3), (0.0, 0.2))[seed % 3]
    model = FactorGraph(**graph, temperature=T, damping=damping, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    for layer in model.layers(query, 4):
        visible, hidden = naive.factor_graph(model, query, layer.index, damping)
        close(answer(layer.marginals).exp(), visible.exp())
        close(answer(layer.hidden).exp(), hidden.exp())
        close(answer(layer.marginals).clamp_min(-500), visible.clamp_min(-500), 1e-8)


@given(factor_graphs(), seeds, evidences)
def test_bookkeeping_does_not_matter(graph: Any, seed: int, evidence: str) -> None:
    """Other names for variables and states, scopes and their tables' axes in another order, factors in another order: the
    same marginals in every layer."""
    model = FactorGraph(**graph, damping=0.1, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    n = len(model.n_states)
    order = torch.randperm(n, generator=rng(seed)).tolist()  # variable k of the new graph was order[k]
    place = {old: k for k, old in enumerate(order)}
    states = [torch.randperm(size, generator=rng(seed + i)) for i, size in enumerate(model.n_states)]  # new[s] was states[s]
    tables, factors = {}, []
    for k, (name, scope) in enumerate(reversed(graph["factors"])):
        axes = torch.randperm(len(scope), generator=rng(seed + k)).tolist()
        table = graph["tables"][name]
        for axis, variable in enumerate(scope):
            table = table.index_select(axis, states[variable])
        tables[f"own {k}"] = table.permute(axes)
        factors.append((f"own {k}", [place[scope[axis]] for axis in axes]))
    hidden = [place[i] for i in model.hidden]
    other = FactorGraph([model.n_states[i] for i in order], tables, factors, hidden=hidden, damping=0.1, dtype=F64)
    columns = [model.wiring.visible.index(order[k]) for k in other.wiring.visible]
    back = [states[order[k]].argsort() for k in other.wiring.visible]
    values = torch.zeros(len(query), len(columns), dtype=F64)
    for column, (old, new) in enumerate(zip(columns, back, strict=True)):
        values[:, column] = new[query.values[:, old].nan_to_num().long()].double()
    asked = Query(values, query.observed[:, columns])
    for one, two in zip(model.layers(query, 4), other.layers(asked, 4), strict=True):
        for column, (old, k) in enumerate(zip(columns, other.wiring.visible, strict=True)):
            renamed = one.marginals.probs[:, old][:, states[order[k]]]  # type: ignore[attr-defined]
            close(two.marginals.probs[:, column, : renamed.shape[1]], renamed)  # type: ignore[attr-defined]
        close(one.residual.nan_to_num(posinf=99), two.residual.nan_to_num(posinf=99))


@given(factor_graphs(), seeds, evidences)
def test_a_factor_may_be_merged_into_another(graph: Any, seed: int, evidence: str) -> None:
    """Where one scope holds another, the sum of their tables has the same distribution."""
    model = FactorGraph(**graph, dtype=F64)
    scopes = [set(scope) for _, scope in graph["factors"]]
    pairs = [(f, g) for f, big in enumerate(scopes) for g, small in enumerate(scopes) if f != g and small <= big]
    query = ask_possible(model, seed, evidence)
    assume(query is not None and pairs)
    assert query is not None
    into, away = pairs[seed % len(pairs)]
    (name, big), (gone, small) = graph["factors"][into], graph["factors"][away]
    letters = "abcdefgh"
    index = {variable: letters[axis] for axis, variable in enumerate(big)}
    ones = torch.ones([model.n_states[i] for i in big], dtype=F64)
    formula = f"{''.join(index[i] for i in small)},{letters[: len(big)]}->{letters[: len(big)]}"
    spread = torch.einsum(formula, graph["tables"][gone].exp(), ones).log()
    tables = {f"own {k}": graph["tables"][each] for k, (each, _) in enumerate(graph["factors"])}
    tables[f"own {into}"] = graph["tables"][name] + spread
    factors = [(f"own {k}", scope) for k, (_, scope) in enumerate(graph["factors"]) if k != away]
    del tables[f"own {away}"]
    other = FactorGraph(graph["n_states"], tables, factors, hidden=graph["hidden"], dtype=F64)
    close(other(query, engine=Exact()).probs, model(query, engine=Exact()).probs)


# ---------------------------------------------------------------------------------------------------------------------
# Zeros


def test_what_overflows_is_no_zero() -> None:
    """In units of a small temperature −1e37 is −∞ in float32. It was taken for a zero, and an only state was NaN."""
    model = FactorGraph([1, 2], {"a": torch.tensor([-1e37]), "b": torch.zeros(2)}, [("a", (0,)), ("b", (1,))])
    with pytest.raises(NotFiniteError, match="too extreme for float32"):
        model(model.query({}), engine=BP(temperature=1e-3))


@pytest.mark.parametrize("T", [1.0, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_contradiction_has_a_name(T: float, dtype: torch.dtype) -> None:
    """x0 = x1 = x2 by tables of zeros; x0 = 0 with x2 = 1 is impossible, which takes two layers to be noticed."""
    same = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    factors = [("same", [("a", "b"), ("b", "c")])]
    model = FactorGraph({"a": 2, "b": 2, "c": 2}, {"same": same}, factors, temperature=T, dtype=dtype)
    good = model.query({"a": 1})
    assert model(good).probs.tolist() == [[[0, 1]] * 3]
    bad = model.query({"a": 0, "c": 1})
    for call in (model, lambda query: list(model.layers(query)), lambda query: model(query, engine=BP(until=1e-6, at_most=50))):
        with pytest.raises(InputError, match=r"^this evidence has probability 0 under the factors \(a, b\), \(b, c\): .* b no"):
            call(bad)
    both = Query(torch.cat([good.values, bad.values]), torch.cat([good.observed, bad.observed]))
    with pytest.raises(InputError, match="this evidence in row 1 has probability 0"):
        model(both)
    with pytest.raises(InputError, match="probability 0"):
        qtcore.exact.marginals(model, bad)


def test_a_table_of_zeros_alone() -> None:
    model = FactorGraph([2], {"never": torch.full((2,), -torch.inf)}, [("never", (0,))])
    with pytest.raises(InputError, match="probability 0: it leaves the variable 0 no state"):
        model(Query([[0.0]], [[False]]))


@given(factor_graphs(), seeds, evidences)
def test_gradients_beside_zeros_are_finite_and_right(graph: Any, seed: int, evidence: str) -> None:
    """Those of the finite numbers are true to finite differences, those of −∞ are 0."""
    model = FactorGraph(**graph, damping=0.1 * (seed % 2), dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    tables = {name: table.detach().clone() for name, table in model.tables.items()}
    weights = normal(seed, *model(query).probs.shape)
    parameters = {f"tables.{name}": table.requires_grad_() for name, table in tables.items()}
    result = (torch.func.functional_call(model, parameters, (query, 3)).probs * weights).sum()
    gradients = torch.autograd.grad(result, list(parameters.values()), allow_unused=True)
    for (name, table), gradient in zip(parameters.items(), gradients, strict=True):
        if gradient is None:
            continue
        assert gradient.isfinite().all(), name
        assert not gradient[table.isneginf()].any()
        step = 1e-6 * normal(seed + 1, *table.shape)
        moved = [parameters | {name: table.detach() + sign * step} for sign in (1, -1)]
        there, back = ((torch.func.functional_call(model, each, (query, 3)).probs * weights).sum() for each in moved)
        close((there - back) / 2, (gradient * step).sum(), 1e-9)


def test_gradcheck_through_ties() -> None:
    scopes = [(0, 1, 2), (2, 3, 0), (1, 3, 2)]
    model = FactorGraph([2] * 4, {"three": [2, 2, 2], "bias": [2]}, [("three", scopes), ("bias", [(0,), (3,)])], dtype=F64)
    query = ask(model, 0, "soft", batch=2)

    def logits(three: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"tables.three": three, "tables.bias": bias}, (query, 3)).logits

    assert gradcheck(logits, (normal(1, 2, 2, 2).requires_grad_(), normal(2, 2).requires_grad_()))
    assert torch.autograd.gradgradcheck(logits, (normal(1, 2, 2, 2).requires_grad_(), normal(2, 2).requires_grad_()))


def test_a_learned_temperature_beside_zeros() -> None:
    table = torch.tensor([[0.0, -torch.inf], [0.3, 0.1]], dtype=F64)
    model = FactorGraph([2, 2, 2], {"edge": table}, [("edge", [(0, 1), (1, 2)])], learn_temperature=True, dtype=F64)
    model.loss(Query(torch.zeros(1, 3), [[True, False, False]])).backward()
    assert model.T.grad is not None
    assert model.T.grad.isfinite()


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.mark.parametrize("zeros", [False, True])
def test_saved_and_loaded(tmp_path: Path, zeros: bool) -> None:
    model = rain(hidden=["sprinkler"], fixed=["lawn"], n_layers=4, damping=0.1)
    if zeros:
        model.tables["lawn"].data[0, 1, 2] = -torch.inf
    model.save(tmp_path / "rain.safetensors")
    again: Any = qtcore.load(tmp_path / "rain.safetensors")
    assert type(again) is FactorGraph
    assert again.config() == model.config()
    assert not again.tables["lawn"].requires_grad
    assert again.tables["prior"].requires_grad
    for query in (model.query({}), model.query({"rain": "yes", "wet": [0.1, 0.5, 0.2]})):
        assert torch.equal(model(query).probs, again(query).probs)


def test_a_file_with_nan_is_refused(tmp_path: Path) -> None:
    model = rain()
    model.tables["lawn"].data[0, 0, 0] = torch.nan
    model.save(tmp_path / "rain.safetensors")
    with pytest.raises(ModelFileError, match=r"numbers in tables\.lawn that are not finite"):
        qtcore.load(tmp_path / "rain.safetensors")


def test_files_of_pairwise_graphs_with_a_tensor_for_every_table(tmp_path: Path) -> None:
    """As they were written before there were stacks."""
    model = build("PairwiseMRF", 3, n_layers=4, damping=0.2)
    tensors = {f"unary.{i}": table.detach().clone() for i, table in enumerate(model.unary)}
    tensors |= {f"pairwise.{e}": table.detach().clone() for e, table in enumerate(model.pairwise)}
    about = {"version": 1, "model": "PairwiseMRF", "config": model.config(), "notes": {}}
    path = tmp_path / "old.safetensors"
    save_file(tensors | {"T": model.T.detach()}, path, {"qtcore": json.dumps(about)})
    again: Any = qtcore.load(path)
    query = ask(model, 1, "mixed")
    assert torch.equal(answer(model(query)), answer(again(query)))
    save_file(tensors | {"T": model.T.detach(), "pairwise.0": torch.zeros(5, 5)}, path, {"qtcore": json.dumps(about)})
    with pytest.raises(ModelFileError, match="does not fit its own configuration"):
        qtcore.load(path)


# ---------------------------------------------------------------------------------------------------------------------
# Training


def test_fixed_tables_stay_and_tied_ones_learn_together() -> None:
    """Three observed bits that are copies of a hidden one: learned through one shared table, beside a fixed prior."""
    torch.manual_seed(0)
    tables: dict[str, Any] = {"copy": [2, 2], "prior": torch.zeros(2)}
    model = FactorGraph([2] * 4, tables, [("copy", [(3, 0), (3, 1), (3, 2)]), ("prior", (3,))], hidden=[3], fixed=["prior"])
    data = (torch.rand(400, 1, generator=torch.Generator().manual_seed(1)) < 0.5).float().expand(400, 3).contiguous()
    before = float(model.loss(Query(data, torch.tensor([[True, True, False]]).expand(400, 3))).detach())
    qtcore.fit(model, data, steps=60, learning_rate=0.1, batch=100, seed=0)
    after = float(model.loss(Query(data, torch.tensor([[True, True, False]]).expand(400, 3))).detach())
    assert after < 0.2 < before
    assert not model.tables["prior"].any()


def test_training_beside_zeros(tmp_path: Path) -> None:
    """A learned table with zeros keeps them, with a moving average of the weights and a learned temperature too."""
    factors = [("edge", (0, 1)), ("last", (1, 2))]
    model = FactorGraph([2, 3, 2], {"edge": [2, 3], "last": [3, 2]}, factors, learn_temperature=True)
    model.tables["edge"].data[0, 2] = -torch.inf
    data = torch.tensor([[0, 0, 1], [1, 2, 0], [0, 1, 1], [1, 1, 0]]).repeat(10, 1)
    qtcore.fit(model, data, data, steps=20, learning_rate=0.05, averaging=0.9, folder=tmp_path / "run", seed=0)
    again: Any = qtcore.load(tmp_path / "run" / "best.safetensors")
    for graph in (model, again):
        assert graph.tables["edge"].isneginf().nonzero().tolist() == [[0, 2]]
        assert not graph.tables["edge"].isnan().any()
        assert graph.T.isfinite()
