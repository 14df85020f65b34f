"""The page Your data, used as a person would: a table, a training, questions."""

from pathlib import Path
from typing import TYPE_CHECKING

import qtcore
from qtcore.models.table_model import TableModel
from tests.app.test_yourdata import SMALL

from .helpers import at_widths, open_page, wait_until
from .test_shell import FOCUSED, SMALL_TARGETS, tab_to

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE = "?page=yourdata"


def upload(page: "Page", text: str) -> None:
    file = {"name": "table.csv", "mimeType": "text/csv", "buffer": text.encode()}
    page.locator("input[type=file]").first.set_input_files([file])  # type: ignore[list-item]


def kinds(page: "Page") -> list[str]:
    return page.locator(".qt.columns .column").evaluate_all("all => all.map((each) => each.dataset.kind)")


def role(page: "Page", column: str) -> str:
    return page.get_by_role("group", name=column, exact=True).get_attribute("data-role") or ""


def bars(page: "Page", column: str) -> list[str]:
    return page.get_by_role("group", name=column, exact=True).locator(".bar .number").all_inner_texts()


def test_columns_are_seen_and_mended(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE, shown=".qt.trainer button")
    train = page.get_by_role("button", name="Train", exact=True)
    assert train.is_disabled()
    upload(page, "a,b\n1\n")
    page.get_by_text("The table, line 2: there are 1 fields").wait_for()
    page.get_by_role("button", name="Example table").click()
    page.get_by_text("as an identifier has").wait_for()
    assert kinds(page)[:4] == ["ignore", "categorical", "categorical", "categorical"]
    wait_until(page, train.is_enabled)
    day = page.get_by_label("kind of day")
    day.select_option(label="levels in order")
    page.get_by_label("move Fri up").wait_for()
    levels = page.locator(".qt.columns .order .level > span")
    assert levels.all_inner_texts()[:3] == ["Fri", "Mon", "Sat"]
    page.get_by_label("move Sat down").focus()
    for place in (1, 0):
        page.keyboard.press("Enter")
        wait_until(page, lambda place=place: levels.nth(place).inner_text() == "Sat", "Saturday to go down")
        assert place == 0 or "move Sat down" in page.evaluate(FOCUSED)  # so that one can go on
    page.get_by_label("kind of season").select_option(label="numbers")
    page.get_by_text("The column 'season' cannot be real").wait_for()
    assert page.get_by_label("kind of season").evaluate("select => select.selectedOptions[0].text") == "levels"


def test_from_a_file_to_answers(page: "Page", app_url: str, tmp_path: Path) -> None:
    open_page(page, app_url, PAGE, shown=".qt.trainer button")
    upload(page, SMALL)
    page.locator(".qt.columns .column").first.wait_for()
    page.get_by_role("button", name="Train", exact=True).click()
    page.locator(".qt.asker .bar").first.wait_for()
    page.get_by_text("held out of the training").wait_for()
    assert (role(page, "size"), role(page, "sold"), role(page, "price")) == ("known", "asked", "asked")
    assert page.locator(".qt.trainer path.curve").count() == 1
    assert len(bars(page, "sold")) == 2
    # set a value, press the signs, with keys alone
    page.get_by_label("value of size").select_option(label="S")
    wait_until(page, lambda: float(bars(page, "sold")[0].split()[0]) > 0.6, "small ones are not sold")
    sold = page.get_by_role("button", name="sold: asked")
    sold.focus()
    page.keyboard.press("Enter")
    wait_until(page, lambda: role(page, "sold") == "unknown")
    page.keyboard.press("ArrowUp")
    assert "size: known" in page.evaluate(FOCUSED)
    tab_to(page, "value of price", 6)
    page.keyboard.type("20")
    page.keyboard.press("Tab")
    wait_until(page, lambda: role(page, "price") == "known")
    page.get_by_text("2 known, 0 asked, 1 unknown").wait_for()
    page.get_by_role("button", name="Nothing known").click()
    page.get_by_text("0 known, 1 asked, 2 unknown").wait_for()
    page.get_by_role("button", name="six samples").click()
    wait_until(page, lambda: page.locator(".qt.asker .drawn > *", has_not_text="…").count() == 21, "seven of each column")
    page.get_by_role("button", name="ask next").click()
    page.get_by_text("Ask next: ").wait_for()
    # what a training leaves behind
    with page.expect_download() as model:
        page.get_by_role("button", name="Download the model").click()
    model.value.save_as(tmp_path / "model.safetensors")
    loaded = qtcore.load(tmp_path / "model.safetensors")
    assert isinstance(loaded, TableModel)
    assert loaded.ask({"size": "S"}, about="sold")["sold"]["no"] > 0.6
    with page.expect_download() as filled:
        page.get_by_role("button", name="Download the table, gaps filled").click()
    filled.value.save_as(tmp_path / "filled.csv")
    assert None not in qtcore.Table.read(tmp_path / "filled.csv").cells["price"]
    # another tab and back, and on a phone
    page.get_by_role("tab", name="Results").click()
    page.locator(".results").wait_for()
    page.get_by_role("tab", name="Your data").click()
    page.get_by_text("Ask next: ").wait_for()
    for width in at_widths(page, 390, 1280, height=844):
        for view in ("answers", "columns"):
            page.get_by_role("button", name=view, exact=True).click()
            page.locator(f".qt.{'asker' if view == 'answers' else 'columns'}:visible").wait_for()
            box = page.locator(".qt.asker:visible, .qt.columns:visible").bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
            if width == 390:
                assert page.evaluate(SMALL_TARGETS) == []
