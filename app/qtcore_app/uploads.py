"""Uploaded pictures: checked before decoding, decoded by Pillow only, refused in plain words."""

import io
import warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

MAX_BYTES = 4 * 2**20
MAX_PIXELS = 24_000_000
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]


class UploadError(ValueError):
    """Why a picture is refused, as a sentence for the user."""


def read_image(data: bytes) -> Image.Image:
    """A grey picture [L] from the bytes of a file, turned upright."""
    if not data:
        raise UploadError("The file is empty; choose a PNG, JPEG, GIF, BMP or WebP picture.")
    if len(data) > MAX_BYTES:
        raise UploadError(f"The file is {len(data) / 2**20:.1f} MB; pictures up to {MAX_BYTES // 2**20} MB are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow only warns of pictures that are suspiciously large
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            width, height = image.size
            if width * height > MAX_PIXELS or min(width, height) < 1:
                raise UploadError(f"The picture has {width} × {height} pixels; up to {MAX_PIXELS // 10**6} million are read.")
            image.load()
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # 16-bit grey, which Pillow would clip at 255
                upright = Image.fromarray((np.asarray(upright, np.float32) / 257).round().clip(0, 255).astype(np.uint8))
            flat = Image.new("RGBA", upright.size, "white")
            flat.alpha_composite(upright.convert("RGBA"))
            return flat.convert("L")
    except UploadError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UploadError(f"The picture has too many pixels; up to {MAX_PIXELS // 10**6} million are read.") from error
    except UnidentifiedImageError as error:
        raise UploadError("This is not a picture in PNG, JPEG, GIF, BMP or WebP format.") from error
    except Exception as error:  # Pillow's decoders raise many kinds of errors on a broken file
        raise UploadError("The picture is damaged and cannot be read.") from error


def face_from(data: bytes, shape: tuple[int, int]) -> Bytes:
    """The middle of a picture, cut to the shape's proportions and scaled to it: uint8 [height, width]."""
    height, width = shape
    fitted = ImageOps.fit(read_image(data), (width, height), Image.Resampling.LANCZOS)
    return np.asarray(ImageOps.autocontrast(fitted, cutoff=1), np.uint8).copy()


def drawing_from(data: bytes, shape: tuple[int, int]) -> Bytes:
    """A drawing (dark on light, or light on dark) as on and off pixels, 255 and 0: lines become one pixel wide, and a filled
    shape its outline, as in the training data the ring of pixels around it."""
    height, width = shape
    image = read_image(data)
    values = np.asarray(image, np.float32)
    border = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    if np.median(border) > 127:  # a light ground
        image = ImageOps.invert(image)
    scale = min((height - 2) / image.height, (width - 2) / image.width)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    top, left = (height - size[1]) // 2, (width - size[0]) // 2
    touched, covered = np.zeros(shape, bool), np.zeros(shape, bool)
    inner = slice(top, top + size[1]), slice(left, left + size[0])
    # A thin line must survive being scaled down: the brightest pixel of each cell counts, not the mean.
    touched[inner] = _brightest(np.asarray(image, np.uint8), (size[1], size[0])) > 127
    covered[inner] = np.asarray(image.resize(size, Image.Resampling.BOX)) > 127
    filled = grown(~grown(~covered))  # at least three pixels wide, which no line is,
    for _ in range(2):  # with its corners
        filled = grown(filled) & covered
    ring = grown(filled, diagonally=False) & ~filled
    return np.where(thinned(touched & ~grown(filled) | ring), 255, 0).astype(np.uint8)


def grown(mask: Mask, diagonally: bool = True) -> Mask:
    """The mask and its neighbours. What lies beyond the edge is not in it."""
    padded = np.pad(mask, 1)
    rows = padded[:-2] | padded[1:-1] | padded[2:]
    if diagonally:
        return rows[:, :-2] | rows[:, 1:-1] | rows[:, 2:]
    return rows[:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]


_AROUND = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))


def thinned(mask: Mask) -> Mask:
    """Lines one pixel wide, with the ends and holes of the mask: layer by layer, from each of the four sides in turn, pixels go
    whose neighbours stay connected without them."""
    result = np.pad(mask, 1)
    left = -1
    while left != result.sum():
        left = result.sum()
        for side in _AROUND[::2]:
            for y, x in np.argwhere(result & ~np.roll(result, (-side[0], -side[1]), (0, 1))):
                near = [bool(result[y + dy, x + dx]) for dy, dx in _AROUND]
                parts = sum(not near[k] and (near[k + 1] or near[(k + 2) % 8]) for k in range(0, 8, 2))  # Yokoi's number
                if parts == 1 and sum(near) > 1:
                    result[y, x] = False
    return result[1:-1, 1:-1]


def _brightest(values: Bytes, shape: tuple[int, int]) -> Bytes:
    rows = np.linspace(0, values.shape[0], shape[0] + 1).astype(int)
    columns = np.linspace(0, values.shape[1], shape[1] + 1).astype(int)
    result = np.zeros(shape, np.uint8)
    for i in range(shape[0]):
        band = values[rows[i] : max(rows[i + 1], rows[i] + 1)].max(0)
        for j in range(shape[1]):
            result[i, j] = band[columns[j] : max(columns[j + 1], columns[j] + 1)].max()
    return result
