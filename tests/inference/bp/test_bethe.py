"""The Bethe estimate of log Z."""

from typing import Any

import pytest
import torch
from hypothesis import assume, given

from qtcore import BP, FactorGraph, GaussianRBM, PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.inference.bp import bethe
from qtcore.inference.elimination import EliminationPosterior

from ...strategies import F64, ask, ask_possible, build, close, evidences, factor_trees, normal, seeds


@given(factor_trees(), seeds, evidences)
def test_on_a_tree_it_is_log_z(graph: Any, seed: int, evidence: str) -> None:
    model = FactorGraph(**graph, dtype=F64)
    query = ask_possible(model, seed, evidence)
    assume(query is not None)
    assert query is not None
    exact = EliminationPosterior(*model.graph().as_factors(model.evidence(query, F64))).log_z
    close(bethe.log_z(model, query, BP(n_layers=12)), exact)


def test_on_a_loop_it_is_the_largest_eigenvalue() -> None:
    """Of a homogeneous ring of n variables: n·log λ₁, where log Z is log Σ λᵢⁿ."""
    n, table = 6, normal(0, 3, 3)
    table = table + table.T
    ring = FactorGraph([3] * n, {"edge": table}, [("edge", [(i, (i + 1) % n) for i in range(n)])], dtype=F64)
    nothing = Query(torch.zeros(1, n), torch.zeros(1, n, dtype=torch.bool))
    values = torch.linalg.eigvalsh(table.exp())
    close(bethe.log_z(ring, nothing, BP(n_layers=300)), (n * values[-1:].log()), 1e-8)


@pytest.mark.parametrize("kind", ["RBM", "DBM", "GridMRF", "PairwiseMRF", "FactorGraph"])
def test_every_discrete_model(kind: str) -> None:
    """Weak couplings: close to log Z."""
    model = build(kind, 1, 0.2)
    query = ask(model, 2, "soft")
    exact = EliminationPosterior(*model.graph().as_factors(model.evidence(query, F64))).log_z
    close(bethe.log_z(model, query, BP(n_layers=100)), exact, 0.02)


def test_refusals() -> None:
    with pytest.raises(InputError, match="needs the temperature 1"):
        bethe.log_z(PairwiseMRF([2, 2], [(0, 1)], temperature=0.0), Query(torch.zeros(1, 2), torch.zeros(1, 2)))
    with pytest.raises(InputError, match="discrete variables"):
        bethe.log_z(GaussianRBM(2, 2), Query(torch.zeros(1, 2), torch.zeros(1, 2)))
