"""What is saved shows what the user saw: the input, the maps, what they are, and the layer."""

import io

import numpy as np
import pytest
from PIL import Image
from qtcore_app import sheets
from qtcore_app.pages.contours import ContoursPage
from qtcore_app.pages.faces import FacesPage
from qtcore_app.sheets import GAP, LEGEND, TITLE, TOP, Sheet, hatched
from qtcore_app.shell import Shell


def sheet_of(page: FacesPage | ContoursPage) -> Sheet:
    painter, player = page.painter, page.player
    return Sheet(player.frames, player.views, painter.shown, painter.weights, painter.title)


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def blank(area: np.ndarray) -> bool:
    return area.size > 0 and bool((area == 255).all())


@pytest.mark.parametrize("query", ["", "?compare=untrained", "?page=contours", "?page=contours&compare=layers-5"])
def test_a_png_has_the_input_titles_legends_and_the_layer(query: str) -> None:
    page = (ContoursPage if "contours" in query else FacesPage)(Shell(query))
    sheet = sheet_of(page)
    image = pixels(sheet.png(3))
    right = [x - 1 for x in sheet.left[1:]]
    assert image.shape[:2] == (GAP + TOP + len(sheet.runs) * sheet.row, sheet.left[-1])
    assert not blank(image[GAP : GAP + TOP])  # which layer
    assert (pixels(sheet.png(4))[GAP : GAP + TOP] != image[GAP : GAP + TOP]).any()
    for row in range(len(sheet.runs)):
        top = sheet._top(row)
        for column, (a, b) in enumerate(zip(sheet.left, right, strict=False)):
            parts = (
                image[top - TITLE : top - 1, a:b],
                image[top : top + sheet.height, a:b],
                image[top + sheet.height + 1 :][:LEGEND, a:b],
            )
            empty = [True] * 3 if column == 0 and row else [False] * 3
            empty[2] = column == 0 and (row > 0 or not (page.painter.weights < 255).any())
            assert [blank(part) for part in parts] == empty, (row, column)
    top, seen = sheet._top(0), hatched(page.painter.shown, page.painter.weights, sheet.zoom)
    np.testing.assert_array_equal(image[top : top + sheet.height, GAP : GAP + sheet.width], seen)


def test_each_row_of_a_comparison_names_its_run() -> None:
    sheet = sheet_of(FacesPage(Shell("?compare=untrained")))
    image = pixels(sheet.png(50))
    titles = [image[sheet._top(row) - TITLE : sheet._top(row), sheet.left[1] : sheet.left[2]] for row in (0, 1)]
    assert (titles[0] != titles[1]).any()


def test_hidden_pixels_are_hatched_and_the_others_are_as_they_are() -> None:
    grey = np.full((2, 2), 200, np.uint8)
    shown = hatched(grey, np.array([[255, 0], [127, 255]], np.uint8), 12).reshape(2, 12, 2, 12, 3).swapaxes(1, 2)
    assert (shown[0, 0] == 200).all()
    for place, lightest in (((0, 1), sheets.COVER), ((1, 0), (171, 181, 188))):  # half hidden: half covered
        colours = {tuple(colour) for colour in shown[place].reshape(-1, 3).tolist()}
        assert colours == {sheets.HATCH, lightest}


def test_layer_0_knows_nothing_of_hidden_pixels() -> None:
    page = FacesPage(Shell("?page=faces"))
    sheet = sheet_of(page)
    area = slice(sheet._top(0), sheet._top(0) + sheet.height), slice(sheet.left[1], sheet.left[1] + sheet.width)
    first, second = ((pixels(sheet.png(layer))[area] == sheets.HATCH).all(-1) for layer in (0, 1))
    hidden = (page.painter.weights == 0).repeat(sheet.zoom, 0).repeat(sheet.zoom, 1)
    assert first[hidden].any()
    assert not first[~hidden].any()
    assert not second.any()


def test_a_gif_is_slow_enough_to_be_looked_at() -> None:
    sheet = sheet_of(FacesPage(Shell("?compare=layers-5")))
    with Image.open(io.BytesIO(sheet.gif())) as image:
        assert image.size == sheet.ground.size
        assert image.n_frames == 51  # type: ignore[attr-defined]
        for number in range(51):
            image.seek(number)
            assert image.info["duration"] >= 1000 / 3
        last = np.asarray(image.convert("RGB")).astype(int)
    assert np.abs(last - pixels(sheet.png(50))).max() < 16  # but for the palette
