"""Digits & tables: binary pictures with painted masks, and binary records, with the RBM and the DBM."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import panel as pn
from panel.viewable import Viewable

from qtcore_app.components import Choices
from qtcore_app.pages.picture import LEFT
from qtcore_app.pages.pixels import PixelsPage
from qtcore_app.pages.records import RecordPage
from qtcore_app.samples import offered, samples, title
from qtcore_app.shell import Shell
from qtcore_app.state import State

log = logging.getLogger(__name__)


class DigitsPage:
    """The choice of dataset and model; an inner page handles the queries."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.sets = offered()
        self.pages: dict[str, PixelsPage | RecordPage] = {}
        self.views: dict[str, Viewable] = {}
        self.column = pn.Column(sizing_mode="stretch_width", margin=0)
        kind, _, dataset = shell.states["digits"].model.partition("/")
        if kind not in self.sets.get(dataset, []):
            dataset = next(iter(self.sets))
            kind = self.sets[dataset][0]
            if shell.states["digits"].model:  # its masks and records belong to a model that is not available
                shell.states["digits"] = State(page="digits")
        self._show(dataset, kind)

    def demonstrate(self) -> None:
        """What the tour shows: a picture."""
        if self.current not in (name for name, page in self.pages.items() if isinstance(page, PixelsPage)):
            self._turn(next(iter(self.sets)))
        page = self.pages[self.current]
        if isinstance(page, PixelsPage):
            page.demonstrate()

    def _show(self, dataset: str, kind: str) -> None:
        if dataset not in self.pages:
            rows = samples(dataset)
            make = PixelsPage if rows.shape is not None else RecordPage
            made: PixelsPage | RecordPage = make(self.shell, rows, f"{kind}/{dataset}")
            self.pages[dataset] = made
            self.views[dataset] = made.view(self._choosers(dataset, kind))
            self.shell.tour.drives("digits", self.demonstrate)
        self.current = dataset
        self.column[:] = [self.views[dataset]]

    def _choosers(self, dataset: str, kind: str) -> list[Viewable]:
        """The rows of buttons above a dataset's page."""
        names, kinds = list(self.sets), self.sets[dataset]
        data = Choices(
            labels=[title(name) for name in names], selected=names.index(dataset), heading="Data", width=LEFT, margin=0
        )
        models = Choices(
            labels=[name.upper() for name in kinds],
            selected=kinds.index(kind),
            heading="Model",
            width=LEFT,
            margin=(14, 0, 0, 0),
        )

        def on_data(event: Any) -> None:
            number = data.clicked()
            if number is not None and names[number] != dataset:
                self._try(dataset, lambda: self._turn(names[number]))

        def on_model(event: Any) -> None:
            number = models.clicked()
            if number is not None and self._try(dataset, lambda: self.pages[dataset].use(f"{kinds[number]}/{dataset}")):
                models.selected = number

        data.param.watch(on_data, "clicks")
        models.param.watch(on_model, "clicks")
        return [data, models]

    def _try(self, dataset: str, change: Callable[[], None]) -> bool:
        """Make a change, or show a sentence on the current page: a model file may be damaged."""
        before = self.shell.states["digits"]
        try:
            change()
            return True
        except Exception:
            self.shell.states["digits"] = before
            log.exception("a dataset or model could not be shown")
            self.pages[dataset].tell("This choice cannot be shown; the others still work.")
            return False

    def _turn(self, dataset: str) -> None:
        """Switch to another dataset: as it was left, or with its default query."""
        if dataset not in self.pages:
            self.shell.states["digits"] = replace(State(page="digits"), model=f"{self.sets[dataset][0]}/{dataset}")
        self._show(dataset, self.sets[dataset][0])
        self.pages[dataset].remember()


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    return DigitsPage(shell).column
