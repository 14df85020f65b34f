"""Model files that somebody edited or damaged: the model, or a sentence; never more memory than the file has a right to."""

import json
import struct
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import qtcore

from ..strategies import KINDS, ask, build
from .support import tried

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([10**9, 10**12, 10**30, -(2**63), 1e308, float("nan"), float("inf"), 0.5]),
    st.sampled_from(["", "RBM", "cuda", "meta", "float64", "flooding", "nope", "\0", "ü" * 50]),
)
names = st.text(max_size=5)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3))

_folder = tempfile.TemporaryDirectory()


def saved(kind: str) -> bytes:
    path = Path(_folder.name) / f"{kind}.safetensors"
    if not path.exists():
        build(kind).save(path)
    return path.read_bytes()


def read(data: bytes) -> None:
    path = Path(_folder.name) / "edited.safetensors"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        model = tried("files", lambda: qtcore.load(path))
        assert tracemalloc.get_traced_memory()[1] < 10**8
    finally:
        tracemalloc.stop()
    if model is not None:
        assert sum(parameter.numel() * parameter.element_size() for parameter in model.parameters()) <= len(data)
        tried("files", lambda: model.save(path))


@given(st.sampled_from(KINDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8), st.floats(0, 1.1))
def test_damaged_bytes(kind: str, changes: list[tuple[float, int]], length: float) -> None:
    data = bytearray(saved(kind))
    for where, byte in changes:
        data[int(where * (len(data) - 1))] = byte
    read(bytes(data[: int(length * len(data))]))


@given(st.sampled_from(KINDS), st.data())
def test_edited_headers(kind: str, data: st.DataObject) -> None:
    """What the file says of itself, with one or two things replaced."""
    original = saved(kind)
    size = struct.unpack("<Q", original[:8])[0]
    header = json.loads(original[8 : 8 + size])
    about = json.loads(header["__metadata__"]["qtcore"])
    for _ in range(data.draw(st.integers(1, 2))):
        place: Any = about
        while isinstance(place, dict) and place and data.draw(st.booleans()):
            inner = [value for value in place.values() if isinstance(value, dict | list) and value]
            if not inner:
                break
            place = data.draw(st.sampled_from(inner))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys) if keys else st.just("x"))
        place[key] = data.draw(values)
    header["__metadata__"]["qtcore"] = json.dumps(about)
    if data.draw(st.integers(0, 4)) == 0:
        name = data.draw(st.sampled_from([name for name in header if name != "__metadata__"]))
        header[name]["dtype"] = data.draw(st.sampled_from(["F16", "BF16", "F64", "I64", "F8_E4M3", "BOOL", "U8"]))
    text = json.dumps(header).encode()
    read(struct.pack("<Q", len(text)) + text + original[8 + size :])


def test_files_that_are_whole_are_read() -> None:
    for kind in KINDS:
        path = Path(_folder.name) / "whole.safetensors"
        path.write_bytes(saved(kind))
        model = qtcore.load(path)
        model(ask(model))
