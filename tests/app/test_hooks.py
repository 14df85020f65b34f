"""The server's log keeps quiet about windows that were closed, and no message stays behind."""

import asyncio
import logging
import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from bokeh.document import Document
from panel.io import document as panel_document
from qtcore_app import hooks
from tornado.iostream import IOStream
from tornado.websocket import WebSocketClosedError


def record(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except Exception:
        return logging.LogRecord("asyncio", logging.ERROR, "", 0, "", (), sys.exc_info())


def test_closed_windows_are_no_errors() -> None:
    assert not hooks.goodbye(record(WebSocketClosedError()))
    assert hooks.goodbye(record(RuntimeError()))
    assert hooks.goodbye(logging.LogRecord("asyncio", logging.ERROR, "", 0, "", (), None))


class Connection:
    """A connection to a browser whose writes end when the test says so; its messages are its events."""

    def __init__(self) -> None:
        self._socket = self.protocol = self
        self.ws_connection: Any = None
        self.written: list[str] = []
        self.writes: list[asyncio.Future[None]] = []

    def create(self, kind: str, events: list[str]) -> str:
        return events[0]

    def write(self, msg: str) -> "list[asyncio.Future[None]]":
        self.written.append(msg)
        self.writes.append(asyncio.get_running_loop().create_future())
        return self.writes[-1:]


async def _two_messages() -> list[str]:
    """The second message comes in the moment in which the first one's writer ends; what was written."""
    doc, connection = Document(), Connection()
    schedule: Any = panel_document.schedule_write_events
    schedule(doc, [connection], ["mask"])
    await asyncio.sleep(0)
    assert connection.written == ["mask"]
    connection.writes[0].set_result(None)  # its writer goes on in the next turn of the loop, before what is scheduled now
    schedule(doc, [connection], ["picture"])
    for _ in range(5):
        await asyncio.sleep(0)
    for write in connection.writes[1:]:
        write.set_result(None)
    await asyncio.sleep(0.05)
    return connection.written


def test_no_message_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(panel_document.extra_socket_handlers, Connection, Connection.write)  # type: ignore[arg-type]
    monkeypatch.setattr(panel_document, "_dispatch_msgs", hooks._dispatch)
    assert asyncio.run(_two_messages()) == ["mask"]  # once Panel writes both, dispatch_all can go
    monkeypatch.setattr(panel_document, "_dispatch_msgs", hooks.dispatch_all)
    assert asyncio.run(_two_messages()) == ["mask", "picture"]


async def _pictures_that_nobody_reads() -> tuple[int, bool]:
    """Bytes that wait when the connection is closed, and whether it is: a real socket whose other end does not read."""
    ours, theirs = socket.socketpair()
    stream, doc, connection = IOStream(ours), Document(), Connection()
    connection.ws_connection = SimpleNamespace(stream=stream)
    schedule: Any = panel_document.schedule_write_events
    waiting = 0
    for _ in range(100):
        if stream.closed():
            break
        waiting = len(stream._write_buffer)
        stream.write(bytes(2**20)).add_done_callback(lambda done: done.exception())
        schedule(doc, [connection], ["picture"])
        await asyncio.sleep(0)
        for write in connection.writes:
            if not write.done():
                write.set_result(None)
        await asyncio.sleep(0)
    closed = stream.closed()
    stream.close()
    theirs.close()
    return waiting, closed


def test_who_does_not_read_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(panel_document.extra_socket_handlers, Connection, Connection.write)  # type: ignore[arg-type]
    monkeypatch.setattr(panel_document, "_dispatch_msgs", hooks.dispatch_all)
    waiting, closed = asyncio.run(_pictures_that_nobody_reads())
    assert closed
    assert hooks.MAX_UNREAD - 2 * 2**20 < waiting < hooks.MAX_UNREAD + 2 * 2**20
