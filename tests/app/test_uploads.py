"""Good pictures come out in the right shape; anything else is refused in plain words."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageDraw

from app import uploads
from app.uploads import UploadError, drawing_from, face_from


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


@pytest.mark.parametrize("light", [True, False])
def test_drawings_keep_their_thin_lines(light: bool) -> None:
    image = Image.new("L", (600, 600), 255 if light else 0)
    ImageDraw.Draw(image).ellipse((100, 100, 500, 500), outline=0 if light else 255, width=3)
    drawing = drawing_from(file(image), (30, 30))
    assert set(np.unique(drawing)) == {0, 255}
    assert not drawing[[0, -1]].any()
    assert not drawing[:, [0, -1]].any()
    assert 60 < (drawing > 0).sum() < 150
    labels = np.zeros((30, 30), bool)  # flood from outside: the circle must be closed
    labels[0] = True
    for _ in range(60):
        grown = labels | np.roll(labels, 1, 0) | np.roll(labels, -1, 0) | np.roll(labels, 1, 1) | np.roll(labels, -1, 1)
        labels = grown & (drawing == 0)
    assert not labels[15, 15]
