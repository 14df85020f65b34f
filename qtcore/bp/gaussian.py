"""Belief propagation between Gaussian visible and binary hidden variables (supplement, "Gaussian restricted
Boltzmann machine (GRBM)").

Messages to a visible variable are Gaussians in natural parameters (θ1, θ2) = (μ/s², −1/(2s²)), kept here as the
pair (linear, precision) = (θ1, −2·θ2); messages to a hidden unit are logits. The belief at a pixel is projected on a
Gaussian by matching moments, as in expectation propagation.

With p = σ(cavity logit + incoming message), the supplement's moments of the two-component mixture
(1−p)·N(μ, s²) + p·N(μ + s²w, s²) are μ_B = μ + p s² w and σ_B² = s² + p(1−p) s⁴ w², so that the message "belief divided
by cavity" is rational in p:  linear = p w (1 − (1−p) μ w)/(1+k),  precision = −p(1−p) w²/(1+k),  k = p(1−p) s² w².
"""

from typing import NamedTuple

import torch
from torch import Tensor

from qtcore.bp import native
from qtcore.bp.compact import compact
from qtcore.bp.compiled import compiled as torch_compiled

EPSILON = 1e-3
"""Variance with which a certain reading is taken (ε in the supplement)."""

MIN_PRECISION = 1e-3
"""Messages take precision away from a pixel, so that with large weights nothing, or less, may be left: floor it here."""


class Evidence(NamedTuple):
    """Unary terms of the visible variables, and which of them are certain; all [B, V].

    A certain pixel (weight 1) sends N(v, ε) at every layer and receives nothing.
    """

    linear: Tensor
    precision: Tensor
    certain: Tensor


class Messages(NamedTuple):
    """Logits to the hidden units; linear and precision parts to the visible variables; all [B, H, V]."""

    to_hidden: Tensor
    linear: Tensor
    precision: Tensor


def evidence(values: Tensor, weight: Tensor, b: Tensor, sigma: Tensor) -> Evidence:
    """u_V in natural parameters: N(v, 1/λ) with λ = w/(1−w+ε) times the prior N(b, σ²) to the power 1−w."""
    values = torch.where(weight > 0, values, 0)
    reading = weight / (1 - weight + EPSILON)
    prior = (1 - weight) / sigma**2
    return Evidence(reading * values + prior * b, reading + prior, weight == 1)


def initial(W: Tensor, given: Evidence) -> Messages:
    """Logits start at 0; messages to the visible variables at (θ1, θ2) = (0, −½), but a certain pixel receives nothing."""
    zeros = W.new_zeros(len(given.linear), *W.shape[-2:])
    return Messages(zeros, zeros, (~given.certain).to(W.dtype)[:, None, :].expand_as(zeros))


def floor(precision: Tensor) -> tuple[Tensor, Tensor]:
    """A precision no smaller than the floor, and where it had to be raised."""
    return precision.clamp_min(MIN_PRECISION), precision < MIN_PRECISION


def layer(
    messages: Messages, W: Tensor, c: Tensor, given: Evidence, damping: float = 0.0, sequential: bool = True
) -> tuple[Messages, Tensor]:
    """One update of all messages, and how many cavities had to be floored, per sample [B].

    `sequential`: first to the hidden units, then back with the fresh messages (the authors' code); otherwise both
    from the layer before (the printed equations). Both use the same cavities at the visible variables.
    """
    certain = given.certain[:, None, :]
    total_linear, total_precision = _totals(messages, given)
    linear = total_linear[:, None, :] - messages.linear
    precision, floored = floor(total_precision[:, None, :] - messages.precision)
    mean, variance = linear / precision, 1 / precision
    fresh = mean * W + variance * W**2 / 2  # f_w: what the cavity N(μ, s²) says about the hidden unit
    to_hidden = torch.lerp(fresh, messages.to_hidden, damping) if damping else fresh
    used = to_hidden if sequential else messages.to_hidden
    logit = (c + used.sum(2))[:, :, None] - used + fresh
    p, not_p = torch.sigmoid(logit), torch.sigmoid(-logit)
    spread = p * not_p * W**2
    shrink = 1 / (1 + spread * variance)
    new_linear = torch.where(certain, 0, p * W * (1 - not_p * mean * W) * shrink)
    new_precision = torch.where(certain, 0, -spread * shrink)
    if damping:
        new_linear = torch.lerp(new_linear, messages.linear, damping)
        new_precision = torch.lerp(new_precision, messages.precision, damping)
    return Messages(to_hidden, new_linear, new_precision), floored.sum((1, 2))


