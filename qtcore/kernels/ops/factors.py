"""Layers of any factor graph with mild tables (csrc/factors.c)."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.build import FactorsTask
from qtcore.kernels.ops.shared import (
    call,
    check_damping,
    check_depth,
    check_depths,
    check_reals,
    needs_gradient,
    nothing,
    operator,
    second_derivative,
    zeros,
)
from qtcore.kernels.threads import parts_of

VECTOR_BYTES = 32
"""So many bytes of factors are handled at once, as in csrc/matmul.h."""

MAX_ORDER = 8
"""The largest number of variables of a factor, as in csrc/factors.c."""

MAX_ENTRIES = 2**12
"""The largest table: those of a chunk of factors should stay in the cache."""


@dataclass(frozen=True)
class Group:
    """Factors of one shape."""

    shape: tuple[int, ...]
    count: int
    own: bool
    """Whether each has its own table; else all share one."""

    @property
    def entries(self) -> int:
        return math.prod(self.shape)

    @property
    def tables(self) -> int:
        return self.count if self.own else 1

    def chunks(self, lanes: int) -> int:
        return -(-self.count // lanes)


def described(shapes: Sequence[Sequence[int]], counts: Sequence[int], own: Sequence[bool]) -> list[int]:
    """Groups of factors as whole numbers, as the operators take them: of each its order, its number of factors, whether each
    has its own table, and the numbers of states."""
    groups = zip(shapes, counts, own, strict=True)
    return [number for shape, count, each in groups for number in (len(shape), count, int(each), *shape)]


def read_groups(numbers: Sequence[int]) -> list[Group]:
    """The inverse of `described`."""
    groups, rest = [], list(numbers)
    while rest:
        if len(rest) < 3 or not 2 <= rest[0] <= MAX_ORDER or len(rest) < 3 + rest[0] or rest[2] not in (0, 1):
            raise InputError(f"groups must give order (2 … {MAX_ORDER}), count, own (0 or 1) and shape, not {rest[:9]}.")
        order, count, own = rest[:3]
        group = Group(tuple(rest[3 : 3 + order]), count, bool(own))
        if count < 1 or min(group.shape) < 1 or group.entries > MAX_ENTRIES:
            shape = list(group.shape)
            raise InputError(f"a group has factors, with tables of 1 to {MAX_ENTRIES} entries, not {count} of shape {shape}.")
        groups.append(group)
        rest = rest[3 + order :]
    return groups


def fits(shapes: Sequence[Sequence[int]]) -> bool:
    """Whether the kernel takes factors of these shapes."""
    return all(2 <= len(shape) <= MAX_ORDER and math.prod(shape) <= MAX_ENTRIES for shape in shapes)


def factor_layers(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], n_layers: int, damping: float = 0.0
) -> Tensor:
    """Sums of all log-messages to each state of each variable [B, total] after N ≥ 1 layers at T = 1, each message up to a
    constant.

    Args:
        tables: log-potentials, table after table, group after group, flat; each within a range of 60.
        alone: unaries plus evidence of all states of all variables [B, total], −∞ for what is ruled out.
        places: where the states of each factor's variables begin among these: for each group [order, count], flat, int32.
        groups: see `described`.
        damping: weight of the old log-message in the new one.
    """
    return factor_depths(tables, alone, places, groups, [n_layers], damping)[:, 0]


def factor_depths(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], depths: Sequence[int], damping: float = 0.0
) -> Tensor:
    """The same after each of several numbers of layers, in rising order [B, D, total]."""
    keep = needs_gradient(tables, alone)
    return forward(tables, alone, places, list(groups), list(depths), float(damping), keep)[0]


def factor_trace(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], n_layers: int, damping: float = 0.0
) -> tuple[Tensor, Tensor]:
    """All layers for display, without gradients: sums as above [B, N, total], and the largest change of a message in
    log-odds [B, N]."""
    return trace(tables.detach(), alone.detach(), places, list(groups), n_layers, float(damping))


Inputs = tuple[Tensor, Tensor, Tensor, Sequence[int]]


def _check(inputs: Inputs, damping: float) -> list[Group]:
    tables, alone, places, numbers = inputs
    check_damping(damping)
    groups = read_groups(numbers)
    if alone.dim() != 2:
        raise InputError(f"alone must have the shape [B, total], not {list(alone.shape)}.")
    if alone.shape[1] < max((max(group.shape) for group in groups), default=0) or alone.shape[1] >= 2**31:
        raise InputError(f"alone has {alone.shape[1]} states in all, too few for these factors or too many.")
    size = sum(group.tables * group.entries for group in groups)
    check_reals("tables", tables=(tables, (size,)), alone=(alone, alone.shape))
    wanted = (sum(group.count * len(group.shape) for group in groups),)
    if places.dtype != torch.int32 or places.device != tables.device or tuple(places.shape) != wanted:
        raise InputError(f"places must be int32 of the shape {list(wanted)}, beside the rest.")
    return groups


def _check_values(alone: Tensor) -> None:
    if alone.numel() and not float(alone.amax()) < float("inf"):
        raise InputError("alone must be finite, or −∞ for what is ruled out.")


def _lanes(dtype: torch.dtype) -> int:
    return VECTOR_BYTES // dtype.itemsize


def _messages(groups: Sequence[Group], lanes: int) -> int:
    """Numbers in a chunk layout of all messages."""
    return sum(group.chunks(lanes) * lanes * sum(group.shape) for group in groups)


def _sizes(groups: Sequence[Group], lanes: int) -> list[int]:
    """Numbers in a chunk layout of each group's tables."""
    return [(group.chunks(lanes) if group.own else 1) * lanes * group.entries for group in groups]


