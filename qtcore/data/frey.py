"""Frey's faces: 1965 small photographs of one man, for the Gaussian RBM."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from qtcore.data import registry
from qtcore.data.dataset import Dataset
from qtcore.data.reading import Array, fingerprint, read_npz, read_pickled_arrays
from qtcore.data.variables import pixel_names
from qtcore.errors import DataError

SHAPE = (28, 20)
N_FACES, N_TRAIN, N_TEST = 1965, 1572, 393
VALID_FRACTION = 0.1
DEVIATION_FLOOR = 1e-3  # added to every deviation, as the paper's authors do, so that a constant pixel stays finite
CONTENT = "d55df255299b5e8e64f8b515f11339dab3fb2d8aece17863423c25be539ae7fc"  # `fingerprint` of faces and split


def load_frey(seed: int = 0) -> Dataset:
    """Frey faces: float32, standardised per pixel, [n, 560]; `raw` has the uint8 faces [n, 28, 20] by split.

    `seed` draws the U[0, 1) noise that is added to the grey levels, and the tenth of the training faces that is held
    out for validation.
    """
    faces, train_index, test_index = read_faces()
    rng = np.random.default_rng(seed)
    flat = faces.reshape(N_FACES, -1) + rng.random((N_FACES, faces[0].size))
    maximum = float(flat.max())
    flat /= maximum
    mean, deviation = flat.mean(0), flat.std(0) + DEVIATION_FLOOR
    values = torch.from_numpy(((flat - mean) / deviation).astype(np.float32))
    order = rng.permutation(train_index)
    n_valid = round(VALID_FRACTION * N_TRAIN)
    index = {"train": order[n_valid:], "valid": order[:n_valid], "test": test_index}
    return Dataset(
        name="frey",
        kind="gaussian",
        train=values[torch.from_numpy(index["train"])],
        valid=values[torch.from_numpy(index["valid"])],
        test=values[torch.from_numpy(index["test"])],
        source="exact",
        note="The original faces in the published split, dequantised and standardised, a tenth of train held out.",
        image_shape=SHAPE,
        variable_names=pixel_names(*SHAPE),
        statistics={
            "maximum": maximum,
            "mean": torch.from_numpy(mean.astype(np.float32)),
            "deviation": torch.from_numpy(deviation.astype(np.float32)),
        },
        raw={split: torch.from_numpy(faces[rows]) for split, rows in index.items()},
    )


def grey_levels(values: Tensor, statistics: Mapping[str, Tensor | float]) -> Tensor:
    """Standardised values [..., 560] back on the scale of the photographs, 0 … 255 (not rounded, not clipped)."""
    return (values * statistics["deviation"] + statistics["mean"]) * statistics["maximum"]


def read_faces() -> tuple[Array, Array, Array]:
    """The faces, uint8 [1965, 28, 20], and the indices of the training and of the test faces."""
    path = registry.prepared("frey")
    if path:
        found = read_npz(path, path, ("faces", "train_index", "test_index"))
        return _checked(found["faces"], found["train_index"], found["test_index"], path)
    faces_file, split_file = registry.FILES["frey"]
    faces = read_pickled_arrays(registry.read(faces_file), faces_file.path)
    split = read_pickled_arrays(registry.read(split_file), split_file.path)
    if len(faces) != 1 or len(split) != 2 or faces[0].size != N_FACES * SHAPE[0] * SHAPE[1]:
        raise DataError("the pickles of Frey's faces do not hold one array of faces and two of indices.")
    return _checked(faces[0].reshape(N_FACES, *SHAPE), split[0], split[1], faces_file.path)


def _checked(faces: Array, train: Array, test: Array, origin: object) -> tuple[Array, Array, Array]:
    """Refuse everything but the published faces and split."""
    if faces.dtype != np.uint8 or faces.shape != (N_FACES, *SHAPE):
        raise DataError(f"{origin} (faces) is {faces.dtype} {faces.shape}; expected uint8 {(N_FACES, *SHAPE)}.")
    for key, index, n in (("train_index", train, N_TRAIN), ("test_index", test, N_TEST)):
        if index.dtype.kind not in "iu" or index.shape != (n,):
            raise DataError(f"{origin} ({key}) is {index.dtype} {index.shape}; expected {n} integers.")
    train, test = train.astype(np.int64), test.astype(np.int64)
    if fingerprint({"faces": faces, "train_index": train, "test_index": test}) != CONTENT:
        raise DataError(f"{origin} holds other faces or another split than the published ones; replace or remove it.")
    return faces, train, test
