"""Damped layers of the Gaussian RBM, and their trace (csrc/damped.c)."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.build import DampedTask
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
    """Linear and precision parts [B, V] of the pixels' beliefs after N ≥ 1 damped layers, sequential.

    Args:
        W: weights [V, H].
        hidden_bias: biases of the hidden units [H].
        linear, precision: unaries of the pixels [B, V].
        is_free: 1 where a pixel is free, 0 where it is clamped and receives nothing [B, V].
        damping: the share of the old message in the new one, 0 … 1.
        min_precision: the floor of a cavity's precision.
    """
    keep = needs_gradient(W, hidden_bias, linear, precision)
    return forward(W, hidden_bias, linear, precision, is_free, n_layers, damping, min_precision, keep)[:2]


def gaussian_damped_trace(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    is_free: Tensor,
    n_layers: int,
    damping: float,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """What `gaussian_damped` goes through, to be looked at (it has no gradient): after each of N layers, natural parameters
    of the beliefs [B, N, 2, V], logits of the hidden units [B, N, H], and the largest change of a message [B, N]."""
    tensors = (tensor.detach() for tensor in (W, hidden_bias, linear, precision, is_free))
    return trace(*tensors, n_layers, damping, min_precision)


Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, int, float, float]
"""What all operators here take: the arguments of `gaussian_damped`, in its order."""


def _check(inputs: Inputs) -> tuple[int, int, int, int]:
    """V, H, B and N."""
    W, hidden_bias, linear, precision, is_free, n_layers, damping, min_precision = inputs
    check_depth(n_layers)
    check_damping(damping)
    if not min_precision > 0:
        raise InputError(f"min_precision must be > 0, not {min_precision:g}.")
    if W.dim() != 2 or linear.dim() != 2:
        raise InputError(f"W must have the shape [V, H] and linear [B, V], not {list(W.shape)} and {list(linear.shape)}.")
    (V, H), batch = W.shape, len(linear)
    unaries = {name: (x, (batch, V)) for name, x in (("linear", linear), ("precision", precision), ("is_free", is_free))}
    check_reals("W", W=(W, (V, H)), hidden_bias=(hidden_bias, (H,)), **unaries)
    return V, H, batch, n_layers


def _states_shape(inputs: Inputs) -> tuple[int, ...]:
    """Logits to the hidden units, linear and precision parts to the pixels, after each layer."""
    V, H, batch, n_layers = _check(inputs)
    return batch, n_layers, 3, V, vectors(H)


def _call(kernel: str, inputs: Inputs, parts: Sequence[Part], **results: "Tensor | None") -> None:
    W, *tensors, n_layers, damping, min_precision = inputs
    task = DampedTask(vectors(W.shape[1]), W.shape[1], W.shape[0], n_layers, damping, min_precision)
    names = ("hidden_bias", "linear", "precision", "is_free")
    given = {name: tensor.contiguous() for name, tensor in zip(names, tensors, strict=True)}
    call(kernel, task, W.dtype, parts, W=rows(W), **given, **results)


@operator("qtcore::gaussian_damped")
def forward(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    is_free: Tensor,
    n_layers: int,
    damping: float,
    min_precision: float,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = W, hidden_bias, linear, precision, is_free, n_layers, damping, min_precision
    shape = _states_shape(inputs)
    totals = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (linear, precision)]
    states = buffers.lend(shape, W.dtype) if keep else None
    parts = parts_of(len(linear))
    _call("damped_forward", inputs, parts, total_linear=totals[0], total_precision=totals[1], states=states)
    return totals[0], totals[1], nothing(W) if states is None else states


@torch.library.register_fake(forward)
def _(*arguments: Any) -> tuple[Tensor, ...]:
    *inputs, keep = arguments
    W, _, linear, precision, *_ = inputs
    shape = _states_shape(tuple(inputs))
    totals = (torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (linear, precision))
    return *totals, W.new_empty(shape if keep else (0,))


@operator("qtcore::gaussian_damped_backward")
def backward(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    is_free: Tensor,
    n_layers: int,
    damping: float,
    min_precision: float,
    states: Tensor,
    d_linear: Tensor,
    d_precision: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    inputs = W, hidden_bias, linear, precision, is_free, n_layers, damping, min_precision
    given = {"d_linear": (d_linear, linear.shape), "d_precision": (d_precision, linear.shape)}
    check_reals("W", W=(W, W.shape), states=(states, _states_shape(inputs)), **given)
    (V, H), parts = W.shape, parts_of(len(linear))
    of_linear, of_precision = (tensor.clone(memory_format=torch.contiguous_format) for tensor in (d_linear, d_precision))
    shared = [zeros((len(parts), *size, vectors(H)), W.dtype) for size in ((), (V,))]
    results = {"d_linear": of_linear, "d_precision": of_precision, "d_hidden_bias": shared[0], "d_W": shared[1]}
    _call("damped_backward", inputs, parts, states=states.contiguous(), **results)
    d_hidden_bias, d_W = (each[..., :H].sum(0) for each in shared)
    return d_W, d_hidden_bias, of_linear, of_precision


@torch.library.register_fake(backward)
def _(W: Tensor, hidden_bias: Tensor, linear: Tensor, precision: Tensor, *_: Any) -> tuple[Tensor, ...]:
    inputs = (W, hidden_bias, linear, precision)
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs)


@operator("qtcore::gaussian_damped_trace")
def trace(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    is_free: Tensor,
    n_layers: int,
    damping: float,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = W, hidden_bias, linear, precision, is_free, n_layers, damping, min_precision
    V, H, batch, _ = _check(inputs)
    totals, residual = W.new_empty(batch, n_layers, 2, V), W.new_empty(batch, n_layers)
    beliefs = buffers.lend((batch, n_layers, vectors(H)), W.dtype)
    _call("damped_forward", inputs, parts_of(batch), beliefs=beliefs, totals=totals, residual=residual)
    return totals, beliefs[..., :H].clone(memory_format=torch.contiguous_format), residual


@torch.library.register_fake(trace)
def _(*inputs: Any) -> tuple[Tensor, ...]:
    V, H, batch, n_layers = _check(inputs)
    return tuple(inputs[0].new_empty(batch, n_layers, *size) for size in ((2, V), (H,), ()))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, ctx.damping, ctx.min_precision, _ = inputs
    ctx.save_for_backward(*tensors, output[2])
    ctx.mark_non_differentiable(output[2])
    ctx.set_materialize_grads(False)


def _first(ctx: Any, d_linear: Tensor | None, d_precision: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_linear is None and d_precision is None:
        return (None,) * 9
    *tensors, states = ctx.saved_tensors
    zero = torch.zeros_like(tensors[2])
    given = zero if d_linear is None else d_linear, zero if d_precision is None else d_precision
    settings = ctx.n_layers, ctx.damping, ctx.min_precision
    if states.dim() == 1:  # not kept
        *_, states = forward(*(tensor.detach() for tensor in tensors), *settings, True)
    return *backward(*tensors, *settings, states, *given), *(None,) * 5


torch.library.register_autograd(forward, _first, setup_context=_remember)


def _remember_first(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, ctx.damping, ctx.min_precision, _, d_linear, d_precision = inputs
    ctx.save_for_backward(*tensors, d_linear, d_precision)


def _second(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, is_free, d_linear, d_precision = ctx.saved_tensors
    settings = {"n_layers": ctx.n_layers, "damping": ctx.damping, "min_precision": ctx.min_precision}
    layers = functools.partial(reference.gaussian_damped, is_free=is_free, **settings)
    *d_inputs, of_linear, of_precision = second_derivative(layers, inputs, (d_linear, d_precision), given)
    return *d_inputs, *(None,) * 5, of_linear, of_precision


torch.library.register_autograd(backward, _second, setup_context=_remember_first)
