"""Belief propagation on any factor graph of categorical variables, messages as logs.

The state holds the message from every factor f to each variable j of its scope,

    m_fj(x_j) = log Σ_{x_i, i ≠ j} exp(table_f(x_f) + Σ_{i ≠ j} cavity_if(x_i)),   cavity_if = belief_i − m_fi,

at temperature 1, and the maximum instead of log Σ exp at temperature 0. For a factor of two variables this is the paper's
message m_ij from one variable to the other. Factors of one shape are computed together; the batch is the last axis.
"""

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import pad

from qtcore.inference.bp import categorical
from qtcore.inference.bp.passing import Choices, Passing, check_size, damp
from qtcore.potentials import FactorPotentials

Messages = tuple[tuple[Tensor, ...], ...]
"""For each group of factors and each axis of their tables, the messages to the variables on that axis [F, S, B]."""


def pair_message(cavity: Tensor, table: Tensor, sums: bool, mild: bool) -> Tensor:
    """log Σ_s exp(table[s, t] + cavity[s]) of every factor: [F, S, B] with [F, S, S'] gives [F, S', B].

    `cavity` may hold −∞ (a state that is ruled out), but not in a whole column.
    """
    if sums and mild:
        top = cavity.detach().amax(1, keepdim=True)
        shift = table.detach().amax((1, 2), keepdim=True)
        product = torch.matmul((table - shift).exp().mT, (cavity - top).exp())
        return product.log() + top + shift
    scores = cavity[:, :, None] + table[..., None]
    return scores.logsumexp(1) if sums else scores.amax(1)


def message(axis: int, cavities: list[Tensor], table: Tensor, sums: bool, mild: bool) -> Tensor:
    """Messages from factors of any order to the variables on one axis of their tables [F, S, B]."""
    order = len(cavities)
    if order == 2:
        return pair_message(cavities[1 - axis], table if axis == 1 else table.mT, sums, mild)
    scores = table[..., None]
    for source, cavity in enumerate(cavities):
        if source != axis:
            shape = [len(cavity), *(cavity.shape[1] if k == source else 1 for k in range(order)), cavity.shape[2]]
            scores = scores + cavity.view(shape)
    others = [k + 1 for k in range(order) if k != axis]
    if not others:
        return scores
    return scores.logsumexp(others) if sums else scores.amax(others)


class FactorPassing(Passing):
    """Messages on a factor graph."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, choices: Choices) -> None:
        assert choices.T is not None
        self.T, self.choices, self.potentials = choices.T, choices, potentials
        self.wiring, self.where = potentials.wiring, potentials.wiring.on(evidence.device)
        self.unary = (potentials.unary / self.T)[:, None]
        self.tables = [
            (tables if used is None else tables[used]) / self.T
            for used, tables in zip(self.where.tables, potentials.tables, strict=True)
        ]
        check_size(choices, self.unary, *self.tables)
        self.mild = [categorical.is_mild(table) for table in self.tables]
        self.evidence = evidence
        self.scaled_evidence = categorical.scale(evidence, 1 / self.T)
        self.entries = self.where.entries

    @property
    def batch(self) -> int:
        return self.scaled_evidence.shape[1]

    def initial(self) -> Messages:
        return tuple(
            tuple(self.scaled_evidence.new_zeros(len(group.scope), size, self.batch) for size in group.shape)
            for group in self.wiring.groups
        )

    def sums(self, messages: Messages) -> Tensor:
        """θ_i + Σ_f m_fi for every state of every variable [total, B]."""
        total = self.unary.expand_as(self.scaled_evidence)
        for entries, group in zip(self.entries, messages, strict=True):
            for entry, arrived in zip(entries, group, strict=True):
                total = total.index_add(0, entry.flatten(), arrived.flatten(0, 1))
        return total

    def send(self, messages: Messages) -> Messages:
        belief = self.sums(messages) + self.scaled_evidence
        new = []
        for entries, table, mild, group in zip(self.entries, self.tables, self.mild, messages, strict=True):
            cavities = [belief[entry] - arrived for entry, arrived in zip(entries, group, strict=True)]
            fresh = (
                categorical.normalise(message(axis, cavities, table, self.choices.sums, mild), 1) for axis in range(len(group))
            )
            new.append(tuple(damp(sent, old, self.choices.damping) for sent, old in zip(fresh, group, strict=True)))
        return tuple(new)

    def update(self, messages: Messages) -> tuple[Messages, dict[str, Tensor]]:
        new, residual = self.send(messages), self.before()["residual"]
        for after, before in zip(new, messages, strict=True):
            for sent, old in zip(after, before, strict=True):
                residual = torch.maximum(residual, categorical.change(sent, old, 1).amax(0))
        return new, {"residual": self.T * residual}

    def answers(self, messages: Messages) -> tuple[Distribution, Distribution]:
        """Marginals; a state that is ruled out gets its −1000, padding −∞."""
        shown = self.evidence.clamp_min(categorical.HARD_LOG)
        return self.potentials.answers(self.where.rows(self.T * self.sums(messages) + shown))

    def shown(self, messages: Messages) -> dict[str, Tensor]:
        """On a pairwise graph, "directed" messages [2E, B, S] padded with 0: entry 2e goes along edge e, 2e + 1 back."""
        groups = self.wiring.groups
        if any(len(group.shape) != 2 for group in groups):
            return {f"factors_{g}_axis_{a}": self.T * sent for g, group in enumerate(messages) for a, sent in enumerate(group)}
        count, states = sum(len(group.scope) for group in groups), max(self.wiring.n_states)
        directed = self.scaled_evidence.new_zeros(2 * count, states, self.batch)
        ends = np.zeros((2, 2 * count), dtype=np.int64)
        for group, (back, forth) in zip(groups, messages, strict=True):
            for way, (sent, size) in enumerate(((forth, group.shape[1]), (back, group.shape[0]))):
                padded = pad(self.T * sent, (0, 0, 0, states - size))
                directed = directed.index_copy(0, torch.tensor(2 * group.number + way, device=padded.device), padded)
                ends[:, 2 * group.number + way] = group.scope.T[:: 1 - 2 * way]
        source, sink = torch.tensor(ends, device=directed.device)
        return {"directed": directed.transpose(1, 2), "source": source, "sink": sink}

    def before(self) -> dict[str, Tensor]:
        return {"residual": self.scaled_evidence.new_zeros(self.batch)}

    @staticmethod
    def kept_bytes(potentials: FactorPotentials, shape: tuple[int, ...], n_layers: int, damped: bool = False) -> int:
        sent = sum(len(group.scope) * sum(group.shape) for group in potentials.wiring.groups)
        return n_layers * max(1, sent) * potentials.unary.dtype.itemsize * 8
