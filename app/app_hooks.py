"""Hooks that the server calls when it starts and when sessions are created and destroyed."""

import logging
from typing import Any

from bokeh.application.application import ServerContext, SessionContext
from bokeh.document import Document
from bokeh.server.connection import ServerConnection
from panel.io import document as panel_document
from tornado.websocket import WebSocketClosedError

from app import sessions


def goodbye(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio is worth logging: one about a window that closed before its picture arrived is not."""
    return not (record.exc_info and isinstance(record.exc_info[1], WebSocketClosedError))


def without_content(record: logging.LogRecord) -> bool:
    """Strip the content from Bokeh's log of a message that it cannot handle: what a stranger sends stays out of our log."""
    if isinstance(record.args, tuple) and len(record.args) == 2:
        record.msg, record.args = "a message could not be handled: %s", (type(record.args[1]).__name__,)
        record.exc_info = None
    return True


def plain_error(connection: ServerConnection, message: Any, text: str) -> Any:
    """The reply to a message that failed: Bokeh would add the traceback, with paths of this machine."""
    reply = connection.protocol.create("ERROR", message.header["msgid"], "the server could not handle this message")
    reply.content["traceback"] = None
    return reply


_dispatch = panel_document._dispatch_msgs


async def dispatch_all(doc: Document) -> None:
    """Write every pending message, on behalf of Panel.

    Panel's own function gives up if an earlier writer has just finished: a message that arrives at that moment, such as the
    last picture of a run, would wait until something else changes on the page.
    """
    if doc in panel_document._WRITE_MSGS:
        panel_document._WRITE_BLOCK[doc] = True
    await _dispatch(doc)


def on_server_loaded(server_context: ServerContext) -> None:
    logging.getLogger("asyncio").addFilter(goodbye)
    logging.getLogger("bokeh.server.protocol_handler").addFilter(without_content)
    ServerConnection.error = plain_error
    panel_document._dispatch_msgs = dispatch_all


def on_session_created(session_context: SessionContext) -> None:
    """Register the session before its page is made; `main.py` shows a polite page when the server is full."""
    sessions.opened(session_context.id)


def on_session_destroyed(session_context: SessionContext) -> None:
    sessions.closed(session_context.id)
