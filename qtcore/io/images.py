"""Images in and out: grey levels from a user's picture, marginals as PNG."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from qtcore.data.frey import grey_levels
from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.models.base import Model
from qtcore.query import Query
from qtcore.support.files import write_atomically

Array = npt.NDArray[np.uint8]

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "PPM")
MAX_PIXELS = 160_000
"""Largest image for a grid: each copy of its messages takes 2 kB per pixel."""
MAX_FITTED_PIXELS = 50_000_000
"""Largest image to be scaled down."""
ON = 127
"""A pixel brighter than this is on; in a mask, known."""
WHITE_DEVIATION = 64.0
"""Grey levels of standard deviation that are shown as white."""
COLOURS = {"CONTOUR": (200, 30, 30), "OUT": (255, 248, 205), "IN": (190, 215, 245)}
"""Colours of the labels: red, pale yellow, pale blue."""


def is_image(path: Path) -> bool:
    """Whether the file name is that of an image."""
    return Image.registered_extensions().get(path.suffix.lower()) in FORMATS


def read_grey(path: Path, size: tuple[int, int] | None = None, fit: bool = False, sharp: bool = False) -> Array:
    """Grey levels [height, width] of an image file; colours become grey, transparency is left out.

    Args:
        size: height and width that it must have; any, up to MAX_PIXELS, when there is none.
        fit: cut its middle out and scale that to `size`, instead of refusing another size.
        sharp: scale without mixing pixels, for a mask.
    """
    most = MAX_FITTED_PIXELS if fit else MAX_PIXELS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about details of the file; real errors are raised below
            with Image.open(path, formats=FORMATS) as image:
                _check(path, image, most, None if fit else size)
                grey = ImageOps.exif_transpose(image).convert("L")
    except InputError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise  # with its own message
    except Image.DecompressionBombError as error:
        raise InputError(f"{path} has more than {most} pixels, which is too many here.") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path} is not an image ({', '.join(FORMATS)}).") from error
    except Exception as error:  # every format fails on a damaged file in its own way
        raise InputError(f"{path} is a damaged image ({error}).") from error
    if fit and size is not None:
        method = Image.Resampling.NEAREST if sharp else Image.Resampling.BOX  # means over areas
        grey = ImageOps.fit(grey, (size[1], size[0]), method)
    return np.asarray(grey)


def _check(path: Path, image: Image.Image, most: int, size: tuple[int, int] | None) -> None:
    """Raise an InputError for a wrong size, from the header, before any pixel is unpacked."""
    actual = f"{path} is {image.width} pixels wide and {image.height} high"
    if image.width * image.height > most:
        raise InputError(f"{actual}; {most} pixels are the most that is taken here.")
    if image.mode[0] in "IF":
        raise InputError(f"{path} has more than 8 bits per pixel ({image.mode}); save it with 8.")
    turned = image.getexif().get(0x0112, 1) > 4  # the EXIF orientation swaps width and height
    shape = (image.width, image.height) if turned else (image.height, image.width)
    if size is not None and shape != size:
        raise InputError(f"{actual}, but {size[1]} wide and {size[0]} high is expected; --fit crops and scales it.")


def read_mask(path: Path, size: tuple[int, int], fit: bool = False) -> Tensor:
    """Which pixels are known, bool [height, width]: those that are white in the mask."""
    return torch.from_numpy(read_grey(path, size, fit, sharp=True) > ON)


def write_png(path: Path, pixels: "Tensor | Array") -> None:
    """Write grey levels [height, width] or colours [height, width, 3], rounded and clipped to 0 … 255, atomically."""
    image = Image.fromarray(np.asarray(pixels, dtype=np.float64).round().clip(0, 255).astype(np.uint8))
    write_atomically(path, lambda temporary: image.save(temporary, format="PNG"))


# ---------------------------------------------------------------------------------------------------------------------
# Faces


def face_shape(model: Model) -> tuple[int, int]:
    """Height and width of the images that a model was trained on."""
    if model.image_shape is None or not {"maximum", "mean", "deviation"} <= model.statistics.keys():
        raise InputError("the model does not say how its variables form an image; give a table (CSV).")
    return model.image_shape


def standardised(grey: Array, statistics: Mapping[str, Tensor]) -> Tensor:
    """Grey levels, standardised as in training [1, V]. Training added noise from 0 to 1 to each level: here, its mean."""
    level = torch.from_numpy(grey.astype(np.float32)).reshape(1, -1) + 0.5
    return (level / statistics["maximum"].cpu() - statistics["mean"].cpu()) / statistics["deviation"].cpu()


def face_marginals(
    model: Model, grey: Array, known: Tensor, n_layers: int | None = None, engine: Engine | None = None
) -> dict[str, Tensor]:
    """The "mean" and "deviation" of every pixel [height, width], in grey levels."""
    statistics = {name: tensor.cpu().float() for name, tensor in model.statistics.items()}
    query = Query(standardised(grey, statistics).to(model.dtype), known.reshape(1, -1))
    with torch.no_grad():
        marginals = model(query.to(model.device), n_layers, engine)
    mean = grey_levels(marginals.mean.cpu().float(), statistics) - 0.5
    deviation = marginals.stddev.cpu().float() * statistics["deviation"] * statistics["maximum"]
    return {"mean": mean.reshape(grey.shape), "deviation": deviation.reshape(grey.shape)}


def face_pictures(marginals: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The images to write, by file name."""
    return {"mean": marginals["mean"], "deviation": marginals["deviation"] * (255 / WHITE_DEVIATION)}


