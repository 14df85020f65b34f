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
                return optimised(*_alike(arguments))
            except Exception as error:
                if not _is_compiler_error(error):
                    raise
                works = False
        return function(*arguments)

    return call


def _alike(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The messages before the first layer have no gradient, and one number may stand for all of them; the compiler would make
    a version of the layer for them alone. Let them look like all later ones."""
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)

    def later(message: torch.Tensor) -> torch.Tensor:
        message = message.contiguous()
        return message.detach().requires_grad_() if wanted and not message.requires_grad else message

    first, *others = arguments
    return (later(first) if isinstance(first, torch.Tensor) else type(first)(*map(later, first)), *others)


def _is_compiler_error(error: Exception) -> bool:
    """Whether an exception comes from torch's compiler rather than from the compiled function."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))
