"""MNIST, as it came."""

import torch

from qtcore.data import registry
from qtcore.data.dataset import Dataset
from qtcore.data.reading import read_idx
from qtcore.errors import DataError

SIDE = 28
N_TRAIN, N_TEST = 60_000, 10_000
N_VALID = 5_000  # the last training digits


def load_mnist() -> Dataset:
    """MNIST: uint8 [n, 28, 28], the digits themselves in `truth`; the last 5,000 training digits are `valid`."""
    parts = []
    for file, shape in zip(
        registry.FILES["mnist"], [(N_TRAIN, SIDE, SIDE), (N_TRAIN,), (N_TEST, SIDE, SIDE), (N_TEST,)], strict=True
    ):
        array = read_idx(registry.read(file), file.path)
        if array.shape != shape:
            raise DataError(f"{file.path} has shape {array.shape}; expected {shape}.")
        parts.append(torch.from_numpy(array.copy()))  # a view of bytes cannot be written to, and torch minds
    images, digits, test_images, test_digits = parts
    n = N_TRAIN - N_VALID
    return Dataset(
        name="mnist",
        kind="image",
        train=images[:n],
        valid=images[n:],
        test=test_images,
        source="exact",
        note="The original images; the last 5,000 training digits are the validation part.",
        image_shape=(SIDE, SIDE),
        truth={"train": digits[:n], "valid": digits[n:], "test": test_digits},
    )