# ---------------------------------------------------------------------------------------------------------------------
# Contours


def grid_marginals(
    model: Model, grey: Array, known: Tensor | None = None, n_layers: int | None = None, engine: Engine | None = None
) -> Tensor:
    """p(CONTOUR), p(OUT) and p(IN) of every pixel [height, width, 3]; unknown pixels are unobserved."""
    values = torch.from_numpy((grey > ON).astype(np.float32))[None]
    observed = torch.ones_like(values, dtype=torch.bool) if known is None else known[None]
    with torch.no_grad():
        probabilities: Tensor = model(Query(values, observed).to(model.device), n_layers, engine).probs
    return probabilities[0].cpu()


def grid_pictures(marginals: Tensor) -> dict[str, Tensor]:
    """The images to write, by file name."""
    colours = torch.tensor(list(COLOURS.values()))  # in the order of the labels
    pictures = {"labels": colours[marginals.argmax(-1)]}
    return pictures | {f"p_{name.lower()}": 255 * marginals[..., label] for label, name in enumerate(COLOURS)}


# ---------------------------------------------------------------------------------------------------------------------
# Samples


def image_query(model: Model, path: Path, mask: Path | None = None, fit: bool = False) -> Query:
    """What is known of an image: of a face, the pixels that are white in a mask; of a contour, all of them or those."""
    if model.variables.kind == "real":
        shape = face_shape(model)
        if mask is None:
            raise InputError("a face needs --mask, an image that is white where the face is known and black elsewhere.")
        known = read_mask(mask, shape, fit).reshape(1, -1)
        statistics = {name: tensor.cpu().float() for name, tensor in model.statistics.items()}
        return Query(standardised(read_grey(path, shape, fit), statistics).to(model.dtype), known)
    if model.variables.kind != "label":
        raise InputError(f"a {type(model).__name__} is asked with a table (CSV), not with images such as {path}.")
    if fit:
        raise InputError("--fit is for faces; a contour image may have any size.")
    grey = read_grey(path)
    values = torch.from_numpy((grey > ON).astype(np.float32))[None]
    return Query(values, torch.ones_like(values, dtype=torch.bool) if mask is None else read_mask(mask, grey.shape)[None])


def check_pictures(model: Model) -> None:
    """Raise an InputError if samples of this model are no pictures."""
    if model.variables.kind == "real":
        face_shape(model)
    elif model.image_shape is None:
        raise InputError("samples of this model are no pictures; write them as .csv or .npz.")


def sample_pictures(model: Model, samples: Tensor) -> Tensor:
    """Samples [n, …] as grey levels [n, height, width, 1], labels as colours [n, height, width, 3]."""
    if model.variables.kind == "label":
        return torch.tensor(list(COLOURS.values()))[samples.long()]
    check_pictures(model)
    assert model.image_shape is not None
    statistics = {name: tensor.cpu().float() for name, tensor in model.statistics.items()}
    grey = grey_levels(samples.float(), statistics) if model.variables.kind == "real" else 255 * samples
    return grey.reshape(-1, *model.image_shape, 1)


def write_sheet(path: Path, model: Model, samples: Tensor, per_row: int = 16) -> None:
    """Write samples [n, rows, …] as one PNG, those of a row side by side."""
    shown = sample_pictures(model, samples.transpose(0, 1).flatten(0, 1))
    sheet = contact_sheet(shown.flatten(1, 2), (shown.shape[1], shown.shape[2]), min(len(samples), per_row))
    write_atomically(path, lambda temporary: sheet.save(temporary, "PNG"))


def contact_sheet(pixels: Tensor, image_shape: tuple[int, int], per_row: int = 16, zoom: int = 4) -> Image.Image:
    """All images of grey levels 0 … 255 [n, V], or of colours [n, V, 3], in rows."""
    colours = pixels.shape[2] if pixels.dim() == 3 else 1
    frame = pixels.clamp(0, 255).to(torch.uint8).reshape(-1, *image_shape, colours)
    frame = torch.nn.functional.pad(frame, (0, 0, 1, 1, 1, 1))
    frame = torch.nn.functional.pad(frame, (0, 0, 0, 0, 0, 0, 0, -len(frame) % per_row))
    rows = [torch.cat(list(row), 1) for row in frame.split(per_row)]
    image = Image.fromarray((torch.cat(rows)[..., 0] if colours == 1 else torch.cat(rows)).numpy())
    return image.resize((image.width * zoom, image.height * zoom), Image.Resampling.NEAREST)
