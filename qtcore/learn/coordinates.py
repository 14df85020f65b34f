"""The parametrisation that the optimiser works in.

Adam is not invariant to reparametrisation. Models with a temperature are optimised in the parametrisation of the authors'
code: inference at T = 1 with weights W/T and c/T, and T as a factor on the final belief. They are stored in that of the
paper. Other models are optimised as stored, or with coordinates that the model mixes (`Model.mixing`). Log-potentials of −∞
stay what they are: a coordinate is 0 there.
"""

import torch
from torch import Tensor

from qtcore.models.base import MIN_LEARNED_TEMPERATURE, Model
from qtcore.support.tensors import along


class Coordinates:
    """Leaf tensors for an optimiser, tied to a model's parameters."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        T = model.temperature()
        learned = "T" in self.parameters
        self.fixed_unit = float(T.detach()) or 1.0 if T is not None and not learned else 1.0
        unit = T.detach() if T is not None and learned else self.fixed_unit
        ruled_out = {name: parameter.detach().isneginf() for name, parameter in self.parameters.items()}
        self.zeros = {name: zeros for name, zeros in ruled_out.items() if bool(zeros.any())}
        given = model.mixing()
        self.mixing = {name: given[name] for name in self.parameters if name in given and name not in self.zeros}
        inverse = {name: [(axis, matrix.double().inverse()) for axis, matrix in parts] for name, parts in self.mixing.items()}
        self.tensors = {
            name: self._plain(name, parameter.detach() / (1 if name == "T" else unit), inverse)
            for name, parameter in self.parameters.items()
        }

    def _plain(self, name: str, tensor: Tensor, inverse: dict[str, list[tuple[int, Tensor]]]) -> Tensor:
        """The coordinates of a parameter in units of T."""
        tensor = self._without_zeros(name, tensor)
        if name in inverse:
            return _mixed(tensor.double(), inverse[name]).to(tensor.dtype).requires_grad_()
        return tensor.clone().requires_grad_()

    def _without_zeros(self, name: str, tensor: Tensor) -> Tensor:
        return tensor.masked_fill(self.zeros[name], 0) if name in self.zeros else tensor

    def _with_zeros(self, name: str, tensor: Tensor) -> Tensor:
        return tensor.masked_fill(self.zeros[name], -torch.inf) if name in self.zeros else tensor

    def values(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The model's parameters at these coordinates (differentiable)."""
        unit = tensors.get("T", self.fixed_unit)
        plain = {name: _mixed(tensor, self.mixing.get(name, [])) for name, tensor in tensors.items()}
        return {name: tensor if name == "T" else self._with_zeros(name, tensor * unit) for name, tensor in plain.items()}

    def pull(self) -> None:
        """Set the gradients of the coordinates from those of the parameters, by the chain rule."""
        outputs = self.values(self.tensors)
        upstream = {name: self.parameters[name].grad for name in outputs}
        used = [torch.zeros_like(outputs[name]) if grad is None else grad for name, grad in upstream.items()]  # None: unused
        gradients = torch.autograd.grad(list(outputs.values()), list(self.tensors.values()), used)
        for tensor, gradient in zip(self.tensors.values(), gradients, strict=True):
            tensor.grad = gradient

    @torch.no_grad()
    def push(self, tensors: dict[str, Tensor] | None = None) -> None:
        """Set the model's parameters from the coordinates (or from other ones). A learned temperature stays positive."""
        tensors = self.tensors if tensors is None else tensors
        if "T" in tensors:
            tensors["T"].clamp_(min=MIN_LEARNED_TEMPERATURE)
        for name, value in self.values(tensors).items():
            self.parameters[name].copy_(value)


def _mixed(tensor: Tensor, parts: list[tuple[int, Tensor]]) -> Tensor:
    for axis, matrices in parts:
        tensor = along(axis, matrices, tensor)
    return tensor
