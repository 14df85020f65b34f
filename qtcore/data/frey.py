"""Frey's faces: 1965 small photographs of one man, for the Gaussian RBM."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from qtcore.data import originals
from qtcore.data.checks import shapes
from qtcore.data.dataset import Dataset
from qtcore.data.originals import GITHUB, RemoteFile
from qtcore.data.reading import Array, fingerprint, read_npz, read_pickled_arrays
from qtcore.data.specification import Specification
from qtcore.data.variables import pixel_names
from qtcore.errors import DataError

SHAPE = (28, 20)
N_FACES, N_TRAIN, N_TEST = 1965, 1572, 393
N_VALID = 157  # a tenth of the training faces
DEVIATION_FLOOR = 1e-3  # added to every deviation, as the paper's authors do, so that a constant pixel stays finite
CONTENT = "d55df255299b5e8e64f8b515f11339dab3fb2d8aece17863423c25be539ae7fc"  # `fingerprint` of faces and split

FILES = (
    RemoteFile(
        "frey/freyfaces.pkl",
        (f"{GITHUB}/jmtomczak/vae_vampprior/bb6ff3e58036adbea448e82d7bc55593d605b52c/datasets/Freyfaces/freyfaces.pkl",),
        "sha256",
        "3b69410c6a5fd6e03f09012905168be3712373a094a776f7e58fcd0670d2138a",
    ),
    RemoteFile(
        "frey/frey_faces_fixed_split.pkl",
        (
            f"{GITHUB}/casperkaae/extra_parmesan/2c4e778f81f9f98177979eec2c7110332c550b63/data_splits/"
            "frey_faces_fixed_split.pkl",
        ),
        "sha256",
        "e188742e0f2adb0271d6a93010bfa3c0f889d6259d23d9288d95abc7ebe3e896",
    ),
)


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
    index = {"train": order[N_VALID:], "valid": order[:N_VALID], "test": test_index}
    return Dataset(
        name="frey",
        kind="gaussian",
        train=values[torch.from_numpy(index["train"])],
        valid=values[torch.from_numpy(index["valid"])],
        test=values[torch.from_numpy(index["test"])],
        source="exact",
        note="The original faces in the published split, dequantised and standardised, a tenth of train held out.",
        image_shape=SHAPE,
        variable_names=FREY.variable_names,
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
    path = originals.prepared("frey")
    if path:
        arrays = read_npz(path, path, ("faces", "train_index", "test_index"))
        return _checked(arrays["faces"], arrays["train_index"], arrays["test_index"], path)
    faces_file, split_file = FILES
    faces = read_pickled_arrays(originals.read(faces_file), faces_file.path)
    split = read_pickled_arrays(originals.read(split_file), split_file.path)
    if len(faces) != 1 or len(split) != 2 or faces[0].size != N_FACES * SHAPE[0] * SHAPE[1]:
        raise DataError("the pickles of Frey's faces do not hold one array of faces and two of indices.")
    return _checked(faces[0].reshape(N_FACES, *SHAPE), split[0], split[1], faces_file.path)


def _checked(faces: Array, train: Array, test: Array, origin: object) -> tuple[Array, Array, Array]:
    """Raise a DataError for anything but the published faces and split."""
    if faces.dtype != np.uint8 or faces.shape != (N_FACES, *SHAPE):
        raise DataError(f"{origin} (faces) is {faces.dtype} {faces.shape}; expected uint8 {(N_FACES, *SHAPE)}.")
    for key, index, n in (("train_index", train, N_TRAIN), ("test_index", test, N_TEST)):
        if index.dtype.kind not in "iu" or index.shape != (n,):
            raise DataError(f"{origin} ({key}) is {index.dtype} {index.shape}; expected {n} integers.")
    train, test = train.astype(np.int64), test.astype(np.int64)
    if fingerprint({"faces": faces, "train_index": train, "test_index": test}) != CONTENT:
        raise DataError(f"{origin} holds other faces or another split than the published ones; replace or remove it.")
    return faces, train, test


FREY = Specification(
    name="frey",
    title="Frey",
    kind="gaussian",
    origin="Frey's faces",
    load=load_frey,
    checks=(shapes((N_TRAIN - N_VALID, N_VALID, N_TEST), (SHAPE[0] * SHAPE[1],)),),
    files=FILES,
    prepared="exact",
    image_shape=SHAPE,
    variable_names=pixel_names(*SHAPE),
)
