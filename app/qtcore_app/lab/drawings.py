"""Graphs as they are drawn: binary variables with places, pairwise and third-order factors, and the numbers that they have.

A factor scores by parity. A pair has one number w and scores −w where its variables differ, that is, where the number of ones
is odd. A factor of three variables has four: one for the parity of all three, and one for that of each pair within it. Together
with a bias for each variable these are all positive tables of two and of three bits, up to a constant.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from qtcore import examples
from qtcore.examples import Graph

OWN = "own"
"""The key of a graph that the user has drawn or opened."""
MAX_VARIABLES, MAX_FACTORS = 12, 40
"""2^12 states are enumerated at every change; and more factors can no longer be told apart on the screen."""
PARTS = ((0, 1, 2), (0, 1), (0, 2), (1, 2))
"""The parities of a third-order factor, in the order of its numbers: which of its variables each is about."""
APART = 0.08
"""No two variables of a drawing are nearer to each other than this."""

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Drawing(Graph):
    """A graph that may have third-order factors too. Factors are numbered: pairs first, then those of three variables."""

    triples: tuple[tuple[int, int, int], ...] = ()
    constant: float = 0.0
    """Of the log-potentials; it matters for log Z alone."""

    @property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        return (*self.edges, *self.triples)

    @property
    def n_numbers(self) -> int:
        return len(self.edges) + len(PARTS) * len(self.triples)

    @property
    def n_messages(self) -> int:
        return 2 * len(self.edges) + 3 * len(self.triples)

    @property
    def messages(self) -> tuple[tuple[int, int], ...]:
        """Factor and receiver of each message: 2e goes along edge e, 2e + 1 back; then three for each third-order factor."""
        pairs = [(e, i) for e, edge in enumerate(self.edges) for i in reversed(edge)]
        others = [(len(self.edges) + t, i) for t, triple in enumerate(self.triples) for i in triple]
        return (*pairs, *others)

    def first(self, factor: int) -> int:
        """The place of a factor's first number, its coupling, among the numbers of all factors."""
        e = len(self.edges)
        return factor if factor < e else e + len(PARTS) * (factor - e)

    def loops(self) -> list[int]:
        """The edges that close a loop, if they are drawn one after the other."""
        part = list(range(self.n))
        closing = []
        for e, (i, j) in enumerate(self.edges):
            if part[i] == part[j]:
                closing.append(e)
            part = [part[i] if each == part[j] else each for each in part]
        return closing

    def is_sound(self) -> bool:
        """Whether it is one that can be drawn here."""
        names = range(self.n)
        scopes = [tuple(sorted(scope)) for scope in self.factors]
        return (
            1 <= self.n <= MAX_VARIABLES
            and not self.n_hidden
            and len(scopes) <= MAX_FACTORS
            and len(set(scopes)) == len(scopes)
            and all(len(set(scope)) == len(scope) and all(i in names for i in scope) for scope in scopes)
            and all(0 <= x <= 1 and 0 <= y <= 1 for x, y in self.places)
        )


GRAPHS = {
    key: Drawing(**{field.name: getattr(graph, field.name) for field in fields(graph)})
    for key, graph in examples.GRAPHS.items()
}


def drawn(
    places: tuple[tuple[float, float], ...],
    edges: tuple[tuple[int, int], ...] = (),
    triples: tuple[tuple[int, int, int], ...] = (),
    constant: float = 0.0,
) -> Drawing:
    """A graph of the user's own."""
    return Drawing(OWN, "your own", places, edges, (), (0.0,) * len(places), 0, triples, constant)


def odd(order: int, part: tuple[int, ...]) -> Table:
    """1 where the number of ones among some variables of a table [2, …] is odd, else 0."""
    return np.asarray(np.indices((2,) * order)[list(part)].sum(0) % 2, np.float64)


def table(numbers: tuple[float, ...]) -> Table:
    """The log-potentials of a factor with one number or with four: [2, 2] or [2, 2, 2]."""
    if len(numbers) == 1:
        return -numbers[0] * odd(2, (0, 1))
    parts = [w * odd(3, part) for w, part in zip(numbers, PARTS, strict=True)]
    return -np.sum(parts, axis=0)
