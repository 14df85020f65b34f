"""Clamped Gibbs sampling against enumeration: no drift from the target distribution, and the way there from elsewhere."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, MixtureSameFamily, Normal

from qtcore import DBM, RBM, FactorGraph, GaussianRBM, Gibbs, GridMRF, Query
from qtcore.errors import InputError
from qtcore.inference.gibbs import colours
from qtcore.models.base import Model

from .. import oracle as exact
from ..strategies import ask, build

CHAINS = 4000
BINARY_WEIGHT = torch.tensor([1.0, 0.0, 0.6, 0.0, 0.0])
VALUES = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0])


def small(kind: str) -> Model:
    torch.manual_seed(3)
    model: Model = {"rbm": RBM(5, 3), "dbm": DBM(5, 3, 2), "grbm": GaussianRBM(5, 3)}[kind].double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in ("T", "sigma"):
                parameter.normal_(std=0.8)
    return model


def question(chains: int = CHAINS) -> Query:
    return Query(VALUES.double().expand(chains, 5), BINARY_WEIGHT.double().expand(chains, 5))


def z_scores(samples: Tensor, expected: Tensor) -> Tensor:
    """Deviation of the chains' means from what they should be, in standard errors."""
    error = samples.std(0) / math.sqrt(len(samples))
    return (samples.mean(0) - expected) / error.clamp_min(1e-12)


def exact_visible_sample(model: Model, query: Query, generator: torch.Generator) -> Tensor:
    """Exact samples of the visible variables (and h2 of a DBM), by the chain rule through exact marginals."""
    values, weight = query.values.clone(), query.observed.clone()
    count = values.shape[1]
    state = values.clone()
    for column in range(count):
        if float(weight[0, column]) == 1:
            continue
        # all chains share the same evidence but not the same drawn values: group the equal rows
        rows, inverse = torch.unique(torch.cat([state, weight], 1), dim=0, return_inverse=True)
        p = exact.marginals(model, Query(rows[:, :count], rows[:, count:])).probs[:, column]
        drawn = (torch.rand(len(state), generator=generator, dtype=torch.float64) < p[inverse]).double()
        state[:, column] = drawn
        weight[:, column] = 1
    return state


@pytest.mark.parametrize("kind", ["rbm", "dbm", "grbm"])
def test_reaches_the_exact_marginals_from_the_unaries(kind: str) -> None:
    model = small(kind)
    query = question(500)
    result = model(query, engine=Gibbs(400, 50, 2))
    expected = exact.marginals(model, query[:1])
    free = BINARY_WEIGHT < 1
    assert z_scores(result.mean[:, free], expected.mean[0, free]).abs().max() < 4.5
    assert torch.allclose(result.mean[:, ~free].double(), VALUES[~free].double(), atol=1e-6)
    if kind == "grbm":
        assert isinstance(result, MixtureSameFamily)
        assert torch.allclose(result.stddev.mean(0)[free], expected.stddev[0, free], rtol=0.03)


def test_does_not_drift_from_the_exact_distribution() -> None:
    """Chains that start as exact samples stay distributed so: a wrong conditional would show in any sweep."""
    model = small("rbm")
    query = question()
    generator = torch.Generator().manual_seed(1)
    engine = Gibbs(seed=1)
    state = engine.init(model, query)._replace(values=exact_visible_sample(model, query, generator))
    expected = exact.marginals(model, query[:1]).probs[0]
    free = BINARY_WEIGHT < 1
    for _ in range(6):
        state, _ = engine.step(state)
        assert z_scores(state.values[:, free], expected[free]).abs().max() < 4.5
    pairs = state.values[:, 1] * state.values[:, 3]
    joint = exact.marginals(
        model, Query(VALUES.double()[None] * 0 + torch.tensor([[1.0, 1, 1, 1, 0]]), torch.tensor([[1.0, 1, 0.6, 0, 0]]))
    )
    alone = expected[1] * joint.probs[0, 3]
    assert abs(float(z_scores(pairs[:, None], alone[None]))) < 4.5


def test_from_a_wrong_start() -> None:
    model = small("rbm")
    query = question()
    engine = Gibbs(seed=2)
    state = engine.init(model, query)
    state = state._replace(values=1 - state.values)  # even the evidence is wrong: the first sweep must put it right
    expected = exact.marginals(model, query[:1]).probs[0]
    for _ in range(60):
        state, _ = engine.step(state)
    free = BINARY_WEIGHT < 1
    assert z_scores(state.values[:, free], expected[free]).abs().max() < 4.5
    assert bool((state.values[:, ~free] == VALUES[~free]).all())


