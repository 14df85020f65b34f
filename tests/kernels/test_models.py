"""Models on native kernels: they run by themselves, say what plain torch says, and are left out where there is no compiler."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from qtcore import RBM, FactorGraph, GridMRF, kernels
from qtcore.kernels import build as build_kernels

from ..strategies import KINDS, answer, ask, build, close, learnable, randomise, rng
from .support import F32, HAS_KERNEL, Calls, needs_compiler


def gradients(model: Any, query: Any, n: int | None = None) -> dict[str, Tensor]:
    model.zero_grad()
    model.loss(query, n).backward()
    return {name: tensor.grad.clone() for name, tensor in model.named_parameters() if tensor.grad is not None}


def same_gradients(model: Any, query: Any, n: int | None = None, tolerance: float = 1e-9) -> None:
    """With plain torch and with the kernels, relative to the largest gradient of each tensor."""
    with kernels.use("torch"):
        plain = gradients(model, query, n)
    native = gradients(model, query, n)
    assert plain.keys() == native.keys()
    for name, expected in plain.items():
        error = (native[name] - expected).abs().max() / expected.abs().max().clamp_min(1e-30)
        assert float(error) < tolerance, name


@needs_compiler
@pytest.mark.parametrize("dtype", [F32, torch.float64])
def test_a_compiler_is_all_it_takes(dtype: torch.dtype) -> None:
    """An error in the C files would otherwise pass for a machine without a compiler."""
    assert kernels.backend().name == "native"
    assert kernels.usable(torch.zeros(1, dtype=dtype))
    assert not kernels.usable(torch.zeros(1, dtype=torch.float16))
    assert not kernels.usable(torch.zeros(1, dtype=dtype, device="meta"))


@needs_compiler
@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_kernels_are_what_runs(kind: str) -> None:
    model = build(kind)
    query = ask(model)
    with Calls() as calls:
        with kernels.use("torch"):
            model(query)
        assert not calls.names
        model(query)
    assert len(calls.names) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_without_kernels_nothing_changes(kind: str) -> None:
    model = build(kind)
    query = ask(model)
    expected = answer(model(query))
    with kernels.use("torch"), Calls() as calls:
        close(answer(model(query)), expected)
    assert not calls.names


@pytest.mark.parametrize("kind", HAS_KERNEL)
@pytest.mark.parametrize("evidence", ["hard", "mixed", "none"])
def test_gradients_are_those_of_the_plain_layers(kind: str, evidence: str) -> None:
    """For any number of layers: the Gaussian RBM remakes its messages in segments, and where the last one was shorter it
    once began at the wrong layer."""
    model = build(kind, 3)
    query = ask(model, 4, evidence, batch=5)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 17):
        same_gradients(model, query, n)


@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_threads_share_a_batch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven samples for three threads: the same answers to the last bit, gradients up to the order of sums."""
    model = build(kind, 5)
    query = ask(model, 6, "hard", batch=7)
    alone, alone_gradients = answer(model(query)), gradients(model, query)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(answer(model(query)), alone)
    for name, tensor in gradients(model, query).items():
        close(tensor, alone_gradients[name], 1e-12)


