"""The temperature: positive while learned, 0 for max-product, never a surprise in between."""

import math

import pytest
import torch

from qtcore.errors import InputError
from qtcore.models.base import MIN_LEARNED_TEMPERATURE

from ..strategies import TEMPERED, answer, ask, backends, build, close

every_kind = pytest.mark.parametrize("kind", TEMPERED)


@every_kind
def test_a_wild_step_leaves_a_learned_temperature_positive_and_learnable(kind: str) -> None:
    """A clamp alone kept the answers sound but gave T no gradient any more: once below 0 it stayed there for ever."""
    model = build(kind, 1, temperature=1.5, learn_temperature=True)
    query = ask(model, 2, "hard", batch=8)
    optimiser = torch.optim.SGD([model.T], lr=1.0)
    model.loss(query).backward()
    model.T.grad.fill_(1e6)
    optimiser.step()
    for _ in backends():
        assert answer(model(query)).isnan().any().logical_not()
    assert float(model.T.detach()) == pytest.approx(MIN_LEARNED_TEMPERATURE)
    optimiser.zero_grad()
    (model.loss(query) + 0 * model.T).backward()
    assert model.T.grad.isfinite()
    low = answer(model(query)).detach()
    model.T.grad.fill_(-0.5)
    optimiser.step()
    assert float(model.T.detach()) == pytest.approx(0.5, abs=0.01)
    assert not torch.equal(answer(model(query)), low)


@every_kind
def test_the_smallest_learned_temperature_has_a_gradient(kind: str) -> None:
    model = build(kind, 1, temperature=1.5, learn_temperature=True)
    with torch.no_grad():
        model.T.fill_(-3.0)
    answer(model(ask(model, 2, "soft")))[0].square().nan_to_num(neginf=0.0).sum().backward()
    assert model.T.grad is not None
    assert bool(model.T.grad != 0)


@every_kind
def test_temperature_0_is_max_product(kind: str) -> None:
    """Fixed at 0 from the start or set to 0 later; the smallest positive one is almost there."""
    model = build(kind, 1, temperature=0.0)
    query = ask(model, 2, "hard")
    at_zero = answer(model(query))
    other = build(kind, 1)
    other.T.data.zero_()
    assert torch.equal(answer(other(query)), at_zero)
    other.T.data.fill_(1e-5)
    shown = at_zero.isfinite() & (at_zero.abs() < 900)
    if kind == "GridMRF":  # clones add up at any temperature
        shown &= at_zero > -20
    close(answer(other(query))[shown], at_zero[shown], 1e-2)


@every_kind
def test_a_temperature_changes_the_answer(kind: str) -> None:
    """On a graph with loops, or with soft evidence, T = 1 and T = 2 differ."""
    query = ask(build(kind), 2, "soft")
    assert not torch.allclose(answer(build(kind, 1, temperature=2.0)(query)), answer(build(kind, 1)(query)))


@pytest.mark.parametrize("bad", [-0.5, math.nan, math.inf])
@every_kind
def test_a_temperature_that_is_none(kind: str, bad: float) -> None:
    with pytest.raises(InputError, match="the temperature must be ≥ 0"):
        build(kind, temperature=bad)
    model = build(kind)
    model.T.data.fill_(bad)
    with pytest.raises(InputError, match=r"the temperature must be ≥ 0, but T is"):
        model(ask(model))


@every_kind
def test_a_learned_temperature_starts_above_0(kind: str) -> None:
    with pytest.raises(InputError, match="must start above 0"):
        build(kind, temperature=0.0, learn_temperature=True)
    model = build(kind, temperature=1.0, learn_temperature=True)
    model.T.data.fill_(math.nan)
    with pytest.raises(InputError, match="T is nan"):
        model(ask(model))
