"""The tables of the comparison: scores, sizes, minutes, and the score over the share of evidence."""

from collections.abc import Callable
from typing import Any

from qtcore.data import SPECIFICATIONS
from qtcore.paper.contests import COMPARED, EVIDENCE, METHODS, QT, RIVALS, TRAINED_AT
from qtcore.paper.figures import Row, Table
from qtcore.paper.records import Record
from qtcore.paper.structures import ONE_HOT

TITLES = {
    "rbm": "QT, the paper's RBM",
    "dbm": "QT, the paper's DBM",
    "rbm-large": "QT, larger RBM",
    "lateral": "QT, semi-restricted",
    "groups": "QT, one-of-k groups",
    "mlp": "masked network",
    "imputer": "IterativeImputer",
    "circuit": "probabilistic circuit",
    "frequencies": "frequencies",
}
SAME = 0.0005
"""Differences below this are none: no printed digit changes."""
NO_GROUPS, MISSING = "no groups", "not yet done"
COMPARISON = (
    "At most 3,000 test rows at equal distances, for all methods the same rows and masks; every model was trained with each "
    "bit observed with probability ½, and is scored on the bits that are not observed. ± is the standard error over rows. The "
    "second table compares the query-trained model that is best on validation data with the best of the others on these test "
    "rows (so far: not all of them are done). QT: query-trained belief propagation. Minutes are of the processor, on one core "
    "(of the paper's models, as their trainings took); those of the masked network and of the imputer are for both settings of "
    "which the better one was kept. The circuit is a hidden Chow–Liu tree (SPFlow)."
)


def _title(record: Record) -> str:
    return str(record["model"] if record["method"] == "qt" else record["method"])


def compared_records(records: list[Record]) -> dict[str, dict[str, Record]]:
    """By dataset, then by method."""
    found: dict[str, dict[str, Record]] = {name: {} for name in COMPARED}
    for record in records:
        if record["table"] == "compare" and _title(record) in METHODS and record["dataset"] in found:
            found[record["dataset"]][_title(record)] = record
    return {name: {method: own[method] for method in METHODS if method in own} for name, own in found.items()}


def score_of(record: Record, percent: int = TRAINED_AT) -> float | None:
    """NCE in bits at a share of evidence."""
    score = record["scores"].get(f"evidence-{percent}")
    return None if score is None else float(score["mean"])


def best_of_ours(own: dict[str, Record]) -> str | None:
    """The query-trained model that is best on validation data."""
    valid = {method: own[method].get("training", {}).get("valid_nce_bits") for method in QT if method in own}
    known = {method: bits for method, bits in valid.items() if bits is not None and score_of(own[method]) is not None}
    return min(known, key=lambda method: known[method]) if known else None


def best_of_others(own: dict[str, Record]) -> str | None:
    """The best of the other methods, on the test rows."""
    known = {method: score for method in RIVALS if method in own and (score := score_of(own[method])) is not None}
    return min(known, key=lambda method: known[method]) if known else None


def verdict(own: dict[str, Record]) -> list[str]:
    """Our best model on validation data, the best of the others, and their difference."""
    ours, rival = best_of_ours(own), best_of_others(own)
    first, second = (MISSING if each is None else f"{TITLES[each]}: {score_of(own[each]):.4f}" for each in (ours, rival))
    if ours is None or rival is None:
        return [first, second, ""]
    difference = (score_of(own[ours]) or 0.0) - (score_of(own[rival]) or 0.0)
    word = "same" if abs(difference) < SAME else "better" if difference < 0 else "worse"
    return [first, second, f"{difference:+.4f} {word}" + ("" if all(method in own for method in RIVALS) else ", so far")]


def compare_tables(records: list[Record]) -> list[Table]:
    """Nothing until something was computed."""
    found = compared_records(records)
    if not any(found.values()):
        return []
    headings = [SPECIFICATIONS[name].heading for name in found]

    def of_all(title: str, text: Callable[[Record], str]) -> Table:
        rows = []
        for method in METHODS:
            cells: list[Any] = [text(own[method]) if method in own else _why_not(method, name) for name, own in found.items()]
            rows.append(Row(TITLES[method], cells, [own[method] for own in found.values() if method in own]))
        return Table(title, headings, rows)

    against = [Row(heading, [*verdict(own)], []) for heading, own in zip(headings, found.values(), strict=True)]
    tables = [
        of_all(f"NCE in bits, {TRAINED_AT} % observed (lower is better)", _score_text),
        Table("Query training against the best of the others", ["best on validation data", "best of the others", ""], against),
        of_all("Parameters", lambda record: f"{record.get('parameters', 0):,}"),
        of_all("Minutes of training, on one core", lambda record: f"{record.get('training', {}).get('minutes') or 0:.1f}"),
    ]
    for name, own in found.items():
        rows = [Row(TITLES[method], [*map(_at(record), EVIDENCE)], [record]) for method, record in own.items()]
        title = f"{SPECIFICATIONS[name].heading}: NCE in bits over the share that is observed, trained at {TRAINED_AT} %"
        tables += [Table(title, [f"{percent} %" for percent in EVIDENCE], rows)] if rows else []
    return tables


def _why_not(method: str, dataset: str) -> str:
    return NO_GROUPS if method == "groups" and dataset not in ONE_HOT else MISSING


def _score_text(record: Record) -> str:
    score = record["scores"].get(f"evidence-{TRAINED_AT}")
    return MISSING if score is None else f"{score['mean']:.4f} ± {score['error']:.4f}"


def _at(record: Record) -> Callable[[int], str]:
    def text(percent: int) -> str:
        score = score_of(record, percent)
        return MISSING if score is None else f"{score:.3f}"

    return text


def compare_curves(records: list[Record]) -> dict[str, list[tuple[str, list[int], list[float]]]]:
    """By dataset, for each method: its title, the shares of evidence in per cent, and the scores."""
    curves = {}
    for name, own in compared_records(records).items():
        lines = []
        for method, record in own.items():
            points = [(percent, score) for percent in EVIDENCE if (score := score_of(record, percent)) is not None]
            if points:
                lines.append((TITLES[method], [percent for percent, _ in points], [score for _, score in points]))
        if lines:
            curves[name] = lines
    return curves
