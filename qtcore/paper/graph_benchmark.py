"""How fast factor graphs are: what `python -m qtcore.bench graphs` measures, and its table."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from qtcore.inference.bp import BP
from qtcore.models.factor_graph import FactorGraph
from qtcore.paper import graph_libraries as libraries
from qtcore.query import Query

LAYERS = 20
ROWS = 8
"""Rows of a training step."""

THIRD_ORDER = "2,000 variables of 8 states, 1,000 factors of third order"
CASES: dict[str, tuple[int, int, int, int, bool]] = {  # variables, factors, their order, states, tied
    "1,000 variables of 2 states, 2,000 edges": (1_000, 2_000, 2, 2, False),
    "10,000 variables of 2 states, 20,000 edges": (10_000, 20_000, 2, 2, False),
    "the same, all edges tied": (10_000, 20_000, 2, 2, True),
    "2,000 variables of 8 states, 4,000 edges": (2_000, 4_000, 2, 8, False),
    THIRD_ORDER: (2_000, 1_000, 3, 8, False),
}
MANY = 1_000_000
"""Factors of the graph that is only built."""

TREE = 100
"""Variables of the tree on which pgmpy, whose belief propagation is exact, is compared with."""

SAME = 1e-5
"""Marginals of another library may differ by this."""


def random_scopes(n: int, factors: int, order: int, seed: int = 0) -> Any:
    """Scopes of distinct variables [factors, order], at random, no two of the same variables."""
    random = np.random.default_rng(seed)
    scopes = random.integers(n, size=(factors, order))
    while True:
        ordered = np.sort(scopes, 1)
        code = ordered @ (n ** np.arange(order))
        _, first = np.unique(code, return_index=True)
        wrong = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        wrong |= ~np.isin(np.arange(factors), first)
        if not wrong.any():
            return scopes
        scopes[wrong] = random.integers(n, size=(int(wrong.sum()), order))


def case(name: str) -> FactorGraph:
    """A graph with random tables."""
    n, factors, order, states, tied = CASES[name]
    torch.manual_seed(0)
    shape = [states] * order if tied else [factors, *[states] * order]
    return FactorGraph([states] * n, {"factor": shape}, [("factor", random_scopes(n, factors, order))], n_layers=LAYERS)


def tree(n: int = TREE, states: int = 4) -> FactorGraph:
    """A random tree, on which belief propagation is exact after as many layers as its longest path has edges."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    scopes = [(int(random.integers(max(0, i - 5), i)), i) for i in range(1, n)]
    return FactorGraph([states] * n, {"edge": [n - 1, states, states]}, [("edge", scopes)], n_layers=n)


def nothing(model: FactorGraph) -> Query:
    """A query without evidence."""
    n = len(model.n_states)
    return Query(torch.zeros(1, n), torch.zeros(1, n, dtype=torch.bool))


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The best time of some runs, after one that does not count: what else runs on the machine only adds to it."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times[1:])


@dataclass(frozen=True)
class Row:
    """Milliseconds of one query and of a training step with several rows, all layers each, and those of other libraries."""

    name: str
    query: float
    step: float
    others: dict[str, str]
    """What another library took, as a multiple of ours; or why there is none."""


def rows(quick: bool = False) -> Iterator[Row]:
    repeats = 3 if quick else 15
    for name in CASES:
        model = case(name)
        n, states = len(model.n_states), max(model.n_states)
        generator = torch.Generator().manual_seed(1)
        batch = Query(torch.randint(states, (ROWS, n), generator=generator), torch.rand(ROWS, n, generator=generator) < 0.5)

        def ask(model: FactorGraph = model) -> Any:
            with torch.no_grad():
                return model(nothing(model)).probs[0].double().numpy()

        def learn(model: FactorGraph = model, query: Query = batch) -> None:
            model.zero_grad()
            model.loss(query).backward()

        asked = milliseconds(ask, repeats)
        others = {
            title: beside(asked, ask(), partial(libraries.pgmax, model, LAYERS, compiled), 3)
            for title, compiled in (("PGMax", False), ("PGMax, compiled before", True))
        }
        yield Row(name, asked, milliseconds(learn, max(2, repeats // 3)), others)


def beside(ours: float, expected: Any, make: Callable[[], libraries.Twin], repeats: int) -> str:
    """How long a twin in another library takes, as a multiple of ours, if its marginals are the same."""
    try:
        twin = make()
        difference = float(np.abs(twin.marginals(twin.run()) - expected).max())
        theirs = milliseconds(twin.run, repeats)
    except libraries.Unavailable as error:
        return str(error)
    if not difference <= SAME:
        return f"other marginals, by {difference:.1g}"
    return f"{_rounded(theirs)} ms ({_rounded(theirs / ours, 2)}×)"


def _rounded(number: float, digits: int = 3) -> str:
    return f"{float(f'{number:.{digits}g}'):,g}"


def of_tree(quick: bool = False) -> tuple[float, str]:
    """Milliseconds of a query on a tree, and what pgmpy takes."""
    model = tree()
    with torch.no_grad():
        asked = milliseconds(lambda: model(nothing(model)), 3 if quick else 15)
        expected = model(nothing(model)).probs[0].double().numpy()
    return asked, beside(asked, expected, partial(libraries.pgmpy, model), 1)


def of_third_order(quick: bool = False) -> tuple[float, float]:
    """Milliseconds of one layer with factors of third order, and of reading their tables once (their sum, on one thread, as
    one query runs)."""
    model, more = case(THIRD_ORDER), 200
    tables = model.get_parameter("tables.factor")
    repeats = 3 if quick else 15

    def layers(n: int) -> float:
        return milliseconds(lambda: model(nothing(model), engine=BP(n)), repeats)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            return (layers(LAYERS + more) - layers(LAYERS)) / more, milliseconds(tables.sum, 10 * repeats)
    finally:
        torch.set_num_threads(threads)


def building(factors: int = MANY) -> float:
    """Seconds to build a graph of so many factors, with its layout."""
    scopes = random_scopes(factors // 2, factors, 2)
    start = time.perf_counter()
    model = FactorGraph(np.full(factors // 2, 2), {"edge": [2, 2]}, [("edge", scopes)])
    model.wiring.on(torch.device("cpu"))
    return time.perf_counter() - start


def table(quick: bool = False) -> Iterator[str]:
    """The lines of a table: best times of several."""
    titles = ("PGMax", "PGMax, compiled before")
    yield f"| random graph, {LAYERS} layers | one query | {' | '.join(titles)} | training step of {ROWS} rows |"
    yield "|---|---|---|---|---|"
    for row in rows(quick):
        others = " | ".join(row.others[title] for title in titles)
        yield f"| {row.name} | {_rounded(row.query)} ms | {others} | {_rounded(row.step)} ms |"
    asked, others = of_tree(quick)
    yield f"| a tree of {TREE} variables of 4 states, exact: {_rounded(asked)} ms; pgmpy: {others} | | | | |"
    layer, reading = of_third_order(quick)
    times = f"{layer:.2g} ms, {layer / reading:.2g} times reading all tables once ({reading:.2g} ms)"
    yield f"| one layer of the factors of third order: {times} | | | | |"
    yield f"| {MANY:,} tied edges: built in {building():.2g} s | | | | |"
