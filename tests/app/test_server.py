"""What a client that is not ours can make the server say and do."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from qtcore_app import sessions
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from tests.app.server import Server, connect, get, leave, provoke, say, served, status

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served({"--use-xheaders": ""}, {"QTCORE_SESSIONS": "8"}) as running:
        yield running


def discreet(answer: str, log: str) -> None:
    """Nothing of this machine reaches a stranger, and nothing of a stranger's the log."""
    for word in ("Traceback", "File ", ".py", "site-packages", str(Path.home())):
        assert word not in answer, answer
    for word in ("Traceback", 'File "', "SECRET"):
        assert word not in log, log


def test_no_traceback_and_no_path_reaches_a_client(server: Server) -> None:
    answer = "\n".join(asyncio.run(provoke(server.url)))
    assert "could not handle this message" in answer
    assert "error handling message" in server.said()
    discreet(answer, server.said())


HEADER = {"msgid": "1", "msgtype": "PATCH-DOC"}
ODD: dict[str, tuple[str | bytes, ...]] = {
    **{
        kind: (json.dumps({"msgid": "SECRET", "msgtype": kind}), "{}", '{"SECRET": "SECRET"}')
        for kind in ("ACK", "OK", "ERROR", "SERVER-INFO-REPLY", "PULL-DOC-REPLY", "NOPE SECRET")
    },
    "no header": ('{"SECRET": 1}', "{}", "{}"),
    "no JSON": ("SECRET", "{}", "{}"),
    "binary": (b"SECRET\x00\xff", b"", b""),
    "a list": ('["SECRET"]', "{}", "{}"),
    "no metadata": (json.dumps(HEADER), "SECRET", "{}"),
    "buffers without end": (json.dumps({**HEADER, "num_buffers": 10**9}), "{}", '{"events": []}', "SECRET", b"SECRET"),
    "events that are none": (json.dumps(HEADER), "{}", '{"events": "SECRET"}'),
    "deep": (json.dumps(HEADER), "{}", "[" * 100_000),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_messages(name: str, server: Server) -> None:
    """Message types of a server once put their content and a traceback into the log."""
    since = len(server.log.read_bytes())
    answer = asyncio.run(say(server.url, *ODD[name]))
    server.settle()
    discreet("".join(answer), server.said(since))


async def _too_much(url: str, how: str) -> str:
    """Send more than anybody needs until the server has had enough; what it says then."""
    socket = await connect(url)
    megabyte = b"x" * 2**20
    try:
        if how == "one message":
            await socket.write_message(megabyte.decode() * 7)
        elif how == "frames without end":
            for number in range(100):
                await socket.protocol._write_frame(False, 0 if number else 1, megabyte)  # type: ignore[union-attr]
        else:
            size = 2**20 if how == "buffers without end" else 0
            await socket.write_message(json.dumps({"msgid": "1", "msgtype": "PATCH-DOC", "num_buffers": 10**9}))
            await socket.write_message("{}")
            await socket.write_message('{"events": []}')
            for _ in range(100 if size else 100_000):
                await socket.write_message('{"id": ""}')
                await socket.write_message(megabyte[:size], binary=True)
    except (WebSocketClosedError, StreamClosedError):
        pass
    while await asyncio.wait_for(socket.read_message(), 60) is not None:
        pass
    reason = socket.close_reason or ""
    socket.close()
    return reason


@pytest.mark.parametrize("how", ["one message", "frames without end", "buffers without end", "empty buffers without end"])
def test_uploads_without_end_are_ended(how: str, server: Server) -> None:
    assert asyncio.run(_too_much(server.url, how)) in ("", "message too big", "the message is too large")
    server.settle()
    discreet("", server.said())


async def _deaf(url: str) -> list[str]:
    """Clients that ask for their page again and again and never read it; another one is served all the same."""
    deaf = [await connect(url) for _ in range(2)]
    for socket in deaf:
        for _ in range(20):
            for part in ({"msgid": "0", "msgtype": "PULL-DOC-REQ"}, {}, {}):
                await socket.write_message(json.dumps(part))
    answer = await provoke(url)
    for socket in deaf:
        await leave(socket)
    return answer


def test_clients_that_do_not_read_disturb_nobody(server: Server) -> None:
    assert "could not handle this message" in "".join(asyncio.run(_deaf(server.url)))


@pytest.mark.parametrize("path", ["static/js/%00", "app%00", "static/%2e%2e/%00x", "static/extensions/panel/%00", "%00"])
def test_an_address_with_a_zero_byte_is_none(path: str, server: Server) -> None:
    code, text = status(f"{server.url}{path}")
    assert code in (400, 404)
    discreet(text, server.said())


async def _windows(url: str) -> None:
    """One address gets six of eight places, another the last ones; a sentence is sent to whoever comes then."""
    sockets = [await connect(url, X_Real_Ip="203.0.113.7") for _ in range(6)]
    code, text = await asyncio.to_thread(status, f"{url}app", X_Real_Ip="203.0.113.7")
    assert (code, sessions.SHARED in text) == (429, True)
    sockets += [await connect(url, X_Real_Ip="203.0.113.8") for _ in range(2)]
    code, text = await asyncio.to_thread(status, f"{url}app", X_Real_Ip="203.0.113.9")
    assert (code, sessions.FULL in text) == (503, True)
    assert await asyncio.to_thread(get, f"{url}favicon.ico")  # everything else is served
    for socket in sockets:
        await leave(socket)


def test_one_address_cannot_have_all_places(server: Server) -> None:
    asyncio.run(_windows(server.url))
