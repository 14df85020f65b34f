"""Leaving clamped variables out and putting the others back."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from qtcore.inference.bp.compact import compact

from ...strategies import normal, rng, seeds


@given(st.integers(1, 4), st.integers(1, 6), st.sampled_from([0.0, 0.5, 1.0]), seeds)
def test_free_variables_to_the_left_and_back(batch: int, V: int, p: float, seed: int) -> None:
    free = torch.rand(batch, V, generator=rng(seed)) < p
    places = compact(free)
    full, W = normal(seed, batch, V), normal(seed + 1, 3, V)
    part, weights = places.gather(full), places.columns(W)
    assert places.count.tolist() == free.sum(1).tolist()
    assert part.shape[1] == int(free.sum(1).max())
    for b in range(batch):
        n = int(places.count[b])
        assert torch.equal(part[b, :n], full[b, free[b]])
        assert torch.equal(weights[b, :, :n], W[:, free[b]])
        assert not weights[b, :, n:].any()
    changed = places.put(full, part + 1)
    assert torch.equal(changed, torch.where(free, full + 1, full))
