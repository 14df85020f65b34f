"""The address bar, and a message when the server is gone."""

from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from app.components.source import script, style


class Address(JSComponent):
    """Replaces the query of the address bar by `query` ("?page=…")."""

    query = param.String(default="")

    _esm = script("address")
    _stylesheets: ClassVar[list[str]] = [style("address")]

    def __init__(self, **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
