"""The graphs of the lab and the user's settings, as one value that fits into an address."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qtcore import examples
from qtcore.examples import GRAPHS, Graph

MAX_COUPLING, MAX_BIAS, MAX_STRENGTH, MAX_DAMPING = 3.0, 3.0, 2.0, 0.9
MIN_LAYERS, MAX_LAYERS = 1, 100
MAX_SENT = 200
"""Messages sent by hand that are remembered."""
MAX_TRAINED = 30.0
"""Trained parameters beyond this are clipped: an address must not bring numbers that overflow."""
MAX_TEXT = 3000
PRESETS = ("ferromagnetic", "frustrated", "random")


@dataclass(frozen=True)
class Lab:
    """The state of the lab: everything on the page follows from it."""

    key: str
    couplings: tuple[float, ...]
    biases: tuple[float, ...]
    evidence: tuple[int, ...]
    """-1 for unobserved, else the observed value; one per variable, hidden ones too (always -1)."""
    strength: float = 1.0
    temperature: float = 1.0
    damping: float = 0.0
    layers: int = 30
    selected: str = "m0"
    """What the sliders and the formula refer to: "n2" a variable, "e3" an edge, "m5" a message."""
    hand: int = -1
    """The layer at which sending by hand began; -1: all messages are sent in parallel."""
    sent: tuple[int, ...] = ()
    """The messages sent by hand since then, in order."""
    trained: tuple[float, ...] = ()
    """Couplings and biases after query training; empty before."""
    trained_for: tuple[float, ...] = ()
    """Temperature, damping and layers of that training; empty before."""
    shown: int = 0
    """0: the user's parameters, the true ones; 1: the trained ones."""

    @property
    def graph(self) -> Graph:
        return GRAPHS[self.key]

    def parameters(self, trained: bool = False) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Couplings and biases as they enter the messages."""
        if trained and self.trained:
            count = len(self.graph.edges)
            return self.trained[:count], self.trained[count:]
        return tuple(self.strength * w for w in self.couplings), self.biases

    @property
    def settings(self) -> tuple[float, ...]:
        """What a training is for: temperature, damping, layers."""
        return self.temperature, self.damping, float(self.layers)

    @property
    def edge(self) -> int:
        """The current edge: the selected one, that of the selected message, or the first one at a variable."""
        kind, number = self.selected[0], int(self.selected[1:])
        if kind == "n":
            return next(e for e, pair in enumerate(self.graph.edges) if number in pair)
        return number // 2 if kind == "m" else number

    @property
    def node(self) -> int:
        """The current variable: the selected one, or the source of the selected edge or message."""
        kind, number = self.selected[0], int(self.selected[1:])
        if kind == "n":
            return number
        return self.graph.edges[self.edge][number % 2 if kind == "m" else 0]

    def changed(self, **changes: Any) -> "Lab":
        """The lab after changes; new couplings or biases discard the trained parameters."""
        lab = replace(self, **changes)
        if {"couplings", "biases", "strength"} & changes.keys():
            lab = replace(lab, trained=(), trained_for=(), shown=0)
        return lab


def preset(key: str, name: str, seed: int = 0) -> Lab:
    """A graph with the couplings of a preset."""
    graph = GRAPHS[key]
    biases = graph.biases
    if name == "random":
        random = np.random.default_rng(seed)
        couplings = tuple(round(float(w), 2) for w in random.uniform(-2, 2, len(graph.edges)))
        biases = tuple(round(float(b), 2) for b in random.uniform(-1, 1, graph.n))
    else:
        couplings = examples.couplings(key, name)
    return Lab(key, couplings, biases, (-1,) * graph.n)


def default() -> Lab:
    """The initial lab: a frustrated loop, where belief propagation converges to wrong marginals."""
    return replace(preset("loop", "frustrated"), couplings=(2.0, 2.0, 2.0, -2.0), biases=(2.0, 0.0, 0.0, 0.0), layers=40)


# ---------------------------------------------------------------------- as text


def _join(numbers: Iterable[float], unit: int) -> str:
    return "_".join(str(round(number * unit)) for number in numbers)


def _split(text: str, unit: int, count: int, bound: float) -> tuple[float, ...]:
    numbers = tuple(int(part) / unit for part in text.split("_")) if text else ()
    if len(numbers) != count or any(abs(number) > bound for number in numbers):
        raise ValueError("wrong numbers")
    return numbers


def encode(lab: Lab) -> str:
    """A short text for the address."""
    parts = [
        lab.key,
        _join(lab.couplings, 100),
        _join(lab.biases, 100),
        "".join("u01"[value + 1] for value in lab.evidence),
        _join((lab.strength, lab.temperature, lab.damping), 100),
        str(lab.layers),
        lab.selected,
        f"{lab.hand}_{_join(lab.sent, 1)}" if lab.hand >= 0 else "",
        f"{lab.shown}_{_join(lab.trained, 1000)}" if lab.trained else "",
        _join(lab.trained_for, 100),
    ]
    return "~".join(parts).rstrip("~")


def decode(text: str) -> Lab | None:
    """The inverse of `encode`; None for anything else."""
    parts = text.split("~")
    if len(text) > MAX_TEXT or not 7 <= len(parts) <= 10 or parts[0] not in GRAPHS:
        return None
    graph = GRAPHS[parts[0]]
    parts += [""] * (10 - len(parts))
    try:
        strength, temperature, damping = _split(parts[4], 100, 3, MAX_STRENGTH)
        hand, sent, trained, shown = -1, (), (), 0  # type: tuple[int, tuple[int, ...], tuple[float, ...], int]
        if parts[7]:
            first, _, rest = parts[7].partition("_")
            hand, sent = int(first), tuple(int(part) for part in rest.split("_") if part)
        if parts[8]:
            first, _, rest = parts[8].partition("_")
            shown, trained = int(first), _split(rest, 1000, len(graph.edges) + graph.n, MAX_TRAINED)
        lab = Lab(
            parts[0],
            _split(parts[1], 100, len(graph.edges), MAX_COUPLING),
            _split(parts[2], 100, graph.n, MAX_BIAS),
            tuple("u01".index(letter) - 1 for letter in parts[3]),
            strength,
            temperature,
            damping,
            int(parts[5]),
            parts[6],
            hand,
            sent,
            trained,
            _split(parts[9], 100, 3, MAX_LAYERS) if parts[9] and trained else (),
            shown,
        )
    except ValueError:
        return None
    return lab if sound(lab) else None


def sound(lab: Lab) -> bool:
    """Whether every number is within its bounds."""
    graph = lab.graph
    return (
        len(lab.evidence) == graph.n
        and all(value == -1 for value in lab.evidence[graph.n_visible :])
        and all(value in (-1, 0, 1) for value in lab.evidence)
        and 0 <= lab.strength <= MAX_STRENGTH
        and 0 <= lab.temperature <= 1
        and 0 <= lab.damping <= MAX_DAMPING
        and MIN_LAYERS <= lab.layers <= MAX_LAYERS
        and selectable(lab.selected, graph)
        and -1 <= lab.hand <= lab.layers
        and len(lab.sent) <= MAX_SENT
        and all(0 <= message < 2 * len(graph.edges) for message in lab.sent)
        and lab.shown in (0, 1)
    )


def selectable(name: str, graph: Graph) -> bool:
    counts = {"n": graph.n, "e": len(graph.edges), "m": 2 * len(graph.edges)}
    return bool(re.fullmatch(r"[nem]\d{1,2}", name)) and int(name[1:]) < counts[name[0]]


def replaced(values: Sequence[Any], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])
