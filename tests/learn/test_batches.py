"""Minibatches: which rows they hold, how they are split, and that the split changes nothing."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import qtcore
from qtcore.learn import query_training
from qtcore.query import Mask, Query, uniform
from tests.strategies import F64, KINDS, build, close

from .support import data_for, gradients, training, twins


@dataclass(frozen=True, eq=False)
class Recording(Mask):
    """Half of the variables are targets; remembers the rows that it was shown."""

    seen: list[list[int]]

    def __call__(self, values: Tensor, generator: Any = None, truth: Tensor | None = None) -> Query:
        self.seen.append([int(row @ torch.tensor([8.0, 4, 2, 1], dtype=F64)) for row in values])
        return uniform()(values, generator, truth)


def test_every_row_is_used_once_in_an_epoch_the_last_odd_batch_too() -> None:
    numbers = torch.arange(11)
    rows = torch.stack([numbers // 8 % 2, numbers // 4 % 2, numbers // 2 % 2, numbers % 2], 1).to(F64)
    queries = Recording([])
    qtcore.fit(build("RBM"), rows, queries=queries, epochs=3, batch=4)
    seen = queries.seen[1:]  # the first one was the check of the shape
    assert [len(part) for part in seen] == [4, 4, 3] * 3
    epochs = [[*seen[i], *seen[i + 1], *seen[i + 2]] for i in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(11)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != list(range(11))


def test_a_minibatch_that_has_no_target_by_chance_is_asked_again() -> None:
    """One row of four bits, a target with probability 1/50: most first draws ask for nothing."""
    one, two = (qtcore.fit(build("RBM"), twins(5), queries=uniform(0.02), steps=10, batch=1) for _ in range(2))
    assert torch.equal(one.W, two.W)  # what is drawn again follows from the seed, too
    assert not torch.equal(one.W, build("RBM").W)


def whole_and_split(kind: str, monkeypatch: pytest.MonkeyPatch, queries: Mask | None = None) -> tuple[Any, Any, Counter]:
    """Gradients of a minibatch as one piece, the same in chunks of 3, and how often each size of chunk was used."""
    model, sizes = build(kind, scale=0.5), Counter[int]()
    data = data_for(model, rows=11)
    whole = gradients(model, data, queries, batch=11)
    each = model.engine.kept_bytes(model, tuple((data[0] if isinstance(data, tuple) else data).shape[1:]))
    monkeypatch.setattr(query_training, "KEPT_BYTES", 3 * each + 1)
    forward = query_training._Loss.forward

    def counted(self: Any, query: Query, *engine: Any) -> Tensor:
        sizes[len(query)] += 1
        return forward(self, query, *engine)

    monkeypatch.setattr(query_training._Loss, "forward", counted)
    return whole, gradients(build(kind, scale=0.5), data, queries, batch=11), sizes


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_give_the_gradient_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, split, sizes = whole_and_split(kind, monkeypatch)
    assert sizes == {3: 3, 2: 1}
    assert whole.keys() == split.keys()
    for name, gradient in whole.items():
        close(split[name], gradient, 1e-12)


def test_the_loss_is_normalised_by_the_targets_of_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few targets, unevenly spread: chunks without any are skipped, and the mean is still that over all targets."""
    whole, split, sizes = whole_and_split("RBM", monkeypatch, uniform(0.06))
    assert sum(sizes.values()) < 4
    for name, gradient in whole.items():
        close(split[name], gradient, 1e-12)
    run = training(build("RBM", scale=0.5), data_for(build("RBM"), rows=11), uniform(0.06), batch=11)
    query = run._minibatch()
    losses, target = run.model.nll(query)
    assert float(losses.detach()[target].mean()) == pytest.approx(float(whole["loss"]))


class Cramped:
    """Memory for so many samples."""

    def __init__(self, room: int, error: Exception) -> None:
        self.room, self.error = room, error
        self.tried: list[int] = []
        self.forward = query_training._Loss.forward

    def __call__(self, module: Any, query: Query, *engine: Any) -> Tensor:
        self.tried.append(len(query))
        if len(query) > self.room:
            raise self.error
        return self.forward(module, query, *engine)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(query_training._Loss, "forward", lambda module, *given: self(module, *given))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_when_memory_runs_out_chunks_are_halved(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = gradients(build("RBM"), twins(11), batch=11)
    cramped = Cramped(3, error)
    cramped.install(monkeypatch)
    result = gradients(build("RBM"), twins(11), batch=11)
    assert cramped.tried == [11, 6, 3, 3, 3, 2]
    for name, gradient in expected.items():
        close(result[name], gradient, 1e-12)


def test_a_smaller_chunk_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    cramped = Cramped(4, torch.OutOfMemoryError())
    cramped.install(monkeypatch)
    run = training(build("RBM"), twins(16), batch=8)
    run._one_step()
    run._one_step()
    assert cramped.tried == [8, 4, 4, 4, 4]


@pytest.mark.parametrize(("room", "error"), [(0, torch.OutOfMemoryError()), (0, RuntimeError("something else"))])
def test_what_halving_cannot_mend_is_raised(room: int, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    cramped = Cramped(room, error)
    cramped.install(monkeypatch)
    with pytest.raises(type(error)):
        gradients(build("RBM"), twins(8), batch=8)
    assert cramped.tried == ([8, 4, 2, 1] if isinstance(error, torch.OutOfMemoryError) else [8])


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_chunk_follows_from_the_memory_that_a_sample_keeps(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(kind)
    data = data_for(model)
    assert training(model, data, batch=12).chunk == 12
    assert training(model, data, batch=5).chunk == 5
    monkeypatch.setattr(query_training, "KEPT_BYTES", 1)
    assert training(model, data, batch=12).chunk == 1


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_what_a_sample_keeps_is_about_what_is_kept(damping: float) -> None:
    """kept_bytes is a promise: chunks of that many bytes must fit. Saved tensors are counted by autograd itself."""
    for kind in KINDS:
        model = build(kind, n_layers=20, damping=damping)
        data = data_for(model, rows=64)
        values, truth = data if isinstance(data, tuple) else (data, None)
        kept: dict[int, int] = {}

        def pack(tensor: Tensor, kept: dict[int, int] = kept) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        run = training(model, data, batch=64)
        query = run.queries(values, None, truth)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = model.loss(query)
        promised = 64 * model.engine.kept_bytes(model, tuple(values.shape[1:]))
        assert sum(kept.values()) < 3 * promised, f"{kind}: {sum(kept.values()) / promised:.1f} times"
        assert math.isfinite(float(loss.detach()))
