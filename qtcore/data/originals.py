"""Original files: where their bytes come from and how they are verified.

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
from qtcore.support.files import cache_folder

log = logging.getLogger(__name__)

Hash = Literal["sha256", "git blob id", "sha256 of the unpacked bytes"]
GITHUB = "https://raw.githubusercontent.com"

MAX_UNPACKED = 1 << 26  # bytes; the largest original unpacks to 47 MB, so more is a bomb or another file


@dataclass(frozen=True)
class RemoteFile:
    """One original file: its place below ``raw/`` and the cache, its addresses, and the hash that proves it."""

    path: str
    urls: tuple[str, ...]
    check: Hash
    digest: str

    def content(self, data: bytes) -> bytes | None:
        """The content of `data` (unpacked, if the file is a gzip), or None if the hash is wrong."""
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


def data_folder() -> Path | None:
    """The folder named by QTCORE_DATA, or None if the variable is not set."""
    name = os.environ.get("QTCORE_DATA")
    if not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise DataError(f"QTCORE_DATA names {folder}, which is not a folder; correct the variable or unset it.")
    return folder


def prepared(stem: str) -> Path | None:
    """The file ``prepared/<stem>.npz`` in QTCORE_DATA, or None if there is none."""
    folder = data_folder()
    path = folder / "prepared" / f"{stem}.npz" if folder else None
    return path if path is not None and path.is_file() else None


def copies(file: RemoteFile) -> Iterator[tuple[Path, bytes | None]]:
    """The copies of an original on this machine, in order of preference: path and content.

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
    """The first valid copy on this machine and its content, or None; damaged copies are skipped."""
    for path, content in copies(file):
        if content is not None:
            return path, content
        log.warning("%s is damaged (its %s is wrong) or cannot be read, and is not used.", path, file.check)
    return None


def read(file: RemoteFile) -> bytes:
    """The content of an original, downloaded into the cache if there is no valid copy on this machine."""
    local = read_local(file)
    return local[1] if local else fetch(file)


def fetch(file: RemoteFile) -> bytes:
    """Download an original into the cache, overwriting any file there, and return its content."""
    mirror = os.environ.get("QTCORE_MIRROR")
    urls = (f"{mirror.rstrip('/')}/{file.path}",) if mirror else file.urls
    return download(urls, cache_folder() / file.path, file.content)
