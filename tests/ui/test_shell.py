"""The window around the pages."""

import asyncio
import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from qtcore_app.shell import TITLES
from qtcore_app.tour import CARDS

from tests.app.server import Server, get, provoke, served

from . import conftest
from .helpers import FACE, at_widths, drag, hidden, open_page, picture, seq, set_size, state, wait_for_result, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, WebSocketRoute


def test_root_leads_to_faces(own_page: "Page", app_url: str) -> None:
    page = own_page
    page.goto(app_url)
    page.locator(".qt.player canvas[data-map=mean]").first.wait_for()
    assert page.title() == "qtcore"
    assert page.get_by_role("tab", selected=True).text_content() == TITLES["faces"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("contours", ".qt.player canvas[data-map=contour]"),
        ("digits", ".qt.player canvas[data-map=mean]"),
        ("yourdata", ".qt.trainer button"),
        ("lab", ".qt.lab svg.transfer"),
        ("results", ".results table.figures"),
    ],
)
def test_every_other_page_opens(page: "Page", app_url: str, name: str, content: str) -> None:
    page.goto(f"{app_url}app?page={name}")
    page.locator(content).first.wait_for()
    assert page.get_by_role("tab", selected=True).text_content() == TITLES[name]


def test_the_page_fixture_notices_trouble(browser: "Browser", app_url: str) -> None:
    """A console error, an uncaught one and a foreign request must all be caught, or the other tests prove little."""
    watch = conftest.watched(browser)
    page = watch.__enter__()().new_page()
    page.goto(app_url)
    page.evaluate("console.error('oh no')")
    page.evaluate("setTimeout(() => { throw new Error('nobody catches me') })")
    page.evaluate("fetch('http://foreign.invalid/x').catch(() => 0)")
    with pytest.raises(AssertionError) as caught:
        watch.__exit__(None, None, None)
    for trouble in ("oh no", "nobody catches me", "request off localhost: http://foreign.invalid/x"):
        assert trouble in str(caught.value)


def test_an_error_of_the_server_belongs_to_the_test_that_caused_it(app_server: Server) -> None:
    watch = conftest.without_complaints(app_server)
    watch.__enter__()
    with ThreadPoolExecutor(1) as thread:  # the browser's loop is running in ours
        thread.submit(asyncio.run, provoke(app_server.url)).result()
    with pytest.raises(AssertionError, match="error handling message"):
        watch.__exit__(None, None, None)
    with conftest.without_complaints(app_server):  # the next one has nothing to do with it
        get(app_server.url)


