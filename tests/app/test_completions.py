"""Joint answers on the pages: what is drawn, in the background, and what is said where nothing can be."""

import asyncio
import struct
import threading

import numpy as np
import pytest
import torch
from qtcore_app import colours, engine
from qtcore_app.completions import CHANGED, Joint, N, draw, in_colour, in_grey
from qtcore_app.components.record import KNOWN, TARGET, UNKNOWN
from qtcore_app.pages import contours
from qtcore_app.pages.contours import ContoursPage
from qtcore_app.pages.digits import DigitsPage
from qtcore_app.pages.faces import FacesPage, to_grey
from qtcore_app.pages.picture import HIDE
from qtcore_app.pages.records import ASK, KNOW, RecordPage
from qtcore_app.sheets import COVER
from qtcore_app.shell import Shell

import qtcore
from qtcore import Query
from qtcore.inference.questions import next_question
from qtcore.inference.sampling import smoothed

from ..joint import query_of, tree
from ..strategies import rng


def shown(pictures: bytes, height: int, width: int) -> np.ndarray:
    """[looks, 8, h, w, 3]: marginals, three samples, the most probable completion, three samples."""
    return np.frombuffer(pictures, np.uint8).reshape(-1, N + 2, height, width, 3)


def test_what_is_drawn_is_what_the_library_draws() -> None:
    model = tree("RBM")
    query = query_of(model)
    shares = []
    for drawn in draw(Joint(model, query), 7):
        shares.append(drawn.share)
        assert drawn.samples[:, 0].eq(1).all()  # the evidence
        assert len(shares) > 1 or drawn.samples.isnan().sum() == 2 * N
    torch.testing.assert_close(torch.tensor(shares), torch.arange(1, 7) / 6)  # three unknowns: of the samples, of the best
    assert torch.equal(drawn.samples, model.sample(query, N, generator=rng(7))[:, 0])
    assert torch.equal(drawn.best, model.most_probable(query))
    assert drawn.smooth is None


def test_grain_is_taken_away_where_pixels_were_hidden() -> None:
    model = qtcore.GaussianRBM(12, 3, n_layers=2)
    model.image_shape = (3, 4)
    hidden = torch.arange(12) % 4 < 3  # a whole patch
    query = Query(torch.zeros(1, 12), ~hidden[None])
    *_, drawn = draw(Joint(model, query, (3, 3), smooth=True), 0)
    assert drawn.share == 1
    assert drawn.smooth is not None
    assert drawn.smooth[:, ~hidden].eq(0).all()
    expected = smoothed(model, drawn.samples, (3, 3))
    torch.testing.assert_close(drawn.smooth[:, hidden], expected[:, hidden])


def test_what_has_no_value_yet_is_covered() -> None:
    levels = torch.tensor([[[float("nan"), 300.0, 7.4]]])
    assert in_grey(levels).tolist() == [[[list(COVER), [255] * 3, [7] * 3]]]
    labels = torch.tensor([[[0.0, 1.0, 2.0, float("nan")]]])
    assert in_colour(labels).tolist() == [[[*map(list, (colours.CONTOUR, colours.OUT, colours.IN, COVER))]]]
    assert in_colour(torch.eye(3)[None, None]).tolist() == [[[*map(list, (colours.CONTOUR, colours.OUT, colours.IN))]]]


def test_strokes_do_not_wait_for_samples_and_a_new_question_stops_them() -> None:
    """The background is held up for as long as the stroke takes, and for ever if the stroke waited for it."""
    model = tree("RBM", scale=2.0)
    held, computed = threading.Event(), []

    def steps():  # type: ignore[no-untyped-def]
        for step in range(10**6):
            assert held.wait(60)
            computed.append((step, threading.current_thread().name, torch.is_inference_mode_enabled()))
            yield step

    async def main() -> None:
        async def job() -> None:
            async for _ in engine.one_by_one(steps()):
                pass

        latest = engine.Latest()
        latest.submit(job)
        await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(engine.pool, lambda: model(query_of(model)).probs)
        assert answer.shape == (1, 4)
        assert not computed
        held.set()
        while len(computed) < 3:
            await asyncio.sleep(0.001)
        latest.cancel()
        await asyncio.sleep(0.01)
        count = len(computed)
        await asyncio.sleep(0.05)
        assert len(computed) <= count + 1  # one was under way

    asyncio.run(main())
    assert [step for step, _, _ in computed] == list(range(len(computed)))
    assert all(name.startswith("qtcore-background") and inference for _, name, inference in computed)


# ---------------------------------------------------------------------- pages


