"""Every training of the paper, by name: model, dataset, sizes and settings ("rbm/adult", "grid/border", …)."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
import tyro

from qtcore.data import Dataset
from qtcore.errors import InputError, UnknownNameError, nearest
from qtcore.learn.settings import Settings
from qtcore.models.base import Model, load
from qtcore.models.dbm import DBM
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.rbm import RBM

BINARY_SETS = ("adult", "connect4", "digits", "dna", "mushrooms", "nips", "ocr_letters", "rcv1", "web")
HIDDEN_UNITS = {"nips": 200, "web": 100}  # 50 for the others
FAST_RATE = ("adult", "dna")  # the authors ended with 0.01 there, and with 0.003 for the others
SHORT = {"nips": 200.0}  # epochs; 1000 for the others
LOWER_PART = {"W": "W1", "c_h": "c_h1"}
"""An RBM's parameters in the DBM above it."""


@dataclass(frozen=True)
class Experiment:
    """A model to be query-trained on a dataset."""

    name: tyro.conf.Suppress[str]
    dataset: tyro.conf.Suppress[str]
    settings: Settings
    hidden: int = 50
    """Hidden units (of each layer)."""
    layers: int = 10
    """Layers of belief propagation."""
    temperature: float = 1.0
    """Temperature at the start."""
    learn_temperature: bool = False
    """Whether the temperature is learned."""
    queries: str = "uniform"
    """Distribution of queries: uniform[:p], patches[:size[xcount]], one-target or everything."""
    local_evidence: bool = True
    """Grid: whether a pixel's own evidence is in its belief."""
    clones: tuple[int, int, int] = field(default=(64, 1, 1))
    """Grid: states of CONTOUR, OUT and IN."""
    start: str | None = None
    """Trained model to start from, by name or file, instead of random weights."""

    def build(self, data: Dataset) -> Model:
        """The model before training, with the statistics of the data's preparation."""
        kind = self.name.split("/")[0]
        tempered = {"temperature": self.temperature, "learn_temperature": self.learn_temperature}
        model: Model
        if kind == "rbm":
            model = RBM(data.train.shape[1], self.hidden, self.layers, **tempered)  # type: ignore[arg-type]
        elif kind == "dbm":
            model = DBM(data.train.shape[1], self.hidden, self.hidden, self.layers, **tempered)  # type: ignore[arg-type]
        elif kind == "grbm":
            model = GaussianRBM(data.train.shape[1], self.hidden, self.layers)
            model.statistics = {name: torch.as_tensor(value) for name, value in data.statistics.items()}
        else:
            height, width = data.train.shape[1:]
            model = GridMRF(height, width, self.clones, self.layers, self.local_evidence, **tempered)  # type: ignore[arg-type]
            with torch.no_grad():
                model.emission.copy_(torch.as_tensor(data.statistics["emission"]))
        model.notes = {"experiment": self.name, "dataset": data.name, "source": data.source, "method": "qt"}
        model.notes |= {"seed": self.settings.seed, "settings": asdict(self.settings)}
        if data.image_shape is not None:
            model.notes["image_shape"] = list(data.image_shape)
        if self.start is not None:
            self._start_from(load(self.start), model)
        return model

    def _start_from(self, given: Model, model: Model) -> None:
        """Take over what was learned; how the data look (the emission, the statistics) stays the data's own.

        An RBM becomes the lower part of a DBM, whose upper layer begins at random.
        """
        learned = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        theirs = dict(given.named_parameters())
        stacked = isinstance(model, DBM) and isinstance(given, RBM)
        if stacked:
            theirs = {LOWER_PART.get(name, name): parameter for name, parameter in theirs.items()}
            learned = {name: parameter for name, parameter in learned.items() if name in theirs}
        shapes = {name: list(parameter.shape) for name, parameter in learned.items()}
        fits = {name: list(theirs[name].shape) for name in shapes if name in theirs} == shapes
        if not fits or not (stacked or type(given) is type(model)):
            raise InputError(f"{self.start} is a {_sizes(given)} and cannot start {self.name}, a {_sizes(model)}.")
        with torch.no_grad():
            for name, parameter in learned.items():
                parameter.copy_(theirs[name])
        about = {key: given.notes[key] for key in ("settings", "step", "start") if key in given.notes}
        model.notes["start"] = {"name": self.start} | about


def _sizes(model: Model) -> str:
    shapes = (f"{name} {list(parameter.shape)}" for name, parameter in model.named_parameters())
    return f"{type(model).__name__} ({', '.join(shapes)})"


