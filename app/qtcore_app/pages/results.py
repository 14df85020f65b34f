"""Results: the paper's tables next to ours, the plots, and how each figure was made."""

import asyncio
import functools
import json
import logging
import threading
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from panel.viewable import Viewable

from qtcore.models.files import checkpoint_folder
from qtcore.paper.calibrations import CALIBRATION
from qtcore.paper.comparison_tables import COMPARISON, compare_curves
from qtcore.paper.matrices import MATRICES
from qtcore.paper.records import Record, is_record
from qtcore.paper.tables import (
    DEPTH_TITLES,
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
    joint_tables,
    question_curves,
)
from qtcore_app import engine, plots
from qtcore_app.components import Report
from qtcore_app.shell import Shell

log = logging.getLogger(__name__)

MARKS = {"better": "✓", "worse": "▲", "same": "=", NOT_COMPARABLE: "≠", NOT_SAMPLED: "…", MISSING: "–"}
PLOTTED: dict[str, dict[str, Any]] = {"table1": {"logx": True, "xticks": [0.1, 0.2, 0.5, 1, 2, 4]}, "frey": {}}
"""Tables whose columns have an axis in common (those of the grid, IoU and NCE, have none), and what this axis is like."""


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


def place(group: str, number: int, title: str) -> str:
    """Where a figure will be (see `figures`)."""
    return f'<div class="figure" data-figure="{group}-{number}" role="figure" aria-label="{escape(title)}"></div>'


def figures(records: list[Record]) -> dict[str, list[Any]]:
    """The figures of each group of tables, by HoloViews."""
    depths = {
        DEPTH_TITLES[kind]: [(str(record["dataset"]), layers, scores) for record, layers, scores in lines]
        for kind, lines in depth_curves(records).items()
    }
    asked = [[(title, numbers, scores) for _, title, numbers, scores in lines] for lines in question_curves(records).values()]
    layers = {"logx": True, "xticks": [1, 2, 5, 10, 20, 60]}
    return {
        **{name: [plots.dots(table, **axis) for table in TABLES[name][1](records)] for name, axis in PLOTTED.items()},
        "depth": [plots.curves(lines, "layer", title.partition(": ")[2], **layers) for title, lines in depths.items()],
        "joint": [plots.above_published(records)] if joint_tables(records) else [],
        "questions": [plots.curves(lines, "questions", "right, in %") for lines in asked],
        "compare": [plots.curves(lines, "observed, in %", "NCE in bits") for lines in compare_curves(records).values()],
    }


def drawn() -> tuple[bytes, dict[str, str]]:
    """All figures, the same for every visitor: drawn when the first one wants them, while others wait."""
    with _drawing:
        return _drawn()


_drawing = threading.Lock()


@functools.cache
def _drawn() -> tuple[bytes, dict[str, str]]:
    return plots.draw(figures(results()))


# ---------------------------------------------------------------------- how it was made


def command(records: list[Record]) -> str:
    """The command that reproduces the figures of one method and dataset, in a separate folder."""
    record, seeds = records[0], max(int(entry["seed"]) for entry in records) + 1
    if record["table"] == "compare":
        return str(record.get("command", "python -m qtcore.compare"))
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
        "filled marks are ours and open ones the paper's: point at one for its figure, at a name to hide its marks. "
        "<code>python -m qtcore.reproduce all --evaluate-only</code> scores the shipped models again; it takes minutes.</p>",
        legend(table for tables in groups.values() for table in tables),
    ]
    names = ("depth", "calibration", "joint", "questions", "compare", *MATRICES)
    depths, calibration, joint, questions, compared, *matrices = (groups.pop(name) for name in names)
    for name, tables in groups.items():
        parts.append(f"<h2>{escape(TABLES[name][0])}</h2>")
        for number, table in enumerate(tables):
            parts.append(pair(table, place(name, number, table.title or TABLES[name][0]) if name in PLOTTED else ""))
            parts.append(made(table.rows))
        parts += [f"<p>{escape(line)}</p>" for line in budgets(records, name)]
    if depths:
        parts.append(f"<h2>{escape(TABLES['depth'][0])}</h2><p>{escape(DEPTHS)} ")
        parts.append("<code>python -m qtcore.reproduce depth --evaluate-only</code> scores them again.</p>")
    parts += [pair(table, place("depth", number, table.title)) for number, table in enumerate(depths)]
    if calibration:
        parts.append(f"<h2>{escape(TABLES['calibration'][0])}</h2><p>{escape(CALIBRATION)} ")
        parts.append("<code>python -m qtcore.reproduce calibration --evaluate-only</code> computes them again.</p>")
        parts += [table_html(table) for table in calibration]
    if joint:
        parts.append(f"<h2>{escape(TABLES['joint'][0])}</h2><p>{escape(JOINT)} ")
        parts.append("<code>python -m qtcore.reproduce joint --evaluate-only</code> computes them again.</p>")
        parts += [pair(joint[0], place("joint", 0, "Nats per row above the best published figure"))]
        parts += [table_html(table) for table in joint[1:]]
        parts.append(made(joint[0].rows))
    if questions:
        parts.append(f"<h2>{escape(TABLES['questions'][0])}</h2><p>{escape(QUESTIONS)} ")
        parts.append("<code>python -m qtcore.reproduce questions --evaluate-only</code> asks them again.</p>")
    parts += [pair(table, place("questions", number, table.title)) for number, table in enumerate(questions)]
    for name, tables in zip(MATRICES, matrices, strict=True):
        if tables:
            parts.append(f"<h2>{escape(TABLES[name][0])}</h2><p>{escape(EXPLAINED[name])} ")
            parts.append(f"<code>python -m qtcore.reproduce {name} --evaluate-only</code> scores them again.</p>")
        parts += [pair(table, "") + made(table.rows) for table in tables]
    return "".join([*parts, *comparison(compared)])


def pair(table: Table, plot: str) -> str:
    return f"<div class='pair'><div class='scrolled'>{table_html(table)}</div>{plot}</div>"


def comparison(tables: list[Table]) -> list[str]:
    """Query training and what else there is: tables of all methods, then one of each dataset with its curves."""
    if not tables:
        return []
    each = [table for table in tables if table.columns[0].endswith("%")]
    whole = tables[: len(tables) - len(each)]
    return [
        f"<h2>{escape(TABLES['compare'][0])}</h2><p>{escape(COMPARISON)} ",
        "<code>python -m qtcore.compare --evaluate-only</code> scores the query-trained models again.</p>",
        *(f"<div class='scrolled'>{table_html(table)}</div>" for table in whole),
        made(whole[0].rows),
        *(pair(table, place("compare", number, table.title)) for number, table in enumerate(each)),
    ]


class ResultsPage:
    """One user's page: tables at once, figures when they are drawn."""

    def __init__(self, shell: Shell) -> None:
        self.report = Report(html(results()), margin=(4, 16, 16, 16))
        self.latest = engine.Latest()
        shell.when_left("results", self.latest.cancel)
        self.latest.submit(self._draw)

    async def _draw(self) -> None:
        figures, places = await asyncio.get_running_loop().run_in_executor(engine.pool, drawn)
        self.report.param.update(figures=figures, places=places)


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    return ResultsPage(shell).report
