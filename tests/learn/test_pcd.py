"""Persistent contrastive divergence: scikit-learn's weights in our belief propagation."""

import numpy as np
import pytest
import torch

from qtcore import exact
from qtcore.learn import pcd
from qtcore.metrics import nce
from qtcore.query import Query, uniform


def blocks(n: int, seed: int = 0) -> torch.Tensor:
    """Eight bits in two blocks, equal within a block but for 5 % of noise."""
    generator = torch.Generator().manual_seed(seed)
    each = (torch.rand(n, 2, generator=generator) < 0.5).float().repeat_interleave(4, 1)
    flip = torch.rand(n, 8, generator=generator) < 0.05
    return torch.where(flip, 1 - each, each)


def test_weights_mean_the_same_in_our_rbm() -> None:
    """p(h | v) of scikit-learn is that of our model: the textbook's weights were translated."""
    from sklearn.neural_network import BernoulliRBM  # slow to import, and nothing else here needs it

    machine = BernoulliRBM(n_components=3, batch_size=50, n_iter=3, random_state=0).fit(blocks(50).numpy())
    model = pcd.to_rbm(machine)
    rows = blocks(6, seed=1)
    expected = machine.transform(rows.numpy().astype(np.float64))
    result = exact.hidden_marginals(model, Query(rows, torch.ones(6, 8))).probs
    assert result.numpy() == pytest.approx(expected, abs=1e-5)


def test_learns_and_keeps_the_best_iteration() -> None:
    train, valid = blocks(400), blocks(200, seed=1)
    result = pcd.train(train, valid, n_hidden=4, rate=1.0, iterations=400, every=80, seed=0)
    steps, scores = zip(*result.history, strict=True)
    assert steps == (80, 160, 240, 320, 400)
    assert result.valid == min(scores) < 0.6
    query = uniform()(blocks(200, seed=2), torch.Generator().manual_seed(0))
    assert nce(result.model, query) == pytest.approx(result.valid, abs=0.05)


def test_the_rate_is_chosen_by_validation() -> None:
    train, valid = blocks(200), blocks(100, seed=1)
    rate, result = pcd.select(train, valid, 4, rates=(1e-4, 1.0), iterations=100, every=50)
    assert rate == 1.0
    assert result.valid < 0.8
