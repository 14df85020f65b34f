"""MNIST, unprocessed."""

import torch

from qtcore.data import originals
from qtcore.data.checks import recorded, shapes
from qtcore.data.dataset import Dataset
from qtcore.data.originals import RemoteFile
from qtcore.data.reading import read_idx
from qtcore.data.specification import Specification
from qtcore.errors import DataError

SIDE = 28
N_TRAIN, N_TEST = 60_000, 10_000
N_VALID = 5_000  # the last training digits
ROWS = (N_TRAIN - N_VALID, N_VALID, N_TEST)

_SERVERS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")


def _file(name: str, digest: str) -> RemoteFile:
    # The servers may compress differently, so the hash is that of the unpacked bytes.
    urls = tuple(f"{base}/{name}" for base in _SERVERS)
    return RemoteFile(f"mnist/{name}", urls, "sha256 of the unpacked bytes", digest)


FILES = (
    _file("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _file("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    _file("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _file("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)


def load_mnist() -> Dataset:
    """MNIST: uint8 [n, 28, 28], the digits themselves in `truth`; the last 5,000 training digits are `valid`."""
    tensors = []
    expected = ((N_TRAIN, SIDE, SIDE), (N_TRAIN,), (N_TEST, SIDE, SIDE), (N_TEST,))
    for file, shape in zip(FILES, expected, strict=True):
        array = read_idx(originals.read(file), file.path)
        if array.shape != shape:
            raise DataError(f"{file.path} has shape {array.shape}; expected {shape}.")
        tensors.append(torch.from_numpy(array.copy()))  # torch warns about a view of bytes, which is read-only
    images, digits, test_images, test_digits = tensors
    n = N_TRAIN - N_VALID
    return Dataset(
        name="mnist",
        kind="image",
        train=images[:n],
        valid=images[n:],
        test=test_images,
        source="exact",
        note="The original images; the last 5,000 training digits are the validation split.",
        image_shape=(SIDE, SIDE),
        truth={"train": digits[:n], "valid": digits[n:], "test": test_digits},
    )


MNIST = Specification(
    name="mnist",
    title="MNIST",
    kind="image",
    origin="MNIST",
    load=load_mnist,
    checks=(shapes(ROWS, (SIDE, SIDE)), recorded("hashes and shapes")),
    files=FILES,
    image_shape=(SIDE, SIDE),
)
