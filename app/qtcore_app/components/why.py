"""Why a pixel is believed to be what it is."""

from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore_app.components.source import script, style


class Why(JSComponent):
    """Two maps (what is believed, and what the evidence did to one pixel of it), the reasons that matter most, and what the
    model has learned; `asks` counts the pixels that were clicked (see `qtcore_app.reasons`)."""

    height_px = param.Integer(default=28, constant=True)
    width_px = param.Integer(default=20, constant=True)
    scale = param.Integer(default=0, bounds=(0, 64))
    titles = param.List(default=["What it believes", "What the evidence did to it"], item_type=str)
    learned = param.String(default="", doc="What the picture of all that was learned shows.")
    pixel = param.List(default=[], doc="[row, column]")
    pictures = param.Bytes(default=b"", doc="uint8 [2, height, width, 3]")
    facts = param.Dict(default={}, doc="Claim and reasons, see `qtcore_app.reasons.facts`.")
    filters = param.Bytes(
        default=b"", doc="Of the hidden units that are named: uint8 [units, height, width, 3]; none of a grid."
    )
    activity = param.Bytes(default=b"", doc="Probabilities of the hidden units: uint8 [layers, units].")
    atlas = param.Bytes(default=b"", doc="All that was learned: u16 height, u16 width, uint8 [height, width, 3].")
    stale = param.Boolean(default=False, doc="Whether this belongs to an earlier question.")
    share = param.Number(default=1.0, doc="How much is done; 1 if nothing is under way.")
    status = param.String(default="")
    asks = param.Integer(default=0)

    _esm = script("why", "joint")
    _stylesheets: ClassVar[list[str]] = [style("joint", "why")]
    _priority_changes: ClassVar[list[str]] = ["asks", "pixel"]

    def __init__(self, shape: tuple[int, int], **params: Any) -> None:
        super().__init__(height_px=shape[0], width_px=shape[1], **params)

    def place(self) -> int | None:
        """The number of the chosen pixel, or None if there is none (any client can send anything)."""
        if len(self.pixel) != 2 or not all(isinstance(number, int) for number in self.pixel):
            return None
        row, column = self.pixel
        return row * self.width_px + column if 0 <= row < self.height_px and 0 <= column < self.width_px else None
