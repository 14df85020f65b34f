"""Reasons on the pages: what is shown is what the library says, and what keeps it from being asked is said."""

import numpy as np
import pytest
import torch
from qtcore_app.components.record import KNOWN, TARGET, UNKNOWN
from qtcore_app.pages import records
from qtcore_app.pages.contours import DEPTH, FAR, REACH, ContoursPage
from qtcore_app.pages.digits import DigitsPage
from qtcore_app.pages.faces import FacesPage
from qtcore_app.pages.picture import NOTHING, SEEN
from qtcore_app.pages.pixels import PixelsPage
from qtcore_app.pages.records import RecordPage
from qtcore_app.reasons import atlas, filter_of, mosaic, tinted
from qtcore_app.samples import samples
from qtcore_app.sheets import COVER
from qtcore_app.shell import Shell

import qtcore
from qtcore.inference.why import arriving, leave_one_out

WHY = 2


def shell(query: str = "") -> Shell:
    made = Shell("?page=results")
    made.states["digits"] = type(made.state).from_query(query or "?page=digits")
    return made


def maps(page: PixelsPage | FacesPage | ContoursPage) -> np.ndarray:
    return np.frombuffer(page.why.pictures, np.uint8).reshape(2, *page.painter.shape, 3)


def test_a_pixel_of_a_digit() -> None:
    page = PixelsPage(shell("?page=digits&image=&pixel=4-2"), samples("digits"), "rbm/digits")
    page.show_row.clicks = [WHY, 1]
    assert page.why.visible
    assert not page.player.visible
    query = qtcore.Query(page.values[None], torch.from_numpy(page.painter.weights.reshape(1, -1) > 0))
    model = qtcore.load("rbm/digits").requires_grad_(False)
    left, heard = leave_one_out(model, query, 4 * 8 + 2), arriving(model, query, 4 * 8 + 2)
    facts = page.why.facts
    assert facts["pixel"] == [4, 2]
    assert facts["claim"] == f"p = {float(model(query).probs[0, 34]):.2f}"  # type: ignore[attr-defined]
    first = int(left.bits.argmax())
    assert facts["evidence"][0]["place"] == list(divmod(int(left.pieces[first].int().argmax()), 8))
    assert float(facts["evidence"][0]["moved"]) == pytest.approx(float(left.moved[first]), rel=0.06)
    assert facts["messages"][0]["name"] == f"unit {int(heard.bits.argmax()) + 1}"
    assert (facts["units"], facts["layers"]) == (50, 11)
    assert len(page.why.activity) == 50 * 11
    picture = maps(page)[1]
    assert (picture[:, :4] == COVER).all()  # the hidden half
    farthest = np.unravel_index(np.abs(picture.astype(int) - 247).sum(-1)[:, 4:].argmax(), (8, 4))
    assert [int(farthest[0]), int(farthest[1]) + 4] == facts["evidence"][0]["place"]


def test_another_pixel_another_question_and_one_that_is_seen() -> None:
    page = PixelsPage(shell(), samples("digits"), "rbm/digits")
    page.show_row.clicks = [WHY, 1]
    before = page.why.facts
    page.why.pixel = [2, 3]
    page.why.asks += 1
    assert page.player.pixel == [2, 3]
    assert page.why.facts["pixel"] == [2, 3] != before["pixel"]
    page.preset_row.clicks = [list(page.presets).index("top half"), 1]
    assert not page.why.stale  # it was asked again
    assert maps(page)[1][0].tolist() == [list(COVER)] * 8
    page.why.pixel = [7, 7]
    page.why.asks += 1
    assert (page.why.status, page.why.stale) == (SEEN, True)
    page.why.pixel = [0, 0]
    page.preset_row.clicks = [list(page.presets).index("everything"), 1]
    assert page.why.status == NOTHING
    page.why.pixel = [0, 99]  # from a client that is not ours
    page.why.asks += 1
    assert page.why.status == SEEN
    assert page.player.pixel == [0, 0]


