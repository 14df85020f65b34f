"""Queries: which variables are seen, which are asked for, and distributions over such questions.

A query is what the paper calls the mask `q` together with the data that it lets through (section "Training the
Inference Network"): evidence where `observed` is 1, a target where it is scored, and everything else is
marginalised out. Hidden variables never appear in a query.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from qtcore.errors import InputError

__all__ = ["Mask", "Query", "fixed", "mixture", "one_target", "patches", "uniform"]


def has_values(*tensors: Tensor) -> bool:
    """Whether tensors hold numbers that can be looked at (fake and meta tensors have shapes only)."""
    return not any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors)


def _tensor(name: str, given: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a tensor of numbers, not {type(given).__name__} ({error}).") from error
    if tensor.is_complex() or tensor.is_quantized:
        raise InputError(f"{name} must hold real numbers, but its dtype is {tensor.dtype}.")
    return tensor


@dataclass(frozen=True, eq=False)
class Query:
    """Data and a mask, batch first: what a model is asked.

    Args:
        values: the data [B, ...]. What stands where `observed` is 0 is never read (it may be NaN).
        observed: boolean, or a weight in [0, 1] for soft evidence: a reading that is right with that
            probability and otherwise says nothing.
        target: boolean, what is scored. Defaults to `observed == 0`; a GridMRF scores every pixel.
        truth: what targets are scored against. Defaults to `values`; a GridMRF needs its label image.

    Example:
        >>> import torch
        >>> query = Query(torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[True, False, True]]))
        >>> query.target
        tensor([[False,  True, False]])
    """

    values: Tensor
    observed: Tensor
    target: Tensor = None  # type: ignore[assignment]  # filled in below
    truth: Tensor = None  # type: ignore[assignment]
    explicit_target: bool = field(init=False, repr=False, default=False)
    explicit_truth: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731  (the class is frozen)
        put("explicit_target", self.target is not None)
        put("explicit_truth", self.truth is not None)
        put("values", _tensor("values", self.values))
        put("observed", _tensor("observed", self.observed))
        values, observed = self.values, self.observed
        if observed.dim() < 2:
            raise InputError(f"observed must be batch first, [batch, variables …], but its shape is {_shape(observed)}.")
        if observed.numel() == 0:
            raise InputError(f"a query needs at least one sample and one variable, but the shape is {_shape(observed)}.")
        if values.shape[: observed.dim()] != observed.shape or values.dim() > observed.dim() + 1:
            raise InputError(f"values {_shape(values)} and observed {_shape(observed)} must have the same shape.")
        if values.device != observed.device:
            raise InputError(f"values are on {values.device} but observed is on {observed.device}; put both on one.")
        self._check_evidence()
        put("target", self._same_shape("target", self.target) if self.explicit_target else observed == 0)
        if self.target.dtype != torch.bool:
            raise InputError(f"target must be boolean, but its dtype is {self.target.dtype}.")
        put("truth", self._same_shape("truth", self.truth) if self.explicit_truth else values)

    def _same_shape(self, name: str, given: Any) -> Tensor:
        tensor = _tensor(name, given)
        if tensor.shape != self.observed.shape:
            raise InputError(f"{name} {_shape(tensor)} must have the shape of observed, {_shape(self.observed)}.")
        if tensor.device != self.observed.device:
            raise InputError(f"{name} is on {tensor.device} but observed is on {self.observed.device}; put both on one.")
        return tensor

    def _check_evidence(self) -> None:
        values, observed = self.values, self.observed
        if not has_values(values, observed):
            return
        if observed.dtype != torch.bool and not bool(((observed >= 0) & (observed <= 1)).all()):  # NaN fails too
            worst = observed[~((observed >= 0) & (observed <= 1))][0].item()
            raise InputError(f"observed must be boolean or a weight in [0, 1], but it holds {worst:g}.")
        if values.is_floating_point():
            finite = values.isfinite()
            if values.dim() > observed.dim():
                finite = finite.all(-1)
            bad = (observed != 0) & ~finite
            if bool(bad.any()):
                where = tuple(bad.nonzero()[0].tolist())
                raise InputError(f"values must be finite where they are observed, but at {where} there is NaN or infinity.")

    @property
    def shape(self) -> torch.Size:
        """[batch, variables …]"""
        return self.observed.shape

    @property
    def device(self) -> torch.device:
        return self.observed.device

    def __len__(self) -> int:
        return len(self.observed)

    def __getitem__(self, rows: "slice | Tensor | Sequence[int]") -> "Query":
        """The same question for some of the samples."""
        return self._map(lambda tensor: tensor[rows])

    def to(self, device: "torch.device | str") -> "Query":
        """The same query on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, change: Any) -> "Query":
        return Query(
            change(self.values),
            change(self.observed),
            change(self.target) if self.explicit_target else None,  # type: ignore[arg-type]
            change(self.truth) if self.explicit_truth else None,  # type: ignore[arg-type]
        )


