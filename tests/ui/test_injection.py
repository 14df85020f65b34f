"""What strangers write into addresses and file names is text, never a script: seen in a browser."""

from itertools import cycle
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from qtcore_app.state import PAGES

from .helpers import go_to, open_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPTS = (
    '<img src="x" onerror="window.hurt = 1">',
    "</script><script>window.hurt = 1</script>",
    '"><svg onload="window.hurt = 1">',
    "javascript:window.hurt=1",
    "{{window.hurt = 1}}${window.hurt = 1}",
    "'-(window.hurt=1)-'",
)
FIELDS = ("model", "image", "mask", "pixels", "compare", "noise", "layer", "pixel", "graph", "record", "nope")
SHOWN = {"results": "table", "lab": ".qt.lab", "yourdata": ".qt.trainer button"}


def unhurt(page: "Page") -> None:
    """Nothing ran, and nothing waits to be run by a click."""
    page.wait_for_timeout(200)
    assert page.evaluate("window.hurt") is None
    found = page.evaluate(
        """() => {
            const texts = (e) => e.getAttributeNames().map((name) => `${name}=${e.getAttribute(name)}`)
            const inside = (root) => [...root.querySelectorAll("*")].flatMap((e) =>
                [...texts(e), ...(e.shadowRoot ? inside(e.shadowRoot) : [])])
            return inside(document).filter((text) => /^(on|href=javascript)/.test(text) && text.includes("window.hurt"))
        }"""
    )
    assert found == []


@pytest.mark.parametrize("name", PAGES)
def test_addresses(page: "Page", app_url: str, name: str) -> None:
    parameters = "&".join(f"{field}={quote(script)}" for field, script in zip(FIELDS, cycle(SCRIPTS), strict=False))
    everywhere = "&".join(f"{quote(script)}={quote(script)}" for script in SCRIPTS)
    if name == PAGES[0]:
        page.goto(f"{app_url}app?page={name}&{parameters}&{everywhere}#{quote(SCRIPTS[0])}")
    else:
        go_to(page, app_url, f"?page={name}&{parameters}&{everywhere}")
    page.locator(SHOWN.get(name, ".qt.player .picture canvas[data-map]")).first.wait_for()
    unhurt(page)


def test_file_names(page: "Page", app_url: str) -> None:
    """Of an upload that is refused, so that something is said about it; and a page that there is not."""
    open_page(page, app_url, f"?page={quote(SCRIPTS[0])}")
    for script in SCRIPTS:
        file = {"name": script.replace("/", "∕"), "mimeType": "image/png", "buffer": script.encode()}
        page.locator("input[type=file]").first.set_input_files([file])  # type: ignore[list-item]
        page.locator(".problem:not([hidden])").first.wait_for()
        unhurt(page)
