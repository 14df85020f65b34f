"""A server that misbehaves on demand, places of our own for the cache, and the real data where they are."""

import contextlib
import functools
import os
import shutil
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from qtcore.data import Dataset, download, load

Reply = Callable[[BaseHTTPRequestHandler], None]


def good(body: bytes) -> Reply:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def without_length(body: bytes) -> Reply:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def status(code: int) -> Reply:
    return lambda handler: handler.send_error(code)


def truncated(body: bytes) -> Reply:
    """Promise everything, send half, close politely."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2])

    return reply


def gone(body: bytes) -> Reply:
    """Send half, then reset the connection."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        truncated(body)(handler)
        handler.wfile.flush()
        time.sleep(0.1)  # let the half arrive, so that the reset comes in the middle
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(handler.connection.detach())  # past the server's own, polite way of closing

    return reply


def slow(body: bytes, pieces: int = 8, pause: float = 0.1) -> Reply:
    """Everything, a piece at a time."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        step = -(-len(body) // pieces)
        for start in range(0, len(body), step):
            time.sleep(pause)
            handler.wfile.write(body[start : start + step])

    return reply


def silent(seconds: float) -> Reply:
    """Accept, and say nothing."""
    return lambda handler: time.sleep(seconds)


class Server:
    """Answers each path with its list of replies, one after another; the last one for ever."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                queue = outer.replies.get(self.path, [status(404)])
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client gave up first
                    (queue.pop(0) if len(queue) > 1 else queue[0])(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def serve(self, path: str, *replies: Reply) -> str:
        """The address at which these replies will be given."""
        self.replies[path] = list(replies)
        return self.url + path

    def serve_folder(self, folder: Path) -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                self.serve(f"/{path.relative_to(folder)}", good(path.read_bytes()))

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no data folder, no way to the public addresses."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("QTCORE_CACHE", str(folder))
    monkeypatch.delenv("QTCORE_DATA", raising=False)
    monkeypatch.setenv("QTCORE_MIRROR", "http://127.0.0.1:9")  # the discard port: nobody listens
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short timeouts and pauses; a busy machine may keep an answer waiting for a while."""
    monkeypatch.setattr(download, "TIMEOUT", 1.0)
    monkeypatch.setattr(download, "PAUSE", 0.01)


@functools.cache
def kept(name: str) -> Dataset:
    """A dataset with its default options, loaded once for all tests that only look at it."""
    return load(name)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data; tests that need it are skipped where there is none."""
    name = os.environ.get("QTCORE_DATA")
    if not name:
        pytest.skip("QTCORE_DATA is not set: the real data are not here")
    return Path(name)


@pytest.fixture
def raw_only(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the originals alone."""
    folder = tmp_path / "raw-only"
    shutil.copytree(data_folder / "raw", folder / "raw")
    monkeypatch.setenv("QTCORE_DATA", str(folder))
    return folder
