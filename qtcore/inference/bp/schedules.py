"""Other schedules for factor graphs than flooding: sequential, random and residual. All have the same fixed points.

Sequential: the factors are updated one after the other, each from the latest messages; a layer updates every factor once.
Factors without a common variable do not notice each other, so that whole sets of them are updated at a time: a factor's set is
the first in which no factor before it (in the order of the graph) shares a variable with it, and a layer goes through the
sets in their order. There are at least as many sets as the variable with the most factors has of them.

Random: the same, but every layer takes the factors in an order of its own, drawn at random. The order depends on the number of
the layer and of the factors alone, so that a run can be repeated. To find the sets anew takes time on large graphs.

Residual: a layer updates those factors whose messages would change most, for every query of a batch by itself. The pending
change of a factor is the largest that an update would make to one of its messages; it is updated if no factor with a common
variable has a larger one, or the same and an earlier place in the graph. The largest of all is always among them. A layer costs
as much as one of flooding, and there have to be more of them.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from qtcore.inference.bp import categorical, logic
from qtcore.inference.bp.factors import FactorPassing, _normalised, outgoing
from qtcore.inference.bp.passing import Choices, Passing
from qtcore.potentials import FactorPotentials
from qtcore.wiring import Factors, Whole, Wiring

Sets = list[list[tuple[int, Whole]]]

_sets: "WeakKeyDictionary[Wiring, Sets]" = WeakKeyDictionary()


def sets_of_factors(wiring: Wiring) -> Sets:
    """Sets of factors without a common variable: for each set, groups with the places of its factors in them."""
    if wiring not in _sets:
        _sets[wiring] = sets_in_order(wiring, range(count_of_factors(wiring)))
    return _sets[wiring]


def count_of_factors(wiring: Wiring) -> int:
    return sum(len(group.number) for group in wiring.groups)


def sets_in_order(wiring: Wiring, numbers: Iterable[int]) -> Sets:
    """The same for factors that are taken in another order."""
    place = {int(n): (g, k) for g, group in enumerate(wiring.groups) for k, n in enumerate(group.number)}
    taken = [0] * len(wiring.n_states)  # the sets that have a factor of each variable, as bits
    sets: list[dict[int, list[int]]] = []
    for number in numbers:
        g, k = place[number]
        scope = wiring.groups[g].scope[k].tolist()
        near = 0
        for i in scope:
            near |= taken[i]
        first = (~near & (near + 1)).bit_length() - 1
        for i in scope:
            taken[i] |= 1 << first
        if first == len(sets):
            sets.append({})
        sets[first].setdefault(g, []).append(k)
    return [[(g, np.array(members)) for g, members in sorted(each.items())] for each in sets]


def random_order(count: int, layer: int) -> list[int]:
    """The order of so many factors in a layer of the random schedule."""
    return list(map(int, np.random.default_rng((count, layer)).permutation(count)))


class ScheduledPassing(FactorPassing):
    """Layer by layer, without the fast paths of flooding."""

    after = Passing.after
    after_each = Passing.after_each
    trace = Passing.trace

    def send(self, messages: Tensor) -> Tensor:
        return self.update(messages)[0]


class _Part:
    """Some factors of one group, which are updated together."""

    def __init__(self, passing: FactorPassing, number: int, members: Whole) -> None:
        self.group: Factors = passing.wiring.groups[number]
        self.numbers, device = passing.arithmetic[number], passing.evidence.device
        count, blocks = len(self.group.scope), passing.where.blocks[number]
        starts = [block.start + count * np.arange(size) for block, size in zip(blocks, self.group.shape, strict=True)]
        self.rows = np.concatenate([(start[:, None] + members).ravel() for start in starts])
        if not self.group.rule:
            used = torch.tensor(self.group.table[members], device=device)
            tables = passing.potentials.tables[number]
            own = tables if len(tables) == 1 else tables.index_select(0, used)
            self.table = self.numbers.table(categorical.scale(own, 1 / passing.T).movedim(0, -1), len(self.group.shape))

    def messages(self, cavity: Tensor, sums: bool) -> Tensor:
        """New messages [m, B] from the cavities of the same rows."""
        batch, shape = cavity.shape[1], self.group.shape
        if self.group.rule:
            sent = logic.messages(self.group.rule, cavity.view(len(shape), 2, -1, batch), sums)
            return _normalised(sent.transpose(0, 1)).transpose(0, 1).flatten(0, 2)
        count = len(cavity) // sum(shape)
        parts = cavity.split([size * count for size in shape])
        incoming = [self.numbers.incoming(part.view(size, count, batch)) for part, size in zip(parts, shape, strict=True)]
        sent_parts = outgoing(self.table, incoming, self.numbers)
        return torch.cat([_normalised(self.numbers.logs(sent)).flatten(0, 1) for sent in sent_parts])

    def change(self, new: Tensor, old: Tensor, zeros: bool) -> Tensor:
        """The largest change of a message [B]."""
        count = len(new) // sum(self.group.shape)
        pieces = zip(*(each.split([size * count for size in self.group.shape]) for each in (new, old)), strict=True)
        changes = [
            categorical.change(one.view(size, count, -1), other.view(size, count, -1), 0, zeros).amax(0)
            for (one, other), size in zip(pieces, self.group.shape, strict=True)
        ]
        return torch.stack(changes).amax(0)


Prepared = tuple[list[_Part], Tensor, Tensor]
"""The factors of a set, the rows of their messages, and the entries that these are about."""


class SequentialPassing(ScheduledPassing):
    """One factor after the other."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, choices: Choices) -> None:
        super().__init__(potentials, evidence, choices)
        self.sets = list(self._prepared_sets(sets_of_factors(self.wiring)))

    def _prepared_sets(self, sets: Sets) -> Iterator[Prepared]:
        for members in sets:
            parts = [_Part(self, number, own) for number, own in members]
            rows = torch.tensor(np.concatenate([part.rows for part in parts]), device=self.evidence.device)
            yield parts, rows, self.where.sent[rows]

    def update(self, messages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return self._in_turn(self.sets, messages)

    def _in_turn(self, sets: Iterable[Prepared], messages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        residual = self.before()["residual"]
        alone = self.unary + self.scaled_evidence
        belief = categorical.without_zeros(alone) + self.where.collect(categorical.without_zeros(messages))
        zeros = alone.isneginf().to(alone.dtype) + self.where.collect(messages.isneginf().to(alone.dtype))
        for parts, rows, about in sets:
            if self.has_zeros:
                self._refuse_contradictions(zeros == 0)
            old = messages.index_select(0, rows)
            gone, finite = old.isneginf().to(old.dtype), categorical.without_zeros(old)
            cavity = belief.index_select(0, about) - finite
            cavity = cavity.masked_fill(zeros.index_select(0, about) > gone, -torch.inf)
            sizes = [len(part.rows) for part in parts]
            sent = [part.messages(own, self.choices.sums) for part, own in zip(parts, cavity.split(sizes), strict=True)]
            new = self._damp(torch.cat(sent), old)
            for part, one, other in zip(parts, new.split(sizes), old.split(sizes), strict=True):
                residual = torch.maximum(residual, part.change(one, other, self.has_zeros))
            messages = messages.index_copy(0, rows, new)
            belief = belief.index_add(0, about, categorical.without_zeros(new) - finite)
            zeros = zeros.index_add(0, about, new.isneginf().to(new.dtype) - gone)
        return messages, {"residual": self.T * residual}


class Counted(NamedTuple):
    """The messages [M, B] after so many layers."""

    buffer: Tensor
    layer: int


class RandomPassing(SequentialPassing):
    """One factor after the other, in each layer in another order."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, choices: Choices) -> None:
        FactorPassing.__init__(self, potentials, evidence, choices)

    def initial(self) -> Counted:  # type: ignore[override]
        return Counted(super().initial(), 0)

    def buffer(self, messages: Counted) -> Tensor:  # type: ignore[override]
        return messages.buffer

    def update(self, messages: Counted) -> tuple[Counted, dict[str, Tensor]]:  # type: ignore[override]
        order = random_order(count_of_factors(self.wiring), messages.layer)
        new, info = self._in_turn(self._prepared_sets(sets_in_order(self.wiring, order)), messages.buffer)
        return Counted(new, messages.layer + 1), info

    def answers(self, messages: Counted) -> tuple[Distribution, Distribution]:  # type: ignore[override]
        return super().answers(messages.buffer)

    def shown(self, messages: Counted) -> dict[str, Tensor]:  # type: ignore[override]
        return super().shown(messages.buffer)


class ResidualPassing(ScheduledPassing):
    """The factors with the largest pending changes."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, choices: Choices) -> None:
        super().__init__(potentials, evidence, choices)
        factors, variables, numbers = ([np.zeros(0, dtype=np.int64)] for _ in range(3))
        for group in self.wiring.groups:
            start = sum(map(len, numbers))
            numbers.append(group.number)
            for column in group.scope.T:
                factors.append(start + np.arange(len(column)))
                variables.append(column)

        def tensor(parts: list[Whole]) -> Tensor:
            return torch.tensor(np.concatenate(parts), device=evidence.device)

        self.factor, self.variable, self.number = tensor(factors), tensor(variables), tensor(numbers)

    def update(self, messages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        pending = super(ScheduledPassing, self).send(messages)
        with torch.no_grad():
            changes = self._changes(pending.detach(), messages.detach())
            chosen = self._chosen(changes)
            sizes, rows = [len(group.scope) for group in self.wiring.groups], []
            for own, group in zip(chosen.split(sizes), self.wiring.groups, strict=True):
                rows += [own.expand(size, *own.shape).flatten(0, 1) for size in group.shape]
            residual = changes.amax(0) if len(changes) else self.before()["residual"]
        new = torch.where(torch.cat(rows), pending, messages) if rows else messages
        return new, {"residual": self.T * residual}

    def _changes(self, new: Tensor, old: Tensor) -> Tensor:
        """The pending change of every factor [F, B], group after group."""
        result = [new.new_zeros(0, self.batch)]
        for blocks, group in zip(self.where.blocks, self.wiring.groups, strict=True):
            pieces = []
            for block, size in zip(blocks, group.shape, strict=True):
                one, other = (each[block].view(size, -1, self.batch) for each in (new, old))
                pieces.append(categorical.change(one, other, 0, self.has_zeros))
            result.append(torch.stack(pieces).amax(0).clamp_min(0))
        return torch.cat(result)

    def _chosen(self, changes: Tensor) -> Tensor:
        """Which factors are updated [F, B]."""
        count = len(self.wiring.n_states)
        most = self._over_neighbours(changes, changes.new_zeros(count, self.batch), "amax")
        candidate = (changes == most) & (changes > 0)
        last = len(self.number)
        number = self.number[:, None].expand_as(candidate).masked_fill(~candidate, last)
        first = self._over_neighbours(number, number.new_full((count, self.batch), last), "amin")
        return candidate & (number == first)

    def _over_neighbours(self, values: Tensor, start: Tensor, reduce: str) -> Tensor:
        """The largest (or smallest) value of the factors that share a variable with each one, itself among them [F, B]."""
        at_variables = start.scatter_reduce(0, self._rows(self.variable), values[self.factor], reduce)
        return values.scatter_reduce(0, self._rows(self.factor), at_variables[self.variable], reduce)

    def _rows(self, index: Tensor) -> Tensor:
        return index[:, None].expand(-1, self.batch)
