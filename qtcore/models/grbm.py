"""The Gaussian restricted Boltzmann machine (supplement, "Gaussian restricted Boltzmann machine (GRBM)")."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from qtcore import evidence
from qtcore.errors import InputError
from qtcore.evidence import GaussianEvidence
from qtcore.inference import BP
from qtcore.models.base import Model, given_count, positive
from qtcore.potentials import GaussianPotentials
from qtcore.query import Query
from qtcore.support.tensors import has_values, normal
from qtcore.variables import Real

INITIAL_WEIGHT = 0.05
"""Standard deviation of the initial W, as in the authors' code."""

LEARN_SIGMA = ("no", "shared", "pixel")


class GaussianRBM(Model):
    """φ(v, h) = −‖v − b‖²/(2σ²) + cᵀh + hᵀWv/σ with real v and binary h.

    Stored tensors: `W` [H, V], `b` [V], `c` [H], and `sigma`: fixed at 1, or learned, one for all pixels ("shared") or one for
    each [V] ("pixel"). A model with a fixed σ cannot be surer of a pixel than that, however well it knows its neighbours.
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
        learn_sigma: str = "no",
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if schedule not in ("sequential", "flooding"):
            raise InputError(f"schedule must be 'sequential' or 'flooding', not {schedule!r}.")
        if learn_sigma not in LEARN_SIGMA:
            raise InputError(f"learn_sigma must be {', '.join(LEARN_SIGMA[:-1])} or {LEARN_SIGMA[-1]}, not {learn_sigma!r}.")
        super().__init__(BP(n_layers=given_count(n_layers), damping=damping, schedule=schedule))
        positive("n_visible", n_visible)
        positive("n_hidden", n_hidden)
        self.variables = Real((n_visible,))
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.W = nn.Parameter(normal(n_hidden, n_visible, scale=INITIAL_WEIGHT, **factory))
        self.b = nn.Parameter(torch.zeros(n_visible, **factory))
        self.c = nn.Parameter(torch.zeros(n_hidden, **factory))
        shape = (n_visible,) if learn_sigma == "pixel" else ()
        self.learn_sigma = learn_sigma
        self.sigma = nn.Parameter(torch.ones(shape, **factory), requires_grad=learn_sigma != "no")

    def config(self) -> dict[str, Any]:
        n_hidden, n_visible = self.W.shape
        sizes = {"n_visible": n_visible, "n_hidden": n_hidden}
        options = {"n_layers": self.n_layers, "schedule": self.schedule, "damping": self.damping}
        return sizes | options | {"learn_sigma": self.learn_sigma}

    @property
    def schedule(self) -> str:
        """Schedule of the model's own engine."""
        return getattr(self.engine, "schedule", None) or "sequential"

    def _sigma(self) -> Tensor:
        sigma = self.sigma.detach()
        if has_values(sigma) and not bool(((sigma > 0) & (sigma < float("inf"))).all()):
            bad = sigma[~((sigma > 0) & (sigma < float("inf")))].flatten()[0]
            raise InputError(f"sigma must be > 0, but it is {float(bad):g}.")
        return self.sigma

    def graph(self) -> GaussianPotentials:
        sigma = self._sigma()
        precision = (sigma**-2).expand_as(self.b)
        return GaussianPotentials(self.W / sigma, self.c, self.b * precision, precision)

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> GaussianEvidence:
        dtype = dtype or self.dtype
        values, weight = query.values.to(dtype), query.observed.to(dtype)
        return evidence.gaussian(values, weight, self.b.to(dtype), self._sigma().to(dtype))
