"""Good pictures come out in the right shape; anything else is refused in plain words."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from qtcore_app import uploads
from qtcore_app.drawings import labels_of
from qtcore_app.uploads import UploadError, drawing_from, face_from, thinned

from qtcore.data.border import CONTOUR, IN, border_labels


def file(image: Image.Image, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "mode"), [("PNG", "RGBA"), ("PNG", "I;16"), ("JPEG", "RGB"), ("GIF", "P"), ("BMP", "L"), ("WEBP", "RGB")]
)
def test_common_pictures_become_faces(kind: str, mode: str) -> None:
    ramp = Image.linear_gradient("L").resize((90, 64))
    deep = Image.fromarray(np.asarray(ramp).astype(np.uint16) * 257)  # as many greys, on the scale of 16 bits
    face = face_from(file(deep if mode == "I;16" else ramp.convert(mode), kind), (28, 20))
    assert face.shape == (28, 20)
    assert face.dtype == np.uint8
    assert (np.diff(face.mean(1)) > 0).all()  # still dark above, light below
    assert 110 < face.mean() < 145


def test_the_middle_is_kept() -> None:
    image = Image.new("L", (400, 56))
    ImageDraw.Draw(image).rectangle((180, 0, 219, 55), fill=255)
    assert (face_from(file(image), (28, 20))[:, 1:-1] > 200).all()


def png_that_claims(width: int, height: int) -> bytes:
    """A tiny PNG file whose header promises a huge picture."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def test_refusals_say_why() -> None:
    good = file(Image.effect_noise((300, 300), 50))
    cases = {
        b"": "empty",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>": "not a picture",
        file(Image.new("L", (30, 30)), "TIFF"): "not a picture",
        good[: len(good) // 2]: "damaged",
        bytes(uploads.MAX_BYTES + 1): "up to 4 MB",
        png_that_claims(6000, 6000): "million",
        png_that_claims(60_000, 60_000): "million",
    }
    for data, words in cases.items():
        with pytest.raises(UploadError, match=words) as caught:
            face_from(data, (28, 20))
        assert "/" not in str(caught.value)  # no path, no traceback


def wide(drawing: np.ndarray) -> bool:
    """Whether somewhere four pixels form a square."""
    on = drawing > 0
    return bool((on[1:, 1:] & on[1:, :-1] & on[:-1, 1:] & on[:-1, :-1]).any())


@pytest.mark.parametrize("light", [True, False])
@pytest.mark.parametrize("width", [3, 15, 40])
def test_lines_become_one_pixel_wide_and_stay_closed(light: bool, width: int) -> None:
    image = Image.new("L", (600, 600), 255 if light else 0)
    ImageDraw.Draw(image).ellipse((100, 100, 500, 500), outline=0 if light else 255, width=width)
    drawing = drawing_from(file(image), (30, 30))
    assert set(np.unique(drawing)) == {0, 255}
    assert not drawing[[0, -1]].any()
    assert not drawing[:, [0, -1]].any()
    assert 40 < (drawing > 0).sum() < 64  # a circle with a radius of 9 pixels
    assert not wide(drawing)
    labels = labels_of(drawing).numpy()
    assert labels[15, 15] == IN
    assert 170 < (labels == IN).sum() < 270


@pytest.mark.parametrize("radius", [60, 150, 250])
def test_filled_shapes_become_their_outline(radius: int) -> None:
    image = Image.new("L", (600, 600), 255)
    ImageDraw.Draw(image).ellipse((300 - radius, 300 - radius, 300 + radius, 300 + radius), fill=0)
    drawing = drawing_from(file(image), (30, 30))
    labels = labels_of(drawing).numpy()
    assert abs((labels == IN).sum() / (np.pi * (radius / 600 * 28) ** 2) - 1) < 0.25
    assert not wide(drawing)
    ring = border_labels(torch.from_numpy(labels == IN)).numpy()[1:-1, 1:-1] == CONTOUR
    assert (ring == (drawing > 0)).all()  # as in training


def test_lines_and_filled_shapes_in_one_drawing() -> None:
    image = Image.new("L", (560, 560), 255)
    draw = ImageDraw.Draw(image)
    draw.rectangle((60, 60, 260, 260), fill=0)
    draw.line((160, 260, 160, 500), fill=0, width=12)
    drawing = drawing_from(file(image), (30, 30))
    labels = labels_of(drawing).numpy()
    assert labels[8, 8] == IN
    assert 80 < (labels == IN).sum() < 122
    assert ((drawing[16:25] > 0).sum(1) == 1).all()  # the line below
    assert not wide(drawing)


def test_thinning_keeps_ends_and_holes() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        mask = rng.random((12, 12)) < 0.6
        thin = thinned(mask)
        assert not (thin & ~mask).any()
        for kind, connectivity in ((True, 8), (False, 4)):  # on pixels touch at corners, off pixels do not
            assert pieces(np.pad(mask, 1) == kind, connectivity) == pieces(np.pad(thin, 1) == kind, connectivity)
    line = np.zeros((9, 9), bool)
    line[4, 1:8] = True
    np.testing.assert_array_equal(thinned(line), line)


def pieces(mask: np.ndarray, connectivity: int) -> int:
    """The number of connected parts."""
    left, count = {(int(y), int(x)) for y, x in np.argwhere(mask)}, 0
    while left:
        count += 1
        reached = [left.pop()]
        while reached:
            y, x = reached.pop()
            near = {(y + b, x + a) for b in (-1, 0, 1) for a in (-1, 0, 1) if connectivity == 8 or a * b == 0} & left
            left -= near
            reached += near
    return count
