"""Perturb-and-max-product: samples of a density without a chain rule.

Gumbel noise is added to the log-potential of every state of every variable, hidden ones too, and belief propagation at T = 0
finds the most probable state of the perturbed model, all variables at once (Lázaro-Gredilla et al., *Perturb-and-max-product:
Sampling and learning in discrete energy-based models*, NeurIPS 2021).

Without factors of two variables or more this is exact. With them it is an approximation, for two reasons: noise on single
variables is not noise on joint states, which alone would make the arg-max a sample (a pair of binary variables without biases
that should agree with probability σ(w) does so with 1 − 2 σ(−w)²); and with loops max-product need not find the arg-max. What
it approximates is the distribution that the potentials describe, p ∝ exp φ: of a factor graph, or of an RBM trained by PCD. The
answers of a query-trained model do not come from that distribution: draw from them by the chain rule.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Categorical

from qtcore.errors import InputError
from qtcore.inference.bp import BP
from qtcore.inference.engine import Engine
from qtcore.potentials import FactorPotentials, GaussianPotentials
from qtcore.query import Query

if TYPE_CHECKING:
    from qtcore.models.base import Model

ENGINE = BP(temperature=0.0, damping=0.5, until=1e-3, at_most=200)
"""Max-product, damped, since it often swings; the depth that a model was trained for means nothing here."""
MAX_BYTES = 2**28
"""Approximately how much memory the rows that are drawn at a time may take."""


@dataclass(frozen=True, eq=False)
class _Perturbed:
    """A factor graph with perturbed evidence, as an engine sees it."""

    potentials: FactorPotentials
    log: Tensor
    """[total, rows]"""
    engine: BP = ENGINE
    rho: Tensor | None = None

    def graph(self) -> FactorPotentials:
        return self.potentials

    def evidence(self, query: Query, dtype: Any = None) -> Tensor:
        return self.log

    def temperature(self) -> Tensor:
        return self.log.new_ones(())

    def check(self, query: Query) -> None:
        """What is asked is in the evidence."""


def states(model: "Model", query: Query, generator: "torch.Generator | None" = None, engine: Engine | None = None) -> Tensor:
    """One joint state of each row of a query, of the visible variables, or of labels [batch, …]."""
    engine = engine or ENGINE
    if not isinstance(engine, BP):
        raise InputError(f"perturb-and-max-product runs belief propagation at T = 0; give engine=qtcore.BP(…), not {engine}.")
    with torch.no_grad():
        given = model.graph()
        if isinstance(given, GaussianPotentials):
            raise InputError(f"perturb-and-max-product is for discrete variables; a {type(model).__name__} has real ones.")
        factors, evidence = given.as_factors(model.evidence(query))
        plain = FactorPotentials(factors.wiring, factors.unary, factors.tables)  # answers for every state, clones apart
        engine = replace(engine, temperature=0.0)
        kept = engine.kept_bytes(_Perturbed(plain, evidence), tuple(query.shape[1:]))
        parts = []
        for log in evidence.split(max(1, MAX_BYTES // max(1, kept)), 1):
            perturbed = _Perturbed(plain, log + _gumbel(log, generator))
            *_, last = engine.layers(perturbed, query)
            parts.append(factors.states(_modes(plain, last.marginals, last.hidden))[0])
    return torch.cat(parts)


def _gumbel(like: Tensor, generator: "torch.Generator | None") -> Tensor:
    device = torch.device("cpu") if generator is None else generator.device
    return -torch.empty(like.shape, dtype=like.dtype, device=device).exponential_(generator=generator).log().to(like.device)


def _modes(potentials: FactorPotentials, visible: Any, hidden: Any) -> Tensor:
    """The most probable state of each variable [rows, n]."""
    assert isinstance(visible, Categorical)
    where = potentials.wiring.on(visible.logits.device)
    modes = torch.empty(len(visible.logits), len(potentials.wiring.n_states), dtype=torch.long, device=visible.logits.device)
    modes[:, where.visible] = visible.logits.argmax(-1)
    modes[:, where.hidden] = hidden.logits.argmax(-1)
    return modes
