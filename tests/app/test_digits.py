"""Digits & tables: what is offered, and pages that an address describes."""

import io
import struct

import numpy as np
import pytest
import torch
from PIL import Image
from qtcore_app import engine, samples
from qtcore_app.components.record import KNOWN, TARGET, UNKNOWN
from qtcore_app.frames import unpack
from qtcore_app.pages import pixels
from qtcore_app.pages.digits import DigitsPage
from qtcore_app.pages.pixels import OPENS_WITH, PixelsPage
from qtcore_app.pages.records import RecordPage
from qtcore_app.shell import Shell
from qtcore_app.state import decode_bytes, encode_bytes

import qtcore
from qtcore.data import originals, variable_names
from qtcore.errors import ModelFileError


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("QTCORE_DATA", raising=False)
    monkeypatch.setattr(originals, "cache_folder", lambda: tmp_path)
    samples.samples.cache_clear()


def shown(page: DigitsPage, dataset: str) -> PixelsPage | RecordPage:
    assert len(page.column) == 1
    return page.pages[dataset]


def test_new_models_are_offered_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qtcore, "available", lambda: ["rbm/adult", "grbm/frey", "rbm-pcd/dna"])
    assert samples.offered() == {"digits": ["rbm"], "adult": ["rbm"]}
    monkeypatch.setattr(qtcore, "available", lambda: ["rbm/adult", "dbm/adult", "dbm/digits", "dbm/web"])
    assert samples.offered() == {"digits": ["dbm"], "adult": ["rbm", "dbm"], "web": ["dbm"]}


def test_digits_are_real_and_in_range() -> None:
    result = samples.samples("digits")
    assert result.key == "test"
    assert result.pictures().shape == (samples.N_SHOWN, 8, 8)
    assert result.values.unique().tolist() == [level / 16 for level in range(17)]
    assert len(result.values.unique(dim=0)) == samples.N_SHOWN


def test_records_are_dreamed_where_there_are_no_data() -> None:
    result = samples.samples("mushrooms")
    assert (result.key, result.names) == ("dream", variable_names("mushrooms"))
    assert set(result.values.unique().tolist()) == {0.0, 1.0}
    assert 19 < float(result.values.sum(1).mean()) < 23  # a mushroom has 21 properties
    assert len(result.values.unique(dim=0)) > 12


def test_a_page_of_pixels_from_its_address() -> None:
    mask = np.full((8, 8), 255, np.uint8)
    mask[2:5] = 0
    shell = Shell(f"?page=digits&image=test-3&mask={encode_bytes(mask)}&compare=layers-3&layer=2&pixel=1-2")
    page = shown(DigitsPage(shell), "digits")
    assert isinstance(page, PixelsPage)
    np.testing.assert_array_equal(page.painter.weights, mask)
    described, runs = unpack(page.player.frames)
    assert [run["label"] for run in described["runs"]] == ["all 10 layers", "stopped at 3 layers"]
    assert runs[0].shape == (11, 3, 8, 8)
    page.remember()
    again = shell.states["digits"]
    assert (again.image, again.compare, again.layer, again.pixel) == ("test-3", "layers-3", "2", "1-2")
    np.testing.assert_array_equal(decode_bytes(again.mask, (8, 8)), mask)


def test_a_page_of_a_record_from_its_address() -> None:
    roles = np.full(123, KNOWN, np.uint8)
    roles[:5], roles[5:8] = TARGET, UNKNOWN
    shell = Shell(f"?page=digits&model=rbm/adult&image=dream-2&record={encode_bytes(roles)}&pixel=0-4&compare=untrained")
    page = shown(DigitsPage(shell), "adult")
    assert isinstance(page, RecordPage)
    np.testing.assert_array_equal(page.record.roles, roles)
    assert page.record.variable == 4
    described, (trained, untrained) = unpack(page.record.frames)
    values = samples.samples("adult").values[2]
    model = qtcore.load("rbm/adult")
    with torch.no_grad():
        p = model(qtcore.Query(values[None], torch.from_numpy(roles == KNOWN)[None])).probs[0]
    np.testing.assert_allclose(trained[-1, 0, 0] / 255, p, atol=1 / 255)
    assert (trained[-1] != untrained[-1]).any()
    expected = -torch.where(values == 1, p, 1 - p)[:5].log2().mean()  # what is unknown is not scored
    assert described["runs"][0]["curves"]["nce"][-1] == pytest.approx(float(expected), rel=1e-3)
    page.remember()
    assert shell.states["digits"].record == encode_bytes(roles)
    assert shell.states["digits"].pixel == "0-4"


