"""Results: the paper's tables next to ours, the plots, and how each figure was made."""

import functools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import panel as pn
from panel.viewable import Viewable

from app.components.source import FOLDER
from app.shell import Shell
from qtcore.models.files import checkpoint_folder
from qtcore.paper.records import Record, is_record
from qtcore.paper.tables import (
    DEPTHS,
    ERRORS,
    MISSING,
    NOT_COMPARABLE,
    NOT_SAMPLED,
    TABLES,
    Compared,
    Row,
    Table,
    budgets,
    depth_curves,
)

if TYPE_CHECKING:
    from bokeh.plotting import figure

log = logging.getLogger(__name__)

MARKS = {"better": "✓", "worse": "▲", "same": "=", NOT_COMPARABLE: "≠", NOT_SAMPLED: "…", MISSING: "–"}


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


def sections(records: list[Record]) -> Iterator[tuple[str, "Callable[[], figure] | None"]]:
    """The whole page: pieces of HTML, and what draws the plot beside each, if it has one."""
    from app import plots  # only here: HoloViews takes its time to load

    groups = {name: make(records) for name, (_, make) in TABLES.items()}
    yield (
        f"<p>Large: ours on the test set; small: the paper's figure and the difference. {ERRORS} In the plots "
        "filled marks are ours and open ones the paper's; point at one to read its figure. "
        "<code>python -m qtcore.reproduce all --evaluate-only</code> scores the shipped models again; it takes minutes.</p>"
        + legend(table for tables in groups.values() for table in tables),
        None,
    )
    depths = groups.pop("depth")
    for name, tables in groups.items():
        yield f"<h2>{escape(TABLES[name][0])}</h2>", None
        for table in tables:  # IoU and NCE have no axis in common
            yield table_html(table), None if name == "grid" else functools.partial(plots.dots, table)
            yield made(table.rows), None
        yield "".join(f"<p>{escape(line)}</p>" for line in budgets(records, name)), None
    if depths:
        again = "<code>python -m qtcore.reproduce depth --evaluate-only</code> scores them again."
        yield f"<h2>{escape(TABLES['depth'][0])}</h2><p>{escape(DEPTHS)} {again}</p>", None
    for table, lines in zip(depths, depth_curves(records).values(), strict=True):
        yield table_html(table), functools.partial(plots.curves, lines)


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    style = (FOLDER / "results.css").read_text("utf-8")
    parts: list[Viewable] = []
    for text, plot in sections(results()):
        pane = pn.pane.HTML(f"<div class='results'>{text}</div>", stylesheets=[style], margin=0)
        if plot is None:
            pane.sizing_mode = "stretch_width"
        parts.append(pane if plot is None else pn.FlexBox(pane, pn.pane.Bokeh(plot(), margin=(0, 0, 0, 16)), margin=(4, 0)))
    return pn.Column(*parts, sizing_mode="stretch_width", margin=(4, 16, 16, 16))
