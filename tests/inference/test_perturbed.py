"""Perturb-and-max-product: exact without edges, and on trees the arg-max of what was perturbed."""

import math
from typing import Any

import pytest
import torch

import qtcore
from qtcore import BP, DBM, RBM, FactorGraph, GaussianRBM, GridMRF, PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.inference import perturbed
from qtcore.inference.exact import Discrete

from ..joint import DISCRETE, joint, query_of, tree
from ..strategies import F64, randomise, rng
from .test_sampling import N, p_value

TREE = BP(n_layers=12, damping=0.0)
every_kind = pytest.mark.parametrize("kind", DISCRETE)


def without_edges(kind: str) -> Any:
    """Variables that have nothing to do with each other."""
    options: dict[str, Any] = {"dtype": F64}
    if kind == "FactorGraph":
        return randomise(FactorGraph((2, 3, 2), {"a": [2], "b": [3]}, [("a", [(0,), (2,)]), ("b", (1,))], **options), 0)
    if kind == "PairwiseMRF":
        return randomise(PairwiseMRF((2, 3, 2, 4), [], hidden=(2,), **options), 0)
    model = {"RBM": RBM(4, 2, **options), "DBM": DBM(3, 2, 1, **options), "GridMRF": GridMRF(1, 3, (2, 1, 1), **options)}[kind]
    for name, parameter in randomise(model, 0).named_parameters():  # type: ignore[attr-defined]
        if name.startswith(("W", "potentials")):
            parameter.data.zero_()
    return model


@every_kind
def test_samples_of_independent_variables_are_exact(kind: str) -> None:
    model = without_edges(kind)
    query = query_of(model, seen=None if kind == "FactorGraph" else 0)
    samples = model.sample(query, N, generator=rng(1), method="perturb")
    assert samples.shape == (N, *query.shape)
    assert p_value(samples[:, 0].flatten(1), joint(model, query)[0]) > 1e-3


@every_kind
def test_on_a_tree_it_is_the_arg_max_of_what_was_perturbed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By enumeration of all joint states, with the same noise."""
    model = tree(kind, 1, 2.0)
    query = query_of(model, 3)
    drawn = model.sample(query, 4, generator=rng(3), engine=TREE, method="perturb")
    many = query[torch.arange(3).repeat(4)]
    factors, evidence = model.graph().as_factors(model.evidence(many))
    noisy = evidence.detach() + perturbed._gumbel(evidence, rng(3))
    rows = factors.wiring.on(evidence.device).rows(factors.unary.detach()[:, None] + noisy)
    for row, unary in enumerate(rows):
        table = torch.zeros(factors.wiring.n_states, dtype=F64)
        for variable, size in enumerate(factors.wiring.n_states):
            table += unary[variable, :size].reshape([size if axis == variable else 1 for axis in range(table.ndim)])
        for group, tables in zip(factors.wiring.groups, factors.tables, strict=True):
            for scope, number in zip(group.scope.tolist(), group.table.tolist(), strict=True):
                order = sorted(range(len(scope)), key=scope.__getitem__)
                shape = [factors.wiring.n_states[axis] if axis in scope else 1 for axis in range(table.ndim)]
                table += tables[number].detach().permute(order).reshape(shape)
        expected, _ = factors.states(Discrete(table).mode()[None])
        wanted = model.target(many)[row]
        assert torch.equal(drawn.flatten(0, 1)[row][wanted], expected[0][wanted].to(F64))


def test_with_edges_it_is_an_approximation() -> None:
    """Two variables disagree where both of their noises exceed the coupling w: with 2 σ(−w)² in the place of σ(−w)."""
    model = PairwiseMRF((2, 2), [(0, 1)], dtype=F64)
    model.tables["pairwise_2x2"].data[0] = torch.tensor([[1.5, 0.0], [0.0, 1.5]])
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    query = Query(nothing.to(F64), nothing)
    samples = model.sample(query, 5000, generator=rng(0), engine=TREE, method="perturb")[:, 0]
    agree = float((samples[:, 0] == samples[:, 1]).double().mean())
    away = 1 / (1 + math.exp(1.5))
    assert agree == pytest.approx(1 - 2 * away**2, abs=0.02)
    assert p_value(samples, joint(model, query)[0]) < 1e-9


def test_what_is_known_stays_and_what_nobody_asks_for_has_no_value() -> None:
    model = tree("RBM", 0, 2.0)
    observed, target = torch.tensor([[True, False, False, False]]), torch.tensor([[False, True, False, True]])
    query = Query(torch.tensor([[1.0, 0, 0, 0]]), observed, target)
    samples = model.sample(query, 5, method="perturb")
    assert (samples[..., 0] == 1).all()
    assert samples.isnan().any((0, 1)).tolist() == [False, False, True, False]


def test_rows_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tree("FactorGraph")
    query = query_of(model, 5)
    whole = model.sample(query, 2, generator=rng(0), engine=TREE, method="perturb")
    monkeypatch.setattr(perturbed, "MAX_BYTES", 1)
    parts = model.sample(query, 2, generator=rng(0), engine=TREE, method="perturb")
    assert whole.shape == parts.shape
    assert torch.equal(parts, model.sample(query, 2, generator=rng(0), engine=TREE, method="perturb"))


def test_bad_input() -> None:
    model = tree("RBM")
    query = query_of(model)
    for options, said in (
        ({"block": 2}, "draws all variables at once; order and block go with"),
        ({"order": [3, 2, 1, 0]}, "draws all variables at once"),
        ({"n": 0}, "n must be a whole number of samples ≥ 1, not 0"),
        ({"engine": qtcore.Exact()}, "runs belief propagation at T = 0"),
    ):
        with pytest.raises(InputError, match=said):
            model.sample(query, **options, method="perturb")
    with pytest.raises(InputError, match="method must be chain or perturb, not 'gibbs'"):
        model.sample(query, method="gibbs")
    pixels = GaussianRBM(4, 2)
    with pytest.raises(InputError, match="for discrete variables; a GaussianRBM has real ones"):
        pixels.sample(Query(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool)), method="perturb")
    with pytest.raises(InputError, match="no targets"):
        model.sample(Query(torch.ones(1, 4), torch.ones(1, 4, dtype=torch.bool)), method="perturb")
    never = FactorGraph((2, 2, 2), {"same": torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])}, [("same", [(0, 1), (1, 2)])])
    with pytest.raises(InputError, match="probability 0"):
        never.sample(never.query({0: 0, 2: 1}), method="perturb")
