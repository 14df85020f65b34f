"""torch.compile, where native kernels cannot go: the same answers, and the layer as it is when compiling fails."""

import shutil
from typing import Any

import pytest
import torch

from qtcore import kernels
from qtcore.inference.bp.torch_compile import with_torch_compile

from ...strategies import ask, build, close


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["RBM", "GaussianRBM", "GridMRF"])
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.filterwarnings("ignore")  # an error of torch inside its own compiler would pass for a missing one
def test_torch_compile_of_a_layer_says_what_the_layer_says(kind: str) -> None:
    model = build(kind, 1, n_layers=1)  # a layer more would be compiled once more
    query = ask(model, 2, "hard")
    with kernels.use("torch"):
        expected = model.loss(query)
        expected.backward()
        gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        before = torch._dynamo.utils.counters["frames"]["ok"]
        result = model.compile_layers().loss(query)
        result.backward()
    close(result, expected)
    for name, parameter in model.named_parameters():
        if name in gradients:
            close(parameter.grad, gradients[name])
    assert torch._dynamo.utils.counters["frames"]["ok"] > before  # it was compiled, not run as it is


@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize(("kind", "versions"), [("RBM", 2), ("DBM", 2), ("GaussianRBM", 1), ("GridMRF", 1)])
def test_one_version_of_a_layer_serves_all_depths_and_batches(
    kind: str, versions: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In the binary models one for each direction; and one more of each without gradients. (A batch of the size of another
    axis may have its own.)"""
    compiled = []

    def count(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda function, **options: original(function, backend=count, **options))
    with_torch_compile.cache_clear()
    torch._dynamo.reset()
    request.addfinalizer(with_torch_compile.cache_clear)
    request.addfinalizer(torch._dynamo.reset)
    model = build(kind).compile_layers()
    counts = []
    with kernels.use("torch"):
        for depth, batch in ((2, 11), (5, 11), (3, 7), (12, 13)):
            model.loss(ask(model, batch=batch), depth).backward()
            counts.append(len(compiled))
        for depth, batch in ((2, 8), (7, 11)):
            with torch.inference_mode():
                model(ask(model, batch=batch), depth)
            counts.append(len(compiled))
    assert counts == [versions] * 4 + [2 * versions] * 2


def broken(error: Exception) -> Any:
    """A torch.compile whose functions fail when they are called."""

    def compile(function: Any, **options: Any) -> Any:
        def call(*args: Any) -> Any:
            calls.append(args)
            raise error

        calls: list[Any] = []
        call.calls = calls  # type: ignore[attr-defined]
        return call

    return compile


def test_a_compiler_that_fails_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def compile(function: Any, **options: Any) -> Any:
        made.append(broken(torch._dynamo.exc.InternalTorchDynamoError("no compiler"))(function))
        return made[-1]

    monkeypatch.setattr(torch, "compile", compile)

    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    call = with_torch_compile(double)
    assert [float(call(torch.tensor(x))) for x in (1, 2, 3)] == [2, 4, 6]
    assert len(made[0].calls) == 1
    assert with_torch_compile(double) is call


def test_an_error_of_the_layer_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", broken(ValueError("shapes differ")))
    with pytest.raises(ValueError, match="shapes differ"):
        with_torch_compile(lambda x: x)(torch.ones(1))
