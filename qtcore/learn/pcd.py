"""Persistent contrastive divergence, the paper's classical baseline for the RBM, by scikit-learn's BernoulliRBM.

As in the paper: the whole training set is one batch, 1000 iterations, rates {0.03, 0.1, 0.3, 1, 3}; every 20 iterations the
weights are scored on validation data by our belief propagation at T = 1, and the best are kept (early stopping).
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from qtcore.learn.query_training import VALID, generator
from qtcore.metrics import BITS, score
from qtcore.models.rbm import RBM
from qtcore.query import uniform

if TYPE_CHECKING:
    from sklearn.neural_network import BernoulliRBM

RATES = (0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Result:
    """The best RBM of a run and the history of its validation NCE in bits: (iteration, NCE)."""

    model: RBM
    valid: float
    history: tuple[tuple[int, float], ...]


def to_rbm(machine: "BernoulliRBM", n_layers: int = 10) -> RBM:
    """Our RBM with scikit-learn's weights, which are in the textbook parametrisation."""
    W, b_v, b_h = (
        torch.as_tensor(np.asarray(array, dtype=np.float32))
        for array in (machine.components_, machine.intercept_visible_, machine.intercept_hidden_)
    )
    return RBM.from_textbook(W, b_v, b_h, n_layers=n_layers)


def train(
    values: Tensor,
    valid: Tensor,
    n_hidden: int,
    rate: float,
    iterations: int = 1000,
    every: int = 20,
    seed: int = 0,
    n_layers: int = 10,
) -> Result:
    """Train by PCD with one rate; keep the model with the best validation NCE under belief propagation."""
    from sklearn.neural_network import BernoulliRBM  # slow to import

    machine = BernoulliRBM(n_components=n_hidden, learning_rate=rate, batch_size=len(values), random_state=seed)
    data = values.numpy()
    best: RBM | None = None
    best_nce = float("inf")
    history = []
    for iteration in tqdm(range(1, iterations + 1), desc=f"PCD {rate:g}", disable=not sys.stderr.isatty(), leave=False):
        machine.partial_fit(data)
        if iteration % every and iteration != iterations:
            continue
        model = to_rbm(machine, n_layers)
        if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
            break  # this rate is too large
        nce = score(model, valid, uniform(), generator(VALID)).mean * BITS
        history.append((iteration, nce))
        if nce < best_nce:
            best, best_nce = model, nce
    if best is None:
        raise ValueError(f"PCD with the rate {rate:g} gave no finite weights.")
    return Result(best, best_nce, tuple(history))


def select(
    values: Tensor, valid: Tensor, n_hidden: int, rates: tuple[float, ...] = RATES, **options: int
) -> tuple[float, Result]:
    """The best of several rates by validation NCE."""
    results = {rate: train(values, valid, n_hidden, rate, **options) for rate in rates}
    rate = min(results, key=lambda rate: results[rate].valid)
    return rate, results[rate]
