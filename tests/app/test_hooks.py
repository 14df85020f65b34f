"""Sessions are counted, and the server's log keeps quiet about windows that were closed."""

import logging
import sys
from types import SimpleNamespace

import pytest
from tornado.websocket import WebSocketClosedError

from app import app_hooks, sessions


@pytest.fixture(autouse=True)
def _nobody_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_open", set())
    monkeypatch.setattr(sessions, "LIMIT", 2)


def test_there_is_room_for_so_many() -> None:
    guests = [SimpleNamespace(id=name) for name in "abc"]
    for guest in guests:
        app_hooks.on_session_created(guest)  # type: ignore[arg-type]
    assert [sessions.admitted(guest.id) for guest in guests] == [True, True, False]
    app_hooks.on_session_destroyed(guests[2])  # type: ignore[arg-type]  # refused: takes no one's place
    assert sessions.count() == 2
    app_hooks.on_session_destroyed(guests[0])  # type: ignore[arg-type]
    assert sessions.opened("d")
    assert sessions.admitted("d")
    assert sessions.admitted(None)  # no server at all


def record(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except Exception:
        return logging.LogRecord("asyncio", logging.ERROR, "", 0, "", (), sys.exc_info())


def test_closed_windows_are_no_errors() -> None:
    assert not app_hooks.goodbye(record(WebSocketClosedError()))
    assert app_hooks.goodbye(record(RuntimeError()))
    assert app_hooks.goodbye(logging.LogRecord("asyncio", logging.ERROR, "", 0, "", (), None))
