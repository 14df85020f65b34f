"""Lines of the server's log: no content, one line each, not without end."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from qtcore_app import logs


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the server's loggers write."""
    written: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if self.format(record) not in written[-1:] or record.name != "panel.reactive":  # of two handlers
                written.append(self.format(record))

    root = logging.getLogger()
    for logger in (root, logging.getLogger("panel")):  # which has its own
        monkeypatch.setattr(logger, "handlers", [Handler()])
    monkeypatch.setattr(root, "level", logging.INFO)
    for name, logger in list(logging.Logger.manager.loggerDict.items()):  # whatever other libraries have made of them
        if name.partition(".")[0] in ("bokeh", "tornado", "panel", "qtcore") and isinstance(logger, logging.Logger):
            monkeypatch.setattr(logger, "propagate", True)
            monkeypatch.setattr(logger, "level", logging.NOTSET)
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
    logs.install()
    yield written
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


def failing(call: Callable[..., Any], *arguments: Any) -> None:
    try:
        raise KeyError("SECRET\nand more")
    except KeyError:
        call(*arguments, exc_info=True)


def test_what_a_stranger_wrote_is_left_out(lines: list[str]) -> None:
    """As Bokeh and Tornado log it."""
    socket, general = logging.getLogger("bokeh.server.views.ws"), logging.getLogger("tornado.general")
    socket.error("Bokeh Server internal error: %s, closing connection", "Message 'ACK' SECRET not expected on server")
    socket.info("WebSocket connection closed: code=%s, reason=%r", 1000, "SECRET")
    socket.error("Refusing websocket connection from Origin '%s'; use %s", "SECRET", "SECRET")
    logging.getLogger("bokeh.protocol").error("Bad header with no msgtype was: {'SECRET': 1}")
    logging.getLogger("bokeh.server.contexts").warning("Session 'SECRET' was scheduled to discard but came back to life")
    logging.getLogger("tornado.access").warning("%d %s %.2fms", 404, "GET /SECRET?SECRET (203.0.113.7)", 1.0)
    general.warning("Tampered cookie %r", "SECRET")
    logging.getLogger("bokeh.core.has_props").warning("JSON had attr 'SECRET' on obj SECRET")
    failing(logging.getLogger("panel.reactive").error, "Callback failed for object named 'SECRET' {'SECRET': 1}")
    logging.getLogger("bokeh.server.server").info("Bokeh app running at: http://localhost:5006/app")
    logging.getLogger("qtcore").warning("backend %s", "torch: chosen by use")
    failing(logging.getLogger("bokeh.server.protocol_handler").error, "error handling message\n message: %r", "SECRET")
    failing(logging.getLogger("tornado.application").error, "Uncaught exception %s\n%r", "GET /SECRET", "SECRET")
    assert [line.partition(" at ")[0] for line in lines] == [
        "Bokeh Server internal error",
        "WebSocket connection closed",
        "Refusing websocket connection from Origin",
        "Bad header with no msgtype was",
        "Session",
        "404 GET",
        "Tampered cookie",
        "JSON had attr",
        "Callback failed for object named: KeyError",
        "Bokeh app running at: http://localhost:5006/app",
        "backend torch: chosen by use",
        "error handling message: KeyError",
        "Uncaught exception: KeyError",
    ]
    assert all("\n" not in line for line in lines)
    assert lines[-1].endswith(f"{__name__.rpartition('.')[2]}.py:{failing.__code__.co_firstlineno + 2}")


def test_the_same_again_and_again_is_counted(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    log = logging.getLogger("bokeh.server.views.ws")
    for k in range(384):
        log.error("Bokeh Server protocol error: %s, closing connection", k)
    assert lines == ["Bokeh Server protocol error"] * logs.MOST
    log.error("something else")
    now[0] += logs.SECONDS + 1
    log.error("Bokeh Server protocol error: %s, closing connection", "again")
    assert lines[logs.MOST :] == ["something else", f"Bokeh Server protocol error (and {384 - logs.MOST} times before)"]
