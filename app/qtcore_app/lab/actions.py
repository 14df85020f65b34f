"""What a user does in the lab: every action makes a new lab, or none if it is out of bounds."""

from collections.abc import Callable
from dataclasses import replace

from qtcore_app.lab import edits, exercises, graphs
from qtcore_app.lab.address import CHOICES, EXERCISES, sound
from qtcore_app.lab.drawings import GRAPHS
from qtcore_app.lab.graphs import MAX_BIAS, MAX_COUPLING, MAX_OWN, PRESETS, SCHEDULES, Lab, replaced

KINDS = "nem"
"""What can be selected, by the first number of "select": a variable, a factor, a message."""
DRAWS = ("add", "move", "join", "join3", "delete")
"""Actions that draw."""
FRESH = ("graph", "start", "exercise", "press", *DRAWS)
"""Actions after which another run is shown from its end."""


def applied(lab: Lab, action: str, numbers: list[float], seed: int = 0) -> Lab | None:
    """The lab after a user's action; None for one that is out of bounds or changes nothing."""
    number = {"strength": "strength", "temperature": "temperature", "damping": "damping"}.get(action)
    changed: Lab | None = None
    if number:
        changed = lab.changed(**{number: round(numbers[0], 2)})
    elif action in ("coupling", "bias"):
        changed = _number(lab, action, *numbers)
    elif action in ("add", "move"):
        changed = _placed(lab, *numbers)
    elif all(float(value).is_integer() for value in numbers) and action in WHOLE:
        changed = WHOLE[action](lab, seed, *map(int, numbers))
    if changed is not None and action in DRAWS:
        changed = replace(changed, exercise=0, guess=-1, pressed=False)
    return changed if changed is not None and sound(changed) else None


def _number(lab: Lab, action: str, which: float, value: float) -> Lab | None:
    """Another coupling, or another bias."""
    graph, is_bias = lab.graph, action == "bias"
    bound = MAX_OWN if lab.drawn else MAX_BIAS if is_bias else MAX_COUPLING
    if which not in range(graph.n if is_bias else len(graph.factors)) or abs(value) > bound:
        return None
    place = int(which)
    if is_bias:
        return lab.changed(biases=replaced(lab.biases, place, round(value, 2)))
    kept = lab.selected if lab.factor == place else f"e{place}"
    return lab.changed(couplings=replaced(lab.couplings, graph.first(place), round(value, 2)), selected=kept)


def _placed(lab: Lab, *numbers: float) -> Lab | None:
    """A new variable (x, y), or one that is moved (variable, x, y)."""
    *which, x, y = numbers
    if not which:
        return edits.add(lab, x, y)
    return edits.move(lab, int(which[0]), x, y) if float(which[0]).is_integer() else None


def _graph(lab: Lab, seed: int, which: int) -> Lab | None:
    if which not in range(len(GRAPHS)):
        return None
    fresh = graphs.preset(list(GRAPHS)[which], "frustrated")
    return replace(fresh, temperature=lab.temperature, damping=lab.damping, schedule=lab.schedule)


def _preset(lab: Lab, seed: int, which: int) -> Lab | None:
    return graphs.with_preset(lab, PRESETS[which], seed) if which in range(len(PRESETS)) else None


def _layers(lab: Lab, seed: int, count: int) -> Lab:
    return replace(lab, layers=count, hand=min(lab.hand, count))


def _schedule(lab: Lab, seed: int, which: int) -> Lab | None:
    """A schedule, from messages that are all 0."""
    return replace(lab, schedule=SCHEDULES[which], hand=-1, sent=()) if which in range(len(SCHEDULES)) else None


def _evidence(lab: Lab, seed: int, variable: int, value: int) -> Lab | None:
    if variable not in range(lab.graph.n_visible):
        return None
    return replace(lab, evidence=replaced(lab.evidence, variable, value), selected=f"n{variable}")


def _forget(lab: Lab, seed: int) -> Lab:
    return replace(lab, evidence=(-1,) * lab.graph.n)


def _select(lab: Lab, seed: int, kind: int, number: int) -> Lab | None:
    return replace(lab, selected=f"{KINDS[kind]}{number}") if kind in range(len(KINDS)) else None


def _hand(lab: Lab, seed: int, layer: int) -> Lab:
    return replace(lab, hand=layer, sent=())


def _send(lab: Lab, seed: int, message: int, cursor: int) -> Lab:
    """Send by hand from the cursor on: a layer of a run, or a number of messages sent before."""
    if lab.hand < 0:
        return replace(lab, hand=cursor, sent=(message,), selected=f"m{message}")
    return replace(lab, sent=(*lab.sent[: max(cursor, 0)], message), selected=f"m{message}")


def _show(lab: Lab, seed: int, which: int) -> Lab | None:
    return replace(lab, shown=which) if which == 0 or lab.trained else None


def _join(lab: Lab, seed: int, *variables: int) -> Lab | None:
    return edits.join(lab, *variables)


def _delete(lab: Lab, seed: int, kind: int, number: int) -> Lab | None:
    return [edits.delete_variable, edits.delete_factor][kind](lab, number) if kind in (0, 1) else None


def _exercise(lab: Lab, seed: int, number: int) -> Lab | None:
    return exercises.opened(lab, number) if 0 <= number <= EXERCISES else None


def _guess(lab: Lab, seed: int, choice: int) -> Lab | None:
    usable = lab.exercise and not lab.pressed and choice in range(CHOICES)
    return replace(lab, guess=choice) if usable else None


def _press(lab: Lab, seed: int) -> Lab | None:
    return exercises.pressed(lab)


WHOLE: dict[str, Callable[..., Lab | None]] = {
    "graph": _graph,
    "preset": _preset,
    "layers": _layers,
    "schedule": _schedule,
    "evidence": _evidence,
    "forget": _forget,
    "select": _select,
    "hand": _hand,
    "send": _send,
    "show": _show,
    "join": _join,
    "join3": _join,
    "delete": _delete,
    "exercise": _exercise,
    "guess": _guess,
    "press": _press,
}
"""Actions with whole numbers; each function takes the lab, a seed, and the numbers."""
