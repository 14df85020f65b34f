"""Belief propagation on a graph of the lab: all layers, single messages by hand, and whether it converges.

Messages and beliefs are log-odds. A coupling w scores 0 for agreement and −w for disagreement, a bias b scores b for a 1:
m_ij = f_w(x; T) with the cavity x = b_i + u_i + Σ_{k≠j} m_ki, where u_i is ±∞ if x_i is clamped.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from qtcore import Query, exact
from qtcore.examples import BinaryGraph
from qtcore.inference.bp.binary import transfer
from qtcore.inference.convergence import CONVERGED, Verdict, verdict
from qtcore_app.lab.graphs import Graph, Lab

CURVE_REACH, CURVE_POINTS = 6.0, 97

Floats = NDArray[np.float64]


def model(lab: Lab, trained: bool = False) -> BinaryGraph:
    """The inference network that the user has set."""
    couplings, biases = lab.parameters(trained)
    options: dict[str, Any] = {"n_layers": lab.layers, "temperature": lab.temperature, "damping": lab.damping}
    return BinaryGraph(lab.graph, couplings, biases, **options)


def query(lab: Lab) -> Query:
    values = torch.tensor([lab.evidence[: lab.graph.n_visible]])
    return Query(values.clamp_min(0), values >= 0)


def exact_marginals(lab: Lab, temperature: float = 1.0) -> Floats:
    """p(x_i = 1 | evidence) of the user's graph, by enumeration [n]; at another temperature, what belief propagation there has
    on a tree: from the log-odds T log Σ exp(score / T) over the states with x_i = 1 and x_i = 0, at T = 0 those of the best."""
    scores = exact.joint(model(lab)).log_weights
    for i, value in enumerate(lab.evidence):
        if value >= 0:
            scores = scores.index_fill(i, torch.tensor(1 - value), -torch.inf)
    rows = torch.stack([scores.movedim(i, 0).flatten(1) for i in range(lab.graph.n)])
    log_p = temperature * (rows / temperature).logsumexp(-1) if temperature else rows.amax(-1)
    return np.asarray((log_p[:, 1] - log_p[:, 0]).sigmoid().numpy())


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
    return Layers(*(np.asarray(torch.stack(rows).numpy()) for rows in (messages, beliefs, residual)))


class Updates(NamedTuple):
    """The next value of every message, if it were sent now; each [2E]: its cavity, f_w(cavity; T), and that after damping."""

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
    w, b = (np.asarray(part, float) for part in lab.parameters(trained))
    total = np.bincount(sink, messages, lab.graph.n) + b
    evidence = np.asarray(lab.evidence)
    total = np.where(evidence < 0, total, np.where(evidence == 1, np.inf, -np.inf))
    cavity = total[source] - messages[np.arange(len(messages)) ^ 1]
    fresh = transfer(torch.from_numpy(cavity), torch.from_numpy(w.repeat(2)), lab.temperature).numpy()
    return Updates(cavity, fresh, (1 - lab.damping) * fresh + lab.damping * messages)


def beliefs(lab: Lab, messages: Floats, trained: bool = False) -> Floats:
    """p(x_i = 1) from the messages [n]."""
    _, sink = ends(lab.graph)
    logits = np.bincount(sink, messages, lab.graph.n) + np.asarray(lab.parameters(trained)[1])
    evidence = np.asarray(lab.evidence)
    with np.errstate(over="ignore"):
        return np.where(evidence < 0, 1 / (1 + np.exp(-logits)), evidence)


def by_hand(lab: Lab, trained: bool = False) -> Layers:
    """From layer `lab.hand` on, one message at a time; the residual is the largest pending change."""
    messages = layers(lab, trained, lab.hand).messages[-1].copy()
    frames, residual = [messages.copy()], []
    for message in lab.sent:
        due = updates(lab, messages, trained).new
        residual.append(np.abs(due - messages).max())
        messages[message] = due[message]
        frames.append(messages.copy())
    residual.append(np.abs(updates(lab, messages, trained).new - messages).max())
    return Layers(np.stack(frames), np.stack([beliefs(lab, frame, trained) for frame in frames]), np.array(residual))


# ---------------------------------------------------------------------- convergence


def verdicts(run: Layers, hand: bool) -> list[Verdict]:
    """The verdict at every layer; by hand, only from the pending changes, since no layer repeats."""
    if hand:
        return [Verdict("converged" if change < CONVERGED else "not yet") for change in run.residual]
    return [verdict(run.messages[: k + 1], run.residual[: k + 1]) for k in range(len(run.residual))]


# ---------------------------------------------------------------------- for the page


def curves(w: float, T: float) -> dict[str, list[float]]:
    """The transfer function of a coupling at T, at 0 and at 1."""
    x = torch.linspace(-CURVE_REACH, CURVE_REACH, CURVE_POINTS, dtype=torch.float64)
    weight = torch.tensor(w, dtype=torch.float64)
    return {"x": _short(x)} | {name: _short(transfer(x, weight, t)) for name, t in (("now", T), ("zero", 0.0), ("one", 1.0))}


def picture(lab: Lab) -> dict[str, Any]:
    """Everything that the page draws, as plain numbers."""
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
        "exact": _short(exact_marginals(lab, 1.0 if trained else lab.temperature)),
        "residual": [float(f"{value:.3g}") for value in run.residual],
        "verdicts": [tuple(entry) for entry in verdicts(run, hand)],
        "cavity": _short(np.stack([update.cavity for update in due]).clip(-1000, 1000)),
        "fresh": _short(np.stack([update.fresh for update in due])),
        "curves": curves(couplings[lab.edge], lab.temperature),
    }


def _short(values: Any) -> Any:
    """Lists of numbers with four decimals."""
    return np.round(np.asarray(values, float), 4).tolist()
