"""The frame around the pages: header, tabs, the address that holds the state, and error messages."""

import logging
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import panel as pn
import panel_material_ui as pmui
from panel.viewable import Viewable

from qtcore_app import engine, sessions
from qtcore_app.components import Address, Skip
from qtcore_app.components.address import THEME
from qtcore_app.state import PAGES, State
from qtcore_app.tour import Tour

log = logging.getLogger(__name__)

TITLES = {
    "faces": "Faces",
    "contours": "Contours",
    "digits": "Digits & tables",
    "yourdata": "Your data",
    "lab": "LBP lab",
    "results": "Results",
}
TABS = {
    "@media (max-width: 600px)": {
        "& .MuiTab-root": {"minWidth": 0, "padding": "12px 5px", "fontSize": "12px", "textTransform": "none"},
    }
}
"""All of them fit next to each other on a phone."""
_SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill-rule="evenodd" d="{}"/></svg>'
LINK = _SVG.format("M11 7v2H8a3 3 0 0 0 0 6h3v2H8a5 5 0 0 1 0-10zM8 11h8v2H8zM13 7v2h3a3 3 0 0 1 0 6h-3v2h3a5 5 0 0 0 0-10z")
COMPASS = _SVG.format("M12 2a10 10 0 1 0 0 20a10 10 0 1 0 0-20zm5 5l-3 7l-7 3l3-7z")
"""Drawings, unlike the letters of an icon font, have no name that a screen reader would read out."""
COPY = """
const done = (text) => { source.data.label = text; setTimeout(() => { source.data.label = "Share" }, 1800) }
navigator.clipboard.writeText(window.location.href).then(() => done("Link copied"), () => done("Copy the address"))
"""


class Shell:
    """One user's app. A page gets it, reads `state` when it is made, and calls `remember` whenever something changes."""

    def __init__(self, query: str = "") -> None:
        self.state = State.from_query(query)
        self.states = {name: State(page=name) for name in PAGES}
        self.states[self.state.page] = self.state
        self.active = self.state.page
        self._columns = {name: pn.Column(sizing_mode="stretch_width", margin=0) for name in PAGES}
        self.tabs = pmui.Tabs(
            *((TITLES[name], column) for name, column in self._columns.items()),
            active=PAGES.index(self.active),
            dynamic=True,
            sizing_mode="stretch_width",
            margin=0,
            sx=TABS,
        )
        self.tour = Tour(self.show)
        self.skip = Skip(visible=self.active != "results")
        self.address = Address(first=PAGES[0])
        self.address.visited(self.visit)
        self._leaving: dict[str, list[Callable[[], None]]] = {name: [] for name in PAGES}
        if pn.state.curdoc is not None:
            pn.state.on_session_destroyed(lambda context: self._leave(*PAGES))
        self._fill(self.active)
        self.tabs.param.watch(self._turn, "active")

    def remember(self, page: str, **changes: Any) -> None:
        """Put a page's new state into the address, if it is the active page."""
        self.states[page] = replace(self.states[page], **{key: str(value) for key, value in changes.items()})
        if page == self.active:
            self._show_address()

    def _show_address(self) -> None:
        self.address.query = self.states[self.active].to_query()

    def show(self, page: str) -> None:
        """Switch to a page."""
        self.tabs.active = PAGES.index(page)

    def visit(self, query: str) -> None:
        """Show what an address describes, in a page made anew."""
        state = State.from_query(query)
        self.states[state.page] = state
        self._leave(state.page)
        self._columns[state.page].clear()
        self.show(state.page)
        self._fill(state.page)
        self._show_address()

    def when_left(self, page: str, callback: Callable[[], None]) -> None:
        """Call back when the user closes the window, or this page is made anew."""
        self._leaving[page].append(callback)

    def _leave(self, *pages: str) -> None:
        for page in pages:
            while self._leaving[page]:
                self._leaving[page].pop()()

    def _turn(self, event: Any) -> None:
        self.active = PAGES[event.new]
        self.skip.visible = self.active != "results"
        self._fill(self.active)
        self._show_address()

    def _fill(self, name: str) -> None:
        """Make a page when it is first shown, so that the app opens fast."""
        column = self._columns[name]
        if len(column):
            return
        self.state = self.states[name]
        column[:] = [guarded(lambda: import_module(f"qtcore_app.pages.{name}").page(self))]

    def view(self) -> Viewable:
        """The whole window."""
        device = engine.device()
        badge = pmui.Chip(
            device.label,
            size="small",
            variant="outlined",
            sx={"color": "inherit", "borderColor": "currentColor"},
            margin=(0, 8),
            styles={"align-self": "center"},
            description=device.sentence or f"The layers run on {device.label}.",
        )
        share, tour = header_button("Share", LINK), header_button("Tour", COMPASS)
        tour.on_click(lambda event: self.tour.start())
        share.jscallback(clicks=COPY, args={})
        notice = [pmui.Typography(device.sentence, margin=(0, 8), styles={"align-self": "center"})] if device.refused else []
        page = window(
            header=[self.skip, pn.HSpacer(), *notice, badge, share, tour],
            main=[self.address, self.tour.card, self.tabs],
            sx={"& .MuiToolbar-root": {"minHeight": "48px !important"}},
        )
        self.address.dark = page.dark_theme
        page.param.watch(lambda event: self.address.param.update(dark=event.new), "dark_theme")
        return page


def header_button(label: str, icon: str) -> pmui.Button:
    """A button in the colour of the header's text."""
    text = {"color": "inherit", "whiteSpace": "nowrap", "minHeight": "32px"}
    return pmui.Button(label=label, icon=icon, size="small", variant="text", margin=(0, 8), sx=text)


def window(**parts: Any) -> pmui.Page:
    """The page around everything, in the theme that the user chose last.

    A Page watches the server's global `busy` flag to show a bar, which has no name for a screen reader and would flicker at
    each stroke: there is none here. The flag would still keep every page ever opened in memory, so the page is detached from
    it. This waits for holoviz/param#963 (references leave watchers behind, also when another value takes their place).
    """
    sx = {"& .MuiLinearProgress-root": {"display": "none"}} | parts.pop("sx", {})  # `busy_indicator=None` leaves it where it is
    page = pmui.Page(title="qtcore", dark_theme=pn.state.cookies.get(THEME) == "dark", sx=sx, **parts)
    followed = page._param__private.ref_watchers  # private; tests/app/test_shell.py notices when it changes
    for _, watcher in followed:
        (watcher.inst or watcher.cls).param.unwatch(watcher)
    followed.clear()
    return page


def guarded(make: Callable[[], Viewable]) -> Viewable:
    """A page, or a sentence in its place: one page's failure neither stops the others nor shows a traceback."""
    try:
        return make()
    except Exception:
        log.exception("a page could not be made")
        return pmui.Alert("This page cannot be shown; the others still work.", severity="error", margin=16)


def refusal() -> Viewable:
    """The page for a user when the server is full."""
    return window(
        main=[
            pmui.Typography("Please come back in a few minutes", variant="h5", margin=16),
            pmui.Typography(sessions.FULL, margin=16),
        ],
    )
