"""AdVIL, adversarial variational inference and learning (Li et al., ICLR 2020): the paper's main baseline.

Learns an energy model E_θ(v, h) with three helpers: an encoder q(h | v), a decoder z → h → v with a Gaussian z whose joint
q(v, h) stands in for the model's own distribution, and an auxiliary encoder r(z | h) that bounds the decoder's entropy from
below, H(h) ≥ H(z) + H(h | z) + E log r(z | h). Binary units are relaxed (binary concrete). The three play

    θ:        minimise  E_data[E(v, h)] − E_decoder[E(v, h)]
    decoder:  minimise  E_decoder[E(v, h)] − its entropy bound
    encoder:  minimise  E_data[E(v, h)] − H(h | v)

with many decoder steps and one encoder step for each step of θ. Afterwards the weights go into our belief propagation at
T = 1 ("AdVIL-BP") or are sampled from ("AdVIL-Gibbs").
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

from qtcore.learn.query_training import INITIAL, ORDER, VALID, generator
from qtcore.metrics import BITS, score
from qtcore.models.base import Model
from qtcore.models.dbm import DBM
from qtcore.models.grbm import GaussianRBM
from qtcore.models.rbm import RBM
from qtcore.query import uniform

RELAXATION = 0.1
"""Temperature of the binary concrete distribution."""


@dataclass(frozen=True)
class Budget:
    """How much to compute. The paper's authors: 100,000 steps with 100 decoder steps each."""

    steps: int = 2000
    decoder_steps: int = 10
    batch: int = 500
    rate: float = 3e-4
    helper_rate: float = 3e-4
    """Of the encoder and the decoder."""
    every: int = 100
    """Steps between validations."""


BUDGET = Budget(steps=5000, decoder_steps=10, rate=3e-3, helper_rate=1e-2)
GAUSSIAN_BUDGET = Budget(steps=3000, decoder_steps=10, rate=3e-4, helper_rate=3e-3)
"""What our tables spend; far below the authors' own budget, which takes many hours on a CPU. Fewer steps want larger rates,
and fewer decoder steps a decoder that learns faster than the model (both chosen by validation)."""


@dataclass(frozen=True)
class Found:
    """The best model of a run by validation, and the course of its validation NCE in bits: (step, NCE)."""

    model: Model
    valid: float
    course: tuple[tuple[int, float], ...]


def relaxed(logits: Tensor, random: torch.Generator) -> Tensor:
    """A sample of the binary concrete distribution: differentiable, and close to 0 or 1."""
    uniform_noise = torch.rand(logits.shape, generator=random).clamp(1e-6, 1 - 1e-6)
    return torch.sigmoid((logits + torch.logit(uniform_noise)) / RELAXATION)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of Bernoulli variables in nats, summed over the last dimension."""
    return (softplus(logits) - logits * torch.sigmoid(logits)).sum(-1)


def energy(model: Model, v: Tensor, hidden: Sequence[Tensor]) -> Tensor:
    """E(v, h) = −φ(v, h) for each sample, with the potentials of the paper."""
    if isinstance(model, RBM):
        return _rbm_energy(model.W, model.c_v, model.c_h, v, hidden[0])
    if isinstance(model, DBM):
        W, c_v, c_h = model._weights()
        return _rbm_energy(W, c_v, c_h, torch.cat([v, hidden[1]], 1), hidden[0])
    assert isinstance(model, GaussianRBM)
    h = hidden[0]
    return ((v - model.b) ** 2).sum(1) / (2 * model.sigma**2) - h @ model.c - ((h @ model.W) * v).sum(1) / model.sigma


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
        """Samples of v, of the hidden layers (lowest first), and the bound on the entropy of each, but for a constant."""
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
) -> Found:
    """Train a model (RBM, DBM or GaussianRBM, at T = 1) in place; it ends with its best weights by validation NCE."""
    budget = budget or Budget()
    torch.manual_seed(generator(seed, INITIAL).initial_seed())
    random = generator(seed, ORDER)
    gaussian = isinstance(model, GaussianRBM)
    assert isinstance(model, RBM | DBM | GaussianRBM)
    hidden = [model.W1.shape[0], model.W2.shape[0]] if isinstance(model, DBM) else [model.W.shape[0]]
    sizes = [values.shape[1], *hidden]
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
    course = []
    for step in tqdm(range(1, budget.steps + 1), desc="AdVIL", disable=not sys.stderr.isatty(), leave=False):
        for _ in range(budget.decoder_steps):
            v, h, bound = decoder(budget.batch, random)
            update("decoder", (energy(model, v, h) - bound).mean())
        rows = values[torch.randint(len(values), (budget.batch,), generator=random)]
        h, bound = encoder(rows, random)
        update("encoder", (energy(model, rows, h) - bound).mean())
        with torch.no_grad():
            h, _ = encoder(rows, random)
            v_model, h_model, _ = decoder(budget.batch, random)
        update("model", (energy(model, rows, h) - energy(model, v_model, h_model)).mean())
        if step % budget.every == 0 or step == budget.steps:
            nce = score(model, valid, uniform(), generator(VALID), per_image=gaussian).mean * BITS
            course.append((step, nce))
            if nce < best_nce:
                best_nce = nce
                best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert best is not None
    model.load_state_dict(best)
    return Found(model, best_nce, tuple(course))
