"""Components drawn in the browser: each a Python class with its own JavaScript."""

from app.components.address import Address
from app.components.choices import Choices, Gallery, Knobs, Upload
from app.components.completions import Completions
from app.components.painter import Painter, decode_packet
from app.components.player import Player
from app.components.record import Record
from app.components.skip import Skip

__all__ = [
    "Address",
    "Choices",
    "Completions",
    "Gallery",
    "Knobs",
    "Painter",
    "Player",
    "Record",
    "Skip",
    "Upload",
    "decode_packet",
]
