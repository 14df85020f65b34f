"""Drawing graphs in the lab, with mouse, finger and keyboard, UAI files, and the exercises."""

from pathlib import Path
from typing import TYPE_CHECKING

from qtcore_app.lab.exercises import EXERCISES

from qtcore.models import uai

from .helpers import at_widths, wait_until
from .test_lab import number, open_lab, shared

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

FOCUSED = """() => {
  let at = document.activeElement
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement
  const {name, node, edge} = at?.dataset ?? {}
  return node !== undefined ? `node${node}` : edge !== undefined ? `edge${edge}` : name ?? ""
}"""
SMALLEST = 36
"""Pixels of what a thumb has to find."""


def draw(page: "Page", url: str) -> "Locator":
    lab = open_lab(page, url)
    page.locator("[data-name=draw]").click()
    wait_until(page, lambda: lab.get_attribute("data-drawing") == "true")
    return lab


def spot(page: "Page", x: float, y: float) -> tuple[float, float]:
    """Where on the screen a part of the drawing is."""
    box = page.locator("svg.graph").bounding_box()
    assert box is not None
    return box["x"] + x * box["width"], box["y"] + y * box["height"]


def middle(page: "Page", variable: int) -> tuple[float, float]:
    box = page.locator(f"[data-node='{variable}'] .disc").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def tab_to(page: "Page", what: str, key: str = "Tab") -> None:
    """Go there as one does without a mouse."""
    for _ in range(80):
        if page.evaluate(FOCUSED) == what:
            return
        page.keyboard.press(key)
    raise AssertionError(f"{what} is not reached by {key}, but {page.evaluate(FOCUSED)}")


def test_with_the_mouse(page: "Page", app_url: str) -> None:
    lab = draw(page, app_url)
    page.mouse.click(*spot(page, 0.5, 0.5))
    wait_until(page, lambda: shared(page).graph.n == 5)
    for variable in (0, 4):
        page.locator(f"[data-node='{variable}']").click()
    page.get_by_role("button", name="Connect x₁ – x₅").click()
    wait_until(page, lambda: shared(page).graph.edges[-1] == (0, 4))
    before = shared(page).graph.places[4]
    page.mouse.move(*middle(page, 4))
    page.mouse.down()
    page.mouse.move(*spot(page, 0.5, 0.8), steps=4)
    page.mouse.up()
    wait_until(page, lambda: shared(page).graph.places[4][1] > before[1] + 0.2, "the variable to be moved")
    assert shared(page).graph.n == 5  # where it was let go is no new variable
    for variable in (1, 3, 4):
        page.locator(f"[data-node='{variable}']").click()
    page.get_by_role("button", name="Connect x₂, x₄, x₅").click()
    wait_until(page, lambda: shared(page).graph.triples == ((1, 3, 4),))
    wait_until(page, lambda: page.locator(".pill.three").count() == 1)
    wait_until(page, lambda: page.locator(".message").count() == 2 * 5 + 3)
    wait_until(page, lambda: "Third-order factor" in page.locator(".formula").inner_text())
    page.locator("[data-edge='0']").click()
    wait_until(page, lambda: shared(page).selected == "e0")
    page.get_by_role("button", name="Delete", exact=True).click()
    wait_until(page, lambda: len(shared(page).graph.edges) == 4)
    page.get_by_role("button", name="Undo").click()
    wait_until(page, lambda: len(shared(page).graph.edges) == 5)
    page.get_by_role("button", name="Done").click()
    wait_until(page, lambda: lab.get_attribute("data-drawing") == "false")
    page.locator("[data-node='4']").click()  # evidence again
    wait_until(page, lambda: shared(page).evidence[4] == 1)
    drawn, address = shared(page), page.url
    page.goto("about:blank")
    open_lab(page, app_url, address.removeprefix(f"{app_url}app"))
    assert shared(page) == drawn
    wait_until(page, lambda: page.locator(".node").count() == 5)


