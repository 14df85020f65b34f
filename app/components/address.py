"""What is above all pages: the address bar, and a word when the server is gone."""

from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from app.components.source import script, style


class Address(JSComponent):
    """Puts `query` ("?page=…") into the address bar, in place of what stood there."""

    query = param.String(default="")

    _esm = script("address")
    _stylesheets: ClassVar[list[str]] = [style("address")]

    def __init__(self, **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
