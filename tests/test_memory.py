"""Inference keeps two layers of messages, however many there are, and leaves nothing behind.

Counted, not weighed: the bytes of every tensor that an operator of torch makes, and of every buffer that a kernel borrows.
(What a process keeps resident depends on the allocator and on the machine.)
"""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from qtcore import DBM, RBM, GaussianRBM, GridMRF, PairwiseMRF, Query, kernels
from qtcore.kernels import buffers
from qtcore.models.base import Model
from qtcore.query import uniform

KINDS = ("rbm", "dbm", "grbm", "grid", "pairwise")
BACKENDS = ("torch", "auto")


@pytest.fixture(autouse=True)
def young() -> Iterator[None]:
    """Garbage is looked for among what the test itself made: looking through all of torch takes most of the time."""
    gc.freeze()
    yield
    gc.unfreeze()


class Allocations(TorchDispatchMode):
    """Bytes of the tensors that were made in this block and are alive: now, and the most at once, buffers of kernels
    included."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[StorageWeakRef, int] = {}
        self._foreign: set[StorageWeakRef] = set()
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._forget()
        self._foreign |= {key for key, _ in _storages((args, kwargs)) if key not in self._made}
        buffers.reset_peak()
        result = func(*args, **(kwargs or {}))
        self._made |= {key: size for key, size in _storages(result) if key not in self._foreign}
        self.peak = max(self.peak, sum(self._made.values()) + buffers.usage().peak)
        return result

    @property
    def live(self) -> int:
        gc.collect()
        self._forget()
        return sum(self._made.values()) + buffers.usage().lent

    def _forget(self) -> None:
        self._made = {key: size for key, size in self._made.items() if not key.expired()}
        self._foreign = {key for key in self._foreign if not key.expired()}


def _storages(tree: Any) -> list[tuple[StorageWeakRef, int]]:
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    return [(StorageWeakRef(storage), storage.nbytes()) for storage in storages]


def case(kind: str) -> tuple[Model, Query, int]:
    """A model, a query, and about how many bytes one layer's messages have."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    bits = (torch.rand(20, 40, generator=generator) < 0.3).float()
    if kind == "rbm":
        return RBM(40, 30), uniform()(bits, generator), 20 * 20 * 30 * 4
    if kind == "dbm":
        return DBM(40, 30, 30), uniform()(bits, generator), 20 * (20 + 30) * 30 * 4
    if kind == "grbm":
        return GaussianRBM(40, 30), uniform()(torch.randn(20, 40, generator=generator), generator), 2 * 20 * 20 * 30 * 4
    if kind == "grid":
        noisy = (torch.rand(4, 10, 10, generator=generator) < 0.2).float()
        labels = torch.zeros(4, 10, 10)
        return GridMRF(10, 10, (6, 1, 1)), Query(noisy, torch.ones_like(noisy), truth=labels), 4 * 100 * 8 * 8 * 4
    edges = [(i, (i + step) % 40) for i in range(40) for step in (1, 7)]
    return PairwiseMRF([4] * 40, edges), uniform()(bits, generator), 20 * 2 * 80 * 4 * 4


def ask_once(model: Model, query: Query, n: int) -> None:
    with torch.inference_mode():
        model(query, n)


def look_at_every_layer(model: Model, query: Query, n: int) -> None:
    with torch.inference_mode():
        for _ in model.layers(query, n):
            pass


def train(model: Model, query: Query, n: int) -> None:
    model.loss(query, n).backward()
    model.zero_grad()


def peak(work: Callable[[Model, Query, int], None], model: Model, query: Query, n: int) -> int:
    """The most bytes that were alive at once; and none is, afterwards."""
    ask_once(model, query[:1], 1)  # what a graph remembers of itself
    buffers.clear()
    with Allocations() as counted:
        work(model, query, n)
    assert counted.live == 0
    return counted.peak


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("work", [ask_once, look_at_every_layer])
@pytest.mark.parametrize("kind", KINDS)
def test_forty_layers_take_no_more_than_four(kind: str, work: Any, backend: Any) -> None:
    model, query, layer = case(kind)
    with kernels.use(backend):
        few, many = peak(work, model, query, 4), peak(work, model, query, 40)
    assert few == many
    # enough to be counted at all; a kernel has one sample's messages at a time
    native = kernels.backend().name == "native" and backend == "auto" and work is ask_once and kind != "pairwise"
    assert few > layer / (len(query) if native else 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_for_a_gradient_is_seen(kind: str, backend: Any) -> None:
    """A counter that counts nothing would find no difference anywhere: here there is one."""
    model, query, _ = case(kind)
    with kernels.use(backend):
        assert peak(train, model, query, 12) > 1.5 * peak(train, model, query, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_many_queries_leave_nothing(kind: str, backend: Any) -> None:
    model, query, _ = case(kind)
    spare = []
    ask_once(model, query[:1], 1)
    with kernels.use(backend), Allocations() as counted:
        for i in range(24):
            ask_once(model, query[: 2 + i % 3], 4)
            if i in (11, 23):
                spare.append(buffers.usage().spare)
    assert counted.live == 0
    assert spare[0] == spare[1]
