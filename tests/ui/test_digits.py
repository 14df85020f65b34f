"""The page Digits & tables, used as a person would."""

from typing import TYPE_CHECKING

import numpy as np
from qtcore_app.components.record import KNOWN, SET_0, SET_1, TARGET, UNKNOWN
from qtcore_app.samples import samples
from qtcore_app.state import decode_bytes

from .helpers import (
    at_widths,
    drag,
    hidden,
    open_page,
    picture,
    seq,
    set_size,
    state,
    tool,
    wait_for_another,
    wait_for_result,
    wait_until,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

DIGIT = (8, 8)
PAGE = "?page=digits&image=test-2"  # nothing hidden
ADULT = "?page=digits&model=rbm/adult"


def open_record(page: "Page", url: str, query: str = ADULT) -> None:
    open_page(page, url, query, shown=".qt.record .line")


def roles(page: "Page") -> np.ndarray:
    result = decode_bytes(state(page).record, (1, 123))
    assert result is not None
    return result[0]


def bars(page: "Page") -> list[str]:
    """The probabilities of all variables, as the bars show them."""
    return page.locator(".qt.record .number").evaluate_all("all => all.map((each) => each.dataset.p)")


def role(page: "Page", variable: int) -> str:
    return page.locator(f".qt.record [data-variable='{variable}']").get_attribute("data-role") or ""


def test_digits_open_with_a_result(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?page=digits")
    assert picture(page, "mean").shape == (*DIGIT, 3)
    assert page.locator(".qt.player").get_attribute("data-layer") == "10"
    assert page.locator(".qt.painter .stage").get_attribute("data-hidden") == "32"
    for title in ("Probability of 1", "Entropy", "Error (p − original)", "Residual", "Bits per hidden pixel"):
        assert page.get_by_text(title).first.is_visible()


def test_a_drag_hides_exactly_the_pixels_under_it(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    set_size(page, 1)
    before = picture(page, "mean")
    drag(page, DIGIT, (1, 2), (1, 5), (4, 5))
    wait_for_result(page, 0)
    expected = np.zeros(DIGIT, bool)
    expected[1, 2:6] = expected[1:5, 5] = True
    wait_until(page, lambda: (hidden(page, DIGIT) == expected).all(), "the mask that was painted")
    changed = (picture(page, "mean") != before).any(-1)
    assert changed[expected].any()
    grey = samples("digits").values[2].reshape(DIGIT).numpy()
    assert not changed[~expected & ((grey == 0) | (grey == 1))].any()  # what is seen in black or white stays as it is


def test_digits_in_the_address(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    page.get_by_label("image 5", exact=True).click()
    page.get_by_role("button", name="top half", exact=True).click()
    page.get_by_role("button", name="stop at 3", exact=True).click()
    page.locator(".qt.player canvas[data-run='1']").first.wait_for()
    page.get_by_label("layer", exact=True).fill("4")
    wait_until(page, lambda: (state(page).image, state(page).layer, state(page).compare) == ("test-4", "4", "layers-3"))
    assert hidden(page, DIGIT)[:4].all()
    seen = [picture(page, channel, run) for channel in ("mean", "entropy") for run in (0, 1)]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(".qt.player canvas[data-run='1']").first.wait_for()
    for i, old in enumerate(seen):
        np.testing.assert_array_equal(picture(page, ("mean", "entropy")[i // 2], i % 2), old)


def test_a_toggled_variable_changes_the_bars(page: "Page", app_url: str) -> None:
    open_record(page, app_url)
    assert page.get_by_text("native-country").is_visible()
    before = bars(page)
    assert len(before) == 123
    known = next(i for i in range(123) if role(page, i) == "known")
    toggle = page.locator(f".qt.record [data-variable='{known}']")
    toggle.click()  # asked
    wait_until(page, lambda: bars(page)[known] not in ("0.000", "1.000"), "an answer for what is asked now")
    assert role(page, known) == "asked"
    wait_until(page, lambda: roles(page)[known] == TARGET)
    assert bars(page) != before
    asked = bars(page)
    number = seq(page)
    toggle.press("Enter")  # unknown: the same answer, but not scored
    wait_for_result(page, number)
    assert (role(page, known), bars(page)) == ("unknown", asked)
    wait_until(page, lambda: roles(page)[known] == UNKNOWN)
    toggle.press("Enter")
    wait_until(page, lambda: bars(page) == before, "the first answer again")
    toggle.press("ArrowDown")
    assert page.evaluate("document.activeElement") is not None
    wait_until(page, lambda: state(page).pixel == f"0-{known + 1}", "the next variable to be chosen")


def test_a_record_comes_back_as_it_was_left(page: "Page", app_url: str) -> None:
    open_record(page, app_url)
    for variable in (0, 1):
        number = seq(page)
        page.locator(f".qt.record [data-variable='{variable}']").click()
        wait_until(page, lambda number=number: seq(page) > number)
    result = [role(page, variable) for variable in range(4)]
    wait_until(page, lambda: state(page).record != "")
    page.get_by_role("tab", name="Results").click()
    page.locator(".results").wait_for()
    page.get_by_role("tab", name="Digits & tables").click()
    page.locator(".qt.record .line").first.wait_for()
    assert [role(page, variable) for variable in range(4)] == result
    number = seq(page)
    page.locator(".qt.record [data-variable='2']").click()
    wait_for_result(page, number)
    page.get_by_role("button", name="everything", exact=True).click()  # what Python gives comes after what was clicked
    wait_until(page, lambda: role(page, 0) == role(page, 2) == "asked" and (roles(page) == TARGET).all())


def test_groups_and_ready_made_questions(page: "Page", app_url: str) -> None:
    open_record(page, app_url)
    page.get_by_role("button", name="nothing", exact=True).click()
    wait_until(page, lambda: state(page).record != "" and (roles(page) == KNOWN).all())
    page.get_by_text("Ask for at least one variable to score the answer.").wait_for()
    page.get_by_role("button", name="sex", exact=True).click()
    wait_until(page, lambda: (roles(page) == TARGET).sum() == 2)
    values = page.locator(".qt.record .line[data-role=asked]")
    assert values.count() == 2
    assert page.get_by_text("121 known, 2 asked, 0 unknown").is_visible()
    page.get_by_role("button", name="80 %", exact=True).click()
    wait_until(page, lambda: (roles(page) == TARGET).sum() == 98)


def test_a_record_in_the_address(page: "Page", app_url: str) -> None:
    open_record(page, app_url)
    page.get_by_role("button", name="7", exact=True).click()
    wait_until(page, lambda: state(page).image == "dream-6")
    page.locator(".qt.record [data-variable='3']").click()
    page.get_by_role("button", name="untrained", exact=True).click()
    page.locator(".qt.record.pair").wait_for()
    page.get_by_label("layer", exact=True).fill("6")
    wait_until(page, lambda: (state(page).layer, state(page).compare, state(page).pixel) == ("6", "untrained", "0-3"))
    seen, address = bars(page), page.url
    assert all(len(each.split()) == 2 for each in seen)  # both models answer
    page.goto("about:blank")
    open_record(page, app_url, address.removeprefix(f"{app_url}app"))
    assert bars(page) == seen
    assert page.locator(".qt.record").get_attribute("data-layer") == "6"


def test_a_digit_is_drawn_with_the_pointer_and_by_keyboard(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    page.get_by_role("button", name="draw your own", exact=True).click()
    stage = page.locator(".qt.painter .stage")
    page.locator(".qt.painter .stage[data-hidden='64']").wait_for()
    before = picture(page, "mean")
    drag(page, DIGIT, (1, 4), (6, 4))
    wait_until(page, lambda: hidden(page, DIGIT).sum() == 58)
    wait_for_another(page, "mean", before)
    assert not hidden(page, DIGIT)[1:7, 4].any()
    page.get_by_text("The truth of a drawing is not known.").wait_for()
    tool(page, "pencil")
    for key in ("Tab", "Shift+Tab"):  # away and back
        page.keyboard.press(key)
    stage.focus()
    page.keyboard.press("Enter")  # the cursor appears in the middle, at (4, 4)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    wait_until(page, lambda: not hidden(page, DIGIT)[4, 5], "the pixel that was drawn by keyboard")
    drawn = decode_bytes(state(page).pixels, DIGIT)
    assert drawn is not None
    assert (np.argwhere(drawn == 255).tolist()) == [[1, 4], [2, 4], [3, 4], [4, 4], [4, 5], [5, 4], [6, 4]]
    drag(page, DIGIT, (0, 0), button="right")  # the dark ground is evidence as well
    wait_until(page, lambda: not hidden(page, DIGIT)[0, 0])
    page.get_by_label("image 3", exact=True).click()
    wait_until(page, lambda: state(page).image == "test-2" and not state(page).pixels)


def test_a_board_is_clicked(page: "Page", app_url: str) -> None:
    open_record(page, app_url, "?page=digits&model=rbm/connect4")
    page.get_by_role("button", name="nothing", exact=True).click()
    square = page.locator(".qt.record .square[data-square=d1]")
    assert page.locator(".qt.record .square").count() == 42
    wait_until(page, lambda: square.get_attribute("data-role") == "known")
    page.locator(".qt.record [data-pick=unknown]").click()
    square.click()
    wait_until(page, lambda: (board(page) == UNKNOWN).sum() == 3, "a square that is unknown")
    d1 = slice(3 * 18, 3 * 18 + 3)
    assert (board(page)[d1] == UNKNOWN).all()
    page.locator(".qt.record [data-pick=o]").click()
    square.click()
    wait_until(page, lambda: board(page)[d1].tolist() == [SET_0, SET_0, SET_1])
    assert square.text_content() == "○"
    page.locator(".qt.record [data-pick=asked]").click()
    square.press("ArrowRight")
    page.keyboard.press("Enter")
    wait_until(page, lambda: (board(page)[72:75] == TARGET).all(), "the square to the right")
    box, above = (page.locator(f".qt.record .square[data-square={name}]").bounding_box() for name in ("d1", "d6"))
    assert box is not None
    assert above is not None
    assert above["y"] < box["y"]


def board(page: "Page") -> np.ndarray:
    result = decode_bytes(state(page).record, (1, 126))
    return np.full(126, KNOWN, np.uint8) if result is None else result[0]


def test_many_variables_are_searched(page: "Page", app_url: str) -> None:
    open_record(page, app_url, "?page=digits&model=rbm/nips")
    lines = page.locator(".qt.record .line:not([hidden])")
    assert lines.count() == 500
    page.get_by_label("find a variable").fill("variable 499")
    assert lines.all_inner_texts()[0].split("\n")[1:2] == ["variable 499"]
    assert lines.count() == 1
    page.get_by_label("find a variable").fill("")
    assert lines.count() == 500


def test_another_dataset(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    page.get_by_role("button", name="Mushrooms", exact=True).click()
    page.get_by_role("button", name="odor", exact=True).wait_for()
    wait_until(page, lambda: state(page).model.endswith("/mushrooms") and state(page).mask == "")
    page.get_by_role("button", name="Digits", exact=True).click()
    page.locator(".qt.painter .stage").wait_for()
    wait_until(page, lambda: (state(page).image, state(page).record) == ("test-2", ""))


def test_nothing_sticks_out(page: "Page", app_url: str) -> None:
    open_record(page, app_url, f"{ADULT}&compare=layers-3")
    for width in at_widths(page):
        box = page.locator(".qt.record").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
        assert box["width"] > 0.7 * width


def test_a_group_is_set_to_a_value(page: "Page", app_url: str) -> None:
    open_record(page, app_url)
    level = page.get_by_label("set education", exact=True)
    before, number = bars(page), seq(page)
    level.select_option(label="Masters")
    wait_for_result(page, number)
    line = page.locator(".qt.record .line", has_text="Masters")
    assert (line.locator(".role").text_content(), line.get_attribute("data-role")) == ("1", "known")
    assert bars(page) != before
    wait_until(page, lambda: (roles(page) == SET_1).sum() == 1 and (roles(page) == SET_0).sum() == 15)
    address, set_bars = page.url, bars(page)
    page.goto("about:blank")
    open_record(page, app_url, address.removeprefix(f"{app_url}app"))
    assert bars(page) == set_bars
    assert level.evaluate("select => select.selectedOptions[0].text") == "Masters"
