"""Why a marginal is what it is: the evidence that moved it most, and the messages that arrive at its variable.

qtcore.inference.why.leave_one_out(model, query, about=12)   # the marginal without each piece of evidence, in one batch
qtcore.inference.why.arriving(model, query, about=12)        # the marginal without each message, of the same run
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Normal, kl_divergence

from qtcore.errors import InputError
from qtcore.inference.bp.gaussian import moments
from qtcore.inference.engine import Engine, expectations
from qtcore.inference.sampling import _joined, ask
from qtcore.metrics import BITS
from qtcore.potentials import DIRECTIONS, BinaryPotentials, GaussianPotentials, GridPotentials
from qtcore.query import Query
from qtcore.support.progress import progress

if TYPE_CHECKING:
    from qtcore.models.base import Model

BATCH = 64
"""Queries between two points where one may stop."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """The marginal of one variable, and what it would be without each of n reasons."""

    marginal: Distribution
    """[1]"""
    without: Distribution
    """[n]"""

    @property
    def bits(self) -> Tensor:
        """How far each reason moved the marginal, Σ p log₂(p / p_without) [n]: 0 if it made no difference."""
        marginal = self.marginal.expand(self.without.batch_shape)
        return (kl_divergence(marginal, self.without) * BITS).clamp_min(0)

    @property
    def moved(self) -> Tensor:
        """What each reason did to the probability of 1 or to the mean [n], or to the probability of each state [n, states]."""
        with_it, without = expectations(self.marginal, self.without)
        return with_it - without


# ---------------------------------------------------------------------------------------------------------------------
# Evidence


@dataclass(frozen=True, eq=False)
class LeftOut(Reasons):
    """Of pieces of evidence."""

    pieces: Tensor
    """The variables of each piece, as masks [n, variables …]."""


def leave_one_out(
    model: "Model",
    query: Query,
    about: int,
    pieces: "Sequence[int | Sequence[int]] | None" = None,
    engine: Engine | None = None,
) -> LeftOut:
    """The marginal of one variable with and without each piece of evidence, for a query of one row: n queries in a batch.

    Two pieces that say the same do not miss each other: then neither moved anything. Leave them out together.

    Args:
        about: the number of the variable in the row (of an image: row by row).
        pieces: the variables to leave out, each by itself or several at a time; by default every observed one by itself.

    Example:
        >>> import torch, qtcore
        >>> from qtcore.inference.why import leave_one_out
        >>> W, b_v, b_h = torch.tensor([[8.0, 8.0, 0.0]]), torch.tensor([-4.0, -4.0, 0.0]), torch.tensor([-8.0])
        >>> model = qtcore.RBM.from_textbook(W, b_v, b_h)
        >>> query = qtcore.Query(torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[True, False, True]]))
        >>> reasons = leave_one_out(model, query, about=1)
        >>> reasons.moved  # the first variable did it, not the last
        tensor([0.4647, 0.0000])
    """
    leaving = LeavingOut(model, query, about, pieces, engine)
    for _ in progress(leaving, "pieces of evidence", len(leaving)):
        pass
    return leaving.reasons


class LeavingOut:
    """As `leave_one_out`, some pieces at a time: iterate over it, then read `reasons`."""

    def __init__(
        self,
        model: "Model",
        query: Query,
        about: int,
        pieces: "Sequence[int | Sequence[int]] | None" = None,
        engine: Engine | None = None,
    ) -> None:
        self.place = place_of(model, query, about)
        self.model, self.query, self.engine = model, query, engine
        known = (query.observed[0] > 0).flatten()
        if pieces is None:
            pieces = known.nonzero()[:, 0].tolist()
        if not pieces:
            raise InputError("nothing is known, so no evidence can be left out.")
        self.left = torch.zeros(len(pieces), len(known), dtype=torch.bool, device=query.device)
        for row, piece in zip(self.left, pieces, strict=True):
            numbers = torch.as_tensor(piece).reshape(-1)
            if (
                numbers.dtype != torch.int64
                or not bool(((numbers >= 0) & (numbers < len(known))).all())
                or not bool(known[numbers].any())
            ):
                raise InputError(f"{piece!r} is no piece of this evidence; give numbers of variables that are observed.")
            row[numbers] = True
        self._parts: list[Distribution] = []

    def __len__(self) -> int:
        return -(-len(self.left) // BATCH)

    def __iter__(self) -> Iterator[int]:
        """After each batch the number of pieces so far."""
        self._parts, done = [], 0
        for left in self.left.split(BATCH):
            self._parts.append(self._marginals(left))
            done += len(left)
            yield done

    @property
    def reasons(self) -> LeftOut:
        """Of the pieces that were left out so far."""
        if not self._parts:
            raise InputError("iterate first: no evidence has been left out yet.")
        without = _joined(self._parts)
        nothing = torch.zeros_like(self.left[:1])
        pieces = self.left[: without.batch_shape[0]].reshape(-1, *self.query.shape[1:])
        return LeftOut(self._marginals(nothing), without, pieces)

    def _marginals(self, left: Tensor) -> Distribution:
        """Of the variable in question, without these variables [rows, size]."""
        rows = torch.zeros(len(left), dtype=torch.long, device=left.device)
        observed = self.query.observed[rows].masked_fill(left.reshape(-1, *self.query.shape[1:]), 0)
        where = torch.zeros_like(left)
        where[:, self.place] = True
        query = Query(self.query.values[rows], observed)
        return ask(self.model, query.__getitem__, where.reshape(observed.shape), self.engine)


def place_of(model: "Model", query: Query, about: int) -> int:
    """The variable's number, checked; an InputError for a query of several rows, or about a variable that is known."""
    model.check(query)
    size = query.shape[1:].numel()
    if len(query) != 1:
        raise InputError(f"reasons are given for one row at a time, but this query has {len(query)}; take query[:1].")
    if not isinstance(about, int) or isinstance(about, bool) or not 0 <= about < size:
        raise InputError(f"about must be the number of a variable from 0 to {size - 1}, not {about!r}.")
    if model.variables.kind != "label" and bool(query.observed.flatten()[about] == 1):
        raise InputError(f"the variable {about} is known; ask about one that is not.")
    return about


