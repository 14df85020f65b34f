"""Pictures of every format, damaged: five readers answer, or say a sentence."""

import io
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from qtcore_app.uploads import UploadError, drawing_from, face_from, read_image

from qtcore.io import images

from .support import tried

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
MODES = ("1", "L", "P", "RGB", "RGBA", "I;16")
_folder = tempfile.TemporaryDirectory()


@st.composite
def pictures(draw: st.DrawFn) -> tuple[str, bytes]:
    kind, mode = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(MODES))
    size = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    image = Image.fromarray(np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, size, np.uint8))
    buffer = io.BytesIO()
    try:
        image.convert(mode).save(buffer, kind)
    except (OSError, ValueError):  # not every format has every mode
        image.save(buffer, kind)
    data = bytearray(buffer.getvalue())
    most = draw(st.sampled_from([0, 1, 6]))
    for where, byte in draw(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=most)):
        data[int(where**3 * (len(data) - 1))] = byte  # headers more often than pixels
    if draw(st.integers(0, 5)) == 0:
        del data[int(draw(st.floats(0, 1)) * len(data)) :]
    return kind.lower(), bytes(data)


@given(pictures(), st.booleans())
def test_pictures(picture: tuple[str, bytes], fit: bool) -> None:
    kind, data = picture
    upload = tried("images", lambda: read_image(data), UploadError)
    assert upload is None or upload.mode == "L"
    face = tried("images", lambda: face_from(data, (28, 20)), UploadError)
    assert face is None or (face.shape, face.dtype) == ((28, 20), np.uint8)
    drawing = tried("images", lambda: drawing_from(data, (30, 30)), UploadError)
    assert drawing is None or set(np.unique(drawing)) <= {0, 255}
    path = Path(_folder.name) / f"picture.{kind}"
    path.write_bytes(data)
    grey = tried("images", lambda: images.read_grey(path, (28, 20) if fit else None, fit))
    assert grey is None or (grey.dtype == np.uint8 and grey.ndim == 2)
    mask = tried("images", lambda: images.read_mask(path, (28, 20), True))
    assert mask is None or mask.shape == (28, 20)
