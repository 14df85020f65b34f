"""Addresses hold the whole state, and nonsense in an address does no harm."""

import zlib

import numpy as np
import param
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from panel.io.location import Location
from qtcore_app.state import MAX_TEXT, State, _text, decode_bytes, encode_bytes, merged, parse_noise, pixel_of, pixel_text

SHAPE = (28, 20)
binary = st.sampled_from([0, 255])


@given(hnp.arrays(np.uint8, (7, 5), elements=binary | st.integers(0, 255)))
def test_masks_survive(mask: np.ndarray) -> None:
    result = decode_bytes(encode_bytes(mask), (7, 5))
    assert result is not None
    np.testing.assert_array_equal(result, mask)


def test_hard_masks_are_short() -> None:
    assert len(encode_bytes(np.zeros(SHAPE, np.uint8))) < 100


def test_states_survive() -> None:
    state = State("contours", "grid/border", "glyph-3", "bAAAA", "zxx", "untrained", "0.2-8-0", "7", "3-4", "chain:1", "adult")
    assert State.from_query(state.to_query()) == state
    assert State.from_query("") == State()


@pytest.mark.parametrize("text", ["", "b", "bAA", "x1234", "z!!!!", "zAAAA", "b" + "A" * MAX_TEXT, "bé", "b%00"])
def test_nonsense_is_no_mask(text: str) -> None:
    assert decode_bytes(text, SHAPE) is None


def test_a_bomb_is_not_unpacked() -> None:
    bomb = "z" + _text(zlib.compress(bytes(2_000_000), 9))
    assert len(bomb) < MAX_TEXT
    assert decode_bytes(bomb, SHAPE) is None


@given(st.text(max_size=200))
def test_any_text_is_some_state(text: str) -> None:
    state = State.from_query(text)
    assert State.from_query(state.to_query()) == state
    decode_bytes(state.mask, SHAPE)
    parse_noise(state.noise, (0.2, 8, 0))
    pixel_of(state.pixel, SHAPE)


def test_unknown_pages_and_parameters_are_ignored() -> None:
    assert State.from_query("?page=admin&color=red") == State()
    assert State.from_query("mask=" + "A" * (MAX_TEXT + 1)).mask == ""
    assert State.from_query("?" + "&".join(f"a{i}=1" for i in range(100))) == State()


def test_numbers() -> None:
    assert State(layer="12").integer("layer", 0, 50, -1) == 12
    assert State(layer="51").integer("layer", 0, 50, -1) == -1
    assert State(layer="x").integer("layer", 0, 50, -1) == -1
    assert pixel_of(pixel_text([3, 19]), SHAPE) == [3, 19]
    assert pixel_of("28-0", SHAPE) == pixel_of("-1-3", SHAPE) == pixel_of("", SHAPE) == []
    assert parse_noise("0.35-4-12", (0.2, 8, 0)) == (0.35, 4, 12)
    assert parse_noise("nan-4-12", (0.2, 8, 0)) == (0.2, 8, 0)
    assert merged("?page=lab&layer=3", {"layer": "4"}) == "?page=lab&layer=4"


class Synced(param.Parameterized):
    """A state as `pn.state.location.sync` would keep it."""

    page = param.Selector(default="faces", objects=["faces", "contours"])
    layer = param.String(default="")
    mask = param.String(default="")


def test_panel_s_own_way_loses_what_ours_keeps() -> None:
    """Why there is a State (docs/figures.md): once this fails, `Location.sync` may take its place."""
    location, state = Location(search="?page=contours&layer=3"), Synced()
    location.sync(state, ["page", "layer", "mask"])
    assert State.from_query("?page=contours&layer=3").layer == "3"
    assert state.layer == ""  # a number is no text
    assert "mask=" in str(location.search)  # what is empty stays in the address
    assert "mask" not in State(page="contours").to_query()
    endless = Synced()
    Location(search="?mask=" + "A" * (MAX_TEXT + 1)).sync(endless, ["mask"])
    assert len(endless.mask) > MAX_TEXT
