"""Joint answers, asked for as a person would: samples of a face, and the next question about a record."""

from typing import TYPE_CHECKING

import numpy as np
from qtcore_app.state import encode_bytes

from .helpers import FACE, at_widths, drag, open_page, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page


def pictures(page: "Page") -> np.ndarray:
    data = page.locator(".qt.completions canvas").evaluate_all(
        "all => all.map((c) => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data))"
    )
    return np.array(data, np.uint8).reshape(8, *FACE, 4)


def status(page: "Page", said: str) -> None:
    wait_until(page, lambda: said in (page.locator(".head:visible .status").text_content() or ""), said)


def test_six_faces_and_the_next_question(page: "Page", app_url: str) -> None:
    left_half = np.full(FACE, 255, np.uint8)
    left_half[:, :10] = 0
    open_page(page, app_url, f"?image=dream-0&mask={encode_bytes(left_half)}")
    button = page.get_by_role("button", name="six samples", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    status(page, "Done")
    smooth = pictures(page)
    assert (smooth[..., 3] == 255).all()
    assert len({picture.tobytes() for picture in smooth}) == 8
    assert (smooth[:, :, 10:] == smooth[0, :, 10:]).all()  # the right half is seen
    for name in ("Mean", "Most probable", "Sample 6"):
        assert page.get_by_role("img", name=name).is_visible()
    for _ in at_widths(page, 1280, height=720):
        box = page.locator(".qt.completions").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 1280
        assert box["y"] + box["height"] <= 720
    page.get_by_role("button", name="with grain", exact=True).click()
    assert (pictures(page)[1] != smooth[1]).any()
    drag(page, FACE, (3, 12), (3, 17))
    status(page, "belong to the one before")
    page.get_by_role("button", name="New samples", exact=True).click()
    status(page, "Done")

    open_page(page, app_url, "?page=digits&model=rbm/adult", shown=".qt.record .line")
    page.get_by_role("button", name="ask next", exact=True).click()
    status(page, "Done")
    best = page.locator(".record .line.best")
    bits = [float(text) for text in page.locator(".record .line .number").all_text_contents() if text]
    assert float(best.locator(".number").text_content() or 0) == max(bits) > 0
    assert "bits" in (best.locator(".role").get_attribute("aria-label") or "")
    assert "Ask next: " in (page.locator(".record .readout").text_content() or "")
