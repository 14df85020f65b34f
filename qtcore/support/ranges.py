"""Numbers and ranges as users write them: 15, or 8-20."""

import re


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
