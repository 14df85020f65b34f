"""A page of HTML with figures of Bokeh in it."""

from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore_app.components.source import script, style


class Report(JSComponent):
    """Our own HTML, in which an element with data-figure says where a figure belongs.

    The figures are a Bokeh document of their own, drawn in the browser without a session: that of a user would have to make
    and send its own models at each visit, and would be kept in memory by them.
    """

    html = param.String(default="", constant=True)
    figures = param.Bytes(default=b"", doc="A Bokeh document as gzipped JSON.")
    places = param.Dict(default={}, doc="For each value of data-figure the identity of a root of this document.")

    _esm = script("report")
    _stylesheets: ClassVar[list[str]] = [style("results")]

    def __init__(self, html: str, **params: Any) -> None:
        super().__init__(html=html, sizing_mode="stretch_width", **params)
