"""Belief propagation between categorical variables, messages as logs (main text, "Unrolling BP into a QT-NN").

m_ij = f_θij(θ_i + u_i + Σ_{k≠j} m_ki) with f_θ(x)(t) = log Σ_s exp(θ(s, t) + x(s)) at temperature 1, and the maximum
instead of log Σ exp at temperature 0. Any other T is a change of units, as for binary variables. Messages are
normalised so that their largest entry is 0: beliefs do not depend on such constants.
"""

import torch
from torch import Tensor

from qtcore.query import has_values

HARD_LOG = -1000.0
"""The log-evidence shown for a state that is ruled out. The messages use −∞ there."""

MATRIX_PRODUCT_RANGE = 60.0
"""Up to this range of a log-potential a message is a matrix product of exponentials: with the largest factor 1 and the
smallest e^−60 ≈ 1e−26, no sum can vanish in float32, and what underflows (below 1e−38) is not seen beside it."""


def is_mild(potential: Tensor) -> bool:
    """Whether messages through this log-potential may be computed as matrix products."""
    return extent(potential) <= MATRIX_PRODUCT_RANGE


def messages(cavity: Tensor, potential: Tensor, sums: bool = True, mild: bool | None = None) -> Tensor:
    """log Σ_s exp(potential[s, t] + cavity[s]) for every row: [..., R, S] with [..., S, S'] gives [..., R, S'].

    `cavity` may hold −∞ (a state that is ruled out), but no row may consist of it alone. `mild` is what `is_mild` says of
    the potential, for those who know.
    """
    if sums and (is_mild(potential) if mild is None else mild):
        top = cavity.detach().amax(-1, keepdim=True)
        shift = potential.detach().amax((-2, -1), keepdim=True)
        product = torch.matmul((cavity - top).exp(), (potential - shift).exp())
        return product.log() + top + shift
    scores = cavity[..., :, None] + potential[..., None, :, :]
    return scores.logsumexp(-2) if sums else scores.amax(-2)


def extent(potential: Tensor) -> float:
    """Largest minus smallest entry of a log-potential."""
    if potential.numel() == 0 or not has_values(potential):
        return 0.0
    low, high = potential.detach().aminmax()
    return float(high - low)


def normalise(message: Tensor, valid: Tensor | None = None) -> Tensor:
    """The same message with its largest entry at 0; entries that are padding become 0."""
    if valid is None:
        return message - message.amax(-1, keepdim=True)
    top = message.masked_fill(~valid, -torch.inf).amax(-1, keepdim=True)
    return (message - top).masked_fill(~valid, 0.0)


def damp(new: Tensor, old: Tensor, damping: float) -> Tensor:
    """(1−d)·new + d·old in logs; 0 means no damping."""
    return torch.lerp(new, old, damping) if damping else new


def change(new: Tensor, old: Tensor, valid: Tensor | None = None) -> Tensor:
    """How much each message changed [...]: the largest change of the log-odds of two of its states."""
    difference = new - old
    if valid is None:
        return difference.amax(-1) - difference.amin(-1)
    high = difference.masked_fill(~valid, -torch.inf).amax(-1)
    return high - difference.masked_fill(~valid, torch.inf).amin(-1)


def scale(log: Tensor, factor: Tensor) -> Tensor:
    """factor·log, where −∞ stays −∞ and has no part in the gradient of the factor (0·∞ would make it NaN)."""
    ruled_out = log.isneginf()
    return (log.masked_fill(ruled_out, 0) * factor).masked_fill(ruled_out, -torch.inf)


def log_evidence(likelihood: Tensor, weight: Tensor, n_states: Tensor) -> Tensor:
    """u = log(w·likelihood + (1−w)/S) [..., S], and exactly 0 where w = 0 (a constant says nothing)."""
    weight = weight[..., None]
    mixed = weight * likelihood + (1 - weight) / n_states[..., None]
    positive = mixed > 0
    log = torch.where(positive, mixed, 1).log().masked_fill(~positive, -torch.inf)
    return torch.where(weight > 0, log, 0)
