"""Marginals of graphs in files: what an engine says, whether it converged, and how far that is from a reference."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qtcore.errors import InputError
from qtcore.inference import BP, Engine, Exact, JoinGraph, Layered, Reweighted
from qtcore.inference.bp import MessagePassing
from qtcore.inference.elimination import EliminationPosterior, order_of
from qtcore.inference.engine import named
from qtcore.inference.orders import TooWideError
from qtcore.models import uai
from qtcore.models.factor_graph import FactorGraph
from qtcore.models.uai import Floats
from qtcore.query import Query

UNTIL = 1e-4
"""Messages have converged when none changes by more than this."""
AT_MOST = 1000
"""Layers after which belief propagation gives up."""
PLAIN = BP(damping=0.0, until=UNTIL, at_most=AT_MOST)
DAMPED = BP(damping=0.5, until=UNTIL, at_most=AT_MOST)
RESIDUAL = BP(damping=0.5, schedule="residual", until=UNTIL, at_most=AT_MOST)
"""Belief propagation in the table of a folder, and the last two where `auto` has to use it."""

JOINED = JoinGraph(until=UNTIL, at_most=AT_MOST)
"""What `auto` does where exact answers are out of reach …"""
CLUSTERS = 20_000
"""… but for graphs with more factors than this: clusters, each visited by itself, would take too long."""
SECONDS = 40.0
"""After so long the clusters of `auto` stop, converged or not."""


@dataclass(frozen=True)
class Answer:
    """The marginals of all variables of a graph, and how they came about."""

    marginals: list[Floats]
    engine: Engine
    layers: int
    residual: float
    """The largest change of a message in the last layer."""
    seconds: float

    @property
    def converged(self) -> bool:
        until = self.engine.until if isinstance(self.engine, Layered) else None
        return not isinstance(self.engine, Layered) or self.residual <= (UNTIL if until is None else until)

    def told(self) -> str:
        """In words: which engine, how it ended, and the time it took."""
        name, took = self.engine.name, f"in {self.seconds:.3g} s"
        if not isinstance(self.engine, Layered):
            return f"{name}, {took}"
        ended = "converged" if self.converged else "not converged"
        what = "messages" if isinstance(self.engine, MessagePassing | JoinGraph) else "marginals"
        return f"{name}: {ended} after {self.layers} layers (the last changed {what} by up to {self.residual:.2g}), {took}"

    def advice(self) -> str:
        """What to try if it has not converged."""
        if isinstance(self.engine, JoinGraph):
            return "the messages have not converged: these marginals are averages over the last layers, and may be far off."
        if isinstance(self.engine, Reweighted):
            return "the messages have not converged; try --damping 0.5, or another engine."
        if not isinstance(self.engine, BP):
            return "the marginals have not converged; try --damping 0.5, --schedule sequential, or another engine."
        damping = self.engine.damping or 0.0
        residual = self.engine.schedule == "residual"
        more = "--damping 0.5" if damping < 0.5 else f"--damping 0.9 with --layers {10 * AT_MOST}"
        more += "" if residual else ", --schedule residual"
        return f"the messages have not converged, so that these marginals may be far off; try {more}, or --engine exact."


def choose(name: str, layers: int | None, until: float | None, damping: float | None, schedule: str | None = None) -> Engine:
    """The engine of that name; one with layers stops by itself unless only a number of them is given."""
    engine = named(name)
    if not isinstance(engine, Layered):
        of_layers = (("until", until), ("damping", damping), ("schedule", schedule))
        for option, given in (*of_layers, ("layers", layers if name == "exact" else None)):
            if given is not None:
                kinds = "bp, mean-field, reweighted and join-graph"
                raise InputError(f"--{option} goes with the engines {kinds}, not with {name}.")
        return engine.at(layers)
    engine = replace(engine, damping=damping, schedule=schedule)
    if layers is not None and until is None:
        return engine.at(layers)
    return replace(engine, until=UNTIL if until is None else until, at_most=AT_MOST if layers is None else layers)


def ask(model: FactorGraph, query: Query, engine: Engine, seconds: float = math.inf) -> Answer:
    """All marginals, hidden variables' too, for a query of one row; after so many seconds, no further layer is begun."""
    start = time.perf_counter()
    with torch.no_grad(), _one_thread(isinstance(engine, JoinGraph)):
        model.check(query)
        state, layers, residual = engine.init(model, query), 0, 0.0
        for _ in range(engine.steps(model)):
            state, info = engine.step(state)
            layers, residual = layers + 1, float(info["residual"])
            if engine.finished(info) or time.perf_counter() - start > seconds:
                break
        visible: Any = engine.marginals(state)
        hidden: Any = engine.hidden(state)
    rows = torch.zeros(len(model.n_states), visible.probs.shape[-1], dtype=torch.float64)
    rows[list(model.wiring.visible)] = visible.probs[0].to("cpu", torch.float64)
    rows[list(model.wiring.hidden)] = hidden.probs[0].to("cpu", torch.float64)
    marginals = [row[:size].numpy() for row, size in zip(rows, model.n_states, strict=True)]
    return Answer(marginals, engine, layers, residual, time.perf_counter() - start)