# ---------------------------------------------------------------------------------------------------------------------
# Messages


@dataclass(frozen=True, eq=False)
class Arriving(Reasons):
    """Of messages: the marginal is the product of all of them and of the variable's own evidence."""

    senders: Tensor
    """The numbers of the hidden units, or of the neighbouring pixels [n]."""
    messages: Tensor
    """Log-odds [n]; linear and precision part [n, 2]; log-potentials of all states [n, states]."""


def arriving(model: "Model", query: Query, about: int, n_layers: int | None = None, engine: Engine | None = None) -> Arriving:
    """The messages that arrive at one variable in the last layer, and its marginal if one of them were not heard (the others as
    they are). For RBM, DBM, Gaussian RBM and grid; the query has one row.

    Example:
        >>> import torch, qtcore
        >>> from qtcore.inference.why import arriving
        >>> W, b_v, b_h = torch.tensor([[8.0, 8.0], [0.0, 0.0]]), torch.tensor([-4.0, -4.0]), torch.tensor([-8.0, 0.0])
        >>> model = qtcore.RBM.from_textbook(W, b_v, b_h)
        >>> query = qtcore.Query(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]))
        >>> arriving(model, query, about=1).bits  # the first hidden unit tells it, the second one nothing
        tensor([0.7796, 0.0000])
    """
    place = place_of(model, query, about)
    potentials: Any = model.graph()
    finders: dict[type, Callable[..., Arriving]] = {
        BinaryPotentials: _binary,
        GaussianPotentials: _gaussian,
        GridPotentials: _grid,
    }
    find = finders.get(type(potentials))
    if find is None:
        raise InputError(f"the messages of {type(model).__name__} go to factors; this is for RBM, DBM, Gaussian RBM and grid.")
    with torch.no_grad():
        *_, last = model.layers(query, n_layers, engine)
        if not last.messages or last.index == 0:
            raise InputError("no messages were sent; take belief propagation with at least one layer.")
        evidence: Any = model.evidence(query)
        return find(potentials, evidence, last.messages, place)


def _binary(potentials: BinaryPotentials, evidence: Any, sent: dict[str, Tensor], place: int) -> Arriving:
    messages = sent["to_visible"][0, :, place]
    total = evidence.soft[:1, place] + potentials.c_v[place] + messages.sum()
    marginal, without = (Bernoulli(logits=logits, validate_args=False) for logits in (total, total - messages))
    return Arriving(marginal, without, torch.arange(len(messages), device=messages.device), messages)


def _gaussian(potentials: GaussianPotentials, evidence: Any, sent: dict[str, Tensor], place: int) -> Arriving:
    messages = torch.stack([sent["theta_1"][0, :, place], -2 * sent["theta_2"][0, :, place]], 1)
    total = torch.stack([evidence.linear[:1, place], evidence.precision[:1, place]], 1) + messages.sum(0)
    marginal, without = (Normal(*moments(*each.unbind(1)), validate_args=False) for each in (total, total - messages))
    return Arriving(marginal, without, torch.arange(len(messages), device=messages.device), messages)


def _grid(potentials: GridPotentials, evidence: Tensor, sent: dict[str, Tensor], place: int) -> Arriving:
    height, width = evidence.shape[1:3]
    row, column = divmod(place, width)
    near = [(row + down, column + right) for down, right, _ in DIRECTIONS]
    inside = [d for d, (y, x) in enumerate(near) if 0 <= y < height and 0 <= x < width]
    messages = sent["arriving"][inside, 0, row, column]
    total = sent["arriving"][:, 0, row, column].sum(0, keepdim=True)
    if potentials.own_evidence:
        total = total + potentials.spread(evidence[:, row, column])
    senders = torch.tensor([near[d][0] * width + near[d][1] for d in inside], dtype=torch.long, device=messages.device)
    marginal, without = (potentials.answers(logits)[0] for logits in (total, total - messages))
    return Arriving(marginal, without, senders, messages)
