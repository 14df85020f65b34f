"""Mean field, unrolled: the joint distribution as a product of one distribution for each variable.

The best such product q(x) = ∏_i q_i(x_i) maximises a lower bound on log Z, F(q) = Σ_x q(x) log p̃(x) + H(q). One factor at a
time, the others kept, its maximum is

    q_i(x_i) ∝ exp(field_i(x_i)),   field_i(x_i) = θ_i(x_i) + u_i(x_i) + Σ_f E_{q of the others}[table_f(x_i, others)].

A layer updates all of them: at once ("flooding"), or one set of variables that no factor joins after the other ("sequential"),
which never lowers the bound. Two variables that are surely equal but otherwise unknown are ½ each to belief propagation; mean
field decides on one of the answers. As a network it is cheap (no messages, matrix products alone), and is trained for its
queries like any other.

    model(query, engine=qtcore.MeanField(n_layers=20))
    mean_field.log_z(model, query)      # the bound

At a temperature T, q_i ∝ exp(field_i/T), and the marginals that are reported are softmax(field_i), as those of belief
propagation are at its temperature.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Normal
from torch.nn.functional import pad

from qtcore.errors import InputError
from qtcore.evidence import HARD_LOGIT, BinaryEvidence, GaussianEvidence
from qtcore.inference.bp import categorical
from qtcore.inference.bp.factors import Sums, outgoing
from qtcore.inference.bp.grid import arrive
from qtcore.inference.bp.passing import Choices, check_size, damp
from qtcore.inference.engine import Answerable, change_of_marginals
from qtcore.inference.layered import Layered
from qtcore.potentials import BinaryPotentials, FactorPotentials, GaussianPotentials, GridPotentials
from qtcore.query import Query
from qtcore.support.tensors import has_values
from qtcore.wiring import Wiring

SCHEDULES = ("flooding", "sequential")
"""The first is the default."""


class Field(ABC):
    """Mean field for one query. Its state holds what the others add to every variable's field: 0 before the first layer, when
    each q_i is given by its unaries alone."""

    choices: Choices
    potentials: Any

    @abstractmethod
    def initial(self) -> Tensor:
        """0 for every variable, batch first but for a factor graph."""

    @abstractmethod
    def added(self, state: Tensor) -> Tensor:
        """What the others add to the field of each variable, at the q of this state."""

    @abstractmethod
    def answers(self, state: Tensor) -> tuple[Distribution, Distribution]:
        """Marginals of the visible and of the hidden variables."""

    @abstractmethod
    def sets(self) -> list[Tensor]:
        """Sets of variables that no factor joins, as masks that fit the state."""

    def update(self, state: Tensor) -> Tensor:
        """One layer."""
        d = self.choices.damping
        if self.choices.schedule == "flooding":
            return damp(self.added(state), state, d)
        for where in self.sets():
            state = torch.where(where, damp(self.added(state), state, d), state)
        return state

    def softmax(self, log: Tensor, dim: int) -> Tensor:
        """q from the fields, along one dimension; at T = 0 all on the largest (evenly where several are)."""
        if self.choices.sums:
            assert self.choices.T is not None
            return torch.softmax(categorical.scale(log, 1 / self.choices.T), dim)
        best = (log == log.amax(dim, keepdim=True)).to(log.dtype)
        return best / best.sum(dim, keepdim=True)


class BinaryField(Field):
    """Of an RBM, or a DBM written as one: visible and hidden variables side by side [B, V + H], as log-odds."""

    def __init__(self, potentials: BinaryPotentials, evidence: BinaryEvidence, choices: Choices) -> None:
        self.potentials, self.choices = potentials, choices
        check_size(choices, potentials.W, potentials.c_v, potentials.c_h, raw=True)
        count = len(potentials.c_v) + len(potentials.c_h)
        soft, self.hard = (pad(tensor, (0, count - tensor.shape[1])) for tensor in evidence)
        self.alone = torch.cat([potentials.c_v, potentials.c_h]) + soft

    def initial(self) -> Tensor:
        return torch.zeros_like(self.alone)

    def added(self, state: Tensor) -> Tensor:
        """A factor scores 0 for agreement and −w else: W E[h̃], with h̃ = ±1."""
        odds = self.alone + state
        spin = torch.tanh(odds / (2 * self.choices.T)) if self.choices.sums else torch.sign(odds)  # type: ignore[operator]
        visible, hidden = torch.where(self.hard != 0, self.hard, spin).split(
            [len(self.potentials.c_v), len(self.potentials.c_h)], 1
        )
        return torch.cat([hidden @ self.potentials.W, visible @ self.potentials.W.T], 1)

    def answers(self, state: Tensor) -> tuple[Distribution, Distribution]:
        odds = torch.where(self.hard != 0, HARD_LOGIT * self.hard, self.alone + state)
        answers: tuple[Distribution, Distribution] = self.potentials.answers(odds)
        return answers

    def sets(self) -> list[Tensor]:
        visible = torch.arange(self.alone.shape[1], device=self.alone.device) < len(self.potentials.c_v)
        return [~visible, visible]


class GaussianField(Field):
    """Of a Gaussian RBM: the linear parts of pixels and the log-odds of hidden units side by side [B, V + H].

    A pixel's precision is that of its own evidence, whatever the others are.
    """

    def __init__(self, potentials: GaussianPotentials, evidence: GaussianEvidence, choices: Choices) -> None:
        self.potentials, self.evidence, self.choices = potentials, evidence, choices
        self.count = [len(potentials.prior_linear), len(potentials.c)]

    def initial(self) -> Tensor:
        return self.evidence.linear.new_zeros(len(self.evidence.linear), sum(self.count))

    def _mean(self, linear: Tensor) -> Tensor:
        """A clamped pixel stays where it is."""
        return (self.evidence.linear + torch.where(self.evidence.clamped, 0, linear)) / self.evidence.precision

    def added(self, state: Tensor) -> Tensor:
        linear, odds = state.split(self.count, 1)
        W, c = self.potentials.W, self.potentials.c
        return torch.cat([torch.sigmoid(c + odds) @ W, self._mean(linear) @ W.T], 1)

    def answers(self, state: Tensor) -> tuple[Distribution, Distribution]:
        linear, odds = state.split(self.count, 1)
        mean, deviation = self._mean(linear), self.evidence.precision.rsqrt()
        return Normal(mean, deviation, validate_args=False), Bernoulli(logits=self.potentials.c + odds, validate_args=False)

    def sets(self) -> list[Tensor]:
        pixel = torch.arange(sum(self.count), device=self.potentials.W.device) < self.count[0]
        return [~pixel, pixel]


class GridField(Field):
    """Of a grid [B, height, width, S]."""

    def __init__(self, potentials: GridPotentials, evidence: Tensor, choices: Choices) -> None:
        self.potentials, self.choices = potentials, choices
        self.tables = potentials.by_direction()
        check_size(choices, self.tables, raw=True)
        self.alone = potentials.spread(evidence)

    def initial(self) -> Tensor:
        return torch.zeros_like(self.alone)

    def added(self, state: Tensor) -> Tensor:
        q = self.softmax(self.alone + state, -1)
        return torch.stack([arrive(q @ table, d) for d, table in enumerate(self.tables)]).sum(0)

    def answers(self, state: Tensor) -> tuple[Distribution, Distribution]:
        answers: tuple[Distribution, Distribution] = self.potentials.answers(
            self.alone + state if self.potentials.own_evidence else state
        )
        return answers

    def sets(self) -> list[Tensor]:
        """No two pixels in odd (or even) rows and odd (or even) columns are neighbours."""
        height, width = self.alone.shape[1:3]
        row = torch.arange(height, device=self.alone.device)[:, None, None]
        column = torch.arange(width, device=self.alone.device)[:, None]
        return [(row % 2 == down) & (column % 2 == right) for down in (0, 1) for right in (0, 1)]


class FactorField(Field):
    """Of any factor graph without zeros: a number for every state of every variable [total, B]."""

    def __init__(self, potentials: FactorPotentials, evidence: Tensor, choices: Choices) -> None:
        self.potentials, self.choices, self.evidence = potentials, choices, evidence
        self.wiring, self.where = potentials.wiring, potentials.wiring.on(evidence.device)
        ends = check_size(choices, potentials.unary, *potentials.tables, raw=True)
        if any(low == -torch.inf for low, _ in ends[1:]):
            raise InputError(
                "mean field needs factors that are positive everywhere, but zeros in tables and logic factors rule states out; "
                "give another engine, such as qtcore.BP()."
            )
        self.alone = potentials.unary[:, None] + evidence
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        if not has_values(self.alone):
            return
        impossible = self.where.rows(self.alone).isneginf().all(2)
        if bool(impossible.any()):
            row, variable = impossible.nonzero()[0].tolist()
            raise InputError(self.potentials.contradiction(variable, row if len(impossible) > 1 else None))

    def initial(self) -> Tensor:
        return torch.zeros_like(self.alone)

    def q(self, state: Tensor) -> Tensor:
        """The probability of every state of every variable [total, B]."""
        return self.where.flat(self.softmax(self.where.rows(self.alone + state), 2))

    def expected(self, q: Tensor) -> "list[list[Tensor]]":
        """For each group and each axis of its tables, E[table | x_axis] [S, F, B] under the q of the others."""
        spread, result = self.where.spread(q), []
        for blocks, group, used, tables in zip(
            self.where.blocks, self.wiring.groups, self.where.tables, self.potentials.tables, strict=True
        ):
            table = (tables if used is None else tables.index_select(0, used)).movedim(0, -1).contiguous()
            incoming = [spread[block].view(size, -1, q.shape[1]) for block, size in zip(blocks, group.shape, strict=True)]
            result.append(outgoing(table, incoming, Sums))
        return result

    def added(self, state: Tensor) -> Tensor:
        parts = [sent.flatten(0, 1) for group in self.expected(self.q(state)) for sent in group]
        return self.where.collect(torch.cat(parts)) if parts else state

    def answers(self, state: Tensor) -> tuple[Distribution, Distribution]:
        shown = self.potentials.unary[:, None] + state + self.evidence.clamp_min(categorical.HARD_LOG)
        return self.potentials.answers(self.where.rows(shown))

    def sets(self) -> list[Tensor]:
        colour = torch.tensor(colours(self.wiring), device=self.alone.device)[self.where.variable]
        return [(colour == k)[:, None] for k in range(int(colour.max()) + 1)]

    def bound(self, state: Tensor) -> Tensor:
        """F(q) [B], which is at most log Z given the evidence."""
        q = self.q(state)
        own = torch.where(q > 0, q * torch.where(q > 0, self.alone, 0), 0).sum(0)
        entropy = -torch.special.xlogy(q, q).sum(0)
        spread = self.where.spread(q)
        for sent, blocks in zip(self.expected(q), self.where.blocks, strict=True):
            own = own + (sent[0].flatten(0, 1) * spread[blocks[0]]).sum(0)
        return own + entropy


def colours(wiring: Wiring) -> list[int]:
    """A number for each variable, another one than those of all it shares a factor with: greedily, from the first on."""
    near: list[set[int]] = [set() for _ in wiring.n_states]
    for group in wiring.groups:
        for scope in group.scope.tolist():
            for variable in scope:
                near[variable].update(scope)
    result = [-1] * len(near)
    for variable, others in enumerate(near):
        taken = {result[other] for other in others}
        result[variable] = next(k for k in range(len(taken) + 1) if k not in taken)
    return result


FIELDS: dict[type, type[Any]] = {
    BinaryPotentials: BinaryField,
    GaussianPotentials: GaussianField,
    GridPotentials: GridField,
    FactorPotentials: FactorField,
}


class State(NamedTuple):
    """What the next layer needs."""

    field: Field
    added: Tensor


@dataclass(frozen=True)
class MeanField(Layered):
    """Mean field, unrolled. An option that is None is taken from the model's own engine, if that is mean field too; the number
    of layers from any engine that has one.

    Args:
        n_layers: number of updates of all variables.
        damping: weight of the old field in the new one; 0 means none.
        temperature: of the distributions that the fields are averages over; for models of discrete variables.
        schedule: "flooding" (all variables at once) or "sequential" (one set of variables that no factor joins after the
            other: the hidden and then the visible ones of an RBM).
        until: stop when no marginal changes by more than this.
        at_most: the largest number of layers, if `until` is given.

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.RBM(6, 3)
        >>> query = qtcore.Query(torch.ones(1, 6), torch.arange(6)[None] < 4)
        >>> model(query, engine=qtcore.MeanField(n_layers=5)).probs.shape
        torch.Size([1, 6])
    """

    name = "mean-field"

    def field(self, model: Answerable, query: Query) -> Field:
        """Mean field for this model and this query."""
        potentials = model.graph()
        return self._field(model, potentials, model.evidence(query))

    def _field(self, model: Answerable, potentials: Any, evidence: Any) -> Any:
        kind = next(FIELDS[base] for base in type(potentials).__mro__ if base in FIELDS)
        T, sums = self._unit(model)
        if T is None:
            T = torch.ones(())
        choices = Choices(T, sums, self._damping(model), self._schedule(model, SCHEDULES), False, type(model).__name__)
        return kind(potentials, evidence, choices)

    def init(self, model: Answerable, query: Query) -> State:
        field = self.field(model, query)
        return State(field, field.initial())

    def step(self, state: State) -> tuple[State, dict[str, Tensor]]:
        after = State(state.field, state.field.update(state.added))
        change = change_of_marginals(state.field.answers(state.added), after.field.answers(after.added))
        return after, {"residual": change}

    def marginals(self, state: State) -> Distribution:
        return state.field.answers(state.added)[0]

    def hidden(self, state: State) -> Distribution:
        return state.field.answers(state.added)[1]

    def run(self, model: Answerable, query: Query) -> Distribution:
        if self.until is not None:
            return super().run(model, query)
        return self.run_depths(model, query, [self.steps(model)])[0]

    def run_depths(self, model: Answerable, query: Query, depths: Any) -> list[Distribution]:
        if self.until is not None:
            return super().run_depths(model, query, depths)
        model.check(query)
        field, marginals, done = self.field(model, query), [], 0
        state = field.initial()
        for depth in depths:
            for _ in range(depth - done):
                state = field.update(state)
            done = depth
            marginals.append(field.answers(state)[0])
        return marginals

    def kept_bytes(self, model: Answerable, shape: tuple[int, ...]) -> int:
        potentials = model.graph()
        if isinstance(potentials, FactorPotentials):
            kept = 4 * sum(len(group.scope) * sum(group.shape) for group in potentials.wiring.groups)
            return self.steps(model) * max(1, kept) * potentials.unary.dtype.itemsize
        if isinstance(potentials, GridPotentials):
            table = potentials.tables
            return self.steps(model) * 12 * shape[0] * shape[1] * table.shape[-1] * table.dtype.itemsize
        return self.steps(model) * 6 * sum(potentials.W.shape) * potentials.W.dtype.itemsize


def log_z(model: Answerable, query: Query, engine: MeanField | None = None) -> Tensor:
    """A lower bound on log Z given the evidence of each query [B], after the layers of an engine, at temperature 1.

    Example:
        >>> import torch, qtcore
        >>> from qtcore.inference import mean_field
        >>> loop = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2), (2, 0)])
        >>> nothing = qtcore.Query(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
        >>> bool(mean_field.log_z(loop, nothing) < qtcore.exact.log_z(loop))
        True
    """
    model.check(query)
    engine, potentials = engine or MeanField(), model.graph()
    if isinstance(potentials, GaussianPotentials):
        raise InputError("this bound is for models of discrete variables.")
    field: FactorField = engine._field(model, *potentials.as_factors(model.evidence(query)))
    if not field.choices.sums or float(field.choices.T.detach()) != 1:  # type: ignore[union-attr]
        raise InputError("mean field bounds the sum over all states: it needs the temperature 1.")
    state = field.initial()
    for _ in range(engine.steps(model)):
        state = field.update(state)
    return field.bound(state)
