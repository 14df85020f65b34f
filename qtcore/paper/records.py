"""What a stored record of a cell's scores may say. Whoever reads one asks first, so that nobody has to expect anything else."""

import math
from typing import Any

from qtcore.models.provenance import Provenance

Record = dict[str, Any]

OVER = {
    "depth": ("layer", ("nce_bits",)),
    "questions": ("questions", ("chosen", "random")),
    "calibration": ("claimed", ("true", "count")),
}
"""Of records of curves: what they are curves over, and which there must be."""
ADVIL_SETTINGS = ("steps", "decoder_steps", "rate", "helper_rate")


def is_record(record: Any) -> bool:
    """Whether all that tables, plots and the app's page read in a record is there and of its type."""
    if not isinstance(record, dict):
        return False
    texts = all(isinstance(record.get(name), str) for name in ("table", "method", "model", "dataset", "source"))
    optional = all(isinstance(record.get(name, ""), str) for name in ("note", "checkpoint"))
    over = OVER.get(record["table"]) if texts else None
    seed = type(record.get("seed")) is int and record["seed"] >= 0
    described = texts and optional and seed and _is_training(record) and _is_dict(record, "versions", str)
    return described and (
        _are_scores(record.get("scores")) if over is None else _are_curves(record.get("scores"), *over)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_number, values))


def _are_scores(scores: Any) -> bool:
    """Means with their errors, by the kind of queries or inference."""
    return isinstance(scores, dict) and all(
        isinstance(score, dict) and all(_is_number(score.get(name)) for name in ("mean", "error", "samples"))
        for score in scores.values()
    )


def _are_curves(scores: Any, over: str, needed: tuple[str, ...]) -> bool:
    """A score after each of some layers or questions."""
    if not isinstance(scores, dict) or not _are_numbers(scores.get(over)) or not all(name in scores for name in needed):
        return False
    curves = [curve for name, curve in scores.items() if name != "samples"]
    return _is_number(scores.get("samples", 0)) and all(
        _are_numbers(curve) and len(curve) == len(scores[over]) > 0 for curve in curves
    )


def _is_training(record: Record) -> bool:
    training = record.get("training", {})
    if not _is_phase(training):
        return False
    if record["method"] != "advil" or "settings" not in training:
        return True
    return all(_is_number(training["settings"].get(name)) for name in ADVIL_SETTINGS)


def _is_phase(phase: Any) -> bool:
    """How a model was trained, and what it started from."""
    if not isinstance(phase, dict) or not _is_dict(phase, "settings", str | int | float | list | None):
        return False
    try:
        provenance = Provenance.from_dict(phase)
    except ValueError:
        return False
    numbers = all(map(_is_number, (provenance.minutes or 0, provenance.step or 0)))
    history = all(_are_numbers(pair) and len(pair) == 2 for pair in provenance.history or [])
    return numbers and history and (provenance.start is None or _is_phase(provenance.start))


def _is_dict(record: Record, name: str, kind: Any) -> bool:
    inner = record.get(name, {})
    return isinstance(inner, dict) and all(isinstance(value, kind) for value in inner.values())
