"""Logic factors: equal to the same factors written out as tables, layer by layer, and linear in their order."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.autograd import gradcheck

import qtcore
from qtcore import BP, Exact, FactorGraph, Gibbs, Query, logic
from qtcore.errors import InputError
from qtcore.inference.bp import bethe
from qtcore.models import uai

from ..strategies import F64, answer, ask_possible, close, evidences, normal, seeds

ONES = {
    "and": lambda *x: x[-1] == int(all(x[:-1])),
    "or": lambda *x: x[-1] == int(any(x[:-1])),
    "at most one": lambda *x: sum(x) <= 1,
    "exactly one": lambda *x: sum(x) == 1,
}


def written_out(rule: str, order: int) -> torch.Tensor:
    """By the definition, state by state."""
    table = torch.full((2,) * order, -math.inf, dtype=F64)
    for state in itertools.product((0, 1), repeat=order):
        if ONES[rule](*state):
            table[state] = 0.0
    return table


@pytest.mark.parametrize("rule", logic.RULES)
def test_tables_by_their_definition(rule: str) -> None:
    for order in range(2, 7):
        assert torch.equal(logic.table(rule, order), written_out(rule, order))
    known = [(0, 1), (0,), (0, 1), (1,), (0, 1)]
    assert torch.equal(logic.allowed(rule, known), logic.table(rule, 5)[:, 0, :, 1] == 0)
    with pytest.raises(InputError, match=r"on 60 variables has a table of 2\^60 entries"):
        logic.table(rule, 60)


@st.composite
def logic_graphs(draw: st.DrawFn) -> Any:
    """Arguments of the same FactorGraph twice: with rules, and with their tables."""
    n = draw(st.integers(2, 7))
    variables = st.integers(0, n - 1)
    scopes = draw(st.lists(st.lists(variables, unique=True, min_size=2, max_size=6), min_size=1, max_size=3))
    rules = [draw(st.sampled_from(logic.RULES)) for _ in scopes]
    seed, ties = draw(seeds), draw(st.booleans())
    tables: dict[str, Any] = {f"bias {i}": normal(seed + i, 2) for i in range(n)} | {"edge": normal(seed + n, 2, 2)}
    factors: list[Any] = [(f"bias {i}", (i,)) for i in range(n)] + [("edge", (i, i + 1)) for i in range(n - 1)]
    short, long = (tables.copy(), factors.copy()), (tables.copy(), factors.copy())
    for k, (rule, scope) in enumerate(zip(rules, scopes, strict=True)):
        name = rule if ties else f"{rule} {k}"
        short[0][name] = rule
        short[1].append((name, scope))
        long[0][f"table {k}"] = written_out(rule, len(scope))
        long[1].append((f"table {k}", scope))
    hidden = draw(st.lists(variables, unique=True, max_size=n - 1))
    return [{"n_states": [2] * n, "tables": t, "factors": f, "hidden": hidden} for t, f in (short, long)]


@given(logic_graphs(), seeds, evidences)
def test_layer_by_layer_as_tables(graphs: Any, seed: int, evidence: str) -> None:
    """Sum-product, max-product and in between, damped or not; and exactly."""
    T, damping = ((1.0, 0.0), (0.6, 0.3), (0.0, 0.2))[seed % 3]
    one, other = (FactorGraph(**graph, temperature=T, damping=damping, dtype=F64) for graph in graphs)
    query = ask_possible(other, seed, evidence)
    assume(query is not None)
    assert query is not None
    for layer, expected in zip(one.layers(query, 5), other.layers(query, 5), strict=True):
        for own, its in ((layer.marginals, expected.marginals), (layer.hidden, expected.hidden)):
            close(answer(own).exp(), answer(its).exp())
            assert torch.equal(answer(own).isneginf(), answer(its).isneginf())
        close(layer.residual.nan_to_num(posinf=99), expected.residual.nan_to_num(posinf=99), 1e-8)
    close(one(query, engine=Exact()).probs, other(query, engine=Exact()).probs)
    if T == 1:
        close(bethe.log_z(one, query), bethe.log_z(other, query), 1e-8)


@given(logic_graphs(), seeds)
def test_by_elimination(graphs: Any, seed: int) -> None:
    """Without an enumeration of all states, and with evidence, which takes variables out of a rule."""
    one, other = (FactorGraph(**graph, dtype=F64) for graph in graphs)
    query = ask_possible(other, seed, "mixed")
    assume(query is not None)
    assert query is not None
    expected = other(query, engine=Exact()).probs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qtcore.exact, "MAX_STATES", 1)
        close(one(query, engine=Exact()).probs, expected)
        close(qtcore.exact.log_z(one), qtcore.exact.log_z(other))


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("rule", logic.RULES)
@pytest.mark.parametrize("T", [1.0, 0.7])
def test_gradients_of_other_tables_through_rules(rule: str, order: int, T: float) -> None:
    """Loops, and zeros of evidence and of a table beside the rule."""
    stop = torch.tensor([0.0, -math.inf], dtype=F64)
    ring = [(i, (i + 1) % (order + 1)) for i in range(order + 1)]
    factors = [("rule", range(order)), ("edge", ring), ("bias", [(i,) for i in range(order + 1)]), ("stop", (0,))]

    def beliefs(edge: torch.Tensor, bias: torch.Tensor) -> Any:
        tables = {"rule": rule, "edge": [2, 2], "bias": [order + 1, 2], "stop": stop}
        model = FactorGraph(
            [2] * (order + 1), tables, factors, fixed=["stop"], temperature=T, n_layers=3, damping=0.1, dtype=F64
        )
        del model.tables._parameters["edge"], model.tables._parameters["bias"]
        model.tables._parameters |= {"edge": edge, "bias": bias}
        observed = torch.zeros(2, order + 1)
        observed[0, 1] = 1.0
        observed[1, order] = 0.5
        probs: torch.Tensor = model(Query(torch.zeros(2, order + 1), observed)).probs
        return probs

    inputs = [normal(k, *shape).requires_grad_() for k, shape in enumerate([(2, 2), (order + 1, 2)])]
    if rule == "exactly one" and order == 2:  # x0 = 0 and so x1 = 1, against the evidence
        with pytest.raises(InputError, match="probability 0"):
            beliefs(*inputs)
        return
    assert gradcheck(beliefs, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("rule", logic.RULES)
def test_hundreds_of_variables(rule: str, dtype: torch.dtype) -> None:
    """A single factor is a tree: the marginals after two layers, by sums over the number of ones that a loop adds up."""
    n, bias = 300, normal(1, 300)
    model = FactorGraph(
        [2] * n,
        {"rule": rule, "bias": torch.stack([0 * bias, bias], 1)},
        [("bias", [(i,) for i in range(n)]), ("rule", range(n))],
        dtype=dtype,
    )
    nothing = Query(torch.zeros(1, n), torch.zeros(1, n))
    probs = model(nothing, 2).probs[0, :, 1].to(F64)
    p = bias.sigmoid()
    if rule in ("and", "or"):
        inputs = p[:-1] if rule == "and" else 1 - p[:-1]
        all_on = inputs.log().sum().exp()
        y_on = p[-1] if rule == "and" else 1 - p[-1]
        weight = y_on * all_on + (1 - y_on) * (1 - all_on)
        without = torch.stack([inputs.log()[[k for k in range(n - 1) if k != j]].sum().exp() for j in range(n - 1)])
        own = (y_on * without + (1 - y_on) * (1 - without)) * inputs / weight
        expected = torch.cat([own, (y_on * all_on / weight)[None]])
        expected = expected if rule == "and" else 1 - expected
    else:
        expected = bias.exp() / (bias.exp().sum() + (rule == "at most one"))
    close(probs, expected, 1e-9 if dtype == F64 else 2e-5)
    model.tables["bias"].grad = None
    model(nothing, 2).probs[0, 0, 1].backward()
    assert model.tables["bias"].grad.isfinite().all()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="has a width of 299 or more"):
        model(nothing, engine=Exact())
    with pytest.raises(InputError, match="needs tables without zeros"):
        model(nothing, engine=Gibbs())


def test_evidence_may_narrow_what_is_too_wide() -> None:
    n = 60
    model = FactorGraph([2] * n, {"one": "exactly one", "bias": normal(0, 2)}, [("one", range(n)), ("bias", [(0,)])], dtype=F64)
    probs = model(model.query({7: 1}), engine=Exact()).probs[0, :, 1]
    assert probs.nonzero().tolist() == [[7]]


@pytest.mark.parametrize("engine", [BP(), BP(temperature=0), Exact()])
def test_contradictions_are_named(engine: Any) -> None:
    model = FactorGraph([2] * 4, {"one": "exactly one"}, [("one", range(4))])
    for known in ({0: 1, 1: 1}, dict.fromkeys(range(4), 1), dict.fromkeys(range(4), 0)):
        with pytest.raises(InputError, match="has probability 0"):
            model(model.query(known), engine=engine)


def test_all_messages_of_a_table_may_be_impossible() -> None:
    """Each message of this factor was −∞ − (−∞) once."""
    model = FactorGraph([2] * 4, {"one": written_out("exactly one", 4)}, [("one", range(4))])
    with pytest.raises(InputError, match="has probability 0"):
        model(model.query(dict.fromkeys(range(4), 1)))


def test_saved_trained_and_written(tmp_path: Path) -> None:
    variables = {"a": 2, "b": ["no", "yes"], "c": 2, "d": 2, "e": 2}
    tables = {"one": "Exactly_One", "any": "or", "edge": [2, 2]}
    factors = [("one", ("a", "b", "c")), ("edge", ("c", "d")), ("one", [("d", "e")]), ("any", (0, 1, 4))]
    model = FactorGraph(variables, tables, factors, hidden=["e"])
    assert model.factors() == [("one", [[0, 1, 2]]), ("edge", [[2, 3]]), ("one", [[3, 4]]), ("any", [[0, 1, 4]])]
    rows = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]).repeat(20, 1)
    before = float(model.loss(Query(rows, rows < 2, torch.ones(60, 4, dtype=torch.bool))).detach())
    qtcore.fit(model, rows, steps=10, batch=20, seed=0)
    assert math.isfinite(before)
    model.save(tmp_path / "graph.safetensors")
    again: Any = qtcore.load(tmp_path / "graph.safetensors")
    assert again.config() == model.config()
    query = Query(rows, torch.tensor([[True, False, False, True]]).expand(60, 4))
    assert torch.equal(again(query).probs, model(query).probs)
    model.to_uai(tmp_path / "graph.uai")
    assert [table.shape for table in uai.read(tmp_path / "graph.uai").tables] == [(2,) * 3, (2, 2), (2, 2), (2,) * 3]
    close(qtcore.exact.log_z(FactorGraph.from_uai(tmp_path / "graph.uai")), qtcore.exact.log_z(model), 1e-6)
    FactorGraph([2] * 30, {"one": "at most one"}, [("one", range(30))])
    with pytest.raises(InputError, match="at most 22 variables are written out"):
        FactorGraph([2] * 30, {"one": "at most one"}, [("one", range(30))]).to_uai(tmp_path / "wide.uai")


def test_scopes_as_arrays() -> None:
    scopes = torch.tensor([[0, 1, 2], [2, 3, 4]])
    for given_scopes in (scopes, scopes.numpy(), scopes.tolist()):
        assert FactorGraph([2] * 5, {"one": "at most one"}, [("one", given_scopes)]).factors() == [("one", scopes.tolist())]
    assert FactorGraph([2] * 5, {"one": "at most one"}, [("one", scopes[0])]).factors() == [("one", [[0, 1, 2]])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tables": {"one": "exactly two"}}, "or one of 'and', 'or', 'at most one', 'exactly one', not 'exactly two'"),
        ({"n_states": [2, 3, 2]}, "is about binary variables, but 1 has 3 states"),
        ({"factors": [("one", (0,))]}, r"about two variables or more, not about \(0,\)"),
        ({"factors": [("one", (0, 3))]}, "must name variables among 0 … 2, not 3"),
        ({"factors": [("one", (0, 1, 0))]}, r"names a variable twice in \(0, 1, 0\)"),
        ({"factors": [("one", (0, 0.5))]}, "by its number or its name, not by 0.5"),
        ({"factors": []}, "the table 'one' is used by no factor"),
        ({"factors": [("oen", (0, 1))]}, r"no table named 'oen'; did you mean one\?"),
    ],
)
def test_rules_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"n_states": [2, 2, 2], "tables": {"one": "exactly one"}, "factors": [("one", (0, 1, 2))]}
    FactorGraph(**good)
    with pytest.raises(InputError, match=message):
        FactorGraph(**good | change)
