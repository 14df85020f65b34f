"""The whole loss, differentiated: finite differences in float64, for every model and by every road."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from qtcore import GaussianRBM, Query, kernels
from qtcore.models.base import Model

from ..strategies import F64, KINDS, QUICK, TEMPERED, ask, build, close, learnable, normal, randomise

ROADS = ("torch", "auto")  # the plain layers, and the native kernels


every_road = pytest.mark.parametrize("road", ROADS, indirect=True)


@pytest.fixture
def road(request: pytest.FixtureRequest) -> Iterator[str]:
    with kernels.use(request.param):
        yield request.param


def loss_is_differentiable(model: Model, query: Query, names: Any = None, entry_by_entry: bool = True) -> None:
    """gradcheck of the loss as a function of the named parameters (all that are learned): entry by entry, or along random
    directions, which finds the same errors without saying where they are, and is what `make check` does."""
    stored = {name: p for name, p in model.named_parameters() if (p.requires_grad if names is None else name in names)}
    leaves = tuple(tensor.detach().clone().requires_grad_() for tensor in stored.values())

    def loss(*tensors: Tensor) -> Tensor:
        return functional_call(_Loss(model), {f"model.{n}": t for n, t in zip(stored, tensors, strict=True)}, (query,))

    assert gradcheck(loss, leaves, fast_mode=QUICK or not entry_by_entry)


class _Loss(torch.nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, query: Query) -> Tensor:
        return self.model.loss(query)


@every_road
@pytest.mark.parametrize("evidence", ["hard", "soft", "mixed", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_the_loss(kind: str, evidence: str, road: str) -> None:
    for n in (0, 2, 3):
        model = build(kind, 1, n_layers=n, scale=0.7)
        loss_is_differentiable(model, ask(model, 2, evidence, batch=2), entry_by_entry=(n, evidence) == (3, "mixed"))


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_the_loss_with_damping(kind: str) -> None:
    model = build(kind, 1, n_layers=3, scale=0.7, damping=0.3)
    loss_is_differentiable(model, ask(model, 2, "mixed", batch=2))


@every_road
@pytest.mark.parametrize("evidence", ["hard", "soft", "mixed", "none"])
@pytest.mark.parametrize("kind", TEMPERED)
def test_gradient_of_a_learned_temperature(kind: str, evidence: str, road: str) -> None:
    """Beside hard evidence it was once NaN: an infinite logarithm divided by T."""
    model = build(kind, 3, n_layers=3, scale=0.7, temperature=1.7, learn_temperature=True)
    loss_is_differentiable(model, ask(model, 4, evidence, batch=2), entry_by_entry=evidence == "mixed")
    model.loss(ask(model, 4, evidence, batch=2)).backward()
    assert model.T.grad.isfinite()


@pytest.mark.parametrize("kind", TEMPERED)
def test_gradient_at_temperature_0(kind: str) -> None:
    """Max-product has a gradient wherever the best states are unique."""
    model = build(kind, 3, n_layers=2, temperature=0.0)
    loss_is_differentiable(model, ask(model, 4, "hard", batch=2))


@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
@every_road
def test_gradient_of_the_gaussian_rbm_with_its_sigma(schedule: Any, road: str) -> None:
    model = randomise(GaussianRBM(3, 2, n_layers=3, schedule=schedule, learn_sigma="pixel", dtype=F64), 5, 0.6)
    model.sigma.data.copy_(torch.tensor([0.8, 1.2, 0.5]))
    loss_is_differentiable(model, ask(model, 6, "mixed", batch=2), names=("W", "b", "c", "sigma"))


@every_road
def test_gradient_of_the_gaussian_rbm_where_precisions_are_floored(road: str) -> None:
    model = randomise(GaussianRBM(3, 4, n_layers=4, dtype=F64), 0)
    query = ask(model, 6, "none", batch=2)
    assert sum(int(layer.info["floored"].sum()) for layer in model.layers(query)) > 0
    loss_is_differentiable(model, query)


@pytest.mark.parametrize("local_evidence", [True, False])
@every_road
def test_gradient_of_the_grid_with_its_emission(road: str, local_evidence: bool) -> None:
    """Fixed by default, but a tensor like any other for whoever wants to learn it."""
    model = build("GridMRF", 5, n_layers=2, local_evidence=local_evidence)
    loss_is_differentiable(model, ask(model, 6, "mixed", batch=2), names=("emission", "potentials.diagonal"))


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_potential_is_learned(kind: str) -> None:
    """T, σ and the emission are fixed unless somebody asks for it."""
    model = build(kind)
    assert {name for name, p in model.named_parameters() if p.requires_grad} == set(learnable(model))
    model.loss(ask(model, 1, "hard")).backward()
    assert all(tensor.grad is not None for tensor in learnable(model).values())


def test_a_gradient_step_lowers_the_loss() -> None:
    for kind in KINDS:
        model = build(kind, 1, scale=0.5, n_layers=3)
        query = ask(model, 2, "hard", batch=8)
        before = model.loss(query)
        before.backward()
        with torch.no_grad():
            for tensor in learnable(model).values():
                assert tensor.grad is not None
                tensor -= 1e-3 * tensor.grad
        assert bool(model.loss(query) < before)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_the_mean_over_targets(kind: str) -> None:
    """Summed over all targets of the batch and divided by their number; nothing else is scored."""
    model = build(kind)
    query = ask(model, 2, "mixed", batch=4)
    losses, target = model.nll(query)
    assert torch.equal(target, query.target)
    assert not losses[~target].any()
    expected = [-model(query).log_prob(query.truth.to(F64))[index] for index in map(tuple, target.nonzero().tolist())]
    close(model.loss(query), sum(expected) / len(expected), 1e-12)
    silly = torch.where(target, query.truth, 77)  # what is not scored is not looked at
    assert torch.equal(model.loss(Query(query.values, query.observed, target, silly)), model.loss(query))


def test_gradient_reaches_every_layer_of_evidence() -> None:
    """Evidence enters at every layer: soft readings keep their gradient however deep the network."""
    model = build("PairwiseMRF", 1, n_layers=8)
    values = normal(0, 2, 3, 4).exp().requires_grad_()
    query = Query(values, torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3))
    model.loss(query).backward()
    assert values.grad is not None
    assert values.grad[:, :, 0].abs().min() > 0
