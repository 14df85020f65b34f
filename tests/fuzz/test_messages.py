"""Messages over the socket of every page, from a client that is not ours: the server goes on, tells nothing of itself, and logs
nothing of theirs."""

import asyncio
import base64
import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from qtcore_app.state import PAGES
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError

from ..app.server import Server, connect, served
from .support import COUNTS, few

pytestmark = pytest.mark.slow
MARK = "kilroywashere"
"""In all that is sent as text: it must not come up in the log."""
SECRETS = ("Traceback", "site-packages", ".py", str(Path.home()), str(Path(__file__).parents[2]))

ODD: list[Any] = [
    *(None, True, 0, -1, 1, 2, 7, 10**6, 10**30, 0.5, -1e308, [], {}, "", MARK, "?page=lab", MARK * 1000, "<script>", "\0"),
    *([MARK], [1, MARK], [MARK, 1], [0, 1], [-1, 5], [10**9, 1], [1, "train"], [1, "graph", 2], [1, "layers", 1e9], [[[[]]]]),
    *([1, "kind", 0, 3], [1, "move", 0, 1, 0], [1, "train", 0], [1, "stop"], [1, [[1, None]]], [1, "filled"]),
    *([1, "send", -3, 99], [3, "select", 0, 0], [5, "evidence", 1, 2], [1, f"?page={MARK}"], ["png", 0, 1], ["gif", 99, 2]),
    *({"type": "number", "value": "nan"}, {"type": "number", "value": "+inf"}, {"id": "p1001"}, {MARK: MARK}),
    *({"type": "bytes", "data": base64.b64encode(data).decode()} for data in (b"", b"\0" * 4, b"\1\0\0\0" + bytes(560))),
    *({"type": "bytes", "data": base64.b64encode(data).decode()} for data in (b"\1\0\0\0" + bytes(900), MARK.encode())),
    {"type": "ndarray", "array": {"type": "bytes", "data": "AAAA"}, "shape": [10**9], "dtype": "float64", "order": "big"},
    *({"type": "object", "name": MARK}, {"type": "map", "entries": [[MARK, MARK]]}, {"type": "set", "entries": [[]]}),
    *({"type": "slice", "start": 0}, {"type": "value", "value": MARK}, {"type": "symbol", "name": MARK}),
]
EVENTS = (
    *("MessageSent", "ColumnDataChanged", "ColumnsStreamed", "ColumnsPatched", "TitleChanged", "RootAdded", "RootRemoved"),
    MARK,
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served() as running:
        yield running


def models_in(value: Any) -> Iterator[tuple[str, list[str]]]:
    """Names of all models of a document, with those of their properties."""
    if isinstance(value, dict):
        if "id" in value and "attributes" in value:
            yield value["id"], list(value["attributes"])
        for inner in value.values():
            yield from models_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from models_in(inner)


class Stranger:
    """A client that says whatever comes to its mind."""

    def __init__(self, url: str, page: str, seed: int) -> None:
        self.url, self.page, self.random = url, page, random.Random(seed)
        self.heard: list[str] = []
        self.socket: WebSocketClientConnection | None = None
        self.models: list[tuple[str, list[str]]] = []

    async def open(self) -> None:
        self.socket = await connect(self.url, f"?page={self.page}")
        await self.send({"msgid": "0", "msgtype": "PULL-DOC-REQ"}, {}, {})
        while not self.models:
            message = await asyncio.wait_for(self.socket.read_message(), 60)
            assert message is not None
            if isinstance(message, str) and '"roots"' in message:
                self.models = list(models_in(json.loads(message)))

    async def send(self, *parts: Any) -> None:
        assert self.socket is not None
        for part in parts:
            await self.socket.write_message(part if isinstance(part, str | bytes) else json.dumps(part))

    def event(self) -> dict[str, Any]:
        identity, attributes = self.random.choice(self.models)
        if self.random.random() < 0.02:
            identity = MARK
        attribute = self.random.choice([*attributes, *attributes, "packet", "clicks", "values", "visit", "file", "layer", MARK])
        kind = "ModelChanged" if self.random.random() < 0.85 else self.random.choice(EVENTS)
        event = {"kind": kind, "model": {"id": identity}, "attr": attribute, "new": self.random.choice(ODD)}
        if kind != "ModelChanged":
            event |= {"msg_type": "bokeh_event", "msg_data": self.random.choice(ODD), "data": self.random.choice(ODD)}
            event |= {"column_source": {"id": identity}, "title": MARK, "patches": {}, "rollover": None}
        return event

    async def talk(self, messages: int) -> None:
        """Send so many, and hear what comes back; a socket that is closed is opened again."""
        for _ in range(messages):
            COUNTS["messages"] += 1
            if self.socket is None:
                self.models = []
                await self.open()
            try:
                if self.random.random() < 0.03:
                    await self.send(*self.random.choice([("[", "{}", "{}"), (b"\xff", b"", b""), ({"msgtype": MARK}, {}, {})]))
                else:
                    await self.send({"msgid": "1", "msgtype": "PATCH-DOC"}, {}, {"events": [self.event()]})
                await self.hear(0.002)
            except WebSocketClosedError:
                await self.close()
        if self.socket is not None:
            await self.hear(0.3)
            await self.close()

    async def hear(self, seconds: float) -> None:
        while self.socket is not None:
            reading = asyncio.ensure_future(self.socket.read_message())
            done, _ = await asyncio.wait([reading], timeout=seconds)
            if not done:
                self.socket.read_queue._getters.clear()  # type: ignore[attr-defined]  # nobody waits for it any more
                reading.cancel()
                return
            if (message := reading.result()) is None:
                self.heard.append(self.socket.close_reason or "")
                self.socket.close()
                self.socket = None
            elif isinstance(message, str):
                self.heard.append(message)

    async def close(self) -> None:
        if self.socket is not None:
            socket, self.socket = self.socket, None
            socket.close()
            with contextlib.suppress(TimeoutError):
                while await asyncio.wait_for(socket.read_message(), 2) is not None:
                    pass


def told(heard: list[str]) -> list[str]:
    """Errors among what came back: the rest is the page itself, with its own scripts."""
    return [text for text in heard if "roots" not in text and '"events"' not in text]


@settings(few(3), phases=(Phase.explicit, Phase.reuse, Phase.generate))  # a seed is not made smaller
@given(st.sampled_from(PAGES), st.integers(0, 2**31))
def test_messages(server: Server, page: str, seed: int) -> None:
    since = len(server.log.read_bytes())
    stranger = Stranger(server.url, page, seed)
    asyncio.run(stranger.talk(60))
    for text in told(stranger.heard):
        assert not [word for word in SECRETS if word in text], text
    server.settle()
    said = server.said(since)
    assert MARK not in said
    assert "Traceback" not in said, said