def test_with_the_keyboard_alone(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    page.locator("button[data-graph=loop]").focus()
    tab_to(page, "draw")
    page.keyboard.press("Enter")
    wait_until(page, lambda: lab.get_attribute("data-drawing") == "true")
    tab_to(page, "add")
    page.keyboard.press("Enter")
    wait_until(page, lambda: shared(page).graph.n == 5)
    tab_to(page, "node4", "Shift+Tab")
    page.keyboard.press("Enter")
    tab_to(page, "node1", "Shift+Tab")
    page.keyboard.press(" ")
    tab_to(page, "connect")
    page.keyboard.press("Enter")
    wait_until(page, lambda: shared(page).graph.edges[-1] == (1, 4))
    tab_to(page, "node4", "Shift+Tab")
    place = shared(page).graph.places[4]
    page.keyboard.press("ArrowDown")
    wait_until(page, lambda: shared(page).graph.places[4] == (place[0], round(place[1] + 0.05, 3)))
    assert page.evaluate(FOCUSED) == "node4"  # although the graph was drawn anew
    tab_to(page, "edge4", "Shift+Tab")
    page.keyboard.press("Delete")
    wait_until(page, lambda: len(shared(page).graph.edges) == 4)
    tab_to(page, "node0")
    page.keyboard.press("Delete")
    wait_until(page, lambda: shared(page).graph.n == 4)
    page.keyboard.press("Escape")
    wait_until(page, lambda: lab.get_attribute("data-drawing") == "false")
    assert page.evaluate(FOCUSED) == "draw"


def test_files(page: "Page", app_url: str, tmp_path: Path) -> None:
    draw(page, app_url)
    chosen, notice = page.locator("input[type=file]"), page.locator(".lab .notice")
    for text, sentence in (
        ("BAYES 1 3 0", "The lab is for variables of two states, but the variable 0 has 3."),
        ("x" * 70_000, "The file has 68 kB; the lab opens UAI files of up to 64 kB."),
    ):
        (tmp_path / "bad.uai").write_text(text)
        chosen.set_input_files(tmp_path / "bad.uai")
        page.get_by_text(sentence).wait_for()
    (tmp_path / "good.uai").write_text("MARKOV 3 2 2 2  2 2 0 1 3 0 1 2  4 3 1 1 3  8 1 2 2 1 2 1 1 4")
    chosen.set_input_files(tmp_path / "good.uai")
    wait_until(page, lambda: shared(page).graph.factors == ((0, 1), (0, 1, 2)))
    assert not notice.is_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save UAI").click()
    assert download.value.suggested_filename == "own.uai"
    saved = uai.read(download.value.path())
    assert saved.scopes == [(0,), (1,), (2,), (0, 1), (0, 1, 2)]


def test_an_exercise(own_page: "Page", app_url: str) -> None:
    page = own_page
    page.set_viewport_size({"width": 1280, "height": 720})
    lab = open_lab(page, app_url)
    places = [page.locator(each).bounding_box() for each in (".graph", ".badge", ".bars", ".scores")]
    page.get_by_role("button", name="exercises").click()
    wait_until(page, lambda: lab.get_attribute("data-exercise") == "1")
    press, answer = page.locator("[data-name=press]"), page.locator(".exercise .answer")
    assert press.is_disabled()
    page.get_by_role("button", name="after 2").click()
    wait_until(page, lambda: press.is_enabled())
    press.click()
    wait_until(page, lambda: answer.inner_text().startswith("You said “after 2”, but it is “after 4”."))
    assert page.get_by_role("button", name="after 4 ✓").is_visible()
    assert shared(page).layers == 8
    page.get_by_role("button", name="The next exercise").click()
    wait_until(page, lambda: lab.get_attribute("data-exercise") == "2")
    page.locator("[data-choice='0']").click()
    wait_until(page, lambda: press.is_enabled())
    press.click()
    wait_until(page, lambda: answer.inner_text().startswith("Right."))
    assert [page.locator(each).bounding_box() for each in (".graph", ".badge", ".bars", ".scores")] == places
    box = page.locator(".exercise").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 720
    for k in range(3, len(EXERCISES) + 1):
        page.get_by_role("button", name="The next exercise").click()
        wait_until(page, lambda k=k: lab.get_attribute("data-exercise") == str(k))
        assert page.locator(".exercise").evaluate("e => e.scrollHeight <= e.clientHeight")  # nothing of it is cut off
    page.get_by_role("button", name="Leave the exercises").click()
    wait_until(page, lambda: lab.get_attribute("data-exercise") == "0")
    assert page.locator(".formula").is_visible()


def test_on_a_phone_in_the_dark(own_page: "Page", app_url: str) -> None:
    page = own_page
    page.set_viewport_size({"width": 390, "height": 844})
    lab = draw(page, app_url)
    page.get_by_role("button", name="theme").click()
    page.locator(".qt.lab.dark").wait_for()
    for _ in at_widths(page, 390, height=844):
        for button in page.locator(".lab button:visible, .lab select:visible").all():
            box = button.bounding_box()
            assert box is not None
            assert box["height"] >= SMALLEST, button.inner_text()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    page.locator("svg.graph").scroll_into_view_if_needed()
    page.mouse.click(*spot(page, 0.5, 0.5))
    wait_until(page, lambda: shared(page).graph.n == 5)
    page.locator("[data-name=exercises]").click()
    wait_until(page, lambda: number(lab, "exercise") == 1)
    page.locator(".exercise").scroll_into_view_if_needed()
    box = page.locator(".exercise").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
