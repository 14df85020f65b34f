"""The tables as Markdown: the paper's figures next to ours."""

from collections.abc import Callable

from qtcore.data import SPECIFICATIONS
from qtcore.models.provenance import Provenance
from qtcore.paper.calibrations import CALIBRATION, calibration_curves, calibration_error
from qtcore.paper.comparison_tables import COMPARISON, compare_tables
from qtcore.paper.experiments import ASKED_ABOUT, CARDINALITY, JOINT_COLUMNS, QUESTION_COLUMNS
from qtcore.paper.figures import MISSING as MISSING
from qtcore.paper.figures import NOT_COMPARABLE as NOT_COMPARABLE
from qtcore.paper.figures import NOT_SAMPLED as NOT_SAMPLED
from qtcore.paper.figures import Compared as Compared
from qtcore.paper.figures import Row as Row
from qtcore.paper.figures import Table as Table
from qtcore.paper.figures import chosen_records, comparison, mean_over_seeds
from qtcore.paper.matrices import ENGINES, QUERIES, engine_tables, query_tables
from qtcore.paper.printed import DATASETS, FREY, GRID, PUBLISHED, TABLE_1
from qtcore.paper.records import Record

NAMES = {"qt": "QT", "pcd-bp": "PCD-BP", "pcd-gibbs": "PCD-Gibbs", "advil-bp": "AdVIL-BP", "advil-gibbs": "AdVIL-Gibbs"}
NAMES |= {"image-gaussian": "one Gaussian per image", "pixel-gaussian": "one Gaussian per pixel", "random": "random guess"}
ERRORS = (
    "± ours: standard error of the mean, over runs where there are several, else over draws of the "
    "queries (Frey) or test samples. "
    "± the paper's: standard deviation of the mean, from its supplement. "
    "Same: the difference is within these two errors, added in quadrature."
)
DEPTHS = "Test set: the first 300 images of a grid, the first 2,000 rows of the others with one draw of uniform queries."

JOINT = (
    "Test set: 500 rows (Web: 200, NIPS: 50), at equal distances, each in two random orders of the chain rule; 2,000 rows for "
    "consistency. ± is the standard error over rows. Published, on whole test sets: NADE (Larochelle and Murray, 2011), EoNADE "
    "(Uria, Murray and Larochelle, 2014), MADE (Germain and others, 2015)."
)

QUESTIONS = (
    "Nothing is known at first. Yes-or-no questions about other variables are answered by the test row, one after the other: "
    "chosen ones, which promise most bits about the property, or random ones. The first 300 test rows of which the property is "
    "known. (The classes of the original tables, income and edibility, are not among the columns of these files.)"
)


def table_1_tables(records: list[Record]) -> list[Table]:
    """NCE in bits of RBM and DBM, one row per dataset and one column per method."""
    tables = []
    for model, methods in (
        ("rbm", ("qt", "pcd-bp", "pcd-gibbs", "advil-bp", "advil-gibbs")),
        ("dbm", ("qt", "advil-bp", "advil-gibbs")),
    ):
        rows = []
        for dataset in DATASETS:
            row = Row(SPECIFICATIONS[dataset].heading, [], [])
            for method in methods:
                chosen, part = chosen_records(records, "table1", method, model=model, dataset=dataset)
                comparable = all(record["source"] != "stand-in" for record in chosen)
                ours, printed = mean_over_seeds(chosen, part), TABLE_1.get((method, model, dataset))
                row.cells.append(comparison(ours, printed, comparable, trained=bool(chosen)))
                row.records.extend(record for record in chosen if record not in row.records)
            rows.append(row)
        tables.append(Table(model.upper(), [NAMES[method] for method in methods], rows))
    return tables


def frey_tables(records: list[Record]) -> list[Table]:
    """NCE in bits of the Gaussian RBM on the Frey faces."""
    rows = []
    methods = [(method, "frey") for method in ("qt", "advil-bp", "advil-gibbs", "image-gaussian", "pixel-gaussian")]
    methods.insert(1, ("qt", "frey-sigma"))
    for method, dataset in methods:
        chosen, inference = chosen_records(records, "frey", method, dataset=dataset)
        parts = {queries: f"{queries}-gibbs" if inference == "gibbs" else queries for queries in ("uniform", "patches")}
        cells = [
            comparison(
                mean_over_seeds(chosen, part), FREY.get((method, queries)) if dataset == "frey" else None, trained=bool(chosen)
            )
            for queries, part in parts.items()
        ]
        rows.append(Row(NAMES[method] if dataset == "frey" else "QT, a learned σ for each pixel", [*cells], chosen))
    return [Table("", ["uniform queries", "5×5 patches"], rows)]


