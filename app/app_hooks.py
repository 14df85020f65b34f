"""What the server calls when sessions come and go."""

from bokeh.application.application import SessionContext

from app import sessions


def on_session_created(session_context: SessionContext) -> None:
    """Count the session in, before its page is made; `main.py` shows the polite page to those without room."""
    sessions.opened(session_context.id)


def on_session_destroyed(session_context: SessionContext) -> None:
    sessions.closed(session_context.id)
