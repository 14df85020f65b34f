"""Leaving out clamped variables: they send constants, ignore what they receive, and need no messages of their own."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qtcore.support.tensors import has_values


@dataclass(frozen=True)
class Compact:
    """The free variables of each sample, gathered to the left: `index` [B, J], of which `count` [B] are used."""

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
        """`full` [B, V] with the free variables replaced by `part` [B, J]."""
        used = self.used
        return full.scatter(1, self.index, torch.where(used, part, self.gather(full)))

    def columns(self, W: Tensor) -> Tensor:
        """[H, V] → [B, H, J]: the weights of the free variables, 0 for padding (which then sends nothing)."""
        return W.T[self.index].transpose(1, 2) * self.used[:, None, :]


def compact(free: Tensor) -> Compact:
    """The positions of each sample's free variables, in order."""
    count = free.sum(1)
    most = int(count.max()) if has_values(free) else free.shape[1]
    order = torch.argsort(free.to(torch.int8), dim=1, descending=True, stable=True)
    return Compact(order[:, :most].contiguous(), count)
