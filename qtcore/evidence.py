"""Soft evidence, defined once: the unary term that a reading of weight w gives a variable.

A reading of weight w in [0, 1] is right with probability w and carries no information otherwise. w = 0 is exactly
unobserved: the value is ignored and may be NaN. w = 1 with a hard value clamps the variable.
"""

from typing import NamedTuple

import torch
from torch import Tensor

HARD_LOGIT = 1000.0
"""The logit reported for a clamped variable (the paper clips there). The messages do not use it: what a clamped variable
sends is exactly ±w, however large the weights are."""

EPSILON = 1e-3
"""Variance of a clamped pixel (ε in the supplement)."""


class BinaryEvidence(NamedTuple):
    """Unary terms of the visible variables: `soft` logits [B, V], and `hard` ∈ {−1, 0, +1} [B, V], not 0 where clamped."""

    soft: Tensor
    hard: Tensor


class GaussianEvidence(NamedTuple):
    """Unary terms of the visible variables in natural parameters, and which of them are clamped; all [B, V].

    A clamped pixel (weight 1) sends N(v, ε) in every layer and receives nothing.
    """

    linear: Tensor
    precision: Tensor
    clamped: Tensor


def binary(values: Tensor, weight: Tensor) -> BinaryEvidence:
    """u_V: logit of φ(1) = w·v + (1−w)/2, and 0 where unobserved, whatever the value."""
    values = torch.where(weight > 0, values, 0.5)
    one = weight * values + (1 - weight) / 2
    zero = weight * (1 - values) + (1 - weight) / 2
    hard = (zero == 0).to(one.dtype) - (one == 0).to(one.dtype)
    free = hard == 0
    soft = torch.where(free, one, 0.5).log() - torch.where(free, zero, 0.5).log()
    return BinaryEvidence(soft.clamp(-HARD_LOGIT, HARD_LOGIT), hard)


def gaussian(values: Tensor, weight: Tensor, b: Tensor, sigma: Tensor) -> GaussianEvidence:
    """u_V in natural parameters: N(v, 1/λ) with λ = w/(1−w+ε) times the prior N(b, σ²) to the power 1−w."""
    values = torch.where(weight > 0, values, 0)
    reading = weight / (1 - weight + EPSILON)
    prior = (1 - weight) / sigma**2
    return GaussianEvidence(reading * values + prior * b, reading + prior, weight == 1)


def categorical(likelihood: Tensor, weight: Tensor, n_states: Tensor) -> Tensor:
    """u = log(w·likelihood + (1−w)/S) [..., S], and exactly 0 where w = 0 (constants do not matter).

    `likelihood` sums to 1 over the states.
    """
    weight = weight[..., None]
    mixed = weight * likelihood + (1 - weight) / n_states[..., None]
    positive = mixed > 0
    log = torch.where(positive, mixed, 1).log().masked_fill(~positive, -torch.inf)
    return torch.where(weight > 0, log, 0)


def pixel(values: Tensor, weight: Tensor, on: Tensor, off: Tensor) -> Tensor:
    """log of w·p(v | label) + (1−w)/2 for every label [..., labels]; exactly 0 where unobserved.

    `on` and `off` are the probabilities of the two readings given each label; a fractional v interpolates between them.
    """
    weight, value = weight[..., None], torch.where(weight > 0, values, 0.5)[..., None]
    reading = weight * (value * on + (1 - value) * off) + (1 - weight) / 2
    return torch.where(weight > 0, reading.log(), 0)
