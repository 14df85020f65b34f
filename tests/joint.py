"""Models without loops, whose marginals are exact, and their joint distributions by enumeration."""

from typing import Any

import torch
from torch import Tensor

from qtcore import DBM, RBM, FactorGraph, GridMRF, PairwiseMRF, Query

from . import oracle
from .strategies import F64, randomise

DISCRETE = ("RBM", "DBM", "PairwiseMRF", "FactorGraph", "GridMRF")


def tree(kind: str, seed: int = 0, scale: float = 1.0) -> Any:
    """A random model of this kind, with hidden variables and without loops, and enough layers to be exact."""
    options: dict[str, Any] = {"n_layers": 12, "dtype": F64}
    if kind == "RBM":
        model: Any = randomise(RBM(4, 2, **options), seed, scale)
        model.W.data *= torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1]])
    elif kind == "DBM":
        model = randomise(DBM(3, 2, 1, **options), seed, scale)
        model.W1.data *= torch.tensor([[1, 1, 0], [0, 0, 1]])
    elif kind == "PairwiseMRF":
        model = randomise(PairwiseMRF((2, 3, 2, 4), [(0, 2), (2, 1), (3, 2)], hidden=(2,), **options), seed, scale)
    elif kind == "FactorGraph":
        factors = [("three", (0, 1, 2)), ("two", (2, 3))]
        model = FactorGraph((2, 3, 2, 2), {"three": [2, 3, 2], "two": [2, 2]}, factors, hidden=(2,), **options)
        model = randomise(model, seed, scale)
    else:
        model = randomise(GridMRF(1, 3, clones=(2, 1, 1), **options), seed, scale)
    return model


def query_of(model: Any, batch: int = 1, seen: int | None = 0, seed: int = 0) -> Query:
    """Rows in which the variable `seen` (or none) is observed to be 1, the others are targets, and the truth is random; of a
    grid, all pixels are read."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(model, GridMRF):
        values = (torch.rand(batch, 1, 3, generator=generator) < 0.5).to(F64)
        return Query(
            values, torch.ones_like(values, dtype=torch.bool), truth=torch.randint(3, (batch, 1, 3), generator=generator)
        )
    n_states = torch.tensor(model.variables.n_states if hasattr(model.variables, "n_states") else [2] * model.size)
    truth = torch.floor(torch.rand(batch, model.size, generator=generator, dtype=F64) * n_states)
    observed = torch.zeros(batch, model.size, dtype=torch.bool)
    if seen is not None:
        observed[:, seen], truth[:, seen] = True, 1
    return Query(truth, observed)


def joint(model: Any, query: Query) -> list[Tensor]:
    """p(visible variables, or labels | evidence) of each row, a table with one axis per variable."""
    asked = oracle._oracle(model, tuple(query.shape[1:]))
    tables = [row.log_marginal(*asked.visible).exp() for row in asked.rows(query.values, query.observed)]
    if isinstance(model, GridMRF):
        for axis in range(model.size):
            labels = asked.labels
            tables = [
                torch.stack([t.index_select(axis, (labels == k).nonzero()[:, 0]).sum(axis) for k in range(3)], axis)
                for t in tables
            ]
    return tables
