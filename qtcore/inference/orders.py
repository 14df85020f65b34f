"""In which order to eliminate the variables of a factor graph, and how large the tables become that this makes."""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qtcore.errors import InputError

MAX_TABLE = 2**25
"""Entries of the largest table: 256 MB of float64."""
MAX_TOTAL = 2**28
"""Entries of all tables together: what is kept of them takes about 1 GB, and the time is about a minute."""
CHEAP = 2**23
"""An order with no more entries than this is taken as it is; beyond, others are tried too."""
ATTEMPTS = 8
"""How many orders with ties broken at random are tried."""

Scope = tuple[int, ...]


class TooWideError(InputError):
    """The tables of an elimination would become too large; the message says how large."""

    def __init__(self, width: int, largest: float, certain: bool = False) -> None:
        """With the width found, the logarithm (to base 2) of the largest table, and whether no order can do better."""
        super().__init__(
            f"this graph has a width of {width} or more, with a table of at least {2 ** min(largest, 1000):.3g} entries; exact "
            f"answers need at most {MAX_TABLE} in one and {MAX_TOTAL} in all. Take an approximate engine, such as bp."
        )
        self.certain = certain


@dataclass(frozen=True)
class Order:
    """In which order variables are eliminated, and what that costs."""

    variables: tuple[int, ...]
    width: int
    """Variables of the largest table, less one."""
    largest: float
    """Its entries."""
    total: float
    """Entries of all tables."""


class _Elimination:
    """The graph that is left while variables are eliminated, and what they have cost."""

    def __init__(self, sizes: Sequence[int], scopes: Sequence[Scope], refuse: bool) -> None:
        self.neighbours: list[set[int]] = [set() for _ in sizes]
        for scope in scopes:
            for i in scope:
                self.neighbours[i].update(scope)
        for i, near in enumerate(self.neighbours):
            near.discard(i)
        self.sizes, self.logs, self.refuse = sizes, [math.log2(size) for size in sizes], refuse
        self.order: list[int] = []
        self.width, self.largest, self.total = 0, 0.0, 0.0
        if refuse and (least := degeneracy(self.neighbours)) >= math.log2(MAX_TABLE):  # the others have 2 states or more
            raise TooWideError(least, least + 1, certain=True)

    def table(self, i: int) -> float:
        """The logarithm of the number of entries of the table with all neighbours of a variable."""
        return self.logs[i] + sum(self.logs[j] for j in self.neighbours[i])

    def eliminate(self, i: int) -> set[int]:
        """Join all neighbours of a variable and take it out; its neighbours."""
        near, size = self.neighbours[i], self.table(i)
        self.order.append(i)
        self.width, self.largest = max(self.width, len(near)), max(self.largest, size)
        self.total += 2 ** min(size, 1000)
        if self.refuse and (self.largest > math.log2(MAX_TABLE) + 1e-9 or self.total > MAX_TOTAL):
            raise TooWideError(self.width, self.largest)
        for j in near:
            self.neighbours[j] |= near
            self.neighbours[j] -= {i, j}
        return near

    def result(self) -> Order:
        return Order(tuple(self.order), self.width, float(round(2 ** min(self.largest, 1000))), self.total)


def degeneracy(neighbours: Sequence[set[int]]) -> int:
    """The largest degree that is met when a variable with the fewest neighbours is taken out, again and again: no order has
    a smaller width."""
    degree = [len(near) for near in neighbours]
    heap = [(count, i) for i, count in enumerate(degree)]
    heapq.heapify(heap)
    out, largest = [False] * len(degree), 0
    while heap:
        count, i = heapq.heappop(heap)
        if out[i] or count != degree[i]:
            continue
        out[i], largest = True, max(largest, count)
        for j in neighbours[i]:
            if not out[j]:
                degree[j] -= 1
                heapq.heappush(heap, (degree[j], j))
    return largest


def min_fill(
    sizes: Sequence[int], scopes: Sequence[Scope], refuse: bool = True, weighted: bool = False, seed: int = 0
) -> Order:
    """The greedy order: next is the variable that joins the fewest pairs of neighbours that were not joined before.

    Raise a TooWideError as soon as a table becomes too large, unless `refuse` is false. `weighted` counts a pair by the
    states that it has together. Among equals the variable with the smallest table is next, or, with a `seed`, any.
    """
    graph, random = _Elimination(sizes, scopes, refuse), np.random.default_rng(seed)
    neighbours = graph.neighbours

    def fill(i: int) -> int:
        near = list(neighbours[i])
        if not weighted:
            return sum(len(near) - 1 - len(neighbours[j].intersection(near)) for j in near) // 2
        return sum(sizes[j] * sizes[k] for a, j in enumerate(near) for k in near[a + 1 :] if k not in neighbours[j])

    def cost(i: int) -> tuple[int, float]:
        return fill(i), random.random() if seed else graph.table(i)

    costs = {i: cost(i) for i in range(len(sizes))}
    heap = [(*costs[i], i) for i in costs]
    heapq.heapify(heap)
    while heap:
        *found, i = heapq.heappop(heap)
        if costs.get(i) != tuple(found):
            continue  # out of date
        near = graph.eliminate(i)
        missing, _ = costs.pop(i)
        touched = set(near).union(*(neighbours[j] for j in near)) if missing else near
        for j in touched:
            costs[j] = cost(j)
            heapq.heappush(heap, (*costs[j], j))
    return graph.result()


def sweep(sizes: Sequence[int], scopes: Sequence[Scope], refuse: bool = True) -> Order:
    """From one end of the graph to the other, neighbours before those farther away: good for grids and other long shapes."""
    graph = _Elimination(sizes, scopes, refuse)
    left = set(range(len(sizes)))
    near = [sorted(each, key=lambda j: len(graph.neighbours[j])) for each in graph.neighbours]
    sequence: list[int] = []
    while left:
        start = min(left, key=lambda i: len(near[i]))
        found = _breadth_first(near, _breadth_first(near, start)[-1])
        sequence += found
        left.difference_update(found)
    for i in sequence:
        graph.eliminate(i)
    return graph.result()


def _breadth_first(near: Sequence[Sequence[int]], start: int) -> list[int]:
    seen, queue, found = {start}, deque([start]), []
    while queue:
        found.append(queue.popleft())
        for j in near[found[-1]]:
            if j not in seen:
                seen.add(j)
                queue.append(j)
    return found


def best_order(sizes: Sequence[int], scopes: Sequence[Scope]) -> Order:
    """The cheapest of several orders; raise a TooWideError if the tables of all are too large."""
    best: Order | None = None
    failures: list[TooWideError] = []
    ways: list[tuple[bool, int]] = [(False, 0), (True, 0), *((True, seed) for seed in range(1, ATTEMPTS))]
    for number, (weighted, seed) in enumerate(ways):
        try:
            orders = [min_fill(sizes, scopes, weighted=weighted, seed=seed)]
        except TooWideError as error:
            failures, orders = [*failures, error], []
            if error.certain:
                raise
        if number == 1:
            try:
                orders.append(sweep(sizes, scopes))
            except TooWideError as error:
                failures.append(error)
        best = min(orders if best is None else [best, *orders], key=lambda order: order.total, default=None)
        if best is not None and (best.total <= CHEAP or number >= ATTEMPTS // 2):
            break
    if best is None:
        raise failures[0]
    return best
