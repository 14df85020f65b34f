"""Small tensor helpers."""

import torch

from qtcore.support.tensors import normal


def test_normal_numbers_are_those_of_randn() -> None:
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(3)
        result = normal(5, 7, scale=0.1, dtype=dtype)
        torch.manual_seed(3)
        assert torch.equal(result, 0.1 * torch.randn(5, 7, dtype=dtype))


def test_normal_numbers_on_meta_are_a_shape() -> None:
    with torch.device("meta"):
        result = normal(5, 7)
    assert (result.device.type, tuple(result.shape)) == ("meta", (5, 7))
