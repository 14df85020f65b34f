"""`qtcore app`: where it listens, what it refuses, and when a browser is opened."""

import re
import socket
import sys
from pathlib import Path

import pytest
from qtcore_app import serve

from qtcore import app

from ..commands import Command, command  # noqa: F401  (a fixture)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that panel gets; it serves nothing."""
    given: list[list[str]] = []
    monkeypatch.setattr(serve, "panel_command", lambda: given.append(sys.argv))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    return given


def test_as_make_app_does(command: Command, words: list[list[str]]) -> None:  # noqa: F811
    limits = ["--websocket-max-message-size=6291456", "--unused-session-lifetime=60000", "--check-unused-sessions=15000"]
    assert command(app.main, "--port", 0).code == 0
    assert words == [["panel", "serve", str(ROOT / "app"), "--address", "localhost", "--port", "0", *limits]]
    (line,) = re.findall(r"^app:.*\n\t(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line == "$(RUN) -m qtcore app --port $(PORT) -- $(ARGS)"


def test_a_browser_is_opened_on_a_desktop_alone(
    command: Command,  # noqa: F811
    words: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown(*arguments: str) -> bool:
        assert command(app.main, "--port", 0, *arguments).code == 0
        return "--show" in words[-1]

    monkeypatch.setattr(sys, "platform", "linux")
    assert not shown()
    monkeypatch.setenv("DISPLAY", ":0")
    assert shown()
    assert not shown("--no-show")
    monkeypatch.setenv("SSH_CONNECTION", "somebody far away")
    assert not shown()
    monkeypatch.delenv("SSH_CONNECTION")
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert shown()


def test_who_may_come(command: Command, words: list[list[str]]) -> None:  # noqa: F811
    """A page from another name would be shown, and its socket refused."""
    assert command(app.main, "--port", 0, "--address", "0.0.0.0", "--", "--num-procs", "2").code == 0
    assert words[-1][-3:] == ["--allow-websocket-origin=*", "--num-procs", "2"]
    assert command(app.main, "--port", 0, "--address", "127.0.0.1").code == 0
    port = words[-1][words[-1].index("--port") + 1]
    assert int(port) > 0
    assert words[-1][-2:] == [f"--allow-websocket-origin={name}:{port}" for name in ("127.0.0.1", "localhost")]


def test_where_nothing_can_be_served(command: Command, words: list[list[str]]) -> None:  # noqa: F811
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = command(app.main, "--port", port, "--address", "127.0.0.1").sentence
        assert said.startswith(f"port {port} of 127.0.0.1 cannot be used (")
    assert command(app.main, "--port", 70000).sentence == "port must be between 0 and 65535, not 70000."
    assert "cannot be used" in command(app.main, "--address", "nowhere.invalid").sentence
    assert command(app.main, "--porte").code == 2
    assert words == []


def test_without_the_extra(command: Command, words: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setitem(sys.modules, "panel_material_ui", None)
    said = command(app.main).sentence
    assert said == "this needs panel_material_ui, which is not installed; pip install 'qtcore[app]' brings it."
    assert words == []
