"""Drawing: variables and factors are added, moved and deleted. Every edit makes a new lab, or None if there is no room."""

from dataclasses import replace

from qtcore_app.lab.drawings import APART, MAX_FACTORS, MAX_VARIABLES, OWN, PARTS, Drawing, drawn
from qtcore_app.lab.graphs import Lab

NEW_COUPLING = 1.0
STEPS = 20
"""Places for a new variable are looked for on a grid of so many steps."""


def own(lab: Lab) -> Lab:
    """The same graph as one of the user's own: all its variables are visible."""
    if lab.drawn is not None:
        return lab
    graph = lab.graph
    places = tuple((round(x, 3), round(y, 3)) for x, y in graph.places)
    copy = replace(lab, key=OWN, drawn=drawn(places, graph.edges))
    return copy.changed(biases=lab.biases) if graph.n_hidden else copy  # what was trained with hidden variables is none of it


def _with(lab: Lab, graph: Drawing, couplings: tuple[float, ...], biases: tuple[float, ...], selected: str) -> Lab:
    """The lab with another graph. Messages sent by hand were those of the old one."""
    evidence = (*lab.evidence, *(-1,) * (graph.n - len(lab.evidence)))
    changed = lab.changed(drawn=graph, couplings=couplings, biases=biases)
    return replace(changed, evidence=evidence, selected=selected, hand=min(lab.hand, 0), sent=())


def _redrawn(graph: Drawing, places: tuple[tuple[float, float], ...], factors: list[tuple[int, ...]]) -> Drawing:
    pairs = tuple((i, j) for i, j in (each for each in factors if len(each) == 2))
    triples = tuple((i, j, k) for i, j, k in (each for each in factors if len(each) == 3))
    return drawn(places, pairs, triples, graph.constant)


def _near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) < APART


def add(lab: Lab, x: float, y: float) -> Lab | None:
    """A variable at a place; beyond the drawing (x < 0), wherever there is most room."""
    lab = own(lab)
    graph = lab.graph
    if graph.n >= MAX_VARIABLES:
        return None
    place = (round(x, 3), round(y, 3)) if x >= 0 else roomiest(graph)
    if any(_near(place, other) for other in graph.places):
        return None
    fresh = _redrawn(graph, (*graph.places, place), list(graph.factors))
    return _with(lab, fresh, lab.couplings, (*lab.biases, 0.0), f"n{graph.n}")


def roomiest(graph: Drawing) -> tuple[float, float]:
    """The place of a grid that is farthest from all variables."""
    places = [(x / STEPS, y / STEPS) for y in range(STEPS + 1) for x in range(STEPS + 1)]
    return max(places, key=lambda p: min((p[0] - x) ** 2 + (p[1] - y) ** 2 for x, y in graph.places))


def move(lab: Lab, variable: int, x: float, y: float) -> Lab | None:
    """A variable to another place, unless another one is there. The numbers, and a training, stay as they are."""
    lab = own(lab)
    graph, place = lab.graph, (round(x, 3), round(y, 3))
    others = [other for i, other in enumerate(graph.places) if i != variable]
    if not 0 <= variable < graph.n or any(_near(place, other) for other in others):
        return None
    places = tuple(place if i == variable else other for i, other in enumerate(graph.places))
    return replace(lab, drawn=replace(graph, places=places), selected=f"n{variable}")


def join(lab: Lab, *variables: int) -> Lab | None:
    """A factor of two or of three variables; one that is there already is selected."""
    lab = own(lab)
    graph, scope = lab.graph, tuple(sorted(variables))
    if len(scope) not in (2, 3) or len(set(scope)) != len(scope) or not set(scope) <= set(range(graph.n)):
        return None
    known = [tuple(sorted(each)) for each in graph.factors]
    if scope in known:
        return replace(lab, selected=f"e{known.index(scope)}")
    if len(known) >= MAX_FACTORS:
        return None
    at = len(graph.edges) if len(scope) == 2 else len(known)
    factors = list(graph.factors)
    factors.insert(at, scope)
    fresh = _redrawn(graph, graph.places, factors)
    numbers = (NEW_COUPLING,) if len(scope) == 2 else (NEW_COUPLING, *(0.0,) * (len(PARTS) - 1))
    first = fresh.first(at)
    couplings = (*lab.couplings[:first], *numbers, *lab.couplings[first:])
    return _with(lab, fresh, couplings, lab.biases, f"e{at}")


def delete_factor(lab: Lab, factor: int) -> Lab | None:
    lab = own(lab)
    if not 0 <= factor < len(lab.graph.factors):
        return None
    kept = [f for f in range(len(lab.graph.factors)) if f != factor]
    return _keeping(lab, kept, list(range(lab.graph.n)))


def delete_variable(lab: Lab, variable: int) -> Lab | None:
    """A variable with all its factors; the last one stays."""
    lab = own(lab)
    graph = lab.graph
    if not 0 <= variable < graph.n or graph.n == 1:
        return None
    kept = [f for f, scope in enumerate(graph.factors) if variable not in scope]
    lab = replace(lab, evidence=tuple(value for i, value in enumerate(lab.evidence) if i != variable))
    return _keeping(lab, kept, [i for i in range(graph.n) if i != variable])


def _keeping(lab: Lab, factors: list[int], variables: list[int]) -> Lab:
    """Some factors and variables of the graph."""
    graph, new = lab.graph, {old: i for i, old in enumerate(variables)}
    scopes = [tuple(new[i] for i in graph.factors[f]) for f in factors]
    plain = replace(lab, strength=1.0)
    couplings = tuple(number for f in factors for number in plain.numbers(f))
    fresh = _redrawn(graph, tuple(graph.places[i] for i in variables), scopes)
    return _with(lab, fresh, couplings, tuple(lab.biases[i] for i in variables), "n0")
