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
    "tests/ui/test_shell.py",
    "tests/test_reproduce.py",
    "tests/test_types.py",
    "tests/ui/test_faces.py",
    "tests/models/test_extremes.py",
    "notebooks/06_the_models_of_the_paper.ipynb",
    "tests/ui/test_lab.py",
    "tests/data",
    "tests/learn/test_kill.py",
    "tests/ui/test_digits.py",
    "notebooks/05_query_training.ipynb",
    "tests/test_train.py",
    "tests/ui/test_jupyter.py",
    "notebooks/07_bring_your_own.ipynb",
    "tests/test_fetch.py",
    "tests/ui/test_contours.py",
    "notebooks/03_loops.ipynb",
    "notebooks/08_consistency.ipynb",
    "tests/app/test_memory.py",
)
"""What takes long comes first, so that what is left at last is short; those that wait for a browser, which leave a core
idle, between those that do not."""

TOGETHER = (HERE / "data",)
"""Folders whose files are one group for a worker: they share what takes long to load."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:  # before they are chosen by their marks
        if BROWSER in item.path.parents or item.path.name in SLOW_FILES or item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.slow)
    yield
    order = {HERE.parent / name: place for place, name in enumerate(FIRST)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    for item in items:
        group = next((folder for folder in TOGETHER if folder in item.path.parents), item.path)
        item.add_marker(pytest.mark.xdist_group(group.relative_to(HERE.parent).as_posix()))
    items.sort(key=lambda item: (_place(item.path, order), item.path not in slow))


def _place(path: Path, order: dict[Path, int]) -> int:
    return min((order[each] for each in (path, *path.parents) if each in order), default=len(order))


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
