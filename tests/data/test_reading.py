"""Readers meet files made by someone who wishes us ill, or who was careless."""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from qtcore.data import binary, frey, load
from qtcore.data.binary_sets import SETS
from qtcore.data.reading import as_bits, fingerprint, read_idx, read_npz, read_pickled_arrays, read_rows
from qtcore.errors import DataError


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


class Attack:
    """Unpickles to a call of `function`."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple:
        return self.call


def python2_pickle(array: np.ndarray) -> bytes:
    """What Python 2 wrote for a list of one uint8 array: the form of the published faces."""
    text = repr(array.tobytes())[1:]
    shape = "".join(f"I{n}\n" for n in array.shape)
    return (
        "(lp0\ncnumpy.core.multiarray\n_reconstruct\np1\n(cnumpy\nndarray\np2\n(I0\ntp3\nS'b'\np4\ntp5\nRp6\n"
        f"(I1\n({shape}tp7\ncnumpy\ndtype\np8\n(S'u1'\np9\nI0\nI1\ntp10\nRp11\n(I3\nS'|'\np12\nNNNI-1\nI-1\nI0\ntp13\n"
        f"bI00\nS{text}\np14\ntp15\nba."
    ).encode("ascii")


def test_pickled_arrays_of_old_and_new_python() -> None:
    array = np.arange(256, dtype=np.uint8).reshape(4, 64)
    for data in (python2_pickle(array), pickle.dumps([array], protocol=3)):
        (result,) = read_pickled_arrays(data, "x.pkl")
        assert result.dtype == np.uint8
        np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("nested", [False, True])
def test_malicious_pickle_is_refused_and_nothing_runs(tmp_path: Path, protocol: int, nested: bool) -> None:
    marker = tmp_path / "ran"
    attack: object = Attack(os.system, f"touch {marker}")
    if nested:
        attack = np.array([attack], dtype=object)
    data = pickle.dumps([attack], protocol)
    with pytest.raises(DataError, match="only numpy arrays are read") as failure:
        read_pickled_arrays(data, "evil.pkl")
    assert str(failure.value).startswith("evil.pkl is refused: a pickle asks for ")
    assert not marker.exists()
    pickle.loads(data)  # the attack is a real one: the ordinary unpickler does run it
    assert marker.exists()


@pytest.mark.parametrize("function", [eval, exec, np.load, np.frombuffer, getattr, __import__])
def test_other_names_are_refused(function: object) -> None:
    with pytest.raises(DataError, match="only numpy arrays are read"):
        read_pickled_arrays(pickle.dumps(Attack(function, "1")), "x.pkl")


@pytest.mark.parametrize("data", [b"", b"nonsense", python2_pickle(np.zeros((2, 2), np.uint8))[:-30], b"\x80\x05K\x01."])
def test_broken_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(DataError, match=r"x\.pkl"):
        read_pickled_arrays(data, "x.pkl")


@pytest.mark.parametrize("content", [{}, [1], [np.zeros(3)], np.zeros(3, int), [np.array(["a"])]])
def test_pickles_of_other_things_are_refused(content: object) -> None:
    """Those that consist of allowed names alone, but are no list of integer arrays."""
    with pytest.raises(DataError, match=r"x\.pkl holds something other than a list of integer arrays"):
        read_pickled_arrays(pickle.dumps(content, protocol=3), "x.pkl")


def test_no_pickle_is_opened_before_its_hash_matched(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "ran"
    opened = []
    monkeypatch.setattr(frey, "read_pickled_arrays", lambda data, name: opened.append(name))
    for name in ("freyfaces.pkl", "frey_faces_fixed_split.pkl"):
        (cache / "frey").mkdir(parents=True, exist_ok=True)
        (cache / "frey" / name).write_bytes(pickle.dumps(Attack(os.system, f"touch {marker}")))
    with pytest.raises(DataError, match="could not be fetched"):
        load("frey")
    assert opened == []
    assert not marker.exists()


def test_npz() -> None:
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.ones(2, np.float32)}
    result = read_npz(npz(**arrays), "x.npz", ("a",))
    assert list(result) == ["a"]
    np.testing.assert_array_equal(result["a"], arrays["a"])


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


def _zip(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, content)
    return buffer.getvalue()


WRONG_NPZ = {
    "empty": b"",
    "nonsense": b"nonsense" * 100,
    "a bare array": _npy(),
    "truncated": npz(a=np.arange(10000))[:-60],
    "damaged inside": npz(a=np.arange(10000))[:500] + b"xxxx" + npz(a=np.arange(10000))[504:],
    "another key": npz(b=np.zeros(3)),
    "objects": npz(a=np.array([{}, None], dtype=object)),
    "no array inside": _zip("a.npy", b"not an array"),
    "a pickle": pickle.dumps({"a": np.zeros(3)}),
}


@pytest.mark.parametrize("data", WRONG_NPZ.values(), ids=WRONG_NPZ.keys())
def test_wrong_npz_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match=r"x\.npz") as failure:
        read_npz(data, "x.npz", ("a",))
    assert "\n" not in str(failure.value)


def test_bits() -> None:
    for dtype in (np.uint8, np.float32, bool, np.int64):
        bits = as_bits(np.array([[0, 1, 1]], dtype=dtype), "x", (1, 3))
        assert bits.dtype == np.uint8
        assert bits.tolist() == [[0, 1, 1]]
    for wrong, words in [
        (np.zeros((3, 1)), r"shape \(3, 1\); expected \(1, 3\)"),
        (np.array([[0, 1, 2]]), "values other than 0 and 1"),
        (np.array([[0, 1, 257]]), "values other than 0 and 1"),  # 257 is 1 modulo 256
        (np.array([[0, 1, -255]]), "values other than 0 and 1"),
        (np.array([[0, 1, 0.5]]), "values other than 0 and 1"),
        (np.array([[0, 1, np.nan]]), "values other than 0 and 1"),
        (np.array([["0", "1", "1"]]), "expected numbers"),
    ]:
        with pytest.raises(DataError, match=words):
            as_bits(wrong, "x", (1, 3))


def test_rows() -> None:
    rows = np.random.default_rng(0).integers(2, size=(7, 5))
    text = "".join(",".join(map(str, row)) + "\n" for row in rows).encode()
    np.testing.assert_array_equal(read_rows(text, "x", 5), rows)
    for wrong in (b"", text[:-1], text.replace(b"1", b"2"), text.replace(b",", b" "), text.replace(b"\n", b","), text + b"\n"):
        with pytest.raises(DataError, match="comma-separated"):
            read_rows(wrong, "x", 5)
    with pytest.raises(DataError, match="lines with 4"):
        read_rows(text[:30], "x", 4)


def test_idx() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    data = b"\0\0\x08\x03" + struct.pack(">3I", *array.shape) + array.tobytes()
    np.testing.assert_array_equal(read_idx(data, "x"), array)
    huge = b"\0\0\x08\x03" + struct.pack(">3I", 2**31, 2**31, 4) + array.tobytes()  # 2**64: overflows to zero
    for wrong in (b"", data[:3], data[:10], data[:-1], data + b"x", b"\0\0\x0d\x03" + data[4:], b"\0\0\x08\0" + data[4:], huge):
        with pytest.raises(DataError, match=r"^x "):
            read_idx(wrong, "x")


def test_fingerprint_sees_values_shape_dtype_and_name_but_not_layout() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    reference = fingerprint({"a": array})
    assert fingerprint({"a": np.asfortranarray(array)}) == reference
    assert fingerprint({"a": array.astype(">i8")}) == reference
    assert fingerprint({"b": array}) != reference
    assert fingerprint({"a": array.reshape(3, 2)}) != reference
    assert fingerprint({"a": array.astype(np.uint64)}) != reference
    assert fingerprint({"a": array + (np.arange(6).reshape(2, 3) == 5)}) != reference


def _dna(**changes: np.ndarray) -> dict[str, np.ndarray]:
    known = SETS["dna"]
    parts = {s: np.zeros((n, known.n_variables), np.uint8) for s, n in zip(binary.SPLITS, known.rows, strict=True)}
    return parts | changes


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"train_data": np.zeros((1400, 180))}, "no array named train or valid or test"),
        (_dna(valid=np.zeros((600, 181), np.uint8)), r"\(valid\) has shape \(600, 181\)"),
        (_dna(test=np.full((1186, 180), 2, np.uint8)), r"\(test\) holds values other than 0 and 1"),
        (_dna(), "holds other rows than the published ones"),
    ],
    ids=["keys", "shape", "values", "other rows"],
)
def test_wrong_prepared_arrays_are_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, np.ndarray], words: str
) -> None:
    path = tmp_path / "data" / "prepared" / "dna.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(npz(**arrays))
    monkeypatch.setenv("QTCORE_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match=words) as failure:
        load("dna")
    assert str(path) in str(failure.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"faces": np.zeros((1965, 560), np.uint8)}, r"\(faces\) is uint8 \(1965, 560\)"),
        ({"faces": np.zeros((1965, 28, 20), np.float32)}, r"\(faces\) is float32"),
        ({"train_index": np.zeros(1572)}, r"\(train_index\) is float64"),
        ({"test_index": np.zeros(392, int)}, r"\(test_index\) is int64 \(392,\)"),
        ({}, "other faces or another split"),
    ],
)
def test_wrong_prepared_faces_are_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, np.ndarray], words: str
) -> None:
    arrays = {"faces": np.zeros((1965, 28, 20), np.uint8), "train_index": np.zeros(1572, int), "test_index": np.zeros(393, int)}
    path = tmp_path / "data" / "prepared" / "frey.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(npz(**(arrays | change)))
    monkeypatch.setenv("QTCORE_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match=words):
        load("frey")
