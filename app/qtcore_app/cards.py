"""Short explanations with equations."""

from typing import Any

import panel as pn
from panel.viewable import Viewable


def sentences(text: str, **options: Any) -> pn.pane.LaTeX:
    """Sentences with equations between dollars, set by KaTeX."""
    return pn.pane.LaTeX(text, renderer="katex", sizing_mode="stretch_width", styles={"font-size": "14px"}, **options)


def card(title: str, *parts: str) -> Viewable:
    """A heading and sentences."""
    heading = pn.pane.HTML(f"<b>{title}</b>", margin=(0, 0, 4, 0))
    shown = [sentences(part, margin=(0, 0, 4, 0)) for part in parts]
    return pn.Column(heading, *shown, sizing_mode="stretch_width", margin=(0, 24, 0, 0))
