"""The trivial predictors against loops over torch's own distributions."""

import math

import pytest
import torch

from qtcore.errors import InputError
from qtcore.paper.baselines import per_image_gaussian, random_guess_iou


def test_per_image_gaussian() -> None:
    generator = torch.Generator().manual_seed(0)
    values = 2 * torch.randn(6, 40, generator=generator) + 1
    target = torch.rand(6, 40, generator=generator) < 0.3
    scores = per_image_gaussian(values, target)
    for row, mask, score in zip(values.double(), target, scores, strict=True):
        seen = row[~mask]
        normal = torch.distributions.Normal(seen.mean(), seen.std(unbiased=False))
        nats = -normal.log_prob(row[mask]).mean()
        assert score.item() == pytest.approx(nats.item() / math.log(2), rel=1e-12)


def test_unit_gaussian_costs_its_entropy() -> None:
    values = torch.randn(200, 2000, generator=torch.Generator().manual_seed(1))
    target = torch.rand(200, 2000, generator=torch.Generator().manual_seed(2)) < 0.5
    entropy = 0.5 * math.log2(2 * math.pi * math.e)
    assert per_image_gaussian(values, target).mean().item() == pytest.approx(entropy, abs=0.01)


@pytest.mark.parametrize(
    "target",
    [torch.zeros(2, 5, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool), torch.zeros(2, 5), torch.ones(5).bool()],
)
def test_queries_that_cannot_be_scored_are_refused(target: torch.Tensor) -> None:
    with pytest.raises(InputError):
        per_image_gaussian(torch.randn(2, 5), target)


def test_random_guess_iou() -> None:
    """A foreground of share f is hit by half, and half of the rest is hit wrongly: f/2 over f + (1 - f)/2."""
    labels = torch.ones(400, 30, 30, dtype=torch.uint8)
    labels[:, :10] = 0
    labels[:, 10:15] = 2
    f = 0.5
    result = random_guess_iou(labels, out=1)
    assert result.shape == (400,)
    assert result.mean().item() == pytest.approx(f / 2 / (f + (1 - f) / 2), abs=0.003)
    assert random_guess_iou(torch.zeros(50, 30, 30), out=1).mean().item() == pytest.approx(0.5, abs=0.01)
    assert random_guess_iou(torch.ones(50, 30, 30), out=1).max().item() == 0
    assert torch.equal(result, random_guess_iou(labels, out=1))
    assert not torch.equal(result, random_guess_iou(labels, out=1, seed=1))
