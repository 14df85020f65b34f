"""The page Results in a browser."""

from typing import TYPE_CHECKING

from qtcore.paper.printed import TABLE_1

from .helpers import at_widths, open_page, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page


FIGURE = "Bokeh.index.find_one_by_id(place.dataset.id)"
"""The view of the figure in a place."""


def drawn(page: "Page") -> None:
    page.locator(".results[data-drawn]").wait_for()


def test_tables_plots_and_how_they_were_made(page: "Page", app_url: str) -> None:
    page.goto(f"{app_url}app?page=results")
    figures = page.locator(".results table.figures")
    figures.first.wait_for()
    assert figures.count() == 4 + 4 + 4 + 2  # and those of the depths, of joint probabilities and of questions
    drawn(page)
    assert page.locator(".results [data-figure] .bk-Figure").count() == 10
    assert page.get_by_text(f"paper {TABLE_1['qt', 'dbm', 'web'].mean:.3f}").first.is_visible()
    assert page.locator(".results td[data-verdict=better] em").first.is_visible()
    for width in at_widths(page):
        for number in range(figures.count()):
            box = figures.nth(number).bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
    page.get_by_text("How each of these was made").first.click()
    page.get_by_text("python -m qtcore.reproduce table1 --methods qt").first.wait_for()


def test_a_mark_says_its_figure_and_a_name_hides_its_marks(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?page=results", shown=".results")
    drawn(page)
    plot = page.locator("[data-figure=table1-0]")
    plot.scroll_into_view_if_needed()
    mark, name = plot.evaluate(f"""(place) => {{
        const view = {FIGURE}, {{x_scale, y_scale}} = view.frame, box = place.getBoundingClientRect()
        const legend = view.children().find((each) => each.model.type === "Legend").bbox
        const name = [box.x + legend.x + 30, box.y + legend.y + legend.height / 4]
        return [[box.x + x_scale.compute(0.167), box.y + y_scale.compute(0)], name]
    }}""")
    page.mouse.move(*mark)
    page.get_by_text("Adult, QT: paper 0.167").wait_for()
    page.mouse.click(*name)
    muted = f"(place) => {FIGURE}.model.renderers.map((each) => each.muted)"
    wait_until(page, lambda: plot.evaluate(muted) == [True] + [False] * 4, "the first name's marks to fade")


def test_axes_of_the_depths_zoom_together(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?page=results", shown=".results")
    drawn(page)
    ends = "(all) => all.map((place) => " + FIGURE + ".model.x_range.end)"
    depths = page.locator("[data-figure^=depth]")
    before = depths.evaluate_all(ends)
    depths.first.evaluate(f"(place) => {{ {FIGURE}.model.x_range.end = 20 }}")
    assert depths.evaluate_all(ends) == [20.0] * len(before)
    assert before[0] > 60


def test_a_page_left_early_is_no_error(page: "Page", app_url: str) -> None:
    """Bokeh's layout once complained when its figures went while they were drawn. The page fixture notices."""
    for wait in (0, 30, 150):
        open_page(page, app_url, "?page=results", shown=".results")
        page.wait_for_timeout(wait)
        open_page(page, app_url, "?page=lab", shown=".qt.lab")
    page.wait_for_timeout(500)
    assert page.evaluate("Bokeh.documents.length") == 1
