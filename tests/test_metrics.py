"""NCE and IoU, against sums done by hand."""

import math

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Normal

from qtcore import RBM, GaussianRBM, Query
from qtcore.errors import InputError
from qtcore.metrics import BITS, Score, batches, calibration, force_frame, iou, nce, score
from qtcore.query import fixed, uniform

from .strategies import F64, build, close, normal, rng


def rbm_by_hand(model: RBM, query: Query) -> list[list[float]]:
    """Nats of every target, sample by sample; a target may be a fraction."""
    p = model(query).probs.tolist()
    return [
        [
            -(query.values[i, j] * math.log(p[i][j]) + (1 - query.values[i, j]) * math.log(1 - p[i][j])).item()
            for j in range(query.shape[1])
            if query.target[i, j]
        ]
        for i in range(len(query))
    ]


@pytest.fixture
def rbm() -> RBM:
    model: RBM = build("RBM", scale=0.5)
    return model


@pytest.fixture
def values() -> torch.Tensor:
    return torch.rand(9, 4, generator=rng(1), dtype=F64)


def test_nce_is_in_bits_per_target(rbm: RBM, values: torch.Tensor) -> None:
    query = uniform(0.5)(values, rng(2))
    losses = rbm_by_hand(rbm, query)
    flat = [nats for sample in losses for nats in sample]
    assert nce(rbm, query) == pytest.approx(sum(flat) / len(flat) / math.log(2))
    each = [sum(sample) / len(sample) for sample in losses if sample]
    assert nce(rbm, query, per_image=True) == pytest.approx(sum(each) / len(each) / math.log(2))
    assert nce(rbm, query) != pytest.approx(nce(rbm, query, per_image=True))
    assert pytest.approx(1 / math.log(2)) == BITS


def test_a_fair_coin_has_one_bit() -> None:
    model = RBM(3, 2)
    with torch.no_grad():
        model.W.zero_()
    assert nce(model, fixed(torch.zeros(3, dtype=torch.bool))(torch.ones(5, 3))) == pytest.approx(1.0)


def test_layers_are_passed_on(rbm: RBM, values: torch.Tensor) -> None:
    query = uniform(0.5)(values, rng(2))
    shallow = build("RBM", scale=0.5, n_layers=1)
    assert nce(rbm, query, n_layers=1) == nce(shallow, query) != nce(rbm, query)


@pytest.mark.parametrize("batch", [1, 2, 4, 500])
def test_score_is_the_ratio_of_sums_whatever_the_batch(batch: int, rbm: RBM, values: torch.Tensor) -> None:
    mask = torch.tensor([True, False, True, False])
    losses = rbm_by_hand(rbm, fixed(mask)(values))
    result = score(rbm, values, fixed(mask), rng(0), batch=batch)
    each = [sum(sample) / 2 for sample in losses]
    mean = sum(each) / 9
    assert result.mean == pytest.approx(mean)
    assert result.count == 9
    # With equally many targets in all samples, the error is that of a mean (of the biased variance).
    assert result.error == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in each)) / 9)
    images = score(rbm, values, fixed(mask), rng(0), per_image=True, batch=batch)
    assert images.mean == pytest.approx(mean)
    assert images.error == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in each) / 8 / 9))


def test_score_with_unequal_numbers_of_targets(rbm: RBM, values: torch.Tensor) -> None:
    losses = [sample for sample in rbm_by_hand(rbm, uniform(0.2)(values, rng(6))) if sample]
    flat = [nats for sample in losses for nats in sample]
    result = score(rbm, values, uniform(0.2), rng(6))
    mean = sum(flat) / len(flat)
    assert result.mean == pytest.approx(mean)
    assert result.count == len(losses) < 9  # samples without a target do not count
    error = math.sqrt(sum((sum(sample) - mean * len(sample)) ** 2 for sample in losses)) / len(flat)
    assert result.error == pytest.approx(error)
    images = score(rbm, values, uniform(0.2), rng(6), per_image=True)
    assert images.mean == pytest.approx(sum(sum(sample) / len(sample) for sample in losses) / len(losses))


def test_the_error_of_a_score_is_the_spread_between_data(rbm: RBM) -> None:
    """Over many sets of data of the same size, scores spread by as much as each of them says."""
    data = torch.rand(200, 25, 4, generator=rng(0), dtype=F64).round()
    results = [score(rbm, part, uniform(), rng(i)) for i, part in enumerate(data)]
    spread = float(torch.tensor([x.mean for x in results]).std())
    assert sum(x.error for x in results) / len(results) == pytest.approx(spread, rel=0.15)


def test_batches_without_targets_are_left_out(rbm: RBM, values: torch.Tensor) -> None:
    result = score(rbm, values, uniform(0.1), rng(0), batch=1)
    assert 0 < result.count < 9
    with pytest.raises(InputError, match="nothing to score"):
        score(rbm, values, uniform(0.0), rng(0))