def test_gaussian_scores_with_the_log_of_the_averaged_density() -> None:
    """One hidden unit with a strong weight: the marginal is two well-separated bumps, no normal comes near it."""
    model = GaussianRBM(2, 1).double()
    with torch.no_grad():
        model.W.copy_(torch.tensor([[4.0, 0.0]]))
        model.c.fill_(-8.0)  # ½·4² = 8: both bumps are equally likely
    truth = torch.tensor([[0.1, 0.0], [3.9, 0.0]]).double()
    query = Query(truth, torch.zeros(2, 2, dtype=torch.bool))
    losses, target = model.nll(query[[0] * 20], engine=Gibbs(1000, 100, 1))  # twenty chains
    loss = -(-losses[:, 0]).exp().mean().log()
    density = 0.5 * Normal(0.0, 1.0).log_prob(truth[0, 0]).exp() + 0.5 * Normal(4.0, 1.0).log_prob(truth[0, 0]).exp()
    assert bool(target.all())
    assert float(loss) == pytest.approx(-math.log(density), abs=0.1)
    normal = exact.marginals(model, query[:1])
    assert float(loss) < float(-normal.log_prob(truth[:1])[0, 0]) - 0.2


def test_binary_scores_are_those_of_the_averaged_conditionals() -> None:
    model = small("rbm")
    query = question(50)
    losses, target = model.nll(query, engine=Gibbs(100, 10, 1, seed=5))
    again = model(query, engine=Gibbs(100, 10, 1, seed=5))
    assert isinstance(again, Bernoulli)
    assert torch.equal(losses, torch.where(target, -again.log_prob(query.truth), 0))


def test_which_sweeps_are_kept() -> None:
    """Marginals are the averages of the conditionals at the sweeps 20, 30 and 40 of 50."""
    model, query, engine = small("rbm"), question(5), Gibbs(50, 20, 10, seed=4)
    state, expected = engine.init(model, query), []
    for sweep in range(50):
        before = state
        state, _ = engine.step(state)
        if (state.kept is None) != (before.kept is None) or (before.kept and state.kept.sweeps > before.kept.sweeps):
            expected.append(sweep)
    assert expected == [20, 30, 40]
    assert torch.equal(engine.marginals(state).mean, model(query, engine=engine).mean)


@pytest.mark.parametrize("wrong", [(10, -1, 1), (10, 2, 0), (-1, 0, 1)])
def test_schedules_that_make_no_sense(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="Gibbs sampling needs"):
        Gibbs(*wrong)


def test_refuses_models_and_queries_it_cannot_sample() -> None:
    with pytest.raises(InputError, match="GridMRF"):
        GridMRF(2, 2, (1, 1, 1))(Query(torch.zeros(1, 2, 2), torch.ones(1, 2, 2)), engine=Gibbs())
    with pytest.raises(InputError, match="no targets"):
        RBM(2, 1).nll(Query(torch.zeros(1, 2), torch.ones(1, 2)), engine=Gibbs())
    with pytest.raises(InputError, match="more sweeps than burn"):
        RBM(2, 1)(Query(torch.zeros(1, 2), torch.ones(1, 2)), engine=Gibbs(10, 10))


@pytest.mark.parametrize("evidence", ["hard", "mixed", "none"])
@pytest.mark.parametrize("kind", ["PairwiseMRF", "FactorGraph"])
def test_factor_graphs_tend_to_their_exact_marginals(kind: str, evidence: str) -> None:
    model = build(kind, 1, 0.7)
    query = ask(model, 2, evidence, batch=2)
    many = Query(query.values.repeat(40, 1), query.observed.repeat(40, 1))  # chains side by side
    engine = Gibbs(sweeps=220, burn=20, every=1, seed=0)
    marginals: Any = model(many, engine=engine)
    result = marginals.probs.view(40, 2, *marginals.probs.shape[1:]).mean(0)
    expected: Any = exact.marginals(model, query)
    torch.testing.assert_close(result, expected.probs, rtol=0, atol=0.01)


def test_variables_that_are_drawn_together_share_no_factor() -> None:
    model = build("FactorGraph")
    sets = colours(model.wiring)
    assert sorted(i for each in sets for i in each) == [0, 1, 2, 3]
    for _, scopes in model.factors():
        for scope in scopes:
            assert all(len(set(scope) & set(each)) <= 1 for each in sets)


def test_zeros_are_refused() -> None:
    never = FactorGraph([2, 2], {"same": torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])}, [("same", (0, 1))])
    with pytest.raises(InputError, match="needs tables without zeros"):
        never(never.query({}), engine=Gibbs(30))
