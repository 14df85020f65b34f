"""What the optimiser sees: W/T, c/T and T, with the gradients of that form."""

import pytest
import torch

from qtcore import RBM, GaussianRBM, PairwiseMRF, Query
from qtcore.learn.coordinates import Coordinates
from qtcore.models.base import MIN_LEARNED_TEMPERATURE
from qtcore.query import uniform
from tests.strategies import F64, build, close, rng

from .support import authors_loss, gradients, tempered_rbm, twins


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_those_of_the_authors_form(seed: int) -> None:
    model = tempered_rbm(seed)
    query = uniform(0.5)(twins(9), rng(seed))
    coordinates = Coordinates(model)
    model.loss(query).backward()
    coordinates.pull()

    T = model.T.detach()
    leaves = {name: (p.detach() / (1 if name == "T" else T)).requires_grad_() for name, p in model.named_parameters()}
    loss = authors_loss(model, leaves, query)
    close(model.loss(query), loss)
    for (name, leaf), gradient in zip(leaves.items(), torch.autograd.grad(loss, list(leaves.values())), strict=True):
        close(coordinates.tensors[name], leaf)
        close(coordinates.tensors[name].grad, gradient)  # type: ignore[arg-type]


def test_a_fixed_temperature_is_a_fixed_unit() -> None:
    model: RBM = build("RBM", scale=0.5, temperature=4.0)
    coordinates = Coordinates(model)
    assert "T" not in coordinates.tensors
    model.loss(uniform()(twins(9), rng(0))).backward()
    coordinates.pull()
    close(coordinates.tensors["W"], model.W / 4)
    close(coordinates.tensors["W"].grad, 4 * model.W.grad)  # type: ignore[arg-type, operator]


@pytest.mark.parametrize("kind", ["GaussianRBM", "GridMRF", "PairwiseMRF"])
def test_other_models_are_optimised_as_they_are_stored(kind: str) -> None:
    model = build(kind)
    coordinates = Coordinates(model)
    assert coordinates.tensors.keys() == {name for name, p in model.named_parameters() if p.requires_grad}
    for name, tensor in coordinates.tensors.items():
        assert torch.equal(tensor, coordinates.parameters[name])


def test_push_and_back_changes_nothing() -> None:
    model = tempered_rbm()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    coordinates = Coordinates(model)
    coordinates.push()
    for name, parameter in model.named_parameters():
        close(parameter, before[name], 1e-15)


def test_a_temperature_is_pushed_no_lower_than_its_floor() -> None:
    model = tempered_rbm()
    coordinates = Coordinates(model)
    with torch.no_grad():
        coordinates.tensors["T"].fill_(-3.0)
    coordinates.push()
    assert float(model.T.detach()) == pytest.approx(MIN_LEARNED_TEMPERATURE)
    close(model.W, coordinates.tensors["W"] * MIN_LEARNED_TEMPERATURE)


def test_a_learned_sigma_is_optimised_as_its_logarithm() -> None:
    """So that no step makes it negative; its gradient is that of the loss by log σ."""
    model = GaussianRBM(4, 3, learn_sigma="pixel", n_layers=3, dtype=F64)
    coordinates = Coordinates(model)
    with torch.no_grad():
        coordinates.tensors["sigma"].copy_(torch.tensor([-5.0, 0.0, 0.5, 1.0]))
    coordinates.push()
    close(model.sigma, torch.tensor([-5.0, 0.0, 0.5, 1.0], dtype=F64).exp())
    query = Query(torch.zeros(2, 4, dtype=F64), torch.tensor([[True, False, False, True]]).expand(2, 4))
    model.loss(query).backward()
    coordinates.pull()
    assert model.sigma.grad is not None
    assert coordinates.tensors["sigma"].grad is not None
    close(coordinates.tensors["sigma"].grad, model.sigma.grad * model.sigma)


def test_max_product_has_no_unit() -> None:
    model = RBM(4, 2, temperature=0.0, dtype=F64)
    with torch.no_grad():
        model.W.normal_(generator=rng(0))
    assert torch.equal(Coordinates(model).tensors["W"], model.W)


@pytest.mark.parametrize(
    "model",
    [
        RBM(4, 2, n_layers=0, dtype=F64),
        GaussianRBM(4, 2, n_layers=0, dtype=F64),
        PairwiseMRF((2, 2, 2, 2, 3), [(0, 1), (2, 3)], hidden=(4,), dtype=F64),  # nothing ties the hidden one to the others
    ],
)
def test_a_parameter_that_plays_no_part_has_gradient_zero(model: "RBM | GaussianRBM | PairwiseMRF") -> None:
    result = gradients(model, twins(9))
    assert any(not tensor.any() for tensor in result.values())
    assert any(tensor.any() for tensor in result.values())
