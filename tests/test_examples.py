"""The examples in docstrings: all of them run, and everything public has one."""

import doctest
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import qtcore
from qtcore import exact, metrics, query

ROOT = Path(qtcore.__file__).parent
MODULES = sorted(
    ".".join(("qtcore", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
PUBLIC: dict[str, Any] = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module, names in (
        (qtcore, [name for name in qtcore.__all__ if name != "exact"]),  # a module
        (query, query.__all__),
        (exact, ("marginals", "hidden_marginals", "most_probable", "log_z", "log_likelihood")),
        (metrics, ("nce", "iou")),
    )
    for name in names
}


def examples_of(module: ModuleType) -> list[doctest.DocTest]:
    return [test for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    for test in examples_of(importlib.import_module(name)):
        said: list[str] = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        assert not result.failed, "".join(said)


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_has_an_example(name: str) -> None:
    assert ">>> " in (PUBLIC[name].__doc__ or "")
