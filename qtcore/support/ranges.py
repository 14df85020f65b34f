"""Numbers, ranges and patches as users write them: 15, 8-20, or 3x3."""

import re

from qtcore.errors import InputError


def parse_range(text: object, smallest: int = 1) -> tuple[int, int] | None:
    """The least and the largest number of "8-20", or twice the number of 15 or "15"; None for anything else, and for numbers
    below `smallest`."""
    if not isinstance(text, str | int) or isinstance(text, bool):
        return None
    match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", str(text))
    if match is None:
        return None
    least, most = int(match[1]), int(match[2] or match[1])
    return (least, most) if smallest <= least <= most else None


def parse_block(text: str) -> "int | tuple[int, int]":
    """A number of variables such as "9", or the sides of a patch such as "3x3"."""
    sides = text.split("x")
    if not all(side.isdecimal() for side in sides) or len(sides) > 2:
        raise InputError(f"block must be a number of variables, or a patch such as 3x3, not {text!r}.")
    return int(text) if len(sides) == 1 else (int(sides[0]), int(sides[1]))
