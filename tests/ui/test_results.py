"""The page Results in a browser."""

import itertools
from typing import TYPE_CHECKING

from qtcore.paper.printed import TABLE_1

from .helpers import at_widths

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def points_at(page: "Page", drawn: "Locator", what: str) -> bool:
    """Move the mouse over a plot, along its first row, until it says so."""
    drawn.scroll_into_view_if_needed()
    box = drawn.bounding_box()
    assert box is not None
    for y, x in itertools.product(range(40, 80, 6), range(70, 220, 5)):
        page.mouse.move(box["x"] + x, box["y"] + y)
        if page.get_by_text(what).count():
            return True
    return False


def test_tables_plots_and_how_they_were_made(page: "Page", app_url: str) -> None:
    page.goto(f"{app_url}app?page=results")
    figures = page.locator(".results table.figures")
    figures.first.wait_for()
    assert figures.count() == 4 + 4  # and those of the depths
    drawn = page.locator(".bk-Figure")
    drawn.last.wait_for()
    assert drawn.count() == 3 + 4  # dots, and curves over the depth
    assert points_at(page, drawn.first, "Adult, QT: ")
    assert page.get_by_text(f"paper {TABLE_1['qt', 'dbm', 'web'].mean:.3f}").first.is_visible()
    assert page.locator(".results td[data-verdict=better] em").first.is_visible()
    for width in at_widths(page):
        for number in range(figures.count()):
            box = figures.nth(number).bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
    page.get_by_text("How each of these was made").first.click()
    page.get_by_text("python -m qtcore.reproduce table1 --methods qt").first.wait_for()
