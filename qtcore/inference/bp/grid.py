"""Belief propagation on the 8-connected grid (main text, "Grid Markov Random Field"): all messages of one direction at once."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution
from torch.nn.functional import pad

from qtcore import kernels
from qtcore.inference.bp import categorical
from qtcore.inference.bp.passing import Choices, Passing, check_size, damp
from qtcore.inference.bp.torch_compile import with_torch_compile
from qtcore.inference.engine import Layer
from qtcore.potentials import DIRECTIONS, GridPotentials
from qtcore.support.tensors import is_batched


def one_layer(message: Tensor, potential: Tensor, evidence: Tensor, sums: bool, mild: bool, damping: float) -> Tensor:
    """One parallel update of all messages [8, B, height, width, S]; entry d is what arrives from direction d."""
    directions, batch, height, width, states = message.shape
    total = evidence + message.sum(0)
    new = []
    for d in range(directions):  # one direction at a time: the robust form needs S times the memory
        cavity = (total - message[d ^ 1]).reshape(-1, states)
        sent = categorical.normalise(categorical.messages(cavity, potential[d], sums, mild))
        new.append(arrive(sent.reshape(batch, height, width, states), d))
    return damp(torch.stack(new), message, damping)


def arrive(sent: Tensor, d: int) -> Tensor:
    """Shift every pixel's outgoing message to the pixel that receives it from direction d; none enters from outside."""
    down, right, _ = DIRECTIONS[d]
    height, width = sent.shape[1:3]
    inner = sent[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)]
    return pad(inner, (0, 0, max(-right, 0), max(right, 0), max(-down, 0), max(down, 0)))


class GridPassing(Passing):
    """Messages between the pixels of a grid."""

    def __init__(self, potentials: GridPotentials, evidence: Tensor, choices: Choices) -> None:
        assert choices.T is not None
        self.T, self.choices, self.potentials, self.evidence = choices.T, choices, potentials, evidence
        self.potential = potentials.by_direction() / self.T
        ((low, high),) = check_size(choices, self.potential)
        self.mild = high - low <= categorical.MATRIX_PRODUCT_RANGE and not is_batched(self.potential)

    @cached_property
    def state_evidence(self) -> Tensor:
        """Log-evidence of every state of every pixel [B, height, width, S]."""
        return self.potentials.spread(self.evidence) / self.T

    def initial(self) -> Tensor:
        return self.state_evidence.new_zeros(len(DIRECTIONS), *self.state_evidence.shape)

    def _layer(self, message: Tensor) -> Tensor:
        one = with_torch_compile(one_layer) if self.choices.torch_compile else one_layer
        new: Tensor = one(message, self.potential, self.state_evidence, self.choices.sums, self.mild, self.choices.damping)
        return new

    def update(self, message: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        new = self._layer(message)
        return new, {"residual": self.T * categorical.change(new, message).amax((0, 2, 3))}

    def answers(self, message: Tensor) -> tuple[Distribution, Distribution]:
        total = message.sum(0)
        if self.potentials.own_evidence:
            total = total + self.state_evidence
        return self.potentials.answers(self.T * total)

    def shown(self, message: Tensor) -> dict[str, Tensor]:
        return {"arriving": self.T * message}

    def before(self) -> dict[str, Tensor]:
        return {"residual": self.evidence.new_zeros(len(self.evidence))}

    @staticmethod
    def kept_bytes(potentials: GridPotentials, shape: tuple[int, ...], n_layers: int, damped: bool = False) -> int:
        tables = potentials.tables
        messages = len(DIRECTIONS) * shape[0] * shape[1] * tables.shape[-1] * tables.dtype.itemsize
        return (n_layers + 1) * messages * (1 if kernels.usable(tables) else 8)

    def after(self, n_layers: int) -> Distribution:
        if n_layers and self._native():
            return self._by_kernel(n_layers)
        message = self.initial()
        for _ in range(n_layers):
            message = self._layer(message)
        return self.answers(message)[0]

    def _native(self) -> bool:
        """Whether the kernel applies: in linear space, at T = 1, where no message can underflow."""
        plain = self.choices.sums and not self.T.requires_grad
        return plain and kernels.usable(self.potential, self.evidence) and float(self.T) == 1 and self.mild

    def _linear(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the kernel takes: potentials, evidence and what of it enters the beliefs, the largest factors at 1."""
        table = (self.potential - self.potential.detach().amax((1, 2), keepdim=True)).exp()
        evidence = (self.evidence - self.evidence.detach().amax(-1, keepdim=True)).exp()
        return table, evidence, evidence if self.potentials.own_evidence else torch.ones_like(evidence)

    def _by_kernel(self, n_layers: int) -> Distribution:
        logits = kernels.grid_layers(*self._linear(), self.potentials.clones, n_layers, self.choices.damping)
        return Categorical(logits=logits, validate_args=False)

    def after_each(self, depths: Sequence[int]) -> list[Distribution]:
        if not (min(depths) and self._native()):
            return super().after_each(depths)
        logits = kernels.grid_depths(*self._linear(), self.potentials.clones, depths, self.choices.damping)
        return [Categorical(logits=each, validate_args=False) for each in logits.unbind(1)]

    def trace(self, n_layers: int) -> Iterator[Layer] | None:
        return self._trace(n_layers) if n_layers and self._native() else None

    def _trace(self, n_layers: int) -> Iterator[Layer]:
        """All layers at once by the kernel; each is made into distributions when it is asked for."""
        yield Layer(0, *self.answers(self.initial()), self.before()["residual"], {})
        arguments = *self._linear(), self.potentials.clones, n_layers, self.choices.damping
        labels, shares, residual = kernels.grid_trace(*arguments)
        for k in range(n_layers):
            marginals = Categorical(logits=labels[:, k], validate_args=False)
            hidden = Categorical(shares[:, k] * self.potentials.spread(marginals.probs), validate_args=False)
            yield Layer(k + 1, marginals, hidden, residual[:, k], {})
