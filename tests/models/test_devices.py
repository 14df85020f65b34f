"""No CPU tensor slips in: inference on a fake CUDA device, and the backward pass on the device "meta", which has no numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from qtcore import DBM, RBM, FactorGraph, GaussianRBM, GridMRF, PairwiseMRF, Query
from qtcore.inference import Layer
from qtcore.models.base import TemperedModel

from ..strategies import KINDS, answer, backends

SIZES: dict[str, Any] = {
    "RBM": (RBM, (5, 4), {}),
    "DBM": (DBM, (5, 4, 3), {}),
    "GaussianRBM": (GaussianRBM, (5, 4), {}),
    "GridMRF": (GridMRF, (3, 4), {"clones": (2, 1, 1)}),
    "PairwiseMRF": (PairwiseMRF, ((2, 3, 2, 4), [(0, 1), (1, 2), (2, 3)]), {"hidden": (1,)}),
    "FactorGraph": (
        FactorGraph,
        ((2, 3, 2, 4), {"edge": [2, 3], "three": [3, 2, 4], "bias": [4]}),
        {"factors": [("edge", [(0, 1), (2, 1)]), ("three", (1, 2, 3)), ("bias", (3,))], "hidden": (1,)},
    ),
}
SAMPLE = {"RBM": (5,), "DBM": (5,), "GaussianRBM": (5,), "GridMRF": (3, 4), "PairwiseMRF": (3,), "FactorGraph": (3,)}


class WithoutGuards(TorchFunctionMode):
    """Indexing and ~ ask for the guard of their device, which a CPU build of torch does not have for CUDA, not even for
    fake tensors. Here they are spelled with operators that do not ask."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__invert__:
            return torch.bitwise_not(*args)
        if func is Tensor.__getitem__:
            return index(*args)
        return func(*args, **(kwargs or {}))


def index(tensor: Tensor, key: Any) -> Tensor:
    """tensor[key], one axis after the other."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        place = next(i for i, k in enumerate(keys) if k is Ellipsis)
        used = sum(k is not None and k is not Ellipsis for k in keys)
        keys[place : place + 1] = [slice(None)] * (tensor.dim() - used)
    axis, tensors = 0, []
    for k in keys:
        if k is None:
            tensor = tensor.unsqueeze(axis)
        elif isinstance(k, slice):
            tensor = torch.ops.aten.slice(tensor, axis, k.start, k.stop, k.step or 1)
        elif isinstance(k, Tensor):
            tensors += [None] * (axis - len(tensors)) + [k]
        else:
            tensor, axis = tensor.select(axis, k), axis - 1
        axis += 1
    return torch.ops.aten.index(tensor, tensors) if tensors else tensor


@contextmanager
def fake_cuda() -> Iterator[None]:
    """As on a machine with a GPU, but for the numbers: an operation that meets a CPU tensor fails."""
    with FakeTensorMode(), torch.no_grad(), WithoutGuards():
        yield


def test_indexing_without_guards_is_indexing() -> None:
    x, which = torch.arange(24).view(2, 3, 4), torch.tensor([1, 0])
    keys: list[Any] = [0, slice(1, 2), (..., None), (slice(None), None, 1), (0, ..., slice(1, 3)), which, (slice(None), which)]
    for key in (*keys, (..., which)):
        assert torch.equal(index(x, key), x[key])


def make(kind: str, **options: Any) -> Any:
    cls, sizes, more = SIZES[kind]
    return cls(*sizes, n_layers=2, **more, **options)


def question(kind: str, device: str, soft: bool) -> Query:
    shape = (2, *SAMPLE[kind])
    observed = torch.zeros(shape, device=device) if soft else torch.zeros(shape, device=device, dtype=torch.bool)
    return Query(torch.zeros(shape, device=device), observed, truth=torch.zeros(shape, device=device))


def tensors_of(layer: Layer) -> list[Tensor]:
    return [answer(layer.marginals), answer(layer.hidden), layer.residual, *layer.messages.values(), *layer.info.values()]


@pytest.mark.parametrize(
    ("how", "soft", "damping", "temperature"),
    [("argument", False, 0.0, 1.0), ("context", True, 0.2, 1.0), ("argument", True, 0.0, 0.0)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_inference_stays_on_cuda(kind: str, how: str, soft: bool, damping: float, temperature: float) -> None:
    options: dict[str, Any] = {"damping": damping}
    if issubclass(SIZES[kind][0], TemperedModel):
        options["temperature"] = temperature
    with fake_cuda():
        if how == "argument":
            model = make(kind, device="cuda", **options)
        else:
            with torch.device("cuda"):
                model = make(kind, **options)
        assert {tensor.device.type for tensor in model.state_dict().values()} == {"cuda"}
        assert {buffer.device.type for buffer in model.buffers()} <= {"cuda"}
        query = question(kind, "cuda", soft)
        for _ in backends():  # native kernels are for the CPU
            assert answer(model(query)).device.type == "cuda"
            assert model.loss(query).device.type == "cuda"
        for layer in model.layers(query):
            assert {tensor.device.type for tensor in tensors_of(layer)} == {"cuda"}


@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
def test_both_schedules_stay_on_cuda(schedule: Any) -> None:
    with fake_cuda():
        model = make("GaussianRBM", device="cuda", schedule=schedule)
        assert answer(model(question("GaussianRBM", "cuda", True))).device.type == "cuda"


def test_likelihoods_stay_on_cuda() -> None:
    with fake_cuda():
        model = make("PairwiseMRF", device="cuda")
        query = Query(torch.ones(2, 3, 4, device="cuda"), torch.ones(2, 3, device="cuda"))
        assert answer(model(query)).device.type == "cuda"


@pytest.mark.parametrize("name", ["W", "c_v", "c_h", "T"])
def test_a_cpu_tensor_would_be_noticed(name: str) -> None:
    """The stand-in itself: a single parameter left behind on the CPU stops the inference."""
    with fake_cuda():
        model = make("RBM", device="cuda")
        left = torch.nn.Parameter(torch.zeros(model.get_parameter(name).shape[:1] or (1,)))
        setattr(model, name, left if name != "W" else torch.nn.Parameter(torch.zeros(4, 5)))
        model.__class__ = type("RBM", (RBM,), {"device": torch.device("cuda:0")})
        with pytest.raises(RuntimeError, match="device"):
            model(question("RBM", "cuda", False))


@pytest.mark.parametrize("learn_temperature", [False, True])
@pytest.mark.parametrize("damping", [0.0, 0.2])
@pytest.mark.parametrize("kind", KINDS)
def test_backward_on_meta(kind: str, damping: float, learn_temperature: bool) -> None:
    options: dict[str, Any] = {"damping": damping}
    if issubclass(SIZES[kind][0], TemperedModel):
        options["learn_temperature"] = learn_temperature
    model = make(kind, device="meta", **options)
    for soft in (False, True):
        model.zero_grad()
        loss = model.loss(question(kind, "meta", soft))
        assert loss.device.type == "meta"
        loss.backward()
        for parameter in model.parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None
                assert parameter.grad.device.type == "meta"
                assert parameter.grad.shape == parameter.shape


@pytest.mark.parametrize("kind", KINDS)
def test_module_and_query_move(kind: str) -> None:
    """model.to and query.to: buffers and all."""
    model, query = make(kind), question(kind, "cpu", True)
    model.to("meta")
    assert model.device.type == "meta"
    assert query.to("meta").device.type == "meta"
    assert answer(model(query.to(model.device))).device.type == "meta"
    assert {tensor.device.type for layer in model.layers(query.to("meta")) for tensor in tensors_of(layer)} == {"meta"}
