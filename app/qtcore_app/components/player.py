"""All layers of a run: maps side by side with a common cursor, curves, and one pixel in detail."""

import asyncio
import struct
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore_app import colours, engine
from qtcore_app.components.painter import Painter
from qtcore_app.components.source import script, style
from qtcore_app.sheets import Sheet

GAUSSIAN_VIEWS = [
    {"title": "Mean", "channel": "mean", "map": "grey", "unit": "grey level"},
    {"title": "Standard deviation", "channel": "deviation", "map": "uncertainty", "unit": "± grey levels"},
    {"title": "Error (mean − original)", "channel": "difference", "map": "difference", "unit": "grey levels"},
]
BERNOULLI_VIEWS = [
    {"title": "Probability of 1", "channel": "mean", "map": "grey", "unit": "probability"},
    {"title": "Entropy", "channel": "entropy", "map": "uncertainty", "unit": "bits"},
    {"title": "Error (p − original)", "channel": "difference", "map": "difference", "unit": "probability"},
]
GRID_VIEWS = [
    {"title": "Segmentation", "channel": "contour", "map": "labels", "unit": ""},
    {"title": "Entropy", "channel": "entropy", "map": "uncertainty", "unit": "bits"},
    {"title": "Most probable clone", "note": "hue: IN's side", "channel": "clone", "map": "clones", "unit": ""},
]
RESIDUAL = {"title": "Residual", "curve": "residual", "log": True, "explain": "Largest change of a message in each layer"}
_NCE = "NCE: −log2 of the marginal at the truth, mean over "
NCE_HIDDEN = {"title": "Bits per hidden pixel", "curve": "nce", "log": False, "explain": _NCE + "the hidden pixels"}
NCE_ALL = {"title": "Bits per pixel", "curve": "nce", "log": False, "low": 0, "explain": _NCE + "all pixels"}
IOU = {
    "title": "IoU",
    "curve": "iou",
    "log": False,
    "low": 0,
    "high": 1,
    "explain": "Intersection over union of the foreground (CONTOUR and IN)",
}


class Player(JSComponent):
    """Shows `frames` (see `app.frames`) of what is in `painter`: slider, play, step and speed run in the browser.

    `layer` is the cursor (-1: the last layer so far) and `pixel` the chosen pixel [row, column] ([] for none).
    """

    frames = param.Bytes(default=b"")
    views = param.List(default=GAUSSIAN_VIEWS, item_type=dict)
    charts = param.List(default=[RESIDUAL, NCE_HIDDEN], item_type=dict)
    inspector = param.String(default="band", doc="What a pixel's chart shows: band, labels or probability.")
    layer = param.Integer(default=-1)
    pixel = param.List(default=[])
    play = param.Boolean(default=False, doc="From Python: play what there is from layer 0; it is then False again.")
    even = param.Boolean(
        default=False, doc="Whether all layers are played alike; else the first ones, which change most, slowly."
    )
    scale = param.Integer(default=0, bounds=(0, 64))
    columns = param.Integer(default=4, bounds=(1, 8))
    whole_page = param.Boolean(default=False, doc="Whether its keys work wherever the focus is.")
    tables = param.Dict(default=colours.packed())
    wanted = param.List(default=[], doc='From the browser: "png" or "gif", the layer shown, and a number that counts.')
    file = param.Bytes(default=b"", doc="u32 number that counts and the file that was asked for.")

    _esm = script("player", "chart", "layers")
    _stylesheets: ClassVar[list[str]] = [style("player")]

    def __init__(self, painter: Painter, **params: Any) -> None:
        super().__init__(**params)
        self._painter = painter
        self._files = engine.Latest()
        self.param.watch(self._on_wanted, "wanted")

    def _on_wanted(self, event: param.parameterized.Event) -> None:
        if self.frames and len(event.new) == 3 and all(isinstance(number, int) for number in event.new[1:]):
            self._files.submit(lambda: self._make_file(*event.new))

    async def _make_file(self, kind: Any, layer: int, number: int) -> None:
        painter = self._painter
        question = self.frames, self.views, painter.shown, painter.weights, painter.title

        def make() -> bytes:
            sheet = Sheet(*question)
            return sheet.gif() if kind == "gif" else sheet.png(layer)

        made = await asyncio.get_running_loop().run_in_executor(engine.pool, make)
        self.file = struct.pack("<I", number & 0xFFFFFFFF) + made
