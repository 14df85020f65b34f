"""What the tests of the kernels share: who calls them, and what they are called with."""

import math
import os
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from qtcore.kernels.ops.factors import described

from ..strategies import F64, rng

F32 = torch.float32
HAS_KERNEL = ("RBM", "DBM", "GaussianRBM", "GridMRF", "PairwiseMRF", "FactorGraph")
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class Calls(TorchDispatchMode):
    """The names of all operators of ours that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "qtcore":
            self.names.append(func._schema.name.removeprefix("qtcore::"))
        return func(*args, **(kwargs or {}))


V, H, B, J = 7, 5, 4, 6
CLONES = (2, 1, 1)


def reals(seed: int, *shape: int, dtype: torch.dtype = F64, scale: float = 1.0) -> Tensor:
    return (scale * torch.randn(shape, generator=rng(seed), dtype=F64)).to(dtype)


def places(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Which variables are free: all numbers from 0 to J."""
    index = torch.stack([torch.randperm(V, generator=rng(seed + b))[:J] for b in range(B)])
    return index, torch.tensor([J, 0, 3, 4])


def binary_inputs(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    W, bias, hidden_bias, start = (reals(k, *shape, dtype=dtype) for k, shape in enumerate(((V, H), (B, J), (B, H), (H,))))
    return W, bias, hidden_bias, start, *places(), n


def damped_binary_inputs(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    W, bias, hidden_bias = (reals(k, *shape, dtype=dtype) for k, shape in enumerate(((V, H), (B, V), (H,))))
    hard = (torch.arange(B * V).reshape(B, V) % 5 - 2).sign().to(dtype) * (torch.arange(V) % 2 == 0)
    return W, bias, hidden_bias, hard, n, 0.3


def gaussian_inputs(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    W, hidden_bias, linear = (reals(k, *shape, dtype=dtype, scale=0.5) for k, shape in enumerate(((V, H), (B, H), (B, J))))
    return W, hidden_bias, linear, 1 + reals(3, B, J, dtype=dtype).abs(), *places(), n, 1e-3


def damped_gaussian_inputs(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    W, hidden_bias, linear = (reals(k, *shape, dtype=dtype, scale=0.5) for k, shape in enumerate(((V, H), (H,), (B, V))))
    is_free = (torch.arange(B * V).reshape(B, V) % 3 > 0).to(dtype)
    return W, hidden_bias, linear, 1 + reals(3, B, V, dtype=dtype).abs(), is_free, n, 0.3, 1e-3


def grid_inputs(dtype: torch.dtype = F64, n: int = 3, damping: float = 0.0) -> tuple[Any, ...]:
    table = reals(0, 8, 4, 4, dtype=dtype)
    evidence, own = (reals(k, 2, 3, 4, 3, dtype=dtype) for k in (1, 2))
    return (table - table.max()).exp(), *((x - x.amax(-1, keepdim=True)).exp() for x in (evidence, own)), CLONES, n, damping


def damped_grid_inputs(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    return grid_inputs(dtype, n, 0.3)


def grid_inputs_at_depths(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    """Beliefs after the first, the second and the last layer are asked for."""
    *tensors, n, damping = damped_grid_inputs(dtype, n)
    return *tensors, sorted({1, min(2, n), n}), damping


def factor_inputs(dtype: torch.dtype = F64, n: int = 3, damping: float = 0.0) -> tuple[Any, ...]:
    """Pairs with tables of their own, more than a vector of them; pairs that share one; two of third order, one of fourth."""
    sizes = (2, 3, 2, 3, 2, 2)
    start = torch.tensor((0, *sizes)).cumsum(0)
    pairs = [(0, 2), (2, 4), (4, 5), (5, 0), (0, 4), (2, 5), (5, 4), (4, 2), (2, 0), (0, 5)]
    scopes = [pairs, [(1, 0), (3, 2), (1, 5)], [(0, 1, 2), (4, 3, 5)], [(1, 0, 2, 3)]]
    shapes, own = [(2, 2), (3, 2), (2, 3, 2), (3, 2, 2, 3)], (True, False, True, False)
    groups = described(shapes, [len(each) for each in scopes], own)
    entries = sum(math.prod(s) * (len(each) if o else 1) for s, each, o in zip(shapes, scopes, own, strict=True))
    places = torch.cat([start[torch.tensor(each).T].flatten() for each in scopes]).int()
    return reals(0, entries, dtype=dtype), reals(1, 3, sum(sizes), dtype=dtype), places, groups, n, damping


def damped_factor_inputs(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    return factor_inputs(dtype, n, 0.3)


def factor_inputs_at_depths(dtype: torch.dtype = F64, n: int = 3) -> tuple[Any, ...]:
    *tensors, n, damping = damped_factor_inputs(dtype, n)
    return *tensors, sorted({1, min(2, n), n}), damping


def tracked(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same, with a gradient for every real tensor but those of signs."""
    real = (isinstance(x, Tensor) and x.is_floating_point() and not torch.equal(x, x.sign()) for x in inputs)
    return tuple(x.clone().requires_grad_() if yes else x for x, yes in zip(inputs, real, strict=True))
