"""The visible variables of a model: which values they take, what their marginals are called, how these are reported.

A model has one `Variables` object for all of them. Code that reads tables, draws queries or prints marginals depends on
this object only, not on the model's class.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from qtcore.errors import InputError
from qtcore.query import Query
from qtcore.support.tensors import has_values

LARGEST_TRUTH = 1e12
"""The largest real number that is scored: the squares of larger ones, or their gradients, may overflow in float32."""

LIKELIHOODS = "likelihoods ≥ 0 that are not all 0"


@dataclass(frozen=True, eq=False)
class Variables(ABC):
    """The visible variables of a model.

    Attributes:
        kind: "binary", "real", "categorical" or "label".
        shape: of one sample; None where any size is accepted.
        takes_likelihoods: whether values may have one more axis than the mask, for p(reading | state).
    """

    kind: ClassVar[str]
    takes_likelihoods: ClassVar[bool] = False
    shape: tuple[int | None, ...]

    @abstractmethod
    def valid(self, values: Tensor) -> Tensor:
        """Which values [B, …] a variable can be observed to take."""

    @abstractmethod
    def expected(self, column: int | None = None) -> str:
        """The end of an error message, "must be …", for one variable or for all."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Names of the numbers that describe a marginal, such as mean and deviation."""

    @abstractmethod
    def numbers(self, marginals: Distribution) -> Tensor:
        """Marginals as those numbers [B, …, columns]."""

    def count(self, column: int) -> int:
        """How many of these numbers apply to one variable; the rest is padding."""
        return len(self.columns())

    def accept(self, query: Query, owner: str) -> None:
        """Raise an InputError if a query does not fit these variables; `owner` is the model's name."""
        sizes = tuple(query.shape[1:])
        if len(sizes) != len(self.shape) or any(e is not None and e != s for e, s in zip(self.shape, sizes, strict=True)):
            wanted = ", ".join("any" if size is None else str(size) for size in self.shape)
            raise InputError(f"{owner} expects queries of shape [batch, {wanted}], not {list(query.shape)}.")
        if query.values.dim() > query.observed.dim() and not self.takes_likelihoods:
            raise InputError(f"{owner} expects values {list(query.shape)}, not likelihoods {list(query.values.shape)}.")
        if query.accepted_by is not self and has_values(query.values, query.observed):
            self.check("values", query.values, query.observed != 0)
            query.accept(self)

    def check(self, name: str, values: Tensor, where: Tensor) -> None:
        """Raise an InputError for a value that a variable cannot take, where `where` is true."""
        self.refuse(name, where & ~self.valid(values), values)

    def valid_truth(self, truth: Tensor) -> Tensor:
        """Which truths [B, …] a variable can be scored against."""
        return self.valid(truth)

    def expected_truth(self) -> str:
        """The end of an error message about the truth."""
        return self.expected()

    def check_truth(self, query: Query, target: Tensor) -> None:
        """Raise an InputError for a truth that cannot be scored against."""
        self.refuse("truth", target & ~self.valid_truth(query.truth), query.truth, self.expected_truth())

    def refuse(self, name: str, bad: Tensor, values: Tensor, expected: str | None = None) -> None:
        """Raise an InputError that names the first bad position, if there is one."""
        if bool(bad.any()):
            place = tuple(bad.nonzero()[0].tolist())
            number = values[bad][0].item()
            raise InputError(f"{name} must be {expected or self.expected()}, but at {place} there is {number:g}.")


class Binary(Variables):
    """0 or 1; a value in between is a soft reading."""

    kind = "binary"

    def valid(self, values: Tensor) -> Tensor:
        return (values >= 0) & (values <= 1)

    def expected(self, column: int | None = None) -> str:
        return "0, 1 or in between"

    def columns(self) -> Sequence[str]:
        return ("probability",)

    def numbers(self, marginals: Distribution) -> Tensor:
        return marginals.mean[..., None]