@contextmanager
def _one_thread(wanted: bool) -> Iterator[None]:
    """Thousands of operations on small tables: where other work runs, each that is shared among threads waits for it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if wanted else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ask_auto(model: FactorGraph, query: Query) -> Answer:
    """Exact marginals where the graph is narrow enough; elsewhere those of belief propagation between clusters, as large as
    time allows. Of very large graphs those of damped belief propagation, by the residual schedule if it does not converge."""
    start = time.perf_counter()
    try:
        return ask(model, query, Exact())
    except TooWideError:
        if model.n_factors <= CLUSTERS:
            answer = ask(model, query, JOINED, SECONDS)
        else:
            answer = ask(model, query, DAMPED)
            answer = answer if answer.converged else ask(model, query, RESIDUAL)
        return replace(answer, seconds=time.perf_counter() - start)  # with what the attempts took


def log_z(model: FactorGraph, query: Query) -> float:
    """log of the sum over all states that agree with the evidence of a query of one row, exactly."""
    model.check(query)
    with torch.no_grad():
        posterior = EliminationPosterior(model.graph(), model.evidence(query, torch.float64))
        return float(posterior.log_z[0])


def table(folder: Path) -> Iterator[str]:
    """Lines of a table over all graphs of a folder that have reference marginals: plain, damped and residual belief
    propagation, clusters, and automatic inference."""
    found = [path for path in sorted(folder.glob("*.uai")) if path.with_name(f"{path.name}.MAR").exists()]
    if not found:
        raise InputError(f"{folder} has no graph with its reference marginals (name.uai with name.uai.MAR).")
    yield "| graph | variables | factors | width | bp | bp, damping 0.5 | residual, damping 0.5 | join-graph | auto | |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    totals: list[list[float]] = [[], [], [], [], []]
    for path in found:
        model = FactorGraph.from_uai(path)
        evidence = path.with_name(f"{path.name}.evid")
        known = uai.read_evidence(evidence, model.n_states) if evidence.exists() else {}
        reference, query = uai.read_marginals(path.with_name(f"{path.name}.MAR"), model.n_states), model.query(known)
        order = order_of(model.graph(), model.evidence(query))
        by_bp = [ask(model, query, engine) for engine in (PLAIN, DAMPED, RESIDUAL)]
        joined, auto, cells = ask(model, query, JOINED, SECONDS), ask_auto(model, query), []
        for answer, total in zip((*by_bp, joined, auto), totals, strict=True):
            result = compare(answer.marginals, reference, set(known))
            total.append(result.score)
            cells.append(f"{result.hellinger:.4f} ({result.score:.1f}{'' if answer.converged else ', not converged'})")
        sizes = f"{len(model.n_states)} | {model.n_factors} | {order.width}"
        yield f"| {path.stem} | {sizes} | {' | '.join(cells)} | {auto.engine.name}, {auto.seconds:.1f} s |"
    mean = " | ".join(f"mean score {np.mean(total):.1f}" for total in totals)
    yield f"| all {len(found)} | | | | {mean} | |"


@dataclass(frozen=True)
class Comparison:
    """Marginals beside reference marginals, over the variables that are not observed."""

    hellinger: float
    """Mean over the variables of √(1 − Σ √(p·q))."""
    mean: float
    """Mean absolute error of a probability."""
    largest: float
    score: float
    """The competition's: 100·(1 − Hellinger distance / that of uniform marginals), at least 0."""

    def told(self) -> str:
        return (
            f"mean Hellinger distance {self.hellinger:.3g}, mean absolute error {self.mean:.3g}, "
            f"largest {self.largest:.3g}, score {self.score:.1f}"
        )


def compare(marginals: Sequence[Floats], reference: Sequence[Floats], observed: "Sequence[int] | set[int]") -> Comparison:
    """How far marginals are from reference marginals."""
    free = [i for i in range(len(reference)) if i not in set(observed)]
    if not free:
        raise InputError("all variables are observed, so that there is nothing to compare.")
    errors = np.concatenate([np.abs(marginals[i] - reference[i]) for i in free])
    distance = float(np.mean([hellinger(marginals[i], reference[i]) for i in free]))
    uniform = float(np.mean([hellinger(np.full(len(reference[i]), 1 / len(reference[i])), reference[i]) for i in free]))
    if uniform == 0:
        score = 100.0 if distance == 0 else 0.0
    else:
        score = max(0.0, 100 * (1 - distance / uniform))
    return Comparison(distance, float(errors.mean()), float(errors.max()), score)


def hellinger(p: Floats, q: Floats) -> float:
    """√(½ Σ (√p − √q)²), which is 0 for p = q without the rounding of 1 − Σ √(p·q)."""
    return math.sqrt(float(((np.sqrt(p) - np.sqrt(q)) ** 2).sum()) / 2)
