"""What the server calls when it starts and when sessions come and go."""

import logging

from bokeh.application.application import ServerContext, SessionContext
from tornado.websocket import WebSocketClosedError

from app import sessions


def goodbye(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio is worth logging: a window closed while a picture was on its way to it is not."""
    return not (record.exc_info and isinstance(record.exc_info[1], WebSocketClosedError))


def on_server_loaded(server_context: ServerContext) -> None:
    logging.getLogger("asyncio").addFilter(goodbye)


def on_session_created(session_context: SessionContext) -> None:
    """Count the session in, before its page is made; `main.py` shows the polite page to those without room."""
    sessions.opened(session_context.id)


def on_session_destroyed(session_context: SessionContext) -> None:
    sessions.closed(session_context.id)
