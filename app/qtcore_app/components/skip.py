"""A link past all choices."""

from typing import Any, ClassVar

from panel.custom import JSComponent

from qtcore_app.components.source import script, style


class Skip(JSComponent):
    """For those who use the keyboard: leads to what the page is about, and is seen only while it has the focus."""

    _esm = script("skip")
    _stylesheets: ClassVar[list[str]] = [style("skip")]

    def __init__(self, **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
