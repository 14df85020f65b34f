"""What a browser keeps: the address, the theme; and a message when the server is gone."""

from collections.abc import Callable
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore_app.components.source import script, style

THEME = "qtcore-theme"
"""The cookie that says dark or light."""


class Address(JSComponent):
    """Puts `query` ("?page=…") into the address bar, and the theme into a cookie; `visited` calls back when the user goes back
    or forward."""

    query = param.String(default="")
    first = param.String(default="")
    """The page of an address that names none."""
    visit = param.List(default=[])
    """From the browser: a number that counts visits, and the query of the address."""

    dark = param.Boolean(default=False)
    cookie = param.String(default=THEME, constant=True)

    _esm = script("address")
    _stylesheets: ClassVar[list[str]] = [style("address")]

    def __init__(self, **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)

    def visited(self, callback: Callable[[str], None]) -> None:
        """Call back with the query of an address that the browser went to."""

        def told(event: Any) -> None:
            if len(event.new) == 2 and isinstance(event.new[1], str):  # any client can send anything
                callback(event.new[1])

        self.param.watch(told, "visit")
