"""Small tensor helpers."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

F = TypeVar("F", bound=Callable[..., object])


def has_values(*tensors: Tensor) -> bool:
    """Whether tensors hold actual numbers: fake and meta tensors have only shapes, and under torch.vmap one tensor stands for
    many."""
    return not any(tensor.is_meta or isinstance(tensor, FakeTensor) or is_batched(tensor) for tensor in tensors)


def numbers(*scalars: Tensor) -> list[float]:
    """Their values; a device is waited for once."""
    if all(scalar.is_cpu for scalar in scalars):
        return [float(scalar) for scalar in scalars]
    return torch.stack([scalar.to(scalars[-1]) for scalar in scalars]).tolist()


def normal(
    *shape: int, scale: float = 1.0, device: "torch.device | str | None" = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Normal numbers, those of scale * torch.randn, which on the device "meta" would import torch's compiler: seconds."""
    result = torch.empty(shape, device=device, dtype=dtype)
    return result if result.is_meta else result.normal_().mul_(scale)


def log_sum(log: Tensor, dim: "int | list[int]") -> Tensor:
    """log Σ exp, with a gradient of 0 where all terms are −∞ (that of logsumexp is NaN there)."""
    if not (log.requires_grad and torch.is_grad_enabled()) or not has_values(log):
        return log.logsumexp(dim)
    ruled_out = log.detach().amax(dim, keepdim=True).isneginf()
    if not bool(ruled_out.any()):
        return log.logsumexp(dim)
    total = log.masked_fill(ruled_out, 0).logsumexp(dim, keepdim=True).masked_fill(ruled_out, -torch.inf)
    return total.squeeze(dim) if isinstance(dim, int) else total.squeeze(tuple(dim))


def along(axis: int, matrices: Tensor, stack: Tensor) -> Tensor:
    """A stack of arrays [F, …], each with its own matrix of [F, n, n] applied along an axis."""
    first = stack.movedim(axis, 1)
    return (matrices @ first.flatten(2)).unflatten(2, first.shape[2:]).movedim(1, axis)


def is_batched(tensor: Tensor) -> bool:
    """Whether torch.vmap runs over this tensor, also inside other transforms of torch.func."""
    if torch.compiler.is_compiling() or not torch._C._are_functorch_transforms_active():
        return False
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def shape_text(tensor: Tensor) -> str:
    """A shape as written in an error message: [2, 3]."""
    return str(list(tensor.shape))


def constant_to_the_compiler(function: F) -> F:
    """Mark a function whose result torch.compile may take as a constant: one that it cannot look into.

    As torch.compiler.assume_constant_result does, which would import the whole compiler: two seconds at every start.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # tests/kernels/test_ops.py compiles in one graph
    return function