def _paper() -> dict[str, Experiment]:
    """The paper's settings, and where it is silent those of its authors' code."""
    found = []
    for dataset in BINARY_SETS:
        rate = 0.01 if dataset in FAST_RATE else 0.003
        settings = Settings(epochs=SHORT.get(dataset, 1000.0), batch=500, learning_rate=rate)
        for kind in ("rbm", "dbm"):
            hidden = HIDDEN_UNITS.get(dataset, 50)
            found.append(
                Experiment(f"{kind}/{dataset}", dataset, settings, hidden, 10, temperature=5.0, learn_temperature=True)
            )
    faces = Settings(epochs=50.0, batch=200, learning_rate=0.005, validate_every=8, save_every=8)
    found.append(Experiment("grbm/frey", "frey", faces, hidden=200, layers=50))
    contours = Settings(epochs=10.0, batch=50, learning_rate=0.01, validate_every=100, valid_rows=500, save_every=50)
    grids = (("border", "border", True), ("border-authors", "border", False), ("border-glyphs", "border-glyphs", True))
    for name, dataset, own in grids:
        found += [Experiment(f"grid/{name}", dataset, contours, layers=15, queries="everything", local_evidence=own)]
    return {experiment.name: experiment for experiment in found}


EXPERIMENTS = _paper()

_DECAY = {"schedule": "linear", "decay_from": 0.4, "averaging": 0.99, "learning_rate": 0.01, "validate_every": 100}
_GRID = {"schedule": "linear", "decay_from": 0.3, "learning_rate": 0.03, "averaging": 0.998, "batch": 10, "validate_every": 500}
_SMALL = _DECAY | {"batch": 100, "learning_rate": 0.02, "decay_from": 0.2, "averaging": 0.995, "validate_every": 500}
_LONG = _SMALL | {"learning_rate": 0.01, "decay_from": 0.0, "averaging": 0.998}
_UPON_RBM = _LONG | {"learning_rate": 0.003, "warmup": 200}
_NIPS = _DECAY | {"steps": 80, "learning_rate": 0.003, "averaging": 0.9, "validate_every": 5}  # overfits soon, as DNA does
RECIPES: dict[str, dict[str, Any]] = {
    "grbm/frey": _DECAY | {"steps": 5000, "batch": 40, "train_layers": 25, "decay_from": 0.5},
    # Ours was trained in two parts, 2,500 and 4,000 steps. In one part it was not tried.
    "grid/border-authors": _GRID | {"steps": 6500, "learning_rate": 0.008, "decay_from": 0.0, "warmup": 100},
    "grid/border-glyphs": _GRID | {"steps": 2500, "learning_rate": 0.008, "decay_from": 0.0, "warmup": 100},
    # Ours was trained in three parts, each from the last one's weights: 3,310 steps at the rate 0.05, 15,500 at 0.03 and
    # 20,000 at 0.015 (the last two falling to zero). In one part it was not tried.
    "grid/border": _GRID | {"steps": 38000},
    "rbm/adult": _LONG | {"steps": 30000, "validate_every": 1000},
    "rbm/connect4": _SMALL | {"steps": 20000},
    "rbm/digits": _DECAY | {"epochs": 600.0},
    "rbm/dna": _DECAY | {"epochs": 1000.0, "validate_every": 50},
    "rbm/mushrooms": _DECAY | {"epochs": 1500.0},
    "rbm/nips": _NIPS,
    # Ours was trained in three parts: 20,000 steps at 0.02, 40,000 at 0.005 and 80,000 at 0.01. In one part it was not tried.
    "rbm/ocr_letters": _LONG | {"steps": 140000},
    "rbm/rcv1": _SMALL | {"steps": 12000},
    "rbm/web": _LONG | {"steps": 20000},
    "dbm/adult": _SMALL | {"steps": 12000},
    "dbm/connect4": _SMALL | {"steps": 20000},
    "dbm/digits": _DECAY | {"epochs": 600.0},
    "dbm/dna": _SMALL | {"steps": 1500, "averaging": 0.99, "validate_every": 50},
    "dbm/mushrooms": _SMALL | {"steps": 20000, "learning_rate": 0.005},
    "dbm/nips": _NIPS,
    "dbm/ocr_letters": _UPON_RBM | {"steps": 20000},
    "dbm/rcv1": _SMALL | {"steps": 12000},
    "dbm/web": _UPON_RBM | {"steps": 5000},
}
"""What we train the models with, where it differs from the paper: found on validation data, and carried over to sets where it
is yet to be tried. The models are the same."""

STARTS = {
    "grid/border-authors": "grid/border",
    "grid/border-glyphs": "grid/border",
    "dbm/ocr_letters": "rbm/ocr_letters",
    "dbm/web": "rbm/web",
}
"""Models that begin with the weights of another one; the paper's begin at random."""


def recipe(name: str) -> Experiment:
    """The experiment with our own settings."""
    experiment = named(name)
    return replace(experiment, start=STARTS.get(name), settings=replace(experiment.settings, **RECIPES.get(name, {})))


def named(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise UnknownNameError(f"there is no experiment named {name!r}; {nearest(name, list(EXPERIMENTS))}")
    return EXPERIMENTS[name]
