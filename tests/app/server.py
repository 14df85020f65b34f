"""The served app, in a process of its own, and how to talk to it without a browser."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from qtcore_app.state import PAGES
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError, websocket_connect

from qtcore.support.files import cache_folder

ROOT = Path(__file__).parents[2]
QUERIES = (*(f"?page={name}" for name in PAGES), "?page=digits&model=rbm/adult")
"""Every page, and a record."""
PATIENCE = 300
"""Seconds to wait for anything: nobody waits so long but on a machine that does ten other things, and there it should pass."""
LISTENS = r"Bokeh app running at: (http://localhost:\d+/)"
COMPLAINT = re.compile(r"^(Traceback|\S*(Error|Exception)\b)|\b(ERROR|CRITICAL)\b|Uncaught exception", re.MULTILINE)


class Server(NamedTuple):
    """A server that runs."""

    url: str
    log: Path

    def said(self, since: int = 0) -> str:
        """What it logged, from this byte on."""
        return self.log.read_bytes()[since:].decode(errors="replace")

    def settle(self) -> None:
        """Until it has done what it was asked before: an answer goes through the same loop as everything else."""
        get(f"{self.url}favicon.ico")


@contextlib.contextmanager
def served(options: dict[str, str] | None = None, settings: dict[str, str] | None = None) -> Iterator[Server]:
    """`make app` without make: shipped models and pictures only, whatever data this machine has. The system chooses the
    port: one that we had found free could be somebody else's by now."""
    command = [sys.executable, "-m", "qtcore", "app", "--port", "0", "--no-show", "--"]
    command += ["--log-format", "%(asctime)s %(levelname)s %(name)s: %(message)s"]  # so that an error can be told from the rest
    command += [part for option in (options or {}).items() for part in option if part]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QTCORE_")}
    with tempfile.TemporaryDirectory() as folder:
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "QTCORE_CACHE": folder, **(settings or {})}
        for library in cache_folder().glob("kernels-*.so"):  # so that each server need not build them anew
            shutil.copy(library, folder)
        with running(command, ROOT, environment, Path(folder) / "log", LISTENS) as server:
            yield server


@contextlib.contextmanager
def running(command: list[str], cwd: Path, environment: dict[str, str], log: Path, address: str) -> Iterator[Server]:
    """A process that logs its address when it listens; it ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Server(_address(process, log, address), log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path, address: str) -> str:
    deadline = time.monotonic() + PATIENCE
    while True:
        said = log.read_text(errors="replace")
        if result := re.search(address, said):
            return result[1]
        assert process.poll() is None, f"the server ended:\n{said}"
        assert time.monotonic() < deadline, f"the server did not listen within {PATIENCE} s:\n{said}"
        time.sleep(0.05)


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        return str(answer.read().decode(errors="replace"))


def status(address: str, **headers: str) -> tuple[int, str]:
    """The answer's number and text, whether or not it is an error; headers with _ for -."""
    request = urllib.request.Request(address, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


async def leave(socket: WebSocketClientConnection) -> None:
    """Close the socket and wait until it is."""
    socket.close()
    while await socket.read_message() is not None:
        pass


async def connect(url: str, query: str = "", **headers: str) -> WebSocketClientConnection:
    """Get a page as a browser does, and open its socket; where all places are taken, when one is free."""
    deadline = time.monotonic() + PATIENCE
    while (answer := await asyncio.to_thread(status, f"{url}app{query}", **headers))[0] == 503:
        assert time.monotonic() < deadline, "there is no place"
        await asyncio.sleep(0.5)
    token = re.search(r'"token":"([^"]+)"', answer[1])
    assert token is not None, answer
    address = url.replace("http", "ws", 1) + "app/ws"
    socket = await websocket_connect(HTTPRequest(address, headers={"Sec-WebSocket-Protocol": f"bokeh, {token[1]}"}))
    first = [await socket.read_message() for _ in range(3)]  # header, metadata, content
    assert json.loads(first[0] or "{}")["msgtype"] == "ACK"
    return socket


async def say(url: str, *parts: str | bytes, query: str = "") -> list[str]:
    """Send these parts of a message; what comes back until one message is whole, the socket is closed, or nothing comes."""
    socket = await connect(url, query)
    answer: list[str] = []
    with contextlib.suppress(WebSocketClosedError):
        for part in parts:
            await socket.write_message(part, binary=isinstance(part, bytes))
    while len(answer) < 3:
        reading = asyncio.ensure_future(socket.read_message())
        done, _ = await asyncio.wait([reading], timeout=2)
        if not done:
            socket.close()
        if (said := await reading) is None:
            answer.append(socket.close_reason or "")
            socket.close()
            return answer
        answer.append(str(said))
    await leave(socket)
    return answer


async def provoke(url: str) -> list[str]:
    """Send a change of a model that does not exist; everything that comes back."""
    event = {"kind": "ModelChanged", "model": {"id": "nobody"}, "attr": "packet", "new": "SECRET" * 3}
    return await say(url, *map(json.dumps, ({"msgid": "1", "msgtype": "PATCH-DOC"}, {}, {"events": [event]})))


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Ask again and again."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)