def grid_tables(records: list[Record]) -> list[Table]:
    """IoU and NCE of the grid MRF, computed in both ways."""
    counted = (
        ("QT, own evidence in the belief", "border-fixed", "", False),
        ("QT, own evidence in the belief, frame forced to OUT", "border-fixed", "_framed", False),
        ("QT, scored as in the authors' code: no own evidence, frame forced to OUT", "border-authors", "_framed", True),
        ("QT, no own evidence", "border-authors", "", False),
        ("QT over depths, own evidence in the belief, after 15 layers", "border", "", False),
        ("QT over depths, own evidence in the belief, after 60 layers", "border", "_deep", False),
    )
    rows = []
    for title, dataset, suffix, printed in counted:
        chosen, _ = chosen_records(records, "grid", "qt", dataset=dataset)
        iou, nce = (mean_over_seeds(chosen, part + suffix) for part in ("iou", "nce"))
        first = comparison(iou, GRID["qt", "iou"] if printed else None, digits=2, more_is_better=True)
        second = comparison(nce, GRID["qt", "nce"] if printed else None, digits=4)
        rows.append(Row(title, [first, second], chosen))
    guess, _ = chosen_records(records, "grid", "random")
    figure = mean_over_seeds(guess, "iou")
    cell = Compared(figure, GRID["random", "iou"], MISSING if figure is None else "", 2)
    rows.append(
        Row("random IN/OUT", [cell, f"1 bit per IN/OUT pixel by definition; paper {GRID['random', 'nce'].mean:.2f}"], guess)
    )
    return [Table("", ["IoU % (higher is better)", "NCE in nats (lower is better)"], rows)]


SHOWN_LAYERS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 60)
"""The layers that a table of depths shows."""


def depth_curves(records: list[Record]) -> dict[str, list[tuple[Record, list[int], list[float]]]]:
    """By kind of model, for each record: the layers, and the score after each of them (IoU in %, or NCE in bits)."""
    curves: dict[str, list[tuple[Record, list[int], list[float]]]] = {}
    for record in records:
        scores = record["scores"]
        if record["table"] == "depth" and "layer" in scores:
            kind = record["model"] if record["method"] == "qt" else f"{record['model']}-{record['method']}"
            curves.setdefault(kind, []).append((record, scores["layer"], scores.get("iou", scores["nce_bits"])))
    return {kind: curves[kind] for kind in DEPTH_TITLES if kind in curves}


DEPTH_TITLES = {
    "grid": "Grid MRF: IoU in % (higher is better)",
    "grbm": "Gaussian RBM: NCE in bits (lower is better)",
    "rbm": "RBM: NCE in bits (lower is better)",
    "dbm": "DBM: NCE in bits (lower is better)",
    "rbm-pcd": "RBM, trained by PCD: NCE in bits (lower is better)",
    "grbm-advil": "Gaussian RBM, trained by AdVIL: NCE in bits (lower is better)",
    "rbm-advil": "RBM, trained by AdVIL: NCE in bits (lower is better)",
    "dbm-advil": "DBM, trained by AdVIL: NCE in bits (lower is better)",
}


def depth_tables(records: list[Record]) -> list[Table]:
    """The score after so many layers, one row per model."""
    tables = []
    for kind, curves in depth_curves(records).items():
        rows = []
        for record, layers, scores in curves:
            after = dict(zip(layers, scores, strict=True))
            shown = [f"{after[layer]:.{1 if kind == 'grid' else 3}f}" if layer in after else "" for layer in SHOWN_LAYERS]
            rows.append(Row(record["dataset"], [*shown], [record]))
        tables.append(Table(DEPTH_TITLES[kind], [f"layer {layer}" for layer in SHOWN_LAYERS], rows))
    return tables


def calibration_tables(records: list[Record]) -> list[Table]:
    """How often what is claimed is so: in each tenth of [0, 1], or in the central parts of a density, a row for each model."""
    tables = []
    for title, chosen in calibration_curves(records).items():
        parts = 3 if title.startswith("Gaussian") else 10
        rows = []
        for record in chosen:
            scores, cells = record["scores"], ["" for _ in range(parts)]
            for place, (claimed, so) in enumerate(zip(scores["claimed"], scores["true"], strict=True)):
                if parts == 3 and place < parts:
                    cells[place] = f"{100 * so:.1f} %"
                elif parts == 10:  # a tenth in which nothing is claimed has no entry
                    cells[max(0, min(int(10 * claimed), 9))] = f"{claimed:.2f} → {so:.2f}"
            rows.append(Row(record["dataset"], [f"{calibration_error(record):.4f}", *cells], [record]))
        names = [f"{part / 10:g}–{(part + 1) / 10:g}" for part in range(10)]
        central = [f"truth in the central {part} %" for part in (50, 80, 95)]
        tables.append(Table(title, ["expected calibration error", *(central if parts == 3 else names)], rows))
    return tables


