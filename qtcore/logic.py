"""Logic factors on binary variables: which joint states each rule allows. The others have probability 0.

"and", "or": the last variable of a scope is the AND, or the OR, of the others. "at most one", "exactly one": so many of the
variables of a scope are 1.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from qtcore.errors import InputError

RULES = ("and", "or", "at most one", "exactly one")

MAX_ORDER = 22
"""Variables of a table that is written out: 32 MB of float64."""


def allowed(rule: str, states: Sequence[Sequence[int]]) -> Tensor:
    """Whether a rule allows each joint state, where each variable may be in some states only: [2, …, 2], with an axis for
    every variable that may be in both."""
    free = [i for i, possible in enumerate(states) if len(possible) > 1]
    terms = []
    for i, possible in enumerate(states):
        state = torch.tensor(possible, dtype=torch.int64)
        terms.append(state.view([2 if i == j else 1 for j in free]) if len(possible) > 1 else state.view([1] * len(free)))
    last = terms.pop() == 1 if rule in ("and", "or") else None
    ones = torch.zeros([1] * len(free), dtype=torch.int64)
    for term in terms:
        ones = ones + term
    if last is None:
        result = ones == 1 if rule == "exactly one" else ones <= 1
    else:
        result = (ones == len(terms) if rule == "and" else ones >= 1) == last
    return result.expand([2] * len(free))


def table(rule: str, order: int) -> Tensor:
    """The log-potentials of a rule [2, …, 2]: 0 where it allows a state, −∞ elsewhere."""
    if order > MAX_ORDER:
        raise InputError(
            f"the rule {rule!r} on {order} variables has a table of 2^{order} entries; at most {MAX_ORDER} variables are "
            f"written out. Belief propagation needs no table of it."
        )
    which = allowed(rule, [(0, 1)] * order)
    return torch.zeros(which.shape, dtype=torch.float64).masked_fill(~which, -torch.inf)
