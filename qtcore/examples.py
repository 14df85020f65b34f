"""Small graphs of binary variables for teaching and experiments: chain, tree, loop, grid, complete graph, RBM.

    >>> from qtcore import examples
    >>> loop = examples.graph("loop", "frustrated", strength=2.0)
    >>> loop.edges
    ((0, 1), (1, 2), (2, 3), (3, 0))
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qtcore.errors import UnknownNameError, nearest
from qtcore.models.pairwise import PairwiseMRF
from qtcore.potentials import FactorPotentials

SIZE = 1.5
"""Strength of the couplings in the presets: enough to show what loops do."""


@dataclass(frozen=True)
class Graph:
    """Binary variables, their positions in a drawing (x to the right, y down, both in [0, 1]) and their edges."""

    key: str
    label: str
    places: tuple[tuple[float, float], ...]
    edges: tuple[tuple[int, int], ...]
    negative: tuple[int, ...]
    """Edges whose coupling is negative in the frustrated preset: as many loops as possible cannot be satisfied."""
    biases: tuple[float, ...]
    n_hidden: int = 0
    """The last variables are hidden: never observed, never targets."""

    @property
    def n(self) -> int:
        return len(self.places)

    @property
    def n_visible(self) -> int:
        return self.n - self.n_hidden

    @property
    def names(self) -> list[str]:
        if not self.n_hidden:
            return [f"x{i + 1}" for i in range(self.n)]
        return [f"v{i + 1}" for i in range(self.n_visible)] + [f"h{i + 1}" for i in range(self.n_hidden)]


def _circle(count: int) -> tuple[tuple[float, float], ...]:
    angles = [2 * math.pi * i / count - math.pi / 2 for i in range(count)]
    return tuple((0.5 + 0.42 * math.cos(a), 0.53 + 0.47 * math.sin(a)) for a in angles)


_GRID = tuple((3 * row + column, 3 * row + column + 1) for row in range(3) for column in range(2)) + tuple(
    (3 * row + column, 3 * row + column + 3) for row in range(2) for column in range(3)
)

GRAPHS = {
    graph.key: graph
    for graph in (
        Graph(
            "chain",
            "chain",
            tuple((0.02 + 0.24 * i, (0.18, 0.82)[i % 2]) for i in range(5)),
            tuple((i, i + 1) for i in range(4)),
            (1, 3),
            (1.0, 0.0, 0.0, 0.0, -0.5),
        ),
        Graph(
            "tree",
            "tree",
            ((0.5, 0.03), (0.2, 0.45), (0.8, 0.45), (0.02, 0.97), (0.4, 0.97), (0.6, 0.97), (0.98, 0.97)),
            ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)),
            (1, 3, 4),
            (0.0, 0.0, 0.0, 1.0, 0.5, -0.5, 0.0),
        ),
        Graph(
            "loop",
            "single loop",
            ((0.14, 0.06), (0.86, 0.06), (0.86, 0.94), (0.14, 0.94)),
            ((0, 1), (1, 2), (2, 3), (3, 0)),
            (3,),
            (1.0, 0.0, 0.0, 0.0),
        ),
        Graph(
            "grid",
            "grid 3×3",
            tuple((0.1 + 0.4 * column, 0.03 + 0.47 * row) for row in range(3) for column in range(3)),
            _GRID,
            (7, 10),  # the middle column's vertical edges: each of the four squares holds one
            (0.8, 0.0, -0.4, 0.0, 0.3, 0.0, -0.6, 0.0, 0.5),
        ),
        Graph(
            "complete",
            "complete K5",
            _circle(5),
            tuple((i, j) for i in range(5) for j in range(i + 1, 5)),
            tuple(range(10)),
            (0.6, 0.3, -0.2, 0.2, 0.4),
        ),
        Graph(
            "rbm",
            "small RBM",
            ((0.04, 0.95), (0.35, 0.95), (0.65, 0.95), (0.96, 0.95), (0.24, 0.05), (0.76, 0.05)),
            tuple((i, 4 + j) for i in range(4) for j in range(2)),
            (3, 7),
            (0.8, -0.3, 0.4, 0.0, 0.0, 0.2),
            n_hidden=2,
        ),
    )
}


class BinaryGraph(PairwiseMRF):
    """An Ising model: two states, one number per edge and per variable; training keeps that form.

    A coupling w scores 0 for agreement and −w for disagreement, a bias b scores b for a 1.
    """

    def __init__(self, graph: Graph, couplings: Sequence[float], biases: Sequence[float], **options: Any) -> None:
        hidden = range(graph.n_visible, graph.n)
        super().__init__((2,) * graph.n, graph.edges, tuple(hidden), dtype=torch.float64, **options)
        del self.tables
        self.coupling = nn.Parameter(torch.tensor(couplings, dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor(biases, dtype=torch.float64))

    @property
    def unary(self) -> Tensor:  # type: ignore[override]
        return torch.stack([torch.zeros_like(self.bias), self.bias], 1)

    @property
    def pairwise(self) -> Tensor:  # type: ignore[override]
        zero = torch.zeros_like(self.coupling)
        return torch.stack([zero, -self.coupling, -self.coupling, zero], 1).view(-1, 2, 2)

    def graph(self) -> FactorPotentials:
        return FactorPotentials(self.wiring, self.unary.flatten(), (self.pairwise,))


def couplings(key: str, preset: str = "ferromagnetic", strength: float = 1.0) -> tuple[float, ...]:
    """All couplings positive (neighbours want to agree), or some negative (no state can satisfy all of them)."""
    if key not in GRAPHS:
        raise UnknownNameError(f"there is no graph named {key!r}; {nearest(key, list(GRAPHS))}")
    if preset not in ("ferromagnetic", "frustrated"):
        raise UnknownNameError(f"there is no preset named {preset!r}; {nearest(preset, ['ferromagnetic', 'frustrated'])}")
    negative = GRAPHS[key].negative if preset == "frustrated" else ()
    return tuple(strength * (-SIZE if e in negative else SIZE) for e in range(len(GRAPHS[key].edges)))


def graph(key: str, preset: str = "ferromagnetic", strength: float = 1.0, **options: Any) -> BinaryGraph:
    """One of the graphs as a model: chain, tree, loop, grid, complete or rbm."""
    chosen = couplings(key, preset, strength)
    return BinaryGraph(GRAPHS[key], chosen, GRAPHS[key].biases, **options)
