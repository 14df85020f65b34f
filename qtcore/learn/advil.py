"""AdVIL, adversarial variational inference and learning (Li et al., ICLR 2020): the paper's main baseline.

Learns an energy model E_θ(v, h) with three helpers: an encoder q(h | v), a decoder z → h → v with a Gaussian z whose joint
q(v, h) approximates the model's own distribution, and an auxiliary encoder r(z | h) that bounds the decoder's entropy from
below, H(h) ≥ H(z) + H(h | z) + E log r(z | h). Binary units are relaxed (binary concrete). The game is

    θ:        minimise  E_data[E(v, h)] − E_decoder[E(v, h)]
    decoder:  minimise  E_decoder[E(v, h)] − its entropy bound
    encoder:  minimise  E_data[E(v, h)] − H(h | v)

with many decoder steps and one encoder step per step of θ. Afterwards the weights are used for our belief propagation at
T = 1 ("AdVIL-BP") or for Gibbs sampling ("AdVIL-Gibbs").
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from tqdm import tqdm

from qtcore.errors import InputError
from qtcore.learn.query_training import INITIAL, ORDER, VALID, generator
from qtcore.metrics import BITS, score
from qtcore.models.base import Model
from qtcore.potentials import BinaryPotentials, GaussianPotentials, Potentials
from qtcore.query import uniform

RELAXATION = 0.1
"""Temperature of the binary concrete distribution."""


@dataclass(frozen=True)
class Budget:
    """Length and rates of a training. The paper's authors: 100,000 steps with 100 decoder steps each."""

    steps: int = 2000
    decoder_steps: int = 10
    batch: int = 500
    rate: float = 3e-4
    helper_rate: float = 3e-4
    """Learning rate of the encoder and the decoder."""
    every: int = 100
    """Steps between validations."""


BUDGET = Budget(steps=5000, decoder_steps=10, rate=3e-3, helper_rate=1e-2)
GAUSSIAN_BUDGET = Budget(steps=3000, decoder_steps=10, rate=3e-4, helper_rate=3e-3)
"""The budgets of our tables, far below the authors' own, which takes many hours on a CPU. Fewer steps need larger rates, and
fewer decoder steps need a decoder that learns faster than the model (both chosen on validation data)."""


@dataclass(frozen=True)
class Result:
    """The best model of a run by validation, and the history of its validation NCE in bits: (step, NCE)."""

    model: Model
    valid: float
    history: tuple[tuple[int, float], ...]


def relaxed(logits: Tensor, random: torch.Generator) -> Tensor:
    """A sample of the binary concrete distribution: differentiable, and close to 0 or 1."""
    uniform_noise = torch.rand(logits.shape, generator=random).clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((logits + torch.logit(uniform_noise)) / RELAXATION)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of Bernoulli variables in nats, summed over the last dimension."""
    return (softplus(logits) - logits * torch.sigmoid(logits)).sum(-1)


def energy(graph: Potentials, v: Tensor, hidden: Sequence[Tensor]) -> Tensor:
    """E(v, h) = −φ(v, h) for each sample, with the potentials of the paper."""
    if isinstance(graph, BinaryPotentials):  # the upper layer of a DBM is on side v
        return _rbm_energy(graph.W, graph.c_v, graph.c_h, torch.cat([v, *hidden[1:]], 1), hidden[0])
    if isinstance(graph, GaussianPotentials):
        h, precision = hidden[0], graph.prior_precision
        unary = ((v - graph.prior_linear / precision) ** 2 * precision).sum(1) / 2
        return unary - h @ graph.c - ((h @ graph.W) * v).sum(1)
    raise InputError("AdVIL trains an RBM, a DBM or a GaussianRBM.")


def layer_sizes(graph: Potentials) -> list[int]:
    """Sizes of the layers, from the visible one up."""
    if isinstance(graph, BinaryPotentials):
        upper = len(graph.c_v) - graph.n_visible
        return [graph.n_visible, len(graph.c_h), *([upper] if upper else [])]
    if isinstance(graph, GaussianPotentials):
        return [graph.W.shape[1], len(graph.c)]
    raise InputError("AdVIL trains an RBM, a DBM or a GaussianRBM.")


def _rbm_energy(W: Tensor, c_v: Tensor, c_h: Tensor, v: Tensor, h: Tensor) -> Tensor:
    return -(2 * ((h @ W) * v).sum(1) + h @ (c_h - W.sum(1)) + v @ (c_v - W.sum(0)))


class Encoder(nn.Module):
    """q(h | v): one sigmoid layer for each hidden layer."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, v: Tensor, random: torch.Generator) -> tuple[list[Tensor], Tensor]:
        """Relaxed hidden layers and the entropy of each sample."""
        hidden, bound, below = [], torch.zeros(len(v)), v
        for linear in self.maps:
            logits = linear(below)
            below = relaxed(logits, random)
            hidden.append(below)
            bound = bound + entropy(logits)
        return hidden, bound


