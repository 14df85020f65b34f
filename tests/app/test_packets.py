"""What a browser sends is checked; what is wrong with it is logged without its bytes."""

import logging
import struct

import numpy as np
import pytest
from qtcore_app.components import Choices, Gallery, Knobs, Painter, decode_packet

SHAPE = (4, 3)


def packet(seq: int, *parts: np.ndarray) -> bytes:
    return struct.pack("<I", seq) + b"".join(part.astype(np.uint8).tobytes() for part in parts)


def test_good_packets() -> None:
    mask = np.arange(12).reshape(SHAPE)
    result = decode_packet(packet(7, mask), SHAPE, drawable=False)
    assert result is not None
    assert result[0] == 7
    assert result[2] is None
    np.testing.assert_array_equal(result[1], mask)
    drawing = (mask % 2) * 255
    result = decode_packet(packet(1, mask, drawing), SHAPE, drawable=True)
    assert result is not None
    assert result[2] is not None
    np.testing.assert_array_equal(result[2], drawing)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"secret",
        packet(1, np.zeros(11)),
        packet(1, np.zeros(13)),
        packet(0, np.zeros(12)),
        packet(1, np.zeros(12), np.zeros(12)),
        None,
        "text",
        12,
    ],
)
def test_bad_packets_are_ignored_and_logged_without_their_bytes(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decode_packet(bad, SHAPE, drawable=False) is None
    assert "ignored a packet" in caplog.text
    assert "secret" not in caplog.text


def test_drawings_are_black_and_white() -> None:
    grey = packet(1, np.zeros(12), np.full(12, 3))
    assert decode_packet(grey, SHAPE, drawable=True) is None
    assert decode_packet(grey, SHAPE, drawable=True, grey=True) is not None


def test_painter_listens_to_good_packets_only() -> None:
    painter = Painter(np.zeros(SHAPE, np.uint8))
    heard: list[int] = []
    painter.strokes(lambda: heard.append(painter.seq))
    painter.packet = packet(1, np.full(12, 9))
    painter.packet = b"nonsense"
    painter.packet = packet(2, np.full(12, 8))
    assert heard == [1, 2]
    assert (painter.weights == 8).all()


def test_giving_the_same_mask_twice_is_seen_twice() -> None:
    painter = Painter(np.zeros(SHAPE, np.uint8))
    before = painter.given
    painter.give(weights=np.full(SHAPE, 255, np.uint8))
    assert painter.given != before
    assert painter.given[4:] == before[4:]


def test_packets_do_not_wait() -> None:
    """Panel holds most browser events back for 50 ms; this private attribute is how it lets some through at once."""
    from panel.reactive import Syncable

    assert Syncable._priority_changes == []
    assert Painter._priority_changes == ["packet"]


def test_choices_from_strangers() -> None:
    choices = Choices(labels=["a", "b"])
    gallery = Gallery(np.zeros((2, 4, 3), np.uint8))
    for bad in ([], [5, 1], [-1, 1], ["0", 1], [None, None], [1.0, 2]):
        choices.clicks = bad
        gallery.clicks = bad
        assert choices.clicked() is None
        assert gallery.clicked() is None
    choices.clicks = [1, 1]
    assert choices.clicked() == 1
    knobs = Knobs(knobs=[{"label": "x", "low": 0, "high": 9, "value": 4, "unit": ""}])
    for bad in ([], [10], [-1], ["3"], [float("nan")], [1, 2]):
        knobs.values = bad
        assert knobs.numbers() == [4]
    knobs.values = [7]
    assert knobs.numbers() == [7]
