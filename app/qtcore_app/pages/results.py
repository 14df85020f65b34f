"""Results: the paper's tables next to ours, the plots, and how each figure was made."""

import itertools
import json
import logging
import math
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import panel as pn
from panel.viewable import Viewable

from qtcore.models.files import checkpoint_folder
from qtcore.paper.calibrations import CALIBRATION
from qtcore.paper.matrices import MATRICES
from qtcore.paper.records import Record, is_record
from qtcore.paper.tables import (
    DEPTHS,
    ERRORS,
    EXPLAINED,
    JOINT,
    MISSING,
    NOT_COMPARABLE,
    NOT_SAMPLED,
    QUESTIONS,
    TABLES,
    Compared,
    Row,
    Table,
    budgets,
    depth_curves,
    question_curves,
)
from qtcore_app.components.source import FOLDER
from qtcore_app.shell import Shell

log = logging.getLogger(__name__)

MARKS = {"better": "✓", "worse": "▲", "same": "=", NOT_COMPARABLE: "≠", NOT_SAMPLED: "…", MISSING: "–"}
LOOKS = {
    "QT": ("circle", "var(--one)"),
    "PCD-BP": ("square", "#d55e00"),
    "PCD-Gibbs": ("diamond", "#e69f00"),
    "AdVIL-BP": ("triangle", "#009e73"),
    "AdVIL-Gibbs": ("wedge", "#cc79a7"),
    "uniform queries": ("circle", "var(--one)"),
    "5×5 patches": ("square", "#d55e00"),
}
"""Shape and colour of a column in a plot."""
COLOURS = ("var(--one)", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#8c564b", "#17becf")
"""Colours of the curves over the depth, in turn."""
WIDTH, LINE, TOP, RIGHT = 340, 26, 24, 14
"""Sizes of a plot in pixels: its width, the height of a row, and the margins."""


def results(folder: Path | None = None) -> list[Record]:
    """All stored records; one that cannot be read is left out."""
    records = []
    for path in sorted((folder or checkpoint_folder().parent / "results").glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            log.warning("a record cannot be read: %s", type(error).__name__)
            continue
        if is_record(record) and record["table"] in TABLES:
            records.append(record)
        elif not isinstance(record, dict) or "table" in record:  # others are of speed
            log.warning("a record is not as it should be")
    return records


# ---------------------------------------------------------------------- tables


def cell(figure: Compared | str) -> str:
    """Our figure above, the paper's and the verdict below."""
    if isinstance(figure, str):
        return f"<td><small>{escape(figure)}</small></td>"
    printed = "" if figure.paper is None else f"paper {figure.printed}"
    if figure.ours is None:
        note = f"<small>{printed or 'not in the paper'}</small>"
        return f'<td data-verdict="{figure.verdict}"><span>{figure.verdict}</span>{note}</td>'
    mean, error, runs = figure.ours
    own = f"<b>{mean:.{figure.digits}f}</b> ± {figure.spread(error)}" + (f" ({runs} runs)" if runs > 1 else "")
    if figure.verdict in ("better", "worse", "same"):
        printed += f", <em>{figure.difference:+.{figure.digits}f} {MARKS[figure.verdict]} {figure.verdict}</em>"
    elif figure.verdict:
        printed += f", <em>{MARKS[figure.verdict]} {figure.verdict}</em>"
    return f'<td data-verdict="{figure.verdict}"><span>{own}</span><small>{printed or "not in the paper"}</small></td>'


def table_html(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    body = "".join(f"<tr><th>{escape(row.title)}</th>{''.join(map(cell, row.cells))}</tr>" for row in table.rows)
    return f"<table class='figures'><thead><tr><th>{escape(table.title)}</th>{head}</tr></thead><tbody>{body}</tbody></table>"


# ---------------------------------------------------------------------- plots


def mark(column: str, x: float, y: float, filled: bool, words: str) -> str:
    """A dot: filled for ours, open for the paper's."""
    (shape, colour), r = LOOKS[column], 4.5
    paint = f'fill="{colour if filled else "none"}" stroke="{colour}" stroke-width="1.6"'
    title = f"<title>{escape(words)}</title>"
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {paint}>{title}</circle>'
    points = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "diamond": [(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)],
        "triangle": [(0, -r - 1), (r, r), (-r, r)],
        "wedge": [(0, r + 1), (r, -r), (-r, -r)],
    }[shape]
    text = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
    return f'<polygon points="{text}" {paint}>{title}</polygon>'


def dots(table: Table) -> str:
    """A table whose columns have the same unit as dots, one line per row."""
    rows = [(row.title, [figure for figure in row.cells if isinstance(figure, Compared)]) for row in table.rows]
    values = [figure.ours[0] for _, cells in rows for figure in cells if figure.ours]
    values += [figure.paper.mean for _, cells in rows for figure in cells if figure.paper]
    ticks = axis(min(values), max(values))
    low, high, left = ticks[0], ticks[-1], 14 + 5.7 * max(len(title) for title, _ in rows)

    def at(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - RIGHT)

    parts, bottom = [], TOP + LINE * len(rows)
    for tick in ticks:
        parts.append(f'<line class="axis" x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(f'<text x="{at(tick):.1f}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>')
    for number, (title, cells) in enumerate(rows):
        y = TOP + LINE * (number + 0.5)
        parts.append(f'<text x="{left - 8:.1f}" y="{y + 4}" text-anchor="end">{escape(title)}</text>')
        parts.append(f'<line class="axis" x1="{left:.1f}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        for name, figure in zip(table.columns, cells, strict=True):
            if figure.paper:
                text = f"{title}, {name}: paper {figure.paper.mean:.{figure.digits}f}"
                parts.append(mark(name, at(figure.paper.mean), y, False, text))
            if figure.ours:
                text = f"{title}, {name}: ours {figure.ours[0]:.{figure.digits}f}"
                parts.append(mark(name, at(figure.ours[0]), y, True, text))
    x = 0.0
    for name in table.columns:
        parts.append(mark(name, x + 6, 9, True, name))
        parts.append(f'<text x="{x + 14:.1f}" y="13">{escape(name)}</text>')
        x += 24 + 5.8 * len(name)
    height = bottom + 22
    return f'<svg class="dots" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">{"".join(parts)}</svg>'


def curves(lines: list[tuple[str, list[int], list[float]]], marked: tuple[int, ...], log: bool = True) -> str:
    """Scores over layers or questions, one line for each name; `marked` are the numbers on the axis."""
    scores = [score for _, _, every in lines for score in every]
    ticks, deepest = axis(min(scores), max(scores)), max(layer for _, layers, _ in lines for layer in layers)
    left, bottom = 40, TOP + 170

    def at(layer: float, score: float) -> tuple[float, float]:
        share = math.log(layer) / math.log(max(deepest, 2)) if log else layer / max(deepest, 1)
        x = left + share * (WIDTH - left - RIGHT)
        return x, bottom - (score - ticks[0]) / (ticks[-1] - ticks[0]) * (bottom - TOP)

    parts = []
    for tick in ticks:
        _, y = at(1, tick)
        parts.append(f'<line class="axis" x1="{left}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 5}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    parts += [
        f'<text x="{at(layer, ticks[0])[0]:.1f}" y="{bottom + 15}" text-anchor="middle">{layer}</text>'
        for layer in marked
        if layer <= deepest
    ]
    x, line = 0.0, bottom + 34
    for (label, layers, every), colour in zip(lines, itertools.cycle(COLOURS), strict=False):
        name = escape(label)
        points = " ".join("{:.1f},{:.1f}".format(*at(layer, score)) for layer, score in zip(layers, every, strict=True))
        drawn = f'fill="none" stroke="{colour}" stroke-width="1.6"'
        parts.append(f'<polyline points="{points}" {drawn}><title>{name}: {every[-1]:g} after {layers[-1]}</title></polyline>')
        if x + 24 + 5.8 * len(name) > WIDTH:
            x, line = 0.0, line + 15
        place = f'y1="{line - 4}" y2="{line - 4}"'
        parts.append(f'<line x1="{x:.1f}" x2="{x + 12:.1f}" {place} stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 16:.1f}" y="{line}">{name}</text>')
        x += 26 + 5.8 * len(name)
    height = line + 8
    return f'<svg class="dots curves" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">{"".join(parts)}</svg>'


def axis(low: float, high: float) -> list[float]:
    """About five round numbers around a range."""
    raw = max((high - low) / 4, 1e-3)
    step = next(unit * 10**power for power in range(-4, 5) for unit in (1, 2, 2.5, 5) if unit * 10**power >= raw)
    first = int(low // step)
    return [round(number * step, 6) for number in range(first, first + 8) if (number - 1) * step <= high]


# ---------------------------------------------------------------------- how it was made


def command(records: list[Record]) -> str:
    """The command that reproduces the figures of one method and dataset, in a separate folder."""
    record, seeds = records[0], max(int(entry["seed"]) for entry in records) + 1
    text = f"python -m qtcore.reproduce {record['table']} --methods {record['method']} --datasets {record['dataset']}"
    return f"{text} --seeds {seeds} --out again"


def words(settings: dict[str, Any]) -> str:
    """Settings as "epochs 600, batch 500", without those that are None."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:g}"
        return " / ".join(map(text, value)) if isinstance(value, list | tuple) else str(value)

    return ", ".join(f"{key.replace('_', ' ')} {text(value)}" for key, value in settings.items() if value is not None)


def phases(training: dict[str, Any]) -> list[str]:
    """The settings of each phase of a training, the first one first, with the step that was kept."""
    text = words(training.get("settings", {})) or "nothing to train"
    if "step" in training:
        text += f"; kept: step {training['step']}, best on the validation rows"
    if "minutes" in training:
        text += f"; {training['minutes']:g} minutes"
    start = training.get("start")
    return [*(phases(start) if isinstance(start, dict) else []), text]


def made(rows: Iterable[Row]) -> str:
    """A line for each training (or baseline) behind a table: command, settings, data, software."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in (record for row in rows for record in row.records):
        known = groups.setdefault((record["method"], record["model"], record["dataset"]), [])
        if record not in known:
            known.append(record)
    lines = []
    for records in groups.values():
        first = records[0]
        training, versions = first.get("training", {}), first.get("versions", {})
        all_phases = phases(training)
        numbered = [f"phase {i}: {text}" for i, text in enumerate(all_phases, 1)] if len(all_phases) > 1 else all_phases
        settings = "<br>".join(escape(text) for text in numbered)
        counts = {"gibbs" in part: score.get("samples", "") for part, score in first["scores"].items()}
        scored = f"Scored on {counts.get(False, '')} samples" + (f", by Gibbs on {counts[True]}." if True in counts else ".")
        software = ", ".join(f"{name} {version}" for name, version in versions.items())
        cells = [
            f"<code>{escape(command(records))}</code><br>{settings}",
            f"{escape(str(first.get('note', '')))} {scored}<br><small>{escape(software)}</small>",
        ]
        name = escape(str(first.get("checkpoint", first["method"])))
        lines.append(f"<tr><th>{name}</th>{''.join(f'<td>{text}</td>' for text in cells)}</tr>")
    if not lines:
        return ""
    head = "<tr><th>model</th><th>command and settings</th><th>data</th></tr>"
    summary = f"How each of these was made ({len(lines)})"
    return f"<details><summary>{summary}</summary><table class='made'>{head}{''.join(lines)}</table></details>"


# ---------------------------------------------------------------------- the page


def legend(tables: Iterable[Table]) -> str:
    """The number of figures with each verdict."""
    count = Counter(cell.verdict for table in tables for row in table.rows for cell in row.cells if isinstance(cell, Compared))
    chips = [
        f'<span data-verdict="{verdict}"><em>{sign} {verdict}</em> {count[verdict]}</span>' for verdict, sign in MARKS.items()
    ]
    return f"<p class='legend'>{''.join(chips)}</p>"


def html(records: list[Record]) -> str:
    """The whole page."""
    groups = {name: make(records) for name, (_, make) in TABLES.items()}
    parts = [
        f"<p>Large: ours on the test set; small: the paper's figure and the difference. {ERRORS} In the plots "
        "filled marks are ours and open ones the paper's. <code>python -m qtcore.reproduce all --evaluate-only</code> scores "
        "the shipped models again; it takes minutes.</p>",
        legend(table for tables in groups.values() for table in tables),
    ]
    names = ("depth", "calibration", "joint", "questions", *MATRICES)
    depths, calibration, joint, questions, *matrices = (groups.pop(name) for name in names)
    for name, tables in groups.items():
        parts.append(f"<h2>{escape(TABLES[name][0])}</h2>")
        for table in tables:
            plot = "" if name == "grid" else dots(table)  # IoU and NCE have no axis in common
            parts.append(f"<div class='pair'>{table_html(table)}{plot}</div>{made(table.rows)}")
        parts += [f"<p>{escape(line)}</p>" for line in budgets(records, name)]
    if depths:
        parts.append(f"<h2>{escape(TABLES['depth'][0])}</h2><p>{escape(DEPTHS)} ")
        parts.append("<code>python -m qtcore.reproduce depth --evaluate-only</code> scores them again.</p>")
    for table, lines in zip(depths, depth_curves(records).values(), strict=True):
        named = [(record["dataset"], layers, scores) for record, layers, scores in lines]
        parts.append(f"<div class='pair'>{table_html(table)}{curves(named, (1, 2, 5, 10, 20, 60))}</div>")
    if calibration:
        parts.append(f"<h2>{escape(TABLES['calibration'][0])}</h2><p>{escape(CALIBRATION)} ")
        parts.append("<code>python -m qtcore.reproduce calibration --evaluate-only</code> computes them again.</p>")
        parts += [table_html(table) for table in calibration]
    if joint:
        parts.append(f"<h2>{escape(TABLES['joint'][0])}</h2><p>{escape(JOINT)} ")
        parts.append("<code>python -m qtcore.reproduce joint --evaluate-only</code> computes them again.</p>")
        parts += [table_html(table) for table in joint]
        parts.append(made(joint[0].rows))
    if questions:
        parts.append(f"<h2>{escape(TABLES['questions'][0])}</h2><p>{escape(QUESTIONS)} ")
        parts.append("<code>python -m qtcore.reproduce questions --evaluate-only</code> asks them again.</p>")
    for table, asked in zip(questions, question_curves(records).values(), strict=True):
        plot = curves([(title, numbers, scores) for _, title, numbers, scores in asked], tuple(asked[0][2]), log=False)
        parts.append(f"<div class='pair'>{table_html(table)}{plot}</div>")
    for name, tables in zip(MATRICES, matrices, strict=True):
        if tables:
            parts.append(f"<h2>{escape(TABLES[name][0])}</h2><p>{escape(EXPLAINED[name])} ")
            parts.append(f"<code>python -m qtcore.reproduce {name} --evaluate-only</code> scores them again.</p>")
        parts += [table_html(table) + made(table.rows) for table in tables]
    return f"<div class='results'>{''.join(parts)}</div>"


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    style = (FOLDER / "results.css").read_text("utf-8")
    return pn.pane.HTML(html(results()), stylesheets=[style], sizing_mode="stretch_width", margin=(4, 16, 16, 16))
