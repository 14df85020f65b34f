"""Belief propagation between binary variables, messages as logits (supplement, "Restricted Boltzmann machine").

A pairwise factor scores 0 for agreement and −w for disagreement. All functions here run at temperature 1 or at
temperature 0; any other T is a change of units (see `RBM`): f_w(x; T) = T·f_{w/T}(x/T; 1).
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from qtcore.bp import native
from qtcore.bp.compact import compact
from qtcore.bp.compiled import compiled as torch_compiled

HARD_LOGIT = 1000.0
"""The logit shown for a variable that was seen for certain (the paper clips there). The messages do not use it:
what leaves such a variable is exactly ±w, however large the weights are."""


LARGEST_COMPILED_WEIGHT = 20.0
"""Machine code multiplies up to three odds e^w (in its gradients), and e^60 is what float32 holds with room to spare."""


class Evidence(NamedTuple):
    """Unary terms of the visible variables: `soft` logits [B, V], and `hard` ∈ {−1, 0, +1} [B, V] where a value is certain."""

    soft: Tensor
    hard: Tensor


class Messages(NamedTuple):
    """M_HV, from visible to hidden, and M_VH, from hidden to visible; both stored as [B, H, V]."""

    to_hidden: Tensor
    to_visible: Tensor


def evidence(values: Tensor, weight: Tensor) -> Evidence:
    """u_V: logit of φ(1) = w·v + (1−w)/2, and 0 where nothing is observed, whatever the value there."""
    values = torch.where(weight > 0, values, 0.5)
    one = weight * values + (1 - weight) / 2
    zero = weight * (1 - values) + (1 - weight) / 2
    hard = (zero == 0).to(one.dtype) - (one == 0).to(one.dtype)
    uncertain = hard == 0
    soft = torch.where(uncertain, one, 0.5).log() - torch.where(uncertain, zero, 0.5).log()
    return Evidence(soft.clamp(-HARD_LOGIT, HARD_LOGIT), hard)


class _SumProduct(torch.autograd.Function):
    """f_w(x) with the gradient in closed form: exact at the kinks where the robust form's pieces meet."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return max_product(x, w) + softplus(-(x + w).abs()) - softplus(-(x - w).abs())

    @staticmethod
    @once_differentiable
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors  # type: ignore[attr-defined]
        both, apart = torch.sigmoid(x + w), torch.sigmoid(x - w)
        d_x = gradient * (both - apart)
        d_w = gradient * (both + apart - 1)
        return d_x.sum_to_size(x.shape), d_w.sum_to_size(w.shape)


def sum_product(x: Tensor, w: Tensor) -> Tensor:
    """f_w(x) at T = 1: log(1 + e^{x+w}) − log(e^w + e^x), in the supplement's numerically robust form."""
    return _SumProduct.apply(x, w)


def max_product(x: Tensor, w: Tensor) -> Tensor:
    """f_w(x) at T = 0: sign(w)·x truncated to ±|w|."""
    size = w.abs()
    return torch.sign(w) * torch.minimum(torch.maximum(x, -size), size)


def transfer(x: Tensor, w: Tensor, T: float = 1.0) -> Tensor:
    """f_w(x; T), the supplement's figure of the transfer function, for looking at and for teaching.

    Example:
        >>> import torch
        >>> from qtcore.bp.binary import transfer
        >>> x, w = torch.tensor([-1000.0, 0.0, 1.0, 1000.0]), torch.tensor(3.0)
        >>> transfer(x, w, T=0.0)  # max-product
        tensor([-3.,  0.,  1.,  3.])
        >>> transfer(x, w, T=1.0)  # sum-product
        tensor([-3.0000,  0.0000,  0.8912,  3.0000])
    """
    return max_product(x, w) if T == 0 else T * sum_product(x / T, w / T)


def initial(batch: int, W: Tensor) -> Messages:
    """All messages start at 0."""
    zeros = W.new_zeros(batch, *W.shape)
    return Messages(zeros, zeros)


