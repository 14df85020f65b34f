"""The LBP lab in a browser."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from qtcore_app.lab.address import decode, encode
from qtcore_app.lab.graphs import SCHEDULES, Lab, default

from .helpers import at_widths, open_page, state, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ALONG = """(line, t) => {
  const m = line.getScreenCTM(), at = (a, b) => a + t * (b - a)
  const x = at(line.x1.baseVal.value, line.x2.baseVal.value), y = at(line.y1.baseVal.value, line.y2.baseVal.value)
  return [m.a * x + m.e, m.d * y + m.f]
}"""


def open_lab(page: "Page", url: str, query: str = "?page=lab") -> "Locator":
    open_page(page, url, query, shown=".qt.lab")
    return page.locator(".qt.lab")


def number(lab: "Locator", name: str) -> int:
    return int(lab.get_attribute(f"data-{name}") or 0)


def shared(page: "Page") -> Lab:
    return decode(state(page).graph) or default()


def coupling(page: "Page", edge: int) -> str:
    return page.locator(f"[data-edge='{edge}'] text").text_content() or ""


def bars(page: "Page", kind: str = "belief") -> list[float]:
    return [float(bar.get_attribute("height") or 0) for bar in page.locator(f"[data-{kind}][class={kind}]").all()]


def click_arrow(page: "Page", message: int) -> None:
    """Near its head: the middle belongs to the coupling."""
    x, y = page.locator(f"[data-message='{message}'] .hit").evaluate(ALONG, 0.8)
    page.mouse.click(x, y)


def set_knob(page: "Page", name: str, value: float) -> None:
    page.locator(f"[data-knob={name}]").evaluate(
        "(i, v) => { i.value = v; i.dispatchEvent(new Event('input')); i.dispatchEvent(new Event('change')) }", str(value)
    )


def test_opens_with_a_result(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    assert (number(lab, "layer"), number(lab, "last")) == (40, 40)
    assert page.locator(".badge").inner_text() == "converged, off by 0.13"
    believed, true = bars(page), bars(page, "exact")
    assert len(believed) == len(true) == 4
    assert true[0] - believed[0] > 10  # belief propagation is wrong here
    assert "cavity" in page.locator(".formula").inner_text()
    assert page.get_by_text("Why query training helps").is_visible()


def test_only_what_is_correct_is_green(page: "Page", app_url: str) -> None:
    open_lab(page, app_url)
    badge, colour = page.locator(".badge"), "e => getComputedStyle(e).borderTopColor"
    off = badge.evaluate(colour)
    page.locator("[data-graph=chain]").click()
    wait_until(page, lambda: badge.inner_text() == "✓ converged, correct")
    assert badge.evaluate(colour) == page.locator(".key.belief").evaluate("e => getComputedStyle(e).backgroundColor") != off


def test_clicking_a_variable_is_evidence(page: "Page", app_url: str) -> None:
    open_lab(page, app_url)
    third = page.locator("[data-node='2']")
    before = bars(page), bars(page, "exact")
    for value in (1, 0, -1):
        third.click()
        wait_until(page, lambda value=value: third.get_attribute("data-evidence") == str(value), f"evidence {value}")
        wait_until(page, lambda value=value: shared(page).evidence[2] == value, "the address")
        changed = bars(page), bars(page, "exact")
        assert (changed == before) == (value == -1)
    assert "Belief of" in page.locator(".formula").inner_text()
    third.focus()
    page.keyboard.press("Enter")
    wait_until(page, lambda: third.get_attribute("data-evidence") == "1")
    page.get_by_role("button", name="Forget evidence").click()
    wait_until(page, lambda: third.get_attribute("data-evidence") == "-1")


def test_clicking_an_arrow_sends_one_message(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    page.locator("[data-name=first]").click()
    wait_until(page, lambda: number(lab, "layer") == 0)
    values = lambda: [float(each.get_attribute("data-value") or 0) for each in page.locator(".message").all()]  # noqa: E731
    assert set(values()) == {0.0}
    click_arrow(page, 0)
    wait_until(page, lambda: lab.get_attribute("data-mode") == "hand" and number(lab, "layer") == 1)
    sent = values()
    assert sent[0] > 0.5
    assert set(sent[1:]) == {0.0}
    assert "sent by hand" in page.locator(".formula").inner_text()
    click_arrow(page, 2)
    wait_until(page, lambda: number(lab, "last") == 2)
    assert [each != 0 for each in values()] == [True, False, True] + [False] * 5
    page.keyboard.press("ArrowLeft")
    wait_until(page, lambda: number(lab, "layer") == 1)
    assert values() == sent
    page.locator("[data-schedule=flooding]").click()
    wait_until(page, lambda: lab.get_attribute("data-mode") == "parallel" and number(lab, "layer") == 40)


def test_by_hand_begins_with_messages_of_0(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    wait_until(page, lambda: number(lab, "layer") == 40)  # the end of the parallel run
    reset = page.get_by_role("button", name="reset messages")
    values = lambda: [float(each.get_attribute("data-value") or 0) for each in page.locator(".message").all()]  # noqa: E731
    assert set(values()) != {0.0}
    assert not reset.is_visible()
    page.get_by_role("button", name="by hand").click()
    wait_until(page, lambda: lab.get_attribute("data-mode") == "hand" and set(values()) == {0.0}, "messages of 0")
    assert page.locator(".lab .badge").inner_text() == "… not converged"
    click_arrow(page, 0)
    wait_until(page, lambda: values()[0] > 0.5)
    reset.click()
    wait_until(page, lambda: set(values()) == {0.0} and number(lab, "last") == 0, "messages of 0 again")


def test_no_message_sent_in_haste_is_lost(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    arrows = [page.locator(f"[data-message='{i}'] .hit").evaluate(ALONG, 0.8) for i in range(8)]
    for x, y in arrows:
        page.mouse.click(x, y)
    wait_until(page, lambda: number(lab, "last") == 8, "eight messages")
    assert shared(page).sent == tuple(range(8))


def test_slider_play_and_keys_move_the_layer(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    set_knob(page, "layer", 3)
    wait_until(page, lambda: number(lab, "layer") == 3)
    assert page.locator(".badge").inner_text() == "… not converged"
    wait_until(page, lambda: state(page).layer == "3", "the address")
    page.keyboard.press("ArrowRight")
    wait_until(page, lambda: number(lab, "layer") == 4)
    page.keyboard.press("Home")
    wait_until(page, lambda: number(lab, "layer") == 0)
    page.keyboard.press(" ")
    wait_until(page, lambda: number(lab, "layer") >= 2, "play to move")
    page.keyboard.press(" ")
    page.wait_for_timeout(100)
    stopped = number(lab, "layer")
    page.wait_for_timeout(700)
    assert number(lab, "layer") == stopped
    page.locator("[data-name=last]").click()
    wait_until(page, lambda: number(lab, "layer") == 40)


def test_reduced_motion_steps_instead_of_playing(own_page: "Page", app_url: str) -> None:
    page = own_page
    page.emulate_media(reduced_motion="reduce")
    lab = open_lab(page, app_url)
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    wait_until(page, lambda: number(lab, "layer") == 1)
    page.wait_for_timeout(700)
    assert number(lab, "layer") == 1


def test_sliders(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    curve = page.locator("svg.transfer .curve:not(.zero):not(.one)")
    before = curve.get_attribute("points")
    set_knob(page, "temperature", 0)
    wait_until(page, lambda: shared(page).temperature == 0 and curve.get_attribute("points") != before)
    assert curve.get_attribute("points") == page.locator("svg.transfer .curve.zero").get_attribute("points")
    heading = page.locator(".right h3").first.inner_text()
    assert heading.split() == ["belief", "exact", "max-marginal", "mean", "|error|", "0.000"]
    page.locator("[data-edge='2']").click()
    page.get_by_role("slider", name="Coupling x₃ – x₄").wait_for()
    assert shared(page).selected == "e2"
    set_knob(page, "coupling", -0.5)
    wait_until(page, lambda: coupling(page, 2) == "−0.50")
    assert shared(page).couplings == (2.0, 2.0, -0.5, -2.0)
    set_knob(page, "layers", 12)
    wait_until(page, lambda: number(lab, "last") == 12)
    page.locator("[data-preset=ferromagnetic]").click()
    wait_until(page, lambda: set(shared(page).couplings) == {1.5})


def test_schedules_from_the_same_start_with_log_z(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    log_z = lambda kind: float(page.locator(f"[data-log-z={kind}]").inner_text())  # noqa: E731
    true, found = log_z("exact"), set()
    for name in SCHEDULES:
        page.locator(f"button[data-schedule={name}]").click()
        wait_until(page, lambda name=name: lab.get_attribute("data-run") == name and number(lab, "layer") == 40)
        assert log_z("exact") == true
        assert abs(log_z("bethe") - true) > 0.05  # there is a loop
        page.keyboard.press("Home")
        wait_until(page, lambda: number(lab, "layer") == 0)
        found.add(tuple(bars(page)))
        page.keyboard.press("End")
    assert len(found) == 1
    set_knob(page, "temperature", 0.5)
    page.get_by_text("Bethe needs T = 1").wait_for()


def test_speed_and_starting_over(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    page.keyboard.press("Home")
    wait_until(page, lambda: number(lab, "layer") == 0)
    page.get_by_label("speed").select_option("15 layers/s")
    page.locator("[data-name=play]").click()
    seen = {number(lab, "layer")}
    wait_until(page, lambda: seen.add(number(lab, "layer")) or number(lab, "layer") == 40)
    assert seen <= set(range(0, 41, 5))
    page.locator("[data-node='2']").click()
    wait_until(page, lambda: shared(page).evidence[2] == 1)
    set_knob(page, "damping", 0.5)
    page.get_by_role("button", name="start over").click()
    wait_until(page, lambda: shared(page) == default())


@pytest.mark.parametrize("key", ["chain", "tree", "grid", "complete", "rbm"])
def test_every_graph(page: "Page", app_url: str, key: str) -> None:
    lab = open_lab(page, app_url)
    page.locator(f"[data-graph={key}]").click()
    wait_until(page, lambda: lab.get_attribute("data-graph") == key)
    words = {"chain": "✓ converged, correct", "tree": "✓ converged, correct", "complete": "∿ oscillating, period 2"}
    assert page.locator(".badge").inner_text() == words.get(key, "… not converged")
    assert len(bars(page)) == page.locator(".node").count()


def test_training_shows_both_numbers(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    page.locator("[data-graph=complete]").click()
    wait_until(page, lambda: lab.get_attribute("data-graph") == "complete")
    set_knob(page, "layers", 10)
    wait_until(page, lambda: number(lab, "last") == 10)
    page.locator("[data-name=train]").click()
    wait_until(page, lambda: lab.get_attribute("data-training") == "running")
    wait_until(page, lambda: lab.get_attribute("data-training") == "done", "the training", 60)
    score = lambda name: float(page.locator(f"[data-score={name}]").inner_text().split()[0].replace("−", "-"))  # noqa: E731
    assert score("after-1") < score("before-1")  # better answers
    assert score("after-2") < score("before-2")
    assert score("after-0") < score("before-0")  # a worse model
    assert lab.get_attribute("data-shown") == "1"
    result = page.locator(".result")
    both = [page.locator(f"[data-score={name}-1]").inner_text().split()[0] for name in ("before", "after")]
    assert f"{both[0]} with the true parameters, {both[1]} query-trained" in result.inner_text()
    trained, knobs = coupling(page, 0), [page.locator(f"[data-knob={name}]") for name in ("strength", "coupling", "bias")]
    assert trained == page.locator("label:has([data-knob=coupling]) output").inner_text()  # the sliders show what is shown
    assert all(knob.is_disabled() for knob in knobs)
    page.get_by_role("button", name="true parameters").click()
    wait_until(page, lambda: lab.get_attribute("data-shown") == "0")
    assert coupling(page, 0) != trained
    assert coupling(page, 0) == page.locator("label:has([data-knob=coupling]) output").inner_text()
    assert all(knob.is_enabled() for knob in knobs)
    address = page.url
    page.goto("about:blank")
    open_lab(page, app_url, address.removeprefix(f"{app_url}app"))  # the trained parameters are in the link
    page.get_by_role("button", name="query-trained").click()
    wait_until(page, lambda: coupling(page, 0) == trained)
    set_knob(page, "damping", 0.5)
    page.get_by_text("Trained for d = 0.00, but d = 0.50 is set: train again to compare.").wait_for()
    page.get_by_role("button", name="true parameters").click()
    wait_until(page, lambda: lab.get_attribute("data-shown") == "0")
    set_knob(page, "strength", 0.5)
    page.get_by_text("so the training was discarded: train again.").wait_for()


def test_a_change_stops_the_training(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    page.locator("[data-name=train]").click()
    wait_until(page, lambda: lab.get_attribute("data-training") == "running")
    set_knob(page, "bias", 0.5)
    wait_until(page, lambda: lab.get_attribute("data-training") == "none")
    assert shared(page).trained == ()


def test_the_address_reopens_the_same_lab(page: "Page", app_url: str) -> None:
    lab = open_lab(page, app_url)
    page.locator("[data-graph=rbm]").click()
    wait_until(page, lambda: lab.get_attribute("data-graph") == "rbm")
    page.locator("[data-node='1']").click()
    wait_until(page, lambda: shared(page).evidence[1] == 1)
    page.locator("[data-name=first]").click()
    page.locator("[data-name=forward]").click()
    wait_until(page, lambda: state(page).layer == "1")
    click_arrow(page, 4)
    wait_until(page, lambda: shared(page).sent == (4,) and lab.get_attribute("data-mode") == "hand", "the message to be shown")
    before, address, words = bars(page), page.url, page.locator(".formula").inner_text()
    page.goto("about:blank")
    lab = open_lab(page, app_url, address.removeprefix(f"{app_url}app"))
    assert lab.get_attribute("data-graph") == "rbm"
    assert lab.get_attribute("data-mode") == "hand"
    assert bars(page) == before
    assert page.locator(".formula").inner_text() == words
    assert page.url == address


def test_dark_and_nothing_moves(own_page: "Page", app_url: str) -> None:
    page = own_page
    lab = open_lab(page, app_url)
    places = lambda: json.dumps(  # noqa: E731
        [page.locator(each).first.bounding_box() for each in (".graph", ".badge", ".formula", ".bars", ".transfer", ".scores")]
    )
    before = places()
    page.locator("[data-node='1']").click()
    wait_until(page, lambda: shared(page).evidence[1] == 1)
    for key in ("complete", "tree", "grid", "rbm", "chain"):
        page.locator(f"[data-graph={key}]").click()
        wait_until(page, lambda key=key: lab.get_attribute("data-graph") == key)
        assert places() == before
    page.get_by_role("button", name="theme").click()
    page.locator(".qt.lab.dark").wait_for()
    assert places() == before


def test_both_errors_fit_a_small_window(own_page: "Page", app_url: str) -> None:
    own_page.set_viewport_size({"width": 1280, "height": 720})
    trained = replace(default(), trained=(0.5,) * 8, shown=1)
    open_lab(own_page, app_url, f"?page=lab&graph={encode(trained)}")
    numbers = own_page.locator(".result [data-error]")
    assert numbers.count() == 2
    for part in (*numbers.all(), own_page.locator(".scores"), own_page.locator(".formula")):
        box = part.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 720
    assert own_page.evaluate("document.scrollingElement.scrollTop") == 0
    for line in own_page.locator(".result > div").all():
        assert line.evaluate("e => e.scrollWidth <= e.clientWidth")  # nothing of it is cut off


def test_fits_the_window(page: "Page", app_url: str) -> None:
    open_lab(page, app_url)
    for width in at_widths(page):
        boxes = [page.locator(f".qt.lab > .{side}").bounding_box() for side in ("left", "middle", "right")]
        ends = [(box["x"], box["x"] + box["width"]) for box in boxes if box]
        assert ends[0][1] <= ends[1][0] < ends[1][1] <= ends[2][0] < ends[2][1] <= width
        assert all(box["y"] + box["height"] <= 800 for box in boxes if box)  # all of it without scrolling