def _totals(messages: Messages, given: Evidence) -> tuple[Tensor, Tensor]:
    """Linear and precision parts of the visible beliefs [B, V]."""
    return given.linear + messages.linear.sum(1), given.precision + messages.precision.sum(1)


def beliefs(messages: Messages, c: Tensor, given: Evidence) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and standard deviation of the visibles [B, V], logits of the hidden [B, H], number of floored pixels [B]."""
    linear, precision = _totals(messages, given)
    return *moments(linear, precision), c + messages.to_hidden.sum(2), floor(precision)[1].sum(1)


def moments(linear: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation from natural parameters."""
    precision = floor(precision)[0]
    return linear / precision, precision.rsqrt()


def visible_beliefs(W: Tensor, c: Tensor, given: Evidence, n_layers: int, compiled: bool = False) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the visibles [B, V] after N ≥ 1 layers, sequential and without damping.

    Certain pixels need no messages at all: what they say to a hidden unit, Σ v·w + ½ε·w², is one matrix product.
    `compiled` uses machine code where it can.
    """
    places = compact(~given.certain)
    values = torch.where(given.certain, given.linear * EPSILON, 0)
    hidden_bias = c + values @ W.T + EPSILON / 2 * (given.certain.to(W.dtype) @ (W**2).T)
    linear, precision = places.gather(given.linear), places.gather(given.precision)
    if linear.shape[1] == 0:
        return moments(given.linear, given.precision)
    if compiled and native.can(W):
        rows = native.pad(W.T), native.pad(hidden_bias), linear.contiguous(), precision.contiguous()
        totals = native.GaussianLayers.apply(*rows, places.index, places.count, W.shape[0], n_layers, MIN_PRECISION)[:2]
    else:
        part = Evidence(linear, precision, torch.zeros_like(linear, dtype=torch.bool))
        weights = places.columns(W)
        messages = initial(weights, part)
        one = torch_compiled(layer) if compiled else layer
        for _ in range(n_layers):
            messages, _ = one(messages, weights, hidden_bias, part)
        totals = _totals(messages, part)
    return moments(places.put(given.linear, totals[0]), places.put(given.precision, totals[1]))


class Watched(NamedTuple):
    """What is seen of N layers from outside, after each of them."""

    mean: Tensor  # [B, N, V]
    deviation: Tensor  # [B, N, V]
    hidden: Tensor  # logits [B, N, H]
    residual: Tensor  # [B, N]


def watch(W: Tensor, c: Tensor, given: Evidence, n_layers: int) -> Watched | None:
    """N ≥ 1 layers, sequential and without damping, by machine code; None where there is none.

    A certain pixel's messages come up once, in the first layer, and never change again.
    """
    if not native.can(W):
        return None
    places = compact(~given.certain)
    values = torch.where(given.certain, given.linear * EPSILON, 0)
    says = values[:, None, :] * W + EPSILON / 2 * W**2 * given.certain[:, None, :]  # to the hidden units [B, H, V]
    hidden_bias = c + says.sum(2)
    linear, precision = places.gather(given.linear), places.gather(given.precision)
    rows = native.pad(W.T), native.pad(hidden_bias), linear.contiguous(), precision.contiguous()
    totals, hidden, residual = native.watch_gaussian(*rows, places.index, places.count, W.shape[0], n_layers, MIN_PRECISION)
    residual[:, 0] = residual[:, 0].maximum(says.abs().amax((1, 2)))
    all_linear = torch.stack([places.put(given.linear, part) for part in totals[:, :, 0].unbind(1)], 1)
    all_precision = torch.stack([places.put(given.precision, part) for part in totals[:, :, 1].unbind(1)], 1)
    return Watched(*moments(all_linear, all_precision), hidden, residual)


def unary_beliefs(c: Tensor, given: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """Beliefs before any message: the unaries alone."""
    batch = len(given.linear)
    return *moments(given.linear, given.precision), c.expand(batch, -1)


def residual(new: Messages, old: Messages) -> Tensor:
    """The largest change of a logit or of a natural parameter (θ1, θ2), per sample [B]."""
    changes = [(after - before).abs().amax((1, 2)) for after, before in zip(new, old, strict=True)]
    return torch.stack([changes[0], changes[1], changes[2] / 2]).amax(0)