JOINT_PARTS = {
    "mixture": "−log p of a row in nats, mixture of two orders (lower is better)",
    "nll": "−log p of a row in nats, one order (lower is better)",
    "spread": "Standard deviation of log p over orders, in nats (0: consistent)",
    "inconsistency": "|log p(a)p(b|a) − log p(b)p(a|b)| in bits, half of the others observed (0: consistent)",
}


def joint_tables(records: list[Record]) -> list[Table]:
    """Log-likelihoods by the chain rule beside published ones, and how consistent the marginals are."""
    tables = []
    for part, title in JOINT_PARTS.items():
        rows, likelihood = [], part in ("mixture", "nll")
        for dataset, published in PUBLISHED.items():
            row = Row(SPECIFICATIONS[dataset].heading, [], [])
            for method, model, suffix in JOINT_COLUMNS.values():
                chosen, _ = chosen_records(records, "joint", method, model=model, dataset=dataset + suffix)
                ours = mean_over_seeds(chosen, part)
                digits = 2 if likelihood else 3
                row.cells.append(MISSING if ours is None else f"{ours[0]:.{digits}f} ± {ours[1]:.{digits}f}")
                row.records.extend(chosen)
            if likelihood:
                row.cells.append("–".join(f"{figure:g}" for figure in dict.fromkeys(published)))
            rows.append(row)
        columns = [*JOINT_COLUMNS, "NADE, EoNADE, MADE"] if likelihood else [*JOINT_COLUMNS]
        if any(row.records for row in rows):
            tables.append(Table(title, columns, rows))
    return tables


def question_curves(records: list[Record]) -> dict[str, list[tuple[Record, str, list[int], list[float]]]]:
    """By dataset, for each record twice: what was asked, after so many questions, and how often the answer was then right."""
    curves = {}
    for dataset in ASKED_ABOUT:
        lines = []
        for title, (method, model, suffix) in QUESTION_COLUMNS.items():
            chosen, _ = chosen_records(records, "questions", method, model=model, dataset=dataset + suffix)
            for record in chosen:
                scores = record["scores"]
                lines += [(record, f"{title}: {how}", scores["questions"], scores[how]) for how in ("chosen", "random")]
        if lines:
            curves[dataset] = lines
    return curves


def question_tables(records: list[Record]) -> list[Table]:
    """How well a property is known after so many questions."""
    tables = []
    for dataset, lines in question_curves(records).items():
        rows = [Row(title, [f"{score:.1f}" for score in scores], [record]) for record, title, _, scores in lines]
        columns = [f"{k} questions" if k != 1 else "1 question" for k in lines[0][2]]
        title = f"{SPECIFICATIONS[dataset].heading}, {ASKED_ABOUT[dataset]}: the most probable option is the true one, in %"
        tables.append(Table(title, columns, rows))
    return tables


TABLES: dict[str, tuple[str, Callable[[list[Record]], list[Table]]]] = {
    "table1": ("Table 1: NCE in bits (lower is better)", table_1_tables),
    "frey": ("Gaussian RBM on the Frey faces: NCE in bits (lower is better)", frey_tables),
    "grid": ("Grid MRF on border ownership", grid_tables),
    "depth": ("The score over the depth", depth_tables),
    "calibration": ("Calibration: what is claimed → how often it is so", calibration_tables),
    "joint": ("Joint probabilities by the chain rule", joint_tables),
    "questions": ("Which variable to ask about next", question_tables),
    "compare": ("Query training and what else there is", compare_tables),
    "queries": ("Which queries to train on: NCE in bits (lower is better)", query_tables),
    "engines": ("Other engines: NCE in bits (lower is better)", engine_tables),
}
"""For each group of tables: its heading, and the function that makes it."""


EXPLAINED = {
    "depth": DEPTHS,
    "calibration": CALIBRATION,
    "joint": JOINT,
    "questions": QUESTIONS,
    "queries": QUERIES,
    "engines": ENGINES,
    "compare": COMPARISON,
}
"""What is said below a group of tables; ERRORS below the others."""


def made(name: str, records: list[Record], whole: bool = True) -> list[Table]:
    """A group of tables, with all their rows or with those that have a record."""
    tables = TABLES[name][1](records)
    if whole:
        return tables
    kept = [table._replace(rows=[row for row in table.rows if row.records]) for table in tables]
    return [table for table in kept if table.rows]


def row_of(record: Record) -> tuple[str, ...]:
    """Which row of its table a record belongs to; some stand beside others there."""
    name, dataset = record["table"], record["dataset"]
    if name == "table1":
        return name, record["model"], dataset
    if name == "joint":
        return name, dataset.removesuffix(CARDINALITY)
    return name, record["method"], record["model"], dataset