def test_tabs_change_the_address_and_keep_each_page(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    page.get_by_role("button", name="mouth").click()
    wait_until(page, lambda: state(page).mask != "")
    mask = state(page).mask
    page.get_by_role("tab", name="Contours").click()
    wait_until(page, lambda: state(page).page == "contours")
    page.get_by_text("Segmentation").first.wait_for()
    page.get_by_role("tab", name="Faces").click()
    wait_until(page, lambda: state(page).page == "faces" and state(page).mask == mask)


def test_back_and_forward_go_through_the_pages(own_page: "Page", app_url: str) -> None:
    """What is done on a page changes its address, but only another page is a step in the browser's history; going back shows
    what was there."""
    page = own_page  # with a history of its own: there are no more than 50 steps
    open_page(page, app_url, "?image=dream-2")
    length = page.evaluate("history.length")
    page.get_by_role("button", name="mouth").click()
    wait_until(page, lambda: state(page).mask != "")
    mask, stage = hidden(page, FACE), page.locator(".qt.painter .stage")
    assert page.evaluate("history.length") == length
    page.get_by_role("tab", name="Results").click()
    wait_until(page, lambda: state(page).page == "results")
    page.locator(".results").wait_for()
    assert page.evaluate("history.length") == length + 1
    page.go_back()
    wait_until(page, lambda: stage.get_attribute("data-hidden") == str(mask.sum()), "the face with its mask")
    assert page.get_by_role("tab", selected=True).text_content() == TITLES["faces"]
    assert (state(page).image, hidden(page, FACE).tolist()) == ("dream-2", mask.tolist())
    page.go_forward()
    page.locator(".results").wait_for()
    assert page.get_by_role("tab", selected=True).text_content() == TITLES["results"]


FOCUSED = """() => {
    let element = document.activeElement
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement
    return `${element?.className} ${element?.getAttribute("aria-label") ?? element?.textContent ?? ""}`
}"""


def tab_to(page: "Page", words: str, at_most: int) -> None:
    """Press Tab until the focus is on what has these words."""
    for _ in range(at_most):
        page.keyboard.press("Tab")
        if words in page.evaluate(FOCUSED):
            return
    raise AssertionError(f"{words!r} is not among the next {at_most} stops")


def test_without_a_mouse(own_page: "Page", app_url: str) -> None:
    """Paint, play and look at a pixel, with nothing but keys."""
    page = own_page
    open_page(page, app_url, "?image=dream-1")
    player, told = page.locator(".qt.player"), page.locator(".qt.painter .told")
    tab_to(page, "Skip to the content", 3)
    assert page.get_by_text("Skip to the content").bounding_box()["y"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    wait_until(page, lambda: "stage" in page.evaluate(FOCUSED), "the canvas")
    assert told.text_content() == "row 14, column 10: seen"
    for key in ("[", "[", "ArrowUp", "ArrowLeft", " "):
        page.keyboard.press(key)
    expected = np.zeros(FACE, bool)
    expected[13, 9] = True
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "one pixel")
    assert told.text_content() == "row 13, column 9: hidden"
    page.keyboard.down("Shift")
    for key in ("ArrowLeft", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.up("Shift")
    expected[13, 7:10] = expected[14, 7] = True
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "a line")
    page.keyboard.press("Control+z")  # the line is one stroke
    expected[13, 7:9] = expected[14, 7] = False
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "the line to go")
    for key in ("r", "Enter", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expected[14:16, 7:10] = True
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "a rectangle")
    wait_until(page, lambda: player.get_attribute("data-layer") == "50", "all layers: the arrows were the canvas's")
    tab_to(page, "Maps", 12)
    before = [int(number) for number in state(page).pixel.split("-")]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name=f"Pixel ({before[0] + 1}, {before[1] + 1})").wait_for()
    wait_until(page, lambda: state(page).pixel == f"{before[0] + 1}-{before[1] + 1}")
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    wait_until(page, lambda: int(player.get_attribute("data-layer") or 0) > 0, "the layers to play")


@pytest.mark.parametrize(("query", "focus"), [("?page=contours", "stage"), ("?page=lab", "qt lab")])
def test_the_link_past_the_choices(own_page: "Page", app_url: str, query: str, focus: str) -> None:
    page = own_page
    open_page(page, app_url, query, shown=".qt.player, .qt.lab")
    tab_to(page, "Skip to the content", 3)
    page.keyboard.press("Enter")
    wait_until(page, lambda: focus in page.evaluate(FOCUSED), focus)
    page.get_by_role("tab", name="Results").click()
    page.get_by_text("Skip to the content").wait_for(state="hidden")


