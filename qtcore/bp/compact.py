"""Leaving out what is known: certain variables send constants, receive nothing, and need no messages of their own."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qtcore.query import has_values


@dataclass(frozen=True)
class Compact:
    """The uncertain variables of each sample, gathered to the left: `index` [B, J], of which `count` [B] are used."""

    index: Tensor
    count: Tensor

    @property
    def used(self) -> Tensor:
        """Which entries are not padding [B, J]."""
        return torch.arange(self.index.shape[1], device=self.index.device) < self.count[:, None]

    def gather(self, tensor: Tensor) -> Tensor:
        """[B, V] → [B, J]"""
        return tensor.gather(1, self.index)

    def put(self, full: Tensor, part: Tensor) -> Tensor:
        """`full` [B, V] with `part` [B, J] in the places of the uncertain variables."""
        used = self.used
        return full.scatter(1, self.index, torch.where(used, part, self.gather(full)))

    def columns(self, W: Tensor) -> Tensor:
        """[H, V] → [B, H, J]: the weights of the uncertain variables, 0 for padding (such a variable says nothing)."""
        return W.T[self.index].transpose(1, 2) * self.used[:, None, :]


def compact(uncertain: Tensor) -> Compact:
    """Where each sample's uncertain variables are, in their order."""
    count = uncertain.sum(1)
    most = int(count.max()) if has_values(uncertain) else uncertain.shape[1]
    order = torch.argsort(uncertain.to(torch.int8), dim=1, descending=True, stable=True)
    return Compact(order[:, :most].contiguous(), count)
