"""Joint probabilities, consistency and the next question: against enumeration where marginals are exact."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import qtcore
from qtcore import RBM, FactorGraph, GaussianRBM, Query
from qtcore.errors import InputError
from qtcore.inference.questions import acquire
from qtcore.metrics import BITS

from ..joint import DISCRETE, joint, query_of, tree
from ..strategies import F64, build, close, normal, randomise, rng

every_kind = pytest.mark.parametrize("kind", DISCRETE)


def permutations(model: Any) -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(model.size)))


def expected_log_prob(model: Any, query: Query) -> Tensor:
    """Of the truth of the targets, the other variables summed out."""
    result = []
    target, truth = model.target(query).flatten(1), query.truth.flatten(1).long()
    for table, own, values in zip(joint(model, query), target.tolist(), truth.tolist(), strict=True):
        others = [axis for axis, is_target in enumerate(own) if not is_target]
        marginal = table.sum(others) if others else table
        result.append(marginal[tuple(value for value, is_target in zip(values, own, strict=True) if is_target)].log())
    return torch.stack(result)


@every_kind
def test_the_joint_probability_of_a_tree_is_exact_in_every_order(kind: str) -> None:
    model = tree(kind)
    query = query_of(model, 3)
    expected = expected_log_prob(model, query)
    answer = model.log_prob(query, permutations(model))
    close(answer.each, expected.expand_as(answer.each), 1e-8)
    close(answer.mixture, expected, 1e-8)
    assert float(answer.spread.max()) < 1e-8
    close(model.log_prob(query, 3, generator=rng(0)).mean, expected, 1e-8)


def test_what_is_no_target_is_summed_out() -> None:
    model = tree("RBM")
    query = query_of(model, 3)
    target = torch.tensor([[False, True, False, True], [False, False, True, False], [False, False, False, False]])
    query = Query(query.values, query.observed, target)
    close(model.log_prob(query, 2).mean, expected_log_prob(model, query), 1e-8)
    assert model.log_prob(query).mean[2] == 0


def test_what_cannot_be_has_probability_0() -> None:
    """As evidence for the next variable it would have no answer; the other rows are answered."""
    same = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]], dtype=F64)
    model = FactorGraph((2, 2, 2), {"same": same}, [("same", [(0, 1), (1, 2)])], dtype=F64)
    rows = torch.tensor([[0, 1, 1], [1, 1, 1], [1, 1, 0]])
    answer = model.log_prob(Query(rows, torch.zeros_like(rows, dtype=torch.bool)), permutations(model))
    close(answer.mean.exp(), torch.tensor([0.0, 0.5, 0.0], dtype=F64))


def test_exact_marginals_are_consistent_and_those_of_loops_are_not() -> None:
    """The spread over orders is the inconsistency; by the chain rule each order is a distribution all the same."""
    model = FactorGraph((2, 2, 2), {"e": [2, 2]}, [("e", [(0, 1), (1, 2), (0, 2)])], n_layers=30, dtype=F64)
    model = randomise(model, 0, 2.0)
    rows = torch.cartesian_prod(*[torch.arange(2)] * 3)
    query = Query(rows, torch.zeros_like(rows, dtype=torch.bool))
    loopy, exact = model.log_prob(query, permutations(model)), model.log_prob(query, permutations(model), engine=qtcore.Exact())
    close(loopy.each.exp().sum(1), torch.ones(6, dtype=F64))
    close(loopy.mixture.exp().sum(), torch.ones((), dtype=F64))
    close(exact.mean, joint(model, query[:1])[0].flatten().log())
    assert float(exact.spread.max()) < 1e-8
    assert float(loopy.spread.max()) > 1e-3
    assert qtcore.consistency(model, query, rng(0), qtcore.Exact()).mean < 1e-8
    assert qtcore.consistency(model, query, rng(0)).mean > 1e-3


@every_kind
def test_trees_are_consistent(kind: str) -> None:
    model = tree(kind)
    score = qtcore.consistency(model, query_of(model, 5), rng(0))
    assert score.count == 5
    assert score.mean < 1e-8


def test_consistency_is_that_of_both_ways_round_a_pair() -> None:
    model = build("RBM", 0, 2.0)
    query = Query(torch.ones(1, 4), torch.tensor([[True, True, False, False]]))
    one, other = model.log_prob(query, [[0, 1, 2, 3], [0, 1, 3, 2]]).each
    assert float((one - other).abs()) > 1e-4
    assert qtcore.consistency(model, query).mean == pytest.approx(float((one - other).abs()) * BITS)


def test_blocks_are_independent_given_those_before() -> None:
    model = build("RBM", 0, 2.0)
    query = Query(torch.ones(1, 4), torch.zeros(1, 4, dtype=torch.bool))
    losses, _ = model.nll(query)
    close(model.log_prob(query, "forward", block=4).mean, -losses.sum(1))


def test_pixels() -> None:
    """Without weights they are independent: the log-density is the sum of theirs."""
    model = GaussianRBM(3, 2, dtype=F64)
    model.W.data.zero_()
    query = Query(normal(0, 2, 3), torch.tensor([[False, False, False], [True, False, True]]))
    density = torch.distributions.Normal(0, 1).log_prob(query.values)
    close(model.log_prob(query, 2).mean, torch.where(query.target, density, 0).sum(1))


def test_bad_input() -> None:
    model = tree("RBM")
    query = query_of(model)
    everything = Query(query.values, torch.ones(1, 4, dtype=torch.bool))
    for orders, said in (
        (0, "at least 1, not 0"),
        ([], "at least one order"),
        ([[0, 1, 2, 2]], "each of the 4 variables once"),
    ):
        with pytest.raises(InputError, match=said):
            model.log_prob(query, orders)
    with pytest.raises(InputError, match="no targets"):
        model.log_prob(everything)
    with pytest.raises(InputError, match="a truth of 0 or 1"):
        model.log_prob(Query(torch.full((1, 4), 0.5), query.observed))
    with pytest.raises(InputError, match="truth must be"):
        model.log_prob(Query(torch.full((1, 4), math.nan), torch.zeros(1, 4, dtype=torch.bool)))
    with pytest.raises(InputError, match="no row has two targets"):
        qtcore.consistency(model, Query(torch.ones(1, 4), torch.tensor([[True, True, True, False]])))
    for options, said in (
        ({"about": [4]}, "about must be numbers of variables from 0 to 3"),
        ({"about": []}, "about must be numbers"),
        ({"candidates": [0.5]}, "candidates must be numbers"),
        ({"about": [0]}, "no unobserved variable to learn about"),
        ({"candidates": [0]}, "no unobserved variable to ask about"),
    ):
        with pytest.raises(InputError, match=said):
            qtcore.next_question(model, query, **options)
    with pytest.raises(InputError, match="no unobserved variable to learn about"):
        qtcore.next_question(model, everything)


# ---------------------------------------------------------------------------------------------------------------------
# The next question


def mutual_information(table: Tensor, a: int, c: int) -> float:
    """Of two variables of a joint distribution, in bits."""
    both = table.sum([axis for axis in range(table.ndim) if axis not in (a, c)]) if table.ndim > 2 else table
    apart = both.sum(1, keepdim=True) * both.sum(0, keepdim=True)
    return float(torch.where(both > 0, both * (both / apart).log2(), 0).sum())


@every_kind
def test_expected_information_is_the_enumerated_one(kind: str) -> None:
    model = tree(kind, 2, 2.0)
    query = query_of(model, 3)
    last = model.size - 1
    for about in ([last], [1, last]):
        candidates = [i for i in range(int(not isinstance(model, qtcore.GridMRF)), last + 1) if i not in about]
        if not candidates:
            continue
        answer = qtcore.next_question(model, query, about=about)
        bits = answer.bits.flatten(1)
        for row, table in enumerate(joint(model, query)):
            for c in candidates:
                expected = sum(mutual_information(table, a, c) for a in about)
                assert float(bits[row, c]) == pytest.approx(expected, abs=1e-8)
        assert (~bits.isnan()).nonzero()[:, 1].unique().tolist() == candidates
        assert torch.equal(answer.best, bits.nan_to_num(-1).argmax(1))


def test_candidates_may_be_named_or_masked_and_one_tells_nothing_of_itself() -> None:
    model = tree("RBM", 2, 2.0)
    query = query_of(model, seen=None)
    table = joint(model, query)[0]
    everything = qtcore.next_question(model, query).bits[0]
    for c in range(4):
        expected = sum(mutual_information(table, a, c) for a in range(4) if a != c)
        assert float(everything[c]) == pytest.approx(expected, abs=1e-8)
    masked = qtcore.next_question(model, query, candidates=torch.tensor([False, True, True, False]))
    close(masked.bits[0, 1:3], everything[1:3])
    assert masked.bits[0, [0, 3]].isnan().all()


def test_what_cannot_be_is_not_asked_about() -> None:
    """Three states, of which one is impossible: evidence of it would have no answer."""
    same = torch.tensor([[0.0, -math.inf, -math.inf], [-math.inf, 0.0, -math.inf], [-math.inf] * 3])
    model = FactorGraph((3, 3), {"same": same}, [("same", (0, 1))])
    answer = qtcore.next_question(model, model.query({}), about=[1])
    assert float(answer.bits[0, 0]) == pytest.approx(1)


def test_questions_about_pixels() -> None:
    """Against a fine sum over the answers in the place of a few nodes."""
    model = GaussianRBM(3, 1, dtype=F64)
    model.W.data[:] = torch.tensor([1.0, 0.7, 0.0])
    query = Query(torch.zeros(1, 3, dtype=F64), torch.zeros(1, 3, dtype=torch.bool))
    before = model(query)
    x = torch.linspace(-6, 6, 1001, dtype=F64)
    weight = torch.softmax(-(x**2) / 2, 0)
    values = torch.zeros(1001, 3, dtype=F64)
    values[:, 0] = before.mean[0, 0] + before.stddev[0, 0] * x
    after = model(Query(values, torch.tensor([True, False, False]).expand(1001, 3)))
    mean, variance = after.mean[:, 1].detach(), after.variance[:, 1].detach()
    total = (weight * (variance + mean**2)).sum() - (weight * mean).sum() ** 2
    expected = float((total.log() - (weight * variance.log()).sum()) / 2) * BITS
    answer = qtcore.next_question(model, query, about=[1]).bits[0]
    assert expected > 0.01
    assert float(answer[0]) == pytest.approx(expected, rel=1e-3)
    assert float(answer[2]) == pytest.approx(0, abs=1e-4)


def test_the_answers_of_a_trained_model_tell_something() -> None:
    """What is asked about need not be exact: bits are never negative."""
    model: RBM = build("RBM", 3, 3.0)
    bits = qtcore.next_question(model, query_of(model, 4, None)).bits
    assert (bits > -1e-12).all()


# ---------------------------------------------------------------------------------------------------------------------
# Several questions


def test_each_question_is_the_best_one_given_the_answers_before() -> None:
    model = tree("RBM", 2, 2.0)
    query = query_of(model, 5, seen=None)
    result = acquire(model, query, 3, about=[3])
    assert [len(set(row)) for row in result.asked.T.tolist()] == [3] * 5
    for row, table in enumerate(joint(model, query)):
        known: list[Any] = [slice(None)] * 4
        for asked in result.asked[:, row].tolist():
            now, free = table[tuple(known)], [i for i in range(3) if known[i] == slice(None)]
            now = now / now.sum()
            bits = [mutual_information(now, now.ndim - 1, axis) for axis in range(len(free))]
            assert bits[free.index(asked)] == pytest.approx(max(bits), abs=1e-9)
            known[asked] = int(query.truth[row, asked])
    for k, after in enumerate(result.queries):
        assert after.observed.sum(1).tolist() == [k] * 5
        assert torch.equal(after.values[after.observed], query.truth[after.observed].to(after.values.dtype))
        assert torch.equal(model.target(after), torch.arange(4).expand(5, 4) == 3)


def test_random_questions_are_about_anything_and_where_nothing_is_left_none_is_asked() -> None:
    model = tree("PairwiseMRF")
    query = query_of(model, 40, seen=0)
    result = acquire(model, query, 3, about=[2], at_random=True, generator=rng(0))
    assert result.asked.tolist() == [[1] * 40, [-1] * 40, [-1] * 40]
    assert torch.equal(result.queries[-1].observed, torch.tensor([True, True, False]).expand(40, 3))
    others = acquire(tree("RBM"), query_of(tree("RBM"), 40, None), 1, about=[0], at_random=True, generator=rng(0)).asked
    assert set(others.flatten().tolist()) == {1, 2, 3}
    named = acquire(tree("RBM"), query_of(tree("RBM"), 4, None), 2, about=[0], candidates=[0, 2])
    assert named.asked.tolist() == [[2] * 4, [-1] * 4]


def test_pixels_can_be_asked_about() -> None:
    model = GaussianRBM(3, 1)
    query = Query(torch.tensor([[0.5, -0.5, 2.0]]), torch.zeros(1, 3, dtype=torch.bool))
    result = acquire(model, query, 2, about=[0])
    assert sorted(result.asked.flatten().tolist()) == [1, 2]
    assert result.queries[-1].values[0, 1:].tolist() == [-0.5, 2.0]


def test_several_questions_that_cannot_be_asked() -> None:
    model, grid = tree("RBM"), tree("GridMRF")
    for n in (0, 1.5, True):
        with pytest.raises(InputError, match="n must be a whole number of questions ≥ 1"):
            acquire(model, query_of(model), n, about=[1])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="labels are no evidence"):
        acquire(grid, query_of(grid), 1, about=[1])
    with pytest.raises(InputError, match="about must be numbers"):
        acquire(model, query_of(model), 1, about=[7])
