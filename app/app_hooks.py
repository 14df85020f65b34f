"""What the server calls when it starts and when users come and go."""

from qtcore_app.hooks import on_server_loaded, on_session_created, on_session_destroyed

__all__ = ["on_server_loaded", "on_session_created", "on_session_destroyed"]
