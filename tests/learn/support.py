"""Small data, small models, and the loss written without any of the code that trains."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from qtcore import RBM, Query
from qtcore.learn.query_training import _Training
from qtcore.learn.settings import Settings
from qtcore.models.base import Model
from qtcore.query import Mask
from tests.strategies import F64, build, draw_truth, rng, sample_shape


def data_for(model: Model, rows: int = 12, seed: int = 0) -> "Tensor | tuple[Tensor, Tensor]":
    """Rows that the model can be trained on; labels too for a grid."""
    values = draw_truth(model, seed, (rows, *sample_shape(model)))
    if type(model).__name__ == "GridMRF":
        return values, torch.randint(3, values.shape, generator=rng(seed + 1))
    return values


def twins(rows: int = 40, n: int = 4, seed: int = 0) -> Tensor:
    """Rows of n equal bits: a hidden variable is all that it takes."""
    return (torch.rand(rows, 1, generator=rng(seed)) < 0.5).to(F64).expand(rows, n).clone()


def training(model: Model, data: Any, queries: Mask | None = None, **changes: Any) -> _Training:
    """A run that has not begun, to be looked into."""
    values, truth = data if isinstance(data, tuple) else (data, None)
    settings = Settings(**({"steps": 10, "batch": 5, "learning_rate": 0.01} | changes))
    return _Training(model, (values, truth), None, queries or model.queries(), settings, model.engine)


def gradients(model: Model, data: Any, queries: Mask | None = None, **changes: Any) -> dict[str, Tensor]:
    """Gradients of the first minibatch, in the optimiser's coordinates, and its loss."""
    run = training(model, data, queries, **changes)
    loss = run._one_step()
    result = {name: tensor.grad.clone() for name, tensor in run.coordinates.tensors.items() if tensor.grad is not None}
    return result | {"loss": torch.tensor(loss, dtype=F64)}


def authors_loss(model: RBM, coordinates: dict[str, Tensor], query: Query) -> Tensor:
    """Mean cross-entropy with T = 1 inside and a strength on the final belief, as the paper's authors write it."""
    plain = RBM(model.W.shape[1], model.W.shape[0], model.n_layers, dtype=F64)
    weights = {name: tensor for name, tensor in coordinates.items() if name != "T"}
    logits = functional_call(plain, weights, (query,)).logits * coordinates["T"]
    loss = nn.functional.binary_cross_entropy_with_logits(logits, query.values.to(F64), reduction="none")
    return (loss * query.target).sum() / query.target.sum()


def weights_of(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit by bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def tempered_rbm(seed: int = 0, temperature: float = 5.0) -> RBM:
    """A random RBM that learns its temperature, in float64."""
    model: RBM = build("RBM", seed, scale=0.5, temperature=temperature, learn_temperature=True)
    return model
