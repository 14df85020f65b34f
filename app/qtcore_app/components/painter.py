"""A canvas on which the user hides pixels or draws: image and mask live in the browser, which sends one packet per stroke."""

import logging
import struct
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import param
from numpy.typing import NDArray
from panel.custom import JSComponent

from qtcore_app.components.source import script, style

log = logging.getLogger(__name__)

Bytes = NDArray[np.uint8]


def decode_packet(
    packet: Any, shape: tuple[int, int], drawable: bool, grey: bool = False
) -> tuple[int, Bytes, Bytes | None] | None:
    """(number, weights [h, w], drawing [h, w] or None), or None for anything that a painter does not send.

    What is refused is logged without its content: any client can send anything.
    """
    pixels = shape[0] * shape[1]
    expected = 4 + pixels * (2 if drawable else 1)
    if not isinstance(packet, bytes) or len(packet) != expected:
        length = len(packet) if isinstance(packet, bytes) else type(packet).__name__
        log.warning("ignored a packet of length %s; expected %d bytes", length, expected)
        return None
    (seq,) = struct.unpack_from("<I", packet)
    if seq == 0:
        log.warning("ignored a packet without a number")
        return None
    weights = np.frombuffer(packet, np.uint8, pixels, 4).reshape(shape)
    drawing = np.frombuffer(packet, np.uint8, pixels, 4 + pixels).reshape(shape) if drawable else None
    if drawing is not None and not grey and not np.isin(drawing, (0, 255)).all():
        log.warning("ignored a packet whose drawing is neither black nor white")
        return None
    return seq, weights, drawing


class Painter(JSComponent):
    """Image and mask of height_px × width_px; `strokes(callback)` reports every finished stroke.

    `give(image, weights)` shows another image or mask (as a stroke that can be undone). Weights are 255 where a pixel is
    observed and 0 where it is hidden; brush opacity gives values in between.
    """

    height_px = param.Integer(default=28, bounds=(1, 512), constant=True)
    width_px = param.Integer(default=20, bounds=(1, 512), constant=True)
    drawable = param.Boolean(default=False, constant=True)
    grey = param.Boolean(
        default=False,
        constant=True,
        doc="Of a canvas to draw on: whether it is light on dark, of any grey level, and seen where it was drawn on; else "
        "it is dark on light, black or white, and a drawing leaves alone what is hidden.",
    )
    pencils = param.Integer(default=0, doc="From Python, counts: take the pencil.")
    canvas = param.String(constant=True, doc="Its own name, under which the window keeps what can be undone.")
    title = param.String(default="What the model sees")
    scale = param.Integer(default=0, bounds=(0, 64), doc="Screen pixels per image pixel; 0 lets the window decide.")
    columns = param.Integer(default=4, bounds=(1, 8), doc="Pictures that share the window's width.")
    whole_page = param.Boolean(default=False, doc="Whether its keys work wherever the focus is.")
    given = param.Bytes(default=b"", doc="From Python: u32 serial number, image, weights.")
    packet = param.Bytes(default=b"", doc="From the browser: u32 stroke number, weights, and the drawing if there is one.")

    _esm = script("painter")
    _stylesheets: ClassVar[list[str]] = [style("painter")]
    _priority_changes: ClassVar[list[str]] = ["packet"]  # otherwise Panel waits 50 ms for more changes

    def __init__(self, image: Bytes, weights: Bytes | None = None, **params: Any) -> None:
        height, width = image.shape
        super().__init__(height_px=height, width_px=width, canvas=uuid4().hex, **params)
        self._serial = 0
        self.seq = 0
        self.image = np.zeros((height, width), np.uint8)
        self.weights = np.full((height, width), 255, np.uint8)
        self._listeners: list[Callable[[], None]] = []
        self.give(image, weights)
        self.param.watch(self._receive, "packet")

    @property
    def shape(self) -> tuple[int, int]:
        return self.height_px, self.width_px

    @property
    def shown(self) -> Bytes:
        """The grey levels that the user sees: drawings are dark on light."""
        return 255 - self.image if self.drawable and not self.grey else self.image

    def give(self, image: Bytes | None = None, weights: Bytes | None = None) -> None:
        """Show this image and these weights; None leaves one unchanged."""
        if image is not None:
            self.image = image.astype(np.uint8).reshape(self.shape)
        if weights is not None:
            self.weights = weights.astype(np.uint8).reshape(self.shape)
        self._serial += 1
        self.param.update(
            given=struct.pack("<I", self._serial) + self.image.tobytes() + self.weights.tobytes(),
            packet=b"",  # a painter that is redrawn, after its tab was left, shows the latest state
        )

    def strokes(self, callback: Callable[[], None]) -> None:
        """Call back after each stroke; `weights`, `image` and `seq` then hold it."""
        self._listeners.append(callback)

    def _receive(self, event: param.parameterized.Event) -> None:
        if event.new == b"":
            return
        decoded = decode_packet(event.new, self.shape, self.drawable, self.grey)
        if decoded is None:
            return
        self.seq, self.weights, drawing = decoded
        if drawing is not None:
            self.image = drawing
        for listener in self._listeners:
            listener()
