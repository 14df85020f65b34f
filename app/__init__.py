"""The interactive app: `make app` serves it, and `app.widget(model)` shows its painter and player in a notebook."""

import signal
import sys
from typing import TYPE_CHECKING, Any

# As in qtcore.
if (
    sys.argv[:1] == ["-m"]
    and sys.orig_argv[-len(sys.argv)].removeprefix("-m").startswith("app.")
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)

if TYPE_CHECKING:
    from app.inline import widget

__all__ = ["widget"]


def __getattr__(name: str) -> Any:
    """Load `widget` on first use: importing the package should not take a second."""
    if name == "widget":
        from importlib import import_module

        return import_module("app.inline").widget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
