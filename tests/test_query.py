"""Queries: what they default to, what they refuse, and the distributions that draw them."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qtcore import PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.metrics import nce
from qtcore.query import cardinality, fixed, halves, mixture, one_target, parse, patches, uniform

from .strategies import EVIDENCE, KINDS, answer, ask, backends, build, kinds, randomise, rng, seeds

every_kind = pytest.mark.parametrize("kind", KINDS)


# ---------------------------------------------------------------------------------------------------------------------
# The query itself


def test_what_is_not_observed_is_the_target() -> None:
    observed = torch.tensor([[True, False, True], [False, False, True]])
    query = Query(torch.zeros(2, 3), observed)
    assert torch.equal(query.target, ~observed)
    assert query.truth is query.values
    soft = Query(torch.zeros(1, 3), torch.tensor([[0.0, 0.5, 1.0]]))
    assert soft.target.tolist() == [[True, False, False]]


def test_target_and_truth_can_be_given() -> None:
    observed, target = torch.tensor([[True, False, False]]), torch.tensor([[True, True, False]])
    query = Query(torch.zeros(1, 3), observed, target, torch.ones(1, 3))
    assert torch.equal(query.target, target)
    assert torch.equal(query.truth, torch.ones(1, 3))
    assert (query.shape, len(query), query.device) == ((1, 3), 1, torch.device("cpu"))


def test_lists_of_numbers_will_do() -> None:
    query = Query([[1, 0]], [[True, False]])  # type: ignore[arg-type]
    assert query.values.tolist() == [[1, 0]]
    assert query.target.tolist() == [[False, True]]


def test_a_query_cannot_be_changed() -> None:
    query = Query(torch.zeros(1, 2), torch.zeros(1, 2))
    with pytest.raises(AttributeError):
        query.values = torch.ones(1, 2)  # type: ignore[misc]


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 0], torch.tensor([1]), torch.tensor([True, False, True, False])])
def test_some_of_the_samples(rows: Any) -> None:
    """Defaults stay defaults, and what was given stays given."""
    values, observed = torch.rand(4, 3, generator=rng(0)), torch.rand(4, 3, generator=rng(1)) < 0.5
    part = Query(values, observed)[rows]
    assert torch.equal(part.values, values[rows])
    assert torch.equal(part.observed, observed[rows])
    assert torch.equal(part.target, ~observed[rows])
    assert part.given_target is None
    assert part.given_truth is None
    given_too = Query(values, observed, observed, values + 1)[rows]
    assert torch.equal(given_too.target, observed[rows])
    assert torch.equal(given_too.truth, values[rows] + 1)
    assert given_too.given_target is not None
    assert given_too.given_truth is not None


def test_to_another_device_and_back() -> None:
    query = Query(torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 3))
    moved = query.to("meta")
    assert {tensor.device.type for tensor in (moved.values, moved.observed, moved.target, moved.truth)} == {"meta"}
    assert moved.given_target is not None
    assert query.to("cpu").values.equal(query.values)


# ---------------------------------------------------------------------------------------------------------------------
# What is not seen has no say


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e30, -7.5, 0.0])
@every_kind
def test_a_value_that_is_not_observed_never_counts(kind: str, junk: float) -> None:
    """Bit-identical answers on every road, whatever stands there."""
    model = build(kind, 1)
    for evidence in EVIDENCE:
        query = ask(model, 2, evidence)
        unobserved = query.observed == 0
        other = Query(torch.where(unobserved, junk, query.values), query.observed, query.target, query.truth)
        plain = Query(torch.where(unobserved, 1.0, query.values), query.observed, query.target, query.truth)
        for _ in backends():
            assert torch.equal(answer(model(other)), answer(model(plain)))
            assert torch.equal(model.loss(other), model.loss(plain))
        for one, two in zip(model.layers(other), model.layers(plain), strict=True):
            assert torch.equal(answer(one.marginals), answer(two.marginals))
            assert torch.equal(answer(one.hidden), answer(two.hidden))
            assert torch.equal(one.residual, two.residual)


@pytest.mark.parametrize("junk", [math.nan, 0.0, -3.0, 1e30])
def test_a_likelihood_that_is_not_observed_never_counts(junk: float) -> None:
    model = build("PairwiseMRF", 1)
    values = torch.rand(2, 3, 4, generator=rng(0), dtype=torch.float64)
    observed = torch.tensor([[1.0, 0.0, 0.5], [0.0, 0.0, 1.0]])
    expected = answer(model(Query(values, observed)))
    values = torch.where(observed[..., None] == 0, junk, values)
    assert torch.equal(answer(model(Query(values, observed))), expected)


def test_an_integer_that_is_not_observed_never_counts() -> None:
    model = PairwiseMRF((2, 3), [(0, 1)])
    for junk in (-1, 99, 2**62):
        query = Query(torch.tensor([[1, junk]]), torch.tensor([[True, False]]))
        assert torch.equal(answer(model(query)), answer(model(Query(torch.tensor([[1, 0]]), query.observed))))


@every_kind
def test_weight_0_is_exactly_unobserved_and_weight_1_exactly_observed(kind: str) -> None:
    model = build(kind, 1)
    query = ask(model, 2, "hard")
    soft = Query(query.values, query.observed.double(), query.target, query.truth)
    for _ in backends():
        assert torch.equal(answer(model(soft)), answer(model(query)))


@given(kinds, seeds)
def test_neither_observed_nor_target_is_marginalised_out(kind: str, seed: int) -> None:
    """What is asked does not change what is answered, and what is not asked is not scored."""
    model = build(kind, seed)
    query = ask(model, seed, "hard")
    everything = Query(query.values, query.observed, torch.ones_like(query.target), query.truth)
    assert torch.equal(answer(model(query)), answer(model(everything)))
    losses, _ = model.nll(everything)
    scored, target = model.nll(query)
    assert torch.equal(scored[target], losses[target])
    assert not scored[~target].any()


@every_kind
def test_a_query_without_targets_is_answered_but_not_scored(kind: str) -> None:
    model = build(kind, 1)
    query = ask(model, 2, "hard")
    silent = Query(query.values, query.observed, torch.zeros_like(query.target), query.truth)
    assert torch.equal(answer(model(silent)), answer(model(query)))
    for _ in model.layers(silent):
        pass
    for score in (model.loss, model.nll, lambda asked: nce(model, asked)):
        with pytest.raises(InputError, match="the query has no targets, so there is nothing to score"):
            score(silent)


@pytest.mark.parametrize("kind", ["RBM", "DBM", "GaussianRBM", "PairwiseMRF"])
def test_everything_observed_has_no_targets(kind: str) -> None:
    model = build(kind, 1)
    query = ask(model, 2, "hard")
    with pytest.raises(InputError, match="no targets"):
        model.loss(Query(query.truth, torch.ones_like(query.observed)))


# ---------------------------------------------------------------------------------------------------------------------
# Distributions

SHAPES = ((5, 8), (5, 4, 6))


def drawn(mask: Any, shape: Any, seed: int) -> torch.Tensor:
    """The masks of a query, checked for what all distributions promise."""
    values = torch.zeros(shape)
    query = mask(values, rng(seed))
    assert isinstance(query, Query)
    assert query.values is values
    assert query.observed.dtype == torch.bool
    assert query.observed.shape == tuple(shape)
    assert torch.equal(query.target, ~query.observed)
    assert torch.equal(mask.draw(shape, rng(seed)), query.observed)  # the same seed, the same masks
    return query.observed


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "mask",
    [uniform(), uniform(0.2), cardinality(), patches(2, 3, (2, 4)), one_target(), mixture(uniform(0.5), one_target())],
    ids=["uniform", "uniform 0.2", "cardinality", "patches", "one target", "mixture"],
)
def test_seeded_draws(mask: Any, shape: Any) -> None:
    if "Patches" in type(mask).__name__ and len(shape) == 3:
        mask = patches(2, 3)
    first = drawn(mask, shape, 0)
    assert any(not torch.equal(first, drawn(mask, shape, seed)) for seed in range(1, 6))
    generator = rng(0)
    assert not torch.equal(
        torch.stack([mask.draw(shape, generator) for _ in range(5)]), first.expand(5, *shape)
    )  # the generator goes on
    state = torch.get_rng_state()
    mask.draw(shape, rng(0))
    assert torch.equal(torch.get_rng_state(), state)  # torch's own generator is not touched


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 1.0])
def test_uniform_targets_have_their_probability_independently(p: float) -> None:
    target = ~drawn(uniform(p), (4000, 6), 0)
    assert float(target.double().mean()) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 24000) + 1e-9)
    if 0 < p < 1:
        deviations = (target.double() - p) / math.sqrt(p * (1 - p))
        correlations = deviations.T @ deviations / 4000
        assert float(correlations.fill_diagonal_(0).abs().max()) < 5 / math.sqrt(4000)
        assert float((target.double().mean(0) - p).abs().max()) < 5 * math.sqrt(p * (1 - p) / 4000)


def corners(mask: torch.Tensor, size: int) -> list[tuple[int, int]]:
    """Top left corners of the squares that make up the unobserved part of one image."""
    height, width = mask.shape
    squares = [(r, c) for r in range(height - size + 1) for c in range(width - size + 1)]
    return [(r, c) for r, c in squares if not mask[r : r + size, c : c + size].any()]


@given(st.integers(1, 4), st.integers(1, 3), st.booleans(), seeds)
def test_patches_are_squares_inside_the_image(size: int, count: int, flat: bool, seed: int) -> None:
    height, width = 5, 7
    mask = patches(size, count, (height, width) if flat else None)
    observed = drawn(mask, (6, height * width) if flat else (6, height, width), seed).view(6, height, width)
    for image in observed:
        covered = torch.zeros(height, width, dtype=torch.bool)
        for r, c in corners(image, size):
            covered[r : r + size, c : c + size] = True
        assert torch.equal(covered, ~image)  # whole squares, nothing else
        assert size**2 <= int((~image).sum()) <= count * size**2
        if count == 1:
            assert len(corners(image, size)) == 1


def test_patches_lie_anywhere_with_equal_probability() -> None:
    observed = drawn(patches(5, 1, (28, 20)), (24 * 16 * 40, 560), 0).view(-1, 28, 20)
    first = (~observed).flatten(1).int().argmax(1)
    counts = torch.bincount(first, minlength=560).view(28, 20)
    assert not counts[24:].any()
    assert not counts[:, 16:].any()
    inside = counts[:24, :16].double()
    assert inside.min() > 0
    chi_squared = float(((inside - 40) ** 2 / 40).sum())
    assert chi_squared == pytest.approx(383, abs=5 * math.sqrt(2 * 383))


def test_a_patch_of_the_whole_image() -> None:
    assert not drawn(patches(4), (2, 4, 4), 0).any()


@pytest.mark.parametrize("shape", [(3000, 6), (3000, 2, 3)])
def test_exactly_one_target_anywhere(shape: Any) -> None:
    target = ~drawn(one_target(), shape, 0).flatten(1)
    assert bool((target.sum(1) == 1).all())
    assert float((target.double().mean(0) - 1 / 6).abs().max()) < 5 * math.sqrt(5 / 36 / 3000)


@pytest.mark.parametrize("shape", [(6000, 4), (6000, 2, 2)])
def test_the_number_of_observed_variables_is_uniform(shape: Any) -> None:
    """And all choices of so many are equally probable."""
    observed = drawn(parse("cardinality"), shape, 0).flatten(1)
    number = (observed.long() * torch.tensor([1, 2, 4, 8])).sum(1).bincount(minlength=16)
    expected = torch.tensor([6000 / 4 / math.comb(4, mask.bit_count()) if mask < 15 else 0.0 for mask in range(16)])
    assert number[15] == 0
    assert float(((number - expected)[:15] ** 2 / expected[:15]).sum()) < 36  # chi-square of 14 degrees: 1 in 1000


def test_a_fixed_mask_is_the_same_for_all() -> None:
    observed = torch.tensor([True, False, True])
    assert torch.equal(drawn(fixed(observed), (4, 3), 0), observed.expand(4, 3))
    assert drawn(fixed(), (2, 3, 4), 0).all()
    weights = torch.tensor([0.5, 0.0, 1.0])
    soft = fixed(weights)(torch.zeros(2, 3))
    assert torch.equal(soft.observed, weights.expand(2, 3))
    assert soft.target.tolist() == [[False, True, False]] * 2


def test_a_mixture_takes_each_samples_mask_from_one_part() -> None:
    parts = fixed(torch.tensor([True, True])), fixed(torch.tensor([True, False])), fixed(torch.tensor([False, False]))
    observed = drawn(mixture(*parts, weights=(1, 2, 0)), (3000, 2), 0)
    kinds_of = observed.long().sum(1).bincount(minlength=3).tolist()
    assert kinds_of[0] == 0  # the part of weight 0
    assert kinds_of[2] == pytest.approx(1000, abs=5 * math.sqrt(3000 * 2 / 9))
    equal = drawn(mixture(*parts), (3000, 2), 0).long().sum(1).bincount(minlength=3)
    assert float((equal - 1000).abs().max()) < 5 * math.sqrt(3000 * 2 / 9)


@pytest.mark.parametrize(("height", "width"), [(4, 6), (5, 3), (1, 1)])
def test_halves(height: int, width: int) -> None:
    observed = drawn(halves((height, width)), (400, height * width), 0).view(400, height, width)
    left, upper = torch.zeros(2, height, width, dtype=torch.bool)
    left[:, : -(-width // 2)] = True
    upper[: -(-height // 2)] = True
    counts = [int((~observed == half).all((1, 2)).sum()) for half in (left, left.flip(1), upper, upper.flip(0))]
    if (height, width) == (1, 1):
        assert counts == [400] * 4
    else:
        assert sum(counts) == 400
        assert max(abs(count - 100) for count in counts) < 5 * math.sqrt(75)
    assert torch.equal(drawn(halves(), (4, 2, 2), 3), drawn(halves((2, 2)), (4, 4), 3).view(4, 2, 2))
    with pytest.raises(InputError, match="halves need image_shape"):
        drawn(halves(), (4, 6), 0)


def test_a_mixture_by_its_name() -> None:
    shape = (600, 12)
    named = drawn(parse("2*uniform:0.1+patches:2+halves", (3, 4)), shape, 1)
    made = drawn(mixture(uniform(0.1), patches(2, 1, (3, 4)), halves((3, 4)), weights=(2, 1, 1)), shape, 1)
    assert torch.equal(named, made)
    for text in ("two*uniform+patches", "uniform+some", "uniform+", "+", "-1*uniform+patches"):
        with pytest.raises(InputError):
            parse(text, (3, 4))


def test_truth_goes_along_with_drawn_masks() -> None:
    truth = torch.ones(3, 2, 2)
    query = uniform()(torch.zeros(3, 2, 2), rng(0), truth)
    assert query.truth is truth
    assert query.given_truth is truth
    assert query.given_target is None


def test_drawn_queries_train_a_model() -> None:
    model = randomise(build("RBM"), 0)
    assert model.loss(uniform(0.5)(torch.ones(8, 4), rng(0))).isfinite()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uniform(1.5), "p_target must be a probability, not 1.5"),
        (lambda: uniform(-0.1), "p_target must be a probability"),
        (lambda: uniform(math.nan), "p_target must be a probability"),
        (lambda: patches(0), "a size and a count of at least 1, not 0 and 1"),
        (lambda: patches(2, 0), "a size and a count of at least 1"),
        (lambda: patches(4).draw((2, 3, 5)), "a patch of 4 pixels does not fit into an image of 3×5"),
        (lambda: patches(2).draw((2, 9)), r"patches and halves need image_shape=\(height, width\)"),
        (lambda: patches(2, 1, (3, 3)).draw((2, 8)), "3×3 does not have the 8 variables"),
        (lambda: fixed(torch.ones(3)).draw((2, 4)), r"the fixed mask \[3\] does not fit data of shape \[2, 4\]"),
        (lambda: fixed(torch.full((4,), 2.0))(torch.zeros(2, 4)), r"a weight in \[0, 1\], but it holds 2"),
        (lambda: mixture(), "one weight ≥ 0 for each of its parts"),
        (lambda: mixture(uniform(), weights=(1, 2)), "one weight ≥ 0 for each of its parts"),
        (lambda: mixture(uniform(), one_target(), weights=(1, -1)), "one weight ≥ 0"),
        (lambda: mixture(uniform(), weights=(0,)), "one weight ≥ 0"),
        (lambda: mixture(uniform(), one_target(), weights=(math.nan, 1)), "one weight ≥ 0"),
    ],
)
def test_distributions_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
