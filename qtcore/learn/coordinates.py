"""The parametrisation that the optimiser works in.

Adam is not invariant to reparametrisation. Models with a temperature are optimised in the parametrisation of the authors'
code: inference at T = 1 with weights W/T and c/T, and T as a factor on the final belief. They are stored in that of the
paper. Other models are optimised as stored, but for a learned σ and learned edge weights ρ, whose coordinates are their
logarithms, so that they stay positive, and for tables that the model mixes (`Model.mixing`).
Log-potentials of −∞ stay what they are: a coordinate is 0 there.
"""

import torch
from torch import Tensor

from qtcore.models.base import MIN_LEARNED_TEMPERATURE, Model
from qtcore.support.tensors import along

LOGARITHMIC = ("sigma", "rho")
"""Parameters whose coordinates are their logarithms, whatever the temperature."""

UNITLESS = ("T", *LOGARITHMIC)
"""Parameters that are not in units of the temperature."""


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
        mixable = self.parameters.keys() - self.zeros.keys()
        self.mixing = {name: parts for name, parts in model.mixing().items() if name in mixable}
        self.tensors = {
            name: (self._stored(name, parameter.detach()) / (1 if name in UNITLESS else unit)).clone().requires_grad_()
            for name, parameter in self.parameters.items()
        }

    def _stored(self, name: str, tensor: Tensor) -> Tensor:
        """A parameter as a coordinate, in the unit 1."""
        if name in LOGARITHMIC:
            return tensor.log()
        if name in self.mixing:
            inverse = [(axis, matrices.double().inverse()) for axis, matrices in self.mixing[name]]
            return _mixed(tensor.double(), inverse).to(tensor.dtype)
        return tensor.masked_fill(self.zeros[name], 0) if name in self.zeros else tensor

    def _restored(self, name: str, tensor: Tensor) -> Tensor:
        """The inverse."""
        if name in LOGARITHMIC:
            return tensor.exp()
        if name in self.mixing:
            return _mixed(tensor, self.mixing[name])
        return tensor.masked_fill(self.zeros[name], -torch.inf) if name in self.zeros else tensor

    def values(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The model's parameters at these coordinates (differentiable)."""
        unit = tensors.get("T", self.fixed_unit)
        in_units = {name: tensor if name in UNITLESS else tensor * unit for name, tensor in tensors.items()}
        return {name: tensor if name == "T" else self._restored(name, tensor) for name, tensor in in_units.items()}

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
