"""Progress bars, on a terminal only."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def progress(items: Iterable[T], what: str, total: int | None = None, leave: bool = False) -> Iterator[T]:
    """The items, with a progress bar on the terminal."""
    yield from tqdm(items, desc=what, total=total, leave=leave, disable=not sys.stderr.isatty())
