"""How the cost grows with the size of an image, the number of layers, the batch and the number of edges:
`python -m qtcore.bench growth`. Where the time for one message of one layer stays the same, the cost is linear."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from qtcore.models.factor_graph import FactorGraph
from qtcore.models.grid import GridMRF
from qtcore.paper.graph_benchmark import nothing, random_scopes
from qtcore.paper.plots import pyplot
from qtcore.query import Query
from qtcore.support.files import write_atomically

SIDES, DEPTHS, BATCHES = (15, 30, 60, 120, 240), (5, 15, 50, 100, 200), (1, 5, 20, 100, 500)
EDGES = tuple(10**power for power in range(1, 7))
SIDE, DEPTH = 30, 15
"""Of the grids where these do not vary."""
GRAPH_LAYERS = 20
QUICK = 3
"""A quick run takes so many of the smallest sizes."""


class Point(NamedTuple):
    """One inference: what varied, how much of it, and what it cost."""

    sweep: str
    size: int
    seconds: float
    messages: int
    """Of all layers and samples."""

    @property
    def nanoseconds(self) -> float:
        """For one message of one layer."""
        return 1e9 * self.seconds / self.messages


def grid(side: int, depth: int, batch: int) -> tuple[Callable[[], object], int]:
    """Inference with random potentials, and how many messages that takes."""
    torch.manual_seed(0)
    model = GridMRF(side, side)
    images = (torch.rand(batch, side, side) < 0.12).float()
    query = Query(images, torch.ones_like(images))
    edges = 4 * side * (side - 1) + 4 * (side - 1) ** 2  # directed
    return lambda: model(query, depth), batch * depth * edges


def graph(edges: int) -> tuple[Callable[[], object], int]:
    """The same on a random graph of binary variables, twice as many edges as variables, each with its own table."""
    torch.manual_seed(0)
    n = max(6, edges // 2)
    scopes = random_scopes(n, edges, 2)
    model = FactorGraph([2] * n, {"edge": [edges, 2, 2]}, [("edge", scopes)], n_layers=GRAPH_LAYERS)
    query = nothing(model)
    return lambda: model(query), 2 * edges * GRAPH_LAYERS


def points(quick: bool = False) -> Iterator[Point]:
    """All measurements, one after the other."""
    few = slice(QUICK if quick else None)
    for sweep, sizes, make in (
        ("pixels on a side", SIDES, lambda side: grid(side, DEPTH, 1)),
        ("layers", DEPTHS, lambda depth: grid(SIDE, depth, 1)),
        ("images", BATCHES, lambda batch: grid(SIDE, DEPTH, batch)),
        ("edges", EDGES, graph),
    ):
        for size in sizes[few]:
            work, messages = make(size)
            yield Point(sweep, size, _seconds(work), messages)


@torch.no_grad()
def _seconds(work: Callable[[], object]) -> float:
    """The median of three, after one that makes what is kept."""
    work()
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return median(taken)


def table(quick: bool, about: str, picture: Path | None = None) -> Iterator[str]:
    """Lines of a table, one for each size as soon as it is measured; and a picture of them."""
    yield f"| grid of {SIDE}×{SIDE} with {DEPTH} layers, but for | | ms | ns per message and layer |"
    yield "|---|---|---|---|"
    done: list[Point] = []
    for point in points(quick):
        if point.sweep == "edges" and (not done or done[-1].sweep != point.sweep):
            yield f"| random binary graph, {GRAPH_LAYERS} layers | | | |"
        done.append(point)
        yield f"| {point.sweep} | {point.size:,} | {1e3 * point.seconds:.3g} | {point.nanoseconds:.3g} |"
    yield ""
    yield f"{about}."
    if picture is not None:
        plot(done, picture)


def plot(done: list[Point], path: Path) -> None:
    """Nanoseconds per message and layer: a panel for each sweep; a level line is a cost that grows linearly."""
    sweeps = list(dict.fromkeys(point.sweep for point in done))
    figure, axes = pyplot().subplots(1, len(sweeps), figsize=(3.2 * len(sweeps), 3), squeeze=False)
    for ax, sweep in zip(axes[0], sweeps, strict=True):
        ours = [point for point in done if point.sweep == sweep]
        ax.plot([point.size for point in ours], [point.nanoseconds for point in ours], "o-")
        ax.set(xscale="log", yscale="log", xlabel=sweep)
        ax.grid(alpha=0.3, which="both")
    axes[0][0].set_ylabel("ns per message and layer")
    figure.tight_layout()
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=100))
    pyplot().close(figure)
