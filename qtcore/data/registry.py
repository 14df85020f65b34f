"""Where the bytes of the datasets come from, and how we know that they are the right ones.

The order is: the folder that QTCORE_DATA names (arrays in ``prepared/``, originals in ``raw/``), the cache folder
(pooch's default for this machine; QTCORE_CACHE moves it), the public addresses (QTCORE_MIRROR replaces them by
another server that holds the same files in the layout of ``raw/``). Whatever the place, an original is used only
when its hash is right.
"""

import gzip
import hashlib
import logging
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

from qtcore.data.download import download
from qtcore.errors import DataError
from qtcore.files import cache_folder

log = logging.getLogger(__name__)

MAX_UNPACKED = 1 << 26  # bytes; the largest original unpacks to 47 MB, so more is a bomb or another file


@dataclass(frozen=True)
class RemoteFile:
    """One original file: its place below ``raw/`` and the cache, its addresses, and the hash that proves it."""

    path: str
    urls: tuple[str, ...]
    check: Literal["sha256", "git blob id", "sha256 of the unpacked bytes"]
    digest: str

    def content(self, data: bytes) -> bytes | None:
        """The useful bytes in `data` (unpacked, where the file is a gzip), or None when the hash is wrong."""
        if self.check == "sha256":
            return data if hashlib.sha256(data).hexdigest() == self.digest else None
        if self.check == "git blob id":
            blob = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
            blob.update(data)
            return data if blob.hexdigest() == self.digest else None
        try:
            with gzip.open(BytesIO(data)) as file:
                unpacked = file.read(MAX_UNPACKED)
        except (OSError, EOFError, zlib.error):
            return None
        return unpacked if hashlib.sha256(unpacked).hexdigest() == self.digest else None


_GITHUB = "https://raw.githubusercontent.com"
_MADE = f"{_GITHUB}/mgermain/MADE/514849eb9451311c02049f9e2d9a17fac589996a/datasets"
_UCLA = f"{_GITHUB}/UCLA-StarAI/Density-Estimation-Datasets/37d53c1a8ba488d0a39e8c64bd3387577080b143/datasets"
_FACES = f"{_GITHUB}/jmtomczak/vae_vampprior/bb6ff3e58036adbea448e82d7bc55593d605b52c/datasets/Freyfaces"
_SPLIT = f"{_GITHUB}/casperkaae/extra_parmesan/2c4e778f81f9f98177979eec2c7110332c550b63/data_splits"
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")


def _made(name: str, check: Literal["sha256", "git blob id"], digest: str) -> tuple[RemoteFile, ...]:
    return (RemoteFile(f"made/{name}.npz", (f"{_MADE}/{name}.npz",), check, digest),)


def _rcv1(part: str, digest: str) -> RemoteFile:
    name = f"rcv1.{part}.data"
    return RemoteFile(f"ucla/{name}", (f"{_UCLA}/rcv1/{name}",), "git blob id", digest)


def _mnist(name: str, digest: str) -> RemoteFile:
    # The mirrors may compress differently, so the hash is that of the unpacked bytes.
    urls = tuple(f"{base}/{name}" for base in _MNIST)
    return RemoteFile(f"mnist/{name}", urls, "sha256 of the unpacked bytes", digest)


_MNIST_FILES = (
    _mnist("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _mnist("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    _mnist("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _mnist("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)

FILES: dict[str, tuple[RemoteFile, ...]] = {
    "adult": _made("adult", "git blob id", "cf506ae6b4a4b818a92a6c951d334e61eeb27d81"),
    "connect4": _made("connect4", "git blob id", "4685318ab6aabc98eec09b93ad4fa5debc24ec93"),
    "digits": (),  # comes with scikit-learn
    "dna": _made("dna", "sha256", "df2d2e7ce1469edfead15e41024e108d64f1b4633cfecfc40ef7107cc22c895c"),
    "mushrooms": _made("mushrooms", "sha256", "4130f1defa3033911fe746a3ab1bb22b0c812bb29e68391a0fbc2d65bab6ae74"),
    "nips": _made("nips", "sha256", "dbf3b659a49670957c0851971bd51ff952a657f010581d12f6c1e2dca8907b20"),
    "ocr_letters": _made("ocr_letters", "git blob id", "b472383a2ddeddbc87b4e3019a3bd47736bddb37"),
    "rcv1": (
        _rcv1("train", "25ee49d9df5566669d5994db5acf32844d8f4f7b"),
        _rcv1("valid", "890d4558bcb738690ef775a4fbdeb7ef9511d377"),
        _rcv1("test", "0d9b096f4b8a62dec4634f3f87a73e292b5cffc8"),
    ),
    "web": _made("web", "git blob id", "a565424fc5782cb99d79788618cd6c332440a8a1"),
    "frey": (
        RemoteFile(
            "frey/freyfaces.pkl",
            (f"{_FACES}/freyfaces.pkl",),
            "sha256",
            "3b69410c6a5fd6e03f09012905168be3712373a094a776f7e58fcd0670d2138a",
        ),
        RemoteFile(
            "frey/frey_faces_fixed_split.pkl",
            (f"{_SPLIT}/frey_faces_fixed_split.pkl",),
            "sha256",
            "e188742e0f2adb0271d6a93010bfa3c0f889d6259d23d9288d95abc7ebe3e896",
        ),
    ),
    "mnist": _MNIST_FILES,
    "border": _MNIST_FILES,
    "glyphs": (),  # drawn on this machine
    "border-glyphs": (),
}


def data_folder() -> Path | None:
    """The folder that QTCORE_DATA names, or None when the variable is not set."""
    name = os.environ.get("QTCORE_DATA")
    if not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise DataError(f"QTCORE_DATA names {folder}, which is not a folder; correct the variable or unset it.")
    return folder


def prepared(stem: str) -> Path | None:
    """The file ``prepared/<stem>.npz`` in QTCORE_DATA, or None when there is none."""
    folder = data_folder()
    path = folder / "prepared" / f"{stem}.npz" if folder else None
    return path if path is not None and path.is_file() else None


def copies(file: RemoteFile) -> Iterator[tuple[Path, bytes | None]]:
    """The copies of an original on this machine, in the order in which they are asked: path and useful bytes.

    The bytes are None where the hash is wrong or the file cannot be read. They are the very bytes that were hashed,
    so that nobody can change the file in between.
    """
    folder = data_folder()
    for path in [*([folder / "raw" / file.path] if folder else []), cache_folder() / file.path]:
        try:
            yield path, file.content(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield path, None


def read_local(file: RemoteFile) -> tuple[Path, bytes] | None:
    """The first right copy on this machine and its useful bytes, or None; wrong copies are passed over."""
    for path, content in copies(file):
        if content is not None:
            return path, content
        log.warning("%s is damaged (its %s is wrong) or cannot be read, and is not used.", path, file.check)
    return None


def read(file: RemoteFile) -> bytes:
    """The useful bytes of an original, fetched into the cache when no right copy is on this machine."""
    local = read_local(file)
    return local[1] if local else fetch(file)


def fetch(file: RemoteFile) -> bytes:
    """Download an original into the cache, whatever lies there, and return its useful bytes."""
    mirror = os.environ.get("QTCORE_MIRROR")
    urls = (f"{mirror.rstrip('/')}/{file.path}",) if mirror else file.urls
    return download(urls, cache_folder() / file.path, file.content)
