"""Faces for machines without Frey's: samples of our own trained Gaussian RBM, so that nothing of Frey is shipped."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qtcore.data.frey import SHAPE
from qtcore.data.reading import read_npz
from qtcore.errors import DataError

FILE = "dreamed_faces.npz"  # `samples` and, smoothed, `faces`: float32 [n, 560], standardised like load("frey").train


def faces_offline(grain: bool = False) -> Tensor:
    """Sampled faces, float32 [n, 560], standardised like those of ``load("frey")``: smoothed, to look at, or with the grain
    of the model's own noise, as they were drawn. Only those with their grain can be scored."""
    package = Path(__file__).parents[1]
    # An installed package has its assets inside; a clone has them next to it.
    path = next((p for p in (package / "assets" / FILE, package.parent / "assets" / FILE) if p.is_file()), None)
    if path is None:
        raise DataError(f"{FILE} is not among the assets of this version; `python -m qtcore.fetch frey` gets the real faces.")
    key = "samples" if grain else "faces"
    faces = read_npz(path, path, (key,))[key]
    n_pixels = SHAPE[0] * SHAPE[1]
    if faces.dtype != np.float32 or faces.ndim != 2 or faces.shape[1] != n_pixels or not np.isfinite(faces).all():
        raise DataError(f"{path} holds {faces.dtype} {faces.shape}; expected finite float32 rows of {n_pixels}.")
    return torch.from_numpy(faces)
