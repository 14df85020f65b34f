"""Binary datasets: how they are specified, read and verified."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from qtcore.data import originals
from qtcore.data.checks import Findings, recorded, shapes
from qtcore.data.dataset import Dataset, Source
from qtcore.data.originals import RemoteFile
from qtcore.data.reading import Array, as_bits, fingerprint, read_npz, read_rows
from qtcore.data.specification import Specification
from qtcore.errors import DataError

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class StandIn:
    """Validation rows in ``prepared/`` that are split into three if the whole set is not on this machine."""

    stem: str
    """Name of the file in ``prepared/``, which has one array, `valid`."""
    content: str
    """`fingerprint` of the rows."""
    split_sizes: tuple[int, int, int]
    ones: int
    note: str


@dataclass(frozen=True)
class BinarySet:
    """What is known about a binary set before it is read.

    The originals are either one npz archive with `train_data`, `valid_data` and `test_data`, or three text files of
    comma-separated rows.
    """

    name: str
    title: str
    origin: str
    files: tuple[RemoteFile, ...]
    n_variables: int
    rows: tuple[int, int, int]
    prepared: str | None = None
    """`fingerprint` of the arrays in ``prepared/``; None if there is no such file."""
    row_set: str | None = None
    """`row_fingerprint` of all rows together: the same for the original and for a rearranged copy."""
    ones: int | None = None
    """Number of ones in all rows together."""
    rearranged: str = ""
    """How ``prepared/`` differs from the standard order; empty if it does not."""
    stand_in: StandIn | None = None
    note: str = "MADE's original file."
    """Note of a dataset that was read from the originals."""
    short_title: str = ""
    image_shape: tuple[int, int] | None = None
    variable_names: tuple[str, ...] | None = None
    in_table_1: bool = True

    @property
    def specification(self) -> Specification:
        return Specification(
            name=self.name,
            title=self.title,
            kind="binary",
            origin=self.origin,
            load=self.load,
            checks=(self._check_shapes, self._check_ones, self._check_rows, recorded("hash, shapes and density")),
            files=self.files,
            prepared=self._prepared_source if self.prepared else None,
            stand_in=self.stand_in.stem if self.stand_in else None,
            short_title=self.short_title,
            image_shape=self.image_shape,
            variable_names=self.variable_names,
            in_table_1=self.in_table_1,
        )

    def load(self) -> Dataset:
        """Exact bits as float32 [n, V]."""
        arrays, source, note = self._read()
        train, valid, test = (torch.from_numpy(arrays[split].astype(np.float32)) for split in SPLITS)
        return Dataset(
            name=self.name,
            kind="binary",
            train=train,
            valid=valid,
            test=test,
            source=source,
            note=note,
            image_shape=self.image_shape,
            variable_names=self.variable_names,
        )

    @property
    def _prepared_source(self) -> Source:
        return "rearranged" if self.rearranged else "exact"

    def _read(self) -> tuple[dict[str, Array], Source, str]:
        """The three splits as uint8, their source, and how they were made."""
        path = originals.prepared(self.name) if self.prepared else None
        if path:
            return self._read_prepared(path), self._prepared_source, self._prepared_note
        local = [originals.read_local(file) for file in self.files]
        path = originals.prepared(self.stand_in.stem) if self.stand_in else None
        # The stand-in never shadows the whole set, but it does keep an offline machine from asking the network.
        if self.stand_in and path and not all(local):
            return _split(path, self.stand_in, self.n_variables), "stand-in", self.stand_in.note
        contents = [copy[1] if copy else originals.fetch(file) for file, copy in zip(self.files, local, strict=True)]
        if len(self.files) == 1:
            place = self.files[0].path
            arrays = read_npz(contents[0], place, tuple(f"{split}_data" for split in SPLITS))
            return self._checked({split: arrays[f"{split}_data"] for split in SPLITS}, place), "exact", self.note
        splits = [read_rows(data, file.path, self.n_variables) for file, data in zip(self.files, contents, strict=True)]
        return self._checked(dict(zip(SPLITS, splits, strict=True)), self.name), "exact", self.note

    def _read_prepared(self, path: Path) -> dict[str, Array]:
        arrays = self._checked(read_npz(path, path, SPLITS), path)
        if fingerprint(arrays) != self.prepared:
            raise DataError(f"{path} holds other rows than the published ones; replace or remove it.")
        return arrays

    @property
    def _prepared_note(self) -> str:
        return f"Prepared arrays: {self.rearranged or 'the standard rows in the standard order'}."

    def _checked(self, arrays: dict[str, Array], origin: object) -> dict[str, Array]:
        return {
            split: as_bits(arrays[split], f"{origin} ({split})", (n_rows, self.n_variables))
            for split, n_rows in zip(SPLITS, self.rows, strict=True)
        }

    def _stand_in_of(self, data: Dataset) -> StandIn | None:
        """The stand-in, if `data` were made from it."""
        return self.stand_in if data.source == "stand-in" else None

    def _check_shapes(self, data: Dataset, findings: Findings) -> None:
        stand_in = self._stand_in_of(data)
        shapes(stand_in.split_sizes if stand_in else self.rows, (self.n_variables,))(data, findings)

    def _check_ones(self, data: Dataset, findings: Findings) -> None:
        stand_in = self._stand_in_of(data)
        expected = stand_in.ones if stand_in else self.ones
        if expected is not None:
            ones = sum(int(rows.sum(dtype=torch.float64)) for rows in data.splits.values())
            findings.require(ones == expected, f"it has {ones} ones, expected {expected}")

    def _check_rows(self, data: Dataset, findings: Findings) -> None:
        if self.row_set is not None and not self._stand_in_of(data):
            rows = row_fingerprint({split: values.numpy() for split, values in data.splits.items()})
            findings.require(rows == self.row_set, f"its rows are not the published ones (sha256 {rows})")


def row_fingerprint(arrays: dict[str, Array]) -> str:
    """`fingerprint` of the sorted rows of all splits: independent of their order and of the split."""
    packed = np.packbits(np.concatenate([arrays[split].astype(np.uint8) for split in SPLITS]), axis=1)
    return fingerprint({"rows": packed[np.lexsort(packed.T[::-1])]})


def _split(path: Path, known: StandIn, n_variables: int) -> dict[str, Array]:
    valid = as_bits(read_npz(path, path, ("valid",))["valid"], f"{path} (valid)", (sum(known.split_sizes), n_variables))
    if fingerprint({"valid": valid}) != known.content:
        raise DataError(f"{path} holds other rows than the published ones; replace or remove it.")
    return dict(zip(SPLITS, np.split(valid, np.cumsum(known.split_sizes)[:-1]), strict=True))