def layer(
    messages: Messages, W: Tensor, c_v: Tensor, c_h: Tensor, given: Evidence, damping: float = 0.0, sums: bool = True
) -> Messages:
    """One parallel update of all messages, both from the layer before (supplement, "BP summary").

    `sums` chooses sum-product (T = 1) or max-product (T = 0).
    """
    f = sum_product if sums else max_product
    to_hidden, to_visible = messages
    visible, hidden = beliefs(messages, c_v, c_h, given)
    new_to_hidden = f(visible[:, None, :] - to_visible, W.expand_as(to_visible))
    hard = given.hard[:, None, :]
    new_to_hidden = torch.where(hard != 0, hard * W, new_to_hidden)
    new_to_visible = f(hidden[:, :, None] - to_hidden, W.expand_as(to_hidden))
    if damping:
        new_to_hidden = torch.lerp(new_to_hidden, to_hidden, damping)
        new_to_visible = torch.lerp(new_to_visible, to_visible, damping)
    return Messages(new_to_hidden, new_to_visible)


def beliefs(messages: Messages, c_v: Tensor, c_h: Tensor, given: Evidence) -> tuple[Tensor, Tensor]:
    """Logits of visible [B, V] and hidden [B, H], without the ±1000 of hard evidence (`show` adds it)."""
    return given.soft + c_v + messages.to_visible.sum(1), c_h + messages.to_hidden.sum(2)


def show(logits: Tensor, given: Evidence) -> Tensor:
    """Visible logits as they are reported: ±1000 where a value is certain."""
    return torch.where(given.hard != 0, HARD_LOGIT * given.hard, logits)


def visible_beliefs(W: Tensor, c_v: Tensor, c_h: Tensor, given: Evidence, n_layers: int, compiled: bool = False) -> Tensor:
    """Logits of the visible variables [B, V] after N layers at T = 1 without damping, and no more work than they need.

    What is left out is dead: messages into a certain variable are never read, those out of it are the constants ±w; and
    on a bipartite graph with a parallel schedule the result needs M_VH(N), M_HV(N−1), M_VH(N−2), … alone, that is one
    direction in each layer. `compiled` uses machine code where it can.
    """
    places = compact(given.hard == 0)
    alone = given.soft + c_v
    bias, hidden_bias = places.gather(alone), c_h + given.hard @ W.T
    if n_layers == 0 or bias.shape[1] == 0:
        return alone
    if compiled and native.can(W) and float(W.detach().abs().max()) <= LARGEST_COMPILED_WEIGHT:
        rows = native.pad(W.T), bias.contiguous(), native.pad(hidden_bias), native.pad(c_h)
        belief = native.BinaryLayers.apply(*rows, places.index, places.count, n_layers)
        return places.put(alone, belief)
    weights = places.columns(W)
    message = torch.zeros_like(weights)
    belief = bias if n_layers % 2 == 0 else c_h.expand_as(hidden_bias)
    half = torch_compiled(half_layer) if compiled else half_layer
    for left in range(n_layers, 0, -1):  # an odd number of layers to go: to the visible variables
        message, belief = half(message, belief, weights, *((bias, 1) if left % 2 else (hidden_bias, 2)))
    return places.put(alone, belief)


def half_layer(message: Tensor, sender: Tensor, W: Tensor, bias: Tensor, over: int) -> tuple[Tensor, Tensor]:
    """New messages [B, H, J] from the senders' beliefs, and the receivers' beliefs: their bias plus the sum over dimension
    `over` (1, the hidden units, when they send to the visible variables; 2 the other way)."""
    message = sum_product(sender.unsqueeze(3 - over) - message, W)
    return message, bias + message.sum(over)


def residual(new: Messages, old: Messages) -> Tensor:
    """The largest change of a message, per sample [B]."""
    return torch.maximum((new[0] - old[0]).abs().amax((1, 2)), (new[1] - old[1]).abs().amax((1, 2)))