def markdown(name: str, records: list[Record], whole: bool = True) -> str:
    """A group of tables as Markdown."""
    lines = [f"# {TABLES[name][0]}", ""]
    for table in made(name, records, whole):
        lines += [f"## {table.title}", ""] if table.title else []
        lines += [f"| | {' | '.join(table.columns)} |", "|---" * (len(table.columns) + 1) + "|"]
        lines += [f"| {row.title} | {' | '.join(map(str, row.cells))} |" for row in table.rows]
        lines.append("")
    explained = EXPLAINED.get(name, ERRORS)
    below = [explained, "", f"[As a plot]({name}.png).", "", *budgets(records, name)]
    if any(len(history) for _, history, _ in histories(records, name)):
        below.append("[AdVIL's training history](advil.png): validation NCE against the paper's figure.")
    return "\n".join([*lines, *below])


def summary(records: list[Record]) -> str:
    """The query-trained models in brief, as Markdown: for docs/results.md, and ten rows of it for the README."""
    lines = ["| query-trained | ours | paper | |", "|---|---|---|---|"]
    for table in table_1_tables(records):
        chosen = table.columns.index(NAMES["qt"])
        lines += [_brief(f"{table.title}, {row.title}: NCE in bits", row.cells[chosen]) for row in table.rows]
    frey, grid = frey_tables(records)[0], grid_tables(records)[0]
    lines += [_brief(f"Gaussian RBM, Frey, {queries}: NCE in bits", cell) for queries, cell in _pairs(frey, 0)]
    for place, how in ((0, "own evidence"), (2, "the authors' count"), (4, "over depths")):
        names = ("IoU in %", "NCE in nats")
        lines += [_brief(f"Grid, {how}: {name}", cell) for name, (_, cell) in zip(names, _pairs(grid, place), strict=True)]
    return "\n".join(lines) + "\n"


def _pairs(table: Table, row: int) -> "list[tuple[str, Compared | str]]":
    return list(zip(table.columns, table.rows[row].cells, strict=True))


def _brief(title: str, cell: "Compared | str") -> str:
    assert isinstance(cell, Compared)
    paper = "–" if cell.paper is None else f"{cell.paper.mean:.{cell.digits}f}"
    ours = "–" if cell.ours is None else f"{cell.ours[0]:.{cell.digits}f}"
    return f"| {title} | {ours} | {paper} | {cell.verdict} |"


def budgets(records: list[Record], table: str) -> list[str]:
    """Training budgets, where they are smaller than the paper's."""
    lines = []
    spent = {
        tuple(r["training"]["settings"][key] for key in ("steps", "decoder_steps", "rate", "helper_rate"))
        for r in records
        if r["table"] == table and r["method"] == "advil" and "training" in r and "settings" in r["training"]
    }
    for steps, decoder, rate, helpers in sorted(spent):
        ours = f"{steps} model steps with {decoder} decoder steps each, rates {rate:g} and {helpers:g}"
        lines.append(f"AdVIL here: {ours} (the paper's: 100,000 with 100, rates 0.0003).")
    if any(record.get("training", {}).get("quick") for record in records if record["table"] == table):
        lines.append("Some of these models are from a quick run and say nothing about the method.")
    return lines


def histories(records: list[Record], table: str) -> list[tuple[str, list[list[float]], float]]:
    """For every AdVIL model of a table: its name, its history of (step, validation NCE), and the paper's final figure."""
    curves = []
    for record in records:
        if (record["table"], record["method"]) != (table, "advil") or "training" not in record:
            continue
        model, dataset = record["model"], record["dataset"]
        printed = FREY["advil-bp", "uniform"] if model == "grbm" else TABLE_1["advil-bp", model, dataset]
        history = Provenance.from_dict(record["training"]).history or []
        curves.append((f"{model.upper()}, {SPECIFICATIONS[dataset].heading}", history, printed.mean))
    return curves


def panels(name: str, records: list[Record], whole: bool = True) -> list[Table]:
    """A group of tables as one table per panel of its plot: figures that share an axis, without Gibbs and random guess."""
    tables = []
    for table in made(name, records, whole):
        rows = [row for row in table.rows if all(isinstance(cell, Compared) for cell in row.cells)]
        if name == "grid":  # IoU and NCE have no axis in common
            for place, column in enumerate(table.columns):
                tables.append(Table(column, ["QT"], [Row(row.title, [row.cells[place]], row.records) for row in rows]))
            continue
        shown = [place for place, column in enumerate(table.columns) if not column.endswith("-Gibbs")]
        columns = [table.columns[place] for place in shown]
        kept = [Row(row.title, [row.cells[place] for place in shown], row.records) for row in rows]
        tables.append(Table(f"{table.title}: NCE in bits".lstrip(": "), columns, kept))
    return tables
