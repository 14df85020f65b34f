"""The restricted Boltzmann machine (supplement, "Restricted Boltzmann machine (RBM)")."""

from typing import Any

import torch
from torch import Tensor, nn

from qtcore import evidence
from qtcore.errors import InputError
from qtcore.evidence import BinaryEvidence
from qtcore.models.base import TemperedModel, positive
from qtcore.potentials import BinaryPotentials
from qtcore.query import Query
from qtcore.support.tensors import normal
from qtcore.variables import Binary

INITIAL_WEIGHT = 0.01
"""Standard deviation of the initial W/T, as in the authors' code."""


class BinaryModel(TemperedModel):
    """Binary visible variables on one side of a bipartite graph: the RBM itself, and the DBM written as one."""

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> BinaryEvidence:
        dtype = dtype or self.dtype
        return evidence.binary(query.values.to(dtype), query.observed.to(dtype))


class RBM(BinaryModel):
    """φ(v, h) = 2 hᵀWv + hᵀ(c_h − W1) + vᵀ(c_v − Wᵀ1) with binary v and h: 0 for agreement, −w for disagreement.

    Stored tensors: `W` [H, V], `c_v` [V], `c_h` [H] and the temperature `T`.

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.RBM(n_visible=6, n_hidden=3)
        >>> query = qtcore.Query(torch.ones(2, 6), torch.arange(6).expand(2, 6) < 4)
        >>> model(query).probs.shape
        torch.Size([2, 6])
    """

    def __init__(
        self,
        n_visible: int,
        n_hidden: int,
        n_layers: int = 10,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        damping: float = 0.0,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(n_layers, damping, temperature, learn_temperature, **factory)
        positive("n_visible", n_visible)
        positive("n_hidden", n_hidden)
        self.variables = Binary((n_visible,))
        self.W = nn.Parameter(normal(n_hidden, n_visible, scale=INITIAL_WEIGHT * temperature, **factory))
        self.c_v = nn.Parameter(torch.zeros(n_visible, **factory))
        self.c_h = nn.Parameter(torch.zeros(n_hidden, **factory))

    def config(self) -> dict[str, Any]:
        n_hidden, n_visible = self.W.shape
        return {"n_visible": n_visible, "n_hidden": n_hidden} | self._tempered_config()

    def graph(self) -> BinaryPotentials:
        return BinaryPotentials(self.W, self.c_v, self.c_h, self.W.shape[1])

    @classmethod
    def from_textbook(cls, W: Tensor, b_v: Tensor, b_h: Tensor, **options: Any) -> "RBM":
        """The RBM with the textbook potential hᵀWv + b_vᵀv + b_hᵀh, at T = 1.

        Example:
            >>> import torch, qtcore
            >>> W, b_v, b_h = torch.randn(2, 3), torch.randn(3), torch.randn(2)
            >>> model = qtcore.RBM.from_textbook(W, b_v, b_h)
            >>> all(torch.allclose(*pair, atol=1e-6) for pair in zip(model.to_textbook(), (W, b_v, b_h)))
            True
        """
        W, b_v, b_h = (torch.as_tensor(tensor).detach() for tensor in (W, b_v, b_h))
        if not W.is_floating_point():
            W = W.to(torch.get_default_dtype())
        if W.dim() != 2 or b_v.shape != W.shape[1:] or b_h.shape != W.shape[:1]:
            raise InputError(f"expected W [H, V], b_v [V], b_h [H], not {list(W.shape)}, {list(b_v.shape)}, {list(b_h.shape)}.")
        options = {"device": W.device, "dtype": W.dtype, **options}
        model = cls(W.shape[1], W.shape[0], **options)
        with torch.no_grad():
            model.W.copy_(W / 2)
            model.c_v.copy_(b_v + W.sum(0) / 2)
            model.c_h.copy_(b_h + W.sum(1) / 2)
        return model

    def to_textbook(self) -> tuple[Tensor, Tensor, Tensor]:
        """W, b_v, b_h of the textbook potential hᵀWv + b_vᵀv + b_hᵀh."""
        W, c_v, c_h = self.W.detach(), self.c_v.detach(), self.c_h.detach()
        return 2 * W, c_v - W.sum(0), c_h - W.sum(1)
