"""Inference keeps two layers of messages, however many there are, and leaves nothing behind."""

import sys
from pathlib import Path

import pytest
import torch

from qtcore import DBM, RBM, GaussianRBM, GridMRF, PairwiseMRF, Query
from qtcore.bench import _resident, alone
from qtcore.models.base import Model
from qtcore.query import uniform

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self")
MB = 2**20
KINDS = ("rbm", "dbm", "grbm", "grid", "pairwise")


def case(kind: str) -> tuple[Model, Query, int]:
    """A model, a query, and about how many bytes one layer's messages have: a few megabytes."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    bits = (torch.rand(200, 100, generator=generator) < 0.3).float()
    if kind == "rbm":
        return RBM(100, 60), uniform()(bits, generator), 200 * 50 * 60 * 4
    if kind == "dbm":
        return DBM(100, 60, 60), uniform()(bits, generator), 200 * (50 + 60) * 60 * 4
    if kind == "grbm":
        return GaussianRBM(100, 60), uniform()(torch.randn(200, 100, generator=generator), generator), 2 * 200 * 50 * 60 * 4
    if kind == "grid":
        noisy = (torch.rand(8, 20, 20, generator=generator) < 0.2).float()
        return GridMRF(20, 20, (30, 1, 1)), Query(noisy, torch.ones_like(noisy)), 8 * 400 * 8 * 32 * 4
    edges = [(i, (i + step) % 100) for i in range(100) for step in (1, 7)]
    return PairwiseMRF([4] * 100, edges), uniform()(bits, generator), 200 * 2 * 200 * 4 * 4


def peak(model: Model, query: Query, layers: int) -> int:
    """By how much so many layers raise the resident memory of this process."""
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    model(query, layers)
    for _ in model.layers(query, layers):
        pass
    return _resident("VmHWM") - before


def measure(kind: str) -> tuple[dict[bool, tuple[int, int]], int, int]:
    """Peaks of 4 and 40 layers, compiled and not; one layer's bytes; growth over 60 queries, after 20 to warm up."""
    torch.set_num_threads(1)
    model, query, layer = case(kind)
    peaks = {}
    with torch.inference_mode():
        for compiled in (True, False):
            model.compiled = compiled
            model(query, 2)
            peaks[compiled] = peak(model, query, 4), peak(model, query, 40)
        model.compiled = True
        for i in range(80):
            model(query[: 5 + i % 3], 4)
            if i == 19:
                before = _resident("VmRSS")
    return peaks, layer, _resident("VmRSS") - before


@pytest.mark.parametrize("kind", KINDS)
def test_memory(kind: str) -> None:
    peaks, layer, left = alone(measure, kind)
    assert layer > MB
    for few, many in peaks.values():  # 36 more layers kept would take 36 times as much
        assert many < few + 24 * layer, f"{many / MB:.0f} MB for 40 layers, {few / MB:.0f} MB for 4, {layer / MB:.1f} MB each"
    assert left < 8 * MB
