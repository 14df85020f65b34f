"""The page Results in a browser."""

from typing import TYPE_CHECKING

from qtcore_app.pages import results

from qtcore.paper.comparison_tables import compare_curves
from qtcore.paper.printed import TABLE_1
from qtcore.paper.tables import TABLES

from .helpers import at_widths

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_tables_plots_and_how_they_were_made(page: "Page", app_url: str) -> None:
    page.goto(f"{app_url}app?page=results")
    figures = page.locator(".results table.figures")
    figures.first.wait_for()
    records = results.results()
    tables = {name: len(make(records)) for name, (_, make) in TABLES.items()}
    assert min(tables.values()) > 0
    assert figures.count() == sum(tables.values())
    assert page.locator(".results svg.dots:not(.curves)").count() == 3
    drawn = tables["depth"] + tables["questions"] + len(compare_curves(records))
    assert page.locator(".results svg.curves").count() == drawn
    assert page.locator(".results svg.curves polyline").count() >= 24 + 2 * 2
    assert page.locator(".results svg.dots circle").count() > 2 * 9  # the paper's QT at least
    assert page.get_by_text(f"paper {TABLE_1['qt', 'dbm', 'web'].mean:.3f}").first.is_visible()
    assert page.locator(".results td[data-verdict=better] em").first.is_visible()
    for width in at_widths(page):
        for number in range(figures.count()):
            box = figures.nth(number).bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
    page.get_by_text("How each of these was made").first.click()
    page.get_by_text("python -m qtcore.reproduce table1 --methods qt").first.wait_for()
