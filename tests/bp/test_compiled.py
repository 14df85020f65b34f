"""torch.compile, where machine code of our own cannot go: the same answers, and the layer as it is when compiling fails."""

import shutil
from typing import Any

import pytest
import torch

from qtcore.bp import binary, native
from qtcore.bp.compiled import compiled

from ..strategies import ask, build, close


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.filterwarnings("ignore")  # an error of torch inside its own compiler would pass for a missing one
def test_torch_compile_of_a_layer_says_what_the_layer_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_library", lambda dtype: None)
    monkeypatch.setattr(binary, "torch_compiled", compiled)
    model = build("RBM", 1, n_layers=1)  # a layer more would be compiled once more
    query = ask(model, 2, "hard")
    expected = model.loss(query)
    expected.backward()
    gradient = model.c_h.grad.clone()
    model.zero_grad()
    found = model.compile_layers().loss(query)
    found.backward()
    close(found, expected)
    close(model.c_h.grad, gradient)
    assert torch._dynamo.utils.counters["frames"]["ok"] > 0  # it was compiled, not run as it is


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

    def double(x: int) -> int:
        return 2 * x

    call = compiled(double)
    assert [call(1), call(2), call(3)] == [2, 4, 6]
    assert len(made[0].calls) == 1
    assert compiled(double) is call


def test_an_error_of_the_layer_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", broken(ValueError("shapes differ")))
    with pytest.raises(ValueError, match="shapes differ"):
        compiled(lambda x: x)(1)
