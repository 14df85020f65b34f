"""The same model as a PairwiseMRF, and the same query for it: one graph, whoever walks on it."""

import itertools
from typing import Any

import torch
from torch import Tensor

from qtcore import DBM, RBM, GridMRF, PairwiseMRF, Query

from .strategies import temperature_of

NEIGHBOURS = (  # potential, then where its index 0 and its index 1 lie
    ("vertical", (0, 0), (1, 0)),
    ("horizontal", (0, 0), (0, 1)),
    ("diagonal", (0, 0), (1, 1)),
    ("antidiagonal", (1, 0), (0, 1)),
)


def agreement(w: Tensor) -> Tensor:
    """½·w·x̃·ỹ for bits written as ±1."""
    return torch.stack([torch.stack([w, -w]), torch.stack([-w, w])]) / 2


def fill(model: PairwiseMRF, unary: Any, pairwise: Any) -> PairwiseMRF:
    with torch.no_grad():
        for tensor, value in zip(model.unary, unary, strict=True):
            tensor.copy_(value)
        for tensor, value in zip(model.pairwise, pairwise, strict=True):
            tensor.copy_(value)
    return model


def options_of(model: Any) -> dict[str, Any]:
    return {
        "n_layers": model.n_layers,
        "damping": model.damping,
        "temperature": temperature_of(model),
        "dtype": model.dtype,
    }


def bits_as_pairwise(model: "RBM | DBM") -> PairwiseMRF:
    """An RBM's variables are v, then h; a DBM's are v, then h1, then h2."""
    if isinstance(model, RBM):
        H, V = model.W.shape
        joined = {(j, V + i): model.W[i, j] for i in range(H) for j in range(V)}
        biases = torch.cat([model.c_v, model.c_h])
    else:
        (H1, V), H2 = model.W1.shape, len(model.W2)
        joined = {(j, V + i): model.W1[i, j] for i in range(H1) for j in range(V)}
        joined |= {(V + i, V + H1 + k): model.W2[k, i] for k in range(H2) for i in range(H1)}
        biases = torch.cat([model.c_v, model.c_h1, model.c_h2])
    n = len(biases)
    graph = PairwiseMRF((2,) * n, list(joined), hidden=range(V, n), **options_of(model))
    return fill(graph, [torch.stack([-c, c]) / 2 for c in biases], [agreement(w) for w in joined.values()])


def bits_as_likelihoods(query: Query) -> Query:
    """A fractional bit is a likelihood of its two states."""
    values = query.values.nan_to_num()
    return Query(torch.stack([1 - values, values], -1), query.observed, query.target, query.truth)


def grid_as_pairwise(model: GridMRF, height: int, width: int) -> PairwiseMRF:
    """Pixels row by row, all of them visible, with every clone as a state of its own."""
    edges, tables = [], []
    for (r, c), (name, (r0, c0), (r1, c1)) in itertools.product(itertools.product(range(height), range(width)), NEIGHBOURS):
        here, there = (r + r0, c + c0), (r + r1, c + c1)
        if max(here[0], there[0]) < height and max(here[1], there[1]) < width:
            edges.append((here[0] * width + here[1], there[0] * width + there[1]))
            tables.append(model.potentials[name])
    states = sum(model.clones)
    graph = PairwiseMRF((states,) * (height * width), edges, **options_of(model))
    return fill(graph, [torch.zeros(states)] * (height * width), tables)


def pixels_as_likelihoods(model: GridMRF, query: Query) -> Query:
    """w·p(v | label) + (1 − w)/2 for every state of a pixel, as evidence of weight 1."""
    p_on = torch.cat([model.emission[label].expand(n) for label, n in enumerate(model.clones)]).double()
    v, w = query.values.nan_to_num()[..., None].double(), query.observed[..., None].double()
    reading = w * (v * p_on + (1 - v) * (1 - p_on)) + (1 - w) / 2
    return Query(reading.flatten(1, 2), torch.ones_like(query.observed.flatten(1), dtype=torch.bool))
