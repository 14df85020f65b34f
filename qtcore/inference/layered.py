"""What engines with layers have in common: how many there are, damping, temperature, schedule, and when to stop."""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.inference.engine import Answerable, Engine
from qtcore.support.tensors import has_values

L = TypeVar("L", bound="Layered")

DEFAULT_LAYERS = 10
"""Number of layers for a model whose own engine has none."""

MAX_LAYERS = 10**6
"""The largest number of layers: a slip of the hand, or a damaged file, should not keep anybody waiting for hours."""


@dataclass(frozen=True)
class Layered(Engine):
    """An engine that goes through layers. An option that is None is taken from the model's own engine: any of them if that is
    of the same kind, else the number of layers alone."""

    n_layers: int | None = None
    damping: float | None = None
    temperature: float | None = None
    schedule: str | None = None
    until: float | None = None
    at_most: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_layers", "at_most"):
            check_layer_count(name, getattr(self, name))
        damping, T = self.damping, self.temperature
        if damping is not None and (not isinstance(damping, int | float) or not 0 <= damping < 1):
            raise InputError(f"damping must lie in [0, 1), not {damping!r}; 0 means none.")
        if T is not None and (not isinstance(T, int | float) or not 0 <= T < float("inf")):
            raise InputError(f"the temperature must be ≥ 0, not {T!r}; 1 is sum-product, 0 is max-product.")
        if self.until is not None and (not isinstance(self.until, int | float) or not self.until >= 0):
            raise InputError(f"until must be ≥ 0, not {self.until!r}: the largest change in a layer at which to stop.")
        if self.at_most is not None and self.until is None:
            raise InputError("at_most goes with until; give n_layers for a fixed number of layers.")

    def at(self: L, n: int | None) -> L:
        """The same engine with n layers, or with at most n if it stops by itself; None leaves the number as it is."""
        return self if n is None else replace(self, n_layers=n, at_most=None if self.until is None else n)

    def steps(self, model: Answerable) -> int:
        if self.until is not None and self.at_most is not None:
            return self.at_most
        own = self._own(model)
        return next(n for n in (self.n_layers, own.n_layers, DEFAULT_LAYERS) if n is not None)

    def finished(self, info: dict[str, Tensor]) -> bool:
        return self.until is not None and bool((info["residual"] <= self.until).all())

    def _own(self: L, model: Answerable) -> L:
        """The model's own engine, as one of this kind."""
        own = model.engine
        if isinstance(own, type(self)):
            return own
        return type(self)(n_layers=own.n_layers if isinstance(own, Layered) else None)

    def _damping(self, model: Answerable) -> float:
        return next(d for d in (self.damping, self._own(model).damping, 0.0) if d is not None)

    def _schedule(self, model: Answerable, schedules: tuple[str, ...]) -> str:
        """The schedule, which must be one of these; the first is the default."""
        schedule = self.schedule or self._own(model).schedule or schedules[0]
        if schedule not in schedules:
            known = " or ".join(repr(name) for name in schedules)
            raise InputError(f"schedule must be {known} for a {type(model).__name__}, not {schedule!r}.")
        return schedule

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


def check_layer_count(name: str, n: int | None) -> None:
    """Raise an InputError unless n is None or a whole number from 0 to `MAX_LAYERS`."""
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 0):
        raise InputError(f"{name} must be a whole number ≥ 0, not {n!r}.")
    if n is not None and n > MAX_LAYERS:
        raise InputError(f"{name} must be at most {MAX_LAYERS}, not {n}.")
