"""Damped layers of the RBM and the DBM, and their trace: messages of both directions (csrc/both.c)."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.build import BothTask
from qtcore.kernels.ops.binary import odds_of
from qtcore.kernels.ops.shared import (
    call,
    check_damping,
    check_depth,
    check_reals,
    needs_gradient,
    nothing,
    operator,
    rows,
    second_derivative,
    vectors,
    zeros,
)
from qtcore.kernels.threads import Part, parts_of


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


Inputs = tuple[Tensor, Tensor, Tensor, Tensor, int, float]
"""What all operators here take: the arguments of `binary_damped`, in its order."""


def _check(inputs: Inputs) -> tuple[int, int, int, int]:
    """V, H, B and N."""
    W, bias, hidden_bias, hard, n_layers, damping = inputs
    check_depth(n_layers)
    check_damping(damping)
    if W.dim() != 2 or bias.dim() != 2:
        raise InputError(f"W must have the shape [V, H] and bias [B, V], not {list(W.shape)} and {list(bias.shape)}.")
    (V, H), batch = W.shape, len(bias)
    given = {"bias": (bias, (batch, V)), "hidden_bias": (hidden_bias, (H,)), "hard": (hard, (batch, V))}
    check_reals("W", W=(W, (V, H)), **given)
    return V, H, batch, n_layers


def _states_shape(inputs: Inputs) -> tuple[int, ...]:
    """Messages of both directions after each layer."""
    V, H, batch, n_layers = _check(inputs)
    return batch, n_layers, 2, V, vectors(H)


def _call(kernel: str, inputs: Inputs, parts: Sequence[Part], **results: "Tensor | None") -> None:
    W, *tensors, n_layers, damping = inputs
    task = BothTask(vectors(W.shape[1]), W.shape[1], W.shape[0], n_layers, damping)
    given = {name: tensor.contiguous() for name, tensor in zip(("bias", "hidden_bias", "hard"), tensors, strict=True)}
    call(kernel, task, W.dtype, parts, W=rows(W), odds=odds_of(W)[0], **given, **results)


@operator("qtcore::binary_damped")
def forward(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float, keep: bool
) -> tuple[Tensor, Tensor]:
    inputs = W, bias, hidden_bias, hard, n_layers, damping
    shape = _states_shape(inputs)
    total = torch.empty_like(bias, memory_format=torch.contiguous_format)
    states = buffers.lend(shape, W.dtype) if keep else None
    _call("both_forward", inputs, parts_of(len(bias)), total=total, states=states)
    return total, nothing(W) if states is None else states


@torch.library.register_fake(forward)
def _(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, keep = arguments
    shape = _states_shape(tuple(inputs))
    return torch.empty_like(inputs[1], memory_format=torch.contiguous_format), inputs[0].new_empty(shape if keep else (0,))


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
    inputs = W, bias, hidden_bias, hard, n_layers, damping
    check_reals("W", W=(W, W.shape), states=(states, _states_shape(inputs)), d_total=(d_total, bias.shape))
    (V, H), parts = W.shape, parts_of(len(bias))
    d_bias = d_total.clone(memory_format=torch.contiguous_format)
    shared = [zeros((len(parts), *size, vectors(H)), W.dtype) for size in ((), (V,))]
    results = {"d_bias": d_bias, "d_hidden_bias": shared[0], "d_W": shared[1]}
    _call("both_backward", inputs, parts, states=states.contiguous(), **results)
    d_hidden_bias, d_W = (each[..., :H].sum(0) for each in shared)
    return d_W, d_bias, d_hidden_bias


@torch.library.register_fake(backward)
def _(W: Tensor, bias: Tensor, hidden_bias: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (W, bias, hidden_bias))


@operator("qtcore::binary_trace")
def trace(
    W: Tensor, bias: Tensor, hidden_bias: Tensor, hard: Tensor, n_layers: int, damping: float
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = W, bias, hidden_bias, hard, n_layers, damping
    V, H, batch, _ = _check(inputs)
    visible, residual = W.new_empty(batch, n_layers, V), W.new_empty(batch, n_layers)
    beliefs = buffers.lend((batch, n_layers, vectors(H)), W.dtype)
    _call("both_forward", inputs, parts_of(batch), visible=visible, beliefs=beliefs, residual=residual)
    return visible, beliefs[..., :H].clone(memory_format=torch.contiguous_format), residual


@torch.library.register_fake(trace)
def _(*inputs: Any) -> tuple[Tensor, ...]:
    V, H, batch, n_layers = _check(inputs)
    return tuple(inputs[0].new_empty(batch, n_layers, *size) for size in ((V,), (H,), ()))


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