@needs_compiler
@pytest.mark.parametrize("kind", ["PairwiseMRF", "FactorGraph"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_layers_of_factor_graphs_are_the_plain_ones(kind: str, temperature: float) -> None:
    """Visible and hidden marginals and residuals of each layer, also at several depths at once."""
    model = build(kind, 3, damping=0.2, temperature=temperature)
    query = ask(model, 4, "mixed", batch=3)
    with Calls() as calls:
        native = list(model.trace(query, 6))
        at_depths = model.engine.run_depths(model, query, [1, 3, 6])
    assert calls.names == ["factor_trace", "factor_layers"]
    plain = list(model.layers(query, 6))
    for ours, theirs in zip(native, plain, strict=True):
        close(ours.marginals.probs, theirs.marginals.probs, 1e-12)
        close(ours.hidden.probs, theirs.hidden.probs, 1e-12)
        close(ours.residual, theirs.residual, 1e-12)
    for depth, marginals in zip((1, 3, 6), at_depths, strict=True):
        close(marginals.probs, plain[depth].marginals.probs, 1e-12)


@needs_compiler
def test_factors_that_the_kernel_cannot_take() -> None:
    """Zeros, steep tables, maxima, large tables, tables of many axes: plain torch, as ever."""
    steep, zero = torch.tensor([[0.0, 90.0], [0.0, 0.0]]), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    for table, scope, options in (
        (steep, (0, 1), {}),
        (zero, (0, 1), {}),
        (torch.eye(2), (0, 1), {"temperature": 0.0}),
        (torch.zeros([2] * 9), tuple(range(9)), {}),
        (torch.zeros([2] * 8), tuple(range(8)), {}),
    ):
        model = FactorGraph([2] * 9, {"factor": table}, [("factor", scope)], **options)
        with Calls() as calls:
            model(ask(model, 1, "none"))
        assert len(calls.names) == (1 if table.dim() == 8 else 0)
    model = FactorGraph([65, 64], {"factor": [65, 64]}, [("factor", (0, 1))])
    with Calls() as calls:
        model(model.query({}))
    assert not calls.names


# ---------------------------------------------------------------------------------------------------------------------
# Precision


def in_double(model: Any) -> Any:
    other = type(model)(**model.config(), dtype=torch.float64)
    other.load_state_dict(model.state_dict())
    return other


def test_grid_gradients_do_not_drown_in_rounding() -> None:
    """The sum of a log-message's gradient over its states is 0 but for rounding. Each layer copies a message into seven
    others, and so multiplied that error by 7: after 15 layers in float32 it was larger than the gradient."""
    model = randomise(GridMRF(4, 5, clones=(3, 1, 1), n_layers=15, dtype=F32), 0)
    query = ask(model, 1, "hard", batch=2)
    exact = gradients(in_double(model), query)
    result = gradients(model, query)
    for name, expected in exact.items():
        close(result[name].double(), expected, 1e-5)


def test_gradients_of_factor_graphs_do_not_drown_in_rounding() -> None:
    """Likewise, where variables have many factors."""
    n = 12
    scopes = [(i, j) for i in range(n) for j in range(i)]
    model = randomise(FactorGraph([3] * n, {"edge": [len(scopes), 3, 3]}, [("edge", scopes)], n_layers=15, dtype=F32), 0, 0.3)
    query = ask(model, 1, "hard", batch=2)
    double = FactorGraph(**model.config(), dtype=torch.float64)
    double.load_state_dict(model.state_dict())
    for backend in ("torch", "auto"):
        with kernels.use(backend):
            expected, result = gradients(double, query), gradients(model, query)
        close(result["tables.edge"].double(), expected["tables.edge"], 1e-5)


@pytest.fixture
def medium() -> Iterator[None]:
    """torch may round the factors of matrix products."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@needs_compiler
@pytest.mark.parametrize("clones", [(3, 1, 1), (4, 1, 1), (64, 1, 1), (74, 2, 1)], ids=str)
def test_rounded_products_are_nearly_right(clones: tuple[int, int, int], medium: None) -> None:
    """Factors of 8 bits, where the processor has such products: an error of 2⁻⁹ in each. Odd and even numbers of states and
    pixels, one and several blocks. Small gradients are left out on every processor."""
    for height, width in ((4, 5), (3, 8)):
        model = randomise(GridMRF(height, width, clones=clones, n_layers=6, dtype=F32), 0, 0.5)
        query = ask(model, 1, "hard", batch=2)
        double = in_double(model)
        assert kernels.rounds(F32)
        assert not kernels.rounds(torch.float64)
        exact, expected = double(query).probs.detach(), gradients(double, query)
        error = (model(query).probs.detach() - exact).abs().max()
        least, most = (1e-6, 2e-2) if build_kernels.library(F32).can_round else (0, 1e-4)
        assert least < error < most
        for name, tensor in gradients(model, query).items():
            assert (tensor - expected[name]).norm() < 0.05 * expected[name].norm()
        torch.set_float32_matmul_precision("highest")
        close(model(query).probs.double(), exact, 1e-4)
        torch.set_float32_matmul_precision("medium")


@needs_compiler
@pytest.mark.parametrize("dtype", [F32, torch.float64])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_messages_that_have_settled_stay(dtype: torch.dtype, damping: float) -> None:
    """They are not computed again, so that in the end nothing changes at all; and they are those of plain torch."""
    model = randomise(GridMRF(6, 7, clones=(3, 1, 1), n_layers=200, damping=damping, dtype=dtype), 3, 0.4)
    query = ask(model, 5, "hard", batch=3)
    kept = list(model.trace(query))
    with kernels.use("torch"):
        expected = list(copy.deepcopy(model).double().trace(query))
    residuals = torch.stack([layer.residual for layer in kept])
    assert bool((residuals[1:4] > 0).all())  # of the first, nothing is known before
    assert bool((residuals[-1] == 0).all())
    tolerance = 1e-4 if dtype == F32 else 1e-10
    for layer, other in zip(kept, expected, strict=True):
        close(layer.marginals.probs.double(), other.marginals.probs, tolerance)
    with kernels.use("torch"):
        slopes = gradients(copy.deepcopy(model).double(), query, 60)
    for name, tensor in gradients(model, query, 60).items():
        close(tensor.double(), slopes[name], tolerance * float(slopes[name].abs().max()))


@pytest.mark.parametrize("extent", [20.0, 40.0, 50.0, 59.0])
def test_steep_grid_potentials_lose_no_states(extent: float) -> None:
    """Float32 drops a state 1e-38 times as likely as another; a potential of range e^50 then missed it. (The answers were
    off by 1.) Single precision cannot do better here than about 1e-7 times the size of the sums that it takes."""
    for seed in range(8):
        model = GridMRF(4, 5, clones=(3, 1, 1), dtype=F32)
        generator = rng(seed)
        with torch.no_grad():
            for table in learnable(model).values():
                table.copy_(extent * torch.rand(5, 5, generator=generator))
        query = ask(model, seed, "hard", batch=2)
        expected = in_double(model)(query).probs
        error = float((model(query).probs - expected).detach().abs().max())
        assert error < 2e-3
        with kernels.use("torch"):
            plain = float((model(query).probs - expected).detach().abs().max())
        assert error < 10 * max(plain, 1e-6)


@pytest.mark.parametrize("size", [5.0, 15.0, 19.9, 25.0, 35.0, 39.0, 100.0])
@pytest.mark.parametrize("n", [4, 5])
def test_gradients_of_large_binary_weights(size: float, n: int) -> None:
    """Products of three odds e^w overflow float32 beyond w = 29: the gradients were wrong there, and NaN beyond 33."""
    for seed in range(4):
        model = RBM(7, 6, dtype=F32)
        with torch.no_grad():
            model.W.copy_(size * torch.randn(6, 7, generator=rng(seed)).sign())
            model.c_v.copy_(size * torch.randn(7, generator=rng(seed + 10)))
            model.c_h.copy_(size * torch.randn(6, generator=rng(seed + 20)))
        query = ask(model, seed, "hard")
        exact = gradients(in_double(model), query, n)
        result = gradients(model, query, n)
        for name, expected in exact.items():
            close(result[name].double(), expected, 2e-4)


# ---------------------------------------------------------------------------------------------------------------------
# Buffers that are used again


@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_several_graphs_at_once(kind: str) -> None:
    """Forward, forward, then both backward passes, with an inference in between."""
    model = build(kind, 7, n_layers=3)
    queries = [ask(model, seed, batch=3) for seed in (1, 2, 3)]
    expected = [gradients(model, query) for query in queries[:2]]
    losses = [model.loss(query) for query in queries[:2]]
    with torch.no_grad():
        model(queries[2])
    for loss, gradient in zip(losses, expected, strict=True):
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            model(queries[2])
        for name, tensor in gradient.items():
            close(model.get_parameter(name).grad, tensor)


@needs_compiler
@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_a_second_backward_pass_is_right(kind: str) -> None:
    """Messages kept for the backward pass lie in a buffer that the next forward pass must not take over: once it did, and
    a third pass had to be refused."""
    model = build(kind, 7, n_layers=3)
    parameters = list(learnable(model).values())
    loss = model.loss(ask(model, 1))
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    second = torch.autograd.grad(loss, parameters, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    for seed in (2, 3):
        gradients(model, ask(model, seed))
    third = torch.autograd.grad(loss, parameters)
    assert all(torch.equal(a, b) for a, b in zip(first, third, strict=True))


@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_training_after_inference_mode(kind: str) -> None:
    """A tensor made in inference mode cannot be kept for a backward pass, and must not be handed on to one."""
    model = build(kind, 7, n_layers=1)
    query = ask(model, 1)
    with torch.inference_mode():
        inside = answer(model(query)).clone()
    close(answer(model(query)), inside, 1e-12)
    gradients(model, query)


@needs_compiler
@pytest.mark.parametrize("evidence", ["hard", "mixed", "none"])
@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_damped_layers_have_kernels_too(kind: str, evidence: str) -> None:
    model = build(kind, 3, damping=0.35)
    query = ask(model, 4, evidence, batch=5)
    for n in (1, 2, 5, 8):
        with kernels.use("torch"):
            expected = answer(model(query, n))
        with Calls() as calls:
            close(answer(model(query, n)), expected)
        assert len(calls.names) == 1
        same_gradients(model, query, n)