class Real(Variables):
    """Real numbers."""

    kind = "real"

    def valid(self, values: Tensor) -> Tensor:
        return values.isfinite()

    def expected(self, column: int | None = None) -> str:
        return "a finite number"

    def columns(self) -> Sequence[str]:
        return ("mean", "deviation")

    def numbers(self, marginals: Distribution) -> Tensor:
        return torch.stack([marginals.mean, marginals.stddev], -1)

    def valid_truth(self, truth: Tensor) -> Tensor:
        return (truth >= -LARGEST_TRUTH) & (truth <= LARGEST_TRUTH)

    def expected_truth(self) -> str:
        return f"finite, and at most {LARGEST_TRUTH:g} in size, where it is scored"


@dataclass(frozen=True, eq=False)
class Categorical(Variables):
    """Whole numbers from 0, or likelihoods [B, V, S] padded to the largest number of states."""

    kind = "categorical"
    takes_likelihoods = True
    n_states: tuple[int, ...]
    width: int
    """The number of states that likelihoods and marginals are padded to: hidden variables may have more than visible ones."""

    def _sizes(self, values: Tensor) -> Tensor:
        return torch.tensor(self.n_states, device=values.device)

    def valid(self, values: Tensor) -> Tensor:
        whole = values == values.floor() if values.is_floating_point() else torch.ones_like(values, dtype=torch.bool)
        return whole & (values >= 0) & (values < self._sizes(values))

    def expected(self, column: int | None = None) -> str:
        if column is None:
            return "whole numbers below the variable's number of states"
        return f"a whole number from 0 to {self.n_states[column] - 1}"

    def check(self, name: str, values: Tensor, where: Tensor) -> None:
        if values.dim() == where.dim():
            super().check(name, values, where)
            return
        if values.shape[-1] != self.width:
            raise InputError(f"likelihoods must have {self.width} states (padded), not {values.shape[-1]}.")
        padding = torch.arange(self.width, device=values.device) >= self._sizes(values)[:, None]
        possible = values.masked_fill(padding, 0)
        bad = where & ~((values >= 0).all(-1) & (possible.sum(-1) > 0))
        self.refuse(name, bad, values.sum(-1), LIKELIHOODS)

    def check_truth(self, query: Query, target: Tensor) -> None:
        if query.truth.dim() > target.dim():
            raise InputError("truth must be whole numbers [batch, variables]; give it when values are likelihoods.")
        super().check_truth(query, target)

    def columns(self) -> Sequence[str]:
        return tuple(f"p_{state}" for state in range(self.width))

    def count(self, column: int) -> int:
        return self.n_states[column]

    def numbers(self, marginals: Distribution) -> Tensor:
        probs: Tensor = marginals.probs  # type: ignore[attr-defined]
        return probs


@dataclass(frozen=True, eq=False)
class Labels(Variables):
    """Pixels that are read as on or off, or likelihoods of their labels [B, height, width, labels]; the target is the label."""

    kind = "label"
    takes_likelihoods = True
    labels: tuple[str, ...]

    def valid(self, values: Tensor) -> Tensor:
        return (values >= 0) & (values <= 1)

    def expected(self, column: int | None = None) -> str:
        return "0 (off), 1 (on), or in between"

    def check(self, name: str, values: Tensor, where: Tensor) -> None:
        if values.dim() == where.dim():
            super().check(name, values, where)
            return
        if values.shape[-1] != len(self.labels):
            raise InputError(f"likelihoods must be those of {len(self.labels)} labels, not of {values.shape[-1]}.")
        bad = where & ~((values >= 0).all(-1) & (values.sum(-1) > 0))
        self.refuse(name, bad, values.sum(-1), LIKELIHOODS)

    def columns(self) -> Sequence[str]:
        return tuple(f"p_{label.lower()}" for label in self.labels)

    def numbers(self, marginals: Distribution) -> Tensor:
        probs: Tensor = marginals.probs  # type: ignore[attr-defined]
        return probs

    def valid_truth(self, truth: Tensor) -> Tensor:
        return torch.stack([truth == label for label in range(len(self.labels))]).any(0)

    def expected_truth(self) -> str:
        names = [f"{number} {label}" for number, label in enumerate(self.labels)]
        return f"a label: {', '.join(names[:-1])} or {names[-1]}"

    def check_truth(self, query: Query, target: Tensor) -> None:
        if query.given_truth is None:
            raise InputError("a GridMRF is scored against a label image; give it as the query's truth.")
        super().check_truth(query, target)
