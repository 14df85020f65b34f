"""Queries: which variables are observed, which are targets, and distributions over masks.

A query is the paper's mask `q` together with the data that it reveals (section "Training the Inference Network"): evidence
where `observed` is 1, targets where it is scored; everything else is marginalised out. Hidden variables never appear in a
query.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.support.tensors import has_values, shape_text

__all__ = ["Mask", "Query", "cardinality", "fixed", "gaps", "mixture", "one_target", "patches", "uniform"]

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
"""What values, weights and truth may be: torch does not even compare numbers of the other types."""


def real_tensor(name: str, data: Any) -> Tensor:
    """The data as a tensor of real numbers; raise an InputError if they are none."""
    try:
        tensor = torch.as_tensor(data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a tensor of numbers, not {type(data).__name__} ({error}).") from error
    if tensor.is_complex() or tensor.is_quantized:
        raise InputError(f"{name} must hold real numbers, but its dtype is {tensor.dtype}.")
    if tensor.layout != torch.strided:
        raise InputError(f"{name} must be a dense tensor, but its layout is {tensor.layout}; use {name}.to_dense().")
    if tensor.dtype not in DTYPES:
        raise InputError(f"{name} cannot be {tensor.dtype}, which torch hardly computes in; use {name}.to(torch.float32).")
    return tensor


def _same_shape(name: str, data: Any, observed: Tensor) -> Tensor:
    tensor = real_tensor(name, data)
    if tensor.shape != observed.shape:
        raise InputError(f"{name} {shape_text(tensor)} must have the shape of observed, {shape_text(observed)}.")
    if tensor.device != observed.device:
        raise InputError(f"{name} is on {tensor.device} but observed is on {observed.device}; put both on one.")
    return tensor


def _check_shape(observed: Tensor) -> None:
    if observed.dim() < 2:
        raise InputError(f"observed must be batch first, [batch, variables …], but its shape is {shape_text(observed)}.")
    if observed.numel() == 0:
        raise InputError(f"a query needs at least one sample and one variable, but the shape is {shape_text(observed)}.")


def _check_evidence(values: Tensor, observed: Tensor) -> None:
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


class Query:
    """A question to a model: data and a mask, batch first. Checked once, on construction; slices and copies on another
    device are not checked again.

    Args:
        values: the data [B, ...]. Entries where `observed` is 0 are never read (they may be NaN).
        observed: boolean, or a weight in [0, 1] for soft evidence: a reading that is right with that
            probability and carries no information otherwise.
        target: boolean, what is scored. By default the model decides: the unobserved variables, or every pixel of a
            GridMRF (see `Model.target`).
        truth: what targets are scored against. Defaults to `values`; a GridMRF needs its label image.

    Example:
        >>> import torch
        >>> query = Query(torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[True, False, True]]))
        >>> query.target
        tensor([[False,  True, False]])
    """

    __slots__ = ("accepted_by", "given_target", "given_truth", "observed", "scored_by", "values")

    values: Tensor
    observed: Tensor
    given_target: Tensor | None
    given_truth: Tensor | None
    accepted_by: object
    """The `Variables` that have already checked these values."""
    scored_by: object
    """The `Variables` that have already checked targets and truth."""

    def __init__(self, values: Any, observed: Any, target: Any = None, truth: Any = None) -> None:
        values, observed = real_tensor("values", values), real_tensor("observed", observed)
        _check_shape(observed)
        if values.shape[: observed.dim()] != observed.shape or values.dim() > observed.dim() + 1:
            raise InputError(f"values {shape_text(values)} and observed {shape_text(observed)} must have the same shape.")
        if values.device != observed.device:
            raise InputError(f"values are on {values.device} but observed is on {observed.device}; put both on one.")
        _check_evidence(values, observed)
        target = None if target is None else _same_shape("target", target, observed)
        if target is not None and target.dtype != torch.bool:
            raise InputError(f"target must be boolean, but its dtype is {target.dtype}.")
        self._fill(values, observed, target, None if truth is None else _same_shape("truth", truth, observed), None)

    def _fill(self, *parts: object) -> None:
        for name, part in zip(("values", "observed", "given_target", "given_truth", "accepted_by"), parts, strict=True):
            object.__setattr__(self, name, part)
        object.__setattr__(self, "scored_by", None)  # also in a slice, which may have no targets

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a query cannot be changed; make another one with other {name}.")

    def accept(self, variables: object) -> None:
        """Record that these variables have checked the values."""
        object.__setattr__(self, "accepted_by", variables)

    def accept_truth(self, variables: object) -> None:
        """Record that these variables have checked targets and truth."""
        object.__setattr__(self, "scored_by", variables)

    @property
    def target(self) -> Tensor:
        """The targets as given; by default the unobserved variables."""
        return self.observed == 0 if self.given_target is None else self.given_target

    @property
    def truth(self) -> Tensor:
        """What targets are scored against: the truth as given, or the values."""
        return self.values if self.given_truth is None else self.given_truth

    @property
    def shape(self) -> torch.Size:
        """[batch, variables …]"""
        return self.observed.shape

    @property
    def device(self) -> torch.device:
        return self.observed.device

    def __len__(self) -> int:
        return len(self.observed)

    def __repr__(self) -> str:
        extras = [name for name in ("target", "truth") if getattr(self, f"given_{name}") is not None]
        return f"Query({shape_text(self.values)}{''.join(f', {name} given' for name in extras)}, {self.device})"

    def __getitem__(self, rows: "slice | Tensor | Sequence[int]") -> "Query":
        """The query for some of the samples."""
        return self._map(lambda tensor: tensor[rows])

    def to(self, device: "torch.device | str") -> "Query":
        """The same query on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Query":
        """The query with every tensor changed, unchecked: the new ones are slices or copies."""
        parts = (self.values, self.observed, self.given_target, self.given_truth)
        values, observed, target, truth = (None if part is None else change(part) for part in parts)
        assert observed is not None
        _check_shape(observed)
        query = object.__new__(Query)
        query._fill(values, observed, target, truth, self.accepted_by)
        return query


