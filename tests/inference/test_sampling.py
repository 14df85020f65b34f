"""Samples and completions by the chain rule: against enumeration where marginals are exact."""

import math
from typing import Any

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

import qtcore
from qtcore import FactorGraph, GaussianRBM, Query, kernels
from qtcore.errors import InputError
from qtcore.inference.sampling import smoothed, steps_of

from .. import oracle
from ..joint import DISCRETE, joint, query_of, tree
from ..strategies import F64, close, randomise, rng

N = 2000


def p_value(samples: Tensor, table: Tensor) -> float:
    """Of the hypothesis that samples [n, variables] come from the table; cells that hardly occur are taken together."""
    counts = torch.zeros_like(table)
    counts.index_put_(tuple(samples.long().unbind(1)), torch.ones(len(samples), dtype=table.dtype), accumulate=True)
    assert not counts[table == 0].any()
    expected, counts = len(samples) * table.flatten(), counts.flatten()
    rare = expected < 5
    expected, counts = (torch.cat([each[~rare], each[rare].sum()[None]]) for each in (expected, counts))
    used = expected > 0
    return float(chisquare(counts[used], expected[used] * counts.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("kind", DISCRETE)
@pytest.mark.parametrize("order", ["random", "forward", "reversed"])
def test_samples_of_a_tree_come_with_their_joint_probabilities(kind: str, order: Any) -> None:
    model, generator = tree(kind, 1), rng(2)
    query = query_of(model, 2)
    if order == "reversed":
        order = list(range(query.shape[1:].numel()))[::-1]
    samples = model.sample(query, N, order, generator=generator)
    assert samples.shape == (N, *query.shape)
    for row, table in enumerate(joint(model, query)):
        assert p_value(samples[:, row].flatten(1), table) > 1e-3


def test_the_chi_square_notices_what_is_drawn_at_a_time() -> None:
    model = tree("RBM", 1, 3.0)
    query = query_of(model)
    together = model.sample(query, N, block=4, generator=rng(0))
    assert p_value(together[:, 0], joint(model, query)[0]) < 1e-9


def test_exact_marginals_make_exact_samples_of_a_graph_with_loops() -> None:
    model = FactorGraph((2, 2, 3), {"e": [2, 2], "f": [2, 3]}, [("e", (0, 1)), ("f", (1, 2)), ("f", (0, 2))], dtype=F64)
    model = randomise(model, 3)
    query = query_of(model, seen=None)
    samples = model.sample(query, 500, generator=rng(0), engine=qtcore.Exact())
    assert p_value(samples[:, 0], joint(model, query)[0]) > 1e-3


def test_soft_evidence_and_likelihoods_are_kept_until_a_variable_is_drawn() -> None:
    model = tree("PairwiseMRF")
    likelihood = torch.zeros(1, 3, 4, dtype=F64)
    likelihood[0, 0, :2], likelihood[0, 1, 2], likelihood[0, 2] = torch.tensor([0.9, 0.1]), 1.0, 1.0
    query = Query(likelihood, torch.tensor([[0.7, 1.0, 0.0]]), target=torch.tensor([[True, False, True]]))
    samples = model.sample(query, N, generator=rng(0))
    assert p_value(samples[:, 0], joint(model, query)[0]) > 1e-3
    assert (samples[:, 0, 1] == 2).all()


def test_what_is_neither_observed_nor_a_target_is_not_a_number() -> None:
    model = tree("RBM")
    query = Query(
        torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[True, False, False, False]]), torch.tensor([[False, True, False, True]])
    )
    samples = model.sample(query, 5)
    assert samples.isnan().any((0, 1)).tolist() == [False, False, True, False]
    assert (samples[..., 0] == 1).all()


def test_a_row_of_a_batch_may_have_fewer_targets_than_another() -> None:
    model = tree("RBM")
    values, observed = torch.ones(2, 4), torch.tensor([[True, True, True, True], [True, False, False, True]])
    samples = model.sample(Query(values, observed), N, generator=rng(0))
    assert (samples[:, 0] == 1).all()
    assert p_value(samples[:, 1], joint(model, Query(values, observed))[1]) > 1e-3


