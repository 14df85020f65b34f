"""The figures of the page Results as HoloViews objects, drawn by Bokeh: values are shown where the mouse points, a name in the
legend hides or shows its marks, axes zoom (those of one kind together), and a plot can be saved as a picture.

The same functions serve a notebook:

    import holoviews as hv
    from qtcore_app import plots
    hv.extension("bokeh")
    plots.dots(table)

A session of the app gets no models of its own: they are drawn once and sent as JSON (`drawn`), which costs a visit nothing.
"""

import gzip
import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from bokeh.core.json_encoder import serialize_json
from bokeh.document import Document
from bokeh.models import Range1d

from qtcore.data import SPECIFICATIONS
from qtcore.paper.experiments import JOINT_COLUMNS
from qtcore.paper.printed import PUBLISHED
from qtcore.paper.records import Record
from qtcore.paper.tables import NAMES, Compared, Table, chosen_records, mean_over_seeds

COLOURS = ("#1f8ad1", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#8c564b", "#17becf")
MARKERS = ("circle", "square", "triangle", "inverted_triangle", "diamond", "star", "hex", "plus")
DASHES = ("solid", "dashed", "dotted")
LINE, PER_ROW, TOOLS = 27, 3, ("pan", "box_zoom", "wheel_zoom", "save", "reset")
"""The height of a row of dots in pixels, how many names of the legend are next to each other, and what a plot's toolbar has
besides the values under the mouse."""


class Mark(NamedTuple):
    """A dot in a row: filled for ours, open for a figure of the paper."""

    value: float
    row: int
    words: str
    filled: bool


@cache
def _holoviews() -> Any:
    """HoloViews with Bokeh behind it: loaded when the first plot is wanted, since it takes its time."""
    import holoviews as hv
    import holoviews.plotting.bokeh

    hv.Store.set_current_backend("bokeh")
    return hv


def _dots(marks: dict[str, list[Mark]], rows: Sequence[str], **options: Any) -> Any:
    """Dots along the rows, an element for each column, in the shape and colour of its method, else of its place."""
    hv, methods = _holoviews(), list(NAMES.values())
    places = [methods.index(column) if column in methods else place for place, column in enumerate(marks)]
    elements = [
        hv.Points(
            [(mark.value, mark.row, mark.words, float(mark.filled)) for mark in each],
            ["figure", "row"],
            ["words", "fill"],
            label=column,
        ).opts(
            marker=MARKERS[place], color=COLOURS[place], line_color=COLOURS[place], fill_alpha="fill", size=9, line_width=1.6,
            tools=["hover"], hover_tooltips=[("", "@words")], muted_alpha=0.05,
        )
        for place, (column, each) in zip(places, marks.items(), strict=True)
    ]  # fmt: skip
    size = {"height": LINE * len(rows) + _legend(len(marks)), "ylim": (len(rows) - 0.5, -0.5), "yticks": list(enumerate(rows))}
    return _finished(hv.Overlay(elements), **{"ylabel": "", **size, **options})


def dots(table: Table, **options: Any) -> Any:
    """A table whose columns have the same unit, one line per row: ours filled, the paper's open."""
    marks: dict[str, list[Mark]] = {column: [] for column in table.columns}
    for number, row in enumerate(table.rows):
        for column, cell in zip(table.columns, row.cells, strict=True):
            if not isinstance(cell, Compared):
                continue
            for whose, found in (("paper", cell.paper), ("ours", cell.ours)):
                if found is not None:
                    error = f" ± {cell.spread(found[1])}" if found[1] is not None else ""
                    words = f"{row.title}, {column}: {whose} {found[0]:.{cell.digits}f}{error}"
                    marks[column].append(Mark(found[0], number, words, whose == "ours"))
    return _dots(marks, [row.title for row in table.rows], xlabel=f"{table.title}: bits" if table.title else "bits", **options)


def above_published(records: list[Record]) -> Any:
    """How many nats a row costs above the best published figure, one line per dataset."""
    marks: dict[str, list[Mark]] = {column: [] for column in JOINT_COLUMNS}
    for column, (method, model, suffix) in JOINT_COLUMNS.items():
        for number, (dataset, (best, _)) in enumerate(PUBLISHED.items()):
            chosen, _ = chosen_records(records, "joint", method, model=model, dataset=dataset + suffix)
            ours = mean_over_seeds(chosen, "mixture")
            if ours is not None and ours[0] > best:
                title = SPECIFICATIONS[dataset].heading
                words = f"{title}, {column}: {ours[0]:.1f}, best published {best:.1f}"
                marks[column].append(Mark(ours[0] - best, number, words, True))
    rows = [SPECIFICATIONS[dataset].heading for dataset in PUBLISHED]
    return _dots(marks, rows, xlabel="nats per row above the best published figure", logx=True)


def curves(lines: Sequence[tuple[str, list[int], list[float]]], xlabel: str, ylabel: str, **options: Any) -> Any:
    """Scores over layers or questions, one line for each name; options are HoloViews', such as logx."""
    hv = _holoviews()
    looks = itertools.cycle(itertools.product(DASHES, COLOURS))
    elements = [
        hv.Curve((numbers, scores), "number", "score", label=name).opts(
            color=colour, line_dash=dash, line_width=2, muted_alpha=0.08, tools=["hover"],
            hover_tooltips=[("", "$label"), (xlabel, "@number"), (ylabel, "@score{0.[000]}")],
        )
        for (name, numbers, scores), (dash, colour) in zip(lines, looks, strict=False)
    ]  # fmt: skip
    numbers = [number for _, every, _ in lines for number in every]
    size = {"height": 230 + _legend(len(lines)), "xlim": (min(numbers), max(numbers) * 1.06)}
    return _finished(hv.Overlay(elements), **{"xlabel": xlabel, "ylabel": ylabel, **size, **options})


def _legend(names: int) -> int:
    """The height of a legend of so many names, and of the axis above it."""
    return 62 + 24 * -(-names // PER_ROW)


def _finished(overlay: Any, **options: Any) -> Any:
    def hook(plot: Any, _: Any) -> None:
        drawn = plot.state
        drawn.update(output_backend="canvas", background_fill_color=None, border_fill_color=None, outline_line_color=None)
        drawn.toolbar.update(logo=None, autohide=True)
        for legend in drawn.legend:
            legend.update(background_fill_color=None, border_line_color=None, ncols=PER_ROW, padding=0, spacing=8)
            legend.update(glyph_width=18, label_standoff=6, location="left")

    options = {"xlabel": "", "show_grid": True, "responsive": True, "legend_position": "bottom", "fontscale": 0.95} | options
    return overlay.opts(default_tools=list(TOOLS), active_tools=[], hooks=[hook], **options)


def draw(groups: dict[str, list[Any]]) -> tuple[bytes, dict[str, str]]:
    """All figures as one Bokeh document (JSON, gzipped), and the identity of each: "depth-0" is the first of the group depth.
    The figures of a group share their horizontal axis.

    As a server would, HoloViews draws into the document that it is given. Otherwise it takes the current one, which is that of
    any user who is being served meanwhile, and keeps it.
    """
    document, places = Document(), dict[str, str]()
    renderer = _holoviews().renderer("bokeh").instance(mode="server")
    for group, plots in groups.items():
        figures = [renderer.get_plot(plot, doc=document).state for plot in plots]
        ranges = [figure.x_range for figure in figures]
        shared = Range1d(min(each.start for each in ranges), max(each.end for each in ranges)) if figures else None
        for number, figure in enumerate(figures):
            figure.x_range = shared
            document.add_root(figure)
            places[f"{group}-{number}"] = figure.id
    return gzip.compress(serialize_json(document.to_json(deferred=False)).encode()), places
