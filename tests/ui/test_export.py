"""The page that `qtcore_app.export` writes, in a browser."""

from pathlib import Path

import numpy as np
from qtcore_app import export

from .conftest import Watched
from .helpers import picture, wait_until

ADDRESS = "?page=digits&mask=bAAAAAP____8&layer=0"


def test_a_page_without_a_server(shared: Watched, tmp_path: Path) -> None:
    file, asked = tmp_path / "page.html", list[str]()
    made = export.page_at(ADDRESS)
    file.write_text(export.explainer(made), encoding="utf-8")
    others = shared.pages
    page = shared.context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.set_content(file.read_text(encoding="utf-8"))
        player = page.locator(".qt.player")
        player.wait_for()
        assert player.get_attribute("data-layer") == "0"
        first = picture(page, "entropy")
        player.press("ArrowRight")
        wait_until(page, lambda: player.get_attribute("data-layer") == "1")
        assert (picture(page, "entropy") != first).any()
        player.press("End")
        wait_until(page, lambda: player.get_attribute("data-layer") == "10")
        page.get_by_label("layer", exact=True).fill("0")
        np.testing.assert_array_equal(picture(page, "entropy"), first)
        player.press(" ")
        wait_until(page, lambda: player.get_attribute("data-layer") == "10", "the end of the film", 30)
        assert page.locator(".chart svg").count() == 3
        assert [url for url in asked if not url.startswith(("data:", "about:"))] == []
        shared.check()
    finally:
        shared.clear(others)
