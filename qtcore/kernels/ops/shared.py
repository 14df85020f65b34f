"""What all operators do: check what they are given, pad it to whole vectors, call a kernel, differentiate twice.

An operator `…_layers` returns its results and, when asked to `keep` them, tensors that `…_layers_backward` needs; the
public functions return the results alone. The backward operators have a derivative too, through `reference`.
"""

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from qtcore.errors import InputError
from qtcore.kernels import buffers, build
from qtcore.kernels.threads import Part, run

LANES = 8
"""Rows of hidden units are padded to a multiple of this, the float lanes of a vector."""

FAULTS = {
    1: "count must lie between 0 and the row length of index.",
    2: "index must name rows of W, but one of its used entries lies outside.",
    4: "places must say where the states of a variable begin, but one of them lies outside.",
    5: "the log-potentials of a table must be finite and lie within a range of 62.",
}
"""What a kernel returns, as in csrc/common.h."""

STOPPED = 3
"""What it returns when it was told to stop."""

LONG = 5 * 10**8
"""Operations of one part of a batch after which Ctrl-C should not have to wait for the rest; see `threads.run`."""


# ---------------------------------------------------------------------------------------------------------------------
# Operators


def operator(name: str) -> Callable[[Callable[..., Any]], OpOverload]:
    """Make a function on tensors of the CPU an operator of torch.

    As torch.library.custom_op does, which would import torch's whole compiler at the first call: two seconds.
    """

    def define(function: Callable[..., Any]) -> OpOverload:
        opaque = functools.cache(lambda: torch.compiler.disable(function))

        def call(*arguments: Any) -> Any:
            return (opaque() if "torch._dynamo" in sys.modules else function)(*arguments)  # the compiler must not look in

        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(name, schema, tags=torch.Tag.pt2_compliant_tag)
        torch.library.impl(name, "cpu", call)
        namespace, _, own = name.partition("::")
        overload: OpOverload = getattr(getattr(torch.ops, namespace), own).default
        return overload

    return define


# ---------------------------------------------------------------------------------------------------------------------
# Checks


def check_reals(like: str, **given: tuple[Tensor, Sequence[int]]) -> None:
    """Refuse tensors of another data type or device than the one named `like`, or of another shape than expected."""
    first = given[like][0]
    if first.dtype not in build.REAL:
        raise InputError(f"{like} must be float32 or float64, not {first.dtype}.")
    for name, (tensor, shape) in given.items():
        if tensor.dtype != first.dtype:
            raise InputError(f"{name} is {tensor.dtype}, but {like} is {first.dtype}; they must be of one data type.")
        _check_place(name, tensor, shape, first)


def check_places(like: Tensor, index: Tensor, count: Tensor) -> None:
    """Refuse `index` [B, J] and `count` [B] that are no whole numbers, or not beside the others."""
    if index.dim() != 2:
        raise InputError(f"index must have the shape [B, J], not {list(index.shape)}.")
    for name, tensor, shape in (("index", index, index.shape), ("count", count, index.shape[:1])):
        if tensor.dtype != torch.int64:
            raise InputError(f"{name} must be int64, not {tensor.dtype}.")
        _check_place(name, tensor, shape, like)


def _check_place(name: str, tensor: Tensor, shape: Sequence[int], like: Tensor) -> None:
    if tensor.device != like.device:
        raise InputError(f"{name} is on {tensor.device}, but the rest is on {like.device}.")
    if tensor.layout != torch.strided:
        raise InputError(f"{name} must be a dense tensor, not {tensor.layout}.")
    if tuple(tensor.shape) != tuple(shape):
        raise InputError(f"{name} must have the shape {list(shape)}, not {list(tensor.shape)}.")


def check_depth(n_layers: int) -> None:
    if n_layers < 1:
        raise InputError(f"the kernels run at least one layer, not {n_layers}.")


def check_depths(depths: Sequence[int]) -> None:
    if not depths or min(depths) < 1 or sorted(set(depths)) != list(depths):
        raise InputError(f"the kernels run at least one layer, and several depths in rising order, not {list(depths)}.")


def check_damping(damping: float) -> None:
    if not 0 <= damping < 1:
        raise InputError(f"damping must lie in [0, 1), not {damping:g}.")


# ---------------------------------------------------------------------------------------------------------------------
# Calls


def needs_gradient(*tensors: Tensor) -> bool:
    """Whether a backward pass may come. (If it comes all the same, it runs the layers again.)"""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def vectors(length: int, lanes: int = LANES) -> int:
    """A length rounded up to whole vectors."""
    return length + -length % lanes


def rows(tensor: Tensor, lanes: int = LANES) -> Tensor:
    """Contiguous, and with the last dimension padded with zeros to whole vectors."""
    width = tensor.shape[-1]
    if width % lanes == 0 and tensor.is_contiguous():
        return tensor
    return copied_rows(tensor, lanes)


def copied_rows(tensor: Tensor, lanes: int = LANES) -> Tensor:
    """Like `rows`, but always a copy."""
    width = tensor.shape[-1]
    padding = -width % lanes
    padded = buffers.lend((*tensor.shape[:-1], width + padding), tensor.dtype)
    padded.narrow(-1, 0, width).copy_(tensor)
    if padding:
        padded.narrow(-1, width, padding).zero_()
    return padded


def zeros(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return buffers.lend(shape, dtype).zero_()


def nothing(like: Tensor) -> Tensor:
    """In the place of what is not kept."""
    return like.new_empty(0)


def call(kernel: str, task: build.Task, dtype: torch.dtype, parts: Sequence[Part], **fields: "Tensor | None") -> None:
    """Run a kernel on all parts of a batch, with these tensors in the task."""
    for name, tensor in fields.items():
        setattr(task, name, None if tensor is None else _address(name, tensor))
    code = build.library(dtype).code
    size = getattr(code, f"{kernel}_scratch")(ctypes.byref(task))
    scratch = buffers.lend((len(parts), size), dtype)
    task.scratch, task.scratch_size, task.stop = scratch.data_ptr(), size, 0
    function: Callable[..., int] = getattr(code, kernel)

    def work(first: int, last: int, thread: int, _memory: Any = (fields, scratch)) -> None:  # outlives whoever works in it
        fault = function(ctypes.byref(task), first, last, thread)
        if fault and fault != STOPPED:
            raise InputError(FAULTS[fault])

    def stop() -> None:
        task.stop = 1

    first, last, _ = parts[0]
    run(parts, work, stop if (last - first) * task.operations() > LONG else None)


def _address(name: str, tensor: Tensor) -> int:
    if not tensor.is_contiguous():
        raise InputError(f"{name} is not contiguous.")
    return tensor.data_ptr()


# ---------------------------------------------------------------------------------------------------------------------
# Derivatives


_vjp: Any = torch.func.vjp  # its type has no room for the two results that it returns


def second_derivative(
    layers: Callable[..., Any], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], given: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Gradients of a gradient: with respect to the inputs of `layers` and to the cotangents with which it was taken, given
    those of its results. By torch.func, so that it can be differentiated in turn."""

    def gradient(*arguments: Tensor) -> tuple[Tensor, ...]:
        where, which = arguments[: len(inputs)], arguments[len(inputs) :]
        output, pull = _vjp(layers, *where)
        gradients: tuple[Tensor, ...] = pull(which if isinstance(output, tuple) else which[0])
        return gradients

    _, pull = _vjp(gradient, *inputs, *cotangents)
    result: tuple[Tensor, ...] = pull(tuple(given))
    return result
