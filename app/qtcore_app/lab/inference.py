"""Belief propagation on a graph of the lab: all layers, single messages by hand, and whether it converges.

Messages and beliefs are log-odds. A coupling w scores 0 for agreement and −w for disagreement, a bias b scores b for a 1:
m_ij = f_w(x; T) with the cavity x = b_i + u_i + Σ_{k≠j} m_ki, where u_i is ±∞ if x_i is clamped. A third-order factor takes the
cavities of two variables, and adds up (T = 0: takes the best of) the four states of these.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qtcore import BP, Query, exact
from qtcore.inference.bp import bethe
from qtcore.inference.bp.binary import transfer
from qtcore.inference.bp.factors import FactorPassing
from qtcore.inference.convergence import CONVERGED, Verdict, verdict
from qtcore_app.lab.drawings import Drawing, table
from qtcore_app.lab.graphs import Lab
from qtcore_app.lab.model import model, query

CURVE_REACH, CURVE_POINTS = 6.0, 97
CERTAIN = 1000.0
"""Log-odds that are as good as infinite."""

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Answers(NamedTuple):
    """What enumeration of all states says: p(x_i = 1 | evidence) [n], and log Z given the evidence."""

    marginals: Floats
    log_z: float


def exact_answers(lab: Lab, temperature: float = 1.0, trained: bool = False) -> Answers:
    """By enumeration; at another temperature, what belief propagation there has on a tree: from the log-odds
    T log Σ exp(score / T) over the states with x_i = 1 and x_i = 0, at T = 0 those of the best. log Z is that of T = 1."""
    scores = exact.joint(model(lab, trained)).log_weights
    for i, value in enumerate(lab.evidence):
        if value >= 0:
            scores = scores.index_fill(i, torch.tensor(1 - value), -torch.inf)
    rows = torch.stack([scores.movedim(i, 0).reshape(2, -1) for i in range(lab.graph.n)])
    log_p = temperature * (rows / temperature).logsumexp(-1) if temperature else rows.amax(-1)
    marginals = np.asarray((log_p[:, 1] - log_p[:, 0]).sigmoid().numpy())
    return Answers(marginals, float(scores.flatten().logsumexp(0)) + lab.graph.constant)


def exact_marginals(lab: Lab, temperature: float = 1.0) -> Floats:
    """p(x_i = 1 | evidence) of the user's graph [n]."""
    return exact_answers(lab, temperature).marginals


class Layers(NamedTuple):
    """All layers of a run: messages [K, M], beliefs p(x_i = 1) [K, n], residuals [K]."""

    messages: Floats
    beliefs: Floats
    residual: Floats


def rows(passing: FactorPassing, graph: Drawing) -> Tensor:
    """Where each message has its entries for the states 0 and 1 in the buffer of the library [2, M]."""
    result = np.zeros((2, graph.n_messages), dtype=np.int64)
    pairs = len(graph.edges)
    for blocks, group in zip(passing.where.blocks, passing.wiring.groups, strict=True):
        order, count = len(group.shape), len(group.scope)
        for axis, block in enumerate(blocks):
            if order == 2:
                messages = 2 * group.number + 1 - axis
            else:
                messages = 2 * pairs + order * (group.number - pairs) + axis
            for state in range(2):
                result[state, messages] = block.start + state * count + np.arange(count)
    return torch.from_numpy(result)


@torch.no_grad()
def layers(lab: Lab, trained: bool = False, count: int | None = None) -> Layers:
    """Layer 0 to the last, by the library."""
    network, asked = model(lab, trained), query(lab)
    passing = network.engine.passing(network, asked)  # type: ignore[attr-defined]
    zero, one = rows(passing, lab.graph)
    state, info = passing.initial(), passing.before()
    messages, beliefs, residual = [], [], []
    for k in range(1 + (lab.layers if count is None else count)):
        if k:
            state, info = passing.update(state)
        buffer = passing.T * passing.buffer(state)[:, 0]
        messages.append(buffer[one] - buffer[zero])
        beliefs.append(torch.cat([part.probs[0, :, 1] for part in passing.answers(state)]))
        residual.append(info["residual"][0])
    return Layers(*(np.asarray(torch.stack(each).numpy()) for each in (messages, beliefs, residual)))


