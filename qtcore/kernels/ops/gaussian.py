"""Layers of the Gaussian RBM and their trace (csrc/gaussian.c)."""

import functools
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.build import GaussianTask
from qtcore.kernels.ops.shared import (
    call,
    check_depth,
    check_places,
    check_reals,
    needs_gradient,
    nothing,
    operator,
    rows,
    second_derivative,
    vectors,
    zeros,
)
from qtcore.kernels.threads import parts_of


def gaussian_layers(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Linear and precision parts [B, J] of the free pixels' beliefs after N ≥ 1 layers, sequential and without damping, and
    how many cavities were floored [B].

    Args:
        W: weights [V, H].
        hidden_bias: biases of the hidden units plus what the clamped pixels say to them [B, H].
        linear, precision: unaries of the free pixels [B, J].
        index: which pixels are free [B, J]; of each row the first `count` [B] entries are used.
        min_precision: the floor of a cavity's precision.
    """
    keep = needs_gradient(W, hidden_bias, linear, precision)
    return forward(W, hidden_bias, linear, precision, index, count, n_layers, min_precision, keep)[:3]


def gaussian_trace(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """What `gaussian_layers` goes through, to be looked at (it has no gradient): after each of N layers, natural parameters
    of the beliefs [B, N, 2, J], logits of the hidden units [B, N, H], and the largest change of a message to or from these
    pixels [B, N]."""
    inputs = (tensor.detach() for tensor in (W, hidden_bias, linear, precision))
    return trace(*inputs, index, count, n_layers, min_precision)


def _check(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
) -> tuple[int, int, int, int]:
    """V, H, B and J."""
    check_depth(n_layers)
    if not min_precision > 0:
        raise InputError(f"min_precision must be > 0, not {min_precision:g}.")
    check_places(W, index, count)
    (batch, columns), hidden = index.shape, W.shape[-1]
    shape = (W.shape[0], hidden)
    unaries = {"linear": (linear, (batch, columns)), "precision": (precision, (batch, columns))}
    check_reals("W", W=(W, shape), hidden_bias=(hidden_bias, (batch, hidden)), **unaries)
    return *shape, batch, columns


def _kept_shapes(hidden: int, batch: int, columns: int, n_layers: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Logits of the hidden units in each layer, and totals of the beliefs before it."""
    return (batch, n_layers, vectors(hidden)), (batch, n_layers, 2, columns)


@operator("qtcore::gaussian_layers")
def forward(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    V, H, batch, columns = _check(W, hidden_bias, linear, precision, index, count, n_layers, min_precision)
    totals = [tensor.clone(memory_format=torch.contiguous_format) for tensor in (linear, precision)]
    floored = torch.zeros(batch, dtype=torch.int64)
    kept = [zeros(shape, W.dtype) for shape in _kept_shapes(H, batch, columns, n_layers)] if keep else [None, None]
    task = GaussianTask(vectors(H), H, V, columns, n_layers, min_precision)
    call(
        "gaussian_forward",
        task,
        W.dtype,
        parts_of(batch),
        count=count.contiguous(),
        index=index.contiguous(),
        W=rows(W),
        hidden_bias=hidden_bias.contiguous(),
        linear=linear.contiguous(),
        precision=precision.contiguous(),
        total_linear=totals[0],
        total_precision=totals[1],
        beliefs=kept[0],
        totals=kept[1],
        floored=floored,
    )
    beliefs, before = (nothing(W) if tensor is None else tensor for tensor in kept)
    return totals[0], totals[1], floored, beliefs, before


@torch.library.register_fake(forward)
def _(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
    keep: bool,
) -> tuple[Tensor, ...]:
    _, H, batch, columns = _check(W, hidden_bias, linear, precision, index, count, n_layers, min_precision)
    totals = (torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (linear, precision))
    shapes = _kept_shapes(H, batch, columns, n_layers) if keep else ((0,), (0,))
    return *totals, torch.empty_like(count), *(W.new_empty(shape) for shape in shapes)


@operator("qtcore::gaussian_layers_backward")
def backward(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
    beliefs: Tensor,
    totals: Tensor,
    d_linear: Tensor,
    d_precision: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    V, H, batch, columns = _check(W, hidden_bias, linear, precision, index, count, n_layers, min_precision)
    shapes = _kept_shapes(H, batch, columns, n_layers)
    given = {"d_linear": (d_linear, linear.shape), "d_precision": (d_precision, linear.shape)}
    check_reals("W", W=(W, W.shape), beliefs=(beliefs, shapes[0]), totals=(totals, shapes[1]), **given)
    parts, padded = parts_of(batch), vectors(H)
    of_linear, of_precision = (tensor.clone(memory_format=torch.contiguous_format) for tensor in (d_linear, d_precision))
    d_bias = torch.zeros_like(hidden_bias, memory_format=torch.contiguous_format)
    d_W = zeros((len(parts), V, padded), W.dtype)
    task = GaussianTask(padded, H, V, columns, n_layers, min_precision)
    call(
        "gaussian_backward",
        task,
        W.dtype,
        parts,
        count=count.contiguous(),
        index=index.contiguous(),
        W=rows(W),
        beliefs=beliefs.contiguous(),
        totals=totals.contiguous(),
        d_linear=of_linear,
        d_precision=of_precision,
        d_bias=d_bias,
        d_W=d_W,
    )
    return d_W[..., :H].sum(0), d_bias, of_linear, of_precision


@torch.library.register_fake(backward)
def _(W: Tensor, hidden_bias: Tensor, linear: Tensor, precision: Tensor, *_: Any) -> tuple[Tensor, ...]:
    inputs = (W, hidden_bias, linear, precision)
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in inputs)


@operator("qtcore::gaussian_trace")
def trace(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    V, H, batch, columns = _check(W, hidden_bias, linear, precision, index, count, n_layers, min_precision)
    totals, residual = W.new_zeros(batch, n_layers, 2, columns), W.new_empty(batch, n_layers)
    beliefs = buffers.lend((batch, n_layers, vectors(H)), W.dtype)
    task = GaussianTask(vectors(H), H, V, columns, n_layers, min_precision)
    call(
        "gaussian_trace",
        task,
        W.dtype,
        parts_of(batch),
        count=count.contiguous(),
        index=index.contiguous(),
        W=rows(W),
        hidden_bias=hidden_bias.contiguous(),
        linear=linear.contiguous(),
        precision=precision.contiguous(),
        beliefs=beliefs,
        totals=totals,
        residual=residual,
    )
    return totals, beliefs[..., :H].clone(memory_format=torch.contiguous_format), residual


@torch.library.register_fake(trace)
def _(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    n_layers: int,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    _, H, batch, columns = _check(W, hidden_bias, linear, precision, index, count, n_layers, min_precision)
    hidden = W.new_empty(batch, n_layers, H)
    return W.new_empty(batch, n_layers, 2, columns), hidden, W.new_empty(batch, n_layers)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, ctx.min_precision, _ = inputs
    ctx.save_for_backward(*tensors, *output[3:])
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _first(ctx: Any, d_linear: Tensor | None, d_precision: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    *tensors, beliefs, totals = ctx.saved_tensors
    if d_linear is None and d_precision is None:
        return (None,) * 9
    zero = torch.zeros_like(tensors[2])
    given = zero if d_linear is None else d_linear, zero if d_precision is None else d_precision
    settings = ctx.n_layers, ctx.min_precision
    if beliefs.dim() == 1:  # not kept
        *_, beliefs, totals = forward(*(tensor.detach() for tensor in tensors), *settings, True)
    return *backward(*tensors, *settings, beliefs, totals, *given), *(None,) * 5


torch.library.register_autograd(forward, _first, setup_context=_remember)


def _remember_first(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.n_layers, ctx.min_precision, _, _, d_linear, d_precision = inputs
    ctx.save_for_backward(*tensors, d_linear, d_precision)


def _second(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, index, count, d_linear, d_precision = ctx.saved_tensors
    settings = {"n_layers": ctx.n_layers, "min_precision": ctx.min_precision}
    layers = functools.partial(reference.gaussian_layers, index=index, count=count, **settings)
    *d_inputs, of_linear, of_precision = second_derivative(layers, inputs, (d_linear, d_precision), given)
    return *d_inputs, *(None,) * 6, of_linear, of_precision


torch.library.register_autograd(backward, _second, setup_context=_remember_first)
