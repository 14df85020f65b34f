"""The number of users served at once. Beyond it, a new one gets a polite page instead of a slow app for everybody."""

import os
import threading


def _limit() -> int:
    try:
        return max(1, int(os.environ.get("QTCORE_SESSIONS", "")))
    except ValueError:
        return 64


LIMIT = _limit()
"""Largest number of sessions at a time; set by QTCORE_SESSIONS."""

_lock = threading.Lock()
_open: set[str] = set()


def opened(identity: str) -> bool:
    """Register a new session; False if the server is full."""
    with _lock:
        if len(_open) >= LIMIT:
            return False
        _open.add(identity)
        return True


def closed(identity: str) -> None:
    """Remove a session (one that was refused is unknown, which is fine)."""
    with _lock:
        _open.discard(identity)


def admitted(identity: str | None) -> bool:
    """Whether a session was admitted; always, without a server."""
    return identity is None or identity in _open


def count() -> int:
    return len(_open)
