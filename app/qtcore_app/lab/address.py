"""A lab as a short text for the address, and back. A link can be edited by anyone: whatever is out of bounds is no lab."""

import math
import re
from collections.abc import Iterable

from qtcore_app.lab.drawings import GRAPHS, MAX_FACTORS, OWN, Drawing, drawn
from qtcore_app.lab.graphs import (
    MAX_BIAS,
    MAX_COUPLING,
    MAX_DAMPING,
    MAX_LAYERS,
    MAX_OWN,
    MAX_SENT,
    MAX_STRENGTH,
    MIN_LAYERS,
    SCHEDULES,
    Lab,
)

MAX_TEXT = 6000
OLD, PARTS = 7, 15
"""How many parts a text has, from the fewest of an old link to all of them."""
EXERCISES, CHOICES = 5, 3
FINE = 10_000
"""Numbers of a drawn graph have four decimals, those of the others two."""


def _join(numbers: Iterable[float], unit: int) -> str:
    return "_".join(str(round(number * unit)) for number in numbers)


def _split(text: str, unit: int, count: int | None, bound: float) -> tuple[float, ...]:
    numbers = tuple(int(part) / unit for part in text.split("_")) if text else ()
    if (count is not None and len(numbers) != count) or any(abs(number) > bound for number in numbers):
        raise ValueError("wrong numbers")
    return numbers


def encode(lab: Lab) -> str:
    """A short text for the address."""
    own, unit = lab.drawn, FINE if lab.drawn else 100
    parts = [
        lab.key,
        _join(lab.couplings, unit),
        _join(lab.biases, unit),
        "".join("u01"[value + 1] for value in lab.evidence),
        _join((lab.strength, lab.temperature, lab.damping), 100),
        str(lab.layers),
        lab.selected,
        f"{lab.hand}_{_join(lab.sent, 1)}" if lab.hand >= 0 else "",
        f"{lab.shown}_{_join(lab.trained, 1000)}" if lab.trained else "",
        _join(lab.trained_for, 100),
        "" if lab.schedule == SCHEDULES[0] else lab.schedule,
        _join((number for place in own.places for number in place), 1000) if own else "",
        "_".join("-".join(map(str, scope)) for scope in own.factors) if own else "",
        _join((own.constant,), FINE) if own and own.constant else "",
        _join((lab.exercise, lab.guess, lab.pressed), 1) if lab.exercise else "",
    ]
    return "~".join(parts).rstrip("~")


def decode(text: str) -> Lab | None:
    """The inverse of `encode`; None for anything else."""
    parts = text.split("~")
    if len(text) > MAX_TEXT or not OLD <= len(parts) <= PARTS or (parts[0] not in GRAPHS and parts[0] != OWN):
        return None
    try:
        lab = _lab(parts + [""] * (PARTS - len(parts)))
    except (ValueError, OverflowError):
        return None
    return lab if sound(lab) else None


def _lab(parts: list[str]) -> Lab:
    """From all parts; raises a ValueError for what is no number, or not as many as there should be."""
    own = _drawing(*parts[11:14]) if parts[0] == OWN else None
    graph, unit = own or GRAPHS[parts[0]], FINE if own else 100
    strength, temperature, damping = _split(parts[4], 100, 3, MAX_STRENGTH)
    hand, sent = _numbered(parts[7], -1)
    shown, trained = _numbered(parts[8], 0)
    numbers = _split("_".join(map(str, trained)), 1000, graph.n_numbers + graph.n, MAX_OWN) if trained else ()
    settings = _split(parts[9], 100, None, MAX_LAYERS) if numbers else ()
    if len(settings) == len(SCHEDULES) - 1:  # from a link that knows of flooding alone
        settings = (*settings, 0.0)
    exercise, guess, pressed = _split(parts[14], 1, 3, EXERCISES) if parts[14] else (0, -1, 0)
    return Lab(
        parts[0],
        _split(parts[1], unit, graph.n_numbers, MAX_OWN if own else MAX_COUPLING),
        _split(parts[2], unit, graph.n, MAX_OWN if own else MAX_BIAS),
        tuple("u01".index(letter) - 1 for letter in parts[3]),
        strength,
        temperature,
        damping,
        int(parts[5]),
        parts[6],
        hand,
        sent,
        numbers,
        settings,
        shown,
        parts[10] or SCHEDULES[0],
        own,
        int(exercise),
        int(guess),
        bool(pressed),
    )


def _numbered(text: str, default: int) -> tuple[int, tuple[int, ...]]:
    """A whole number, and those that follow it."""
    first, _, rest = text.partition("_")
    return (int(first) if first else default), tuple(int(part) for part in rest.split("_") if part)


def _drawing(places: str, scopes: str, constant: str) -> Drawing:
    flat = _split(places, 1000, None, 1)
    factors = [tuple(map(int, scope.split("-"))) for scope in scopes.split("_")] if scopes else []
    pairs = [(i, j) for i, j in (each for each in factors if len(each) != 3)]
    triples = [(i, j, k) for i, j, k in (each for each in factors if len(each) == 3)]
    return drawn(
        tuple(zip(flat[::2], flat[1::2], strict=True)),
        tuple(pairs),
        tuple(triples),
        int(constant) / FINE if constant else 0.0,
    )


def sound(lab: Lab) -> bool:
    """Whether every number is within its bounds."""
    graph = lab.graph
    return (
        (lab.key == OWN) == (lab.drawn is not None)
        and (lab.drawn is None or (lab.drawn.is_sound() and abs(lab.drawn.constant) <= MAX_OWN * MAX_FACTORS))
        and len(lab.couplings) == graph.n_numbers
        and len(lab.biases) == graph.n
        and len(lab.evidence) == graph.n
        and all(value == -1 for value in lab.evidence[graph.n_visible :])
        and all(value in (-1, 0, 1) for value in lab.evidence)
        and 0 <= lab.strength <= MAX_STRENGTH
        and 0 <= lab.temperature <= 1
        and 0 <= lab.damping <= MAX_DAMPING
        and MIN_LAYERS <= lab.layers <= MAX_LAYERS
        and selectable(lab.selected, graph)
        and -1 <= lab.hand <= lab.layers
        and len(lab.sent) <= MAX_SENT
        and all(0 <= message < graph.n_messages for message in lab.sent)
        and lab.shown in (0, 1)
        and lab.schedule in SCHEDULES
        and len(lab.trained_for) in (0, len(lab.settings))
        and all(number in range(len(SCHEDULES)) for number in lab.trained_for[3:])
        and 0 <= lab.exercise <= EXERCISES
        and -1 <= lab.guess < CHOICES
        and all(map(math.isfinite, (*lab.couplings, *lab.biases, *lab.trained)))
    )


def selectable(name: str, graph: Drawing) -> bool:
    counts = {"n": graph.n, "e": len(graph.factors), "m": graph.n_messages}
    return bool(re.fullmatch(r"[nem]\d{1,3}", name)) and int(name[1:]) < counts[name[0]]
