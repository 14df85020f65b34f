"""The tables as plots, by matplotlib: the paper's figures next to ours."""

import math
from hashlib import sha256
from pathlib import Path
from textwrap import wrap
from typing import Any

from PIL import Image

from qtcore.data import SPECIFICATIONS
from qtcore.metrics import BITS
from qtcore.paper.calibrations import calibration_curves
from qtcore.paper.comparison_tables import compare_curves
from qtcore.paper.experiments import ASKED_ABOUT, JOINT_COLUMNS
from qtcore.paper.matrices import MATRICES, Matrix
from qtcore.paper.printed import PUBLISHED
from qtcore.paper.records import Record
from qtcore.paper.scoring import DepthScore
from qtcore.paper.tables import (
    DEPTH_TITLES,
    Compared,
    chosen_records,
    depth_curves,
    histories,
    mean_over_seeds,
    panels,
    question_curves,
)
from qtcore.support.files import write_atomically

MARKERS = {"QT": "oC0", "PCD-BP": "sC1", "AdVIL-BP": "^C2", "uniform queries": "oC0", "5×5 patches": "sC1"}
"""Shape and colour of a column in a plot."""


def plot_histories(records: list[Record], path: Path) -> None:
    """Plot the history of AdVIL's validation NCE, relative to the paper's figure."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(7, 4))
    for name, history, paper in (curve for table in ("table1", "frey") for curve in histories(records, table)):
        ax.plot([step for step, _ in history], [nce - paper for _, nce in history], label=name)
    ax.axhline(0, color="k", linewidth=1)
    ax.set(xlabel="step of the model", ylabel="bits above the paper's AdVIL-BP", xscale="log", ylim=(-0.1, 0.5))
    ax.set_title("AdVIL: validation NCE")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    _save(figure, path)


def plot_depths(scores: list[DepthScore], title: str, path: Path) -> None:
    """Plot the score over the depth, and the residual below it."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
    layers = [score.layer for score in scores]
    overlaps = [score.iou.mean for score in scores if score.iou is not None]
    if overlaps:
        axes[0].plot(layers, overlaps, ".-")
        axes[0].set(ylabel="IoU in %")
    else:
        axes[0].plot(layers, [score.nce.mean * BITS for score in scores], ".-")
        axes[0].set(ylabel="NCE in bits")
    axes[1].plot(layers, [max(score.residual, 1e-8) for score in scores], ".-")
    axes[1].set(ylabel="residual", xlabel="layer", yscale="log")
    axes[0].set_title(title)
    for ax in axes:
        ax.grid(alpha=0.3)
    _save(figure, path)


def _plot_curves(records: list[Record], path: Path) -> None:
    """Plot the score over the depth, a panel for each kind of model."""
    plt = pyplot()
    curves = depth_curves(records)
    figure, axes = plt.subplots(max(1, len(curves)), 1, figsize=(7, 3.2 * max(1, len(curves))), squeeze=False)
    for ax, (kind, lines) in zip(axes[:, 0], curves.items(), strict=False):
        for record, layers, scores in lines:
            ax.plot(layers, scores, label=record["dataset"])
        ax.set(title=DEPTH_TITLES[kind], xlabel="layer", xscale="log")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7, ncols=2)
    _save(figure, path)


def _plot_calibration(records: list[Record], path: Path) -> None:
    """Plot how often what is claimed is so, a panel for each kind of model; on the diagonal claims are right."""
    plt = pyplot()
    curves = calibration_curves(records)
    height = max(1, -(-len(curves) // 2))
    figure, axes = plt.subplots(height, 2, figsize=(9, 4.2 * height), squeeze=False)
    for ax, (title, chosen) in zip(axes.flat, curves.items(), strict=False):
        ax.plot([0, 1], [0, 1], color="k", linewidth=1)
        for record in chosen:
            ax.plot(record["scores"]["claimed"], record["scores"]["true"], ".-", label=record["dataset"])
        ax.set(title=title, xlabel="claimed", ylabel="so")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7)
    for ax in axes.flat[len(curves) :]:
        ax.set_axis_off()
    _save(figure, path)


def _plot_joint(records: list[Record], path: Path) -> None:
    """Plot how much more a row costs than the best published figure, one line per dataset."""
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(8, 4))
    for place, (column, (method, model, suffix)) in enumerate(JOINT_COLUMNS.items()):
        points = []
        for line, (dataset, (best, _)) in enumerate(PUBLISHED.items()):
            chosen, _ = chosen_records(records, "joint", method, model=model, dataset=dataset + suffix)
            ours = mean_over_seeds(chosen, "mixture")
            points += [] if ours is None else [(ours[0] - best, line + 0.1 * place - 0.25, ours[1])]
        if points:
            x, y, errors = zip(*points, strict=True)
            ax.errorbar(x, y, xerr=errors, fmt="osD^vx"[place], label=column)
    ax.axvline(0, color="k", linewidth=1, label="best published")
    ax.set_yticks(range(len(PUBLISHED)), [SPECIFICATIONS[dataset].heading for dataset in PUBLISHED])
    ax.set(xlabel="nats per row above the best published figure", xscale="symlog", ylim=(len(PUBLISHED) - 0.5, -0.5))
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    _save(figure, path)


def _plot_questions(records: list[Record], path: Path) -> None:
    """Plot how well a property is known after so many questions, a panel for each dataset; dashed: random questions."""
    plt = pyplot()
    curves = question_curves(records)
    figure, axes = plt.subplots(1, max(1, len(curves)), figsize=(5 * max(1, len(curves)), 4), squeeze=False)
    for ax, (dataset, lines) in zip(axes[0], curves.items(), strict=False):
        for place, (_, title, questions, scores) in enumerate(lines):
            ax.plot(questions, scores, ".-" if place % 2 == 0 else ".--", color=f"C{place // 2}", label=title)
        ax.set(title=f"{SPECIFICATIONS[dataset].heading}: {ASKED_ABOUT[dataset]}", xlabel="questions", ylabel="right, in %")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7)
    _save(figure, path)


