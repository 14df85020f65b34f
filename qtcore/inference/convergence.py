"""Whether the messages of a run have converged, oscillate with some period, or neither yet.

(Whether beliefs are at rest is another question, with a tolerance of its own: `period` in `qtcore.inference.engine.Layer`.)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONVERGED = 1e-6
"""A run has converged when no message changes by more than this in a layer."""
REPEATS = 0.01
"""Tolerance for a cycle: after one period the messages repeat to within this fraction of the residual."""
LONGEST_PERIOD = 12

Floats = NDArray[np.float64]


class Verdict(NamedTuple):
    word: str
    """converged, oscillating or not yet"""
    period: int = 0


def verdict(messages: Floats, residual: Floats) -> Verdict:
    """Classify a run by its last layers.

    Converged: the last layer changed no message by more than 1e-6. Oscillating: for some period p ≥ 2, each of the last p
    layers repeats the one p layers earlier (to 1 % of the residual), and the residual has not fallen by 1 % in p layers.
    """
    last = len(residual) - 1
    if last > 0 and residual[last] < CONVERGED:
        return Verdict("converged")
    for period in range(2, min(LONGEST_PERIOD, last // 2) + 1):
        now, before = slice(last - period + 1, last + 1), slice(last - 2 * period + 1, last - period + 1)
        difference = np.abs(messages[now] - messages[before]).max()
        if difference <= REPEATS * residual[now].max() and residual[now].max() >= 0.99 * residual[before].max():
            return Verdict("oscillating", period)
    return Verdict("not yet")