def test_gaussian_nce() -> None:
    model: GaussianRBM = build("GaussianRBM", scale=0.3)
    query = uniform(0.5)(normal(3, 6, 4), rng(1))
    p = model(query)
    nats = (query.values - p.mean) ** 2 / (2 * p.variance) + p.variance.log() / 2 + math.log(2 * math.pi) / 2
    assert nce(model, query) == pytest.approx(float(nats[query.target].detach().mean()) / math.log(2))


def test_a_score_of_numbers() -> None:
    assert Score.of(torch.tensor([1.0, 2.0, 6.0])) == Score(3.0, pytest.approx(math.sqrt(7 / 3)), 3)
    assert math.isnan(Score.of(torch.tensor([1.0])).error)


def test_one_sample_has_no_error(rbm: RBM, values: torch.Tensor) -> None:
    assert math.isnan(score(rbm, values[:1], fixed(torch.zeros(4, dtype=torch.bool)), rng(0)).error)
    assert math.isnan(score(rbm, values[:1], fixed(torch.zeros(4, dtype=torch.bool)), rng(0), per_image=True).error)


# ---------------------------------------------------------------------------------------------------------------------
# Images


def test_iou_by_hand() -> None:
    labels = torch.tensor([[[0, 1, 2]], [[1, 1, 1]], [[1, 1, 1]], [[0, 0, 2]]])
    p_out = torch.tensor([[[0.1, 0.2, 0.9]], [[0.9, 0.6, 0.7]], [[0.4, 0.9, 0.9]], [[0.4, 0.0, 0.499]]])
    # Foreground {0, 2} against {0, 1}: 1 of 3. Nothing against nothing: all right. Nothing against {0}: 0. All: 1.
    assert iou(labels, p_out).tolist() == pytest.approx([1 / 3, 1.0, 0.0, 1.0])
    assert iou(labels, torch.full(p_out.shape, 0.5)).tolist() == [0.0, 1.0, 1.0, 0.0]  # ½ is not foreground


def test_the_frame() -> None:
    p = torch.full((2, 4, 5, 3), 1 / 3)
    framed = force_frame(p)
    assert torch.equal(p, torch.full((2, 4, 5, 3), 1 / 3))
    inside = torch.zeros(4, 5, dtype=torch.bool)
    inside[1:3, 1:4] = True
    assert torch.equal(framed[:, inside], p[:, inside])
    assert torch.equal(framed[:, ~inside], torch.tensor([0.0, 1.0, 0.0]).expand(2, 14, 3))


def test_batches() -> None:
    values, truth = torch.arange(5), torch.arange(5) + 10
    assert [(v.tolist(), t.tolist()) for v, t in batches(values, truth, 2) if t is not None] == [
        ([0, 1], [10, 11]),
        ([2, 3], [12, 13]),
        ([4], [14]),
    ]
    assert [t for _, t in batches(values, None, 3)] == [None, None]


def test_calibration_by_hand() -> None:
    """Bernoulli: each probability in its tenth, soft truths count as they are; Categorical: each state is an event."""
    p = torch.tensor([[0.05, 0.08, 0.31, 0.95, 1.0]], dtype=F64)
    truth = torch.tensor([[0.0, 1.0, 0.5, 1.0, math.nan]], dtype=F64)
    target = torch.tensor([[True, True, True, True, False]])
    result = calibration([(Bernoulli(p), truth, target)])
    close(result.claimed, torch.tensor([0.065, 0.31, 0.95], dtype=F64))
    close(result.true, torch.tensor([0.5, 0.5, 1.0], dtype=F64))
    assert result.count.tolist() == [2, 1, 1]
    assert result.error == pytest.approx((2 * 0.435 + 0.19 + 0.05) / 4)
    states = Categorical(probs=torch.tensor([[[0.25, 0.75, 0.0], [0.2, 0.2, 0.6]]], dtype=F64))
    parts = [(states, torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]])), (Bernoulli(p), truth, target)]
    result = calibration(parts)
    assert result.count.tolist() == [2, 3, 1, 1, 1, 1]
    close(result.true[1], torch.tensor(1 / 3, dtype=F64))
    with pytest.raises(InputError, match="none of the queries has a target"):
        calibration([(Bernoulli(p), truth, torch.zeros_like(target))])


def test_calibration_of_what_is_right() -> None:
    """Truths drawn from the marginals themselves lie where these claim, and not where narrower ones do."""
    mean, deviation = normal(0, 20_000, 1), normal(1, 20_000, 1).exp()
    truth, everything = mean + deviation * normal(2, 20_000, 1), torch.ones(20_000, 1, dtype=torch.bool)
    result = calibration([(Normal(mean, deviation), truth, everything)])
    close(result.true, torch.tensor([0.5, 0.8, 0.95], dtype=F64), 0.015)
    assert result.error < 0.01
    assert calibration([(Normal(mean, deviation / 2), truth, everything)]).true[0] < 0.3
    p = torch.rand(20_000, 1, generator=rng(3), dtype=F64)
    drawn = torch.bernoulli(p, generator=rng(4))
    assert calibration([(Bernoulli(p), drawn, everything)]).error < 0.02