def test_the_same_generator_draws_the_same() -> None:
    model = tree("FactorGraph")
    query = query_of(model)
    first, again, other = (model.sample(query, 20, generator=rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_labels_may_be_known_by_their_likelihoods() -> None:
    """A grid asked with p(reading | label) in the place of the reading answers the same, with either backend."""
    model = tree("GridMRF")
    query = query_of(model)
    likelihoods = model.evidence(query).exp()
    for backend in ("torch", "auto"):
        with kernels.use(backend):
            close(model(Query(likelihoods, query.observed)).probs, model(query).probs)
    likelihoods[0, 0, 1] = torch.tensor([0.0, 1.0, 0.0])  # the label is OUT
    table = joint(model, query)[0][:, 1]
    with kernels.use("torch"):
        known = model(Query(likelihoods, query.observed)).probs[0, 0]
    close(known[0], table.sum(1) / table.sum())
    close(known[1], torch.tensor([0.0, 1.0, 0.0]))
    for bad, said in ((likelihoods[..., :2], "3 labels"), (0 * likelihoods, "not all 0"), (-likelihoods, "not all 0")):
        with pytest.raises(InputError, match=said):
            model(Query(bad, query.observed))


# ---------------------------------------------------------------------------------------------------------------------
# Orders and blocks


def test_each_target_has_one_step() -> None:
    target = torch.rand(5, 12, generator=rng(0)) < 0.6
    for order in ("random", "forward", torch.randperm(12, generator=rng(1))):
        for block in (1, 3, 12):
            steps = steps_of(target, order, block, rng(2))
            assert ((steps >= 0) == target).all()
            for row, own in zip(steps, target, strict=True):
                used = row[own].bincount()
                assert used.min() >= 1
                assert used.max() <= block
                assert len(used) == math.ceil(int(own.sum()) / block)


def test_orders() -> None:
    everything = torch.ones(1, 6, dtype=torch.bool)
    assert steps_of(everything, "forward").tolist() == [[0, 1, 2, 3, 4, 5]]
    assert steps_of(everything, "forward", 2).tolist() == [[0, 1, 2, 0, 1, 2]]  # far apart
    assert steps_of(everything, [3, 0, 1, 5, 4, 2]).tolist() == [[1, 2, 5, 0, 4, 3]]
    assert steps_of(everything, [3, 0, 1, 5, 4, 2], 2).tolist() == [[0, 1, 2, 0, 2, 1]]  # as given
    assert steps_of(everything, "forward", (2, 1), image_shape=(2, 3)).tolist() == [[0, 1, 2, 0, 1, 2]]
    assert steps_of(everything.view(1, 2, 3), "forward", (1, 2)).tolist() == [[[0, 0, 1], [2, 2, 3]]]
    assert len(steps_of(everything.expand(40, 6), "random", generator=rng(0)).unique(dim=0)) > 30  # each row has its own


def test_outwards_begins_in_the_middle_and_ends_at_the_corners() -> None:
    steps = steps_of(torch.ones(2, 81, dtype=torch.bool), "outwards", (1, 1), rng(0), (9, 9)).view(2, 9, 9)
    assert torch.equal(steps[0], steps[1])
    assert int(steps[0, 3:6, 3:6].max()) < int(steps[0, [0, 0, 8, 8], [0, 8, 0, 8]].min())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 0}, "n must be a whole number of samples ≥ 1, not 0"),
        ({"order": "sideways"}, "there is no order 'sideways'"),
        ({"order": [0, 1, 1, 2]}, "each of the 4 variables once"),
        ({"order": [0, 1]}, "each of the 4 variables once"),
        ({"order": [0, 1, 2, 3], "block": (2, 2)}, "not with patches"),
        ({"block": 0}, "between 1 and all 4 variables, not 0"),
        ({"block": 5}, "between 1 and all 4 variables, not 5"),
        ({"block": (2, 2)}, "does not say what image"),
        ({"order": "outwards"}, "does not say what image"),
        ({"order": "outwards", "block": 2}, "outwards goes with one pixel at a time"),
        ({"block": "3x3"}, "a block must be a number of variables, or a patch"),
    ],
)
def test_bad_orders_and_blocks(options: Any, said: str) -> None:
    model = tree("RBM")
    if options.get("block") == "3x3":
        model.image_shape = (2, 2)
    with pytest.raises(InputError, match=said):
        model.sample(query_of(model), **options)


def test_bad_queries() -> None:
    model = tree("RBM")
    model.image_shape = (2, 2)
    with pytest.raises(InputError, match="a patch of 3×1 pixels does not fit into an image of 2×2"):
        model.sample(query_of(model), block=(3, 1))
    with pytest.raises(InputError, match="the query has no targets; leave at least one"):
        model.sample(Query(torch.ones(1, 4), torch.ones(1, 4, dtype=torch.bool)))
    never = FactorGraph((2, 2, 2), {"same": torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])}, [("same", [(0, 1), (1, 2)])])
    with pytest.raises(InputError, match="probability 0"):
        never.sample(never.query({0: 0, 2: 1}))


