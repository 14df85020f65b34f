"""Loopy belief propagation, unrolled: one layer sends every message once (main text, "Unrolling BP into a QT-NN").

`BP` is the engine. The form of a message depends on the graph, so each kind of potentials has its own module: `binary`,
`gaussian`, `grid`, and `factors` for everything else. Native kernels and torch.compile run the same layers faster; they
never change an answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from qtcore.errors import InputError
from qtcore.inference.bp.binary import BinaryPassing
from qtcore.inference.bp.factors import FactorPassing
from qtcore.inference.bp.gaussian import GaussianPassing
from qtcore.inference.bp.grid import GridPassing
from qtcore.inference.bp.passing import Choices, Passing
from qtcore.inference.bp.schedules import ResidualPassing, SequentialPassing
from qtcore.inference.engine import Answerable, Engine, Layer, with_periods
from qtcore.potentials import BinaryPotentials, FactorPotentials, GaussianPotentials, GridPotentials, Potentials
from qtcore.query import Query
from qtcore.support.tensors import has_values

PASSING: dict[type, type[Passing]] = {
    BinaryPotentials: BinaryPassing,
    GaussianPotentials: GaussianPassing,
    GridPotentials: GridPassing,
    FactorPotentials: FactorPassing,
}

SCHEDULED: dict[str, type[Passing]] = {"sequential": SequentialPassing, "residual": ResidualPassing}
"""On factor graphs, by the schedule."""

SCHEDULES = tuple(sorted({schedule for kind in PASSING.values() for schedule in kind.schedules}))
"""All schedules; a model may have only some of them."""

DEFAULT_LAYERS = 10
"""Number of layers for a model whose own engine is not BP."""

MAX_LAYERS = 10**6
"""The largest number of layers: a slip of the hand, or a damaged file, should not keep anybody waiting for hours."""


class State(NamedTuple):
    """What the next layer needs."""

    passing: Passing
    messages: Any


@dataclass(frozen=True)
class BP(Engine):
    """Loopy belief propagation. An option that is None is taken from the model.

    Args:
        n_layers: number of updates of all messages.
        damping: weight of the old message in the new one; 0 means none.
        temperature: 1 is sum-product, 0 is max-product; for models of discrete variables.
        schedule: "flooding" (all messages at once); of a factor graph also "sequential" (one factor after the other) and
            "residual" (the largest pending changes); of a GaussianRBM "sequential" (to the hidden units, then back).
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
    n_layers: int | None = None
    damping: float | None = None
    temperature: float | None = None
    schedule: str | None = None
    until: float | None = None
    at_most: int | None = None
    torch_compile: bool = False

    def __post_init__(self) -> None:
        for name in ("n_layers", "at_most"):
            check_layer_count(name, getattr(self, name))
        damping, T = self.damping, self.temperature
        if damping is not None and (not isinstance(damping, int | float) or not 0 <= damping < 1):
            raise InputError(f"damping must lie in [0, 1), not {damping!r}; 0 means none.")
        if T is not None and (not isinstance(T, int | float) or not 0 <= T < float("inf")):
            raise InputError(f"the temperature must be ≥ 0, not {T!r}; 1 is sum-product, 0 is max-product.")
        if self.until is not None and (not isinstance(self.until, int | float) or not self.until >= 0):
            raise InputError(f"until must be ≥ 0, not {self.until!r}: the largest change of a message at which to stop.")
        if self.at_most is not None and self.until is None:
            raise InputError("at_most goes with until; give n_layers for a fixed number of layers.")

    def at(self, n: int | None) -> "BP":
        """The same engine with n layers, or with at most n if it stops by itself; None leaves the number as it is."""
        return self if n is None else replace(self, n_layers=n, at_most=None if self.until is None else n)

    def steps(self, model: Answerable) -> int:
        if self.until is not None and self.at_most is not None:
            return self.at_most
        own = self._own(model)
        return next(n for n in (self.n_layers, own.n_layers, DEFAULT_LAYERS) if n is not None)

    def _own(self, model: Answerable) -> "BP":
        return model.engine if isinstance(model.engine, BP) else BP()

    def _damping(self, model: Answerable) -> float:
        return next(d for d in (self.damping, self._own(model).damping, 0.0) if d is not None)

    def init(self, model: Answerable, query: Query) -> State:
        passing = self.passing(model, query)
        return State(passing, passing.initial())

    def passing(self, model: Answerable, query: Query) -> Passing:
        """Message passing for this model and this query."""
        potentials, own = model.graph(), self._own(model)
        kind = _passing_of(potentials)
        schedule = self.schedule or own.schedule or kind.schedules[0]
        if schedule not in kind.schedules:
            known = " or ".join(repr(name) for name in kind.schedules)
            raise InputError(f"schedule must be {known} for a {type(model).__name__}, not {schedule!r}.")
        T, sums = self._unit(model)
        if T is None and kind.has_unit:
            T = torch.ones(())  # no temperature is T = 1
        compiled = self.torch_compile or own.torch_compile
        choices = Choices(T, sums, self._damping(model), schedule, compiled, type(model).__name__)
        if kind is FactorPassing:
            kind = SCHEDULED.get(schedule, kind)
        return kind(potentials, model.evidence(query), choices)

    def _unit(self, model: Answerable) -> tuple[Tensor | None, bool]:
        """The unit in which to run at T = 1, and whether to sum (T > 0) or to maximise (T = 0, in the unit 1).

        Any temperature T > 0 is a change of units: f(x; T) = T·f(x/T; 1) with potentials and evidence in units of T.
        """
        T = model.temperature()
        if self.temperature is not None:
            if T is None:
                raise InputError(f"a {type(model).__name__} has no temperature; leave it out.")
            T = torch.full_like(T.detach(), float(self.temperature))
        if T is None or not has_values(T) or float(T.detach()) != 0:
            return T, True
        return torch.ones_like(T), False

    def step(self, state: State) -> tuple[State, dict[str, Tensor]]:
        messages, info = state.passing.update(state.messages)
        return State(state.passing, messages), info

    def finished(self, info: dict[str, Tensor]) -> bool:
        return self.until is not None and bool((info["residual"] <= self.until).all())

    def marginals(self, state: State) -> Distribution:
        return state.passing.answers(state.messages)[0]

    def hidden(self, state: State) -> Distribution:
        return state.passing.answers(state.messages)[1]

    def messages(self, state: State) -> dict[str, Tensor]:
        return state.passing.shown(state.messages)

    def kept_bytes(self, model: Answerable, shape: tuple[int, ...]) -> int:
        potentials = model.graph()
        return _passing_of(potentials).kept_bytes(potentials, shape, self.steps(model), self._damping(model) > 0)

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

    def _layer(self, index: int, state: State, info: dict[str, Tensor]) -> Layer:
        marginals, hidden = state.passing.answers(state.messages)  # both at once
        info = dict(info or state.passing.before())
        residual = info.pop("residual")
        return Layer(index, marginals, hidden, residual, self.messages(state), info)


def _passing_of(potentials: Potentials) -> type[Passing]:
    """How messages are passed on this kind of graph."""
    return next(PASSING[base] for base in type(potentials).__mro__ if base in PASSING)


def check_layer_count(name: str, n: int | None) -> None:
    """Raise an InputError unless n is None or a whole number from 0 to `MAX_LAYERS`."""
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 0):
        raise InputError(f"{name} must be a whole number ≥ 0, not {n!r}.")
    if n is not None and n > MAX_LAYERS:
        raise InputError(f"{name} must be at most {MAX_LAYERS}, not {n}.")
