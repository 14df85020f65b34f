"""Parts of a page that are drawn in the browser: each a Python class with its JavaScript beside it."""

from app.components.choices import Choices, Gallery, Knobs, Upload
from app.components.painter import Painter, decode_packet
from app.components.player import Player

__all__ = ["Choices", "Gallery", "Knobs", "Painter", "Player", "Upload", "decode_packet"]