@torch.no_grad()
def bethe_log_z(lab: Lab, messages: Floats, trained: bool = False) -> Floats:
    """The Bethe estimate of log Z given the evidence, from the messages of each layer [K, M]; at T = 1."""
    network, asked, count = model(lab, trained), query(lab), len(messages)
    many = Query(asked.values.expand(count, -1), asked.observed.expand(count, -1))
    passing = BP(schedule="flooding").passing(network, many)
    assert isinstance(passing, FactorPassing)
    buffer = passing.initial()
    buffer[rows(passing, lab.graph)[1]] = torch.from_numpy(messages.T.copy())
    return np.asarray(bethe.of_messages(passing, buffer).numpy()) + lab.graph.constant


class Updates(NamedTuple):
    """The next value of every message, if it were sent now; each [..., M]."""

    cavity: Floats
    """What the receiver itself would say to the factor: its belief without this message."""
    fresh: Floats
    """From the cavities of the factor's other variables."""
    new: Floats
    """The same after damping."""


def updates(lab: Lab, messages: Floats, trained: bool = False) -> Updates:
    """The equations at the top, for all messages [..., M] at once."""
    graph = lab.graph
    _, sink = ends(graph)
    cavity = totals(lab, messages, trained)[..., sink] - messages
    pairs = 2 * len(graph.edges)
    w = np.asarray([lab.numbers(f, trained)[0] for f in range(len(graph.edges))], float)
    sent = cavity[..., np.arange(pairs) ^ 1]
    fresh = [transfer(torch.from_numpy(sent), torch.from_numpy(w.repeat(2)), lab.temperature).numpy()]
    for t in range(len(graph.triples)):
        first = pairs + 3 * t
        scores = table(lab.numbers(len(graph.edges) + t, trained))
        fresh += _of_three(scores, cavity[..., first : first + 3].clip(-CERTAIN, CERTAIN), lab.temperature)
    together = np.concatenate(fresh, -1)
    return Updates(cavity, together, (1 - lab.damping) * together + lab.damping * messages)


def _of_three(scores: Floats, cavity: Floats, T: float) -> list[Floats]:
    """The messages to each of the three variables [..., 1], from their cavities [..., 3]."""
    result = []
    for axis in range(3):
        one, other = (np.multiply.outer(cavity[..., k], (0.0, 1.0)) for k in range(3) if k != axis)
        both = np.moveaxis(scores, axis, 0) + (one[..., :, None] + other[..., None, :])[..., None, :, :]
        flat = both.reshape(*both.shape[:-2], 4)
        top = flat.max(-1)
        log = top + T * np.log(np.exp((flat - top[..., None]) / T).sum(-1)) if T else top
        result.append((log[..., 1] - log[..., 0])[..., None])
    return result


def ends(graph: Drawing) -> tuple[Whole, Whole]:
    """Factor and receiver of each message."""
    both = np.array(graph.messages, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def totals(lab: Lab, messages: Floats, trained: bool = False) -> Floats:
    """The log-odds of every variable [..., n], infinite where it is observed."""
    _, sink = ends(lab.graph)
    arrives = (sink[:, None] == np.arange(lab.graph.n)).astype(float)
    total = messages @ arrives + np.asarray(lab.parameters(trained)[1])
    evidence = np.asarray(lab.evidence)
    return np.where(evidence < 0, total, np.where(evidence == 1, np.inf, -np.inf))


def beliefs(lab: Lab, messages: Floats, trained: bool = False) -> Floats:
    """p(x_i = 1) from the messages [..., n]."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-totals(lab, messages, trained))))


def by_hand(lab: Lab, trained: bool = False) -> Layers:
    """From layer `lab.hand` on, one message at a time; the residual is the largest pending change."""
    messages = layers(lab, trained, lab.hand).messages[-1].copy()
    frames, residual = [messages.copy()], []
    for message in lab.sent:
        due = updates(lab, messages, trained).new
        residual.append(np.abs(due - messages).max())
        messages[message] = due[message]
        frames.append(messages.copy())
    residual.append(np.abs(updates(lab, messages, trained).new - messages).max(initial=0.0))
    return Layers(np.stack(frames), beliefs(lab, np.stack(frames), trained), np.array(residual))


# ---------------------------------------------------------------------- convergence


def verdicts(run: Layers, hand: bool) -> list[Verdict]:
    """The verdict at every layer; by hand, only from the pending changes, since no layer repeats."""
    if hand:
        return [Verdict("converged" if change < CONVERGED else "not yet") for change in run.residual]
    return [verdict(run.messages[: k + 1], run.residual[: k + 1]) for k in range(len(run.residual))]