def _out_of_chunks(chunked: Tensor, groups: Sequence[Group], lanes: int) -> Tensor:
    """Tables, from the chunks of them; those of a shared one are added up."""
    parts = []
    for group, part in zip(groups, chunked.split(_sizes(groups, lanes)), strict=True):
        rows = part.view(-1, group.entries, lanes)
        rows = rows.transpose(1, 2).reshape(-1, group.entries)[: group.count] if group.own else rows.sum(2)
        parts.append(rows.flatten())
    return torch.cat(parts) if parts else chunked.new_zeros(0)


def _call(
    kernel: str, inputs: Inputs, groups: Sequence[Group], depths: Sequence[int], damping: float, keep: bool, **results: Any
) -> Tensor:
    """Run a kernel; returns the tables as it took them, in chunks."""
    logs, alone, places, numbers = inputs
    lanes, batch, dtype = _lanes(logs.dtype), len(alone), logs.dtype
    task = FactorsTask(len(groups), alone.shape[1], _messages(groups, lanes), 0, damping)
    task.n_depths, task.keep, task.tables_size = len(depths), int(keep), sum(_sizes(groups, lanes))
    given = {
        "shapes": torch.tensor(list(numbers), dtype=torch.int64),
        "places": places.contiguous(),
        "alone": alone.contiguous(),
        "depths": torch.tensor(list(depths)),
        "tables": buffers.lend((task.tables_size,), dtype),
    }
    call("factors_prepare", task, dtype, [(0, 1, 0)], logs=logs.contiguous(), **given)
    task.layers = depths[-1]  # before, it would have seemed to take long
    call(kernel, task, dtype, parts_of(batch), **given, **results)
    return given["tables"]


def _state_shape(alone: Tensor, groups: Sequence[Group], n_layers: int) -> tuple[int, ...]:
    return alone.shape[0], n_layers + 1, _messages(groups, _lanes(alone.dtype)) + alone.shape[1]


