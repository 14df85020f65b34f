"""Components drawn in the browser: each a Python class with its own JavaScript."""

from qtcore_app.components.address import Address
from qtcore_app.components.choices import Choices, Gallery, Knobs, Upload
from qtcore_app.components.completions import Completions
from qtcore_app.components.painter import Painter, decode_packet
from qtcore_app.components.player import Player
from qtcore_app.components.record import Record
from qtcore_app.components.report import Report
from qtcore_app.components.skip import Skip
from qtcore_app.components.why import Why
from qtcore_app.components.yourdata import Asker, ColumnsView, Trainer

__all__ = [
    "Address",
    "Asker",
    "Choices",
    "ColumnsView",
    "Completions",
    "Gallery",
    "Knobs",
    "Painter",
    "Player",
    "Record",
    "Report",
    "Skip",
    "Trainer",
    "Upload",
    "Why",
    "decode_packet",
]
