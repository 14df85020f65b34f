"""Who is served: there are so many places, and a page that is opened beyond them is refused politely instead of slowing down
everybody.

A place belongs to an open window, that is to a websocket. A page that was sent and whose socket does not open gives its place
back after a few seconds. One address cannot have all places, nor open pages without end; this machine's own may, since behind a
proxy all visitors have it (`panel serve --use-xheaders` tells them apart).
"""

import ipaddress
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from bokeh.server.session import ServerSession


def _limit() -> int:
    try:
        return max(1, int(os.environ.get("QTCORE_SESSIONS", "")))
    except ValueError:
        return 64


LIMIT = _limit()
"""Places; set by QTCORE_SESSIONS."""

SHARE = 0.75
"""The part of all places that one address can have: a class behind one router should fit."""

OPENS, MINUTE = 120, 60.0
"""Pages that one address can open within so many seconds."""

GRACE = 10.0
"""Seconds for which a place is kept for a window whose socket is not open: not yet, or not any more."""

FULL = "All places are taken at the moment. Reload this page to try again."
SHARED = "Too many windows are open at your network's address. Close one, then reload this page."
OFTEN = "Too many pages were opened from your network's address within a minute. Wait a little, then reload this page."


class Place(NamedTuple):
    address: str
    session: Callable[[], ServerSession | None]
    """The session, or None while it is being made."""

    def held(self) -> bool:
        session = self.session()
        return session is None or session.connection_count > 0 or session.milliseconds_since_last_unsubscribe < 1000 * GRACE


_lock = threading.Lock()
_places: dict[str, Place] = {}
_opens: dict[str, deque[float]] = {}


def network(address: str | None) -> str:
    """What counts as one address: an IPv6 user has a whole network of them. Empty for this machine's own, or none."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    if parsed.is_loopback:
        return ""
    return str(parsed) if parsed.version == 4 else str(ipaddress.ip_network((parsed, 64), strict=False))


def refusal(address: str | None) -> str | None:
    """Why no page can be opened from this address now, as a sentence for its user; None if one can."""
    with _lock:
        return _refusal(network(address))


def _refusal(address: str) -> str | None:
    held = [place.address for place in _places.values() if place.held()]
    if address and held.count(address) >= max(1, int(SHARE * LIMIT)):
        return SHARED
    if address and len(_recent(address)) >= OPENS:
        return OFTEN
    return FULL if len(held) >= LIMIT else None


def _recent(address: str) -> deque[float]:
    """When pages were opened from this address within the last minute."""
    now = time.monotonic()
    for other in list(_opens):
        while _opens[other] and _opens[other][0] < now - MINUTE:
            _opens[other].popleft()
        if not _opens[other]:
            del _opens[other]
    return _opens.get(address, deque())


def opened(identity: str, address: str | None, session: Callable[[], ServerSession | None]) -> bool:
    """Register a new session; False if it is refused."""
    with _lock:
        place = Place(network(address), session)
        if _refusal(place.address) is not None:
            return False
        _places[identity] = place
        if place.address:
            _opens.setdefault(place.address, deque()).append(time.monotonic())
        return True


def closed(identity: str) -> None:
    """Remove a session (one that was refused is unknown, which is fine)."""
    with _lock:
        _places.pop(identity, None)


def admitted(identity: str | None) -> bool:
    """Whether a session was admitted; always, without a server."""
    return identity is None or identity in _places


def present(identity: str | None) -> bool:
    """Whether a session's window is open, or was a few seconds ago; always, without a server."""
    with _lock:
        place = _places.get(identity or "")
    return identity is None or (place is not None and place.held())


def count() -> int:
    """Sessions that were admitted and are not destroyed yet."""
    return len(_places)
