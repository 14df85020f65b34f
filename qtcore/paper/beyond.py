"""Trainings that the paper does not have: other queries, and other engines, by the same `fit`.

For the query matrix one model is trained on each of several distributions of queries, all from the weights of the paper's
(half of the variables asked), and each is asked them all. For the table of engines an RBM is trained through each engine, all
from random weights and with the same settings.
"""

from typing import Any

from qtcore.paper.printed import PUBLISHED

MIXTURE = "cardinality+uniform:0.5+uniform:0.1"
"""What to train on when nobody knows what will be asked: any number of variables, and more often half or few of them."""

TRAINED_ON = {
    "uniform10": ("10 % asked", "uniform:0.1"),
    "uniform50": ("50 % asked (the paper's)", "uniform:0.5"),
    "uniform90": ("90 % asked", "uniform:0.9"),
    "one-target": ("one variable asked (pseudo-likelihood)", "one-target"),
    "cardinality": ("any number asked, all alike", "cardinality"),
    "patches": ("5×5 patches", "patches"),
    "mixture": ("mixture of any number, 50 % and 10 %", MIXTURE),
    "any": ("the same mixture, more hidden units, longer", MIXTURE),
}
"""By the end of a model's name: the row of the query matrix, and what the model is trained on."""
ASKED = {f"{known} % known": f"uniform:{(100 - known) / 100:g}" for known in (2, 10, 25, 50, 75, 90, 98)}
ASKED |= {"one asked": "one-target", "any number": "cardinality", "5×5 patches": "patches", "mixture": MIXTURE}
"""The columns of the query matrix, and what is asked there."""
QUERY_SETS = {"adult": "rbm", "mushrooms": "rbm", "digits": "rbm", "frey": "grbm"}
"""Datasets of the query matrix, with the kind of model."""
IMAGES = ("digits", "frey")
ANY_HIDDEN = {"adult": 100, "mushrooms": 100}
"""Hidden units of the models that are to be good everywhere."""
ANY_STEPS = {"adult": 4000, "mushrooms": 6000}

ENGINE_KINDS = {"bp": "BP", "mf": "mean field", "rw": "reweighted BP, ρ learned"}
"""By the end of a model's kind: the engine that it is trained through, as tables call it."""
ENGINE_NAMES = {"bp": None, "mf": "mean-field", "rw": "reweighted"}
"""The same as the command line calls it; BP is the default."""
ENGINE_SETS = dict.fromkeys(("adult", "dna", "digits", "mushrooms", "nips"), "rbm") | {"frey": "grbm", "border": "grid"}
ENGINE_DEPTHS = (2, 5, 10, 20, 50)
ENGINE_ROWS = {"border": 100}
"""Test rows (images) on which engines are compared; 2,000 of the others."""

Changes = dict[str, Any]
_DECAY = {"schedule": "linear", "decay_from": 0.0, "warmup": 100, "batch": 100, "averaging": 0.995}
_QUERIES = _DECAY | {"steps": 2000, "learning_rate": 0.005, "validate_every": 250, "seed": 1}
_ANY = _DECAY | {"learning_rate": 0.005, "warmup": 200, "averaging": 0.998, "validate_every": 500, "seed": 2}
_FREY = _DECAY | {"steps": 500, "batch": 40, "learning_rate": 0.002, "train_layers": 15, "validate_every": 50}
_ENGINES = {
    "rbm": _DECAY | {"steps": 1500, "learning_rate": 0.02, "validate_every": 250},
    "nips": _DECAY | {"steps": 200, "learning_rate": 0.003, "averaging": 0.9, "validate_every": 10},  # overfits early
    "grbm": _DECAY | {"steps": 800, "batch": 40, "learning_rate": 0.01, "averaging": 0.99, "validate_every": 100},
    "grid": _DECAY | {"steps": 1000, "batch": 10, "learning_rate": 0.03, "validate_every": 250, "valid_rows": 200},
}


def query_model(dataset: str, suffix: str) -> tuple[str, str] | None:
    """The model of a row of the query matrix, as its kind and the rest of its name; None if there is none."""
    kind = QUERY_SETS[dataset]
    if suffix == "uniform50":
        return kind, dataset
    if (suffix == "patches" and dataset not in IMAGES) or (suffix == "any" and dataset not in ANY_HIDDEN):
        return None
    published = suffix == "cardinality" and dataset in PUBLISHED
    return (kind if published or suffix == "any" else f"{kind}-queries"), f"{dataset}-{suffix}"


def engine_models() -> list[tuple[str, str, str]]:
    """Kind and dataset of each model of the table of engines, and the end of its kind."""
    pairs = [(kind, dataset, short) for dataset, kind in ENGINE_SETS.items() for short in ENGINE_KINDS]
    return [(f"{kind}-{short}", dataset, short) for kind, dataset, short in pairs if (kind, short) != ("grbm", "rw")]


def new_models() -> dict[str, tuple[str, Changes, tuple[Changes, ...], str | None]]:
    """Of each training by name: that of the paper which it is like, what is different, its recipe, and its start."""
    models: dict[str, tuple[str, Changes, tuple[Changes, ...], str | None]] = {}
    for dataset, kind in QUERY_SETS.items():
        for suffix, (_, queries) in TRAINED_ON.items():
            place = query_model(dataset, suffix)
            like = f"{kind}/{dataset}"
            if place is None or "/".join(place) in (like, f"rbm/{dataset}-cardinality"):
                continue
            changes: Changes = {"queries": queries}
            if suffix == "any":
                changes["hidden"] = ANY_HIDDEN[dataset]
            phase = _ANY | {"steps": ANY_STEPS[dataset]} if suffix == "any" else _FREY if dataset == "frey" else _QUERIES
            models["/".join(place)] = like, changes, (phase,), f"{like}-cardinality" if suffix == "any" else like
    for kind, dataset, short in engine_models():
        plain = kind.partition("-")[0]
        phase = _ENGINES.get(dataset, _ENGINES[plain])
        models[f"{kind}/{dataset}"] = f"{plain}/{dataset}", {"engine": ENGINE_NAMES[short]}, (phase,), None
    return models
