"""Belief propagation between Gaussian visible and binary hidden variables (supplement, "Gaussian restricted
Boltzmann machine (GRBM)").

Messages to a visible variable are Gaussians in natural parameters (θ1, θ2) = (μ/s², −1/(2s²)), kept here as the
pair (linear, precision) = (θ1, −2·θ2); messages to a hidden unit are logits. The belief at a pixel is projected on a
Gaussian by matching moments, as in expectation propagation.

With p = σ(cavity logit + incoming message), the supplement's moments of the two-component mixture
(1−p)·N(μ, s²) + p·N(μ + s²w, s²) are μ_B = μ + p s² w and σ_B² = s² + p(1−p) s⁴ w², so that the message "belief divided
by cavity" is rational in p:  linear = p w (1 − (1−p) μ w)/(1+k),  precision = −p(1−p) w²/(1+k),  k = p(1−p) s² w².
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Normal

from qtcore import kernels
from qtcore.errors import NotFiniteError
from qtcore.evidence import EPSILON, GaussianEvidence
from qtcore.inference.bp.compact import Compact, compact
from qtcore.inference.bp.passing import Choices, Passing, check_finite, damp
from qtcore.inference.bp.torch_compile import with_torch_compile
from qtcore.inference.engine import Layer
from qtcore.potentials import GaussianPotentials

MIN_PRECISION = 1e-3
"""Messages subtract precision from a pixel, and large weights can leave none or a negative one: it is floored here."""


class Messages(NamedTuple):
    """Logits to the hidden units; linear and precision parts to the visible variables; all [B, H, V]."""

    to_hidden: Tensor
    linear: Tensor
    precision: Tensor


def initial(W: Tensor, evidence: GaussianEvidence) -> Messages:
    """Logits start at 0, messages to the visible variables at (θ1, θ2) = (0, −½); a clamped pixel receives nothing."""
    zeros = W.new_zeros(len(evidence.linear), *W.shape[-2:])
    return Messages(zeros, zeros, (~evidence.clamped).to(W.dtype)[:, None, :].expand_as(zeros))


def floor(precision: Tensor) -> tuple[Tensor, Tensor]:
    """The precision, floored, and where it had to be raised."""
    return precision.clamp_min(MIN_PRECISION), precision < MIN_PRECISION


def layer(
    messages: Messages, W: Tensor, c: Tensor, evidence: GaussianEvidence, damping: float = 0.0, sequential: bool = True
) -> tuple[Messages, Tensor]:
    """One update of all messages, and the number of floored cavities per sample [B].

    `sequential`: first to the hidden units, then back with the new messages (the authors' code); otherwise both from the
    previous layer (the printed equations). Both use the same cavities at the visible variables.
    """
    clamped = evidence.clamped[:, None, :]
    total_linear, total_precision = _totals(messages, evidence)
    linear = total_linear[:, None, :] - messages.linear
    precision, floored = floor(total_precision[:, None, :] - messages.precision)
    mean, variance = linear / precision, 1 / precision
    fresh = mean * W + variance * W**2 / 2  # f_w: the message from the cavity N(μ, s²) to the hidden unit
    to_hidden = damp(fresh, messages.to_hidden, damping)
    used = to_hidden if sequential else messages.to_hidden
    logit = (c + used.sum(2))[:, :, None] - used + fresh
    p, not_p = torch.sigmoid(logit), torch.sigmoid(-logit)
    spread = p * not_p * W**2
    shrink = 1 / (1 + spread * variance)
    new_linear = torch.where(clamped, 0, p * W * (1 - not_p * mean * W) * shrink)
    new_precision = torch.where(clamped, 0, -spread * shrink)
    new_linear = damp(new_linear, messages.linear, damping)
    new_precision = damp(new_precision, messages.precision, damping)
    return Messages(to_hidden, new_linear, new_precision), floored.sum((1, 2))


def _totals(messages: Messages, evidence: GaussianEvidence) -> tuple[Tensor, Tensor]:
    """Linear and precision parts of the visible beliefs [B, V]."""
    return evidence.linear + messages.linear.sum(1), evidence.precision + messages.precision.sum(1)


def beliefs(messages: Messages, c: Tensor, evidence: GaussianEvidence) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and deviation of the visible [B, V], logits of the hidden variables [B, H], number of floored pixels [B]."""
    linear, precision = _totals(messages, evidence)
    return *moments(linear, precision), c + messages.to_hidden.sum(2), floor(precision)[1].sum(1)


def moments(linear: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation from natural parameters."""
    precision = floor(precision)[0]
    return linear / precision, precision.rsqrt()


class _Reduced(NamedTuple):
    """A query without its clamped pixels, which need no messages."""

    places: Compact
    hidden_bias: Tensor
    """The bias of each hidden unit plus the messages from clamped pixels [B, H]: c + Σ v·w + ½ε·w²."""
    linear: Tensor
    precision: Tensor


def _without_clamped(W: Tensor, c: Tensor, evidence: GaussianEvidence) -> _Reduced:
    places = compact(~evidence.clamped)
    values = torch.where(evidence.clamped, evidence.linear * EPSILON, 0)
    hidden_bias = c + values @ W.T + EPSILON / 2 * (evidence.clamped.to(W.dtype) @ (W**2).T)
    return _Reduced(places, hidden_bias, places.gather(evidence.linear), places.gather(evidence.precision))


def visible_beliefs(
    W: Tensor, c: Tensor, evidence: GaussianEvidence, n_layers: int, torch_compile: bool = False
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the visible variables [B, V] after N ≥ 1 layers, sequential and without damping."""
    places, hidden_bias, linear, precision = _without_clamped(W, c, evidence)
    if linear.shape[1] == 0:
        return moments(evidence.linear, evidence.precision)
    totals: Any
    if kernels.usable(W, hidden_bias, linear, precision):
        rows = W.T, hidden_bias, linear, precision, places.index, places.count
        totals = kernels.gaussian_layers(*rows, n_layers, MIN_PRECISION)[:2]
    else:
        part = GaussianEvidence(linear, precision, torch.zeros_like(linear, dtype=torch.bool))
        weights = places.columns(W)
        messages = initial(weights, part)
        one = with_torch_compile(layer) if torch_compile else layer
        for _ in range(n_layers):
            messages, _ = one(messages, weights, hidden_bias, part)
        totals = _totals(messages, part)
    return moments(places.put(evidence.linear, totals[0]), places.put(evidence.precision, totals[1]))


class Trace(NamedTuple):
    """The beliefs and the residual after each of N layers."""

    mean: Tensor  # [B, N, V]
    deviation: Tensor  # [B, N, V]
    hidden: Tensor  # logits [B, N, H]
    residual: Tensor  # [B, N]


def native_trace(W: Tensor, c: Tensor, evidence: GaussianEvidence, n_layers: int) -> Trace:
    """N ≥ 1 layers, sequential and without damping, by the native kernel.

    A clamped pixel's messages change once, in the first layer, and stay constant from then on.
    """
    places, hidden_bias, linear, precision = _without_clamped(W, c, evidence)
    rows = W.T, hidden_bias, linear, precision, places.index, places.count
    totals, hidden, residual = kernels.gaussian_trace(*rows, n_layers, MIN_PRECISION)
    values = torch.where(evidence.clamped, evidence.linear * EPSILON, 0)
    first = values[:, None, :] * W + EPSILON / 2 * W**2 * evidence.clamped[:, None, :]  # to the hidden units [B, H, V]
    residual[:, 0] = residual[:, 0].maximum(first.abs().amax((1, 2)))
    all_linear = torch.stack([places.put(evidence.linear, part) for part in totals[:, :, 0].unbind(1)], 1)
    all_precision = torch.stack([places.put(evidence.precision, part) for part in totals[:, :, 1].unbind(1)], 1)
    return Trace(*moments(all_linear, all_precision), hidden, residual)


def unary_beliefs(c: Tensor, evidence: GaussianEvidence) -> tuple[Tensor, Tensor, Tensor]:
    """Beliefs before any message: the unaries only."""
    batch = len(evidence.linear)
    return *moments(evidence.linear, evidence.precision), c.expand(batch, -1)


def residual(new: Messages, old: Messages) -> Tensor:
    """The largest change of a logit or of a natural parameter (θ1, θ2), per sample [B]."""
    changes = [(after - before).abs().amax((1, 2)) for after, before in zip(new, old, strict=True)]
    return torch.stack([changes[0], changes[1], changes[2] / 2]).amax(0)


class Sent(NamedTuple):
    """The messages and the index of their layer."""

    messages: Messages
    layer: int


class GaussianPassing(Passing):
    """Messages of a Gaussian RBM."""

    schedules = ("sequential", "flooding")
    has_unit = False

    def __init__(self, potentials: GaussianPotentials, evidence: GaussianEvidence, choices: Choices) -> None:
        self.W, self.c, self.evidence, self.choices = potentials.W, potentials.c, evidence, choices
        self.sequential = choices.schedule == "sequential"

    def initial(self) -> Sent:
        return Sent(initial(self.W, self.evidence), 0)

    def update(self, state: Sent) -> tuple[Sent, dict[str, Tensor]]:
        index = state.layer + 1
        messages, floored = layer(state.messages, self.W, self.c, self.evidence, self.choices.damping, self.sequential)
        for name, tensor in messages._asdict().items():
            check_finite(self.choices.owner, f"the message {name!r}", index, tensor)
        precision = _totals(messages, self.evidence)[1]
        info = {"floored": floored + floor(precision)[1].sum(1), "residual": residual(messages, state.messages)}
        return Sent(messages, index), info

    def answers(self, state: Sent) -> tuple[Distribution, Distribution]:
        if state.layer == 0:  # before any message was sent
            mean, deviation, hidden = unary_beliefs(self.c, self.evidence)
        else:
            mean, deviation, hidden, _ = beliefs(state.messages, self.c, self.evidence)
            check_finite(self.choices.owner, "the mean of a pixel", state.layer, mean, deviation)
            check_finite(self.choices.owner, "the logit of a hidden unit", state.layer, hidden)
        return _answers(mean, deviation, hidden)

    def shown(self, state: Sent) -> dict[str, Tensor]:
        to_hidden, linear, precision = state.messages
        return {"to_hidden": to_hidden, "theta_1": linear, "theta_2": -precision / 2}

    def before(self) -> dict[str, Tensor]:
        zeros = self.evidence.linear.new_zeros(len(self.evidence.linear))
        return {"residual": zeros, "floored": zeros.long()}

    @staticmethod
    def kept_bytes(potentials: GaussianPotentials, shape: tuple[int, ...], n_layers: int, damped: bool = False) -> int:
        W = potentials.W
        (H, V), padded = W.shape, W.shape[0] + -W.shape[0] % 8  # the kernel works on whole vectors
        native = 3 * V * padded if damped else H + 2 * V
        kept = native if kernels.usable(W) else 16 * W.numel()
        return n_layers * kept * W.dtype.itemsize

    def after(self, n_layers: int) -> Distribution:
        damped = n_layers > 0 and self.choices.damping and self._native()
        if not damped and (n_layers == 0 or self.choices.damping or not self.sequential):
            return self._after_plain_layers(n_layers)
        if damped:
            totals = kernels.gaussian_damped(*self._all_pixels(), n_layers, self.choices.damping, MIN_PRECISION)
            mean, deviation = moments(*totals)
        else:
            mean, deviation = visible_beliefs(self.W, self.c, self.evidence, n_layers, self.choices.torch_compile)
        check_finite(self.choices.owner, "the mean of a pixel", n_layers, mean, deviation)
        return Normal(mean, deviation, validate_args=False)

    def _after_plain_layers(self, n_layers: int) -> Distribution:
        """Looked at once, in the end: to read a number in every layer would keep a device waiting."""
        messages = self.initial().messages
        for _ in range(n_layers):
            messages, _ = layer(messages, self.W, self.c, self.evidence, self.choices.damping, self.sequential)
        try:
            return self.answers(Sent(messages, n_layers))[0]
        except NotFiniteError:
            return super().after(n_layers)  # it names the layer where that began

    def after_each(self, depths: Sequence[int]) -> list[Distribution]:
        """Each depth by itself where there is a kernel: that takes less time than to keep the messages in torch."""
        return [self.after(depth) for depth in depths] if self._native() else super().after_each(depths)

    def _native(self) -> bool:
        return self.sequential and kernels.usable(self.W, self.c, self.evidence.linear)

    def _all_pixels(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What the kernel of damped layers takes."""
        return self.W.T, self.c, self.evidence.linear, self.evidence.precision, (~self.evidence.clamped).to(self.W.dtype)

    def trace(self, n_layers: int) -> Iterator[Layer] | None:
        return self._trace(n_layers) if n_layers > 0 and self._native() else None

    @torch.no_grad()
    def _trace(self, n_layers: int) -> Iterator[Layer]:
        if self.choices.damping:
            settings = n_layers, self.choices.damping, MIN_PRECISION
            totals, hidden, residual = kernels.gaussian_damped_trace(*self._all_pixels(), *settings)
            trace = Trace(*moments(totals[:, :, 0], totals[:, :, 1]), hidden, residual)
        else:
            trace = native_trace(self.W, self.c, self.evidence, n_layers)
        yield Layer(0, *_answers(*unary_beliefs(self.c, self.evidence)), torch.zeros_like(trace.residual[:, 0]), {})
        for k in range(n_layers):
            check_finite(self.choices.owner, "the mean of a pixel", k + 1, trace.mean[:, k], trace.deviation[:, k])
            answers = _answers(trace.mean[:, k], trace.deviation[:, k], trace.hidden[:, k])
            yield Layer(k + 1, *answers, trace.residual[:, k], {})


def _answers(mean: Tensor, deviation: Tensor, hidden: Tensor) -> tuple[Distribution, Distribution]:
    return Normal(mean, deviation, validate_args=False), Bernoulli(logits=hidden, validate_args=False)
