"""Graphs from UAI files and back: checked here, whatever a browser sends, and refused with a sentence."""

import math
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from qtcore.errors import InputError
from qtcore.models import uai
from qtcore_app.lab.drawings import MAX_FACTORS, MAX_VARIABLES, OWN, PARTS, Table, drawn, odd, table
from qtcore_app.lab.graphs import MAX_OWN, Lab

MAX_BYTES = 64 * 1024
NAME = "the file"
DIGITS = 4
"""Decimals of the numbers that are kept: as many as the address holds."""

Scope = tuple[int, ...]


def opened(data: bytes) -> Lab:
    """The lab with the graph of a UAI file; an InputError says why it is refused."""
    if len(data) > MAX_BYTES:
        raise InputError(f"the file has {len(data) / 1024:.0f} kB; the lab opens UAI files of up to {MAX_BYTES // 1024} kB.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("this is no text; the lab opens graphs in the UAI format (.uai).") from error
    graph = uai.read(NAME, text)
    _check(graph)
    biases, constant = np.zeros(len(graph.n_states)), 0.0
    numbers: dict[Scope, Table] = {}
    for scope, potentials in zip(graph.scopes, graph.tables, strict=True):
        order = tuple(np.argsort(scope))
        own = parts_of(np.log(potentials).transpose(order))
        variables = tuple(sorted(scope))
        constant += own.pop(())
        for axis, variable in enumerate(variables):
            biases[variable] += own.pop((axis,))
        if own:
            kept = [own[part] for part in (PARTS if len(scope) == 3 else ((0, 1),))]
            numbers[variables] = numbers.get(variables, np.zeros(len(kept))) + np.array(kept)
    pairs = tuple((i, j) for i, j in (scope for scope in numbers if len(scope) == 2))
    triples = tuple((i, j, k) for i, j, k in (scope for scope in numbers if len(scope) == 3))
    couplings = [w for scope in (*pairs, *triples) for w in numbers[scope]]
    _check_numbers(len(numbers), [*couplings, *biases])
    drawing = drawn(circle(len(biases)), pairs, triples, round(constant, DIGITS))
    return Lab(OWN, _rounded(couplings), _rounded(biases), (-1,) * drawing.n, drawn=drawing).at_start()


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(float(value), DIGITS) for value in values)


def _check(graph: uai.Graph) -> None:
    n = len(graph.n_states)
    if n > MAX_VARIABLES:
        raise InputError(f"the graph has {n} variables; the lab takes up to {MAX_VARIABLES}, since it enumerates all states.")
    for i, states in enumerate(graph.n_states):
        if states != 2:
            raise InputError(f"the lab is for variables of two states, but the variable {i} has {states}.")
    for f, (scope, potentials) in enumerate(zip(graph.scopes, graph.tables, strict=True)):
        if len(scope) > 3:
            raise InputError(f"the factor {f} has {len(scope)} variables; the lab draws factors of up to three.")
        if not potentials.all():
            raise InputError(f"the table of factor {f} has a zero; the lab takes positive potentials alone.")


def _check_numbers(factors: int, numbers: list[float]) -> None:
    if factors > MAX_FACTORS:
        raise InputError(f"the graph has {factors} factors of two and three variables; the lab takes up to {MAX_FACTORS}.")
    largest = max(map(abs, numbers))
    if largest > MAX_OWN:
        raise InputError(f"a bias or coupling would be {largest:.0f}; the lab takes log-potentials of up to {MAX_OWN:.0f}.")


def parts_of(log: Table) -> dict[Scope, float]:
    """A table of log-potentials [2, …] as a sum: a constant (), a bias of each variable (i,), a number for each parity."""
    axes = range(log.ndim)
    result: dict[Scope, float] = {(): 0.0}
    for size in range(log.ndim + 1):
        for part in combinations(axes, size):
            share = float((log * (1 - 2 * odd(log.ndim, part))).mean()) if part else float(log.mean())
            result[()] += share
            if part:
                result[part] = -2 * share if size == 1 else 2 * share
    return result


def circle(count: int) -> tuple[tuple[float, float], ...]:
    """Places for the variables of a file."""
    if count == 1:
        return ((0.5, 0.5),)
    angles = [2 * math.pi * i / count - math.pi / 2 for i in range(count)]
    return tuple((round(0.5 + 0.45 * math.cos(a), 3), round(0.5 + 0.48 * math.sin(a), 3)) for a in angles)


def saved(lab: Lab) -> str:
    """The graph that is shown, with its numbers, as the text of a UAI file; what is observed is not part of it."""
    graph, trained = lab.graph, bool(lab.shown and lab.trained)
    scopes: list[Scope] = [(i,) for i in range(graph.n)]
    tables = [np.array([0.0, bias]) for bias in lab.parameters(trained)[1]]
    tables[0] = tables[0] + graph.constant
    for f, scope in enumerate(graph.factors):
        scopes.append(scope)
        tables.append(table(lab.numbers(f, trained)))
    return uai.written((2,) * graph.n, scopes, tables)