@pytest.mark.parametrize(
    "query", ["&model=rbm/nothing", "&model=../../etc", "&model=rbm/adult&record=zAAAA&image=dream-99&pixel=0-999&layer=-3"]
)
def test_nonsense_in_the_address_is_ignored(query: str) -> None:
    page = DigitsPage(Shell(f"?page=digits{query}"))
    (result,) = page.pages.values()
    if isinstance(result, RecordPage):
        assert (result.record.roles == TARGET).sum() == 62
        assert result.number == 0
    else:
        assert (result.painter.weights == 0).sum() == 32


def test_switching_data_keeps_what_was_asked() -> None:
    shell = Shell("?page=digits")
    page = DigitsPage(shell)
    page._turn("adult")
    result = shown(page, "adult")
    assert isinstance(result, RecordPage)
    assert shell.states["digits"].model == "rbm/adult"
    assert shell.states["digits"].mask == ""
    result.record.packet = b"\1\0\0\0" + bytes([UNKNOWN]) * 123
    page._turn("digits")
    assert shell.states["digits"].record == ""
    assert shell.states["digits"].model.endswith("/digits")
    page._turn("adult")
    assert (result.record.roles == UNKNOWN).all()
    assert shell.states["digits"].record == encode_bytes(np.zeros(123, np.uint8))
    described, _ = unpack(result.record.frames)
    assert described["runs"][0]["curves"]["nce"][-1] is None  # nothing is asked


def test_an_untrained_model_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qtcore, "available", list)
    page = shown(DigitsPage(Shell("?page=digits")), "digits")
    assert "untrained" in str(page.notice.object)
    assert page.notice.visible


def test_rbm_and_dbm_answer_the_same_question(monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"rbm/digits": qtcore.RBM(64, 4), "dbm/digits": qtcore.DBM(64, 4, 3), "dbm-advil/digits": qtcore.DBM(64, 4, 3)}
    monkeypatch.setattr(qtcore, "available", lambda: list(models))
    monkeypatch.setattr(engine, "model", models.__getitem__)
    shell = Shell("?page=digits&model=dbm/digits&compare=advil&image=test-1")
    page = DigitsPage(shell)
    result = shown(page, "digits")
    assert isinstance(result, PixelsPage)
    assert result.model is models["dbm/digits"]
    assert not result.notice.visible
    assert [run["label"] for run in unpack(result.player.frames)[0]["runs"]] == ["QT", "AdVIL"]
    result.use("rbm/digits")  # for which there are no AdVIL weights
    assert [run["label"] for run in unpack(result.player.frames)[0]["runs"]] == ["10 layers"]
    assert (shell.states["digits"].model, shell.states["digits"].image) == ("rbm/digits", "test-1")
    result.comparison.row.clicks = [1, 1]
    assert [run["label"] for run in unpack(result.player.frames)[0]["runs"]] == ["RBM", "DBM"]
    assert shell.states["digits"].compare == "dbm"


