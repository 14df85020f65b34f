"""The interactive app: `make app` serves it, and `app.widget(model)` shows its painter and player in a notebook."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.inline import widget

__all__ = ["widget"]


def __getattr__(name: str) -> Any:
    """Load `widget` on first use: importing the package should not take a second."""
    if name == "widget":
        from importlib import import_module

        return import_module("app.inline").widget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
