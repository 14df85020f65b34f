"""Belief propagation on any factor graph of categorical variables, messages as logs.

The state holds the message from every factor f to each variable j of its scope,

    m_fj(x_j) = log Σ_{x_i, i ≠ j} exp(table_f(x_f) + Σ_{i ≠ j} cavity_if(x_i)),   cavity_if = belief_i − m_fi,

at temperature 1, and the maximum instead of log Σ exp at temperature 0. For a factor of two variables this is the paper's
message m_ij from one variable to the other. All messages lie in one buffer [M, B] (`qtcore.wiring.Indices`); factors of one
shape are computed together, and factors that share a table share it here too.

A table may hold −∞: what it rules out has probability 0. A cavity would then be −∞ − (−∞) where a factor itself has ruled a
state out; so the messages of −∞ are counted, the others added up, and a cavity is −∞ if any but the factor's own is.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import pad

from qtcore import kernels
from qtcore.errors import InputError
from qtcore.inference.bp import categorical, logic
from qtcore.inference.bp.passing import Choices, Passing, check_size, damp
from qtcore.inference.engine import Layer
from qtcore.potentials import FactorPotentials
from qtcore.support.tensors import has_values, is_batched, log_sum

LARGE = 64
"""For a batch, tables of at least so many entries go through torch's batched matrix product. Products of smaller ones, or for a
single query, are faster written out and added up."""

LOGIC = 20
"""Numbers that a logic factor keeps for its backward pass, for each state of a variable."""


class Sums:
    """Potentials as numbers: messages are matrix products. For tables of a small range, without zeros (`is_mild`)."""

    @staticmethod
    def table(log: Tensor, order: int) -> Tensor:
        """From logs `[*shape, F]`, up to a constant for each factor."""
        axes = list(range(order))
        return (log - log.detach().amax(axes, keepdim=True)).exp()

    @staticmethod
    def incoming(cavity: Tensor) -> Tensor:
        """From logs [S, F, B], up to a constant."""
        return (cavity - cavity.detach().amax(0)).exp()

    @staticmethod
    def logs(message: Tensor) -> Tensor:
        return message.log()

    @staticmethod
    def times(one: Tensor, other: Tensor) -> Tensor:
        return one * other

    @staticmethod
    def contract(table: Tensor, incoming: Tensor) -> Tensor:
        """Σ_r table[l, r] · incoming[r] of every factor: [L, R, F] or [L, R, F, B] with [R, F, B] gives [L, F, B]."""
        if table.dim() == 4:
            return (table * incoming).sum(1)
        if table.shape[2] == 1:  # one table for all
            return (table[:, :, 0] @ incoming.flatten(1)).unflatten(1, incoming.shape[1:])
        if table.stride(2) == 1:  # see `FactorPassing._prepared`
            return (table[..., None] * incoming).sum(1)
        return torch.matmul(table.permute(2, 0, 1), incoming.transpose(0, 1)).transpose(0, 1)


class Logs:
    """Potentials as logs: log Σ exp for every entry of a message, whatever the range, zeros included."""

    @staticmethod
    def table(log: Tensor, order: int) -> Tensor:
        return log

    @staticmethod
    def incoming(cavity: Tensor) -> Tensor:
        return cavity

    @staticmethod
    def logs(message: Tensor) -> Tensor:
        return message

    @staticmethod
    def times(one: Tensor, other: Tensor) -> Tensor:
        return one + other

    @classmethod
    def contract(cls, table: Tensor, incoming: Tensor) -> Tensor:
        return cls.total((table if table.dim() == 4 else table[..., None]) + incoming)

    @staticmethod
    def total(scores: Tensor) -> Tensor:
        return log_sum(scores, 1)


class Maxima(Logs):
    """The largest term instead of the sum: temperature 0."""

    @staticmethod
    def total(scores: Tensor) -> Tensor:
        return scores.amax(1)


Arithmetic = type[Sums] | type[Logs]


def outgoing(table: Tensor, incoming: list[Tensor], numbers: Arithmetic) -> list[Tensor]:
    """Messages of factors to the variables on all axes of their tables, each [S, F, B], from those on the other axes.

    The table `[*shape, F]` is read twice, whatever its order: summed over its last axes for the first half of the
    variables, over its first axes for the others; each half goes on with the smaller table that is left.
    """
    order = len(incoming)
    if order == 1:
        return [table if table.dim() == 3 else table[..., None].expand_as(incoming[0])]
    half = (order + 1) // 2
    shape, first, last = table.shape, incoming[:half], incoming[half:]
    matrix = table.reshape(math.prod(shape[:half]), math.prod(shape[half:order]), *shape[order:])
    for_first = numbers.contract(matrix, _outer(last, numbers))
    for_last = numbers.contract(matrix.transpose(0, 1), _outer(first, numbers))
    return [
        *outgoing(for_first.unflatten(0, shape[:half]), first, numbers),
        *outgoing(for_last.unflatten(0, shape[half:order]), last, numbers),
    ]


def _outer(incoming: list[Tensor], numbers: Arithmetic) -> Tensor:
    """All combinations of the states of some variables [ΠS, F, B]."""
    result = incoming[0]
    for other in incoming[1:]:
        result = numbers.times(result[:, None], other).flatten(0, 1)
    return result


class FactorPassing(Passing):
    """Messages on a factor graph."""

    schedules = ("flooding", "sequential", "random", "residual")

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, choices: Choices) -> None:
        assert choices.T is not None
        self.T, self.choices, self.potentials = choices.T, choices, potentials
        self.wiring, self.where = potentials.wiring, potentials.wiring.on(evidence.device)
        self.evidence = evidence
        given = [potentials.unary, *potentials.tables]
        ends = check_size(choices, *given, raw=True)
        zeros = [low == -math.inf for low, _ in ends]
        self.extents = [high - low for low, high in ends[1:]]
        """Largest minus smallest entry of each group's tables, in units of T."""
        self.has_zeros = any(zeros)
        scaled = [self._in_units(tensor, zero) for tensor, zero in zip(given, zeros, strict=True)]
        self.unary, self.scaled_tables = scaled[0][:, None], scaled[1:]
        self.scaled_evidence = self._in_units(evidence, zeros=True)
        self.arithmetic = [
            self._arithmetic(tables, extent) for tables, extent in zip(self.scaled_tables, self.extents, strict=True)
        ]

    def _is_one(self) -> bool:
        """Whether T is 1 for good, so that there is nothing to scale. (A device is not waited for.)"""
        return self.T.is_cpu and has_values(self.T) and not self.T.requires_grad and float(self.T) == 1

    def _in_units(self, log: Tensor, zeros: bool) -> Tensor:
        if self._is_one():
            return log
        return categorical.scale(log, 1 / self.T) if zeros else log * (1 / self.T)

    def _arithmetic(self, tables: Tensor, extent: float) -> Arithmetic:
        if not self.choices.sums:
            return Maxima
        return Sums if extent <= categorical.MATRIX_PRODUCT_RANGE and not is_batched(tables) else Logs

    @cached_property
    def tables(self) -> list[Tensor]:
        """The table of each factor, or the one that all of a group share, as `outgoing` takes them."""
        return [self._prepared(self.used(group), numbers) for group, numbers in enumerate(self.arithmetic)]

    def used(self, group: int) -> Tensor:
        """The tables of a group, one for each factor or the one of all, in units of T."""
        tables, used = self.scaled_tables[group], self.where.tables[group]
        return tables if used is None else tables.index_select(0, used)

    def counted(self, group: int) -> Tensor:
        """How many times each factor of a group counts in the Bethe estimate [F]."""
        return self.unary.new_ones(len(self.wiring.groups[group].scope))

    def _prepared(self, tables: Tensor, numbers: Arithmetic) -> Tensor:
        """Tables [F, *shape] as [*shape, F], in the order in memory that is read fastest."""
        prepared = numbers.table(tables.movedim(0, -1), tables.dim() - 1)
        by_matrices = numbers is Sums and self.batch > 1 and tables[0].numel() >= LARGE
        return prepared if by_matrices else prepared.contiguous()

    @property
    def batch(self) -> int:
        return self.scaled_evidence.shape[1]

    def initial(self) -> Tensor:
        return self.scaled_evidence.new_zeros(len(self.where.sent), self.batch)

    def buffer(self, messages: Tensor) -> Tensor:
        """All messages [M, B], without whatever else a schedule keeps with them."""
        return messages

    def sums(self, messages: Tensor) -> Tensor:
        """θ_i + Σ_f m_fi for every state of every variable [total, B]."""
        return self.unary + self.where.collect(messages)

    def cavities(self, messages: Tensor) -> Tensor:
        """Everything a variable knows except what came from the receiver, for every message [M, B]."""
        if not self.has_zeros:
            return self.where.spread(self.sums(messages) + self.scaled_evidence) - messages
        zero = messages.isneginf()
        others = messages.masked_fill(zero, 0)
        alone = self.unary + self.scaled_evidence
        belief = alone.masked_fill(alone.isneginf(), 0) + self.where.collect(others)
        zeros = alone.isneginf() + self.where.collect(zero.to(messages.dtype))
        self._refuse_contradictions(zeros == 0)
        ruled_out = self.where.spread(zeros) - zero.to(zeros.dtype) > 0
        return (self.where.spread(belief) - others).masked_fill(ruled_out, -torch.inf)

    def _refuse_contradictions(self, possible: Tensor) -> None:
        """Raise an InputError if a variable has no possible state left [total, B]."""
        if not has_values(possible):
            return
        count = torch.zeros(len(self.wiring.n_states), self.batch, device=possible.device)
        impossible = count.index_add(0, self.where.variable, possible.to(count.dtype)) == 0
        if bool(impossible.any()):
            variable, row = impossible.nonzero()[0].tolist()
            raise InputError(self.potentials.contradiction(variable, row if self.batch > 1 else None))

    def send(self, messages: Tensor) -> Tensor:
        cavity, parts = self.cavities(messages), []
        for blocks, table, numbers, group in zip(
            self.where.blocks, self.tables, self.arithmetic, self.wiring.groups, strict=True
        ):
            if group.rule:
                whole = cavity[blocks[0].start : blocks[-1].stop].view(len(blocks), 2, -1, self.batch)
                sent = logic.messages(group.rule, whole, self.choices.sums)
                parts.append(_normalised(sent.transpose(0, 1)).transpose(0, 1).flatten(0, 2))
                continue
            incoming = [
                numbers.incoming(cavity[block].view(size, -1, self.batch))
                for block, size in zip(blocks, group.shape, strict=True)
            ]
            parts += [_normalised(numbers.logs(sent)).flatten(0, 1) for sent in outgoing(table, incoming, numbers)]
        return self._damp(torch.cat(parts), messages) if parts else messages

    def _damp(self, new: Tensor, old: Tensor) -> Tensor:
        """A state that is ruled out once stays so: damping leaves it alone."""
        if not self.has_zeros or not self.choices.damping:
            return damp(new, old, self.choices.damping)
        zero = new.isneginf()
        mixed = damp(new.masked_fill(zero, 0), old.masked_fill(old.isneginf(), 0), self.choices.damping)
        return mixed.masked_fill(zero, -torch.inf)

    def update(self, messages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        new, residual = self.send(messages), self.before()["residual"]
        for blocks, group in zip(self.where.blocks, self.wiring.groups, strict=True):
            for block, size in zip(blocks, group.shape, strict=True):
                sent, old = (each[block].view(size, -1, self.batch) for each in (new, messages))
                residual = torch.maximum(residual, categorical.change(sent, old, 0, self.has_zeros).amax(0))
        return new, {"residual": self.T * residual}

    def answers(self, messages: Tensor) -> tuple[Distribution, Distribution]:
        return self._answers(self.where.collect(messages))

    def _answers(self, collected: Tensor) -> tuple[Distribution, Distribution]:
        """Marginals, from the sums of all messages about each state [total, B]; a state that is ruled out by evidence gets
        its −1000, by a table −∞ as padding does."""
        sums = self.unary + collected
        if self.has_zeros:
            self._refuse_contradictions(~(sums + self.scaled_evidence).isneginf())
            logits = categorical.scale(sums, self.T)
        else:
            logits = sums if self._is_one() else sums * self.T
        shown = self.evidence.clamp_min(categorical.HARD_LOG)
        return self.potentials.answers(self.where.rows(logits + shown))

    def shown(self, messages: Tensor) -> dict[str, Tensor]:
        """On a pairwise graph, "directed" messages [2E, B, S] padded with 0: entry 2e goes along edge e, 2e + 1 back."""
        groups = self.wiring.groups
        scaled = categorical.scale(messages, self.T)
        parts = [
            [scaled[block].view(size, -1, self.batch).transpose(0, 1) for block, size in zip(blocks, group.shape, strict=True)]
            for blocks, group in zip(self.where.blocks, groups, strict=True)
        ]
        if any(len(group.shape) != 2 for group in groups):
            return {f"factors_{g}_axis_{a}": sent for g, axes in enumerate(parts) for a, sent in enumerate(axes)}
        count, states = sum(len(group.scope) for group in groups), max(self.wiring.n_states)
        directed = self.scaled_evidence.new_zeros(2 * count, states, self.batch)
        ends = np.zeros((2, 2 * count), dtype=np.int64)
        for group, (back, forth) in zip(groups, parts, strict=True):
            for way, (sent, size) in enumerate(((forth, group.shape[1]), (back, group.shape[0]))):
                padded = pad(sent, (0, 0, 0, states - size))
                directed = directed.index_copy(0, torch.tensor(2 * group.number + way, device=padded.device), padded)
                ends[:, 2 * group.number + way] = group.scope.T[:: 1 - 2 * way]
        source, sink = torch.tensor(ends, device=directed.device)
        return {"directed": directed.transpose(1, 2), "source": source, "sink": sink}

    def before(self) -> dict[str, Tensor]:
        return {"residual": self.scaled_evidence.new_zeros(self.batch)}

    @staticmethod
    def kept_bytes(potentials: FactorPotentials, shape: tuple[int, ...], n_layers: int, damped: bool = False) -> int:
        kept = 0
        groups, itemsize = potentials.wiring.groups, potentials.unary.dtype.itemsize
        mild = [categorical.is_mild(tables) for tables in potentials.tables]
        if all(mild) and kernels.fits([group.shape for group in groups]) and kernels.usable(potentials.unary):
            messages = sum(len(group.scope) * sum(group.shape) for group in groups)
            return (n_layers + 1) * (messages + potentials.wiring.total) * itemsize
        for group, is_mild in zip(groups, mild, strict=True):
            linear = group.rule or (is_mild and len(group.shape) == 2)
            scores = 0 if linear else 2 * math.prod(group.shape)
            kept += len(group.scope) * ((LOGIC if group.rule else 8) * sum(group.shape) + scores)
        return n_layers * max(1, kept) * itemsize

    # ------------------------------------------------------------------ by the kernel

    def after(self, n_layers: int) -> Distribution:
        return self.after_each([n_layers])[0] if n_layers and self._native() else super().after(n_layers)

    def after_each(self, depths: Sequence[int]) -> list[Distribution]:
        if not (min(depths) and self._native()):
            return super().after_each(depths)
        sums = kernels.factor_depths(*self._numbers(), depths, self.choices.damping)
        return [self._answers(each.T)[0] for each in sums.unbind(1)]

    def trace(self, n_layers: int) -> Iterator[Layer] | None:
        return self._trace(n_layers) if n_layers and self._native() else None

    def _trace(self, n_layers: int) -> Iterator[Layer]:
        """All layers at once by the kernel; each is made into distributions when it is asked for."""
        yield Layer(0, *self.answers(self.initial()), self.before()["residual"], {})
        sums, residual = kernels.factor_trace(*self._numbers(), n_layers, self.choices.damping)
        for k in range(n_layers):
            yield Layer(k + 1, *self._answers(sums[:, k].T), self.T * residual[:, k], {})

    def _native(self) -> bool:
        """Whether the kernel applies: potentials as numbers, in tables that are not too large."""
        groups = self.wiring.groups
        if not groups or self.has_zeros or any(numbers is not Sums for numbers in self.arithmetic):
            return False
        return kernels.fits([group.shape for group in groups]) and kernels.usable(
            self.unary, self.evidence, *self.scaled_tables
        )

    def _numbers(self) -> tuple[Tensor, Tensor, Tensor, list[int]]:
        """What the kernel takes: tables, unaries with evidence, and the graph."""
        tables = [self.used(k).flatten() for k in range(len(self.scaled_tables))]
        alone = (self.unary + self.scaled_evidence).T
        groups = self.wiring.groups
        own = [len(group.tables) > 1 or len(group.scope) == 1 for group in groups]
        described = kernels.described([group.shape for group in groups], [len(group.scope) for group in groups], own)
        return tables[0] if len(tables) == 1 else torch.cat(tables), alone, self.where.places, described


def _normalised(message: Tensor) -> Tensor:
    """The same message [S, …] with its largest entry at 0. No answer depends on this constant; but its gradient makes that
    of a message sum to 0 over the states, or each layer would multiply what rounding leaves of that sum."""
    return message - message.amax(0).clamp_min(torch.finfo(message.dtype).min)  # if all are −∞, they remain so
