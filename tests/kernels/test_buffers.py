"""Memory that is used again: never by two at once, bounded, and counted."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from qtcore.kernels.buffers import ALIGNMENT, Pool

MB = 2**20


def test_memory_comes_back_when_the_last_user_is_gone() -> None:
    pool = Pool()
    first = pool.lend((100, 10), torch.float32)
    address, part = first.data_ptr(), first[50:]
    assert address % ALIGNMENT == 0
    del first
    assert pool.lend((100, 10), torch.float32).data_ptr() != address  # a view still uses it
    assert pool.usage().lent == 4000
    del part
    assert pool.usage().lent == 0
    assert pool.usage().peak == 8000
    addresses = {pool.lend((10, 100), torch.float32).data_ptr() for _ in range(5)}
    assert len(addresses) == 1
    assert pool.usage().spare == 8000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_any_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = Pool().lend(shape, dtype)
    assert tensor.shape == shape
    assert tensor.dtype == dtype
    tensor.zero_()


def test_what_is_spare_is_bounded() -> None:
    pool = Pool(limit=3 * MB)
    tensors = [pool.lend((MB,), torch.float32) for _ in range(4)]
    assert pool.usage().lent == 16 * MB
    del tensors
    assert pool.usage().spare <= 3 * MB
    small = [pool.lend((MB // 4,), torch.float32) for _ in range(5)]
    del small
    assert pool.usage().spare == 3 * MB
    pool.clear()
    assert pool.usage().spare == 0


def test_a_small_wish_does_not_take_a_large_block() -> None:
    pool = Pool()
    large = pool.lend((MB,), torch.float32)
    del large
    small = pool.lend((10,), torch.float32)
    assert pool.usage().lent == 40
    assert small.numel() == 10


def test_the_peak_can_be_reset() -> None:
    pool = Pool()
    kept = pool.lend((25,), torch.float32)
    pool.lend((1000,), torch.float32)
    assert pool.usage().peak == 4100
    pool.reset_peak()
    assert pool.usage().peak == pool.usage().lent == 4 * kept.numel()


def test_a_tensor_that_was_made_in_inference_mode_does_not_stay_one() -> None:
    pool = Pool()
    with torch.inference_mode():
        pool.lend((10,), torch.float32)
    assert not pool.lend((10,), torch.float32).is_inference()


def test_threads_never_get_the_same_memory() -> None:
    pool = Pool()

    def work(seed: int) -> bool:
        right = True
        for _ in range(200):
            tensor = pool.lend((seed % 4 + 1, 100), torch.int64)
            tensor.fill_(seed)
            other = pool.lend((seed % 3 + 1, 100), torch.int64).fill_(-seed)
            right &= bool((tensor == seed).all()) and bool((other == -seed).all())
        return right

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(1, 33)))
    assert pool.usage().lent == 0


def test_a_collection_in_the_middle_of_a_loan_does_not_wait_for_itself() -> None:
    """A buffer in a reference cycle comes back whenever the collector runs: maybe while the pool holds its own lock."""
    pool = Pool()

    class Cycle:
        pass

    cycle = Cycle()
    cycle.me, cycle.tensor = cycle, pool.lend((10,), torch.float32)  # type: ignore[attr-defined]
    gone = weakref.ref(cycle)
    del cycle
    with pool._lock:
        gc.collect()
        assert gone() is None
    assert pool.usage().lent == 0


def test_no_memory_left() -> None:
    pool = Pool()
    kept = pool.lend((MB,), torch.float32)
    del kept
    for count in (2**50, 2**62, 2**70):
        with pytest.raises(MemoryError, match="the native kernels could not allocate"):
            pool.lend((count,), torch.float32)
    assert pool.usage().spare == 0  # what was spare was given back first
