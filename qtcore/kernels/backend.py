"""Which backend runs the layers, and why: the native kernels, or plain torch."""

import contextlib
import functools
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from qtcore.errors import BackendError, InputError
from qtcore.kernels import build
from qtcore.support.tensors import constant_to_the_compiler

Choice = Literal["auto", "native", "torch"]
CHOICES = ("auto", "native", "torch")
VARIABLE = "QTCORE_BACKEND"

_log = logging.getLogger("qtcore")
_used: ContextVar[Choice | None] = ContextVar("qtcore_backend", default=None)


@dataclass(frozen=True)
class Backend:
    """What runs the layers, and why in one sentence.

    Example:
        >>> import qtcore.kernels
        >>> with qtcore.kernels.use("torch"):
        ...     print(qtcore.kernels.backend())
        torch: chosen by use("torch").
    """

    name: Literal["native", "torch"]
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def backend() -> Backend:
    """What runs the layers of models on the CPU here and now, and why.

    Example:
        >>> import qtcore
        >>> qtcore.backend().name in ("native", "torch")
        True
    """
    choice, by = _choice()
    if choice == "torch":
        return _announced(Backend("torch", f"chosen by {by}."))
    result = native_or_why_not()
    if result.name == "torch":
        if choice == "native":
            raise BackendError(f"{by} asks for the native kernels, but {result.reason}")
        return _announced(result)
    return _announced(Backend("native", f"{result.reason}, {torch.get_num_threads()} thread(s)."))


@contextlib.contextmanager
def use(choice: Choice) -> Iterator[None]:
    """Choose the backend inside a `with` block, for this thread: "torch", "native" (an error if there is none), or "auto".

    It stands above the environment variable QTCORE_BACKEND.
    """
    if choice not in CHOICES:
        raise InputError(f"the backend must be one of {', '.join(CHOICES)}, not {choice!r}.")
    token = _used.set(choice)
    try:
        if choice == "native":
            backend()
        yield
    finally:
        _used.reset(token)


def _choice() -> tuple[str, str]:
    """What was asked for, and by whom."""
    used = _used.get()
    if used is not None:
        return used, f'use("{used}")'
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted not in CHOICES:
        raise InputError(f"{VARIABLE} must be one of {', '.join(CHOICES)}, not {wanted!r}.")
    return wanted, f"{VARIABLE}={wanted}"


@functools.cache
def native_or_why_not() -> Backend:
    """The native backend if both libraries can be had; decided once."""
    try:
        with ThreadPoolExecutor(2) as both:
            single, _ = both.map(build.library, (torch.float32, torch.float64))
    except BackendError as error:
        return Backend("torch", f"{error}.")
    flags = " ".join(flag for flag in build.all_flags() if flag.startswith(("-O", "-m")))
    return Backend("native", f"compiled by {single.compiler} with {flags}, {single.instructions}")


_said: set[str] = set()


def _announced(result: Backend) -> Backend:
    """One line in the log when a backend is first decided on: a warning where somebody may be slow without knowing."""
    if result.name not in _said:
        _said.add(result.name)
        unwanted = result.name == "torch" and not result.reason.startswith("chosen by")
        _log.log(logging.WARNING if unwanted else logging.INFO, "backend %s", result)
    return result


def usable(*tensors: Tensor) -> bool:
    """Whether the native kernels can take these tensors, here and now.

    They must be real tensors (not meta or fake ones) on the CPU, all float32 or all float64. The operators cannot be
    transformed by torch.func nor differentiated in forward mode: whoever asks while that is going on takes the torch path.
    """
    first = tensors[0]
    if first.dtype not in build.REAL:
        return False
    for tensor in tensors:
        if tensor.device.type != "cpu" or tensor.dtype != first.dtype or tensor.layout != torch.strided:
            return False
        if isinstance(tensor, FakeTensor):
            return False
    return not _transformed() and _is_native()


def _transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is active."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


@constant_to_the_compiler
def _is_native() -> bool:
    choice, _ = _choice()
    if choice == "auto" and "native" in _said:  # the usual case, without building the message
        return native_or_why_not().name == "native"
    return backend().name == "native"
