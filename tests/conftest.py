"""What all tests share: how Hypothesis draws, one thread, and which tests are slow."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

# The tensors here are tiny: on a busy machine a second thread costs a hundred times what it saves. Before torch is
# imported, and for all processes that tests start: each worker of pytest-xdist should need one core.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import HealthCheck, settings

# Drawn anew from the same seed in every run, so that a failure is there again tomorrow.
settings.register_profile(
    "qtcore", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("check", settings.get_profile("qtcore"), max_examples=2)
settings.load_profile("qtcore")

torch.set_num_threads(1)

HERE = Path(__file__).parent
BROWSER = HERE / "ui"
SLOW_FILES = {"test_memory.py", "test_torch_compile.py"}
"""Slow as a whole, besides those that say so themselves, the browser tests and the notebooks: memory, and torch.compile."""

FIRST = (
    "test_types.py",
    "ui/test_shell.py",
    "ui/test_faces.py",
    "test_reproduce.py",
    "ui/test_lab.py",
    "ui/test_digits.py",
    "ui/test_contours.py",
    "ui/test_jupyter.py",
    "app/test_memory.py",
)
"""The longest files, longest first: two workers end at about the same time if what is left at last is short."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:  # before they are chosen by their marks
        if BROWSER in item.path.parents or item.path.name in SLOW_FILES or item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.slow)
    yield
    order = {HERE / name: place for place, name in enumerate(FIRST)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (order.get(item.path, len(order)), item.path not in slow))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _no_loop(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _no_loop(item):
        return (yield)


class _no_loop:
    """Playwright keeps a loop running for as long as there is a browser. The tests without one should not see it: what
    they test asks whether a loop is running, and they start loops of their own."""

    def __init__(self, item: pytest.Item) -> None:
        self.hide = BROWSER not in item.path.parents

    def __enter__(self) -> None:
        self.loop = asyncio._get_running_loop()
        if self.hide:
            asyncio._set_running_loop(None)

    def __exit__(self, *_: object) -> None:
        if self.hide:
            asyncio._set_running_loop(self.loop)
