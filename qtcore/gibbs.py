"""Clamped Gibbs sampling, the slow way to marginals: for models that were not trained for belief propagation.

One chain per sample of the query, all in one batch. A sweep draws the hidden units given the visible variables and then
the visible variables (of a DBM, h2 with them) given the hidden units. Marginals are averages of the conditionals
p(v_i | h), which vary less than the samples themselves; soft evidence enters these conditionals, and what is certain stays
as it is. The temperature of a model does not matter here: its distribution does not depend on it.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Normal
from tqdm import tqdm

from qtcore.bp import binary, gaussian
from qtcore.errors import InputError
from qtcore.models.base import Model
from qtcore.models.grbm import GaussianRBM
from qtcore.models.rbm import BinaryModel
from qtcore.query import Query


@dataclass(frozen=True)
class Schedule:
    """How long to sample: `sweeps` in all, of which every `every`-th is kept after the first `burn` (the paper's numbers)."""

    sweeps: int = 5000
    burn: int = 20
    every: int = 10

    def __post_init__(self) -> None:
        if self.burn < 0 or self.every < 1 or self.sweeps <= self.burn:
            raise InputError(f"a Gibbs schedule needs sweeps > burn ≥ 0 and every ≥ 1, not {self}.")

    def kept(self) -> Iterator[bool]:
        """For each sweep, whether it counts."""
        for sweep in range(self.sweeps):
            yield sweep >= self.burn and (sweep - self.burn) % self.every == 0


class Chain(Protocol):
    """A batch of Markov chains."""

    def sweep(self) -> tuple[Tensor, ...]:
        """Draw everything once; returns the parameters of the conditionals p(v_i | h) [B, V]."""
        ...


class BinaryChain:
    """RBM and DBM: one side of the bipartite graph given the other."""

    def __init__(self, model: BinaryModel, query: Query, generator: torch.Generator) -> None:
        self.generator = generator
        W, c_v, c_h = (tensor.detach() for tensor in model._weights())
        values, weight = query.values.to(W.dtype), query.observed.to(W.dtype)
        given = binary.evidence(values, weight)
        extra = W.shape[1] - given.soft.shape[1]
        soft, hard = (torch.nn.functional.pad(tensor, (0, extra)) for tensor in given)
        self.W, self.n_visible = 2 * W, given.soft.shape[1]
        self.bias_h = c_h - W.sum(1)
        self.bias_v = c_v - W.sum(0) + soft
        self.hard = hard
        self.state = self._draw(self._clamp(torch.sigmoid(self.bias_v)))

    def _draw(self, p: Tensor) -> Tensor:
        return (torch.rand(p.shape, generator=self.generator, dtype=p.dtype, device=p.device) < p).to(p.dtype)

    def _clamp(self, p: Tensor) -> Tensor:
        """What is certain stays as it is."""
        return torch.where(self.hard != 0, (self.hard + 1) / 2, p)

    def sweep(self) -> tuple[Tensor, ...]:
        hidden = self._draw(torch.sigmoid(self.state @ self.W.T + self.bias_h))
        conditional = self._clamp(torch.sigmoid(hidden @ self.W + self.bias_v))
        self.state = self._draw(conditional)
        return (conditional[:, : self.n_visible],)


class GaussianChain:
    """Gaussian RBM: v | h is normal with the precision of the unary, h | v is Bernoulli."""

    def __init__(self, model: GaussianRBM, query: Query, generator: torch.Generator) -> None:
        self.generator = generator
        W, c, given = model._prepare(query)
        self.W, self.c = W.detach(), c.detach()
        self.given = gaussian.Evidence(*(tensor.detach() for tensor in given))
        self.deviation = self.given.precision.rsqrt()
        self.state = self._draw(self.given.linear / self.given.precision)

    def _draw(self, mean: Tensor) -> Tensor:
        noise = torch.randn(mean.shape, generator=self.generator, dtype=mean.dtype, device=mean.device)
        certain = self.given.linear / self.given.precision
        return torch.where(self.given.certain, certain, mean + self.deviation * noise)

    def sweep(self) -> tuple[Tensor, ...]:
        p = torch.sigmoid(self.state @ self.W.T + self.c)
        hidden = (torch.rand(p.shape, generator=self.generator, dtype=p.dtype, device=p.device) < p).to(p.dtype)
        mean = (self.given.linear + hidden @ self.W) / self.given.precision
        mean = torch.where(self.given.certain, self.given.linear / self.given.precision, mean)
        self.state = self._draw(mean)
        return mean, self.deviation.expand_as(mean)


def chain(model: Model, query: Query, generator: torch.Generator) -> BinaryChain | GaussianChain:
    """Chains for a query, started from the unaries alone."""
    model._check(query)
    if isinstance(model, BinaryModel):
        return BinaryChain(model, query, generator)
    if isinstance(model, GaussianRBM):
        return GaussianChain(model, query, generator)
    raise InputError(f"Gibbs sampling is there for RBM, DBM and GaussianRBM, not for {type(model).__name__}.")


@torch.no_grad()
def marginals(model: Model, query: Query, generator: torch.Generator, schedule: Schedule | None = None) -> Bernoulli | Normal:
    """Marginals of the visible variables; of a Gaussian RBM the normal with the mixture's mean and variance."""
    schedule = schedule or Schedule()
    chains = chain(model, query, generator)
    count, first, second = 0, torch.zeros(()), torch.zeros(())
    for kept in _progress(schedule):
        conditional = chains.sweep()
        if kept:
            count += 1
            first = first + conditional[0]
            if len(conditional) == 2:
                second = second + conditional[0] ** 2 + conditional[1] ** 2
    if isinstance(chains, BinaryChain):
        return Bernoulli(probs=first / count, validate_args=False)
    mean = first / count
    return Normal(mean, (second / count - mean**2).clamp_min(gaussian.EPSILON / 1e3).sqrt(), validate_args=False)


@torch.no_grad()
def nll(model: Model, query: Query, generator: torch.Generator, schedule: Schedule | None = None) -> tuple[Tensor, Tensor]:
    """−log marginal(truth) where scored, 0 elsewhere, in nats [B, V], and the targets; like `Model.nll`.

    For the Gaussian RBM this is the log of the averaged density, not the density of averaged moments.
    """
    schedule = schedule or Schedule()
    if not bool(query.target.any()):
        raise InputError("the query has no targets, so there is nothing to score; give at least one.")
    if isinstance(model, BinaryModel):
        found = marginals(model, query, generator, schedule)
        truth = torch.where(query.target, query.truth, 0).to(model.dtype)
        return torch.where(query.target, -found.log_prob(truth), 0), query.target
    chains = chain(model, query, generator)
    truth = torch.where(query.target, query.truth, 0).to(model.dtype)
    total = torch.full_like(truth, -math.inf)
    count = 0
    for kept in _progress(schedule):
        conditional = chains.sweep()
        if kept:
            count += 1
            mean, deviation = conditional
            total = torch.logaddexp(total, Normal(mean, deviation, validate_args=False).log_prob(truth))
    return torch.where(query.target, math.log(count) - total, 0), query.target


def _progress(schedule: Schedule) -> Iterator[bool]:
    quiet = not sys.stderr.isatty()
    yield from tqdm(schedule.kept(), total=schedule.sweeps, disable=quiet, desc="Gibbs", leave=False)