def test_a_pixel_of_a_face_in_grey_levels() -> None:
    page = FacesPage(shell())
    page.show_row.clicks = [WHY, 1]
    place = 10 * 20 + 5
    query = qtcore.Query(page.values[None], page.weights[None])
    left = leave_one_out(page.model, query, place)
    first = int(left.bits.argmax())
    statistics = page.model.statistics
    factor = float((statistics["deviation"] * statistics["maximum"]).flatten().expand(560)[place])
    assert float(page.why.facts["evidence"][0]["moved"]) == pytest.approx(float(left.moved[first]) * factor, rel=0.06)
    assert len(page.why.filters) == len(page.why.facts["messages"]) * 3 * 560
    before = page.why.facts
    page.show_row.clicks = [0, 2]
    assert page.player.visible
    page.preset_row.clicks = [1, 1]
    assert page.why.facts == before  # nobody looks at it


def test_a_label_near_a_contour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qtcore_app.pages.contours.DEPTH", 3)
    page = ContoursPage(shell())
    page.why.pixel = [1, 15]
    reach = 2 * REACH + 1
    assert len(page._near()) == (REACH + 2) * reach
    page.why.visible = True
    page.why.asks += 1
    left = page.why.facts["evidence"]
    assert left
    assert all(abs(each["place"][0] - 1) <= REACH and abs(each["place"][1] - 15) <= REACH for each in left)
    assert {each["name"].split(" ", 1)[1] for each in page.why.facts["messages"]} <= {
        *("above", "below", "left", "right"),
        *("above left", "above right", "below left", "below right"),
    }
    assert page.why.filters == b""
    page.painter.weights = np.zeros((30, 30), np.uint8)
    page.why.asks += 1
    assert page.why.status == FAR
    assert DEPTH == 30


def test_what_was_learned_in_one_picture() -> None:
    rbm, grid = qtcore.load("rbm/digits"), qtcore.load("grid/border")
    assert atlas(rbm, (8, 8)).shape == (5 * 9 - 1, 10 * 9 - 1, 3)
    first = filter_of(rbm, 0, (8, 8))
    assert (atlas(rbm, (8, 8))[:8, :8] == first).all()
    strongest = int(rbm.graph().W[0].abs().argmax())  # type: ignore[attr-defined, operator]
    assert first.reshape(-1, 3)[strongest].sum() < 300  # at an end of the scale, both of which are dark
    assert atlas(grid, (30, 30)).shape == (66, 4 * 67 - 1, 3)
    assert (tinted(torch.zeros(2), 1.0) >= 245).all()
    assert mosaic([np.zeros((2, 3, 3), np.uint8)] * 3, 2).shape == (5, 7, 3)


def test_a_variable_of_a_record() -> None:
    """A known group is left out as a whole, and all of its options say what it did."""
    page = DigitsPage(shell("?page=digits&model=rbm/adult")).pages["adult"]
    assert isinstance(page, RecordPage)
    roles = np.full(123, UNKNOWN, np.uint8)
    names, groups = page.record.names, {title: (start, stop) for title, start, stop in page.record.groups}
    for title in ("age", "marital-status", "sex"):
        roles[slice(*groups[title])] = KNOWN
    wife = groups["relationship"][0]
    assert names[wife] == "Wife"
    roles[wife] = TARGET
    page.record.give(roles)
    page.record.variable = wife
    page.show_row.clicks = [list(records.SHOWN).index("why"), 1]
    moved = np.frombuffer(page.record.moved, "<f4")
    assert (~np.isnan(moved)).sum() == sum(groups[title][1] - groups[title][0] for title in ("age", "marital-status", "sex"))
    start, stop = groups["marital-status"]
    query = qtcore.Query(page.values[None], torch.from_numpy(roles == KNOWN)[None])
    expected = leave_one_out(qtcore.load("rbm/adult"), query, wife, [list(range(start, stop))]).moved
    assert moved[start:stop] == pytest.approx(float(expected[0]), abs=1e-5)
    assert all(": " in each["text"] for each in page.record.units)
    page.record.variable = groups["race"][0]  # another one is explained at once
    assert not np.array_equal(np.frombuffer(page.record.moved, "<f4"), moved, equal_nan=True)
    page.record.variable = groups["sex"][0]
    assert page.record.status == records.CHOOSE
    page.record.give(np.full(123, UNKNOWN, np.uint8))
    page.record.variable = wife
    assert page.record.status == records.NOTHING
