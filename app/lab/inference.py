"""Belief propagation on a graph of the lab: all layers, one message by hand, and whether it settles.

Messages and beliefs are log-odds. A coupling w scores 0 for agreement and −w for disagreement, a bias b scores b for a 1:
m_ij = f_w(x; T) with the cavity x = b_i + u_i + Σ_{k≠j} m_ki, where u_i is ±∞ when x_i was seen.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from app.lab.graphs import Graph, Lab
from qtcore import PairwiseMRF, Query, exact
from qtcore.bp.binary import transfer

CONVERGED = 1e-6
"""A run has converged when no message changes by more than this in a layer."""
REPEATS = 0.01
"""A cycle: over a whole period the messages come back to within this share of what a layer changes them."""
LONGEST_PERIOD = 12
CURVE_REACH, CURVE_POINTS = 6.0, 97

Floats = NDArray[np.float64]


class BinaryGraph(PairwiseMRF):
    """Two states, one number per edge and per variable; a training of it keeps that form."""

    def __init__(self, graph: Graph, couplings: Sequence[float], biases: Sequence[float], **options: Any) -> None:
        hidden = range(graph.n_visible, graph.n)
        super().__init__((2,) * graph.n, graph.edges, tuple(hidden), dtype=torch.float64, **options)
        del self.unary, self.pairwise
        self.coupling = nn.Parameter(torch.tensor(couplings, dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor(biases, dtype=torch.float64))

    @property
    def unary(self) -> list[Tensor]:  # type: ignore[override]
        return list(torch.stack([torch.zeros_like(self.bias), self.bias], 1))

    @property
    def pairwise(self) -> list[Tensor]:  # type: ignore[override]
        zero = torch.zeros_like(self.coupling)
        return list(torch.stack([zero, -self.coupling, -self.coupling, zero], 1).view(-1, 2, 2))


def model(lab: Lab, trained: bool = False) -> BinaryGraph:
    """The inference network that the user has set."""
    couplings, biases = lab.parameters(trained)
    options: dict[str, Any] = {"n_layers": lab.layers, "temperature": lab.temperature, "damping": lab.damping}
    return BinaryGraph(lab.graph, couplings, biases, **options)


def query(lab: Lab) -> Query:
    seen = torch.tensor([lab.evidence[: lab.graph.n_visible]])
    return Query(seen.clamp_min(0), seen >= 0)


def exact_marginals(lab: Lab) -> Floats:
    """p(x_i = 1 | evidence) of the user's graph, by enumeration [n]."""
    truth, asked = model(lab), query(lab)
    parts = [exact.marginals(truth, asked).probs[0]]  # type: ignore[attr-defined]
    if lab.graph.n_hidden:
        parts.append(exact.hidden_marginals(truth, asked).probs[0])  # type: ignore[attr-defined]
    return np.asarray(torch.cat(parts)[:, 1].numpy())


class Layers(NamedTuple):
    """All layers of a run: messages [K, 2E], beliefs p(x_i = 1) [K, n], residuals [K]."""

    messages: Floats
    beliefs: Floats
    residual: Floats


@torch.no_grad()
def layers(lab: Lab, trained: bool = False, count: int | None = None) -> Layers:
    """Layer 0 to the last, by the library."""
    messages, beliefs, residual = [], [], []
    for layer in model(lab, trained).layers(query(lab), count):
        directed = layer.messages["directed"][:, 0]
        messages.append(directed[:, 1] - directed[:, 0])
        probs = [layer.marginals.probs[0, :, 1]]  # type: ignore[attr-defined]
        if lab.graph.n_hidden:
            probs.append(layer.hidden.probs[0, :, 1])  # type: ignore[attr-defined]
        beliefs.append(torch.cat(probs))
        residual.append(layer.residual[0])
    return Layers(*(np.asarray(torch.stack(each).numpy()) for each in (messages, beliefs, residual)))


class Updates(NamedTuple):
    """What every message would become, were it sent now; each [2E]: its cavity, f_w(cavity; T), and that after damping."""

    cavity: Floats
    fresh: Floats
    new: Floats


