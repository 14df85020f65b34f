"""Small tensor helpers."""

from collections.abc import Callable
from typing import TypeVar

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

F = TypeVar("F", bound=Callable[..., object])


def has_values(*tensors: Tensor) -> bool:
    """Whether tensors hold actual numbers (fake and meta tensors have only shapes)."""
    return not any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors)


def shape_text(tensor: Tensor) -> str:
    """A shape as written in an error message: [2, 3]."""
    return str(list(tensor.shape))


def constant_to_the_compiler(function: F) -> F:
    """Mark a function whose result torch.compile may take as a constant: one that it cannot look into.

    As torch.compiler.assume_constant_result does, which would import the whole compiler: two seconds at every start.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]  # tests/kernels/test_ops.py compiles in one graph
    return function
