"""Memory for the kernels, used again: getting hundreds of megabytes from the system costs as much as a layer.

A buffer is a tensor like any other; when the last reference to it is gone, its memory comes back here. So two graphs, two
threads or two backward passes never share one. Everything that the kernels allocate besides their results is lent here,
which makes it countable: the C code allocates nothing.
"""

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ALIGNMENT = 64
"""Buffers begin at a multiple of this, a cache line."""

SPARE_LIMIT = 2 * 2**30
"""Bytes kept for the next call, at most: the messages of a training step of the paper's grid with 50 images."""

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64, torch.int32: np.int32}


@dataclass(frozen=True)
class Usage:
    """Bytes that are lent now, the most that were lent at once since `reset_peak`, and bytes kept for the next call."""

    lent: int
    peak: int
    spare: int


class Pool:
    """Blocks of memory, lent as tensors."""

    def __init__(self, limit: int = SPARE_LIMIT) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._spare: list[np.ndarray] = []  # oldest first
        self._returned: deque[np.ndarray] = deque()  # by finalisers, which may run anywhere and so must not wait for a lock
        self._lent = 0
        self._peak = 0

    def lend(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """An uninitialised tensor."""
        size = max(1, math.prod(shape)) * dtype.itemsize
        with self._lock:
            if self._returned:
                self._collect()
            block = self._take(size)
            self._lent += len(block)
            self._peak = max(self._peak, self._lent)
        array = np.ndarray(shape, _NUMPY[dtype], block)
        weakref.finalize(array, self._returned.append, block)
        return torch.from_numpy(array)  # holds the array for as long as anything uses its memory

    def usage(self) -> Usage:
        with self._lock:
            self._collect()
            return Usage(self._lent, self._peak, sum(map(len, self._spare)))

    def reset_peak(self) -> None:
        with self._lock:
            self._collect()
            self._peak = self._lent

    def clear(self) -> None:
        """Give what is spare back to the system."""
        with self._lock:
            self._collect()
            self._spare.clear()

    def after_fork(self) -> None:
        """In a child process: a lock that another thread held would be held for good."""
        self._lock = threading.Lock()

    def _collect(self) -> None:
        """What came back becomes spare; the oldest goes when that is too much."""
        while self._returned:
            block = self._returned.popleft()
            self._lent -= len(block)
            self._spare.append(block)
        while sum(map(len, self._spare)) > self.limit:
            self._spare.pop(0)

    def _take(self, size: int) -> np.ndarray:
        """The smallest spare block that is large enough and not wasteful, else a new one."""
        best, best_size = -1, 2 * size + 4096
        for i, block in enumerate(self._spare):
            if size <= len(block) <= best_size:
                best, best_size = i, len(block)
        if best >= 0:
            return self._spare.pop(best)
        try:
            return _aligned(size)
        except (MemoryError, ValueError):  # the latter for more bytes than there are addresses
            self._spare.clear()
        try:
            return _aligned(size)
        except (MemoryError, ValueError) as error:
            raise MemoryError(f"the native kernels could not allocate {size} bytes of memory.") from error


def _aligned(size: int) -> np.ndarray:
    """So many new bytes."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


pool = Pool()
lend, usage, reset_peak, clear = pool.lend, pool.usage, pool.reset_peak, pool.clear
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.after_fork)
