"""Addresses that anybody can write: each opens a page, and the page's own address opens the same one."""

import logging
from typing import Any
from urllib.parse import quote

import panel_material_ui as pmui
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qtcore_app.shell import Shell
from qtcore_app.state import PAGES, State

from .support import COUNTS, few

KEYS = ("page", "model", "image", "mask", "pixels", "compare", "noise", "layer", "pixel", "graph", "record", "nope", "")
VALUES = (
    *PAGES,
    *("grbm/frey", "rbm/digits", "grid/border", "dream-3", "0.2-8-0", "1-1", "-1", "99999999999999999999", "nan", "1e999"),
    *("b", "z", "b____", "zeJwDAAAAAAE", "../../etc/passwd", "<script>alert(1)</script>", "%00", "{}", "١", "\0", "²"),
)
words = st.one_of(st.sampled_from(VALUES), st.text(max_size=12), st.text("bz0123456789-_.,;:~ABCxyz", max_size=80))
pairs = st.lists(st.tuples(st.sampled_from(KEYS), words), max_size=6)


def query_of(parts: list[tuple[str, str]]) -> str:
    return "?" + "&".join(f"{quote(key)}={quote(value, errors='replace')}" for key, value in parts)


@given(pairs, st.text(max_size=20))
def test_states(parts: list[tuple[str, str]], tail: str) -> None:
    COUNTS["addresses"] += 1
    state = State.from_query(query_of(parts) + tail)
    assert state.page in PAGES
    assert State.from_query(state.to_query()) == state
    state.integer("layer", 0, 9, 3)


@few(8)
@given(pairs, st.sampled_from(PAGES))
def test_pages(parts: list[tuple[str, str]], page: str) -> None:
    COUNTS["pages"] += 1
    shell = Shell(query_of([*parts, ("page", page)]))
    (shown,) = shell._columns[shell.active]
    assert not isinstance(shown, pmui.Alert)
    again = shell.states[shell.active].to_query()
    shell.visit(again)
    assert shell.states[shell.active].to_query() == again
    shell._leave(*PAGES)


@pytest.fixture(autouse=True)
def _quiet(caplog: Any) -> None:
    caplog.set_level(logging.CRITICAL)
