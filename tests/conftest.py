"""What all tests share: how Hypothesis draws, one thread, and which tests are slow."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The tensors here are tiny: on a busy machine a second thread costs a hundred times what it saves. Before torch is
# imported, and for all processes that tests start: each worker of pytest-xdist should need one core.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# Drawn anew from the same seed in every run, so that a failure is there again tomorrow.
settings.register_profile(
    "qtcore", deadline=None, derandomize=True, max_examples=10, suppress_health_check=[HealthCheck.too_slow]
)
FEW = 2
"""Examples, and cases of a parametrised test, that `make check` runs: the first and the last."""
settings.register_profile("check", settings.get_profile("qtcore"), max_examples=FEW)
settings.load_profile("qtcore")

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background, and all its children
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
BROWSER = HERE / "ui"
SLOW_FILES = {"test_memory.py", "test_torch_compile.py"}
"""Slow as a whole, besides those that say so themselves, the browser tests and the notebooks: memory, and torch.compile."""

FIRST = (
    "tests/ui",
    "tests/test_reproduce.py",
    "tests/test_types.py",
    "tests/test_site.py",
    "tests/models/test_extremes.py",
    "tests/data",
    "notebooks/05_query_training.ipynb",
    "tests/test_train.py",
    "notebooks/07_bring_your_own.ipynb",
    "notebooks/06_the_models_of_the_paper.ipynb",
    "notebooks/03_loops.ipynb",
    "notebooks/09_any_graph.ipynb",
    "notebooks/11_your_own_table.ipynb",
    "notebooks/08_consistency.ipynb",
    "tests/app/test_memory.py",
)
"""What takes long comes first, so that what is left at last is short."""

TOGETHER = ("tests/data/", "tests/ui/")
"""Folders whose files go to one worker: they share what takes long to load, or a server and a browser."""


class Scheduler(LoadFileScheduling):
    """A file, or a folder of `TOGETHER`, goes to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    for item in items:  # before they are chosen by their marks
        if BROWSER in item.path.parents or item.path.name in SLOW_FILES or item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.slow)
    yield
    if settings.default is not None and settings.default.max_examples == FEW:  # the profile "check"
        _deselect_cases(config, items)
    order = {HERE.parent / name: place for place, name in enumerate(FIRST)}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (_place(item.path, order), item.path not in slow))


def _deselect_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the first and the last case of every test."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    few = {case for every in cases.values() for case in (every[0], every[-1])}
    config.hook.pytest_deselected(items=[item for item in items if item not in few])
    items[:] = [item for item in items if item in few]


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
