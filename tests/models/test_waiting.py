"""What makes the host wait for a device: a number that is read back. Checks read a few of each query; layers read none."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import qtcore
from qtcore import kernels

from ..strategies import KINDS, ask, build

READ_BACK = {"_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "_unique2", "unique_dim", "equal"}
"""Operators whose results, or the shapes of them, the host must know."""


class Waits(TorchDispatchMode):
    """Counts the operators on whose results the host waits; an index that is a mask is one."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        by_mask = name in ("index", "index_put", "index_put_") and any(
            isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        if name in READ_BACK or by_mask:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


def waits(model: Any, query: Any, n: int, engine: Any = None) -> tuple[Counter[str], Counter[str]]:
    """In a loss after n layers, and in its gradient."""
    model.zero_grad()
    with kernels.use("torch"):
        with Waits() as there:
            loss = model.loss(query, n, engine)
        with Waits() as back:
            loss.backward()
    return there.counts, back.counts


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_no_layer_reads_a_number_back(kind: str, damping: float) -> None:
    model = build(kind, damping=damping)
    query = ask(model)
    model.loss(query)  # values, targets and truth are checked once
    few, few_back = waits(model, query, 2)
    many, many_back = waits(model, query, 13)
    assert few == many
    assert sum(few.values()) < 30
    assert not few_back
    assert not many_back


@pytest.mark.parametrize("kind", KINDS)
def test_nor_does_one_of_mean_field(kind: str) -> None:
    model = build(kind)
    query = ask(model)
    model.loss(query, engine=qtcore.MeanField(2))
    assert waits(model, query, 2, qtcore.MeanField(2)) == waits(model, query, 9, qtcore.MeanField(9))


def test_what_waits_is_counted() -> None:
    x = torch.arange(4.0)
    with Waits() as seen:
        x[x > 1]
        float(x.sum())
        bool((x > 2).any())
        x[torch.tensor([0, 1])]
    assert sum(seen.counts.values()) == 3
