"""The window around the pages, without a server."""

import gc
import weakref

import panel as pn
import panel_material_ui as pmui
import pytest
from qtcore_app import engine, shell
from qtcore_app.shell import Shell, guarded, refusal, window
from qtcore_app.state import PAGES


def watchers() -> int:
    """How many follow the server's busy flag."""
    return len(pn.state.param.watchers.get("busy", {}).get("value", []))


def test_a_window_follows_nothing_that_outlives_it() -> None:
    before = watchers()
    page = window(main=["hello"])
    assert watchers() == before
    gone = weakref.ref(page)
    del page
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", PAGES)
def test_each_page_can_be_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "guarded", lambda make: make())  # which would show a sentence in the place of a broken page
    made = Shell(f"?page={name}")
    assert made.active == name
    (page,) = made._columns[name]
    assert type(page) is not pmui.Alert
    assert made.tabs in made.view().main  # type: ignore[attr-defined]
    assert page.get_root() is not None  # as a browser gets it


def test_state_goes_to_the_page_it_is_of() -> None:
    made = Shell("?page=faces&layer=4")
    made.remember("contours", layer=2)
    assert made.states["contours"].layer == "2"
    assert made.states["faces"].layer == "4"


@pytest.mark.parametrize(
    ("device", "told"), [(engine.Device("cpu", "CPU", "No such device.", True), 1), (engine.Device("cpu", "CPU"), 0)]
)
def test_a_device_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch, device: engine.Device, told: int) -> None:
    monkeypatch.setattr(engine, "device", lambda: device)
    header = Shell("?page=results").view().header  # type: ignore[attr-defined]
    assert sum(getattr(part, "object", "") == "No such device." for part in header) == told


def test_a_broken_page_leaves_a_sentence(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(name: str) -> None:
        raise RuntimeError("at /home/somebody/secret.py")

    monkeypatch.setattr(shell, "import_module", broken)
    made = Shell()
    shown = str(made._columns["faces"][0])
    assert "secret" not in shown
    assert "secret" in caplog.text  # but the log has it
    assert guarded(lambda: pn.pane.Str("fine")).object == "fine"  # type: ignore[attr-defined]


def test_without_room_there_is_a_page_that_says_so() -> None:
    shown = [part.object for part in refusal().main]  # type: ignore[attr-defined]
    assert any("All places are taken" in sentence for sentence in shown)
