"""How fast factor graphs are: what `python -m qtcore.bench graphs` measures, and its table."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import torch

from qtcore.models.factor_graph import FactorGraph
from qtcore.query import Query

LAYERS = 20
ROWS = 8
"""Rows of a training step."""

CASES: dict[str, tuple[int, int, int, int, bool]] = {  # variables, factors, their order, states, tied
    "1,000 variables of 2 states, 2,000 edges": (1_000, 2_000, 2, 2, False),
    "10,000 variables of 2 states, 20,000 edges": (10_000, 20_000, 2, 2, False),
    "the same, all edges tied": (10_000, 20_000, 2, 2, True),
    "2,000 variables of 8 states, 4,000 edges": (2_000, 4_000, 2, 8, False),
    "2,000 variables of 8 states, 1,000 factors of third order": (2_000, 1_000, 3, 8, False),
}
MANY = 1_000_000
"""Factors of the graph that is only built."""


def random_scopes(n: int, factors: int, order: int, seed: int = 0) -> Any:
    """Scopes of distinct variables [factors, order], at random."""
    random = np.random.default_rng(seed)
    scopes = random.integers(n, size=(factors, order))
    while True:
        ordered = np.sort(scopes, 1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        if not twice.any():
            return scopes
        scopes[twice] = random.integers(n, size=(int(twice.sum()), order))


def case(name: str) -> FactorGraph:
    """A graph with random tables."""
    n, factors, order, states, tied = CASES[name]
    torch.manual_seed(0)
    shape = [states] * order if tied else [factors, *[states] * order]
    return FactorGraph([states] * n, {"factor": shape}, [("factor", random_scopes(n, factors, order))], n_layers=LAYERS)


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The median time of some runs, after one that does not count."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * median(times[1:])


def rows(quick: bool = False) -> Iterator[tuple[str, float, float]]:
    """For each case, milliseconds of one query and of a training step with several rows, all layers each."""
    repeats = 3 if quick else 15
    for name in CASES:
        model = case(name)
        n, states = len(model.n_states), max(model.n_states)
        generator = torch.Generator().manual_seed(1)
        nothing = Query(torch.zeros(1, n), torch.zeros(1, n, dtype=torch.bool))
        batch = Query(torch.randint(states, (ROWS, n), generator=generator), torch.rand(ROWS, n, generator=generator) < 0.5)

        def ask(model: FactorGraph = model, query: Query = nothing) -> None:
            with torch.no_grad():
                model(query)

        def learn(model: FactorGraph = model, query: Query = batch) -> None:
            model.zero_grad()
            model.loss(query).backward()

        yield name, milliseconds(ask, repeats), milliseconds(learn, max(2, repeats // 3))


def building(factors: int = MANY) -> float:
    """Seconds to build a graph of so many factors, with its layout."""
    scopes = random_scopes(factors // 2, factors, 2)
    start = time.perf_counter()
    model = FactorGraph(np.full(factors // 2, 2), {"edge": [2, 2]}, [("edge", scopes)])
    model.wiring.on(torch.device("cpu"))
    return time.perf_counter() - start


def table(quick: bool = False) -> Iterator[str]:
    """The lines of a table."""
    yield f"| random graph, {LAYERS} layers | one query | training step of {ROWS} rows |"
    yield "|---|---|---|"
    for name, asked, learned in rows(quick):
        yield f"| {name} | {asked:.3g} ms | {learned:.3g} ms |"
    yield f"| {MANY:,} tied edges: built in {building():.2g} s | | |"
