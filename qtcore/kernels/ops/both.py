"""Damped layers of the RBM and the DBM, and their trace: messages of both directions (csrc/both.c)."""

import functools
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.build import BothTask
from qtcore.kernels.ops.binary import LARGEST_WEIGHT
from qtcore.kernels.ops.shared import (
    call,
    check_depth,
    check_reals,
    copied_rows,
    needs_gradient,
    nothing,
    operator,
    rows,
    second_derivative,
    vectors,
    zeros,
)
from qtcore.kernels.threads import parts_of


def binary_damped(W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float) -> Tensor:
    """Logits [B, V] of the visible variables after N ≥ 1 damped layers at T = 1 (of clamped ones without their evidence).

    Args:
        W: weights [V, H], none larger in size than `LARGEST_WEIGHT`.
        bias: biases plus soft evidence of the visible variables [B, V].
        hidden_bias: biases of the hidden units [H].
        hard: 1 or −1 where a variable is clamped to 1 or 0, else 0 [B, V].
        damping: the share of the old message in the new one, 0 … 1.
    """
    keep = needs_gradient(W, bias, hidden_bias)
    return forward(W, bias, hidden_bias, hard, n_layers, damping, keep)[0]


def binary_trace(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What `binary_damped` goes through (also with damping 0), to be looked at (it has no gradient): after each of N layers,
    logits of the visible variables [B, N, V] and of the hidden units [B, N, H], and the largest change of a message [B, N]."""
    return trace(*(tensor.detach() for tensor in (W, bias, hidden_bias, hard)), n_layers, damping)


def _check(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float
) -> tuple[int, int, int]:
    """V, H and B."""
    check_depth(n_layers)
    if not 0 <= damping < 1:
        raise InputError(f"damping must be between 0 and 1 (excluded), not {damping:g}.")
    if W.dim() != 2 or bias.dim() != 2:
        raise InputError(f"W must have the shape [V, H] and bias [B, V], not {list(W.shape)} and {list(bias.shape)}.")
    (V, H), batch = W.shape, len(bias)
    given = {"bias": (bias, (batch, V)), "hidden_bias": (hidden_bias, (H,)), "hard": (hard, (batch, V))}
    check_reals("W", W=(W, (V, H)), **given)
    return V, H, batch


def _odds(W: Tensor) -> Tensor:
    """exp(W), padded."""
    largest = float(W.abs().max()) if W.numel() else 0.0
    if not largest <= LARGEST_WEIGHT:  # NaN too
        raise InputError(f"the weights must not exceed {LARGEST_WEIGHT:g} in size, but one is {largest:g}.")
    return copied_rows(W).exp_()


def _states_shape(V: int, H: int, batch: int, n_layers: int) -> tuple[int, ...]:
    """Messages of both directions after each layer."""
    return batch, n_layers, 2, V, vectors(H)


@operator("qtcore::binary_damped")
def forward(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float, keep: bool
) -> tuple[Tensor, Tensor]:
    V, H, batch = _check(W, bias, hidden_bias, hard, n_layers, damping)
    total = torch.empty_like(bias, memory_format=torch.contiguous_format)
    states = buffers.lend(_states_shape(V, H, batch, n_layers), W.dtype) if keep else None
    call(
        "both_forward",
        BothTask(vectors(H), H, V, n_layers, damping),
        W.dtype,
        parts_of(batch),
        W=rows(W),
        odds=_odds(W),
        bias=bias.contiguous(),
        hard=hard.contiguous(),
        hidden_bias=hidden_bias.contiguous(),
        total=total,
        states=states,
    )
    return total, nothing(W) if states is None else states


@torch.library.register_fake(forward)
def _(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float, keep: bool
) -> tuple[Tensor, ...]:
    V, H, batch = _check(W, bias, hidden_bias, hard, n_layers, damping)
    shape = _states_shape(V, H, batch, n_layers) if keep else (0,)
    return torch.empty_like(bias, memory_format=torch.contiguous_format), W.new_empty(shape)


@operator("qtcore::binary_damped_backward")
def backward(
    W: Tensor,
    bias: Tensor,
    hidden_bias: Tensor,
    hard: Tensor,
    n_layers: int,
    damping: float,
    states: Tensor,
    d_total: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    V, H, batch = _check(W, bias, hidden_bias, hard, n_layers, damping)
    kept = {"states": (states, _states_shape(V, H, batch, n_layers)), "d_total": (d_total, bias.shape)}
    check_reals("W", W=(W, W.shape), **kept)
    parts, padded = parts_of(batch), vectors(H)
    d_bias = d_total.clone(memory_format=torch.contiguous_format)
    d_hidden_bias, d_W = zeros((len(parts), padded), W.dtype), zeros((len(parts), V, padded), W.dtype)
    call(
        "both_backward",
        BothTask(padded, H, V, n_layers, damping),
        W.dtype,
        parts,
        W=rows(W),
        odds=_odds(W),
        bias=bias.contiguous(),
        hard=hard.contiguous(),
        hidden_bias=hidden_bias.contiguous(),
        states=states.contiguous(),
        d_bias=d_bias,
        d_hidden_bias=d_hidden_bias,
        d_W=d_W,
    )
    return d_W[..., :H].sum(0), d_bias, d_hidden_bias[:, :H].sum(0)


@torch.library.register_fake(backward)
def _(W: Tensor, bias: Tensor, hidden_bias: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (W, bias, hidden_bias))


@operator("qtcore::binary_trace")
def trace(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float
) -> tuple[Tensor, Tensor, Tensor]:
    V, H, batch = _check(W, bias, hidden_bias, hard, n_layers, damping)
    visible, residual = W.new_empty(batch, n_layers, V), W.new_empty(batch, n_layers)
    beliefs = buffers.lend((batch, n_layers, vectors(H)), W.dtype)
    call(
        "both_forward",
        BothTask(vectors(H), H, V, n_layers, damping),
        W.dtype,
        parts_of(batch),
        W=rows(W),
        odds=_odds(W),
        bias=bias.contiguous(),
        hard=hard.contiguous(),
        hidden_bias=hidden_bias.contiguous(),
        visible=visible,
        beliefs=beliefs,
        residual=residual,
    )
    return visible, beliefs[..., :H].clone(memory_format=torch.contiguous_format), residual


@torch.library.register_fake(trace)
def _(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float
) -> tuple[Tensor, ...]:
    V, H, batch = _check(W, bias, hidden_bias, hard, n_layers, damping)
    return tuple(W.new_empty(batch, n_layers, *size) for size in ((V,), (H,), ()))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, ctx.damping, _ = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _first(ctx: Any, d_total: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_total is None:
        return (None,) * 7
    *tensors, states = ctx.saved_tensors
    settings = ctx.n_layers, ctx.damping
    if states.dim() == 1:  # not kept
        _, states = forward(*(tensor.detach() for tensor in tensors), *settings, True)
    return *backward(*tensors, *settings, states, d_total), *(None,) * 4


torch.library.register_autograd(forward, _first, setup_context=_remember)


def _remember_first(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, ctx.damping, _, d_total = inputs
    ctx.save_for_backward(*tensors, d_total)


def _second(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, hard, d_total = ctx.saved_tensors
    layers = functools.partial(reference.binary_damped, hard=hard, n_layers=ctx.n_layers, damping=ctx.damping)
    *d_inputs, d_cotangent = second_derivative(layers, inputs, (d_total,), given)
    return *d_inputs, *(None,) * 4, d_cotangent


torch.library.register_autograd(backward, _second, setup_context=_remember_first)
