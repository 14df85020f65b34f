"""The restricted Boltzmann machine (supplement, "Restricted Boltzmann machine (RBM)")."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli

from qtcore.bp import binary
from qtcore.errors import InputError
from qtcore.models.base import Layer, TemperedModel
from qtcore.query import Query

INITIAL_WEIGHT = 0.01
"""Standard deviation of W/T at the start, as in the authors' code."""


class BinaryModel(TemperedModel):
    """Binary visible variables on one side of a bipartite graph: the RBM itself, and the DBM seen as one.

    Any temperature T > 0 is a change of units: f_w(x; T) = T·f_{w/T}(x/T; 1), so the layers run at T = 1 with
    W/T, c/T and u/T, and the beliefs are multiplied by T.
    """

    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """W̃ [H, Ṽ], c̃_V [Ṽ], c̃_H [H] of the bipartite graph; variables beyond the visible ones are never observed."""
        raise NotImplementedError

    def _split(self, visible: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the visible and of the hidden variables, from those of the two sides of the graph."""
        return visible, hidden

    def _check_values(self, name: str, values: Tensor, where: Tensor) -> None:
        outside = where & ~((values >= 0) & (values <= 1))
        self._range_error(name, outside, values, "0, 1, or in between")

    def kept_bytes(self, shape: tuple[int, ...], n_layers: int) -> int:
        return n_layers * self._weights()[0].numel() * self.dtype.itemsize * (1 if self.compiled else 4)

    def _prepare(self, query: Query) -> tuple[Tensor, bool, tuple[Tensor, Tensor, Tensor], binary.Evidence]:
        """The unit T, sum or max, and the parameters and the evidence in that unit."""
        T, sums = self._temperature()
        W, c_v, c_h = (tensor / T for tensor in self._weights())
        given = binary.evidence(query.values.to(W.dtype), query.observed.to(W.dtype))
        unseen = W.shape[1] - given.soft.shape[1]
        if unseen:
            given = binary.Evidence(*(nn.functional.pad(tensor, (0, unseen)) for tensor in given))
        return T, sums, (W, c_v, c_h), binary.Evidence(given.soft / T, given.hard)

    def forward(self, query: Query, n_layers: int | None = None) -> Bernoulli:
        """Marginals of the visible variables, Bernoulli [B, V]."""
        self._check(query)
        T, sums, parameters, given = self._prepare(query)
        count = self._layer_count(n_layers)
        if sums and not self.damping:
            visible = binary.visible_beliefs(*parameters, given, count, self.compiled)
        else:
            messages = binary.initial(len(query), parameters[0])
            for _ in range(count):
                messages = binary.layer(messages, *parameters, given, self.damping, sums)
            visible, _ = binary.beliefs(messages, *parameters[1:], given)
        return Bernoulli(logits=binary.show(T * visible, given)[:, : query.shape[1]], validate_args=False)

    def layers(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        self._check(query)
        T, sums, parameters, given = self._prepare(query)
        messages = binary.initial(len(query), parameters[0])
        residual = messages.to_hidden.new_zeros(len(query))
        for index in range(self._layer_count(n) + 1):
            if index:
                old, messages = messages, binary.layer(messages, *parameters, given, self.damping, sums)
                residual = T * binary.residual(messages, old)
            visible, hidden = binary.beliefs(messages, *parameters[1:], given)
            shown = {name: T * tensor for name, tensor in messages._asdict().items()}
            yield Layer(index, *self._marginals(T, visible, hidden, given), residual, shown)

    def _marginals(self, T: Tensor, visible: Tensor, hidden: Tensor, given: binary.Evidence) -> tuple[Bernoulli, Bernoulli]:
        logits = self._split(binary.show(T * visible, given), T * hidden)
        return Bernoulli(logits=logits[0], validate_args=False), Bernoulli(logits=logits[1], validate_args=False)


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
        self.W = nn.Parameter(INITIAL_WEIGHT * temperature * torch.randn(n_hidden, n_visible, **factory))
        self.c_v = nn.Parameter(torch.zeros(n_visible, **factory))
        self.c_h = nn.Parameter(torch.zeros(n_hidden, **factory))

    def config(self) -> dict[str, Any]:
        n_hidden, n_visible = self.W.shape
        return {"n_visible": n_visible, "n_hidden": n_hidden} | self._tempered_config()

    def _sample_shape(self) -> tuple[int | None, ...]:
        return (self.W.shape[1],)

    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.W, self.c_v, self.c_h

    @classmethod
    def from_textbook(cls, W: Tensor, b_v: Tensor, b_h: Tensor, **options: Any) -> "RBM":
        """The RBM with the textbook's potential hᵀWv + b_vᵀv + b_hᵀh, at T = 1.

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
        """W, b_v, b_h of the textbook's potential hᵀWv + b_vᵀv + b_hᵀh."""
        W, c_v, c_h = self.W.detach(), self.c_v.detach(), self.c_h.detach()
        return 2 * W, c_v - W.sum(0), c_h - W.sum(1)


def positive(name: str, size: int) -> None:
    """Refuse a size that is not a whole number above 0."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(f"{name} must be a whole number ≥ 1, not {size!r}.")
