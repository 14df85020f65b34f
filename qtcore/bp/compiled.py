"""torch.compile for one layer: what `compile_layers` uses where machine code of our own cannot go (a GPU, say)."""

import functools
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function through torch.compile; as it is, for good, once compiling has failed (no compiler, for one)."""
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
    """Whether an exception comes from torch's compiler, rather than from what it was asked to run."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))