def test_six_faces() -> None:
    page = FacesPage(Shell("?image=dream-3"))
    assert not page.completions.visible
    page.show_row.clicks = [1, 1]
    assert (page.player.visible, page.completions.visible) == (False, True)
    assert (page.completions.status, page.completions.pictures) == (HIDE, b"")
    weights = np.full((28, 20), 255, np.uint8)
    weights[10:16, 4:12] = 0
    page.painter.packet = struct.pack("<I", 1) + weights.tobytes()
    page.completions.asks += 1
    assert page.completions.status.startswith("Done")
    smooth, grain = shown(page.completions.pictures, 28, 20)
    known, face = weights > 0, to_grey(page.values, page.model)
    for picture in (*smooth, *grain):
        assert np.abs(picture[..., 0].astype(int) - face)[known].max() <= 1
    samples = [1, 2, 3, 5, 6, 7]
    assert (smooth[[0, 4]] == grain[[0, 4]]).all()  # the mean and the most probable face have no grain
    away = [np.abs(look[samples].astype(int) - look[0])[:, ~known].mean() for look in (smooth, grain)]  # from the mean
    assert 0 < away[0] < 0.5 * away[1]
    before = page.completions.pictures
    page.completions.asks += 1
    assert page.completions.pictures != before
    page.painter.packet = struct.pack("<I", 2) + weights.tobytes()
    assert (page.completions.stale, page.completions.status) == (True, CHANGED)
    page.show_row.clicks = [0, 2]
    assert (page.player.visible, page.completions.visible) == (True, False)
    page.show_row.clicks = [1, 3]
    assert not page.completions.stale  # drawn again


def test_six_digits() -> None:
    (page,) = DigitsPage(Shell("?page=digits")).pages.values()
    page.show_row.clicks = [1, 1]
    (pictures,) = shown(page.completions.pictures, 8, 8)  # type: ignore[union-attr]
    hidden = page.painter.weights == 0  # type: ignore[union-attr]
    assert set(pictures[1:, hidden].flatten().tolist()) == {0, 255}
    assert (pictures[1:, ~hidden, 0] == page.samples.pictures()[page.number][~hidden]).all()  # grey: soft evidence


def test_six_labellings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contours, "BLOCK", 450)
    page = ContoursPage(Shell("?page=contours"))
    page.show_row.clicks = [1, 1]  # though nothing is hidden
    assert page.completions.status.startswith("Done")
    (pictures,) = shown(page.completions.pictures, 30, 30)
    assert set(map(tuple, pictures[1:].reshape(-1, 3).tolist())) == {colours.CONTOUR, colours.OUT, colours.IN}


def record_page(query: str = "") -> RecordPage:
    (page,) = DigitsPage(Shell(f"?page=digits&model=rbm/mushrooms{query}")).pages.values()
    assert isinstance(page, RecordPage)
    return page


def test_six_records() -> None:
    page = record_page()
    page.show_row.clicks = [1, 1]
    samples = np.frombuffer(page.record.samples, np.uint8).reshape(N + 1, 112)
    known = page.record.roles == KNOWN
    assert set(samples.flatten().tolist()) == {0, 1}
    assert (samples[:, known] == page.samples.values[page.number].numpy()[known]).all()
    query = Query(page.samples.values[page.number][None], torch.from_numpy(known)[None])
    best = qtcore.load("rbm/mushrooms-cardinality").most_probable(query)[0]
    assert torch.equal(torch.tensor(samples[-1]), best.to(torch.uint8))


def test_the_next_question() -> None:
    page = record_page()
    page.show_row.clicks = [2, 1]
    bits = np.frombuffer(page.record.bits, "<f4")
    roles = torch.tensor(page.record.roles)
    assert (~np.isnan(bits) == (roles == TARGET).numpy()).all()  # there is nothing else to ask about
    roles = torch.where(torch.arange(112) < 100, UNKNOWN, KNOWN).to(torch.uint8)
    roles[60] = TARGET
    page.record.packet = struct.pack("<I", 1) + bytes(roles.tolist())
    assert page.record.stale
    page.record.asks += 1
    bits = np.frombuffer(page.record.bits, "<f4")
    query = Query(page.samples.values[page.number][None], (roles == KNOWN)[None])
    expected = next_question(qtcore.load("rbm/mushrooms-cardinality"), query, about=[60]).bits[0]
    np.testing.assert_allclose(bits, expected.numpy(), atol=1e-6)
    assert (~np.isnan(bits) == (roles == UNKNOWN).numpy()).all()


def test_what_keeps_a_joint_question_from_being_asked_is_said() -> None:
    page = record_page()
    page.record.packet = struct.pack("<I", 1) + bytes([KNOWN] * 112)
    for number, said in ((1, KNOW), (2, ASK)):
        page.show_row.clicks = [number, number]
        assert (page.record.status, page.record.stale) == (said, True)


def test_answers_are_kept_until_the_question_changes() -> None:
    page = record_page()
    for click, number in enumerate((1, 2, 0, 1, 2)):
        page.show_row.clicks = [number, click + 1]
    assert page.joint.count == 2
    page.record.packet = struct.pack("<I", 1) + bytes([UNKNOWN] * 111 + [TARGET])
    page.show_row.clicks = [1, 9]
    assert page.joint.count == 3
