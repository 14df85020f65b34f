"""Atomic file writes (a temporary file, a flush to the disk, a rename), and our cache folder."""

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: "str | os.PathLike[str]", write: "bytes | str | Callable[[Path], None]") -> Path:
    """Write bytes, text, or the output of `write(temporary_path)` to `path` atomically.

    The temporary file lies in the same folder (a rename must not cross file systems) and is removed when
    anything goes wrong, so that a full disk or a Ctrl-C leaves the old file as it was.
    """
    path = Path(os.path.realpath(path))  # follow symbolic links
    if path.exists() and not path.is_file():  # a rename would replace a folder, a device or a pipe by a file
        raise OSError(f"{path} is not an ordinary file, so nothing is written there; give the name of a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        if callable(write):
            write(temporary)
        elif isinstance(write, str):
            temporary.write_text(write, encoding="utf-8")
        else:
            temporary.write_bytes(write)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp creates private files
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.filename is None:  # such as "No space left on device": add the path
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    return path


def cache_folder() -> Path:
    """Folder of downloads and compiled kernels: QTCORE_CACHE, or the user's cache folder."""
    with warnings.catch_warnings():  # pooch loads a progress bar that, in a notebook, asks for a package we do not need
        warnings.simplefilter("ignore")
        import pooch
    return Path(os.environ.get("QTCORE_CACHE") or pooch.os_cache("qtcore")).expanduser()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut (not possible on Windows, where it is not needed)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
