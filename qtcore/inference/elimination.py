"""Exact sums over a factor graph by eliminating one variable after the other, for graphs of moderate width.

To eliminate a variable, all tables with it are added up and summed over it, which leaves one table on its neighbours. The
order decides how large these tables become (`orders`); the variables of the largest one, less one, are the width of that order.

What is left at last is log Z, and its derivative with respect to the log-evidence of a state is the marginal of that
state: torch's backward pass through the eliminations is the second half of the junction tree algorithm. States that evidence
or a zero of a single variable rules out are taken out first, which is what makes evidence narrow a graph.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from qtcore import logic
from qtcore.errors import InputError
from qtcore.inference.bp import logic as closed_form
from qtcore.inference.bp.factors import Maxima, outgoing
from qtcore.inference.orders import MAX_TOTAL, Order, Scope, best_order, min_fill
from qtcore.potentials import FactorPotentials
from qtcore.support.tensors import log_sum


class Narrowed:
    """A factor graph with evidence for a batch of queries, which all rule out the same states of each variable.

    The states that are left are numbered anew; variables with one state left are out of the tables.
    """

    def __init__(self, potentials: FactorPotentials, alone: Tensor, possible: npt.NDArray[np.bool_]) -> None:
        """`alone` are the terms of single variables, evidence included [total, B]; `possible` says which states are left."""
        wiring = potentials.wiring
        sizes = np.array(wiring.n_states)
        self.offset = sizes.cumsum() - sizes
        self.states = [np.flatnonzero(part) for part in np.split(possible, self.offset[1:])]
        for variable, states in enumerate(self.states):
            if not len(states):
                raise InputError(potentials.contradiction(variable, None))
        self.sizes = [len(states) for states in self.states]
        self.alone, self.batch = alone, alone.shape[1]
        self.tables: list[tuple[Scope, Tensor]] = []
        """Log-potentials, each with its scope, and an axis for the batch at its end."""
        self.rules = [(group.rule, scope) for group in wiring.groups if group.rule for scope in group.scope.tolist()]
        for group, tables in zip(wiring.groups, potentials.tables, strict=True):
            if group.rule:
                continue
            stack = tables.to("cpu", torch.float64)
            for scope, which in zip(group.scope.tolist(), group.table.tolist(), strict=True):
                self.tables.append(self._reduced(scope, stack[which]))

    @property
    def scopes(self) -> list[Scope]:
        """Of all factors, the logic factors last."""
        return [scope for scope, _ in self.tables] + [self._kept(scope) for _, scope in self.rules]

    def write_rules(self) -> None:
        """Make tables of the logic factors: when it is known that none is too large."""
        for rule, scope in self.rules:
            which = logic.allowed(rule, [self.states[i].tolist() for i in scope])
            table = torch.zeros(which.shape, dtype=torch.float64).masked_fill(~which, -math.inf)
            self.tables.append((self._kept(scope), table[..., None]))
        self.rules = []

    def own(self, variable: int) -> Tensor:
        """The terms of a variable alone [states left, B]."""
        return self.alone[torch.from_numpy(self.offset[variable] + self.states[variable])]

    def _kept(self, scope: Sequence[int]) -> Scope:
        return tuple(variable for variable in scope if self.sizes[variable] > 1)

    def _reduced(self, scope: Sequence[int], table: Tensor) -> tuple[Scope, Tensor]:
        """A table on the states that are left, with an axis for the batch at its end."""
        for axis, variable in enumerate(scope):
            if self.sizes[variable] < table.shape[axis]:
                table = table.index_select(axis, torch.from_numpy(self.states[variable]))
        kept = self._kept(scope)
        return kept, table.reshape(*(self.sizes[variable] for variable in kept), 1)


class Elimination(Narrowed):
    """A narrowed factor graph, and an order in which its variables are eliminated."""

    def __init__(
        self, potentials: FactorPotentials, alone: Tensor, possible: npt.NDArray[np.bool_], twice: bool = False
    ) -> None:
        """`twice` says that derivatives of the marginals will be asked for."""
        super().__init__(potentials, alone, possible)
        self.twice = twice
        self.order = best_order(self.sizes, self.scopes)
        self.write_rules()

    def _buckets(self, maximise: bool, keep: bool) -> tuple[Tensor, list[tuple[int, Scope, Tensor]]]:
        """log Z (or the largest log-weight) [B]; and, if they are to be kept, for each variable, in order, its neighbours then
        and the table with them.

        The variable itself is on the table's first axis.
        """
        constant = torch.zeros(self.batch, dtype=torch.float64)
        waiting: dict[int, list[tuple[Scope, Tensor]]] = {}
        rank = {variable: k for k, variable in enumerate(self.order.variables)}

        def hand_on(scope: Scope, table: Tensor) -> Tensor:
            if scope:
                waiting.setdefault(min(scope, key=rank.__getitem__), []).append((scope, table))
                return constant
            return constant + table

        for scope, table in self.tables:
            constant = hand_on(scope, table)
        for variable, size in enumerate(self.sizes):
            own = self.own(variable)
            constant = hand_on((variable,), own) if size > 1 else constant + own[0]
        buckets = []
        for variable in self.order.variables:
            if self.sizes[variable] == 1:
                continue
            tables = waiting.pop(variable)
            others = sorted({i for scope, _ in tables for i in scope} - {variable}, key=rank.__getitem__)
            axes = {i: axis for axis, i in enumerate((variable, *others))}
            if keep:
                bucket = _sum(axes, self.sizes, [scope for scope, _ in tables], [table for _, table in tables])
                buckets.append((variable, tuple(others), bucket))
                constant = hand_on(tuple(others), bucket.amax(0) if maximise else log_sum(bucket, 0))
            else:
                constant = hand_on(tuple(others), self._summed(axes, tables))
        return constant, buckets

    def _summed(self, axes: dict[int, int], tables: Sequence[tuple[Scope, Tensor]]) -> Tensor:
        """Tables added up and summed over the first axis."""
        scopes = [scope for scope, _ in tables]
        if self.twice:
            return log_sum(_sum(axes, self.sizes, scopes, [table for _, table in tables]), 0)
        result: Tensor = _Summed.apply(axes, self.sizes, scopes, *(table for _, table in tables))
        return result

    @property
    def log_z(self) -> Tensor:
        """log Σ of the weights of all states [B], −∞ where there is none."""
        return self._buckets(maximise=False, keep=False)[0].expand(self.batch)

    def mode(self) -> Tensor:
        """The most probable joint state of each query [B, n]."""
        _, buckets = self._buckets(maximise=True, keep=True)
        return self._chosen(buckets, 1, lambda scores: scores.argmax(-1))[0]

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Joint states drawn from the distribution of each query [count, B, n]: each variable, against the order of
        elimination, given those that are drawn already."""
        _, buckets = self._buckets(maximise=False, keep=True)

        def draw(scores: Tensor) -> Tensor:
            shares = scores.softmax(-1)
            return torch.multinomial(shares.flatten(0, 1), 1, generator=generator).view(shares.shape[:2])

        return self._chosen(buckets, count, draw)

    def _chosen(
        self, buckets: list[tuple[int, Scope, Tensor]], count: int, choose: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Joint states [count, B, n], variable after variable, chosen by their scores given the others [count, B, S]."""
        chosen = torch.zeros(count, self.batch, len(self.sizes), dtype=torch.long)
        rows = torch.arange(self.batch).expand(count, -1)
        for variable, others, bucket in reversed(buckets):
            at = [chosen[..., i] for i in others]
            scores = bucket.expand(*bucket.shape[:-1], self.batch).movedim(0, -1)
            chosen[..., variable] = choose(scores[(*at, rows)])
        return torch.stack([torch.from_numpy(states)[chosen[..., i]] for i, states in enumerate(self.states)], -1)


def along(axes: dict[int, int], sizes: Sequence[int], scope: Scope, table: Tensor) -> Tensor:
    """A table on common axes, the batch last, to be broadcast over those that it does not have."""
    order = sorted(range(len(scope)), key=lambda axis: axes[scope[axis]])
    shape = [1] * len(axes)
    for variable in scope:
        shape[axes[variable]] = sizes[variable]
    return table.permute(*order, len(scope)).reshape(*shape, table.shape[-1])


def _sum(axes: dict[int, int], sizes: Sequence[int], scopes: Sequence[Scope], tables: Sequence[Tensor]) -> Tensor:
    """Tables added up on common axes, small ones first."""
    aligned = sorted((along(axes, sizes, *each) for each in zip(scopes, tables, strict=True)), key=Tensor.numel)
    total = aligned[0]
    for other in aligned[1:]:
        total = total + other
    return total


class _Summed(torch.autograd.Function):
    """log Σ exp over the first axis of a sum of tables. The sum itself is not kept: it is made again for the gradient."""

    @staticmethod
    def forward(ctx: Any, axes: dict[int, int], sizes: Sequence[int], scopes: Sequence[Scope], *tables: Tensor) -> Tensor:
        total = _sum(axes, sizes, scopes, tables)
        top = total.amax(0)
        top = top.masked_fill_(top.isneginf(), 0)
        result = (total - top).exp_().sum(0).log_().add_(top)
        ctx.about = axes, sizes, scopes
        ctx.save_for_backward(result, *tables)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        result, *tables = ctx.saved_tensors
        axes, sizes, scopes = ctx.about
        finite = result.masked_fill(result.isneginf(), 0)
        share = (_sum(axes, sizes, scopes, tables) - finite).exp_().mul_(gradient)
        gradients: list[Tensor | None] = [None, None, None]
        for number, (scope, table) in enumerate(zip(scopes, tables, strict=True)):
            if not ctx.needs_input_grad[3 + number]:
                gradients.append(None)
                continue
            summed = share.sum_to_size(along(axes, sizes, scope, table).shape)
            kept = sorted(scope, key=axes.__getitem__)
            own = summed.reshape(*(sizes[i] for i in kept), table.shape[-1])
            gradients.append(own.permute(*(kept.index(i) for i in scope), len(scope)))
        return tuple(gradients)


@torch.no_grad()
def consistent(potentials: FactorPotentials, alone: Tensor) -> Tensor:
    """Which states [total, B] no single term and no factor rules out, given what is left of its other variables.

    Those are the zeros that belief propagation finds, passed on until there are no more: whatever is 0 has probability 0.
    """
    where, groups = potentials.wiring.on(alone.device), potentials.wiring.groups
    possible = ~alone.isneginf()
    tables = [_zeros(each.detach().to("cpu")) for each in potentials.tables]  # of a rule: −∞
    if not any(bool(each.isneginf().any()) for each in tables):
        return possible
    used = [each if which is None else each.index_select(0, which) for each, which in zip(tables, where.tables, strict=True)]
    while True:
        incoming = where.spread(_zeros(alone.masked_fill(~possible, -math.inf)))
        sent = torch.zeros_like(incoming)
        for blocks, group, table in zip(where.blocks, groups, used, strict=True):
            given = [incoming[block].view(size, -1, alone.shape[1]) for block, size in zip(blocks, group.shape, strict=True)]
            if group.rule:
                messages = list(closed_form.messages(group.rule, torch.stack(given), False))
            else:
                messages = outgoing(table.movedim(0, -1), given, Maxima)
            for block, message in zip(blocks, messages, strict=True):
                sent[block] = message.isneginf().flatten(0, 1).to(sent.dtype)
        fewer = possible & (where.collect(sent) == 0)
        if torch.equal(fewer, possible):
            return possible
        possible = fewer


def _zeros(log: Tensor) -> Tensor:
    """−∞ where a log-potential is, 0 elsewhere."""
    return torch.zeros_like(log).masked_fill(log.isneginf(), -math.inf)


@torch.no_grad()
def order_of(potentials: FactorPotentials, evidence: Tensor) -> Order:
    """The min-fill order for a query of one row, however large its tables are."""
    alone = potentials.unary.detach().to("cpu", torch.float64)[:, None] + evidence.to("cpu", torch.float64)
    possible = consistent(potentials, alone)[:, 0].numpy()
    sizes = np.array(potentials.wiring.n_states)
    left = np.add.reduceat(possible, sizes.cumsum() - sizes, dtype=np.int64).clip(1).tolist()
    scopes = [scope for group in potentials.wiring.groups for scope in group.scope.tolist()]
    return min_fill(left, [tuple(i for i in scope if left[i] > 1) for scope in scopes], refuse=False)


class EliminationPosterior:
    """p(x | evidence) for each query of a batch, by elimination: what `exact` asks of a posterior."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor) -> None:
        self.potentials = potentials
        self.evidence = evidence.to("cpu", torch.float64)
        self.unary = potentials.unary.to("cpu", torch.float64)[:, None]

    def parts(self, alone: Tensor, twice: bool = False) -> "list[tuple[Tensor, Elimination]]":
        """The queries that rule out the same states, and their elimination."""
        possible = consistent(self.potentials, alone.detach())
        patterns: dict[bytes, list[int]] = {}
        for row, column in enumerate(possible.T.numpy()):
            patterns.setdefault(np.packbits(column).tobytes(), []).append(row)
        result = []
        for rows in patterns.values():
            first = possible[:, rows[0]].numpy()
            room = MAX_TOTAL
            while rows:
                part = Elimination(self.potentials, alone[:, rows[:1]], first, twice)
                count = max(1, int(room / max(1, part.order.total)))
                index = torch.tensor(rows[:count])
                if len(index) > 1:
                    part = Elimination(self.potentials, alone[:, index], first, twice)
                result.append((index, part))
                rows = rows[count:]
        return result

    def answers(self) -> "tuple[torch.distributions.Distribution, torch.distributions.Distribution]":
        """Marginals: the derivatives of log Z with respect to the terms of single variables."""
        tracked = torch.is_grad_enabled() and (self.unary.requires_grad or any(t.requires_grad for t in self.potentials.tables))
        with torch.enable_grad():
            alone = self.unary + self.evidence
            alone = alone if alone.requires_grad and tracked else alone.detach().requires_grad_()
            marginals = torch.zeros_like(alone)
            for index, part in self.parts(alone, tracked):
                log_z = part.log_z
                self._refuse_impossible(log_z, index)
                (gradient,) = torch.autograd.grad(log_z.sum(), alone, create_graph=tracked)
                marginals = marginals.index_copy(1, index, gradient[:, index])
            logs = torch.where(marginals > 0, marginals, 1).log().masked_fill(marginals <= 0, -math.inf)
        logs = logs if tracked else logs.detach()
        return self.potentials.answers(self.potentials.wiring.on(logs.device).rows(logs))

    def _refuse_impossible(self, log_z: Tensor, index: Tensor) -> None:
        if bool(log_z.isneginf().any()):
            row = int(index[log_z.isneginf().nonzero()[0]])
            where = f" in row {row}" if self.evidence.shape[1] > 1 else ""
            raise InputError(f"the evidence{where} has probability 0 under this model, so that no marginals exist.")

    @torch.no_grad()
    def most_probable(self) -> tuple[Tensor, Tensor]:
        alone = (self.unary + self.evidence).detach()
        modes = torch.zeros(alone.shape[1], len(self.potentials.wiring.n_states), dtype=torch.long)
        for index, part in self.parts(alone):
            modes[index] = part.mode()
        return self.potentials.states(modes)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Visible and hidden variables of joint states [count, B, …]."""
        alone = (self.unary + self.evidence).detach()
        states = torch.zeros(count, alone.shape[1], len(self.potentials.wiring.n_states), dtype=torch.long)
        for index, part in self.parts(alone):
            self._refuse_impossible(part.log_z, index)
            states[:, index] = part.sample(count, generator)
        visible, hidden = self.potentials.states(states.flatten(0, 1))
        return visible.unflatten(0, states.shape[:2]), hidden.unflatten(0, states.shape[:2])

    @property
    def log_z(self) -> Tensor:
        """log Z given the evidence of each query [B]; −∞ where it is impossible."""
        alone = self.unary + self.evidence
        result = torch.zeros(alone.shape[1], dtype=torch.float64)
        for index, part in self.parts(alone):
            result = result.index_copy(0, index, part.log_z)
        return result
