"""The page Faces, used as a person would."""

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PIL import Image
from qtcore_app import masks
from qtcore_app.state import decode_bytes, encode_bytes
from qtcore_app.uploads import MAX_BYTES

import qtcore
from qtcore.data import faces_offline

from .conftest import Contexts
from .helpers import (
    FACE,
    at_widths,
    centre,
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

LEFT_HALF = np.full(FACE, 255, np.uint8)
LEFT_HALF[:, :10] = 0
START = "?image=dream-1"  # nothing hidden


def test_opens_with_a_result(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    mean = picture(page, "mean")
    assert mean.shape == (*FACE, 3)
    assert np.ptp(mean) > 100
    assert page.locator(".qt.player").get_attribute("data-done") == "true"
    assert page.locator(".qt.player").get_attribute("data-layer") == "50"
    assert page.locator(".qt.painter .stage").get_attribute("data-hidden") == str(28 * 20 * 4 // 5)


def test_the_score_has_two_baselines_and_smoothed_samples_none(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    chart = page.locator(".qt.player .chart").nth(1)
    assert chart.locator(".baseline").count() == 2
    labels = chart.locator("text.strong")
    assert {text.rsplit(" ", 1)[0] for text in labels.all_text_contents()} == {"mean face", "one Gaussian"}
    first, second = (label.evaluate("e => e.getBoundingClientRect().toJSON()") for label in labels.all())
    assert first["bottom"] <= second["top"] + 2  # one below the other
    assert page.get_by_text("Samples from the model").is_visible()
    page.get_by_role("button", name="smoothed", exact=True).click()
    wait_until(page, lambda: state(page).image == "smooth-0")
    page.get_by_text("not scored.").wait_for()
    assert page.locator("canvas[data-map=difference]").count() == 0
    page.get_by_role("button", name="samples", exact=True).click()
    wait_until(page, lambda: state(page).image == "dream-0" and chart.locator(".baseline").count() == 2)


def test_a_drag_hides_exactly_the_pixels_under_it(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    set_size(page, 1)
    before = picture(page, "mean")
    drag(page, FACE, (5, 3), (5, 9), (11, 9))
    wait_for_result(page, 0)
    wait_until(page, lambda: state(page).mask != "")
    expected = np.zeros(FACE, bool)
    expected[5, 3:10] = True
    expected[5:12, 9] = True
    np.testing.assert_array_equal(hidden(page, FACE), expected)
    after = picture(page, "mean")
    changed = (after != before).any(-1)
    assert changed[expected].any()
    assert not changed[~expected].any()  # what is seen stays as it is


def test_a_fast_drag_leaves_no_gap(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    set_size(page, 1)
    drag(page, FACE, (2, 2), (17, 17), steps=1)
    wait_for_result(page, 0)
    wait_until(page, lambda: hidden(page, FACE).sum() == 16)
    assert hidden(page, FACE)[np.arange(2, 18), np.arange(2, 18)].all()


def test_wide_brush_rectangle_eraser_and_right_button(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    set_size(page, 3)
    expected = np.zeros(FACE, bool)
    drag(page, FACE, (10, 10))
    expected[9:12, 9:12] = True
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "three by three pixels")
    tool(page, "rectangle")
    drag(page, FACE, (20, 15), (14, 2))
    expected[14:21, 2:16] = True
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "a rectangle")
    tool(page, "eraser")
    drag(page, FACE, (15, 5))
    expected[14:17, 4:7] = False
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "the eraser")
    tool(page, "brush")
    drag(page, FACE, (10, 10), button="right")
    expected[9:12, 9:12] = False
    wait_until(page, lambda: (hidden(page, FACE) == expected).all(), "the right button")


def test_undo_redo_invert_clear(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    first = picture(page, "mean")
    drag(page, FACE, (10, 3), (10, 15))
    wait_for_result(page, 0)
    painted, second = hidden(page, FACE), picture(page, "mean")
    assert (first != second).any()
    number = seq(page)
    tool(page, "undo")
    wait_for_result(page, number)
    np.testing.assert_array_equal(picture(page, "mean"), first)
    assert not hidden(page, FACE).any()
    page.locator(".qt.painter .stage").press("Control+y")
    wait_for_result(page, number + 1)
    np.testing.assert_array_equal(picture(page, "mean"), second)
    tool(page, "invert")
    wait_until(page, lambda: (hidden(page, FACE) == ~painted).all())
    tool(page, "clear")
    wait_until(page, lambda: not hidden(page, FACE).any())
    page.locator(".qt.painter .stage").press("Control+z")
    wait_until(page, lambda: (hidden(page, FACE) == ~painted).all())


def test_undo_leaves_the_picture_alone(page: "Page", app_url: str) -> None:
    """Which face it is, is no stroke: the canvas must show the one that the model answers for."""
    open_page(page, app_url, START)
    canvas = page.locator(".qt.painter .stage canvas").first
    grey = "c => Array.from(c.getContext('2d').getImageData(0, 0, 20, 28).data).filter((v, i) => i % 4 === 0)"
    drag(page, FACE, (10, 3), (10, 15))
    wait_until(page, lambda: hidden(page, FACE).any())
    first = canvas.evaluate(grey)
    page.get_by_label("image 4", exact=True).click()
    wait_until(page, lambda: state(page).image == "dream-3" and canvas.evaluate(grey) != first)
    other = canvas.evaluate(grey)
    page.keyboard.press("Control+z")
    wait_until(page, lambda: not hidden(page, FACE).any(), "the stroke to be undone, not the choice")
    assert canvas.evaluate(grey) == other
    assert state(page).image == "dream-3"
    page.keyboard.press("Control+y")
    wait_until(page, lambda: hidden(page, FACE).any())
    assert canvas.evaluate(grey) == other


def test_keys_work_wherever_the_focus_is(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    player = page.locator(".qt.player")
    page.keyboard.press("Home")
    assert player.get_attribute("data-layer") == "0"
    drag(page, FACE, (10, 3), (10, 15))
    wait_for_result(page, 0)  # while layers arrive, the cursor waits for them
    assert hidden(page, FACE).any()
    page.keyboard.press("ArrowRight")  # the canvas has the focus now
    assert player.get_attribute("data-layer") == "1"
    page.keyboard.press(" ")
    wait_until(page, lambda: int(player.get_attribute("data-layer") or 0) > 1, "the layers to play")
    assert page.evaluate("[document.scrollingElement.scrollTop, window.scrollY]") == [0, 0]
    page.keyboard.press(" ")
    page.locator(".qt.player .picture").first.click()
    number = seq(page)
    page.keyboard.press("Control+z")
    wait_for_result(page, number)
    assert not hidden(page, FACE).any()
    size = page.get_by_label("size", exact=True)
    size.focus()
    layer, before = player.get_attribute("data-layer"), size.input_value()
    page.keyboard.press("ArrowRight")  # belongs to the slider that has the focus
    assert player.get_attribute("data-layer") == layer
    assert size.input_value() != before


def test_a_second_finger_and_undo_do_not_disturb_a_stroke(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    set_size(page, 1)
    stage = page.locator(".qt.painter .stage")
    (ax, ay), (bx, by) = centre(page, FACE, 5, 3), centre(page, FACE, 20, 16)
    touch = "(s, [kind, pointerId, clientX, clientY]) => s.dispatchEvent(new PointerEvent(kind, {pointerId, clientX, clientY}))"
    page.mouse.move(ax, ay)
    page.mouse.down()
    stage.evaluate(touch, ["pointermove", 77, bx, by])
    page.keyboard.press("Control+z")
    stage.evaluate(touch, ["pointerup", 77, bx, by])
    page.mouse.move(*centre(page, FACE, 5, 6), steps=3)
    page.mouse.up()
    wait_until(page, lambda: hidden(page, FACE).sum() == 4)
    assert hidden(page, FACE)[5, 3:7].all()
    page.keyboard.press("Control+z")
    wait_until(page, lambda: not hidden(page, FACE).any())


def test_opacity_is_soft_evidence(page: "Page", app_url: str) -> None:
    open_page(page, app_url, START)
    page.get_by_label("opacity").evaluate("i => { i.value = 50; i.dispatchEvent(new Event('input')) }")
    drag(page, FACE, (10, 3), (10, 15))
    wait_for_result(page, 0)
    wait_until(page, lambda: state(page).mask.startswith("z"))
    assert hidden(page, FACE).sum() == 3 * 15
    page.get_by_text("Hide at least one pixel completely").wait_for()


def test_presets(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    for name in masks.FACES:
        page.get_by_role("button", name=name, exact=True).click()
        share = {"30 %": 0.3, "50 %": 0.5, "80 %": 0.8, "left half": 0.5, "nothing": 0.0}.get(name)
        if share is not None:
            wait_until(page, lambda share=share: hidden(page, FACE).sum() == round(share * 560), name)
        else:
            stage = page.locator(".qt.painter .stage")
            wait_until(page, lambda stage=stage: stage.get_attribute("data-hidden") == str(hidden(page, FACE).sum()), name)
        if name == "eyes":
            wait_until(page, lambda: (hidden(page, FACE) == (masks.FACES["eyes"](FACE, 0) == 0)).all(), name)
    tool(page, "undo")  # a preset is a stroke like any other
    wait_until(page, lambda: hidden(page, FACE).any())


def test_a_click_counts_although_another_button_is_marked_meanwhile(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    nothing, stripes = (page.get_by_role("button", name=name, exact=True) for name in ("nothing", "stripes"))
    box = nothing.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    stripes.evaluate("(button) => button.click()")
    wait_until(page, lambda: stripes.get_attribute("aria-pressed") == "true")
    page.mouse.up()
    wait_until(page, lambda: nothing.get_attribute("aria-pressed") == "true" and not hidden(page, FACE).any())


def test_slider_play_step_and_keys(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    player = page.locator(".qt.player")
    last = picture(page, "mean")
    slider = page.get_by_label("layer", exact=True)
    slider.fill("0")
    assert player.get_attribute("data-layer") == "0"
    assert (picture(page, "mean") != last).any()
    page.get_by_label("One layer on (→)").click()
    assert player.get_attribute("data-layer") == "1"
    wait_until(page, lambda: state(page).layer == "1")
    player.press("ArrowRight")
    assert player.get_attribute("data-layer") == "2"
    page.get_by_label("speed").select_option("2")
    page.get_by_label("Play the layers (space)").click()
    wait_until(page, lambda: int(player.get_attribute("data-layer") or 0) > 2, "the play to begin")
    assert int(player.get_attribute("data-layer") or 0) < 50  # layer by layer
    page.get_by_label("speed").select_option("40")
    wait_until(page, lambda: player.get_attribute("data-layer") == "50", "the end of the play")
    np.testing.assert_array_equal(picture(page, "mean"), last)
    wait_until(page, lambda: state(page).layer == "")
    page.get_by_label("Back to layer 0 (Home)").click()
    assert player.get_attribute("data-layer") == "0"


def test_the_filmstrip_and_the_badge(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    player, film = page.locator(".qt.player"), page.locator(".qt.player .strip button")
    layers = [int(each.get_attribute("data-layer") or -1) for each in film.all()]
    assert layers == sorted(set(layers))
    assert layers[0] == 0
    assert layers[-1] == 50
    assert 6 <= len(layers) <= 9
    film.nth(2).click()
    assert player.get_attribute("data-layer") == str(layers[2])
    assert [each.get_attribute("aria-current") for each in film.all()] == [str(i == 2).lower() for i in range(len(layers))]
    changed = page.locator(".qt.player .changed")
    assert "change ×" in (changed.text_content() or "")  # since the layer before
    assert int(changed.get_attribute("data-largest") or 0) > 0
    page.keyboard.press("Home")
    assert changed.text_content() == "no change"
    open_page(page, app_url, "?image=dream-5&mask=" + encode_bytes(LEFT_HALF))
    model, seen = qtcore.load("grbm/frey"), torch.from_numpy(LEFT_HALF.reshape(1, -1) > 0)
    with torch.no_grad():
        trace = model.trace(qtcore.Query(faces_offline(grain=True)[5:6], seen))
        periods = [int(layer.info["period"][0]) for layer in trace]
    settled = max(layer for layer, period in enumerate(periods) if period != 1) + 1
    assert 3 < settled < 50
    badge = page.locator(".qt.player .badge")
    assert (badge.get_attribute("data-state"), badge.text_content()) == ("converged", f"converged at layer {settled}")


def test_at_first_hidden_pixels_are_hatched(page: "Page", app_url: str) -> None:
    """Layer 0 knows nothing of them; the filmstrip shows it too."""
    open_page(page, app_url, "?layer=0")
    cover = np.array([143, 163, 176], np.uint8)
    covered = (picture(page, "mean") == cover).all(-1)
    assert covered.sum() == 448
    page.get_by_label("One layer on (→)").click()
    assert not (picture(page, "mean") == cover).all(-1).any()
    small = page.locator(".qt.player .strip canvas").first.evaluate(
        "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)"
    )
    assert ((np.array(small).reshape(*FACE, 4)[..., :3] == cover).all(-1) == covered).all()


PLAYED = """() => new Promise((done) => {
    const player = [...document.querySelectorAll("*")].flatMap(function look(e) {
        return e.shadowRoot ? [...e.shadowRoot.querySelectorAll("*")].flatMap(look) : e.matches(".qt.player") ? [e] : []
    })[0]
    const times = []
    let shown = 0
    new MutationObserver(() => {
        const layer = Number(player.dataset.layer)
        if (layer !== shown) times.push([layer, performance.now()])
        shown = layer
        if (layer === 50) done(times)
    }).observe(player, {attributes: true, attributeFilter: ["data-layer"]})
})"""


def test_the_first_layers_are_played_slowly(page: "Page", app_url: str) -> None:
    open_page(page, app_url, "?layer=0")
    assert page.get_by_label("speed").input_value() == "auto"
    page.evaluate(f"void (window.played = ({PLAYED})())")
    page.get_by_label("Play the layers (space)").click()
    layers, times = np.array(page.evaluate("window.played")).T
    assert layers.tolist() == list(range(1, 51))
    steps = np.diff(times)
    assert steps[:2].min() > 300  # at most about three a second
    assert np.median(steps[-20:]) < np.median(steps[:3])


def test_reduced_motion_plays_one_step_at_a_time(own_page: "Page", app_url: str) -> None:
    page = own_page
    page.emulate_media(reduced_motion="reduce")
    open_page(page, app_url, "?layer=3")
    page.get_by_label("Play the layers (space)").click()
    wait_until(page, lambda: page.locator(".qt.player").get_attribute("data-layer") == "4", "one step")
    page.wait_for_timeout(400)  # four steps of a play
    assert page.locator(".qt.player").get_attribute("data-layer") == "4"


def test_why_a_pixel_is_believed_to_be_so(page: "Page", app_url: str) -> None:
    """By pointer and by keyboard; the picture fits into the window."""
    open_page(page, app_url, "?image=dream-5&mask=" + encode_bytes(LEFT_HALF))
    page.get_by_role("button", name="why", exact=True).click()
    why, head = page.locator(".qt.why"), page.locator(".qt.why .head")

    def explained(pixel: str) -> None:
        wait_until(page, lambda: why.get_attribute("data-pixel") == pixel and head.get_attribute("data-busy") == "false", pixel)

    explained("10-5")
    assert 1 <= why.locator("ol li b").count() <= 6
    assert 1 <= why.locator(".units canvas").count() <= 8
    assert "Pixel (row 10, column 5): " in (why.locator(".claim").text_content() or "")
    for width in at_widths(page, 1280, 390):
        box = why.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
    maps = why.locator(".picture")
    box = maps.nth(1).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 3.5 / 20 * box["width"], box["y"] + 12.5 / 28 * box["height"])
    explained("12-3")
    maps.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    explained("12-4")
    wait_until(page, lambda: state(page).pixel == "12-4")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_text("This pixel is seen").wait_for()


def test_a_click_shows_the_marginal_of_a_pixel(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    box = page.locator(".qt.player .picture").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 3.5 / 20 * box["width"], box["y"] + 12.5 / 28 * box["height"])
    page.get_by_role("heading", name="Pixel (12, 3)").wait_for()
    assert "truth" in (page.locator(".qt.player .readout").text_content() or "")
    wait_until(page, lambda: state(page).pixel == "12-3")


def test_the_address_shows_the_same_again(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    page.get_by_label("image 3", exact=True).click()
    wait_until(page, lambda: state(page).image == "dream-2")
    page.get_by_role("button", name="80 %").click()
    wait_until(page, lambda: hidden(page, FACE).sum() == 448)
    page.get_by_role("button", name="untrained").click()
    page.locator(".qt.player canvas[data-run='1']").first.wait_for()
    page.get_by_label("layer", exact=True).fill("7")
    wait_until(page, lambda: state(page).layer == "7" and state(page).compare == "untrained")
    seen = [picture(page, channel, run) for channel in ("mean", "deviation", "difference") for run in (0, 1)]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(".qt.player canvas[data-run='1']").first.wait_for()
    again = [picture(page, channel, run) for channel in ("mean", "deviation", "difference") for run in (0, 1)]
    for a, b in zip(seen, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert page.locator(".qt.player").get_attribute("data-layer") == "7"


def test_touch(contexts: Contexts, app_url: str) -> None:
    page = contexts(has_touch=True).new_page()
    open_page(page, app_url, START)
    set_size(page, 1)
    page.touchscreen.tap(*centre(page, FACE, 8, 8))
    wait_until(page, lambda: hidden(page, FACE).sum() == 1)
    assert hidden(page, FACE)[8, 8]


def png(size: tuple[int, int], noise: bool = False) -> bytes:
    file = io.BytesIO()
    (Image.effect_noise(size, 80) if noise else Image.linear_gradient("L").resize(size)).save(file, "PNG")
    return file.getvalue()


def upload(page: "Page", name: str, data: bytes) -> None:
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "image/png", "buffer": data})


def test_uploads(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    before = picture(page, "mean")
    upload(page, "broken.png", png((300, 300), noise=True)[:5000])
    page.get_by_text("The picture is damaged and cannot be read.").wait_for()
    for _ in range(2):  # the same again is told again
        upload(page, "text.png", b"hello")
        page.get_by_text("This is not a picture").wait_for()
    upload(page, "huge.png", bytes(5 * 2**20))
    page.get_by_text("pictures up to 4 MB are read").wait_for()
    np.testing.assert_array_equal(picture(page, "mean"), before)
    upload(page, "good.png", png((200, 300)))
    wait_until(page, lambda: state(page).image == "upload")
    wait_for_another(page, "mean", before)
    page.get_by_text("The model does not know such pictures").wait_for()
    upload(page, "huge.png", bytes(5 * 2**20))
    page.get_by_text("pictures up to 4 MB are read").wait_for()
    upload(page, "good.png", png((200, 300)))
    page.get_by_text("pictures up to 4 MB are read").wait_for(state="hidden")  # it was once there for good
    address = page.url
    seen = picture(page, "mean")
    page.goto("about:blank")
    page.goto(address)
    page.locator(".qt.player canvas[data-map]").first.wait_for()
    np.testing.assert_array_equal(picture(page, "mean"), seen)
    page.get_by_text("The model does not know such pictures").wait_for()
    page.get_by_label("image 4", exact=True).click()
    page.get_by_role("alert").wait_for(state="hidden")


def test_a_large_photograph_is_scaled_down_before_it_is_sent(page: "Page", app_url: str) -> None:
    open_page(page, app_url)
    grey = np.asarray(Image.linear_gradient("L").resize((2400, 3000)), float)
    grey = (grey + np.random.default_rng(0).normal(0, 8, grey.shape)).clip(0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(grey).save(file, "PNG", compress_level=1)
    assert len(file.getvalue()) > MAX_BYTES
    upload(page, "photo.png", file.getvalue())
    wait_until(page, lambda: state(page).image == "upload")
    sent = decode_bytes(state(page).pixels, FACE)
    assert sent is not None
    assert (np.diff(sent[5:].mean(1)) > 0).all()  # dark above, light below, but for what no face has
    assert page.get_by_text("are read").count() == 0


@pytest.mark.parametrize("kind", ["image", "gif"])
def test_export(page: "Page", app_url: str, kind: str) -> None:
    open_page(page, app_url, "?layer=7")
    with page.expect_download() as download:
        page.locator(f".qt.player .controls button[data-name={kind}]").click()
    assert download.value.suggested_filename == {"image": "layer-7.png", "gif": "layers.gif"}[kind]
    with Image.open(download.value.path()) as image:
        assert image.format == {"image": "PNG", "gif": "GIF"}[kind]
        assert image.size > (4 * 20 * 8, 28 * 8)  # the input, three maps, and more
        if kind == "gif":
            assert image.n_frames == 51  # type: ignore[attr-defined]  # each says which layer it is