class Decoder(nn.Module):
    """z → (middle) → the uppermost hidden layer → … → v, and r(z | uppermost hidden layer)."""

    def __init__(self, n_z: int, n_middle: int | None, sizes: Sequence[int], gaussian: bool) -> None:
        super().__init__()
        self.n_z = n_z
        top = sizes[-1]
        self.start = (
            nn.Linear(n_z, top)
            if n_middle is None
            else nn.Sequential(nn.Linear(n_z, n_middle), nn.Tanh(), nn.Linear(n_middle, top))
        )
        down = list(reversed(sizes))
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(down))
        self.back = nn.Linear(top, 2 * n_z)
        self.log_variance = nn.Parameter(torch.zeros(sizes[0])) if gaussian else None

    def forward(self, count: int, random: torch.Generator) -> tuple[Tensor, list[Tensor], Tensor]:
        """Samples of v, of the hidden layers (lowest first), and the entropy bound of each sample, up to a constant."""
        z = torch.randn(count, self.n_z, generator=random)
        logits = self.start(z)
        layers = [relaxed(logits, random)]
        bound = entropy(logits)
        mean, log_variance = self.back(layers[0]).chunk(2, 1)
        bound = bound - 0.5 * ((z - mean) ** 2 * torch.exp(-log_variance) + log_variance + math.log(2 * math.pi)).sum(1)
        for linear in self.maps:
            logits = linear(layers[-1])
            last = linear is self.maps[-1]
            if last and self.log_variance is not None:
                noise = torch.randn(logits.shape, generator=random)
                layers.append(logits + torch.exp(self.log_variance / 2) * noise)
                bound = bound + 0.5 * (self.log_variance + math.log(2 * math.pi * math.e)).sum()
            else:
                layers.append(relaxed(logits, random))
                bound = bound + entropy(logits)
        return layers[-1], list(reversed(layers[:-1])), bound


def train(
    model: Model, values: Tensor, valid: Tensor, n_z: int, n_middle: int | None, budget: Budget | None = None, seed: int = 0
) -> Result:
    """Train a model (RBM, DBM or GaussianRBM, at T = 1) in place; it ends with its best weights by validation NCE."""
    budget = budget or Budget()
    torch.manual_seed(generator(seed, INITIAL).initial_seed())
    random = generator(seed, ORDER)
    gaussian = isinstance(model.graph(), GaussianPotentials)
    sizes = layer_sizes(model.graph())
    encoder, decoder = Encoder(sizes), Decoder(n_z, n_middle, sizes, gaussian)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    players = {
        name: torch.optim.Adam(parameters, lr=rate, betas=(0.5, 0.999))
        for name, parameters, rate in (
            ("model", learned, budget.rate),
            ("encoder", encoder.parameters(), budget.helper_rate),
            ("decoder", decoder.parameters(), budget.helper_rate),
        )
    }

    def update(player: str, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, players[player].param_groups[0]["params"])
        for parameter, gradient in zip(players[player].param_groups[0]["params"], gradients, strict=True):
            parameter.grad = gradient
        players[player].step()

    best, best_nce = None, math.inf
    history = []
    for step in tqdm(range(1, budget.steps + 1), desc="AdVIL", disable=not sys.stderr.isatty(), leave=False):
        for _ in range(budget.decoder_steps):
            v, h, bound = decoder(budget.batch, random)
            update("decoder", (energy(model.graph(), v, h) - bound).mean())
        rows = values[torch.randint(len(values), (budget.batch,), generator=random)]
        h, bound = encoder(rows, random)
        update("encoder", (energy(model.graph(), rows, h) - bound).mean())
        with torch.no_grad():
            h, _ = encoder(rows, random)
            v_model, h_model, _ = decoder(budget.batch, random)
        update("model", (energy(model.graph(), rows, h) - energy(model.graph(), v_model, h_model)).mean())
        if step % budget.every == 0 or step == budget.steps:
            nce = score(model, valid, uniform(), generator(VALID), per_image=gaussian).mean * BITS
            history.append((step, nce))
            if nce < best_nce:
                best_nce = nce
                best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert best is not None
    model.load_state_dict(best)
    return Result(model, best_nce, tuple(history))
