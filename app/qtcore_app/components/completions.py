"""Joint completions of a picture: its marginals beside samples and the most probable one."""

from collections.abc import Sequence
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore_app.components.source import script, style


class Completions(JSComponent):
    """Pictures below their titles in rows of four; `asks` counts the clicks on the button."""

    titles = param.List(default=[], item_type=str, constant=True)
    looks = param.List(default=[], item_type=str, constant=True, doc="Names of the ways in which they can be shown, if any.")
    label = param.String(default="New samples")
    note = param.String(default="")
    height_px = param.Integer(default=28, constant=True)
    width_px = param.Integer(default=20, constant=True)
    scale = param.Integer(default=0, bounds=(0, 64))
    pictures = param.Bytes(default=b"", doc="uint8 [looks, titles, height, width, 3]; fewer looks while they are drawn.")
    stale = param.Boolean(default=False, doc="Whether they belong to an earlier question.")
    share = param.Number(default=1.0, doc="How much is done; 1 if nothing is under way.")
    status = param.String(default="")
    asks = param.Integer(default=0)

    _esm = script("completions", "joint")
    _stylesheets: ClassVar[list[str]] = [style("joint")]
    _priority_changes: ClassVar[list[str]] = ["asks"]

    def __init__(self, shape: tuple[int, int], titles: Sequence[str], looks: Sequence[str] = (), **params: Any) -> None:
        super().__init__(height_px=shape[0], width_px=shape[1], titles=[*titles], looks=[*looks], **params)