@dataclass(frozen=True, eq=False)
class Mask:
    """A distribution over masks. Calling it with data draws one mask per sample and returns the query.

    Make one with :func:`uniform`, :func:`cardinality`, :func:`patches`, :func:`one_target`, :func:`fixed` or :func:`mixture`.

    Example:
        >>> import torch
        >>> queries = uniform(0.5)
        >>> query = queries(torch.zeros(4, 10), torch.Generator().manual_seed(0))
        >>> query.observed.shape
        torch.Size([4, 10])
    """

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        """Masks of this shape [batch, variables …], True where a variable is observed."""
        raise NotImplementedError

    def __call__(self, values: Tensor, generator: torch.Generator | None = None, truth: Tensor | None = None) -> Query:
        """The query that reveals `values` through freshly drawn masks."""
        observed = self.draw(values.shape, generator).to(values.device)
        return Query(values, observed, truth=truth)


def _device(generator: torch.Generator | None) -> torch.device:
    return torch.device("cpu") if generator is None else generator.device


@dataclass(frozen=True, eq=False)
class _Uniform(Mask):
    p_target: float

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        return torch.rand(*shape, generator=generator, device=_device(generator)) >= self.p_target


def uniform(p_target: float = 0.5) -> Mask:
    """Each variable is a target with probability `p_target`, independently (0.5 for the paper's queries).

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
class _Cardinality(Mask):
    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        device = _device(generator)
        size = math.prod(shape[1:])
        seen = torch.randint(size, (shape[0], 1), generator=generator, device=device)
        rank = torch.rand(shape[0], size, generator=generator, device=device).argsort(1)  # a random permutation
        return (rank < seen).reshape(tuple(shape))


def cardinality() -> Mask:
    """The number of observed variables is uniform, from none to all but one; which ones they are is random.

    These are the queries that the chain rule asks in a random order, from the first variable to the last.

    Example:
        >>> import torch
        >>> from qtcore.query import cardinality
        >>> query = cardinality()(torch.zeros(1000, 4), torch.Generator().manual_seed(0))
        >>> query.observed.sum(1).unique()
        tensor([0, 1, 2, 3])
    """
    return _Cardinality()


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
    """The targets are square patches of `size`×`size` pixels, `count` per sample, anywhere inside the image.

    `image_shape` says how a row of variables forms an image; data [B, height, width] do not need it.

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


@dataclass(frozen=True, eq=False)
class _Halves(Mask):
    image_shape: tuple[int, int] | None

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        height, width = _image_shape(shape, self.image_shape)
        device = _device(generator)
        row = torch.arange(height, device=device)[:, None].expand(height, width)
        column = torch.arange(width, device=device).expand(height, width)
        # Left, right, upper and lower half; the middle of an odd number of pixels belongs to both.
        hidden = torch.stack([2 * column < width, 2 * column >= width - 1, 2 * row < height, 2 * row >= height - 1])
        which = torch.randint(4, (shape[0],), generator=generator, device=device)
        return ~hidden[which].reshape(tuple(shape))


