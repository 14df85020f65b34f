"""All layers of a run: maps side by side with a common cursor, curves, and one pixel in detail."""

import io
import logging
import struct
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray
from panel.custom import JSComponent
from PIL import Image

from app import colours
from app.components.source import script, style
from app.frames import unpack

log = logging.getLogger(__name__)

GIF_ZOOM, GIF_GAP, GIF_HEIGHT = 6, 6, 160
"""Screen pixels per image pixel (more where the map would be lower than GIF_HEIGHT) and between two maps."""
GIF_MILLISECONDS = 120

GAUSSIAN_VIEWS = [
    {"title": "Mean", "channel": "mean", "map": "grey", "unit": "grey level"},
    {"title": "Standard deviation", "channel": "deviation", "map": "uncertainty", "unit": "± grey levels"},
    {"title": "Difference from the truth", "channel": "difference", "map": "difference", "unit": "grey levels"},
]
BERNOULLI_VIEWS = [
    {"title": "Probability of 1", "channel": "mean", "map": "grey", "unit": "probability"},
    {"title": "Entropy", "channel": "entropy", "map": "uncertainty", "unit": "bits"},
    {"title": "Difference from the truth", "channel": "difference", "map": "difference", "unit": "probability"},
]
GRID_VIEWS = [
    {"title": "Segmentation", "channel": "contour", "map": "labels", "unit": ""},
    {"title": "Entropy", "channel": "entropy", "map": "uncertainty", "unit": "bits"},
    {"title": "Winning clone", "note": "colour: where IN lies", "channel": "clone", "map": "clones", "unit": ""},
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
    """Shows `frames` (see `app.frames`): slider, play, step and speed run in the browser.

    `layer` is the cursor (-1: the last layer so far) and `pixel` the chosen pixel [row, column] ([] for none).
    """

    frames = param.Bytes(default=b"")
    views = param.List(default=GAUSSIAN_VIEWS, item_type=dict)
    charts = param.List(default=[RESIDUAL, NCE_HIDDEN], item_type=dict)
    inspector = param.String(default="band", doc="What a pixel's chart shows: band, labels or probability.")
    layer = param.Integer(default=-1)
    pixel = param.List(default=[])
    scale = param.Integer(default=0, bounds=(0, 64))
    columns = param.Integer(default=4, bounds=(1, 8))
    whole_page = param.Boolean(default=False, doc="Whether its keys work wherever the focus is.")
    tables = param.Dict(default=colours.packed())
    gif = param.Bytes(default=b"", doc="u32 serial number and the file, once it was asked for.")
    gif_wanted = param.Integer(default=0)

    _esm = script("player", "chart", "layers")
    _stylesheets: ClassVar[list[str]] = [style("player")]

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self.param.watch(self._make_gif, "gif_wanted")

    def _make_gif(self, event: param.parameterized.Event) -> None:
        if not self.frames:
            return
        try:
            made = animation(self.frames, self.views)
        except Exception:
            log.exception("no GIF could be made")
            return
        self.gif = struct.pack("<I", event.new & 0xFFFFFFFF) + made


def picture(layer: NDArray[np.uint8], names: list[str], view: dict[str, Any], clones: list[list[int]]) -> NDArray[np.uint8]:
    """One map of one layer [channels, h, w] in colour, uint8 [h, w, 3]."""
    kind = view["map"]
    if kind not in ("labels", "clones"):
        return np.asarray(colours.tables()[kind][layer[names.index(view["channel"])]])
    contour, inside = (layer[names.index(name)].astype(float)[..., None] / 255 for name in ("contour", "in"))
    outside = np.clip(1 - contour - inside, 0, 1)
    blend = contour * np.array(colours.CONTOUR) + inside * np.array(colours.IN) + outside * np.array(colours.OUT)
    if kind == "labels":
        return blend.round().clip(0, 255).astype(np.uint8)
    palette = np.array(clones or [[150, 150, 150]])
    chosen = palette[np.minimum(layer[names.index("clone")], len(palette) - 1)]
    return np.where((contour > inside) & (contour > outside), chosen, 236).astype(np.uint8)


def animation(frames: bytes, views: list[dict[str, Any]]) -> bytes:
    """A GIF of all layers, the maps side by side and the runs below each other."""
    header, runs = unpack(frames)
    names = [channel["name"] for channel in header["channels"]]
    shown = [view for view in views if view["channel"] in names]
    zoom = max(GIF_ZOOM, GIF_HEIGHT // header["height"])
    images = []
    for index in range(max(len(run) for run in runs)):
        rows = []
        for run in runs:
            layer = run[min(index, len(run) - 1)]
            maps = [picture(layer, names, view, header.get("clones", [])) for view in shown]
            maps = [panel.repeat(zoom, 0).repeat(zoom, 1) for panel in maps]
            gap = np.full((maps[0].shape[0], GIF_GAP, 3), 255, np.uint8)
            rows.append(np.concatenate([part for panel in maps for part in (panel, gap)][:-1], 1))
            rows.append(np.full((GIF_GAP, rows[-1].shape[1], 3), 255, np.uint8))
        images.append(Image.fromarray(np.concatenate(rows[:-1])).convert("P", palette=Image.Palette.ADAPTIVE))
    file = io.BytesIO()
    durations = [GIF_MILLISECONDS] * (len(images) - 1) + [1500]
    images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, disposal=1)
    return file.getvalue()