@operator("qtcore::factor_layers")
def forward(
    tables: Tensor,
    alone: Tensor,
    places: Tensor,
    groups: Sequence[int],
    depths: Sequence[int],
    damping: float,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    inputs = tables, alone, places, groups
    read = _check(inputs, damping)
    check_depths(depths)
    _check_values(alone)
    batch, layers, size = _state_shape(alone, read, depths[-1])
    states = buffers.lend((batch, layers, size) if keep else (len(parts_of(batch)), 1, size), tables.dtype)
    sums = alone.new_empty(batch, len(depths), alone.shape[1])
    _call("factors_forward", inputs, read, depths, damping, keep, sums=sums, states=states)
    return sums, states if keep else nothing(tables)


@torch.library.register_fake(forward)
def _(
    tables: Tensor,
    alone: Tensor,
    places: Tensor,
    groups: Sequence[int],
    depths: Sequence[int],
    damping: float,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    read = _check((tables, alone, places, groups), damping)
    check_depths(depths)
    kept = _state_shape(alone, read, depths[-1]) if keep else (0,)
    return alone.new_empty(alone.shape[0], len(depths), alone.shape[1]), tables.new_empty(kept)


@operator("qtcore::factor_trace")
def trace(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], n_layers: int, damping: float
) -> tuple[Tensor, Tensor]:
    inputs = tables, alone, places, groups
    read = _check(inputs, damping)
    check_depth(n_layers)
    _check_values(alone)
    batch, _, size = _state_shape(alone, read, n_layers)
    states = buffers.lend((len(parts_of(batch)), 1, size), tables.dtype)
    sums, residual = alone.new_empty(batch, n_layers, alone.shape[1]), alone.new_empty(batch, n_layers)
    depths = range(1, n_layers + 1)
    _call("factors_forward", inputs, read, depths, damping, False, sums=sums, states=states, residual=residual)
    return sums, residual


@torch.library.register_fake(trace)
def _(
    tables: Tensor, alone: Tensor, places: Tensor, groups: Sequence[int], n_layers: int, damping: float
) -> tuple[Tensor, Tensor]:
    _check((tables, alone, places, groups), damping)
    check_depth(n_layers)
    return alone.new_empty(alone.shape[0], n_layers, alone.shape[1]), alone.new_empty(alone.shape[0], n_layers)


@operator("qtcore::factor_layers_backward")
def backward(
    tables: Tensor,
    alone: Tensor,
    places: Tensor,
    groups: Sequence[int],
    depths: Sequence[int],
    damping: float,
    states: Tensor,
    d_sums: Tensor,
) -> tuple[Tensor, Tensor]:
    inputs = tables, alone, places, groups
    read = _check(inputs, damping)
    check_depths(depths)
    _check_values(alone)
    shape = alone.shape[0], len(depths), alone.shape[1]
    kept = (states, _state_shape(alone, read, depths[-1]))
    check_reals("tables", tables=(tables, tables.shape), states=kept, d_sums=(d_sums, shape))
    lanes = _lanes(tables.dtype)
    d_tables = zeros((len(parts_of(len(alone))), sum(_sizes(read, lanes))), tables.dtype)
    d_alone = torch.empty_like(alone, memory_format=torch.contiguous_format)
    results = {"states": states.contiguous(), "d_sums": d_sums.contiguous(), "d_alone": d_alone, "d_tables": d_tables}
    chunked = _call("factors_backward", inputs, read, depths, damping, True, **results)
    return _out_of_chunks(d_tables.sum(0).mul_(chunked), read, lanes), d_alone


@torch.library.register_fake(backward)
def _(tables: Tensor, alone: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (tables, alone))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.groups, ctx.depths, ctx.damping, _ = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _first(ctx: Any, d_sums: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_sums is None:
        return (None,) * 7
    *tensors, states = ctx.saved_tensors
    settings = ctx.groups, ctx.depths, ctx.damping
    if states.dim() == 1:  # not kept
        _, states = forward(*(tensor.detach() for tensor in tensors), *settings, True)
    return *backward(*tensors, *settings, states, d_sums), *(None,) * 5


torch.library.register_autograd(forward, _first, setup_context=_remember)


def _remember_first(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.groups, ctx.depths, ctx.damping, _, d_sums = inputs
    ctx.save_for_backward(*tensors, d_sums)


def _second(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, places, d_sums = ctx.saved_tensors
    layers = functools.partial(
        reference.factor_depths, places=places, groups=ctx.groups, depths=ctx.depths, damping=ctx.damping
    )
    *d_inputs, d_cotangent = second_derivative(layers, inputs, (d_sums,), given)
    return *d_inputs, *(None,) * 5, d_cotangent


torch.library.register_autograd(backward, _second, setup_context=_remember_first)