# ---------------------------------------------------------------------------------------------------------------------
# The most probable completion


@pytest.mark.parametrize("kind", DISCRETE)
def test_max_product_finds_the_most_probable_state_of_a_tree(kind: str) -> None:
    for seed in range(3):
        model = tree(kind, seed)
        query = query_of(model, 3, seed=seed)
        best = model.most_probable(query, "max-product")
        close(best, oracle.most_probable(model, query).visible)


def test_states_that_are_equally_probable_are_not_mixed() -> None:
    """00 and 11 are as probable: the max-marginals alone would not say that 01 is not."""
    model = qtcore.PairwiseMRF((2, 2), [(0, 1)], dtype=F64)
    model.tables["pairwise_2x2"].data[0] = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    for method in ("chain", "max-product"):
        first, second = model.most_probable(Query(nothing.to(F64), nothing), method)[0].tolist()
        assert first == second


@pytest.mark.parametrize("kind", DISCRETE)
def test_the_chain_takes_the_most_probable_value_given_those_before(kind: str) -> None:
    model = tree(kind, 4)
    query = query_of(model, 3)
    result = model.most_probable(query)
    for row, table in zip(result.flatten(1).long().tolist(), joint(model, query), strict=True):
        for value in row:
            assert value == int((table.flatten(1).sum(1) if table.ndim > 1 else table).argmax())
            table = table[value]


def test_bad_methods() -> None:
    model, pixels = tree("RBM"), GaussianRBM(4, 2)
    with pytest.raises(InputError, match="method must be chain or max-product"):
        model.most_probable(query_of(model), "guess")
    with pytest.raises(InputError, match="has no temperature"):
        pixels.most_probable(Query(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool)), "max-product")
    with pytest.raises(InputError, match="max-product is belief propagation"):
        model.most_probable(query_of(model), "max-product", engine=qtcore.Exact())


# ---------------------------------------------------------------------------------------------------------------------
# Real variables


def nothing_seen(size: int) -> Query:
    return Query(torch.zeros(1, size), torch.zeros(1, size, dtype=torch.bool))


def test_independent_pixels_come_out_with_their_mean_and_deviation() -> None:
    """With no weights the chain rule draws from N(b, σ²)."""
    model = GaussianRBM(12, 3, n_layers=2)
    model.image_shape = (3, 4)
    model.W.data.zero_()
    model.b.data[:] = torch.linspace(-2, 2, 12)
    result = model.sample(nothing_seen(12), N, block=(2, 2), order="outwards", generator=rng(0))[:, 0]
    torch.testing.assert_close(result.mean(0), model.b.detach(), atol=0.1, rtol=0)
    torch.testing.assert_close(result.std(0), torch.ones(12), atol=0.1, rtol=0)
    expected = model.b.detach()[None]
    torch.testing.assert_close(smoothed(model, result[:3], (2, 2)), expected.expand(3, -1), atol=1e-4, rtol=0)
    torch.testing.assert_close(model.most_probable(nothing_seen(12)), expected, atol=1e-4, rtol=0)
    with pytest.raises(InputError, match="samples of real variables have grain"):
        smoothed(tree("RBM"), torch.zeros(1, 4))


def test_correlated_pixels_come_out_correlated_unless_they_are_drawn_together() -> None:
    """One strong hidden unit makes two pixels agree; drawn one after the other they must."""
    model = GaussianRBM(2, 1, n_layers=20)
    model.W.data[:] = 4.0
    model.c.data[:] = -16.0  # the mixture is even: the unit is on or off with the same probability
    for block, least, most in ((1, 0.6, 1.0), (2, -0.1, 0.1)):
        result = model.sample(nothing_seen(2), 2000, block=block, generator=rng(0))[:, 0]
        assert least < float(torch.corrcoef(result.T)[0, 1]) < most


def test_a_known_pixel_keeps_its_value() -> None:
    model = GaussianRBM(3, 1)
    query = Query(torch.tensor([[0.5, 0.0, 0.0]]), torch.tensor([[True, False, False]]), torch.ones(1, 3, dtype=torch.bool))
    assert (model.sample(query, 4)[..., 0] == 0.5).all()
