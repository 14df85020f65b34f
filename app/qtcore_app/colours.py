"""Colours with fixed meanings, safe for colour-blind users: tables of 256 colours for browser and GIF."""

import colorsys
import functools

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.uint8]

CONTOUR, IN, OUT = (214, 39, 40), (185, 217, 242), (253, 246, 195)  # red, pale blue, pale yellow

_STOPS = {
    "grey": ["000000", "ffffff"],
    # viridis, by its ninths
    "uncertainty": ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"],
    # blue, white, brown: negative, nothing, positive
    "difference": ["053061", "2166ac", "4393c3", "92c5de", "f7f7f7", "fdb863", "e08214", "b35806", "7f3b08"],
}


def _between(stops: list[str]) -> Table:
    points = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in stops], float)
    at = np.linspace(0, len(stops) - 1, 256)
    columns = [np.interp(at, np.arange(len(stops)), points[:, channel]) for channel in range(3)]
    return np.stack(columns, 1).round().astype(np.uint8)


def _wheel() -> Table:
    """A circle of hues, lighter at the top and darker at the bottom so that opposite sides differ in grey as well."""
    colours = []
    for i in range(256):
        angle = i / 256
        light = 0.5 - 0.14 * np.sin(2 * np.pi * angle)  # 90° is down
        colours.append(colorsys.hls_to_rgb((angle + 0.6) % 1, light, 0.85))
    return (np.array(colours) * 255).round().astype(np.uint8)


@functools.cache
def tables() -> dict[str, Table]:
    """Name → uint8 [256, 3]."""
    return {name: _between(stops) for name, stops in _STOPS.items()} | {"wheel": _wheel()}


@functools.cache
def packed() -> dict[str, list[int]]:
    """The same as flat lists, for the browser."""
    return {name: table.reshape(-1).tolist() for name, table in tables().items()}
