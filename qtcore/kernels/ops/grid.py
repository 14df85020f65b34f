"""Layers of the grid MRF (csrc/grid.c)."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.kernels import buffers, build, reference
from qtcore.kernels.build import GridTask
from qtcore.kernels.ops.shared import (
    call,
    check_depth,
    check_depths,
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
from qtcore.support.tensors import constant_to_the_compiler

VECTOR_BYTES = 32
"""Rows of states are padded to whole vectors of this size, as in csrc/matmul.h."""

SMALLEST_FACTOR = 1e-27
"""The smallest entry of a table, relative to its largest, with which no message can vanish in float32 (e^−60 is 9e−27)."""

SETTLED = 8
"""A message that changes in a layer by no more than this many roundings of its data type is taken to have settled: it stays as
it is, and messages that depend on settled ones alone are not made again."""

NEGLIGIBLE = 4e-3
"""Where rounding is allowed, gradients of messages below this share of an image's largest in a layer count as 0: about three
quarters of them, with less than a thousandth of the sum of squares (docs/speed.md)."""


def grid_layers(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], n_layers: int, damping: float = 0.0
) -> Tensor:
    """Log-beliefs of the labels [B, height, width, 3] after N ≥ 1 layers at T = 1; not normalised.

    Args:
        table: exp(log-potential) by direction [8, S, S] with a largest entry of about 1 and none below `SMALLEST_FACTOR`.
        evidence: of the three labels [B, height, width, 3], above 0, the largest of each pixel about 1.
        own: what of it enters the beliefs (1 to leave it out), above 0.
        clones: how many states each of the three labels has; their sum is S.
        damping: weight of the old log-message in the new one.

    Where torch may round the factors of matrix products (set_float32_matmul_precision("medium")), gradients are approximate
    (`NEGLIGIBLE`), and the factors are rounded to bfloat16 if the processor can.
    """
    return grid_depths(table, evidence, own, clones, [n_layers], damping)[:, 0]


def grid_depths(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], depths: Sequence[int], damping: float = 0.0
) -> Tensor:
    """The same after each of several numbers of layers, in rising order [B, D, height, width, 3]: one pass serves them all."""
    keep = needs_gradient(table, evidence, own)
    return forward(table, evidence, own, list(clones), list(depths), float(damping), rounds(table.dtype), keep)[0]


def grid_trace(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], n_layers: int, damping: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """All layers for display, without gradients: log-beliefs of the labels [B, N, height, width, 3] as above, each state's
    share of its label's belief [B, N, height, width, S], and the largest change of a message in log-odds [B, N]."""
    inputs = (tensor.detach() for tensor in (table, evidence, own))
    return trace(*inputs, list(clones), n_layers, float(damping), rounds(table.dtype))


def rounds(dtype: torch.dtype) -> bool:
    """Whether matrix products of this type may be rounded: when torch is told so."""
    return dtype == torch.float32 and _rounds_singles()


@constant_to_the_compiler  # torch.compile cannot look at this setting
def _rounds_singles() -> bool:
    return torch.get_float32_matmul_precision() == "medium"


def _check(table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], damping: float) -> None:
    if not 0 <= damping < 1:
        raise InputError(f"damping must lie in [0, 1), not {damping:g}.")
    if len(clones) != 3 or min(clones) < 1:
        raise InputError(f"clones must be three whole numbers ≥ 1, not {list(clones)}.")
    if evidence.dim() != 4:
        raise InputError(f"evidence must have the shape [B, height, width, 3], not {list(evidence.shape)}.")
    states, shape = sum(clones), (*evidence.shape[:3], 3)
    check_reals("table", table=(table, (8, states, states)), evidence=(evidence, shape), own=(own, shape))


def _check_values(table: Tensor, evidence: Tensor, own: Tensor) -> float:
    """Refuse what the linear space of messages cannot hold; returns the smallest entry of the table."""
    low, high = (float(x) for x in table.aminmax())
    if not 0 < SMALLEST_FACTOR * high <= low <= high < float("inf"):
        raise InputError(
            f"the table's entries must lie within a factor of {SMALLEST_FACTOR:g}, not between {low:g} and {high:g}."
        )
    for name, tensor in (("evidence", evidence), ("own", own)):
        if tensor.numel() and not all(0 < float(x) < float("inf") for x in tensor.aminmax()):
            raise InputError(f"{name} must be above 0 and finite everywhere.")
    return low