def test_buttons_are_called_what_they_say(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    for name in ("Share", "Tour"):
        assert page.get_by_role("button", name=name, exact=True).text_content() == name
    names = page.get_by_role("button").evaluate_all("all => all.map((each) => each.ariaLabel || each.textContent.trim())")
    assert all(names)


def test_a_lost_server_is_told(own_page: "Page", app_url: str) -> None:
    page = own_page
    connections = []

    def through(socket: "WebSocketRoute") -> None:
        connections.append(socket)
        socket.connect_to_server()

    page.route_web_socket(re.compile("/ws"), through)
    open_page(page, app_url)
    told = page.get_by_text("The connection to the server is lost")
    assert not told.is_visible()
    connections[-1].close()
    told.wait_for()


def test_a_tab_that_was_left_comes_back_as_it_was(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?image=dream-1")
    stage = page.locator(".qt.painter .stage")
    set_size(page, 1)
    for row in (5, 8):
        drag(page, FACE, (row, 3), (row, 9))
    wait_until(page, lambda: hidden(page, FACE).sum() == 14)
    page.get_by_role("tab", name="Results").click()
    page.locator(".results").wait_for()
    page.get_by_role("tab", name="Faces").click()
    stage.wait_for()
    wait_until(page, lambda: stage.get_attribute("data-hidden") == "14", "what was painted before")
    number, before = seq(page), picture(page, "mean")
    set_size(page, 1)
    drag(page, FACE, (12, 3), (12, 9))
    wait_for_result(page, number)
    assert (picture(page, "mean") != before).any()
    wait_until(page, lambda: hidden(page, FACE).sum() == 21)
    for count in (14, 7, 0):  # also what was painted before
        page.keyboard.press("Control+z")
        wait_until(page, lambda count=count: hidden(page, FACE).sum() == count, f"{count} hidden pixels")
    page.get_by_role("tab", name="Results").click()
    page.locator(".results").wait_for()
    page.get_by_role("tab", name="Faces").click()
    stage.wait_for()
    page.locator(".qt.painter button[data-name=redo]").click()
    wait_until(page, lambda: hidden(page, FACE).sum() == 7, "the first stroke again")


def test_another_picture_has_nothing_to_undo(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?image=dream-1")
    drag(page, FACE, (5, 3), (5, 9))
    wait_until(page, lambda: hidden(page, FACE).any())
    open_page(page, app_url, "?image=dream-2")
    assert page.locator(".qt.painter button[data-name=undo]").is_disabled()


def test_dark_mode_reaches_the_components(own_page: "Page", app_url: str) -> None:
    page = own_page
    open_page(page, app_url)
    assert page.locator(".qt.player.dark").count() == 0
    page.get_by_role("button", name="theme").click()
    page.locator(".qt.player.dark").wait_for()
    page.locator(".qt.painter.dark").wait_for()


def test_a_chosen_theme_stays(own_page: "Page", app_url: str) -> None:
    page = own_page
    open_page(page, app_url)
    for chosen, count in (("dark", 1), ("light", 0)):
        page.get_by_role("button", name="theme").click()
        wait_until(page, lambda chosen=chosen: f"={chosen}" in page.evaluate("document.cookie"), "the cookie")
        page.reload()
        page.locator(f".mui-{chosen} .header").wait_for()
        page.locator(".qt.player canvas[data-map]").first.wait_for()
        wait_until(page, lambda count=count: page.locator(".qt.player.dark").count() == count, f"{chosen} components")


def test_the_device_is_shown(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    page.get_by_text(re.compile("^(CPU|CUDA|MPS)$")).wait_for()


@pytest.mark.parametrize(
    "query",
    ["", "?page=contours", "?page=digits", "?compare=untrained", "?page=contours&compare=layers-5"],
)
def test_nothing_overlaps_or_sticks_out(page: "Page", app_url: str, query: str) -> None:
    open_page(page, app_url, query)
    for width in at_widths(page):
        boxes = [page.locator(selector).bounding_box() for selector in (".qt.gallery", ".qt.painter", ".qt.player")]
        for left, right in itertools.pairwise(boxes):
            assert left is not None
            assert right is not None
            assert left["x"] + left["width"] <= right["x"]
        assert boxes[2] is not None
        assert boxes[2]["x"] + boxes[2]["width"] <= width


CLIPPED = """() => {
    const cut = [], look = (root) => root.querySelectorAll("*").forEach((each) => {
        if (each.shadowRoot) look(each.shadowRoot)
        const text = each.matches(".qt h3, .qt .names, .qt .names span, .qt button")
        if (text && each.scrollWidth > each.clientWidth + 1) cut.push(each.textContent)
    })
    look(document)
    return cut
}"""


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?compare=untrained",
        "?compare=layers-5&layer=3",
        "?compare=layers-100",
        "?page=contours",
        "?page=contours&compare=fixed",
        "?page=contours&compare=layers-5",
        "?page=digits&compare=layers-3",
    ],
)
def test_no_heading_and_no_number_is_cut_off(page: "Page", app_url: str, query: str) -> None:
    open_page(page, app_url, query)
    for _ in at_widths(page, height=720):
        assert page.evaluate(CLIPPED) == []
    if "compare" in query:
        for chart in page.locator(".qt.player .chart", has_text=re.compile("Residual|Bits")).all():
            assert len([float(number) for number in chart.locator(".names b").all_inner_texts()]) == 2


SMALL_TARGETS = """() => {
    const found = []
    const walk = (root) => {
        for (const element of root.querySelectorAll("*")) {
            const box = element.getBoundingClientRect()
            const small = element.matches(".qt button, .qt select") && box.width && box.height < 32
            if (small) found.push(element.outerHTML.slice(0, 90))
            if (element.shadowRoot) walk(element.shadowRoot)
        }
    }
    walk(document)
    return found
}"""


def test_on_a_phone(page: "Page", app_url: str) -> None:
    """Everything is within the window's width and large enough for a thumb; the answer is below what is asked."""
    for query, parts in (
        ("?page=faces", [".qt.painter", ".qt.player", ".qt.gallery"]),
        ("?page=contours&compare=layers-5", [".qt.painter", ".qt.player", ".qt.gallery"]),
        ("?page=digits&model=rbm/adult", [".qt.choices >> nth=0", ".qt.record"]),
        ("?page=yourdata", [".qt.choices >> nth=0", ".qt.trainer"]),
        ("?page=lab", [".lab .middle", ".lab .right", ".lab .left"]),
        ("?page=results", [".results"]),
    ):
        open_page(page, app_url, query, shown=parts[0])
        for width in at_widths(page, 390, height=844):
            assert page.evaluate("document.scrollingElement.scrollWidth") <= width + 1
            boxes = [page.locator(part).first.bounding_box() for part in parts]
            for box in boxes:
                assert box is not None
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
            for above, below in itertools.pairwise(boxes):
                assert above["y"] + above["height"] <= below["y"]  # type: ignore[index]
            assert page.evaluate(SMALL_TARGETS) == []


def below(above: "Locator", content: "Locator") -> bool:
    """Whether something ends before the content begins."""
    first, second = above.bounding_box(), content.bounding_box()
    return first is not None and second is not None and first["y"] + first["height"] <= second["y"]


def test_one_user_too_many_is_told_so(own_page: "Page", shared: conftest.Watched) -> None:
    page = own_page
    with served(settings={"QTCORE_SESSIONS": "1"}) as server, conftest.without_complaints(server):
        open_page(page, server.url)
        second = page.context.new_page()
        second.goto(f"{server.url}app")
        second.get_by_text("All places are taken").wait_for()
        second.close()
        page.goto("about:blank")
    (complaint,) = shared.complaints
    assert "503" in complaint
    shared.complaints.clear()


def test_share_copies_the_address(page: "Page", app_url: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_page(page, app_url)
    page.get_by_role("button", name="mouth").click()
    wait_until(page, lambda: state(page).mask != "")
    page.get_by_role("button", name="Share").click()
    page.get_by_text("Link copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.get_by_role("button", name="Share").wait_for()


def test_the_tour_leads_through_the_pages(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?image=dream-1")
    page.get_by_role("button", name="Tour").click()
    for number, (name, title, _) in enumerate(CARDS, 1):
        page.get_by_text(f"{number} of {len(CARDS)}: {title}").wait_for()
        wait_until(page, lambda name=name: state(page).page == name)
        content = page.locator(
            ".qt.painter:visible, .qt.record:visible, .qt.trainer:visible, .qt.lab:visible, .results:visible"
        ).first
        content.wait_for()
        end = page.get_by_role("button", name="End the tour")
        wait_until(page, lambda end=end, content=content: below(end, content), "the page below the card", 20)
        if name in ("faces", "contours", "digits"):  # the page is played
            player = page.locator(".qt.player:visible")
            wait_until(page, lambda player=player: int(player.get_attribute("data-layer") or 0) > 0, "the play")
        if name == "contours":
            assert state(page).image == "drawing"
        if number == 1:  # the page below the card goes on working
            drag(page, FACE, (5, 15), (5, 18))
            wait_for_result(page, 0)
        page.get_by_role("button", name="Next" if number < len(CARDS) else "Back", exact=True).click()
    page.get_by_text(f"{len(CARDS) - 1} of {len(CARDS)}").wait_for()
    assert page.locator("math").first.is_visible()
    page.get_by_role("button", name="End the tour").click()
    page.get_by_text(f"{len(CARDS) - 1} of {len(CARDS)}").wait_for(state="hidden")
    assert state(page).page == CARDS[-2][0]
