"""Rows of small buttons and of thumbnails."""

from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray
from panel.custom import JSComponent

from qtcore_app.components.source import script, style
from qtcore_app.uploads import MAX_BYTES


class Choices(JSComponent):
    """Small buttons, one per label; `clicks` counts [button, number of clicks], so that a second click counts too."""

    labels = param.List(default=[], item_type=str)
    selected = param.Integer(default=-1, doc="The button that looks pressed; -1 for none.")
    heading = param.String(default="")
    clicks = param.List(default=[-1, 0])

    _esm = script("choices")
    _stylesheets: ClassVar[list[str]] = [style("choices")]
    _priority_changes: ClassVar[list[str]] = ["clicks"]

    def clicked(self) -> int | None:
        """The button that was clicked last, or None if the value is invalid."""
        value = self.clicks
        if len(value) == 2 and isinstance(value[0], int) and 0 <= value[0] < len(self.labels):
            return int(value[0])
        return None


class Gallery(JSComponent):
    """Thumbnails of grey images; `clicks` holds [image, number of clicks]."""

    heading = param.String(default="")
    images = param.Bytes(default=b"", doc="uint8 [n, height, width]")
    height_px = param.Integer(default=28, constant=True)
    width_px = param.Integer(default=20, constant=True)
    zoom = param.Number(default=2.0, doc="Screen pixels per image pixel.")
    names = param.List(default=[], item_type=str)
    selected = param.Integer(default=0)
    clicks = param.List(default=[-1, 0])

    _esm = script("gallery")
    _stylesheets: ClassVar[list[str]] = [style("choices")]
    _priority_changes: ClassVar[list[str]] = ["clicks"]

    def __init__(self, pictures: NDArray[np.uint8], **params: Any) -> None:
        count, height, width = pictures.shape
        params.setdefault("names", [f"image {i + 1}" for i in range(count)])
        super().__init__(images=pictures.tobytes(), height_px=height, width_px=width, **params)

    def clicked(self) -> int | None:
        value = self.clicks
        if len(value) == 2 and isinstance(value[0], int) and 0 <= value[0] < len(self.names):
            return int(value[0])
        return None


class Upload(JSComponent):
    """A button that reads one file. `file` holds four bytes that change each time, then the file itself."""

    label = param.String(default="Upload a picture…")
    accept = param.String(default="image/png,image/jpeg,image/gif,image/bmp,image/webp")
    max_bytes = param.Integer(default=MAX_BYTES, constant=True)
    what = param.String(default="pictures", constant=True)
    file = param.Bytes(default=b"")
    problem = param.String(default="", doc="Why the last file was refused, or is not to be trusted.")

    _esm = script("upload")
    _stylesheets: ClassVar[list[str]] = [style("choices")]


class Knobs(JSComponent):
    """Sliders for whole numbers and an optional button; `numbers()` are checked, `actions` counts the button's clicks."""

    heading = param.String(default="")
    knobs = param.List(default=[], item_type=dict, doc='{"label", "low", "high", "value", "unit"} each.')
    action = param.String(default="")
    values = param.List(default=[])
    actions = param.Integer(default=0)

    _esm = script("knobs")
    _stylesheets: ClassVar[list[str]] = [style("choices")]
    _priority_changes: ClassVar[list[str]] = ["values", "actions"]

    def numbers(self) -> list[int]:
        """The sliders' numbers; an invalid one counts as the slider's initial value."""
        values = self.values if len(self.values) == len(self.knobs) else [knob["value"] for knob in self.knobs]
        return [
            int(value) if isinstance(value, int | float) and knob["low"] <= value <= knob["high"] else int(knob["value"])
            for value, knob in zip(values, self.knobs, strict=True)
        ]
