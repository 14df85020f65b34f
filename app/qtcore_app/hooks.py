"""Hooks that the server calls when it starts and when sessions are created and destroyed."""

import logging
from typing import Any

from bokeh.application.application import ServerContext, SessionContext
from bokeh.document import Document
from bokeh.protocol.exceptions import ProtocolError
from bokeh.protocol.receiver import Receiver
from bokeh.server.connection import ServerConnection
from bokeh.server.tornado import BokehTornado
from panel.io import document as panel_document
from panel.io.server import AutoloadJsHandler, DocHandler
from tornado.httputil import HTTPServerRequest
from tornado.web import ErrorHandler
from tornado.websocket import WebSocketClosedError

from qtcore_app import logs, sessions


def goodbye(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio is worth logging: one about a window that closed before its picture arrived is not. (Panel
    wrote to closed windows in holoviz/panel#3341, which is closed, and still does in its own writer's tasks.)"""
    return not (record.exc_info and isinstance(record.exc_info[1], WebSocketClosedError))


def plain_error(connection: ServerConnection, message: Any, text: str) -> Any:
    """The reply to a message that failed: Bokeh would add the traceback, with paths of this machine, and has no setting."""
    reply = connection.protocol.create("ERROR", message.header["msgid"], "the server could not handle this message")
    reply.content["traceback"] = None
    return reply


_dispatch = panel_document._dispatch_msgs


MAX_UNREAD = 32 * 2**20
"""Bytes that wait for a browser which does not read them: hundreds of pictures. With more, its connection is closed."""


def hang_up(doc: Document) -> None:
    """Close connections whose other side has stopped reading: what it asks for would pile up here."""
    messages = panel_document._WRITE_MSGS.get(doc, {})
    for connection in list(messages):
        stream = getattr(getattr(connection._socket, "ws_connection", None), "stream", None)
        if stream is not None and len(stream._write_buffer) > MAX_UNREAD:  # private; tests/app/test_hooks.py notices
            stream.close()
            del messages[connection]


async def dispatch_all(doc: Document) -> None:
    """Write every pending message, on behalf of Panel.

    Panel's own function gives up if an earlier writer has just finished: a message that arrives at that moment, such as the
    last picture of a run, would wait until something else changes on the page. The function came with holoviz/panel#7128 (for
    #6603); tests/app/test_hooks.py says when it no longer needs ours.
    """
    hang_up(doc)
    if doc in panel_document._WRITE_MSGS:
        panel_document._WRITE_BLOCK[doc] = True
    await _dispatch(doc)


DOOR = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>qtcore</title></head>
<body style="font: 16px sans-serif; margin: 2em"><h1 style="font-size: 24px">Please come back in a few minutes</h1>
<p>{}</p></body></html>"""

_prepare = DocHandler.prepare


async def knock(handler: DocHandler) -> None:
    """Before a page is made: where there is no place for it, a sentence is sent, which costs next to nothing. (Bokeh has no
    limit of sessions, and calls nobody before it makes one.)"""
    await _prepare(handler)
    if reason := sessions.refusal(handler.request.remote_ip):
        handler.set_status(503 if reason == sessions.FULL else 429)
        handler.set_header("Retry-After", "30")
        handler.finish(DOOR.format(reason))


_find_handler = BokehTornado.find_handler


def find_handler(application: BokehTornado, request: HTTPServerRequest, **options: Any) -> Any:
    """An address with a zero byte is none. (Tornado asks for a file of that name, and fails.)"""
    if "%00" in request.path or "\0" in request.path:
        return application.get_handler_delegate(request, ErrorHandler, {"status_code": 404})
    return _find_handler(application, request, **options)


MAX_MESSAGE, PART = 8 * 2**20, 1000
"""Bytes of a message that are gathered before it is whole, as many as the largest upload and some; each part counts as this
much more."""

_consume = Receiver.consume


async def consume(receiver: Receiver, fragment: Any) -> Any:
    """The next part of a message. (Bokeh would gather parts without end: a message says itself how many it has.)"""
    receiver.gathered = getattr(receiver, "gathered", 0) + len(fragment) + PART
    if receiver.gathered > MAX_MESSAGE:
        raise ProtocolError("the message is too large")
    message = await _consume(receiver, fragment)
    if message is not None:
        receiver.gathered = 0
    return message


def on_server_loaded(server_context: ServerContext) -> None:
    logging.getLogger("asyncio").addFilter(goodbye)
    logs.install()
    ServerConnection.error = plain_error
    DocHandler.prepare = AutoloadJsHandler.prepare = knock
    BokehTornado.find_handler = find_handler
    Receiver.consume = consume
    panel_document._dispatch_msgs = dispatch_all


def on_session_created(session_context: SessionContext) -> None:
    """Register the session before its page is made; `main.py` shows a polite page when the server is full."""
    address = getattr(session_context.request, "remote_ip", None)
    sessions.opened(session_context.id, address, lambda: session_context.session)


def on_session_destroyed(session_context: SessionContext) -> None:
    sessions.closed(session_context.id)
