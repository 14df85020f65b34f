"""What counts as an answer."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import settings

from qtcore.errors import BackendError, DataError, InputError, ModelFileError, NotFiniteError, UnknownNameError

NAMED = (BackendError, DataError, InputError, ModelFileError, NotFiniteError, UnknownNameError)
T = TypeVar("T")

COUNTS: Counter[str] = Counter()
"""Inputs tried in this process, by kind, and of those that were refused by name."""


def few(count: int) -> settings:
    """So many examples of what takes long, or as few as `make check` draws; an eighth of the others' when more are wanted."""
    most = settings.default.max_examples  # type: ignore[union-attr]
    return settings(max_examples=min(count, most) if most < 50 else max(count, most // 8))


def tried(kind: str, call: Callable[[], T], *named: type[Exception]) -> T | None:
    """The answer, or None if it is refused by one of our errors (or of these), which must be a sentence."""
    COUNTS[kind] += 1
    try:
        return call()
    except (*NAMED, *named) as error:
        COUNTS[f"{kind}, refused"] += 1
        sentence(error)
        return None


def sentence(error: Any) -> None:
    text = str(error)
    assert 10 < len(text) < 2000, error
    assert "\n" not in text, error
    assert "Traceback" not in text, error
    assert "object at 0x" not in text, error
