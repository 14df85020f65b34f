"""Query training of a graph of the lab on its own samples: a worse model that answers better.

The user's graph is the truth. Its distribution is enumerated, so that samples, likelihoods and marginals are exact, and
only those of belief propagation are approximate.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from qtcore import Query, exact, fit
from qtcore.learn.query_training import Progress
from qtcore_app.lab.graphs import MAX_OWN, Lab
from qtcore_app.lab.model import LabGraph, model

N_SAMPLES, N_QUERIES = 4000, 400
BATCH, RATE, AVERAGING = 500, 0.1, 0.9
SEED = 1


class Score(NamedTuple):
    """The quality of a parameter set, as a model and for answering queries."""

    likelihood: float
    """Mean log2 p(v) over the true distribution, in bits per sample."""
    error: float
    """Mean |p by belief propagation − exact p under the truth| over the targets of the queries."""
    nce: float
    """Bits per target: −log2 of the probability that belief propagation gives the true value."""


def log_joint(graph: LabGraph) -> Tensor:
    """log p of every state of the visible variables, [2, 2, …]."""
    table = exact.joint(graph)
    log_p = table.log_weights - table.log_z
    return log_p.logsumexp(graph.hidden) if graph.hidden else log_p


def states(count: int) -> Tensor:
    """All states of `count` bits, in the order of a flattened table [2^count, count]."""
    return torch.cartesian_prod(*[torch.arange(2)] * count).view(-1, count)


def samples(lab: Lab, count: int, seed: int) -> Tensor:
    """Draws from the user's graph [count, visible]."""
    p = log_joint(model(lab)).flatten().exp()
    chosen = torch.multinomial(p, count, replacement=True, generator=torch.Generator().manual_seed(seed))
    return states(lab.graph.n_visible)[chosen]


def queries(lab: Lab) -> Query:
    """The fixed queries for comparing parameter sets: each variable is a target with probability ½."""
    values = samples(lab, N_QUERIES, SEED + 1)
    random = torch.Generator().manual_seed(SEED + 2)
    asked = torch.rand(values.shape, generator=random) < 0.5
    one = torch.randint(values.shape[1], (len(values), 1), generator=random)
    return Query(values, ~asked.scatter(1, one, True))


def exact_answers(lab: Lab, asked: Query) -> Tensor:
    """p(v_i = 1 | evidence) under the truth, for all queries at once [B, visible]."""
    bits = states(lab.graph.n_visible)
    p = log_joint(model(lab)).flatten().exp()
    fits = ((bits[None] == asked.values[:, None]) | ~asked.observed[:, None]).all(-1) * p
    return (fits @ bits.to(p.dtype)) / fits.sum(1, keepdim=True)


@torch.no_grad()
def score(lab: Lab, trained: bool = False) -> Score:
    """The score of the user's parameters, or of the trained ones."""
    graph, asked = model(lab, trained), queries(lab)
    truth = log_joint(model(lab)).flatten()
    likelihood = float((truth.exp() * log_joint(graph).flatten()).sum()) / math.log(2)
    answer = graph(asked).probs[..., 1]
    error = (answer - exact_answers(lab, asked)).abs()[asked.target].mean()
    losses, target = graph.nll(asked)
    return Score(likelihood, float(error), float(losses.sum() / target.sum()) / math.log(2))


def train(lab: Lab, steps: int, callback: Callable[[Progress], bool | None] | None = None) -> Lab:
    """The lab with trained parameters in addition to the user's; the callback may stop the training."""
    copy = model(lab)
    fit(
        copy,
        samples(lab, N_SAMPLES, SEED),
        steps=steps,
        batch=BATCH,
        learning_rate=RATE,
        averaging=AVERAGING,
        seed=SEED,
        callback=callback,
    )
    parameters = torch.cat([copy.coupling, copy.bias]).detach().clamp(-MAX_OWN, MAX_OWN)
    return replace(lab, trained=tuple(round(float(value), 3) for value in parameters), trained_for=lab.settings, shown=1)
