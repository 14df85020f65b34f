"""torch.compile for one layer, for devices without native kernels (a GPU, say)."""

import functools
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def with_torch_compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function through torch.compile, or as it is from the first time that compiling fails (no compiler, say)."""
    optimised: Callable[..., Any] = torch.compile(function, dynamic=True)
    works = True

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal works
        if works:
            try:
                return optimised(*arguments)
            except Exception as error:
                if not _is_compiler_error(error):
                    raise
                works = False
        return function(*arguments)

    return call


def _is_compiler_error(error: Exception) -> bool:
    """Whether an exception comes from torch's compiler rather than from the compiled function."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))
