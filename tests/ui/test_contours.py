"""The page Contours, used as a person would."""

import io
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw
from qtcore_app.drawings import galleries
from qtcore_app.pages.contours import OPENS_WITH
from qtcore_app.state import decode_bytes

from .helpers import GRID, drag, hidden, open_page, picture, seq, state, tool, wait_for_another, wait_for_result, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE = "?page=contours"


def drawing(page: "Page") -> np.ndarray:
    """What the server knows to be drawn, from the address."""
    result = decode_bytes(state(page).pixels, GRID)
    return np.zeros(GRID, bool) if result is None else result > 0


def test_opens_with_a_result(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    assert picture(page, "contour").shape == (*GRID, 3)
    assert page.locator(".qt.player").get_attribute("data-layer") == "30"
    for title in ("Segmentation", "Entropy", "Most probable clone", "IoU"):
        assert page.get_by_text(title).first.is_visible()
    for label in ("CONTOUR", "IN", "OUT"):
        assert page.locator(".legend").get_by_text(label, exact=True).is_visible()


def test_the_iou_rises_and_stays(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    heading = page.locator(".qt.player .chart h3", has_text="IoU")
    page.locator(".qt.player .film [data-layer='30']:not([disabled])").wait_for()  # all layers are there
    iou = {}
    for layer in (1, 5, 10, 15, 20, 25, 30):
        page.get_by_label("layer", exact=True).fill(str(layer))
        wait_until(page, lambda layer=layer: page.locator(".qt.player").get_attribute("data-layer") == str(layer))
        iou[layer] = float(heading.inner_text().split("·")[1])
    assert iou[5] < iou[10] < 1.001
    assert iou[1] < 0.6
    assert min(iou[layer] for layer in (15, 20, 25, 30)) > 0.85
    assert iou[30] > max(iou.values()) - 0.02  # nothing that was won is lost
    page.get_by_role("button", name="trained at 15 layers").click()
    page.locator(".qt.player canvas[data-run='1']").first.wait_for()
    numbers = page.locator(".qt.player .chart", has_text="IoU").locator(".names b")
    both = lambda: [float(text) for text in numbers.all_inner_texts()]  # noqa: E731
    page.get_by_label("layer", exact=True).fill("15")
    wait_until(page, lambda: both()[1] > 0.9, "the other one to be right at 15 layers")
    page.get_by_label("layer", exact=True).fill("20")
    wait_until(page, lambda: both()[0] > 0.85 and both()[1] < 0.5, "it to be wrong at 20, and this one not")


WATCH = """(root) => {
  const canvas = root.querySelector("canvas[data-map]"), context = canvas.getContext("2d")
  const look = () => context.getImageData(0, 0, canvas.width, canvas.height).data
  let before = look()
  window.flashes = []
  new MutationObserver(() => {
    const now = look()
    let much = 0
    for (let i = 0; i < now.length; i += 4) much += [0, 1, 2].some((k) => Math.abs(now[i + k] - before[i + k]) > 60)
    if (much > now.length / 16) window.flashes.push(performance.now())
    before = now
  }).observe(root, {attributes: true})
}"""


def test_nothing_flashes(page: "Page", app_url: str) -> None:
    """Pictures that differ clearly in a quarter of their area are a third of a second apart, however fast the play, and also
    while layers arrive (WCAG 2.3.1)."""
    open_page(page, app_url, PAGE)
    player = page.locator(".qt.player")
    page.locator(".qt.player .film [data-layer='30']:not([disabled])").wait_for()
    page.get_by_label("Back to layer 0 (Home)").click()
    player.evaluate(WATCH)
    page.get_by_label("speed").select_option("40")
    page.get_by_label("Play the layers (space)").click()
    wait_until(page, lambda: player.get_attribute("data-layer") == "30", "the end of the play")
    played = page.evaluate("window.flashes.length")
    for name in ("empty canvas", "glyphs", "empty canvas", "glyphs"):
        before = picture(page, "contour")
        page.get_by_role("button", name=name, exact=True).click()
        wait_for_another(page, "contour", before)
    times = page.evaluate("window.flashes")
    assert played >= 2  # the first layers are quite different from each other
    assert len(times) >= played + 2
    assert min(np.diff(times)) > 300


def test_drawing_freely(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    page.get_by_role("button", name="empty canvas", exact=True).click()
    wait_until(page, lambda: state(page).image == "drawing" and not drawing(page).any())
    before = picture(page, "contour")
    drag(page, GRID, (8, 8), (8, 20), (20, 20), (20, 8), (8, 8), steps=4)
    wait_for_result(page, 0)
    expected = np.zeros(GRID, bool)
    expected[8, 8:21] = expected[20, 8:21] = expected[8:21, 8] = expected[8:21, 20] = True
    wait_until(page, lambda: (drawing(page) == expected).all(), "the square that was drawn")
    assert (picture(page, "contour") != before).any()
    page.get_by_text("The truth of a drawing is not known.").first.wait_for()
    drag(page, GRID, (8, 12), button="right")
    expected[8, 12] = False
    wait_until(page, lambda: (drawing(page) == expected).all(), "a pixel that was rubbed out")
    page.locator(".qt.painter .stage").press("Control+z")
    expected[8, 12] = True
    wait_until(page, lambda: (drawing(page) == expected).all(), "the pixel to come back")


def test_undo_brings_the_digit_back(page: "Page", app_url: str) -> None:
    """A canvas that is as the noise made it has its truth again, also that of the digit before."""
    open_page(page, app_url, PAGE)
    digit, noise = state(page).image or f"glyph-{OPENS_WITH}", state(page).noise
    drag(page, GRID, (3, 3), (3, 6))
    page.get_by_text("The truth of a drawing is not known.").first.wait_for()
    page.keyboard.press("Control+z")
    wait_until(page, lambda: state(page).image == digit, "the digit")
    wait_until(page, lambda: page.get_by_text("The truth of a drawing is not known.").count() == 0, "the truth")
    page.get_by_label("image 3", exact=True).click()
    wait_until(page, lambda: state(page).image == "glyph-2")
    page.get_by_role("button", name="new noise").click()
    wait_until(page, lambda: state(page).noise not in ("", noise))
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    wait_until(page, lambda: state(page).image == digit, "the first digit")
    assert page.locator(".qt.gallery button[aria-pressed=true]").get_attribute("aria-label") == "image 6"


def test_hidden_pixels_and_undo(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    before = picture(page, "contour")
    tool(page, "rectangle")
    drag(page, GRID, (10, 10), (19, 19))
    wait_for_result(page, 0)
    expected = np.zeros(GRID, bool)
    expected[10:20, 10:20] = True
    wait_until(page, lambda: (hidden(page, GRID) == expected).all())
    assert state(page).image.startswith("glyph")  # the digit is still known, and with it the truth
    assert (picture(page, "contour") != before).any()
    number = seq(page)
    tool(page, "undo")
    wait_for_result(page, number)
    np.testing.assert_array_equal(picture(page, "contour"), before)


def test_presets_and_noise(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    page.get_by_role("button", name="left half").click()
    wait_until(page, lambda: hidden(page, GRID).sum() == 450)
    page.get_by_role("button", name="nothing", exact=True).click()
    wait_until(page, lambda: not hidden(page, GRID).any())
    canvas = "c => Array.from(c.getContext('2d').getImageData(0, 0, 30, 30).data).filter((v, i) => i % 4 === 0)"
    painted = page.locator(".qt.painter .stage canvas").first
    before = painted.evaluate(canvas)
    page.get_by_role("button", name="new noise").click()
    wait_until(page, lambda: state(page).noise == "0.2-8-1")
    wait_until(page, lambda: painted.evaluate(canvas) != before)
    page.get_by_label("missing").fill("0")
    wait_until(page, lambda: state(page).noise == "0-8-1")
    page.get_by_label("strokes").fill("0")
    wait_until(page, lambda: state(page).noise == "0-0-1")
    (glyphs,) = (each for each in galleries() if each.key == "glyph")
    contour = glyphs.labels[OPENS_WITH].numpy() == 0
    assert contour.sum() > 30
    wait_until(page, lambda: ((np.array(painted.evaluate(canvas)).reshape(GRID) == 0) == contour).all(), "a whole contour")


def test_noise_goes_on_a_drawing(page: "Page", app_url: str) -> None:
    """The drawing is the truth of its noisy picture, and undo brings it back."""
    open_page(page, app_url, PAGE)
    page.get_by_role("button", name="empty canvas", exact=True).click()
    wait_until(page, lambda: state(page).image == "drawing" and not drawing(page).any())
    assert page.get_by_role("button", name="glyphs", exact=True).get_attribute("aria-pressed") == "false"
    drag(page, GRID, (8, 8), (8, 20), (20, 20), (20, 8), (8, 8), steps=4)
    square = np.zeros(GRID, bool)
    square[8, 8:21] = square[20, 8:21] = square[8:21, 8] = square[8:21, 20] = True
    wait_until(page, lambda: (drawing(page) == square).all())
    page.get_by_label("missing").fill("40")
    wait_until(page, lambda: state(page).noise == "0.4-8-0", "noise on the drawing")
    assert state(page).image == "drawing"
    assert (drawing(page) == square).all()  # the address keeps the drawing, and the noise beside it
    wait_until(page, lambda: page.get_by_text("The truth of a drawing is not known.").count() == 0, "its truth")
    painted = page.locator(".qt.painter .stage canvas").first
    red = "Array.from(c.getContext('2d').getImageData(0, 0, 30, 30).data).filter((v, i) => i % 4 === 0)"
    dark = f"c => {red}.map((v) => v === 0)"
    shown = np.array(painted.evaluate(dark)).reshape(GRID)
    assert 15 < (shown & square).sum() < 43
    assert (shown & ~square).sum() == 24
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(".qt.player canvas[data-map]").first.wait_for()
    np.testing.assert_array_equal(np.array(painted.evaluate(dark)).reshape(GRID), shown)
    assert page.get_by_text("The truth of a drawing is not known.").count() == 0


def test_gallery_slider_pixel_and_address(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    before = picture(page, "contour")
    page.get_by_label("image 9", exact=True).click()
    wait_until(page, lambda: state(page).image == "glyph-8")
    wait_for_another(page, "contour", before)
    page.get_by_label("layer", exact=True).fill("4")
    page.locator(".qt.player .picture").first.click(position={"x": 20, "y": 20})
    wait_until(page, lambda: state(page).layer == "4" and state(page).pixel != "")
    seen = [picture(page, channel) for channel in ("contour", "entropy", "clone")]
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(".qt.player canvas[data-map]").first.wait_for()
    for channel, old in zip(("contour", "entropy", "clone"), seen, strict=True):
        np.testing.assert_array_equal(picture(page, channel), old)


def test_a_drawing_survives_in_the_address(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    drag(page, GRID, (3, 3), (3, 9))
    wait_for_result(page, 0)
    wait_until(page, lambda: state(page).image == "drawing")
    seen, address = picture(page, "contour"), page.url
    page.goto("about:blank")
    page.goto(address)
    page.locator(".qt.player canvas[data-map]").first.wait_for()
    np.testing.assert_array_equal(picture(page, "contour"), seen)


def test_upload(page: "Page", app_url: str) -> None:
    open_page(page, app_url, PAGE)
    image, file = Image.new("L", (300, 300), 255), io.BytesIO()
    ImageDraw.Draw(image).ellipse((60, 60, 240, 240), outline=0, width=4)
    image.save(file, "PNG")
    page.locator("input[type=file]").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": file.getvalue()})
    wait_until(page, lambda: drawing(page).sum() > 30)
    page.locator("input[type=file]").set_input_files({"name": "b.png", "mimeType": "image/png", "buffer": b"no"})
    page.get_by_text("This is not a picture").wait_for()
