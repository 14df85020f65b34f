"""`trace` shows what `layers` shows."""

from typing import Any

import pytest
import torch

import qtcore
from qtcore import kernels
from qtcore.query import Query


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weights", ["hard", "soft", "nothing seen", "all seen"])
@pytest.mark.parametrize("scale", [0.3, 3.0])
@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_gaussian_rbm(dtype: torch.dtype, weights: str, scale: float, damping: float) -> None:
    generator = torch.Generator().manual_seed(3)
    model = qtcore.GaussianRBM(19, 11, n_layers=9, damping=damping, dtype=dtype)
    for parameter in (model.W, model.b, model.c):
        parameter.data.normal_(0, scale, generator=generator)
    observed = {
        "hard": (torch.rand(3, 19, generator=generator) > 0.5).to(dtype),
        "soft": torch.rand(3, 19, generator=generator, dtype=dtype).mul(2).clamp_max(1),
        "nothing seen": torch.zeros(3, 19, dtype=dtype),
        "all seen": torch.ones(3, 19, dtype=dtype),
    }[weights]
    query = Query(torch.randn(3, 19, generator=generator, dtype=dtype), observed)
    with torch.no_grad():
        slow, fast = list(model.layers(query)), list(model.trace(query))
    assert [layer.index for layer in fast] == list(range(10))
    if kernels.usable(model.W):
        assert not fast[-1].messages  # it was the native kernel
    tolerance = {"rtol": 1e-3, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-8, "atol": 1e-9}
    for a, b in zip(slow, fast, strict=True):
        torch.testing.assert_close(b.marginals.mean, a.marginals.mean, **tolerance)
        torch.testing.assert_close(b.marginals.stddev, a.marginals.stddev, **tolerance)
        torch.testing.assert_close(b.hidden.logits, a.hidden.logits, **tolerance)  # type: ignore[attr-defined]
        atol = 20 * tolerance["atol"]  # differences of large messages
        torch.testing.assert_close(b.residual, a.residual, rtol=tolerance["rtol"], atol=atol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("clones", [(9, 1, 1), (2, 1, 1)])
def test_grid(dtype: torch.dtype, own: bool, damping: float, clones: tuple[int, int, int]) -> None:
    generator = torch.Generator().manual_seed(4)
    model = qtcore.GridMRF(5, 4, clones, n_layers=7, local_evidence=own, damping=damping, dtype=dtype)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(0, 1.5, generator=generator)
    values = (torch.rand(3, 5, 4, generator=generator) < 0.3).to(dtype)
    query = Query(values, torch.rand(3, 5, 4, generator=generator, dtype=dtype).mul(2).clamp_max(1))
    with torch.no_grad():
        slow, fast = list(model.layers(query)), list(model.trace(query))
    assert [layer.index for layer in fast] == list(range(8))
    if kernels.usable(next(model.parameters())):
        assert not fast[-1].messages  # it was the native kernel
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    for a, b in zip(slow, fast, strict=True):
        torch.testing.assert_close(b.marginals.probs, a.marginals.probs, **tolerance)  # type: ignore[attr-defined]
        torch.testing.assert_close(b.hidden.probs, a.hidden.probs, **tolerance)  # type: ignore[attr-defined]
        torch.testing.assert_close(b.residual, a.residual, rtol=tolerance["rtol"], atol=10 * tolerance["atol"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("damping", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["rbm", "dbm"])
def test_binary(kind: str, damping: float, temperature: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    options = {"n_layers": 9, "temperature": temperature, "damping": damping, "dtype": dtype}
    model: Any = qtcore.RBM(19, 11, **options) if kind == "rbm" else qtcore.DBM(19, 11, 6, **options)  # type: ignore[arg-type]
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(0, 1.5, generator=generator)
    values = (torch.rand(4, 19, generator=generator) < 0.5).to(dtype)
    weights = torch.rand(4, 19, generator=generator, dtype=dtype).mul(2).clamp_max(1) * torch.tensor([[0], [1], [1], [1]])
    query = Query(values, weights)
    with torch.no_grad():
        slow, fast = list(model.layers(query)), list(model.trace(query))
    assert [layer.index for layer in fast] == list(range(10))
    if kernels.usable(next(model.parameters())):
        assert not fast[-1].messages  # it was the native kernel
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    for a, b in zip(slow, fast, strict=True):
        torch.testing.assert_close(b.marginals.logits, a.marginals.logits, **tolerance)  # type: ignore[attr-defined]
        torch.testing.assert_close(b.hidden.logits, a.hidden.logits, **tolerance)  # type: ignore[attr-defined]
        torch.testing.assert_close(b.residual, a.residual, rtol=tolerance["rtol"], atol=10 * tolerance["atol"])


def test_other_models_and_settings_fall_back() -> None:
    values = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    for model in (
        qtcore.RBM(4, 3, temperature=0.0),
        qtcore.GaussianRBM(4, 3, schedule="flooding"),
    ):
        query = Query(values, torch.tensor([[True, False, True, False]]))
        with torch.no_grad():
            for a, b in zip(model.layers(query, 4), model.trace(query, 4), strict=True):
                assert a.messages.keys() == b.messages.keys()
                torch.testing.assert_close(a.marginals.mean, b.marginals.mean)


def test_no_layers_are_the_unaries() -> None:
    model = qtcore.GaussianRBM(4, 3)
    query = Query(torch.zeros(1, 4), torch.zeros(1, 4))
    assert len(list(model.trace(query, 0))) == 1