def _shape(tensor: Tensor) -> str:
    return str(list(tensor.shape))


@dataclass(frozen=True, eq=False)
class Mask:
    """A distribution over masks. Calling it with data draws one mask per sample and returns the query.

    Make one with :func:`uniform`, :func:`patches`, :func:`one_target`, :func:`fixed` or :func:`mixture`.

    Example:
        >>> import torch
        >>> queries = uniform(0.5)
        >>> query = queries(torch.zeros(4, 10), torch.Generator().manual_seed(0))
        >>> query.observed.shape
        torch.Size([4, 10])
    """

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        """Masks of the given shape [batch, variables …], True where a variable is observed."""
        raise NotImplementedError

    def __call__(self, values: Tensor, generator: torch.Generator | None = None, truth: Tensor | None = None) -> Query:
        """The query that shows `values` through freshly drawn masks."""
        observed = self.draw(values.shape, generator).to(values.device)
        return Query(values, observed, truth=truth)  # type: ignore[arg-type]


def _device(generator: torch.Generator | None) -> torch.device:
    return torch.device("cpu") if generator is None else generator.device


@dataclass(frozen=True, eq=False)
class _Uniform(Mask):
    p_target: float

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        return torch.rand(*shape, generator=generator, device=_device(generator)) >= self.p_target


def uniform(p_target: float = 0.5) -> Mask:
    """Each variable is a target with probability `p_target`, independently (the paper's queries, with 0.5).

    Example:
        >>> import torch
        >>> from qtcore.query import uniform
        >>> query = uniform(0.25)(torch.zeros(1000, 8), torch.Generator().manual_seed(0))
        >>> round(query.target.float().mean().item(), 2)
        0.25
    """
    if not 0 <= p_target <= 1:
        raise InputError(f"p_target must be a probability, not {p_target:g}.")
    return _Uniform(p_target)


@dataclass(frozen=True, eq=False)
class _Patches(Mask):
    size: int
    count: int
    image_shape: tuple[int, int] | None

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        height, width = _image_shape(shape, self.image_shape)
        if self.size > min(height, width):
            raise InputError(f"a patch of {self.size} pixels does not fit into an image of {height}×{width}.")
        device = _device(generator)
        corners = (shape[0], self.count)
        top = torch.randint(height - self.size + 1, corners, generator=generator, device=device)[..., None, None]
        left = torch.randint(width - self.size + 1, corners, generator=generator, device=device)[..., None, None]
        row = torch.arange(height, device=device)[:, None]
        column = torch.arange(width, device=device)
        inside = (row >= top) & (row < top + self.size) & (column >= left) & (column < left + self.size)
        return ~inside.any(1).reshape(tuple(shape))


def patches(size: int = 5, count: int = 1, image_shape: tuple[int, int] | None = None) -> Mask:
    """Square patches of `size`×`size` pixels are the targets, `count` of them per sample, anywhere inside.

    `image_shape` says how a row of variables forms an image; data [B, height, width] need none.

    Example:
        >>> import torch
        >>> from qtcore.query import patches
        >>> query = patches(size=2, image_shape=(3, 4))(torch.zeros(1, 12), torch.Generator().manual_seed(0))
        >>> query.target.int().view(3, 4)
        tensor([[1, 1, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 0, 0]], dtype=torch.int32)
    """
    if size < 1 or count < 1:
        raise InputError(f"patches need a size and a count of at least 1, not {size} and {count}.")
    return _Patches(size, count, image_shape)


