"""Every operator once more in plain torch: the same function of the same tensors, slow and differentiable any number of times.

Second derivatives go through here (the kernels' own backward passes give first derivatives only), and the tests hold the
kernels equal to it. Entries beyond a sample's `count` stay as they came.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1), (1, -1), (-1, 1))
"""Rows down and columns right to the neighbour from which message d comes; the reverse of direction d is d ^ 1."""


def _weights(W: Tensor, index: Tensor, count: Tensor) -> Tensor:
    """The weights of the free variables [B, J, H], 0 for padding (such a variable says nothing)."""
    used = torch.arange(index.shape[1], device=index.device) < count[:, None]
    return W[torch.where(used, index, 0)] * used[..., None]


def binary_layers(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, start: Tensor, index: Tensor, count: Tensor, n_layers: int
) -> Tensor:
    """Messages [B, J, H] as logits, in each layer of the direction that the end depends on."""
    weights = _weights(W, index, count)
    message = torch.zeros_like(weights)
    belief = bias if n_layers % 2 == 0 else start.expand_as(hidden_bias)
    for left in range(n_layers, 0, -1):  # an odd number of layers to go: to the visible variables
        cavity = belief.unsqueeze(1 if left % 2 else 2) - message
        message = torch.logaddexp(torch.zeros_like(cavity), cavity + weights) - torch.logaddexp(cavity, weights)
        belief = bias + message.sum(2) if left % 2 else hidden_bias + message.sum(1)
    return belief


def binary_damped(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float = 0.0
) -> Tensor:
    """Messages [B, V, H] of both directions as logits; a clamped variable (`hard` is ±1) sends ±w."""
    to_hidden = to_visible = torch.zeros_like(W).expand(len(bias), *W.shape)
    clamped = hard[..., None]
    for _ in range(n_layers):
        up = (bias + to_visible.sum(2)).unsqueeze(2) - to_visible
        down = (hidden_bias + to_hidden.sum(1)).unsqueeze(1) - to_hidden
        sent, returned = (
            torch.logaddexp(torch.zeros_like(x), x + W) - torch.logaddexp(x, W.expand_as(x)) for x in (up, down)
        )
        sent = torch.where(clamped != 0, clamped * W, sent)
        to_hidden = (1 - damping) * sent + damping * to_hidden
        to_visible = (1 - damping) * returned + damping * to_visible
    return bias + to_visible.sum(2)


def gaussian_layers(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
) -> tuple[Tensor, Tensor]:
    """Linear and precision parts of the beliefs; messages [B, J, H] to the pixels start at (0, 1)."""
    w = _weights(W, index, count)
    to_linear, to_precision = torch.zeros_like(w), torch.ones_like(w)
    total_linear, total_precision = linear, precision + W.shape[1]
    for _ in range(n_layers):
        l = total_linear[..., None] - to_linear
        r = (total_precision[..., None] - to_precision).clamp_min(min_precision)
        logit = hidden_bias + (w * (l + w / 2) / r).sum(1)
        p, q = torch.sigmoid(logit)[:, None, :], torch.sigmoid(-logit)[:, None, :]
        k = p * q * w**2
        to_linear, to_precision = p * w * (r - q * w * l) / (r + k), -k * r / (r + k)
        total_linear, total_precision = linear + to_linear.sum(2), precision + to_precision.sum(2)
    return total_linear, total_precision


def gaussian_damped(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    is_free: Tensor,
    n_layers: int,
    damping: float,
    min_precision: float,
) -> tuple[Tensor, Tensor]:
    """The same with damping, for all pixels [B, V]; a clamped one (`is_free` is 0) receives nothing."""
    free = is_free[..., None]
    up = to_linear = torch.zeros_like(W).expand(len(linear), *W.shape)
    to_precision = free.expand_as(up)
    total_linear, total_precision = linear, precision + to_precision.sum(2)
    for _ in range(n_layers):
        l = total_linear[..., None] - to_linear
        r = (total_precision[..., None] - to_precision).clamp_min(min_precision)
        fresh = W * (l + W / 2) / r
        up = (1 - damping) * fresh + damping * up
        logit = (hidden_bias + up.sum(1))[:, None, :] - up + fresh
        p, q = torch.sigmoid(logit), torch.sigmoid(-logit)
        k = p * q * W**2
        to_linear = (1 - damping) * free * p * W * (r - q * W * l) / (r + k) + damping * to_linear
        to_precision = -(1 - damping) * free * k * r / (r + k) + damping * to_precision
        total_linear, total_precision = linear + to_linear.sum(2), precision + to_precision.sum(2)
    return total_linear, total_precision


def grid_layers(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], n_layers: int, damping: float = 0.0
) -> Tensor:
    return grid_depths(table, evidence, own, clones, [n_layers], damping)[:, 0]


def grid_depths(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], depths: Sequence[int], damping: float = 0.0
) -> Tensor:
    """Log-messages [B, height, width, S] from each of the 8 directions, scaled to an average of 1."""
    states = table.shape[1]
    label = torch.tensor([l for l, number in enumerate(clones) for _ in range(number)], device=table.device)
    given = evidence.log()[..., label]
    messages = [torch.zeros_like(given) for _ in DIRECTIONS]
    beliefs = []
    for layer in range(1, max(depths) + 1):
        total = given + sum(messages)
        sent = []
        for d in range(len(DIRECTIONS)):
            cavity = total - messages[d ^ 1]
            top = cavity.amax(-1, keepdim=True).detach()
            product = (cavity - top).exp() @ table[d]
            new = _arrive((product * (states / product.sum(-1, keepdim=True))).log(), d)
            sent.append((1 - damping) * new + damping * messages[d])
        messages = sent
        if layer in depths:
            belief = sum(messages, torch.zeros_like(given))
            labels = [part.logsumexp(-1) for part in belief.split(list(clones), -1)]
            beliefs.append(torch.stack(labels, -1) + own.log())
    return torch.stack(beliefs, 1)


def _arrive(sent: Tensor, d: int) -> Tensor:
    """Move what every pixel sends to the pixel where it arrives from direction d; nothing comes from outside the grid."""
    down, right = DIRECTIONS[d]
    height, width = sent.shape[1:3]
    inner = sent[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)]
    padding = (0, 0, max(-right, 0), max(right, 0), max(-down, 0), max(down, 0))
    return torch.nn.functional.pad(inner, padding)


def factor_layers(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], n_layers: int, damping: float = 0.0
) -> Tensor:
    return factor_depths(tables, alone, places, groups, [n_layers], damping)[:, 0]


def factor_depths(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], depths: Sequence[int], damping: float = 0.0
) -> Tensor:
    """Log-messages [B, F, S] from the factors of each group to the variables on each axis, scaled to an average of 1."""
    factors = list(_factors(tables, places, groups))
    messages = [[alone.new_zeros(len(alone), *entry.shape) for entry in entries] for _, entries in factors]
    sums, results = torch.zeros_like(alone), []
    for layer in range(1, max(depths) + 1):
        belief, sums = alone + sums, torch.zeros_like(alone)
        for (table, entries), old in zip(factors, messages, strict=True):
            cavity = [belief[:, entry] - message for entry, message in zip(entries, old, strict=True)]
            incoming = [(each - each.amax(-1, keepdim=True).detach()).exp() for each in cavity]
            for axis, entry in enumerate(entries):
                product = table[None]
                for other, x in enumerate(incoming):
                    if other != axis:
                        product = product * x.reshape(*x.shape[:2], *(-1 if a == other else 1 for a in range(len(entries))))
                rest = [2 + other for other in range(len(entries)) if other != axis]
                sent = product.sum(rest).expand_as(old[axis])
                new = (sent / sent.mean(-1, keepdim=True)).log()
                old[axis] = (1 - damping) * new + damping * old[axis]
                sums = sums.index_add(1, entry.flatten(), old[axis].flatten(1))
        if layer in depths:
            results.append(sums)
    return torch.stack(results, 1)


def _factors(tables: Tensor, places: Tensor, groups: Sequence[int]) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """The tables of each group as numbers [F or 1, *shape], and the states that each axis is about [F, S]."""
    numbers, read, placed = list(groups), 0, 0
    while numbers:
        order, count, own, *shape = numbers[: 3 + numbers[0]]
        numbers = numbers[3 + order :]
        size = (count if own else 1) * math.prod(shape)
        where = places[placed : placed + order * count].view(order, count, 1)
        entries = [start + torch.arange(states, device=where.device) for start, states in zip(where, shape, strict=True)]
        log = tables[read : read + size].view(-1, math.prod(shape))
        yield (log - log.amax(1, keepdim=True).detach()).exp().view(-1, *shape), entries
        read, placed = read + size, placed + order * count
