"""Layers of the RBM and the DBM (csrc/binary.c)."""

import functools
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.build import BinaryTask
from qtcore.kernels.ops.shared import (
    call,
    check_depth,
    check_places,
    check_reals,
    copied_rows,
    needs_gradient,
    nothing,
    operator,
    second_derivative,
    vectors,
    zeros,
)
from qtcore.kernels.threads import parts_of

LARGEST_WEIGHT = 20.0
"""The kernels multiply up to three odds e^w (in their gradients), and e^60 is what float32 holds with room to spare."""

LARGEST_LOG = 80.0
"""A product of odds may reach e^80 before float32 overflows."""

LARGEST_BLOCK = 64
"""More odds than this are never multiplied before a logarithm is taken: it would save nothing."""


def binary_layers(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, start: Tensor, index: Tensor, count: Tensor, n_layers: int
) -> Tensor:
    """Logits [B, J] of the free variables after N ≥ 1 layers at T = 1, without damping.

    Args:
        W: weights [V, H], none larger in size than `LARGEST_WEIGHT`.
        bias: biases plus soft evidence of the free variables [B, J].
        hidden_bias: biases of the hidden units plus the messages from the clamped variables [B, H].
        start: biases of the hidden units alone [H], their beliefs before the first layer.
        index: which variables are free [B, J]; of each row the first `count` [B] entries are used.
    """
    keep = needs_gradient(W, bias, hidden_bias, start)
    return forward(W, bias, hidden_bias, start, index, count, n_layers, keep)[0]


def _check(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, start: Tensor, index: Tensor, count: Tensor, n_layers: int
) -> tuple[int, int, int, int]:
    """V, H, B and J."""
    check_depth(n_layers)
    check_places(W, index, count)
    (batch, columns), hidden = index.shape, W.shape[-1]
    shape = (W.shape[0], hidden)
    tensors = {"bias": (bias, (batch, columns)), "hidden_bias": (hidden_bias, (batch, hidden)), "start": (start, (hidden,))}
    check_reals("W", W=(W, shape), **tensors)
    return *shape, batch, columns


def odds_of(W: Tensor) -> tuple[Tensor, int]:
    """exp(W), padded, and how many odds may be multiplied."""
    low, high = (float(x) for x in W.aminmax()) if W.numel() else (0.0, 0.0)
    largest = max(-low, high)
    if not largest <= LARGEST_WEIGHT:  # NaN too
        raise InputError(f"the weights must not exceed {LARGEST_WEIGHT:g} in size, but one is {largest:g}.")
    block = max(2, min(LARGEST_BLOCK, int(LARGEST_LOG / max(largest, 1e-6))))
    return copied_rows(W).exp_(), block


def _kept_shapes(hidden: int, batch: int, columns: int, n_layers: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Odds after each layer, and its senders' beliefs."""
    H = vectors(hidden)
    return (batch, n_layers, columns, H), (batch, n_layers, torch.sym_max(H, columns))


@operator("qtcore::binary_layers")
def forward(
    W: Tensor,
    bias: Tensor,
    hidden_bias: Tensor,
    start: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    V, H, batch, columns = _check(W, bias, hidden_bias, start, index, count, n_layers)
    odds, block = odds_of(W)
    total = bias.clone(memory_format=torch.contiguous_format)
    states = beliefs = None
    if keep:  # of the states, rows beyond the free variables are left uninitialised: clearing them costs as much as a layer
        shapes = _kept_shapes(H, batch, columns, n_layers)
        states, beliefs = buffers.lend(shapes[0], W.dtype), zeros(shapes[1], W.dtype)
    task = BinaryTask(vectors(H), H, V, columns, n_layers, block)
    call(
        "binary_forward",
        task,
        W.dtype,
        parts_of(batch),
        count=count.contiguous(),
        index=index.contiguous(),
        odds=odds,
        bias=bias.contiguous(),
        hidden_bias=hidden_bias.contiguous(),
        start=start.contiguous(),
        total=total,
        states=states,
        beliefs=beliefs,
    )
    return (total, nothing(W), nothing(W)) if states is None or beliefs is None else (total, states, beliefs)


@torch.library.register_fake(forward)
def _(
    W: Tensor,
    bias: Tensor,
    hidden_bias: Tensor,
    start: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    keep: bool,
) -> tuple[Tensor, ...]:
    _, H, batch, columns = _check(W, bias, hidden_bias, start, index, count, n_layers)
    shapes = _kept_shapes(H, batch, columns, n_layers) if keep else ((0,), (0,))
    return torch.empty_like(bias, memory_format=torch.contiguous_format), *(W.new_empty(shape) for shape in shapes)


@operator("qtcore::binary_layers_backward")
def backward(
    W: Tensor,
    bias: Tensor,
    hidden_bias: Tensor,
    start: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    states: Tensor,
    beliefs: Tensor,
    d_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    V, H, batch, columns = _check(W, bias, hidden_bias, start, index, count, n_layers)
    shapes = _kept_shapes(H, batch, columns, n_layers)
    check_reals("W", W=(W, W.shape), states=(states, shapes[0]), beliefs=(beliefs, shapes[1]), d_total=(d_total, bias.shape))
    odds, block = odds_of(W)
    parts, padded = parts_of(batch), vectors(H)
    d_bias = d_total.clone(memory_format=torch.contiguous_format)
    d_hidden_bias = torch.zeros_like(hidden_bias, memory_format=torch.contiguous_format)
    d_start, d_W = zeros((len(parts), H), W.dtype), zeros((len(parts), V, padded), W.dtype)
    task = BinaryTask(padded, H, V, columns, n_layers, block)
    call(
        "binary_backward",
        task,
        W.dtype,
        parts,
        count=count.contiguous(),
        index=index.contiguous(),
        odds=odds,
        states=states.contiguous(),
        beliefs=beliefs.contiguous(),
        d_bias=d_bias,
        d_hidden_bias=d_hidden_bias,
        d_start=d_start,
        d_W=d_W,
    )
    return d_W[..., :H].sum(0), d_bias, d_hidden_bias, d_start.sum(0)


@torch.library.register_fake(backward)
def _(W: Tensor, bias: Tensor, hidden_bias: Tensor, start: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (W, bias, hidden_bias, start))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, _ = inputs
    ctx.save_for_backward(*tensors, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _first(ctx: Any, d_total: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_total is None:
        return (None,) * 8
    *tensors, states, beliefs = ctx.saved_tensors
    if states.dim() == 1:  # not kept
        _, states, beliefs = forward(*(tensor.detach() for tensor in tensors), ctx.n_layers, True)
    return *backward(*tensors, ctx.n_layers, states, beliefs, d_total), *(None,) * 4


torch.library.register_autograd(forward, _first, setup_context=_remember)


def _remember_first(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, _, _, d_total = inputs
    ctx.save_for_backward(*tensors, d_total)


def _second(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, index, count, d_total = ctx.saved_tensors
    layers = functools.partial(reference.binary_layers, index=index, count=count, n_layers=ctx.n_layers)
    *d_inputs, d_cotangent = second_derivative(layers, inputs, (d_total,), given)
    return *d_inputs, *(None,) * 5, d_cotangent


torch.library.register_autograd(backward, _second, setup_context=_remember_first)