def _image_shape(shape: Sequence[int], image_shape: tuple[int, int] | None) -> tuple[int, int]:
    if image_shape is None and len(shape) == 3:
        return int(shape[1]), int(shape[2])
    if image_shape is None:
        raise InputError(f"patches need image_shape=(height, width) for data of shape {list(shape)}.")
    count = 1
    for size in shape[1:]:
        count *= size
    if image_shape[0] * image_shape[1] != count:
        raise InputError(f"an image of {image_shape[0]}×{image_shape[1]} does not have the {count} variables of the data.")
    return image_shape


@dataclass(frozen=True, eq=False)
class _OneTarget(Mask):
    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        device = _device(generator)
        count = 1
        for size in shape[1:]:
            count *= size
        chosen = torch.randint(count, (shape[0], 1), generator=generator, device=device)
        return (torch.arange(count, device=device) != chosen).reshape(tuple(shape))


def one_target() -> Mask:
    """Exactly one target per sample, the rest is evidence: with no hidden variables, the pseudo-likelihood.

    Example:
        >>> import torch
        >>> from qtcore.query import one_target
        >>> one_target()(torch.zeros(3, 10)).target.sum(1)
        tensor([1, 1, 1])
    """
    return _OneTarget()


@dataclass(frozen=True, eq=False)
class _Fixed(Mask):
    observed: Tensor

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        if tuple(self.observed.shape) != tuple(shape[1:]):
            raise InputError(f"the fixed mask {_shape(self.observed)} does not fit data of shape {list(shape)}.")
        return self.observed.expand(tuple(shape))


@dataclass(frozen=True, eq=False)
class _Everything(Mask):
    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        return torch.ones(tuple(shape), dtype=torch.bool)


def fixed(observed: Tensor | None = None) -> Mask:
    """The same mask for every sample, of the shape of one sample; with no argument, everything is observed.

    Example:
        >>> import torch
        >>> from qtcore.query import fixed
        >>> left_half = fixed(torch.tensor([True, True, False, False]))
        >>> left_half(torch.zeros(2, 4)).target
        tensor([[False, False,  True,  True],
                [False, False,  True,  True]])
    """
    if observed is None:
        return _Everything()
    return _Fixed(_tensor("observed", observed))


@dataclass(frozen=True, eq=False)
class _Mixture(Mask):
    parts: tuple[Mask, ...]
    weights: tuple[float, ...]

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        device = _device(generator)
        masks = torch.stack([part.draw(shape, generator).to(device) for part in self.parts])
        weights = torch.tensor(self.weights, device=device)
        which = torch.multinomial(weights, shape[0], replacement=True, generator=generator)
        return masks[which, torch.arange(shape[0], device=device)]


def mixture(*parts: Mask, weights: Sequence[float] | None = None) -> Mask:
    """Each sample's mask comes from one of `parts`, chosen with the given weights (equal ones by default).

    Example:
        >>> import torch
        >>> from qtcore.query import mixture, one_target, uniform
        >>> queries = mixture(uniform(0.5), one_target(), weights=(3, 1))  # three of four samples are uniform queries
        >>> queries(torch.zeros(100, 20)).observed.shape
        torch.Size([100, 20])
    """
    shares = tuple(1.0 for _ in parts) if weights is None else tuple(float(weight) for weight in weights)
    if len(shares) != len(parts) or not all(0 <= share < float("inf") for share in shares) or sum(shares) == 0:
        raise InputError(f"a mixture needs one weight ≥ 0 for each of its parts, but {len(parts)} parts have {shares}.")
    return _Mixture(parts, shares)


def parse(text: str, image_shape: tuple[int, int] | None = None) -> Mask:
    """A distribution from its name on a command line: uniform[:p], patches[:size[xcount]], one-target, everything."""
    name, _, rest = text.partition(":")
    try:
        if name == "uniform":
            return uniform(float(rest or 0.5))
        if name == "patches":
            size, _, count = (rest or "5").partition("x")
            return patches(int(size), int(count or 1), image_shape)
        if name in ("one-target", "everything") and not rest:
            return one_target() if name == "one-target" else fixed()
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    raise InputError(f"queries cannot be {text!r}; give uniform[:p], patches[:size[xcount]], one-target or everything.")
