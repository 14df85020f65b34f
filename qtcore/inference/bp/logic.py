"""Messages of logic factors in closed form, with work that is linear in the number of variables of a factor.

The cavity of each variable i is a pair of logs, of p_i = exp(cavity_i(1)) and 1 − p_i, with 1 for their sum (for their maximum
at temperature 0): no answer depends on these constants. With Π, Σ over the variables of a factor other than the receiver j::

    exactly one   m_j(1) = Π (1 − p_i),   m_j(0) = Σ_k p_k Π_{i≠k} (1 − p_i)
    at most one   m_j(1) = Π (1 − p_i),   m_j(0) = that + Σ_k p_k Π_{i≠k} (1 − p_i)
    and           m_y(1) = Π p_i,         m_y(0) = 1 − Π p_i                      for y, the AND of the x_i
                  m_j(1) = q Π p_i + (1 − q) (1 − Π p_i),   m_j(0) = 1 − q        for x_j, with q for y's own cavity
    or            the same for the negations of all variables.

No difference is computed where digits could cancel: 1 − Π_i p_i is the sum over k of (1 − p_k) Π_{i<k} p_i. At temperature 0
maxima take the place of sums. Zeros are counted, not added up, and have a gradient of 0.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from qtcore.support.tensors import log_sum


def messages(rule: str, cavity: Tensor, sums: bool) -> Tensor:
    """What factors with this rule send to the variables of their scopes: logs [order, 2, F, B] from logs [order, 2, F, B]."""
    if rule == "or":
        return messages("and", cavity.flip(1), sums).flip(1)
    off, on = _normalised(cavity, sums).unbind(1)
    if rule == "and":
        return _conjunction(off, on, sums)
    return _one(off, on, sums, rule == "at most one")


def log_z(rule: str, cavity: Tensor) -> Tensor:
    """log Σ of the weights of all states that a rule allows [F, B], from the cavities of its variables [order, 2, F, B]."""
    constants = log_sum(cavity, 1)
    first = messages(rule, cavity, True)[-1] + cavity[-1]  # these leave out the constants of the other variables' cavities
    return log_sum(first, 0) + constants[:-1].sum(0)


def _one(off: Tensor, on: Tensor, sums: bool, or_none: bool) -> Tensor:
    """Exactly one, or at most one. A variable that cannot be 0 has to be the one: with two such, nothing is possible."""
    must = off.isneginf()
    others = must.sum(0) - must.to(torch.int64)  # how many of the others have to be the one
    rest = _product_of_others(off.masked_fill(must, 0))
    share = _sum_of_others((on - off.masked_fill(must, 0)).masked_fill(must, -torch.inf), sums)
    if or_none:
        share = _either(share, torch.zeros_like(share), sums)
    none = rest.masked_fill(others > 0, -torch.inf)
    one = torch.where(others > 0, rest, rest + share).masked_fill(others > 1, -torch.inf)
    return torch.stack([one, none], 1)


def _conjunction(off: Tensor, on: Tensor, sums: bool) -> Tensor:
    (y_off, y_on), off, on = (off[-1], on[-1]), off[:-1], on[:-1]
    running = functools.partial(_sum, sums=sums)
    before, after = _product(on), _back(_product, on)
    not_before = running(before[:-1] + off)  # log(1 − Π p) of all inputs before each one; at last, of all
    not_after = _back(running, after[1:] + off)
    not_all = _either(not_before[:-1], before[:-1] + not_after[1:], sums)
    to_one = _either(y_on + before[:-1] + after[1:], y_off + not_all, sums)
    to_y = torch.stack([not_before[-1], before[-1]])
    return torch.cat([torch.stack([y_off.expand_as(to_one), to_one], 1), to_y[None]])


def _normalised(cavity: Tensor, sums: bool) -> Tensor:
    return cavity.log_softmax(1) if sums else cavity - cavity.amax(1, keepdim=True)


# ---------------------------------------------------------------------- products, as sums of logs with −∞


def _product(logs: Tensor) -> Tensor:
    """Of those before each one, and at last of all: [n, …] gives [n + 1, …]."""
    zero = pad(logs.isneginf().cumsum(0), (0, 0) * (logs.dim() - 1) + (1, 0)) > 0
    finite = logs.masked_fill(logs.isneginf(), 0).cumsum(0)
    return torch.cat([torch.zeros_like(finite[:1]), finite]).masked_fill(zero, -torch.inf)


def _product_of_others(logs: Tensor) -> Tensor:
    return _product(logs)[:-1] + _back(_product, logs)[1:]


def _back(running: Callable[[Tensor], Tensor], logs: Tensor) -> Tensor:
    """The same from the end: of all, then of those after each one."""
    return running(logs.flip(0)).flip(0)


# ---------------------------------------------------------------------- log Σ exp, or the maximum, with −∞


def _floor(logs: Tensor) -> float:
    """Stands for −∞ where that would make a gradient NaN; no log-potential comes near it (see `passing.ROOM`)."""
    return torch.finfo(logs.dtype).min / 4


def _finite(logs: Tensor) -> Tensor:
    return logs.masked_fill(logs.isneginf(), _floor(logs))


def _infinite(logs: Tensor) -> Tensor:
    return logs.masked_fill(logs <= _floor(logs) / 2, -torch.inf)


def _either(one: Tensor, other: Tensor, sums: bool) -> Tensor:
    one, other = _finite(one), _finite(other)
    return _infinite(torch.logaddexp(one, other) if sums else torch.maximum(one, other))


def _sum(logs: Tensor, sums: bool) -> Tensor:
    """Of those before each one, and at last of all: [n, …] gives [n + 1, …]."""
    finite = _finite(logs)
    total = finite.logcumsumexp(0) if sums else finite.cummax(0).values
    return _infinite(torch.cat([torch.full_like(finite[:1], _floor(logs)), total]))


def _sum_of_others(logs: Tensor, sums: bool) -> Tensor:
    running = functools.partial(_sum, sums=sums)
    return _either(running(logs)[:-1], _back(running, logs)[1:], sums)
