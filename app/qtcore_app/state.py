"""The state of a page as the parameters of an address: opening the address restores it.

Every page keeps a flat dictionary of strings; this module turns masks and pictures into short strings and back, and
ignores what does not fit (a link can be edited by anyone).
"""

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from urllib.parse import parse_qsl, urlencode

import numpy as np
from numpy.typing import NDArray

PAGES = ("faces", "contours", "digits", "yourdata", "lab", "results")
MAX_TEXT = 8192
"""Largest number of characters of one parameter that the app itself writes."""

Bytes = NDArray[np.uint8]


def encode_bytes(values: Bytes) -> str:
    """A mask or a picture as text: "b…" bits, when all are 0 or 255, else "z…" compressed bytes, in base64url."""
    flat = np.ascontiguousarray(values, np.uint8).reshape(-1)
    if np.isin(flat, (0, 255)).all():
        return "b" + _text(np.packbits(flat > 0).tobytes())
    return "z" + _text(zlib.compress(flat.tobytes(), 9))


def decode_bytes(text: str, shape: tuple[int, int]) -> Bytes | None:
    """The inverse; None when the text does not describe `shape` bytes."""
    size = shape[0] * shape[1]
    if not 2 <= len(text) <= MAX_TEXT:
        return None
    try:
        data = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
        if text[0] == "b":
            if len(data) != (size + 7) // 8:
                return None
            return (np.unpackbits(np.frombuffer(data, np.uint8))[:size] * np.uint8(255)).reshape(shape)
        if text[0] == "z":
            unpacked = zlib.decompressobj().decompress(data, size + 1)  # never more than fits, whatever it claims
            if len(unpacked) == size:
                return np.frombuffer(unpacked, np.uint8).reshape(shape).copy()
    except (ValueError, binascii.Error, zlib.error):
        pass
    return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True)
class State:
    """One page's state. Empty strings are left out of the address."""

    page: str = "faces"
    model: str = ""
    image: str = ""
    mask: str = ""
    pixels: str = ""
    """The picture itself, if it was uploaded or drawn."""
    compare: str = ""
    noise: str = ""
    """Contours: missing fraction, spurious strokes and seed, as "0.2-8-0"."""
    layer: str = ""
    pixel: str = ""
    graph: str = ""
    """The lab's graph with its settings."""
    record: str = ""
    """Digits and tables: which variables of a record are known, and which are asked for."""

    @classmethod
    def from_query(cls, query: str) -> "State":
        """From the part of an address after the question mark; unknown or oversized parameters are ignored."""
        known = {entry.name for entry in fields(cls)}
        try:
            pairs = parse_qsl(query.lstrip("?"), max_num_fields=64)
        except ValueError:  # not an address of ours
            pairs = []
        state = cls(**{key: value for key, value in pairs if key in known and len(value) <= MAX_TEXT})
        return state if state.page in PAGES else replace(state, page=PAGES[0])

    def to_query(self) -> str:
        """Something like "?page=faces&image=dream-3&mask=b…"."""
        parameters = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return "?" + urlencode({name: value for name, value in parameters.items() if value})

    def integer(self, name: str, low: int, high: int, default: int) -> int:
        """A parameter as a whole number between two bounds, or the default."""
        try:
            number = int(getattr(self, name))
        except ValueError:
            return default
        return number if low <= number <= high else default


def pixel_text(pixel: list[int]) -> str:
    return f"{pixel[0]}-{pixel[1]}" if len(pixel) == 2 else ""


def pixel_of(text: str, shape: tuple[int, int]) -> list[int]:
    """[row, column], or [] for none."""
    row, _, column = text.partition("-")
    if row.isdecimal() and column.isdecimal() and int(row) < shape[0] and int(column) < shape[1]:
        return [int(row), int(column)]
    return []


def parse_noise(text: str, default: tuple[float, int, int]) -> tuple[float, int, int]:
    """Missing fraction, strokes and seed."""
    try:
        missing, strokes, seed = text.split("-")
        noise = float(missing), int(strokes), int(seed)
    except ValueError:
        return default
    usable = 0 <= noise[0] <= 1 and 0 <= noise[1] <= 20 and 0 <= noise[2] < 10**6
    return noise if usable else default


def merged(query: str, changes: Mapping[str, str]) -> str:
    """An address with some parameters replaced."""
    return replace(State.from_query(query), **changes).to_query()
