"""Message passing: what all kinds of graphs have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from qtcore.errors import NotFiniteError
from qtcore.evidence import HARD_LOGIT
from qtcore.inference.engine import Layer
from qtcore.support.tensors import has_values, numbers


@dataclass(frozen=True)
class Choices:
    """How messages are passed: the options of `BP`, with the model's own where these are None."""

    T: Tensor | None
    """The unit of all potentials and messages; None where `has_unit` is false."""
    sums: bool
    """Sum-product, or max-product (T = 0)."""
    damping: float
    schedule: str
    torch_compile: bool
    owner: str
    """The model's name, for error messages."""


class Passing(ABC):
    """Message passing for one query: initial messages, their update by a layer, and the marginals they imply.

    Messages are any immutable value; the object itself never changes.
    """

    choices: Choices
    schedules: ClassVar[tuple[str, ...]] = ("flooding",)
    """The first is the default."""
    has_unit: ClassVar[bool] = True
    """Whether it runs in units of a temperature."""

    @abstractmethod
    def __init__(self, potentials: Any, evidence: Any, choices: Choices) -> None: ...

    @abstractmethod
    def initial(self) -> Any:
        """The messages before the first layer."""

    @abstractmethod
    def update(self, messages: Any) -> tuple[Any, dict[str, Tensor]]:
        """The messages after one more layer, and its diagnostics: at least its residual [B]."""

    @abstractmethod
    def answers(self, messages: Any) -> tuple[Distribution, Distribution]:
        """Marginals of the visible and of the hidden variables."""

    @abstractmethod
    def shown(self, messages: Any) -> dict[str, Tensor]:
        """All messages by name, in the model's own units."""

    @abstractmethod
    def before(self) -> dict[str, Tensor]:
        """The diagnostics before the first layer: a residual of 0 [B]."""

    @staticmethod
    @abstractmethod
    def kept_bytes(potentials: Any, shape: tuple[int, ...], n_layers: int, damped: bool = False) -> int:
        """Approximate number of bytes that one sample keeps for the backward pass through N layers."""

    def send(self, messages: Any) -> Any:
        """The messages after one more layer alone: what `after` needs of `update`."""
        return self.update(messages)[0]

    def after(self, n_layers: int) -> Distribution:
        """Marginals of the visible variables after N layers, with no unnecessary work."""
        messages = self.initial()
        for _ in range(n_layers):
            messages = self.send(messages)
        return self.answers(messages)[0]

    def after_each(self, depths: Sequence[int]) -> list[Distribution]:
        """The same after each of several numbers of layers, in rising order."""
        marginals, messages, done = [], self.initial(), 0
        for depth in depths:
            for _ in range(depth - done):
                messages = self.send(messages)
            marginals.append(self.answers(messages)[0])
            done = depth
        return marginals

    def trace(self, n_layers: int) -> Iterator[Layer] | None:
        """All layers for display, by a fast path; None if there is none."""
        return None


ROOM = 1e-8
"""Potentials in units of T may reach this share of the largest number: sums over neighbours and over rows need the rest."""


def check_size(choices: Choices, *potentials: Tensor, raw: bool = False) -> list[tuple[float, float]]:
    """The smallest and the largest entry of each of these potentials, all in units of T; a NotFiniteError if sums of them and
    of evidence may overflow. Zeros where there are no values to look at.

    With `raw`, they are given in units of 1, and −∞ is a potential of zero: what overflows in units of T is none."""
    assert choices.T is not None
    if not has_values(choices.T, *potentials):
        return [(0.0, 0.0)] * len(potentials)
    ends = [end for potential in potentials if potential.numel() for end in potential.detach().aminmax()]
    T, *values = numbers(choices.T.detach(), *ends)
    unit = T if raw and T else 1.0
    pairs = iter([(low / unit, high / unit) for low, high in zip(values[::2], values[1::2], strict=True)])
    result = [next(pairs) if potential.numel() else (0.0, 0.0) for potential in potentials]
    if raw and -math.inf in values:  # look at the others again, without
        finite = [potential.detach()[~potential.isneginf()] for potential in potentials]
        values = numbers(*(end for potential in finite if potential.numel() for end in potential.aminmax()))
    size, dtype = max([HARD_LOGIT / T if T else math.inf, *(abs(value) / unit for value in values)]), potentials[0].dtype
    if not size <= ROOM * torch.finfo(dtype).max or any(map(math.isnan, values)):
        raise NotFiniteError(
            f"{choices.owner}: potentials and evidence of up to {size:.3g}, in units of the temperature {T:g}, are "
            f"too extreme for {str(dtype).removeprefix('torch.')}; give smaller ones, or another temperature (0: max-product)."
        )
    return result


def check_finite(owner: str, name: str, layer: int, *tensors: Tensor) -> None:
    """Raise a NotFiniteError that names the tensor and the layer, if a number is not finite."""
    for tensor in tensors:
        if has_values(tensor) and not bool(tensor.isfinite().all()):
            raise NotFiniteError(
                f"{owner}: {name} is not finite in layer {layer}; the parameters are too extreme for this data type."
            )


def damp(new: Tensor, old: Tensor, damping: float) -> Tensor:
    """(1−d)·new + d·old; 0 means no damping."""
    return torch.lerp(new, old, damping) if damping else new
