"""The general road: every discrete model, written as a factor graph, is answered as by its own fast path, layer by layer."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from qtcore.inference import BP
from qtcore.inference.bp.factors import FactorPassing, Logs, Maxima, Sums, outgoing
from qtcore.inference.bp.passing import Choices
from qtcore.potentials import FactorPotentials, Wiring

from ..strategies import EVIDENCE, F64, TEMPERED, answer, ask, build, close, normal


def general(model: Any, query: Any, n: int) -> list[tuple[Any, Any, Tensor]]:
    """Visible and hidden marginals and residuals of each layer, on the wiring alone."""
    own = BP().passing(model, query).choices
    passing = FactorPassing(*model.graph().as_factors(model.evidence(query)), own)
    messages, result = passing.initial(), []
    residual = passing.before()["residual"]
    for _ in range(n + 1):
        result.append((*passing.answers(messages), residual))
        messages, info = passing.update(messages)
        residual = info["residual"]
    return result


@pytest.mark.parametrize("T", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("kind", TEMPERED)
def test_fast_paths_are_the_general_one(kind: str, evidence: str, damping: float, T: float) -> None:
    model = build(kind, 3, 0.8, damping=damping, temperature=T)
    query = ask(model, 4, evidence)
    layers = list(model.layers(query, 6))
    for layer, (visible, hidden, residual) in zip(layers, general(model, query, 6), strict=True):
        close(probabilities(visible), probabilities(layer.marginals), 1e-9)
        close(probabilities(hidden), probabilities(layer.hidden), 1e-9)
        if kind != "RBM" and kind != "DBM":  # there clamped variables send constants from the first layer on
            close(residual, layer.residual, 1e-9)


def probabilities(marginals: Any) -> Tensor:
    return answer(marginals).sigmoid() if marginals.event_shape == () and answer(marginals).dim() == 2 else marginals.probs


# ---------------------------------------------------------------------------------------------------------------------
# Factors of any order


def joint(n_states: tuple[int, ...], scopes: Any, tables: Any, which: Any, unary: Tensor) -> Tensor:
    """The table of all log-weights, state by state."""
    total = torch.zeros(n_states, dtype=F64)
    offsets = [sum(n_states[:i]) for i in range(len(n_states))]
    for state in itertools.product(*map(range, n_states)):
        total[state] = sum(float(unary[offset + s]) for offset, s in zip(offsets, state, strict=True))
        for scope, table in zip(scopes, which, strict=True):
            total[state] += float(tables[table][tuple(state[i] for i in scope)])
    return total


def passing_on(wiring: Wiring, unary: Tensor, tables: tuple[Tensor, ...], evidence: Tensor, T: float = 1.0) -> FactorPassing:
    choices = Choices(torch.tensor(T or 1.0, dtype=F64), T > 0, 0.0, "flooding", False, "graph")
    return FactorPassing(FactorPotentials(wiring, unary, tables), evidence, choices)


TREES: list[Any] = [  # numbers of states, scopes, the table of each factor
    ((2, 3, 2, 2), [(0, 1, 2), (2, 3)], [0, 1]),
    ((3, 2, 3, 2, 2), [(0, 1), (2, 1), (1, 3, 4)], [0, 0, 1]),  # two factors share a table
    ((2, 2, 2, 2, 2), [(0, 1, 2, 3), (4,), (3, 4)], [0, 1, 2]),
    ((2, 1, 4), [(2, 0, 1)], [0]),
]


@pytest.mark.parametrize(("n_states", "scopes", "which"), TREES)
@pytest.mark.parametrize("T", [1.0, 0.0])
def test_higher_orders_and_ties_are_exact_on_trees(n_states: Any, scopes: Any, which: Any, T: float) -> None:
    wiring = Wiring.of(n_states, scopes, which)
    shapes = {table: tuple(n_states[i] for i in scope) for scope, table in zip(scopes, which, strict=True)}
    all_tables = {table: normal(table, *shape) for table, shape in shapes.items()}
    grouped = tuple(
        torch.stack([all_tables[which[n]] for n in dict.fromkeys(_first(which, group.number.tolist()))])
        for group in wiring.groups
    )
    unary = normal(7, sum(n_states))
    evidence = normal(8, sum(n_states), 1)
    passing = passing_on(wiring, unary, grouped, evidence, T)
    messages = passing.initial()
    for _ in range(5):
        messages, info = passing.update(messages)
    assert float(info["residual"]) < 1e-12
    visible: Any = passing.answers(messages)[0]
    table = joint(n_states, scopes, all_tables, which, unary + evidence[:, 0])
    for i in range(len(n_states)):
        others = [k for k in range(len(n_states)) if k != i]
        expected = table.logsumexp(others) if T else table.amax(others)
        result = visible.logits[0, i, : n_states[i]]
        close(result - result.amax(), expected - expected.amax(), 1e-9)


def _first(which: list[int], numbers: list[int]) -> list[int]:
    """Of each table used by these factors, the first factor that uses it."""
    seen: dict[int, int] = {}
    for number in numbers:
        seen.setdefault(which[number], number)
    return list(seen.values())


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("numbers", [Sums, Logs, Maxima])
@pytest.mark.parametrize("shape", [(4,), (3, 2), (2, 3, 4), (2, 1, 3, 2), (2, 2, 1, 2, 3), (2,) * 8])
def test_messages_of_any_order_by_loops(shape: tuple[int, ...], numbers: Any, tied: bool) -> None:
    table, cavities = normal(0, *shape, 1 if tied else 2), [normal(k + 1, size, 2, 3) for k, size in enumerate(shape)]
    incoming = [numbers.incoming(cavity) for cavity in cavities]
    results = [numbers.logs(sent) for sent in outgoing(numbers.table(table, len(shape)), incoming, numbers)]
    for axis, size in enumerate(shape):
        for f, b in itertools.product(range(2), range(3)):
            expected = []
            for s in range(size):
                scores = []
                for state in itertools.product(*map(range, shape)):
                    if state[axis] == s:
                        others = sum(float(cavities[k][state[k], f, b]) for k in range(len(shape)) if k != axis)
                        scores.append(float(table[(*state, 0 if tied else f)]) + others)
                top = max(scores)
                expected.append(top if numbers is Maxima else top + math.log(sum(math.exp(x - top) for x in scores)))
            result = results[axis][:, f, b]
            close(result - result[0], torch.tensor(expected, dtype=F64) - expected[0], 1e-11)


def test_gradients_add_up_over_ties() -> None:
    """Two factors with one table: its gradient is the sum of those of two tables of their own."""
    scopes, n_states = [(0, 1), (1, 2), (2, 0)], (2, 2, 2)
    unary, evidence = normal(1, 6), normal(2, 6, 3)

    def belief(wiring: Wiring, tables: Tensor) -> Tensor:
        passing = passing_on(wiring, unary, (tables,), evidence)
        messages = passing.initial()
        for _ in range(4):
            messages, _ = passing.update(messages)
        return answer(passing.answers(messages)[0])

    tied, apart = Wiring.of(n_states, scopes, [5, 5, 9]), Wiring.of(n_states, scopes)
    two = normal(3, 2, 2, 2).requires_grad_()
    three = two.detach()[[0, 0, 1]].requires_grad_()
    close(belief(tied, two), belief(apart, three), 1e-12)
    weights = normal(4, 3, 3, 2)
    (g_two,) = torch.autograd.grad((belief(tied, two) * weights).sum(), two)
    (g_three,) = torch.autograd.grad((belief(apart, three) * weights).sum(), three)
    close(g_two, torch.stack([g_three[0] + g_three[1], g_three[2]]), 1e-10)
    assert gradcheck(lambda t: belief(tied, t), (two,))


def test_rows_and_back() -> None:
    where = Wiring.of((2, 3, 1), []).on(torch.device("cpu"))
    flat = normal(0, 6, 4)
    rows = where.rows(flat)
    assert rows.shape == (4, 3, 3)
    assert rows.isneginf().sum() == 4 * 3
    assert torch.equal(where.flat(rows), flat)


def test_a_graph_that_was_first_asked_in_inference_mode_can_be_trained() -> None:
    """Its indices are kept; as inference tensors they once stopped the backward pass."""
    model = build("PairwiseMRF")
    query = ask(model, 1, "hard")
    with torch.inference_mode():
        model(query)
    model.loss(query).backward()
