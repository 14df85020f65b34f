"""Pictures to take away: what the model sees and its maps, with titles, layer and legends; one layer as PNG, all as GIF."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from qtcore_app import colours
from qtcore_app.frames import unpack

Bytes = NDArray[np.uint8]
View = dict[str, Any]

HEIGHT, GAP = 200, 16
"""A map is at least so high; the space around everything."""
TOP, TITLE, BAR, LEGEND = 30, 20, 8, 26
"""Pixels for the number of the layer, for a map's title, and for a legend with its bar."""
MILLISECONDS, PAUSE = 340, 2000
"""How long a GIF shows a layer, and the last one: slow enough to look at three maps."""
INK, PALE, FRAME = (30, 30, 30), (110, 110, 110), (200, 200, 200)
COVER, HATCH = (143, 163, 176), (51, 66, 77)
"""Hidden pixels, as in the painter."""
LABELS = {"CONTOUR": colours.CONTOUR, "IN": colours.IN, "OUT": colours.OUT}

_large, _font, _small = (ImageFont.load_default(size) for size in (16, 13, 11))


def picture(layer: Bytes, names: list[str], view: View, clones: list[list[int]]) -> Bytes:
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


def hatched(grey: Bytes, weights: Bytes, zoom: int) -> Bytes:
    """A grey picture [h, w] whose pixels are covered as far as they are hidden, and hatched: uint8 [h·zoom, w·zoom, 3]."""
    hidden = 1 - weights[..., None] / 255
    small = grey[..., None] * (1 - hidden) + np.array(COVER) * hidden
    large = small.round().astype(np.uint8).repeat(zoom, 0).repeat(zoom, 1)
    down, along = np.indices(large.shape[:2])
    stripe = (down + along + 1) % zoom < max(1, zoom // 6)
    large[stripe & (weights < 255).repeat(zoom, 0).repeat(zoom, 1)] = HATCH
    return large


class Sheet:
    """The layers of some runs (a blob of `app.frames`) beside the picture [h, w] that the model sees, with its weights."""

    def __init__(self, frames: bytes, views: Sequence[View], grey: Bytes, weights: Bytes, title: str) -> None:
        self.header, self.runs = unpack(frames)
        self.names = [channel["name"] for channel in self.header["channels"]]
        self.views = [view for view in views if view["channel"] in self.names]
        self.zoom = -(-HEIGHT // grey.shape[0])
        self.height, self.width = (side * self.zoom for side in grey.shape)
        labels = [run["label"] if len(self.runs) > 1 else "" for run in self.header["runs"]]
        titles = [[self._title(view, label) for view in self.views] for label in labels]
        columns = [[title], *([row[i] for row in titles] for i in range(len(self.views)))]
        widths = [max(self.width, *(int(_font.getlength(text)) + 1 for text in column)) for column in columns]
        self.left = np.cumsum([GAP, *(width + GAP for width in widths)]).tolist()
        self.row = TITLE + self.height + LEGEND + GAP
        self.ground = Image.new("RGB", (self.left[-1], GAP + TOP + len(self.runs) * self.row), "white")
        self.draw = ImageDraw.Draw(self.ground)
        self._write(self.left[0], self._top(0) - TITLE, title)
        self._paste(self.ground, 0, 0, hatched(grey, weights, self.zoom))
        if (weights < 255).any():
            self._keys(self.left[0], self._top(0) + self.height + 6, {"hidden": COVER})
        for r, row in enumerate(titles):
            for i, text in enumerate(row):
                self._write(self.left[i + 1], self._top(r) - TITLE, text)
                self._legend(self.left[i + 1], self._top(r) + self.height + 6, self.views[i])

    def _title(self, view: View, label: str) -> str:
        return " · ".join(part for part in (view["title"], view.get("note"), label) if part)

    def _top(self, row: int) -> int:
        """Where the maps of a row begin."""
        return GAP + TOP + TITLE + row * self.row

    def _write(self, x: float, y: int, text: str, font: Any = _font, ink: tuple[int, int, int] = INK) -> None:
        self.draw.text((x, y), text, fill=ink, font=font)

    def _paste(self, sheet: Image.Image, column: int, row: int, pixels: Bytes) -> None:
        x, y = self.left[column], self._top(row)
        sheet.paste(Image.fromarray(pixels), (x, y))
        ImageDraw.Draw(sheet).rectangle((x - 1, y - 1, x + self.width, y + self.height), outline=FRAME)

    def _keys(self, x: int, y: int, keys: dict[str, tuple[int, int, int]]) -> None:
        for name, colour in keys.items():
            self.draw.rectangle((x, y, x + 10, y + 10), fill=colour, outline=PALE)
            self._write(x + 15, y - 1, name, _small, PALE)
            x += 25 + int(_small.getlength(name))

    def _legend(self, x: int, y: int, view: View) -> None:
        """The colours of the labels, or a bar with what its ends mean."""
        if view["map"] == "labels":
            self._keys(x, y, LABELS)
            return
        table = colours.tables()["wheel" if view["map"] == "clones" else view["map"]]
        bar = table[np.linspace(0, 255, self.width).round().astype(int)][None].repeat(BAR, 0)
        self.ground.paste(Image.fromarray(bar), (x, y))
        channel = self.header["channels"][self.names.index(view["channel"])]
        texts = [f"{channel['low']:.3g}", view["unit"], f"{channel['high']:.3g}"]
        texts = ["right", "down", "left", "up", "right"] if view["map"] == "clones" else texts
        for i, text in enumerate(texts):
            share = i / (len(texts) - 1)
            self._write(x + share * (self.width - _small.getlength(text)), y + BAR + 2, text, _small, PALE)

    def at(self, layer: int) -> Image.Image:
        """The sheet after this layer; a run that has fewer shows its last."""
        sheet = self.ground.copy()
        total = max(run["total"] for run in self.header["runs"])
        ImageDraw.Draw(sheet).text((GAP, GAP), f"layer {layer} of {total}", fill=INK, font=_large)
        for r, run in enumerate(self.runs):
            channels = run[min(layer, len(run) - 1)]
            for i, view in enumerate(self.views):
                small = picture(channels, self.names, view, self.header.get("clones", []))
                large = small.repeat(self.zoom, 0).repeat(self.zoom, 1)
                if layer == 0 and i == 0 and "hidden" in self.header:  # nothing is known yet
                    weights = np.full(small.shape[:2], 255, np.uint8)
                    weights.flat[self.header["hidden"]] = 0
                    large = hatched(small[..., 0], weights, self.zoom)
                self._paste(sheet, i + 1, r, large)
        return sheet

    @property
    def last(self) -> int:
        return max(len(run) for run in self.runs) - 1

    def png(self, layer: int) -> bytes:
        file = io.BytesIO()
        self.at(min(max(layer, 0), self.last)).save(file, "PNG")
        return file.getvalue()

    def gif(self) -> bytes:
        """All layers, in the colours that the first, the middle and the last need: what stands still does not flicker."""
        some = np.concatenate([np.asarray(self.at(layer)) for layer in (0, self.last // 2, self.last)])
        palette = Image.fromarray(some).quantize(256, Image.Quantize.MAXCOVERAGE)
        none = Image.Dither.NONE
        images = [self.at(layer).quantize(palette=palette, dither=none) for layer in range(self.last + 1)]
        file = io.BytesIO()
        durations = [MILLISECONDS] * self.last + [PAUSE]
        images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, disposal=1)
        return file.getvalue()
