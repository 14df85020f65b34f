"""Places belong to open windows; one address has neither all of them nor pages without end."""

from types import SimpleNamespace
from typing import Any

import pytest
from qtcore_app import hooks, sessions


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Nobody is here, there are four places, and time passes when a test says so."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(sessions, "_places", {})
    monkeypatch.setattr(sessions, "_opens", {})
    monkeypatch.setattr(sessions, "LIMIT", 4)
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now.seconds)
    return now


class Guest:
    """A session as Bokeh has it, and its context."""

    def __init__(self, name: str, clock: SimpleNamespace, address: str = "127.0.0.1") -> None:
        self.id, self.clock, self.connection_count, self.last = name, clock, 0, clock.seconds
        self.request = SimpleNamespace(remote_ip=address)
        self.session: Any = self

    @property
    def milliseconds_since_last_unsubscribe(self) -> float:
        return 1000 * float(self.clock.seconds - self.last)

    def come(self) -> bool:
        hooks.on_session_created(self)  # type: ignore[arg-type]
        return sessions.admitted(self.id)

    def go(self) -> None:
        hooks.on_session_destroyed(self)  # type: ignore[arg-type]


def test_there_is_room_for_so_many(clock: SimpleNamespace) -> None:
    guests = [Guest(name, clock) for name in "abcde"]
    assert [guest.come() for guest in guests] == [True, True, True, True, False]
    assert sessions.refusal("127.0.0.1") == sessions.FULL
    guests[4].go()  # refused: takes no one's place
    assert sessions.count() == 4
    guests[0].go()
    assert Guest("f", clock).come()
    assert sessions.admitted(None)  # no server at all


def test_a_page_without_a_socket_gives_its_place_back(clock: SimpleNamespace) -> None:
    """64 plain requests once filled all places for half a minute."""
    guests = [Guest(name, clock) for name in "abcd"]
    for guest in guests:
        guest.come()
    guests[0].connection_count = 1
    clock.seconds += sessions.GRACE - 1
    assert sessions.refusal(None) == sessions.FULL
    clock.seconds += 2
    assert [Guest(name, clock).come() for name in "efgh"] == [True, True, True, False]
    assert all(sessions.admitted(guest.id) for guest in guests)  # who is slow may still come


def test_a_session_that_is_being_made_has_its_place(clock: SimpleNamespace) -> None:
    for name in "abcd":
        guest = Guest(name, clock)
        guest.session = None
        guest.come()
    clock.seconds += 100
    assert sessions.refusal(None) == sessions.FULL


def test_one_address_cannot_have_all_places(clock: SimpleNamespace) -> None:
    assert [Guest(name, clock, "203.0.113.7").come() for name in "abcd"] == [True, True, True, False]
    assert sessions.refusal("203.0.113.7") == sessions.SHARED
    assert sessions.refusal("203.0.113.8") is None
    assert sessions.refusal("::ffff:203.0.113.7") == sessions.SHARED


def test_a_network_of_addresses_is_one() -> None:
    assert sessions.network("2001:db8::1") == sessions.network("2001:db8::ff:2") == sessions.network("2001:db8::1%eth0")
    assert sessions.network("2001:db8::1") != sessions.network("2001:db8:0:1::1")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "", None, "/tmp/socket"])
def test_this_machine_s_own_address_stands_for_nobody(address: str | None) -> None:
    assert sessions.network(address) == ""


def test_one_address_cannot_open_pages_without_end(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LIMIT", 10_000)
    opened = [Guest(str(k), clock, "203.0.113.7").come() for k in range(sessions.OPENS + 5)]
    assert opened == [True] * sessions.OPENS + [False] * 5
    assert sessions.refusal("203.0.113.7") == sessions.OFTEN
    assert sessions.refusal("203.0.113.8") is None
    assert sessions.refusal("127.0.0.1") is None
    clock.seconds += sessions.MINUTE + 1
    assert sessions.refusal("203.0.113.7") is None
    assert not sessions._opens  # nothing is kept of who was here
