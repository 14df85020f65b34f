"""Belief propagation between categorical variables, messages as logs (main text, "Unrolling BP into a QT-NN").

m_ij = f_θij(θ_i + u_i + Σ_{k≠j} m_ki) with f_θ(x)(t) = log Σ_s exp(θ(s, t) + x(s)) at temperature 1, and the maximum
instead of log Σ exp at temperature 0. Any other T is a change of units, as for binary variables. Messages are
normalised so that their largest entry is 0: beliefs do not depend on such constants.
"""

import torch
from torch import Tensor

from qtcore.support.tensors import has_values, is_batched

HARD_LOG = -1000.0
"""The log-evidence reported for a state that is ruled out. The messages use −∞ there."""

MATRIX_PRODUCT_RANGE = 60.0
"""Up to this range of a log-potential a message is a matrix product of exponentials: with the largest factor 1 and the
smallest e^−60 ≈ 1e−26, no sum can vanish in float32, and what underflows (below 1e−38) is negligible."""


def is_mild(potential: Tensor) -> bool:
    """Whether messages through this log-potential may be computed as matrix products."""
    if is_batched(potential):  # one of many may not
        return False
    return extent(potential) <= MATRIX_PRODUCT_RANGE


def messages(cavity: Tensor, potential: Tensor, sums: bool = True, mild: bool | None = None) -> Tensor:
    """log Σ_s exp(potential[s, t] + cavity[s]) for every row: [..., R, S] with [..., S, S'] gives [..., R, S'].

    `cavity` may hold −∞ (a state that is ruled out), but not in a whole row. `mild` is `is_mild(potential)`, if the caller
    knows it already.
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


def normalise(message: Tensor, dim: int = -1) -> Tensor:
    """The same message with its largest entry at 0."""
    return message - message.amax(dim, keepdim=True)


def change(new: Tensor, old: Tensor, dim: int = -1, zeros: bool = False) -> Tensor:
    """How much each message changed [...]: the largest change of the log-odds of two of its states.

    With `zeros` there may be −∞: the change is infinite when a state is ruled out, and a state that was stays out of it.
    """
    difference = new - old
    if zeros:
        gone = old.isneginf()
        high, low = difference.masked_fill(gone, -torch.inf).amax(dim), difference.masked_fill(gone, torch.inf).amin(dim)
        return high - low
    return difference.amax(dim) - difference.amin(dim)


def without_zeros(log: Tensor) -> Tensor:
    """The same with 0 for −∞."""
    return log.masked_fill(log.isneginf(), 0)


def scale(log: Tensor, factor: Tensor) -> Tensor:
    """factor·log, where −∞ stays −∞ and does not contribute to the gradient of the factor (0·∞ would make it NaN)."""
    ruled_out = log.isneginf()
    return (log.masked_fill(ruled_out, 0) * factor).masked_fill(ruled_out, -torch.inf)
