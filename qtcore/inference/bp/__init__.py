"""Loopy belief propagation, unrolled: one layer sends every message once (main text, "Unrolling BP into a QT-NN").

`BP` is the engine, and `MessagePassing` what it has in common with the reweighted one (`qtcore.inference.reweighted`). The form
of a message depends on the graph, so each kind of potentials has its own module: `binary`, `gaussian`, `grid`, and `factors`
for everything else. Native kernels and torch.compile run the same layers faster; they never change an answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from qtcore.inference.bp.binary import BinaryPassing
from qtcore.inference.bp.factors import FactorPassing
from qtcore.inference.bp.gaussian import GaussianPassing
from qtcore.inference.bp.grid import GridPassing
from qtcore.inference.bp.passing import Choices, Passing
from qtcore.inference.bp.schedules import RandomPassing, ResidualPassing, SequentialPassing
from qtcore.inference.engine import Answerable, Layer, with_periods
from qtcore.inference.layered import Layered
from qtcore.potentials import BinaryPotentials, FactorPotentials, GaussianPotentials, GridPotentials, Potentials
from qtcore.query import Query

PASSING: dict[type, type[Passing]] = {
    BinaryPotentials: BinaryPassing,
    GaussianPotentials: GaussianPassing,
    GridPotentials: GridPassing,
    FactorPotentials: FactorPassing,
}

SCHEDULED: dict[str, type[Passing]] = {
    "sequential": SequentialPassing,
    "random": RandomPassing,
    "residual": ResidualPassing,
}
"""On factor graphs, by the schedule."""

SCHEDULES = tuple(sorted({schedule for kind in PASSING.values() for schedule in kind.schedules}))
"""All schedules; a model may have only some of them."""


class State(NamedTuple):
    """What the next layer needs."""

    passing: Passing
    messages: Any


@dataclass(frozen=True)
class MessagePassing(Layered):
    """An engine whose state is messages. A subclass says how they are passed for one query."""

    def passing(self, model: Answerable, query: Query) -> Passing:
        """Message passing for this model and this query."""
        raise NotImplementedError

    def factor_passing(self, model: Answerable, query: Query) -> FactorPassing:
        """The same on the model's factor graph, whatever its own form is; at temperature 1."""
        raise NotImplementedError

    def init(self, model: Answerable, query: Query) -> State:
        passing = self.passing(model, query)
        return State(passing, passing.initial())

    def step(self, state: State) -> tuple[State, dict[str, Tensor]]:
        messages, info = state.passing.update(state.messages)
        return State(state.passing, messages), info

    def marginals(self, state: State) -> Distribution:
        return state.passing.answers(state.messages)[0]

    def hidden(self, state: State) -> Distribution:
        return state.passing.answers(state.messages)[1]

    def messages(self, state: State) -> dict[str, Tensor]:
        return state.passing.shown(state.messages)

    def _layer(self, index: int, state: State, info: dict[str, Tensor]) -> Layer:
        marginals, hidden = state.passing.answers(state.messages)  # both at once
        info = dict(info or state.passing.before())
        residual = info.pop("residual")
        return Layer(index, marginals, hidden, residual, self.messages(state), info)

    # ------------------------------------------------------------------ fast paths

    def run(self, model: Answerable, query: Query) -> Distribution:
        if self.until is not None:
            return super().run(model, query)
        model.check(query)
        return self.passing(model, query).after(self.steps(model))

    def run_depths(self, model: Answerable, query: Query, depths: Sequence[int]) -> list[Distribution]:
        if self.until is not None:
            return super().run_depths(model, query, depths)
        model.check(query)
        passing = self.passing(model, query)
        return [passing.after(depths[0])] if len(depths) == 1 else passing.after_each(depths)

    def trace(self, model: Answerable, query: Query) -> Iterator[Layer]:
        if self.until is None:
            model.check(query)
            quick = self.passing(model, query).trace(self.steps(model))
            if quick is not None:
                return with_periods(quick)
        return self.layers(model, query)


@dataclass(frozen=True)
class BP(MessagePassing):
    """Loopy belief propagation. An option that is None is taken from the model.

    Args:
        n_layers: number of updates of all messages.
        damping: weight of the old message in the new one; 0 means none.
        temperature: 1 is sum-product, 0 is max-product; for models of discrete variables.
        schedule: "flooding" (all messages at once); of a factor graph also "sequential" (one factor after the other),
            "random" (the same, in another order in each layer) and "residual" (the largest pending changes); of a GaussianRBM
            "sequential" (to the hidden units, then back).
        until: stop when no message changes by more than this.
        at_most: the largest number of layers, if `until` is given; `model(query, n)` sets it to n.
        torch_compile: compile the layers with torch.compile on devices without native kernels (a GPU).

    Example:
        >>> import torch, qtcore
        >>> loop = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2), (2, 0)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> loop(query, engine=qtcore.BP(damping=0.5, until=1e-4, at_most=100)).probs.shape
        torch.Size([1, 3, 2])
    """

    name = "bp"
    torch_compile: bool = False

    def passing(self, model: Answerable, query: Query) -> Passing:
        potentials, own = model.graph(), self._own(model)
        kind = _passing_of(potentials)
        schedule = self._schedule(model, kind.schedules)
        T, sums = self._unit(model)
        if T is None and kind.has_unit:
            T = torch.ones(())  # no temperature is T = 1
        compiled = self.torch_compile or own.torch_compile
        choices = Choices(T, sums, self._damping(model), schedule, compiled, type(model).__name__)
        if kind is FactorPassing:
            kind = SCHEDULED.get(schedule, kind)
        return kind(potentials, model.evidence(query), choices)

    def factor_passing(self, model: Answerable, query: Query) -> FactorPassing:
        own, potentials = self.passing(model, query), model.graph()
        assert not isinstance(potentials, GaussianPotentials)
        kind = type(own) if isinstance(own, FactorPassing) else FactorPassing
        return kind(*potentials.as_factors(model.evidence(query)), own.choices)

    def kept_bytes(self, model: Answerable, shape: tuple[int, ...]) -> int:
        potentials = model.graph()
        return _passing_of(potentials).kept_bytes(potentials, shape, self.steps(model), self._damping(model) > 0)


def _passing_of(potentials: Potentials) -> type[Passing]:
    """How messages are passed on this kind of graph."""
    return next(PASSING[base] for base in type(potentials).__mro__ if base in PASSING)
