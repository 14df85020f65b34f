"""The server's log: one line for each thing, nothing that a stranger wrote, and not without end."""

import logging
import time
import traceback
from pathlib import Path

TELLING = ("bokeh", "panel", "param", "tornado", "asyncio")
"""Libraries whose warnings and errors repeat what they were sent: messages, addresses, names of sessions."""

CHATTING = ("bokeh.server.views", "tornado.access")
"""Those of them that do so in passing."""

MOST, SECONDS = 20, 60.0
"""Lines of one kind within so many seconds; the others are counted."""

REFUSED = ("429", "503")
"""How the lines begin that say that a page was refused: no error of ours."""

OURS = Path(__file__).parent


class Discreet(logging.Filter):
    """Leaves of a record what the program itself wrote: the beginning of its sentence, and where an error comes from."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, list[float]] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if "shown" not in record.__dict__:  # by the first of several handlers
            record.__dict__["shown"] = not _concerned(record) or self._shown(record)
        return bool(record.__dict__["shown"])

    def _shown(self, record: logging.LogRecord) -> bool:
        kind = _sentence(record)
        if record.name == "tornado.access" and kind.startswith(REFUSED):
            record.levelno, record.levelname = logging.INFO, "INFO"
        record.msg, record.args, record.exc_info, record.exc_text = kind, None, None, None
        now = time.monotonic()
        seen = self._seen[kind] = [when for when in self._seen.get(kind, []) if when > now - SECONDS]
        if len(seen) >= MOST:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        seen.append(now)
        if more := self._left_out.pop(kind, 0):
            record.msg = f"{kind} (and {more} times before)"
        return True


def _concerned(record: logging.LogRecord) -> bool:
    names = TELLING if record.levelno >= logging.WARNING else CHATTING
    return record.name.startswith(names)


def _sentence(record: logging.LogRecord) -> str:
    if record.name == "tornado.access" and isinstance(record.args, tuple) and len(record.args) == 3:
        return f"{record.args[0]} {str(record.args[1]).split(' ')[0]}"  # status and method, without the address
    text = str(record.msg)
    for end in ("%", "'", '"', "{", "\n", ":"):
        text = text.partition(end)[0]
    error = record.exc_info[1] if record.exc_info else None
    text = text.strip() or record.name
    return text if error is None else f"{text}: {type(error).__name__} at {_where(error)}"


def _where(error: BaseException) -> str:
    """The line that raised it, and the last of this app's own that led there."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if OURS in Path(frame.filename).parents][-1:]
    places = dict.fromkeys(f"{Path(frame.filename).name}:{frame.lineno}" for frame in (*frames[-1:], *own))
    return ", called at ".join(places) or "an unknown place"


def install() -> None:
    """From now on, for all that this process logs: libraries may have handlers of their own."""
    discreet = Discreet()
    for name in (None, *TELLING):
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(discreet)