def ends(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Source and sink of each directed message: 2e goes along edge e, 2e + 1 back."""
    pairs = np.array([pair for i, j in graph.edges for pair in ((i, j), (j, i))])
    return pairs[:, 0], pairs[:, 1]


def updates(lab: Lab, messages: Floats, trained: bool = False) -> Updates:
    """The equations at the top, for all messages [2E] at once."""
    source, sink = ends(lab.graph)
    w, b = (np.asarray(each, float) for each in lab.parameters(trained))
    total = np.bincount(sink, messages, lab.graph.n) + b
    seen = np.asarray(lab.evidence)
    total = np.where(seen < 0, total, np.where(seen == 1, np.inf, -np.inf))
    cavity = total[source] - messages[np.arange(len(messages)) ^ 1]
    fresh = transfer(torch.from_numpy(cavity), torch.from_numpy(w.repeat(2)), lab.temperature).numpy()
    return Updates(cavity, fresh, (1 - lab.damping) * fresh + lab.damping * messages)


def beliefs(lab: Lab, messages: Floats, trained: bool = False) -> Floats:
    """p(x_i = 1) from the messages [n]."""
    _, sink = ends(lab.graph)
    logits = np.bincount(sink, messages, lab.graph.n) + np.asarray(lab.parameters(trained)[1])
    seen = np.asarray(lab.evidence)
    with np.errstate(over="ignore"):
        return np.where(seen < 0, 1 / (1 + np.exp(-logits)), seen)


def by_hand(lab: Lab, trained: bool = False) -> Layers:
    """From layer `lab.hand` on, one message after the other; the residual is the largest change that is still due."""
    messages = layers(lab, trained, lab.hand).messages[-1].copy()
    frames, residual = [messages.copy()], []
    for each in lab.sent:
        due = updates(lab, messages, trained).new
        residual.append(np.abs(due - messages).max())
        messages[each] = due[each]
        frames.append(messages.copy())
    residual.append(np.abs(updates(lab, messages, trained).new - messages).max())
    return Layers(np.stack(frames), np.stack([beliefs(lab, frame, trained) for frame in frames]), np.array(residual))


# ---------------------------------------------------------------------- does it settle?


class Verdict(NamedTuple):
    word: str
    """converged, oscillating or not yet"""
    period: int = 0


def verdict(messages: Floats, residual: Floats) -> Verdict:
    """Of a run up to its last layer.

    Converged: that layer changed no message by more than 1e-6. Oscillating: for a period p ≥ 2, each of the last p layers
    repeats the one p layers before it (to 1 % of the residual), and the residual does not fall (by 1 % in p layers).
    """
    last = len(residual) - 1
    if last > 0 and residual[last] < CONVERGED:
        return Verdict("converged")
    for period in range(2, min(LONGEST_PERIOD, last // 2) + 1):
        now, before = slice(last - period + 1, last + 1), slice(last - 2 * period + 1, last - period + 1)
        apart = np.abs(messages[now] - messages[before]).max()
        if apart <= REPEATS * residual[now].max() and residual[now].max() >= 0.99 * residual[before].max():
            return Verdict("oscillating", period)
    return Verdict("not yet")


def verdicts(run: Layers, hand: bool) -> list[Verdict]:
    """For every layer; by hand there is no layer that repeats, only what is still due."""
    if hand:
        return [Verdict("converged" if each < CONVERGED else "not yet") for each in run.residual]
    return [verdict(run.messages[: k + 1], run.residual[: k + 1]) for k in range(len(run.residual))]


# ---------------------------------------------------------------------- for the page


def curves(w: float, T: float) -> dict[str, list[float]]:
    """The transfer function of a coupling at T, at 0 and at 1."""
    x = torch.linspace(-CURVE_REACH, CURVE_REACH, CURVE_POINTS, dtype=torch.float64)
    weight = torch.tensor(w, dtype=torch.float64)
    return {"x": _short(x)} | {name: _short(transfer(x, weight, t)) for name, t in (("now", T), ("zero", 0.0), ("one", 1.0))}


def picture(lab: Lab) -> dict[str, Any]:
    """All that the page draws, as plain numbers."""
    graph, trained = lab.graph, bool(lab.shown and lab.trained)
    hand = lab.hand >= 0
    run = by_hand(lab, trained) if hand else layers(lab, trained)
    due = [updates(lab, frame, trained) for frame in run.messages]
    couplings, biases = lab.parameters(trained)
    return {
        "graph": graph.key,
        "names": graph.names,
        "places": graph.places,
        "edges": graph.edges,
        "visible": graph.n_visible,
        "evidence": lab.evidence,
        "couplings": _short(couplings),
        "biases": _short(biases),
        "set": {
            "couplings": lab.couplings,
            "biases": lab.biases,
            "strength": lab.strength,
            "temperature": lab.temperature,
            "damping": lab.damping,
            "layers": lab.layers,
        },
        "selected": lab.selected,
        "edge": lab.edge,
        "node": lab.node,
        "hand": lab.hand,
        "sent": lab.sent,
        "shown": int(trained),
        "messages": _short(run.messages),
        "beliefs": _short(run.beliefs),
        "exact": _short(exact_marginals(lab)),
        "residual": [float(f"{value:.3g}") for value in run.residual],
        "verdicts": [tuple(each) for each in verdicts(run, hand)],
        "cavity": _short(np.stack([each.cavity for each in due]).clip(-1000, 1000)),
        "fresh": _short(np.stack([each.fresh for each in due])),
        "curves": curves(couplings[lab.edge], lab.temperature),
    }


def _short(values: Any) -> Any:
    """Lists of numbers with four decimals."""
    return np.round(np.asarray(values, float), 4).tolist()
