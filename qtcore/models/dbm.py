"""The deep Boltzmann machine with two hidden layers (supplement, "Deep Boltzmann machine (DBM)")."""

from typing import Any

import torch
from torch import nn

from qtcore.models.base import positive
from qtcore.models.rbm import INITIAL_WEIGHT, BinaryModel
from qtcore.potentials import BinaryPotentials
from qtcore.support.tensors import normal
from qtcore.variables import Binary


class DBM(BinaryModel):
    """v — h1 — h2, all binary. The RBM's equations with ṽ = [v; h2] on one side and h1 on the other: W̃ = [W1, W2ᵀ].

    Stored tensors: `W1` [H1, V], `W2` [H2, H1], `c_v` [V], `c_h1` [H1], `c_h2` [H2] and the temperature `T`.

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.DBM(n_visible=6, n_hidden_1=4, n_hidden_2=3)
        >>> query = qtcore.Query(torch.ones(2, 6), torch.arange(6).expand(2, 6) < 4)
        >>> model(query).probs.shape
        torch.Size([2, 6])
        >>> list(model.layers(query, n=1))[-1].hidden.probs.shape  # both hidden layers, the first one first
        torch.Size([2, 7])
    """

    def __init__(
        self,
        n_visible: int,
        n_hidden_1: int,
        n_hidden_2: int,
        n_layers: int = 10,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        damping: float = 0.0,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(n_layers, damping, temperature, learn_temperature, **factory)
        for name, size in (("n_visible", n_visible), ("n_hidden_1", n_hidden_1), ("n_hidden_2", n_hidden_2)):
            positive(name, size)
        self.variables = Binary((n_visible,))
        scale = INITIAL_WEIGHT * temperature
        self.W1 = nn.Parameter(normal(n_hidden_1, n_visible, scale=scale, **factory))
        self.W2 = nn.Parameter(normal(n_hidden_2, n_hidden_1, scale=scale, **factory))
        self.c_v = nn.Parameter(torch.zeros(n_visible, **factory))
        self.c_h1 = nn.Parameter(torch.zeros(n_hidden_1, **factory))
        self.c_h2 = nn.Parameter(torch.zeros(n_hidden_2, **factory))

    def config(self) -> dict[str, Any]:
        sizes = {"n_visible": self.W1.shape[1], "n_hidden_1": self.W1.shape[0], "n_hidden_2": self.W2.shape[0]}
        return sizes | self._tempered_config()

    def graph(self) -> BinaryPotentials:
        W = torch.cat([self.W1, self.W2.T], 1)
        return BinaryPotentials(W, torch.cat([self.c_v, self.c_h2]), self.c_h1, self.W1.shape[1])
