"""The eight binary sets of the paper's first table."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from qtcore.data import registry
from qtcore.data.dataset import Dataset, Source
from qtcore.data.reading import Array, as_bits, fingerprint, read_npz, read_rows
from qtcore.data.variables import variable_names
from qtcore.errors import DataError

SPLITS = ("train", "valid", "test")
RCV1_CUT = (8000, 1000, 1000)  # what becomes of RCV1's validation rows where nothing else can be had
RCV1_NOTE = (
    "Only the 10,000 validation rows are here, cut 8000/1000/1000, so no figure compares with the paper; "
    "`python -m qtcore.fetch rcv1` gets the whole set."
)


@dataclass(frozen=True)
class BinarySet:
    """What is known of a set before it is read."""

    n_variables: int
    rows: tuple[int, int, int]
    prepared: str | None = None
    """`fingerprint` of the arrays in ``prepared/``; None where there is no such file."""
    row_set: str | None = None
    """`row_fingerprint` of all rows together: the same for the original and for a rearranged copy."""
    ones: int | None = None
    """How many ones all rows together have."""
    rearranged: str = ""
    """What differs in ``prepared/`` from the standard order; nothing, where it is empty."""


_TEST_ORDER = "train and validation rows stand in the standard order, the test rows are the standard set in another order"
_OWN_CUT = "the test rows are the standard ones, the cut of the others into train and validation is our own (seed 0)"

SETS = {
    "adult": BinarySet(
        n_variables=123,
        rows=(5000, 1414, 26147),
        prepared="ea0ab7f9367935854c8b4960e5a1493b091b019f00ca4b24de07918cf3a9933f",
        row_set="199c9c51dcbbc5a7dc1bb9f9535a355ecb4361a04d5d3ef30972d5826ef8c4a4",
        ones=451592,
        rearranged=_TEST_ORDER,
    ),
    "connect4": BinarySet(
        n_variables=126,
        rows=(16000, 4000, 47557),
        prepared="3f02a83d27cc1536d324f011b9d58c1e574a2d754b779638b29af0c80f4539a1",
        row_set="87ccce377b07012a3d995bcd1c107e87fbf3e20d89ce952785727dde7e420d12",
        ones=2837394,
        rearranged=_TEST_ORDER,
    ),
    "dna": BinarySet(
        n_variables=180,
        rows=(1400, 600, 1186),
        prepared="e6eacfc736a1f459fc2a90dbb5a5f0157ad6084f6efd5210375779c3f15b12b2",
        row_set="f35a6b52a5d646d783ffc55fb5b9e31b0d52b95ff9b2437ca9f8dec6934138e5",
        ones=144902,
    ),
    "mushrooms": BinarySet(
        n_variables=112,
        rows=(2000, 500, 5624),
        prepared="8bea93319938a6c965b7c2eddd102dba514e96f35380df77f666a0218ad4ea8a",
        row_set="3b794ce50e76635de40135885774b9502070580a2ea3782942c5c66b4599d405",
        ones=170604,
    ),
    "nips": BinarySet(
        n_variables=500,
        rows=(400, 100, 1240),
        prepared="6458a85d08462911dfada7b9da5cdcd772dcf356f41ed39a9acaa240ef76d223",
        row_set="80a93ddbda875cdc54303cbfa774bc18e70fdeafdbd7e80289f3ed51cb3a8e86",
        ones=319072,
    ),
    "ocr_letters": BinarySet(
        n_variables=128,
        rows=(32152, 10000, 10000),
        prepared="166ec212834245eb8b3266bfd5b765379716359e16e514b5aed0ce9714e74c34",
        row_set="280f8911b91d496ea0995fa17633a9b7c05bf96f9a6d1c651e8524d00af1d812",
        ones=1466486,
    ),
    "rcv1": BinarySet(
        n_variables=150,
        rows=(40000, 10000, 150000),
    ),
    "web": BinarySet(
        n_variables=300,
        rows=(14000, 3188, 32561),
        prepared="1c3bc38e119f9140ea13d9ead0251eb7195fa676e611669983b541868c874bf1",
        row_set="12b3739d38a1dc734fb331abb69e4c6edabd69ff7def9bee36874e96c6fcd787",
        ones=579586,
        rearranged=_OWN_CUT,
    ),
}
RCV1_VALID = "f453bec4d6609c90985464b8b35ae119e1b0a9c306ce7a89738cd7bcdb336f71"  # `fingerprint` of its validation rows
RCV1_VALID_ONES = 207003


def load_binary(name: str) -> Dataset:
    """One of the binary sets: exact bits as float32 [n, V]."""
    arrays, source, note = _read(name)
    train, valid, test = (torch.from_numpy(arrays[split].astype(np.float32)) for split in SPLITS)
    return Dataset(
        name=name,
        kind="binary",
        train=train,
        valid=valid,
        test=test,
        source=source,
        note=note,
        image_shape=(16, 8) if name == "ocr_letters" else None,
        variable_names=variable_names(name),
    )


def row_fingerprint(arrays: dict[str, Array]) -> str:
    """`fingerprint` of all rows of all parts, sorted: it does not depend on their order or on the cut."""
    packed = np.packbits(np.concatenate([arrays[split].astype(np.uint8) for split in SPLITS]), axis=1)
    return fingerprint({"rows": packed[np.lexsort(packed.T[::-1])]})


def _read(name: str) -> tuple[dict[str, Array], Source, str]:
    """The three parts as uint8, where they came from, and how they were made."""
    known = SETS[name]
    path = registry.prepared(name) if known.prepared else None
    if path:
        arrays = _checked(read_npz(path, path, SPLITS), path, name)
        if fingerprint(arrays) != known.prepared:
            raise DataError(f"{path} holds other rows than the published ones; replace or remove it.")
        if known.rearranged:
            return arrays, "rearranged", f"Prepared arrays: {known.rearranged}."
        return arrays, "exact", "Prepared arrays: the standard rows in the standard order."
    if name == "rcv1":
        return _read_rcv1()
    (file,) = registry.FILES[name]
    found = read_npz(registry.read(file), file.path, tuple(f"{split}_data" for split in SPLITS))
    arrays = {split: found[f"{split}_data"] for split in SPLITS}
    return _checked(arrays, file.path, name), "exact", "MADE's original file."


def _read_rcv1() -> tuple[dict[str, Array], Source, str]:
    """RCV1 from its three originals, or a stand-in when only its validation rows are on this machine."""
    files = registry.FILES["rcv1"]
    local = [registry.read_local(file) for file in files]
    stand_in = registry.prepared("rcv1_valid_only")
    # The stand-in never shadows the whole set, but it does keep an offline machine from asking the network.
    if stand_in and not all(local):
        return _cut_rcv1(stand_in), "stand-in", RCV1_NOTE
    arrays = {
        split: read_rows(found[1] if found else registry.fetch(file), file.path, SETS["rcv1"].n_variables)
        for split, file, found in zip(SPLITS, files, local, strict=True)
    }
    return _checked(arrays, "rcv1", "rcv1"), "exact", "UCLA's original files."


def _cut_rcv1(path: Path) -> dict[str, Array]:
    valid = as_bits(read_npz(path, path, ("valid",))["valid"], f"{path} (valid)", (sum(RCV1_CUT), 150))
    if fingerprint({"valid": valid}) != RCV1_VALID:
        raise DataError(f"{path} holds other rows than the published ones; replace or remove it.")
    return dict(zip(SPLITS, np.split(valid, np.cumsum(RCV1_CUT)[:-1]), strict=True))


def _checked(arrays: dict[str, Array], origin: object, name: str) -> dict[str, Array]:
    known = SETS[name]
    return {
        split: as_bits(arrays[split], f"{origin} ({split})", (n_rows, known.n_variables))
        for split, n_rows in zip(SPLITS, known.rows, strict=True)
    }
