"""The plots of the page Results: HoloViews elements, drawn by Bokeh. Values are shown where the mouse is, axes zoom, and a plot
can be saved as a picture.

One element holds all marks of a plot, and a hook adds the legend: an overlay with an element for each column takes six times
as long.
"""

import itertools
from typing import Any

import holoviews as hv
import holoviews.plotting.bokeh  # which makes it known to HoloViews
from bokeh.models import Legend, LegendItem
from bokeh.plotting import figure

from qtcore.paper.records import Record
from qtcore.paper.tables import Compared, Table

COLOURS = ("#1f8ad1", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#8c564b", "#17becf")
LOOKS = {
    "QT": ("circle", COLOURS[0]),
    "PCD-BP": ("square", COLOURS[1]),
    "PCD-Gibbs": ("diamond", COLOURS[4]),
    "AdVIL-BP": ("triangle", COLOURS[2]),
    "AdVIL-Gibbs": ("inverted_triangle", COLOURS[3]),
    "uniform queries": ("circle", COLOURS[0]),
    "5×5 patches": ("square", COLOURS[1]),
}
"""Marker and colour of a column."""
WIDTH, LINE, PER_ROW = 430, 27, 3
"""Of a plot, of a row of dots in it, and how many words the legend has in a row."""
LAYERS = (1, 2, 5, 10, 20, 60)


def dots(table: Table) -> figure:
    """A table whose columns have the same unit as dots, one line per row: ours filled, the paper's open."""
    marks = []
    for place, column in enumerate(table.columns):
        shape, colour = LOOKS[column]
        for whose, fill in (("ours", 1.0), ("paper", 0.0)):
            for line, row in enumerate(table.rows):
                cell = row.cells[place]
                found = getattr(cell, whose) if isinstance(cell, Compared) else None
                if found is not None:
                    shown = f"{row.title}, {column}: {whose} {found[0]:.{cell.digits}f}"  # type: ignore[union-attr]
                    marks.append((found[0], line, shown, shape, colour, fill))
    first: dict[tuple[str, str], int] = {}
    for index, (*_, shape, colour, _) in enumerate(marks):
        first.setdefault((shape, colour), index)
    legend = {column: first[LOOKS[column]] for column in table.columns if LOOKS[column] in first}
    points = hv.Points(marks, ["figure", "line"], ["shown", "shape", "colour", "fill"])
    return _drawn(
        points.opts(
            marker="shape", color="colour", fill_alpha="fill", size=9, yticks=[(k, r.title) for k, r in enumerate(table.rows)]
        ),
        legend,
        height=LINE * len(table.rows) + 100,
        ylim=(len(table.rows) - 0.5, -0.5),
    )


def curves(lines: list[tuple[Record, list[int], list[float]]]) -> figure:
    """The score over the depth: one line per model, over a logarithmic axis of layers."""
    colours = dict(zip((str(record["dataset"]) for record, _, _ in lines), itertools.cycle(COLOURS), strict=False))
    paths = [{"layer": layers, "score": scores, "shown": record["dataset"]} for record, layers, scores in lines]
    deepest = max(layer for _, layers, _ in lines for layer in layers)
    drawn = hv.Contours(paths, ["layer", "score"], "shown").opts(
        color=hv.dim("shown").categorize(colours),
        line_width=2,
        logx=True,
        xticks=[layer for layer in LAYERS if layer <= deepest],
    )
    legend = {str(record["dataset"]): number for number, (record, _, _) in enumerate(lines)}
    return _drawn(drawn, legend, height=300, xlabel="layer")


def _drawn(element: Any, legend: dict[str, int], **options: Any) -> figure:
    """With tools, and a legend above (by the number of an example of each). Its colours are those of the app's theme."""

    def finish(plot: Any, _: Any) -> None:
        drawn = plot.state
        (marks,) = drawn.renderers
        items = [LegendItem(label=label, renderers=[marks], index=index) for label, index in legend.items()]
        for row in reversed([items[start : start + PER_ROW] for start in range(0, len(items), PER_ROW)]):
            look = {"border_line_color": None, "background_fill_color": None, "padding": 0, "margin": 2}
            drawn.add_layout(Legend(items=row, orientation="horizontal", location="center_left", **look), "above")
        drawn.update(background_fill_color=None, border_fill_color=None, outline_line_color=None)
        drawn.toolbar.update(logo=None, autohide=True)

    options = {"xlabel": "", "ylabel": "", "width": WIDTH, "show_grid": True, "tools": ["hover"], "hooks": [finish]} | options
    result: figure = hv.render(element.opts(hover_tooltips=[("", "@shown")], **options), backend="bokeh")
    return result
