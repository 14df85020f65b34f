"""Small tensor helpers."""

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def has_values(*tensors: Tensor) -> bool:
    """Whether tensors hold actual numbers (fake and meta tensors have only shapes)."""
    return not any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors)


def shape_text(tensor: Tensor) -> str:
    """A shape as written in an error message: [2, 3]."""
    return str(list(tensor.shape))
