"""The Gaussian restricted Boltzmann machine (supplement, "Gaussian restricted Boltzmann machine (GRBM)")."""

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal

from qtcore.bp import gaussian
from qtcore.errors import InputError
from qtcore.models.base import Layer, Model
from qtcore.models.rbm import positive
from qtcore.query import Query, has_values

INITIAL_WEIGHT = 0.05
"""Standard deviation of W at the start, as in the authors' code."""


class GaussianRBM(Model):
    """φ(v, h) = −‖v − b‖²/(2σ²) + cᵀh + hᵀWv/σ with real v and binary h.

    Stored tensors: `W` [H, V], `b` [V], `c` [H], and `sigma` (fixed, 1 by default).
    `schedule` is "sequential" (the authors' code: to the hidden units, then back) or "flooding" (as printed).

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.GaussianRBM(n_visible=6, n_hidden=3)
        >>> query = qtcore.Query(torch.randn(2, 6), torch.arange(6).expand(2, 6) < 4)
        >>> marginals = model(query)  # a torch.distributions.Normal
        >>> marginals.mean.shape, bool((marginals.stddev[:, 4:] > marginals.stddev[:, :4].max()).all())
        (torch.Size([2, 6]), True)
    """

    def __init__(
        self,
        n_visible: int,
        n_hidden: int,
        n_layers: int = 50,
        schedule: Literal["sequential", "flooding"] = "sequential",
        damping: float = 0.0,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n_layers, damping)
        positive("n_visible", n_visible)
        positive("n_hidden", n_hidden)
        if schedule not in ("sequential", "flooding"):
            raise InputError(f"schedule must be 'sequential' or 'flooding', not {schedule!r}.")
        self.schedule = schedule
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.W = nn.Parameter(INITIAL_WEIGHT * torch.randn(n_hidden, n_visible, **factory))
        self.b = nn.Parameter(torch.zeros(n_visible, **factory))
        self.c = nn.Parameter(torch.zeros(n_hidden, **factory))
        self.sigma = nn.Parameter(torch.tensor(1.0, **factory), requires_grad=False)

    def config(self) -> dict[str, Any]:
        n_hidden, n_visible = self.W.shape
        sizes = {"n_visible": n_visible, "n_hidden": n_hidden}
        return sizes | {"n_layers": self.n_layers, "schedule": self.schedule, "damping": self.damping}

    def _sample_shape(self) -> tuple[int | None, ...]:
        return (self.W.shape[1],)

    def kept_bytes(self, shape: tuple[int, ...], n_layers: int) -> int:
        kept = self.W.shape[0] + 2 * self.W.shape[1] if self.compiled else 16 * self.W.numel()
        return n_layers * kept * self.dtype.itemsize

    def _check_truth(self, query: Query) -> None:
        truth = query.truth
        self._range_error("truth", query.target & ~truth.isfinite(), truth, "finite where it is scored")

    def _prepare(self, query: Query) -> tuple[Tensor, Tensor, gaussian.Evidence]:
        """Weights in the unit σ, biases, evidence."""
        if has_values(self.sigma) and not 0 < (sigma := float(self.sigma.detach())) < float("inf"):
            raise InputError(f"sigma must be > 0, but it is {sigma:g}.")
        values, weight = query.values.to(self.W.dtype), query.observed.to(self.W.dtype)
        return self.W / self.sigma, self.c, gaussian.evidence(values, weight, self.b, self.sigma)

    def forward(self, query: Query, n_layers: int | None = None) -> Normal:
        """Marginals of the visible variables, Normal [B, V]."""
        self._check(query)
        W, c, given = self._prepare(query)
        count = self._layer_count(n_layers)
        if count == 0:
            return Normal(*gaussian.unary_beliefs(c, given)[:2], validate_args=False)
        if self.schedule == "sequential" and not self.damping:
            mean, deviation = gaussian.visible_beliefs(W, c, given, count, self.compiled)
        else:
            messages = gaussian.initial(W, given)
            for _ in range(count):
                messages, _floored = gaussian.layer(messages, W, c, given, self.damping, self.schedule == "sequential")
            mean, deviation = gaussian.beliefs(messages, c, given)[:2]
        self._finite("the mean of a pixel", count, mean, deviation)
        return Normal(mean, deviation, validate_args=False)

    def layers(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        self._check(query)
        W, c, given = self._prepare(query)
        messages = gaussian.initial(W, given)
        zeros = messages.linear.new_zeros(len(query))
        mean, deviation, hidden = gaussian.unary_beliefs(c, given)
        info = {"floored": torch.zeros(len(query), dtype=torch.long, device=zeros.device)}
        yield self._layer(0, mean, deviation, hidden, zeros, messages, info)
        for index in range(1, self._layer_count(n) + 1):
            old = messages
            messages, floored = gaussian.layer(messages, W, c, given, self.damping, self.schedule == "sequential")
            for name, tensor in messages._asdict().items():
                self._finite(f"the message {name!r}", index, tensor)
            mean, deviation, hidden, floored_beliefs = gaussian.beliefs(messages, c, given)
            self._finite("the mean of a pixel", index, mean, deviation)
            self._finite("the logit of a hidden unit", index, hidden)
            info = {"floored": floored + floored_beliefs}
            yield self._layer(index, mean, deviation, hidden, gaussian.residual(messages, old), messages, info)

    def watch(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        self._check(query)
        count = self._layer_count(n)
        possible = self.compiled and self.schedule == "sequential" and not self.damping and count > 0
        W, c, given = self._prepare(query)
        with torch.no_grad():
            seen = gaussian.watch(W, c, given, count) if possible else None
        if seen is None:
            yield from self.layers(query, n)
            return
        mean, deviation, hidden = gaussian.unary_beliefs(c, given)
        yield self._seen(0, mean, deviation, hidden, torch.zeros_like(seen.residual[:, 0]))
        for k in range(count):
            self._finite("the mean of a pixel", k + 1, seen.mean[:, k], seen.deviation[:, k])
            yield self._seen(k + 1, seen.mean[:, k], seen.deviation[:, k], seen.hidden[:, k], seen.residual[:, k])

    def _seen(self, index: int, mean: Tensor, deviation: Tensor, hidden: Tensor, residual: Tensor) -> Layer:
        marginals = Normal(mean, deviation, validate_args=False)
        return Layer(index, marginals, Bernoulli(logits=hidden, validate_args=False), residual, {})

    def _layer(
        self,
        index: int,
        mean: Tensor,
        deviation: Tensor,
        hidden: Tensor,
        residual: Tensor,
        messages: gaussian.Messages,
        info: dict[str, Tensor],
    ) -> Layer:
        marginals = Normal(mean, deviation, validate_args=False)
        shown = {"to_hidden": messages.to_hidden, "theta_1": messages.linear, "theta_2": -messages.precision / 2}
        return Layer(index, marginals, Bernoulli(logits=hidden, validate_args=False), residual, shown, info)
