"""Readers that accept only the plain arrays they expect."""

import hashlib
import io
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from qtcore.errors import DataError

Array = np.ndarray[Any, np.dtype[Any]]


def read_npz(source: bytes | os.PathLike[str], name: object, keys: tuple[str, ...]) -> dict[str, Array]:
    """The arrays `keys` of an npz file, given as its path or its bytes; `name` is for error messages."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "created on Python 2": true of MADE's files, and harmless
            file = np.load(io.BytesIO(source) if isinstance(source, bytes) else source, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DataError(f"{name} is not an npz archive.")
            with file:
                missing = [key for key in keys if key not in file.files]
                if missing:
                    held = ", ".join(sorted(file.files)) or "nothing"
                    raise DataError(f"{name} has no array named {' or '.join(missing)}; it holds {held}.")
                arrays = {key: file[key] for key in keys}
                # numpy returns a member that is not an array as bytes
                if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                    raise DataError(f"{name} holds something other than arrays.")
                return arrays
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(f"{name} cannot be read as an npz archive of plain arrays ({_line(error)}).") from error


def read_rows(data: bytes, name: object, n_variables: int) -> Array:
    """A text file of comma-separated 0/1 rows as uint8 [rows, n_variables]."""
    width = 2 * n_variables  # digit, comma, digit, …, newline
    if not data or len(data) % width:
        raise DataError(f"{name} is not made of lines with {n_variables} comma-separated values.")
    cells = np.frombuffer(data, np.uint8).reshape(-1, width)
    commas_right = (cells[:, 1:-1:2] == ord(",")).all() and (cells[:, -1] == ord("\n")).all()
    rows = cells[:, ::2] - np.uint8(ord("0"))
    if not commas_right or (rows > 1).any():
        raise DataError(f"{name} holds something other than comma-separated zeros and ones.")
    return rows


def read_idx(data: bytes, name: object) -> Array:
    """An (unpacked) IDX file of bytes, MNIST's format, as a uint8 array."""
    n_axes = data[3] if len(data) > 4 and data[:3] == b"\0\0\x08" else 0
    if n_axes == 0 or len(data) < 4 + 4 * n_axes:
        raise DataError(f"{name} is not an IDX file of bytes.")
    shape = struct.unpack_from(f">{n_axes}I", data, 4)
    if len(data) != 4 + 4 * n_axes + np.prod(shape, dtype=object):
        raise DataError(f"{name} says that its shape is {shape} but has another number of bytes.")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


class _ArraysOnly(pickle.Unpickler):
    """An unpickler for numpy arrays and Python's own containers that refuses every other name."""

    _reconstruct = np.empty(0).__reduce__()[0]  # its module differs between versions of numpy
    _allowed = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise DataError(f"a pickle asks for {module}.{name}; only numpy arrays are read.")
        return self._allowed[module, name]


def read_pickled_arrays(data: bytes, name: object) -> list[Array]:
    """The integer arrays of a pickled list (Python 2 or 3). Call it only on bytes whose hash is right."""
    try:
        arrays = _ArraysOnly(io.BytesIO(data), encoding="latin1").load()
    except DataError as error:
        raise DataError(f"{name} is refused: {error}") from None
    except Exception as error:  # a broken pickle can raise anything
        raise DataError(f"{name} cannot be read as a pickle of arrays ({_line(error)}).") from error
    if not isinstance(arrays, list) or not all(isinstance(a, np.ndarray) and a.dtype.kind in "iu" for a in arrays):
        raise DataError(f"{name} holds something other than a list of integer arrays.")
    return arrays


def as_bits(array: Array, name: object, shape: tuple[int, ...]) -> Array:
    """`array` as uint8; raises a DataError unless it has this shape and holds only zeros and ones."""
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape}; expected {shape}.")
    if array.dtype.kind not in "buif":
        raise DataError(f"{name} has dtype {array.dtype}; expected numbers.")
    bits: Array = array.astype(np.uint8, copy=False) if array.dtype.kind != "f" else (array == 1).astype(np.uint8)
    if not ((array == 0) | (array == 1)).all():
        raise DataError(f"{name} holds values other than 0 and 1.")
    return bits


def fingerprint(arrays: Mapping[str, Array]) -> str:
    """sha256 of arrays: of their names, shapes, dtypes and values in this order, independent of the file format."""
    digest = hashlib.sha256()
    for key, array in arrays.items():
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{key} {little.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(little).tobytes())
    return digest.hexdigest()


def _line(error: BaseException) -> str:
    """The first line of an error's text."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