def halves(image_shape: tuple[int, int] | None = None) -> Mask:
    """The targets are the left, right, upper or lower half of the image, at random.

    Example:
        >>> import torch
        >>> from qtcore.query import halves
        >>> query = halves((2, 4))(torch.zeros(1, 8), torch.Generator().manual_seed(1))
        >>> query.target.int().view(2, 4)
        tensor([[0, 0, 1, 1],
                [0, 0, 1, 1]], dtype=torch.int32)
    """
    return _Halves(image_shape)


def _image_shape(shape: Sequence[int], image_shape: tuple[int, int] | None) -> tuple[int, int]:
    if image_shape is None and len(shape) == 3:
        return int(shape[1]), int(shape[2])
    if image_shape is None:
        raise InputError(f"patches and halves need image_shape=(height, width) for data of shape {list(shape)}.")
    count = math.prod(shape[1:])
    if image_shape[0] * image_shape[1] != count:
        raise InputError(f"an image of {image_shape[0]}×{image_shape[1]} does not have the {count} variables of the data.")
    return image_shape


@dataclass(frozen=True, eq=False)
class _OneTarget(Mask):
    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        device = _device(generator)
        count = math.prod(shape[1:])
        chosen = torch.randint(count, (shape[0], 1), generator=generator, device=device)
        return (torch.arange(count, device=device) != chosen).reshape(tuple(shape))


def one_target() -> Mask:
    """Exactly one target per sample, the rest is evidence; without hidden variables, this is the pseudo-likelihood.

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
            raise InputError(f"the fixed mask {shape_text(self.observed)} does not fit data of shape {list(shape)}.")
        return self.observed.expand(tuple(shape))


@dataclass(frozen=True, eq=False)
class _Everything(Mask):
    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        return torch.ones(tuple(shape), dtype=torch.bool)


def fixed(observed: Tensor | None = None) -> Mask:
    """The same mask, of the shape of one sample, for every sample; without an argument, everything is observed.

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
    return _Fixed(real_tensor("observed", observed))


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
    """Each sample's mask is drawn from one of `parts`, chosen with these weights (equal by default).

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


@dataclass(frozen=True, eq=False)
class _Gaps(Mask):
    queries: Mask

    def draw(self, shape: Sequence[int], generator: torch.Generator | None = None) -> Tensor:
        return self.queries.draw(shape, generator)

    def __call__(self, values: Tensor, generator: torch.Generator | None = None, truth: Tensor | None = None) -> Query:
        observed, known = self.draw(values.shape, generator).to(values.device), ~values.isnan()
        return Query(values, observed & known, ~observed & known, truth)


def gaps(queries: Mask) -> Mask:
    """The same queries about rows with gaps (NaN): a gap is neither observed nor a target.

    Example:
        >>> import torch
        >>> from qtcore.query import fixed, gaps
        >>> queries = gaps(fixed(torch.tensor([True, True, False, False])))
        >>> query = queries(torch.tensor([[1.0, torch.nan, 0.0, torch.nan]]))
        >>> query.observed, query.target
        (tensor([[ True, False, False, False]]), tensor([[False, False,  True, False]]))
    """
    return _Gaps(queries)


KNOWN = (
    "uniform[:p], cardinality, patches[:size[xcount]], halves, one-target, everything, or a mixture such as 2*uniform+patches"
)


def parse(text: str, image_shape: tuple[int, int] | None = None) -> Mask:
    """A distribution from its name on a command line: uniform[:p], cardinality, patches[:size[xcount]], halves, one-target,
    everything, or a mixture such as 2*uniform+patches+halves, in which half of the samples get uniform queries."""
    if "+" in text:
        weighted = [part.rpartition("*") for part in text.split("+")]
        try:
            weights = [float(weight or 1) for weight, _, _ in weighted]
        except ValueError as error:
            raise InputError(f"the weights in the mixture {text!r} must be numbers, such as 2*uniform+patches.") from error
        return mixture(*(parse(name, image_shape) for _, _, name in weighted), weights=weights)
    name, _, rest = text.partition(":")
    try:
        if name == "uniform":
            return uniform(float(rest or 0.5))
        if name == "patches":
            size, _, count = (rest or "5").partition("x")
            return patches(int(size), int(count or 1), image_shape)
        if name == "cardinality" and not rest:
            return cardinality()
        if name == "halves" and not rest:
            return halves(image_shape)
        if name in ("one-target", "everything") and not rest:
            return one_target() if name == "one-target" else fixed()
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    raise InputError(f"queries cannot be {text!r}; give {KNOWN}.")
