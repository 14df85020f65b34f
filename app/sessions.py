"""How many users are served at once. Beyond that a new one gets a polite page instead of a slow one for everybody."""

import os
import threading


def _limit() -> int:
    try:
        return max(1, int(os.environ.get("QTCORE_SESSIONS", "")))
    except ValueError:
        return 64


LIMIT = _limit()
"""Sessions at a time; QTCORE_SESSIONS sets another number."""

_lock = threading.Lock()
_open: set[str] = set()


def opened(identity: str) -> bool:
    """Note a new session; False when there is no room for it."""
    with _lock:
        if len(_open) >= LIMIT:
            return False
        _open.add(identity)
        return True


def closed(identity: str) -> None:
    """Note that a session ended (one that was refused is not known, and that is fine)."""
    with _lock:
        _open.discard(identity)


def admitted(identity: str | None) -> bool:
    """Whether it is one of those that found room; without a server there is always room."""
    return identity is None or identity in _open


def count() -> int:
    return len(_open)
