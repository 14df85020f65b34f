"""Second derivatives and torch.func, over the losses of whole models: right, on plain torch and on kernels."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from qtcore import kernels
from qtcore.inference.bp import binary

from ..strategies import F64, KINDS, TEMPERED, ask, build, close, learnable, normal
from .support import HAS_KERNEL, Calls

# torch itself still uses torch.jit.script for forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

BACKENDS = ("torch", "auto")
kinds = pytest.mark.parametrize("kind", HAS_KERNEL)
backends = pytest.mark.parametrize("backend", BACKENDS)


class Loss(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, query: Any) -> Tensor:
        return self.model.loss(query)


def problem(kind: str, **options: Any) -> tuple[Callable[[dict[str, Tensor]], Tensor], dict[str, Tensor]]:
    """The loss as a function of the parameters, and the parameters."""
    model = build(kind, 1, scale=0.7, **{"n_layers": 3} | options)
    query = ask(model, 2, "mixed", batch=2)
    module = Loss(model)
    parameters = {f"model.{name}": tensor.detach().clone() for name, tensor in learnable(model).items()}
    return lambda given: functional_call(module, given, (query,)), parameters


def gradient(loss: Callable[..., Tensor], parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    leaves = {name: tensor.requires_grad_() for name, tensor in parameters.items()}
    return dict(zip(leaves, torch.autograd.grad(loss(leaves), list(leaves.values())), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@backends
@pytest.mark.parametrize("options", [{"n_layers": 2}, {}, {"damping": 0.3}, {"temperature": 0.7}], ids=str)
def test_second_derivatives_of_the_loss(kind: str, backend: Any, options: dict[str, Any]) -> None:
    """Hessian times a vector, against central differences of the gradient. (It was once refused on plain torch, and wrong
    without a word on kernels.)"""
    loss, parameters = problem(kind, **options)
    direction = {name: normal(k, *tensor.shape) for k, (name, tensor) in enumerate(parameters.items())}
    with kernels.use(backend):
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
        first = dict(zip(leaves, torch.autograd.grad(loss(leaves), list(leaves.values()), create_graph=True), strict=True))
        along = sum((first[name] * direction[name]).sum() for name in first)
        result = torch.autograd.grad(along, list(leaves.values()))  # type: ignore[arg-type]
        step = 1e-5
        sides = [
            gradient(loss, {name: tensor.detach() + sign * step * direction[name] for name, tensor in parameters.items()})
            for sign in (1, -1)
        ]
    for product, name in zip(result, leaves, strict=True):
        close(product, (sides[0][name] - sides[1][name]) / (2 * step), 1e-7)


@kinds
@backends
def test_torch_func_grad(kind: str, backend: Any) -> None:
    loss, parameters = problem(kind)
    with kernels.use(backend):
        expected = gradient(loss, {name: tensor.clone() for name, tensor in parameters.items()})
        with Calls() as calls:
            result = torch.func.grad(loss)(parameters)
    assert not calls.names  # the operators cannot be transformed, so that the layers run on plain torch
    for name, tensor in expected.items():
        close(result[name], tensor)


@kinds
def test_torch_func_grad_of_grad(kind: str) -> None:
    loss, parameters = problem(kind)
    direction = {name: normal(k, *tensor.shape) for k, (name, tensor) in enumerate(parameters.items())}

    def along(given: dict[str, Tensor]) -> Tensor:
        first = torch.func.grad(loss)(given)
        return sum((first[name] * direction[name]).sum() for name in first)  # type: ignore[return-value]

    result = torch.func.grad(along)(parameters)
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in parameters.items()}
    first = torch.autograd.grad(loss(leaves), list(leaves.values()), create_graph=True)
    expected = torch.autograd.grad(
        sum((tensor * direction[name]).sum() for name, tensor in zip(leaves, first, strict=True)),  # type: ignore[arg-type]
        list(leaves.values()),
    )
    for name, tensor in zip(leaves, expected, strict=True):
        close(result[name], tensor)


@pytest.mark.parametrize("kind", ["RBM", "DBM"])
def test_the_hessian_of_a_binary_model(kind: str) -> None:
    """torch.func.hessian: forward over reverse mode, under vmap."""
    loss, parameters = problem(kind)
    name = next(iter(parameters))
    rest = {key: tensor for key, tensor in parameters.items() if key != name}
    W = parameters[name]

    def of_weights(weights: Tensor) -> Tensor:
        return loss({name: weights, **rest})

    result = torch.func.hessian(of_weights)(W).reshape(W.numel(), W.numel())
    expected = torch.autograd.functional.hessian(of_weights, W).reshape(W.numel(), W.numel())
    close(result, expected)
    close(result, result.T)


@pytest.mark.parametrize("kind", KINDS)
def test_vmap_over_models(kind: str) -> None:
    """An ensemble: the losses of several sets of parameters, and their gradients."""
    loss, parameters = problem(kind)
    several = {name: torch.stack([tensor, 2 * tensor, -tensor]) for name, tensor in parameters.items()}
    losses, gradients = torch.vmap(loss)(several), torch.vmap(torch.func.grad(loss))(several)
    for k in range(3):
        one = {name: tensor[k].clone() for name, tensor in several.items()}
        close(losses[k], loss(one))
        for name, tensor in gradient(loss, one).items():
            close(gradients[name][k], tensor)


@pytest.mark.parametrize("kind", ["GridMRF", "PairwiseMRF"])
def test_vmap_over_models_of_which_one_is_steep(kind: str) -> None:
    """Where matrix products of exponentials would underflow, as for one of these alone."""
    loss, parameters = problem(kind)
    several = {name: torch.stack([tensor, 800 * tensor]) for name, tensor in parameters.items()}
    for k, result in enumerate(torch.vmap(loss)(several)):
        assert result.isfinite()
        close(result, loss({name: tensor[k].clone() for name, tensor in several.items()}))


@pytest.mark.parametrize("kind", TEMPERED)
def test_vmap_over_temperatures(kind: str) -> None:
    loss, parameters = problem(kind)
    temperatures = torch.tensor([0.5, 1.0, 2.0], dtype=F64)
    result = torch.vmap(lambda T: loss({**parameters, "model.T": T}))(temperatures)
    for k, T in enumerate(temperatures):
        close(result[k], loss({**parameters, "model.T": T}))


def test_forward_mode() -> None:
    loss, parameters = problem("RBM")
    W = parameters["model.W"]
    direction = normal(3, *W.shape)
    rest = {name: tensor for name, tensor in parameters.items() if name != "model.W"}
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(W, direction)
        slope = torch.autograd.forward_ad.unpack_dual(loss({"model.W": dual, **rest})).tangent
    expected = gradient(loss, {name: tensor.clone() for name, tensor in parameters.items()})["model.W"]
    close(slope, (expected * direction).sum())


def test_derivatives_of_a_message_where_the_robust_forms_pieces_meet() -> None:
    """|x + w| and clip have kinks at x = ±w and at w = 0; f itself has none, and neither have its derivatives."""
    x = torch.tensor([2.0, -2.0, 2.0, 0.0, 1.0, 0.0], dtype=F64, requires_grad=True)
    w = torch.tensor([2.0, 2.0, -2.0, 1.5, 0.0, 0.0], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(binary.sum_product, (x, w), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(binary.sum_product, (x, w))
    wide = torch.zeros(3, 6, dtype=F64, requires_grad=True)  # shapes that are spread over each other
    assert torch.autograd.gradcheck(binary.sum_product, (wide, w), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(binary.sum_product, (wide, w))
