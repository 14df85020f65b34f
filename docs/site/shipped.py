"""What the model cards say about the shipped models: their families, and tables from the files of models and of results."""

import json
from collections.abc import Callable
from typing import NamedTuple

import qtcore
from qtcore.data import SPECIFICATIONS
from qtcore.models.files import checkpoint_folder
from qtcore.models.provenance import Provenance
from qtcore.paper.experiments import CARDINALITY, EXPERIMENTS
from qtcore.paper.records import Record, is_record
from qtcore.paper.tables import TABLES, Row, Table


class Family(NamedTuple):
    """Models that one card describes."""

    method: str
    models: tuple[str, ...]
    """Kinds of models: rbm, dbm, grbm, grid."""
    has: Callable[[str], bool]
    """Whether a dataset's model belongs to it, by the name that the model's file has."""


FAMILIES = {
    "rbm": Family("qt", ("rbm",), lambda name: not name.endswith(CARDINALITY)),
    "rbm-cardinality": Family("qt", ("rbm",), lambda name: name.endswith(CARDINALITY)),
    "dbm": Family("qt", ("dbm",), lambda name: True),
    "frey": Family("qt", ("grbm",), lambda name: name == "frey"),
    "frey-sigma": Family("qt", ("grbm",), lambda name: name == "frey-sigma"),
    "border": Family("qt", ("grid",), lambda name: name.startswith("border")),
    "drawings": Family("qt", ("grid",), lambda name: name == "drawings"),
    "pcd": Family("pcd", ("rbm",), lambda name: True),
    "advil": Family("advil", ("rbm", "dbm", "grbm"), lambda name: True),
}

class Where(NamedTuple):
    """Where a family's scores stand among the tables of results."""

    name: str
    title: str = ""
    """Of the table, or how it begins."""
    columns: tuple[str, ...] = ()
    """All, if none are named."""


_ADVIL = ("AdVIL-BP", "AdVIL-Gibbs")
SCORES: dict[str, tuple[Where, ...]] = {
    "rbm": (Where("table1", "RBM", ("QT",)),),
    "rbm-cardinality": tuple(
        Where("joint", title, ("QT", "QT, any number observed", "NADE, EoNADE, MADE"))
        for title in ("−log p of a row in nats, mixture", "Standard deviation")
    ),
    "dbm": (Where("table1", "DBM", ("QT",)),),
    "frey": (Where("frey"),),
    "frey-sigma": (Where("frey"),),
    "border": (Where("grid"),),
    "drawings": (),  # the score over the depth is all there is
    "pcd": (Where("table1", "RBM", ("PCD-BP", "PCD-Gibbs")),),
    "advil": (Where("table1", "RBM", _ADVIL), Where("table1", "DBM", _ADVIL), Where("frey")),
}


def records() -> list[Record]:
    """All records of results."""
    paths = sorted((checkpoint_folder().parent / "results").glob("*.json"))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return [record for record in found if is_record(record)]


def family_of(name: str) -> str:
    """The family of a shipped model, by its name: rbm/adult-seed1 belongs to "rbm", rbm-pcd/adult to "pcd"."""
    kind, _, dataset = name.partition("/")
    model, _, method = kind.partition("-")
    dataset = dataset.partition("-seed")[0]
    for family, (trained, models, has) in FAMILIES.items():
        if trained == (method or "qt") and model in models and has(dataset):
            return family
    raise LookupError(f"{name} belongs to no family of docs/site/shipped.py; name one there, and write its card in docs/cards.")


def of_family(family: str, found: list[Record], table: str) -> list[Record]:
    """The records of a family in a table."""
    method, models, has = FAMILIES[family]
    mine = [record for record in found if (record["table"], record["method"]) == (table, method)]
    return [record for record in mine if record["model"] in models and has(record["dataset"])]


def markdown(tables: list[Table]) -> str:
    """Tables as Markdown, each with its title as a line above it."""
    lines = []
    for table in tables:
        lines += [f"**{table.title}**", ""] if table.title else []
        lines += [f"| | {' | '.join(table.columns)} |", "|---" * (len(table.columns) + 1) + "|"]
        lines += [f"| {row.title} | {' | '.join(map(str, row.cells))} |" for row in table.rows] + [""]
    return "\n".join(lines)


def _phase(phase: Provenance) -> str:
    """A training in a few words; the earliest phase first."""
    settings = phase.settings or {}
    if "decoder_steps" in settings:
        steps = f"{settings['steps']:,} steps of {settings['decoder_steps']} decoder steps"
        return f"{steps}, rates {settings['rate']:g} and {settings['helper_rate']:g}"
    if "iterations" in settings:
        best = f"the best of {len(settings['rates'])} on validation data"
        return f"{settings['iterations']:,} passes, rate {settings['rate']:g}, {best}"
    text = ""
    if phase.start:
        other = phase.start.get("name", "").partition(",")[0]  # none, or "rbm/adult, before": an earlier phase
        earlier = other in ("", phase.experiment)
        text = f"{_phase(Provenance.from_dict(phase.start))}; then " if earlier else f"from `{other}`; then "
    text += f"{settings['steps']:,} steps" if settings.get("steps") else f"{settings.get('epochs', 0):g} epochs"
    text += f" of {settings.get('batch')} rows, rate {settings.get('learning_rate', 0):g}"
    text += f", {settings['schedule']} decay" if settings.get("schedule", "constant") != "constant" else ""
    return text + (f", {settings['train_layers']} layers" if settings.get("train_layers") else "")


def trainings(family: str, found: list[Record]) -> str:
    """A row for each shipped model: data, size, training, and the command that makes it again."""
    rows = []
    for record in of_family(family, found, "calibration"):
        name = record["checkpoint"]
        model, experiment = qtcore.load(name), EXPERIMENTS.get(name)
        size = sum(parameter.numel() for parameter in model.parameters())
        dataset = SPECIFICATIONS[experiment.dataset if experiment else record["dataset"]]
        table = "frey" if record["model"] == "grbm" else "table1"
        again = f"train {name} --recipe ours"
        if experiment is None:
            again = f"reproduce {table} --methods {record['method']} --datasets {dataset.name}"
        about = [f"{dataset.heading}, {record['source']}", f"{size:,}", experiment.queries if experiment else "–"]
        rows.append(Row(f"`{name}`", [*about, _phase(model.provenance), f"`qtcore {again}`"], [record]))
    return markdown([Table("", ["data", "numbers", "queries", "training", "made by"], rows)])


def scores(family: str, found: list[Record]) -> str:
    """The family's rows and columns of the tables of results."""
    chosen = []
    for name, title, wanted in SCORES[family]:
        mine = of_family(family, found, name)
        for table in TABLES[name][1](found):
            if not table.title.startswith(title):
                continue
            places = [place for place, column in enumerate(table.columns) if not wanted or column in wanted]
            rows = [row for row in table.rows if any(record in mine for record in row.records)]
            kept = [Row(row.title, [row.cells[place] for place in places], row.records) for row in rows]
            chosen.append(Table(table.title, [table.columns[place] for place in places], kept))
    return markdown(chosen)


def depths(family: str, found: list[Record]) -> str:
    """The score after so many layers."""
    return markdown(TABLES["depth"][1](of_family(family, found, "depth")))


def calibrations(family: str, found: list[Record]) -> str:
    """How often what is claimed is so."""
    return markdown(TABLES["calibration"][1](of_family(family, found, "calibration")))


PARTS = {"trainings": trainings, "scores": scores, "depths": depths, "calibrations": calibrations}
PLOTS = {"depths": "depth", "calibrations": "calibration"}
"""Parts that have a plot too, and its name."""
