"""scikit-learn's 8×8 digits, extended by one-pixel shifts and used as soft values."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qtcore.data.checks import Findings, recorded, shapes
from qtcore.data.dataset import Dataset
from qtcore.data.reading import Array, fingerprint
from qtcore.data.specification import Specification
from qtcore.data.variables import pixel_names
from qtcore.errors import DataError

SIDE = 8
LEVELS = 16.0  # scikit-learn's grey levels run from 0 to 16
TEST_FRACTION, VALID_FRACTION = 0.2, 0.1
SHIFTS = ((1, 1), (2, 1), (0, 1), (1, 2), (1, 0))  # corner within a frame of one pixel; the first one is no shift
CONTENT = "dd810c1d7f3e3c992d6d6dcb7385671155428308364290c541542fcbcef8fc8c"  # `fingerprint` of the 1797 images


def load_digits(seed: int = 0) -> Dataset:
    """Digits: float32 in [0, 1], [n, 64]; every split five-fold (the original and its four one-pixel shifts).

    The 80/20 split is the paper's (``random_state=0``). There is no third split, so a tenth of the training images
    (chosen by `seed`) is held out for validation, before the shifts: no image has a shifted twin in another split.
    """
    images = original_digits()
    shuffled = images[np.random.RandomState(0).permutation(len(images))]  # as its train_test_split does
    n_test = math.ceil(TEST_FRACTION * len(images))
    test, rest = shuffled[:n_test], shuffled[n_test:]
    order = np.random.default_rng(seed).permutation(len(rest))
    n_valid = round(VALID_FRACTION * len(rest))
    return Dataset(
        name="digits",
        kind="soft",
        train=_with_shifts(rest[order[n_valid:]]),
        valid=_with_shifts(rest[order[:n_valid]]),
        test=_with_shifts(test),
        source="exact",
        note="scikit-learn's digits, split 80/20 with random_state 0, a tenth of train held out, each split with shifts.",
        image_shape=(SIDE, SIDE),
        variable_names=DIGITS.variable_names,
        statistics={"maximum": LEVELS},
    )


def original_digits() -> Array:
    """The 1797 images as uint8 grey levels 0 … 16, [1797, 8, 8], from scikit-learn's own file: to import it takes seconds."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise DataError("the digits come with scikit-learn, which is not installed; install it: pip install scikit-learn.")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        rows = np.loadtxt(path, np.uint8, delimiter=",")
    except (OSError, ValueError) as error:
        raise DataError(f"the digits of this scikit-learn cannot be read ({error}); install another version.") from error
    images: Array = rows[:, :-1].reshape(-1, SIDE, SIDE)  # the last column is the digit
    if fingerprint({"images": images}) != CONTENT:
        raise DataError("the digits of this scikit-learn are not the 1797 published ones; install another version.")
    return images


def _with_shifts(images: Array) -> Tensor:
    """[n, 8, 8] grey levels to [5n, 64] in [0, 1]: the originals, then shifted up, down, left and right."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))  # what moves in from outside is background
    moved = np.concatenate([padded[:, r : r + SIDE, c : c + SIDE] for r, c in SHIFTS])
    return torch.from_numpy(moved.reshape(len(moved), -1) / np.float32(LEVELS))


def _check_content(data: Dataset, findings: Findings) -> None:
    findings.require(fingerprint({"images": original_digits()}) == CONTENT, "its images are not the published ones")


def _check_range(data: Dataset, findings: Findings) -> None:
    low, high = torch.aminmax(torch.cat(list(data.splits.values())))
    findings.require(low.item() == 0 and high.item() == 1, f"its values run from {low} to {high}, expected 0 to 1")


DIGITS = Specification(
    name="digits",
    title="Digits",
    kind="soft",
    origin="scikit-learn",
    load=load_digits,
    checks=(shapes((6465, 720, 1800), (SIDE * SIDE,)), _check_content, _check_range, recorded("hash, shapes and range")),
    image_shape=(SIDE, SIDE),
    variable_names=pixel_names(SIDE, SIDE),
    versions=len(SHIFTS),
    in_table_1=True,
)