def _task(
    least: float, padded: int, evidence: Tensor, clones: Sequence[int], n_layers: int, damping: float, rounded: bool
) -> GridTask:
    _, height, width, _ = evidence.shape
    task = GridTask(height, width, sum(clones), padded, n_layers, *clones, _small(least), damping)
    task.settled = SETTLED * torch.finfo(evidence.dtype).eps
    task.slots, task.keep, task.n_depths = n_layers + 1, 1, n_layers
    if rounded:
        task.negligible, task.rounded = NEGLIGIBLE, int(build.library(torch.float32).can_round)
    return task


def _at_depths(evidence: Tensor, depths: Sequence[int]) -> tuple[int, ...]:
    """The shape of the labels' beliefs after each of these layers."""
    batch, height, width, labels = evidence.shape
    return batch, len(depths), height, width, labels


def _lanes(dtype: torch.dtype) -> int:
    return VECTOR_BYTES // dtype.itemsize


def _kept_shapes(places: int, slots: int, evidence: Tensor, padded: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Messages, and by how much they were scaled."""
    _, height, width, _ = evidence.shape
    scales = (places, slots, 8, height * width)
    return (*scales, padded), scales


def _small(least: float) -> float:
    """What vanishes beside a product of this size is under 1e-38/small; no potential may bring it back above 1e-8."""
    return min(1.0, max(1e-25, 1e-30 / least))


@operator("qtcore::grid_layers")
def forward(
    table: Tensor,
    evidence: Tensor,
    own: Tensor,
    clones: Sequence[int],
    depths: Sequence[int],
    damping: float,
    rounded: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    _check(table, evidence, own, clones, damping)
    check_depths(depths)
    least = _check_values(table, evidence, own)
    potential, parts = rows(table, _lanes(table.dtype)), parts_of(len(evidence))
    padded = potential.shape[2]
    task = _task(least, padded, evidence, clones, depths[-1], damping, rounded)
    task.n_depths = len(depths)
    if not keep:
        task.slots, task.keep = 2, 0
    shapes = _kept_shapes(len(evidence) if keep else len(parts), task.slots, evidence, padded)
    messages, scale = buffers.lend(shapes[0], table.dtype), zeros(shapes[1], table.dtype)
    labels = evidence.new_empty(_at_depths(evidence, depths))
    call(
        "grid_forward",
        task,
        table.dtype,
        parts,
        potential=potential,
        evidence=evidence.contiguous(),
        belief_evidence=own.contiguous(),
        depths=torch.tensor(depths),
        labels=labels,
        messages=messages,
        scale=scale,
    )
    return (labels, messages, scale) if keep else (labels, nothing(table), nothing(table))


@torch.library.register_fake(forward)
def _(
    table: Tensor,
    evidence: Tensor,
    own: Tensor,
    clones: Sequence[int],
    depths: Sequence[int],
    damping: float,
    rounded: bool,
    keep: bool,
) -> tuple[Tensor, ...]:
    _check(table, evidence, own, clones, damping)
    check_depths(depths)
    padded = vectors(table.shape[2], _lanes(table.dtype))
    shapes = _kept_shapes(evidence.shape[0], depths[-1] + 1, evidence, padded) if keep else ((0,), (0,))
    labels = evidence.new_empty(_at_depths(evidence, depths))
    return labels, *(table.new_empty(shape) for shape in shapes)


@operator("qtcore::grid_trace")
def trace(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], n_layers: int, damping: float, rounded: bool
) -> tuple[Tensor, Tensor, Tensor]:
    _check(table, evidence, own, clones, damping)
    check_depth(n_layers)
    least = _check_values(table, evidence, own)
    potential, parts = rows(table, _lanes(table.dtype)), parts_of(len(evidence))
    batch, height, width, _ = evidence.shape
    padded = potential.shape[2]
    task = _task(least, padded, evidence, clones, n_layers, damping, rounded)
    task.slots, task.keep = 2, 0
    shapes = _kept_shapes(len(parts), task.slots, evidence, padded)
    shares = buffers.lend((batch, n_layers, height, width, padded), table.dtype)
    labels, residual = table.new_empty(batch, n_layers, height, width, 3), table.new_empty(batch, n_layers)
    call(
        "grid_trace",
        task,
        table.dtype,
        parts,
        potential=potential,
        evidence=evidence.contiguous(),
        belief_evidence=own.contiguous(),
        labels=labels,
        shares=shares,
        residual=residual,
        messages=buffers.lend(shapes[0], table.dtype),
        scale=zeros(shapes[1], table.dtype),
    )
    return labels, shares[..., : sum(clones)].clone(memory_format=torch.contiguous_format), residual


@torch.library.register_fake(trace)
def _(
    table: Tensor, evidence: Tensor, own: Tensor, clones: Sequence[int], n_layers: int, damping: float, rounded: bool
) -> tuple[Tensor, ...]:
    _check(table, evidence, own, clones, damping)
    check_depth(n_layers)
    batch, height, width, _ = evidence.shape
    shape = (batch, n_layers, height, width)
    return table.new_empty(*shape, 3), table.new_empty(*shape, sum(clones)), table.new_empty(batch, n_layers)


@operator("qtcore::grid_layers_backward")
def backward(
    table: Tensor,
    evidence: Tensor,
    own: Tensor,
    clones: Sequence[int],
    depths: Sequence[int],
    damping: float,
    rounded: bool,
    messages: Tensor,
    scale: Tensor,
    d_labels: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    _check(table, evidence, own, clones, damping)
    check_depths(depths)
    least = _check_values(table, evidence, own)
    transposed, parts = rows(table.transpose(1, 2), _lanes(table.dtype)), parts_of(len(evidence))
    padded = transposed.shape[2]
    shapes = _kept_shapes(len(evidence), depths[-1] + 1, evidence, padded)
    kept = {"messages": (messages, shapes[0]), "scale": (scale, shapes[1])}
    check_reals("table", table=(table, table.shape), d_labels=(d_labels, _at_depths(evidence, depths)), **kept)
    d_evidence = torch.zeros_like(evidence, memory_format=torch.contiguous_format)
    d_table = zeros((len(parts), *transposed.shape), table.dtype)
    task = _task(least, padded, evidence, clones, depths[-1], damping, rounded)
    task.n_depths = len(depths)
    call(
        "grid_backward",
        task,
        table.dtype,
        parts,
        transposed=transposed,
        depths=torch.tensor(depths),
        evidence=evidence.contiguous(),
        messages=messages.contiguous(),
        scale=scale.contiguous(),
        d_labels=d_labels.contiguous(),
        d_evidence=d_evidence,
        d_potential=d_table,
    )
    of_table = d_table[..., : table.shape[2]].sum(0)
    return of_table, d_evidence.div_(evidence), (d_labels.sum(1) / own).contiguous()  # the kernel's is that of log-evidence


@torch.library.register_fake(backward)
def _(table: Tensor, evidence: Tensor, own: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (table, evidence, own))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.clones, ctx.depths, ctx.damping, ctx.rounded, _ = inputs
    ctx.save_for_backward(*tensors, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _first(ctx: Any, d_labels: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    if d_labels is None:
        return (None,) * 8
    *tensors, messages, scale = ctx.saved_tensors
    settings = ctx.clones, ctx.depths, ctx.damping, ctx.rounded
    if messages.dim() == 1:  # not kept
        _, messages, scale = forward(*(tensor.detach() for tensor in tensors), *settings, True)
    return *backward(*tensors, *settings, messages, scale, d_labels), *(None,) * 5


torch.library.register_autograd(forward, _first, setup_context=_remember)


def _remember_first(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.clones, ctx.depths, ctx.damping, _, _, _, d_labels = inputs
    ctx.save_for_backward(*tensors, d_labels)


def _second(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
    *inputs, d_labels = ctx.saved_tensors
    layers = functools.partial(reference.grid_depths, clones=ctx.clones, depths=ctx.depths, damping=ctx.damping)
    *d_inputs, d_cotangent = second_derivative(layers, inputs, (d_labels,), given)
    return *d_inputs, *(None,) * 6, d_cotangent


torch.library.register_autograd(backward, _second, setup_context=_remember_first)
