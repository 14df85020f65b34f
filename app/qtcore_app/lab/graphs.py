"""A graph of the lab with the user's settings, as one value."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qtcore import examples
from qtcore_app.lab.drawings import GRAPHS, OWN, PARTS, Drawing

MAX_COUPLING, MAX_BIAS, MAX_STRENGTH, MAX_DAMPING = 3.0, 3.0, 2.0, 0.9
MAX_OWN = 30.0
"""The largest number of a graph from a file, and of trained parameters: nothing may overflow."""
MIN_LAYERS, MAX_LAYERS = 1, 100
MAX_SENT = 200
"""Messages sent by hand that are remembered."""
PRESETS = ("ferromagnetic", "frustrated", "random")
SCHEDULES = ("flooding", "sequential", "random", "residual")


@dataclass(frozen=True)
class Lab:
    """The state of the lab: everything on the page follows from it."""

    key: str
    couplings: tuple[float, ...]
    """The numbers of all factors: one of each edge, four of each third-order factor (see `drawings`)."""
    biases: tuple[float, ...]
    evidence: tuple[int, ...]
    """-1 for unobserved, else the observed value; one per variable, hidden ones too (always -1)."""
    strength: float = 1.0
    temperature: float = 1.0
    damping: float = 0.0
    layers: int = 30
    selected: str = "m0"
    """What the sliders and the formula refer to: "n2" a variable, "e3" a factor, "m5" a message."""
    hand: int = -1
    """The layer at which sending by hand began; -1: messages are sent by the schedule."""
    sent: tuple[int, ...] = ()
    """The messages sent by hand since then, in order."""
    trained: tuple[float, ...] = ()
    """Couplings and biases after query training; empty before."""
    trained_for: tuple[float, ...] = ()
    """`settings` of that training; empty before."""
    shown: int = 0
    """0: the user's parameters, the true ones; 1: the trained ones."""
    schedule: str = SCHEDULES[0]
    drawn: Drawing | None = None
    """The user's own graph, if the key says that it is one."""
    exercise: int = 0
    """The number of the exercise that is open, from 1; 0 for none."""
    guess: int = -1
    """What the user predicts, as the number of a choice; -1 before."""
    pressed: bool = False
    """Whether the user has pressed, so that the answer is shown."""

    @property
    def graph(self) -> Drawing:
        return self.drawn if self.drawn is not None else GRAPHS[self.key]

    def parameters(self, trained: bool = False) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Couplings and biases as they enter the messages."""
        if trained and self.trained:
            count = self.graph.n_numbers
            return self.trained[:count], self.trained[count:]
        return tuple(self.strength * w for w in self.couplings), self.biases

    def numbers(self, factor: int, trained: bool = False) -> tuple[float, ...]:
        """The numbers of one factor."""
        first = self.graph.first(factor)
        count = 1 if factor < len(self.graph.edges) else len(PARTS)
        return self.parameters(trained)[0][first : first + count]

    @property
    def settings(self) -> tuple[float, ...]:
        """What a training is for: temperature, damping, layers, schedule."""
        return self.temperature, self.damping, float(self.layers), float(SCHEDULES.index(self.schedule))

    @property
    def factor(self) -> int:
        """The current factor: the selected one, that of the selected message, or the first one at a variable; -1 for none."""
        kind, number = self.selected[0], int(self.selected[1:])
        if kind == "n":
            return next((f for f, scope in enumerate(self.graph.factors) if number in scope), -1)
        return self.graph.messages[number][0] if kind == "m" else number

    @property
    def node(self) -> int:
        """The current variable: the selected one, the sender of the selected message, or the first one of the factor."""
        kind, number = self.selected[0], int(self.selected[1:])
        if kind == "n":
            return number
        scope = self.graph.factors[self.factor]
        if kind == "m":
            receiver = self.graph.messages[number][1]
            return next(i for i in scope if i != receiver)
        return scope[0]

    def changed(self, **changes: Any) -> "Lab":
        """The lab after changes; new couplings or biases discard the trained parameters."""
        lab = replace(self, **changes)
        if {"couplings", "biases", "strength", "drawn"} & changes.keys():
            lab = replace(lab, trained=(), trained_for=(), shown=0)
        return lab

    def at_start(self) -> "Lab":
        """The same graph with nothing observed, sent or trained, on the first message."""
        fresh = Lab(self.key, self.couplings, self.biases, (-1,) * self.graph.n, drawn=self.drawn)
        return replace(fresh, selected="m0" if self.graph.factors else "n0")


def preset(key: str, name: str, seed: int = 0) -> Lab:
    """A graph with the couplings of a preset."""
    return with_preset(Lab(key, (), (), (-1,) * GRAPHS[key].n), name, seed)


def with_preset(lab: Lab, name: str, seed: int = 0) -> Lab:
    """Other couplings on the same graph, of a drawn one with its own biases; all numbers and biases where they are random."""
    graph = lab.graph
    biases = lab.biases if lab.key == OWN else graph.biases
    if name == "random":
        random = np.random.default_rng(seed)
        couplings = tuple(round(float(w), 2) for w in random.uniform(-2, 2, graph.n_numbers))
        biases = tuple(round(float(b), 2) for b in random.uniform(-1, 1, graph.n))
    else:
        negative = graph.loops() if lab.key == OWN else graph.negative
        pairs = [-1 if name == "frustrated" and e in negative else 1 for e in range(len(graph.edges))]
        couplings = tuple(examples.SIZE * sign for sign in [*pairs, *(1, 0, 0, 0) * len(graph.triples)])
    return lab.changed(couplings=couplings, biases=biases)


def default() -> Lab:
    """The initial lab: a frustrated loop, where belief propagation converges to wrong marginals."""
    return replace(preset("loop", "frustrated"), couplings=(2.0, 2.0, 2.0, -2.0), biases=(2.0, 0.0, 0.0, 0.0), layers=40)


def replaced(values: Sequence[Any], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])