def test_a_damaged_model_leaves_a_sentence(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(name: str) -> None:
        raise ModelFileError("/home/somebody/model.safetensors is half a file.")

    shell = Shell("?page=digits")
    page = DigitsPage(shell)
    before = shell.states["digits"]
    monkeypatch.setattr(engine, "model", broken)
    assert not page._try("digits", lambda: page._turn("adult"))
    assert not page._try("digits", lambda: page.pages["digits"].use("rbm/digits"))
    assert "cannot be shown" in str(page.pages["digits"].notice.object)
    assert "somebody" not in str(page.pages["digits"].notice.object)
    assert "somebody" in caplog.text
    assert list(page.pages) == ["digits"]
    assert shell.states["digits"] == before


def test_a_gif_of_two_models() -> None:
    page = shown(DigitsPage(Shell("?page=digits&compare=layers-3")), "digits")
    assert isinstance(page, PixelsPage)
    for bad in ([], ["gif"], ["gif", "10", 1]):  # from a client that is not ours
        page.player.wanted = bad
    assert not page.player.file
    page.player.wanted = ["gif", 10, 1]
    with Image.open(io.BytesIO(page.player.file[4:])) as image:
        assert image.format == "GIF"
        assert image.size > (4 * 200, 2 * 200)
        assert image.n_frames == 11  # type: ignore[attr-defined]


def stroke(page: PixelsPage, weights: np.ndarray, image: np.ndarray) -> None:
    """What the browser sends after one."""
    packet = struct.pack("<I", page.painter.seq + 1) + weights.astype(np.uint8).tobytes() + image.astype(np.uint8).tobytes()
    page.painter.packet = packet


def test_what_is_drawn_is_evidence_and_has_no_truth() -> None:
    shell = Shell("?page=digits")
    page = shown(DigitsPage(shell), "digits")
    assert isinstance(page, PixelsPage)
    assert page.gallery.selected == page.number == OPENS_WITH["digits"]
    page.draw_row.clicks = [0, 1]
    assert (page.painter.weights.max(), page.painter.image.max(), page.gallery.selected) == (0, 0, -1)
    weights, image = np.zeros((8, 8)), np.zeros((8, 8))
    weights[1:7, 4], image[1:7, 4] = 255, 200
    stroke(page, weights, image)
    described, (run,) = unpack(page.player.frames)
    assert not described["truth"]
    assert described["without"]["nce"] == pixels.UNKNOWN
    query = qtcore.Query(
        torch.from_numpy(image.reshape(1, -1).astype(np.float32) / 255), torch.from_numpy(weights.reshape(1, -1) > 0)
    )
    with torch.no_grad():
        p = qtcore.load("rbm/digits")(query).probs[0].reshape(8, 8)
    np.testing.assert_allclose(run[-1, 0] / 255, p, atol=1 / 255)
    again = shown(DigitsPage(Shell(shell.states["digits"].to_query())), "digits")
    assert isinstance(again, PixelsPage)
    np.testing.assert_array_equal(again.painter.image, image)
    np.testing.assert_array_equal(again.painter.weights, weights)
    assert (again.number, again.draw_row.selected) == (-1, 0)


def test_a_picture_that_comes_back_by_undo_is_scored_again() -> None:
    page = shown(DigitsPage(Shell("?page=digits&image=test-2")), "digits")
    assert isinstance(page, PixelsPage)
    picture, hidden = page.painter.image.copy(), np.full((8, 8), 255)
    hidden[0] = 0
    page.draw_row.clicks = [0, 1]
    stroke(page, hidden, picture)
    assert (page.number, page.gallery.selected, page.draw_row.selected) == (2, 2, -1)
    assert unpack(page.player.frames)[0]["truth"]
    picture[3, 3] = 255 - picture[3, 3]
    stroke(page, hidden, picture)
    assert (page.number, page.draw_row.selected) == (-1, 0)


def test_hidden_pixels_are_hatched_where_nothing_is_known() -> None:
    page = shown(DigitsPage(Shell("?page=digits")), "digits")
    assert isinstance(page, PixelsPage)
    assert unpack(page.player.frames)[0]["hidden"] == np.flatnonzero(page.painter.weights == 0).tolist()


def test_the_page_opens_with_a_digit_that_is_found_but_not_at_once() -> None:
    page = shown(DigitsPage(Shell("?page=digits")), "digits")
    assert isinstance(page, PixelsPage)
    _, (run,) = unpack(page.player.frames)
    error = np.abs(run[:, 0].astype(float) - page.painter.image)[:, page.painter.weights == 0].mean(1) / 255
    assert error[-1] < 0.1 < 2 * error[-1] < error[2]
