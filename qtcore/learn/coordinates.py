"""The coordinates that the optimiser sees.

Adam is not indifferent to how a model is written. Models with a temperature are optimised in the form of the authors'
code: with T = 1 inside, W/T and c/T as weights, and T as a factor on the final belief. They are stored as the paper
writes them. Other models are optimised as they are stored.
"""

import torch
from torch import Tensor

from qtcore.models.base import MIN_LEARNED_TEMPERATURE, Model, TemperedModel


class Coordinates:
    """Leaf tensors for an optimiser, tied to a model's parameters."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        T = getattr(model, "T", None)
        self.fixed_unit = 1.0
        if isinstance(model, TemperedModel) and not model.T.requires_grad and float(model.T) > 0:
            self.fixed_unit = float(model.T)
        unit = T.detach() if "T" in self.parameters and T is not None else self.fixed_unit
        self.tensors = {
            name: (parameter.detach() / (1 if name == "T" else unit)).clone().requires_grad_()
            for name, parameter in self.parameters.items()
        }

    def values(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The model's parameters at the given coordinates (differentiable)."""
        unit = tensors.get("T", self.fixed_unit)
        return {name: tensor if name == "T" else tensor * unit for name, tensor in tensors.items()}

    def pull(self) -> None:
        """Gradients of the coordinates, from those of the parameters, by the chain rule."""
        outputs = self.values(self.tensors)
        given = {name: self.parameters[name].grad for name in outputs}
        gradients = [torch.zeros_like(outputs[name]) if grad is None else grad for name, grad in given.items()]  # None: unused
        found = torch.autograd.grad(list(outputs.values()), list(self.tensors.values()), gradients)
        for tensor, gradient in zip(self.tensors.values(), found, strict=True):
            tensor.grad = gradient

    @torch.no_grad()
    def push(self, tensors: dict[str, Tensor] | None = None) -> None:
        """Put the model where the coordinates (or the given ones) are. A learned temperature stays positive."""
        tensors = self.tensors if tensors is None else tensors
        if "T" in tensors:
            tensors["T"].clamp_(min=MIN_LEARNED_TEMPERATURE)
        for name, value in self.values(tensors).items():
            self.parameters[name].copy_(value)
