"""Talking to the served app without a browser."""

import asyncio
import json
import re
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.ui.conftest import _wait_for, free_port, serve


@contextmanager
def served(options: dict[str, str] | None = None) -> Iterator[tuple[str, int, IO[bytes]]]:
    """The app's address, its process and its log."""
    port = free_port()
    url = f"http://localhost:{port}/"
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as cache:
        server = serve(port, log, {"QTCORE_CACHE": cache}, options)
        try:
            _wait_for(f"{url}favicon.ico", server, log)
            yield url, server.pid, log
        finally:
            server.terminate()
            server.wait(timeout=20)


def _get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return str(answer.read().decode())


async def leave(socket: WebSocketClientConnection) -> None:
    """Close the socket and wait until it is."""
    socket.close()
    while await socket.read_message() is not None:
        pass


async def connect(url: str, query: str = "") -> WebSocketClientConnection:
    """Get a page as a browser does, and open its socket."""
    html = await asyncio.to_thread(_get, f"{url}app{query}")
    token = re.search(r'"token":"([^"]+)"', html)
    assert token is not None
    address = url.replace("http", "ws", 1) + "app/ws"
    socket = await websocket_connect(HTTPRequest(address, headers={"Sec-WebSocket-Protocol": f"bokeh, {token[1]}"}))
    first = [await socket.read_message() for _ in range(3)]  # header, metadata, content
    assert json.loads(first[0] or "{}")["msgtype"] == "ACK"
    return socket