def _plot_comparison(records: list[Record], path: Path) -> None:
    """Plot the score over the share of evidence, a panel for each dataset; solid: query training."""
    plt = pyplot()
    curves = compare_curves(records)
    rows = max(1, -(-len(curves) // 2))
    figure, axes = plt.subplots(rows, 2, figsize=(11, 3.2 * rows), squeeze=False)
    for ax, (dataset, lines) in zip(axes.flat, curves.items(), strict=False):
        for title, shares, scores in lines:
            ax.plot(shares, scores, ".-" if title.startswith("QT") else ".--", label=title)
        ax.set(title=SPECIFICATIONS[dataset].heading, xlabel="observed, in %", ylabel="NCE in bits")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=6)
    _save(figure, path)


def _plot_heat(matrices: list[Matrix], path: Path) -> None:
    """Matrices of figures as heat maps, one below the other; darker is better."""
    plt = pyplot()
    heights = [1.6 + 0.34 * len(matrix.rows) for matrix in matrices] or [1.0]
    figure, axes = plt.subplots(
        len(heights), 1, figsize=(11, sum(heights)), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for ax, matrix in zip(axes[:, 0], matrices, strict=False):
        numbers = [[math.nan if figure is None else figure[0] for figure in row] for row in matrix.figures]
        known = [number for row in numbers for number in row if not math.isnan(number)]
        low, high = min(known, default=0.0), max(known, default=1.0)
        high = min(high, 1.0) if low < 1 else high  # of binary variables, all beyond a coin's bit is as bad
        middle = (low + high) / 2
        ax.imshow(numbers, aspect="auto", cmap="viridis", vmin=low, vmax=high)
        for y, row in enumerate(numbers):
            for x, number in enumerate(row):
                if not math.isnan(number):
                    ax.text(x, y, f"{number:.3f}", ha="center", va="center", fontsize=7, color="w" if number < middle else "k")
        ax.set_xticks(range(len(matrix.columns)), ["\n".join(wrap(column, 14)) for column in matrix.columns], fontsize=7)
        ax.set_yticks(range(len(matrix.rows)), matrix.rows, fontsize=7)
        ax.set_title(matrix.title, fontsize=9)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    """Write the picture, unless the file shows the same already: another matplotlib would draw it with some other bytes."""
    shown = _shown(figure)
    if _described(path) != shown:
        figure.tight_layout()
        about = {"Description": shown}
        write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=110, metadata=about))
    pyplot().close(figure)


def _shown(figure: Any) -> str:
    """A digest of all numbers and words in a plot."""
    parts: list[Any] = []
    for ax in figure.axes:
        ticks = [label.get_text() for label in ax.get_yticklabels()]
        parts += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ticks]
        for line in ax.lines:
            parts += [line.get_label(), str(line.get_color()), str(line.get_marker()), _rounded(line.get_xydata())]
        if ax.images:  # a heat map, with its numbers as texts
            parts += [label.get_text() for label in ax.get_xticklabels()]
            parts += [(text.get_text(), *text.get_position()) for text in ax.texts]
        parts += [_rounded(segment) for bars in ax.collections for segment in bars.get_segments()]
    return f"sha256 of what is shown: {sha256(repr(parts).encode()).hexdigest()}"


def _rounded(points: Any) -> list[str]:
    return [f"{number:.6g}" for point in points for number in point]


def _described(path: Path) -> str | None:
    """The description in a picture, if there is one."""
    try:
        with Image.open(path) as picture:
            return picture.info.get("Description")
    except OSError:  # there is none, or it is no picture
        return None


def pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def plot(name: str, records: list[Record], path: Path, whole: bool = True) -> None:
    """Plot a group of tables as dots: ours filled, the paper's open, one line per row; of all, or of those with a record."""
    others = {"depth": _plot_curves, "calibration": _plot_calibration, "joint": _plot_joint, "questions": _plot_questions}
    others |= {"compare": _plot_comparison}
    if name in others:
        others[name](records, path)
        return
    if name in MATRICES:
        _plot_heat([matrix.with_records() for matrix in MATRICES[name](records)], path)
        return
    plt = pyplot()
    shown = [table for table in panels(name, records, whole) if table.rows]
    if not shown:
        return
    height = 1.3 + 0.36 * len(shown[0].rows)
    figure, axes = plt.subplots(1, len(shown), figsize=(5.5 * len(shown) + 1, height), sharey=True, squeeze=False)
    for ax, table in zip(axes[0], shown, strict=True):
        for line, row in enumerate(table.rows):
            for column, cell in zip(table.columns, row.cells, strict=True):
                assert isinstance(cell, Compared)
                for point, y, fill in ((cell.paper, line - 0.12, "none"), (cell.ours, line + 0.12, "full")):
                    if point is not None:
                        ax.errorbar(point[0], y, xerr=point[1], fmt=MARKERS[column], fillstyle=fill)
        ax.set_yticks(range(len(table.rows)), ["\n".join(wrap(row.title, 36)) for row in table.rows])
        ax.set_ylim(len(table.rows) - 0.5, -0.5)
        ax.set_title(table.title)
        ax.grid(alpha=0.3)
        for column in table.columns:
            ax.plot([], [], MARKERS[column], label=column)
        ax.plot([], [], "o", color="k", fillstyle="none", label="paper (open)")
        ax.legend(fontsize=8)
    _save(figure, path)
