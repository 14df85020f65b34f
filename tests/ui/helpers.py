"""Looking at a page as its user does."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import numpy as np
from numpy.typing import NDArray
from qtcore_app.state import State, decode_bytes

if TYPE_CHECKING:
    from playwright.sync_api import Page

FACE, GRID = (28, 20), (30, 30)


def open_page(page: "Page", url: str, query: str = "", shown: str = ".qt.player .picture canvas[data-map]") -> None:
    """Open the app, or, in a page that shows it, go to another address of it, and wait for its first result."""
    go_to(page, url, query)
    page.locator(shown).first.wait_for()
    page.wait_for_function("document.readyState === 'complete'")
    # Buttons are drawn before they are listened to: a click in between would be lost.
    page.wait_for_function("Bokeh.documents.length > 0 && Bokeh.documents.every((document) => document.is_idle)")


def go_to(page: "Page", url: str, query: str) -> None:
    """Show an address of the app: in a page that shows another one as the browser's history does, else by loading it."""
    if not page.url.startswith(f"{url}app") or state(page) == State.from_query(query):
        page.goto(f"{url}app{query}")
        return
    page.evaluate(
        """(query) => {
            const mark = (root) => root.querySelectorAll("*").forEach((element) => {
                if (element.matches(".qt:not(.lost)")) element.dataset.left = ""
                if (element.shadowRoot) mark(element.shadowRoot)
            })
            mark(document)
            history.pushState(null, "", location.pathname + query)
            window.dispatchEvent(new PopStateEvent("popstate"))
        }""",
        query,
    )
    wait_until(page, lambda: page.locator("[data-left]").count() == 0, "what was there before to go")


def picture(page: "Page", channel: str, run: int = 0) -> NDArray[np.uint8]:
    """The colours of a map, [h, w, 3]."""
    canvas = page.locator(f".qt.player canvas[data-map={channel}][data-run='{run}']")
    size, data = canvas.evaluate(
        "c => [[c.height, c.width], Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)]"
    )
    return np.array(data, np.uint8).reshape(*size, 4)[..., :3]


def state(page: "Page") -> State:
    return State.from_query(urlparse(page.url).query)


def hidden(page: "Page", shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Which pixels the server knows to be hidden, from the address."""
    mask = decode_bytes(state(page).mask, shape)
    return np.zeros(shape, bool) if mask is None else mask < 255


def wait_for(page: "Page", expression: str) -> None:
    page.wait_for_function(expression)


def wait_until(page: "Page", condition, what: str = "the page to get there", seconds: float = 300) -> None:  # type: ignore[no-untyped-def]
    """Ask again and again, letting the browser go on in between."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"waited {seconds} s for {what}")


def wait_for_result(page: "Page", before: int) -> None:
    """Until a complete run that is newer than stroke number `before` is shown."""
    player = page.locator(".qt.player")
    wait_until(
        page,
        lambda: int(player.get_attribute("data-seq") or 0) > before and player.get_attribute("data-done") == "true",
        f"a result after stroke {before}",
    )


def wait_for_another(page: "Page", channel: str, before: NDArray[np.uint8]) -> None:
    """Until a complete run with another picture is shown: its first layers come before its last."""
    player = page.locator(".qt.player")
    wait_until(page, lambda: (picture(page, channel) != before).any(), "another picture")
    wait_until(page, lambda: player.get_attribute("data-done") == "true", "all of it")


def centre(page: "Page", shape: tuple[int, int], row: int, column: int) -> tuple[float, float]:
    """Where on the screen a pixel of the painter is."""
    box = page.locator(".qt.painter .stage").bounding_box()
    assert box is not None
    return box["x"] + (column + 0.5) * box["width"] / shape[1], box["y"] + (row + 0.5) * box["height"] / shape[0]


def drag(page: "Page", shape: tuple[int, int], *places: tuple[int, int], button: str = "left", steps: int = 3) -> None:
    """Press at the first pixel, go along the others, let go."""
    page.mouse.move(*centre(page, shape, *places[0]))
    page.mouse.down(button=button)  # type: ignore[arg-type]
    for place in places[1:]:
        page.mouse.move(*centre(page, shape, *place), steps=steps)
    page.mouse.up(button=button)  # type: ignore[arg-type]


def seq(page: "Page") -> int:
    return int(page.locator(".qt.player").get_attribute("data-seq") or 0)


def tool(page: "Page", name: str) -> None:
    page.locator(f".qt.painter button[data-name={name}]").click()


def set_size(page: "Page", value: int) -> None:
    page.get_by_label("size", exact=True).evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')) }", str(value)
    )


def at_widths(page: "Page", *widths: int, height: int = 800) -> Iterator[int]:
    """The page in windows of these widths, one after the other (by default a laptop's and a large screen's); it never has to
    be scrolled sideways. The window is then as it was before."""
    before = page.viewport_size
    assert before is not None
    for width in widths or (1280, 1920):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"innerWidth === {width}")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # laid out again
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        yield width
    page.set_viewport_size(before)
