"""Every training of the paper, and of `qtcore.paper.beyond`, by name ("rbm/adult", "grid/border", …): model, dataset, settings.

An experiment is trained in one or more phases, each of which starts from the best weights of the previous one. The paper's
have one phase; `RECIPES` has the phases of the shipped models.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from torch import Tensor

from qtcore.data import Dataset
from qtcore.errors import InputError, UnknownNameError, nearest
from qtcore.inference import BP, MeanField, Reweighted
from qtcore.learn.query_training import INITIAL, Progress, fit, generator, main_process
from qtcore.learn.run import Run
from qtcore.learn.settings import Settings
from qtcore.models.base import Model
from qtcore.models.dbm import DBM
from qtcore.models.files import load
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.provenance import Provenance
from qtcore.models.rbm import RBM
from qtcore.paper.beyond import new_models
from qtcore.paper.printed import DATASETS, PUBLISHED
from qtcore.query import parse

HIDDEN_UNITS = {"nips": 200, "web": 100}  # 50 for the others
FAST_RATE = ("adult", "dna")  # the authors' final rate is 0.01 there, and 0.003 for the others
SHORT = {"nips": 200.0}  # epochs; 1000 for the others
GRIDS = {
    "border": "border",
    "border-fixed": "border",
    "border-authors": "border",
    "border-glyphs": "border-glyphs",
    "drawings": "drawings",
}
"""The grid models and their datasets. The paper trains at 15 layers, as border-fixed and border-authors are; the recipes of the
others train over depths. The beliefs of border-authors leave a pixel's own evidence out, as the authors' code does."""
CARDINALITY = "-cardinality"
"""What the names of models end in that are trained on queries with any number of observed variables, as the chain rule asks
them; the paper's queries reveal about half. There is one for every dataset with a published log-likelihood."""
JOINT_COLUMNS = {
    "QT": ("qt", "rbm", ""),
    "QT, any number observed": ("qt", "rbm", CARDINALITY),
    "QT, DBM": ("qt", "dbm", ""),
    "PCD": ("pcd", "rbm", ""),
    "AdVIL": ("advil", "rbm", ""),
    "untrained": ("untrained", "rbm", ""),
}
"""The columns of the table of joint probabilities: method, model, and what is appended to the dataset's name."""
OVER_DEPTHS = "-depths"
"""The same for an RBM that answers nearly as well after 5 layers as after 50 (docs/depth.md)."""
QUESTION_COLUMNS = {name: JOINT_COLUMNS[name] for name in ("QT", "QT, any number observed", "PCD")}
"""The same for the table of questions."""
ASKED_ABOUT = {"adult": "marital-status", "mushrooms": "odor"}
"""What questions are to find out, of each dataset: a property, of which one option is 1. The columns of the original classes,
income and edibility, are not in these files; of a mushroom its odor tells most about whether it can be eaten."""
LOWER_PART = {"W": "W1", "c_h": "c_h1"}
"""Names of an RBM's parameters in the DBM built on it."""
PHASE = "phase-{}"
"""Subfolder of each phase but the last, in the run's folder."""


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
    """Initial temperature."""
    learn_temperature: bool = False
    """Whether the temperature is learned."""
    queries: str = "uniform"
    """Distribution of queries: uniform[:p], cardinality, patches[:size[xcount]], halves, one-target, everything, or a
    mixture such as 2*uniform+patches."""
    local_evidence: bool = True
    """Grid: whether a pixel's belief includes its own evidence."""
    clones: tuple[int, int, int] = field(default=(64, 1, 1))
    """Grid: states of CONTOUR, OUT and IN."""
    sigma: Literal["no", "shared", "pixel"] = "no"
    """Gaussian RBM: whether σ is learned, one for all pixels or one for each."""
    engine: Literal["mean-field", "reweighted"] | None = None
    """What to train through in place of belief propagation; reweighted learns its edge weights too."""
    start: str | None = None
    """Trained model to start from, by name or file, instead of random weights."""
    earlier: tyro.conf.Suppress[tuple[Settings, ...]] = ()
    """Settings of the phases before the last one."""

    @property
    def phases(self) -> tuple[Settings, ...]:
        """The settings of all phases, in order."""
        return (*self.earlier, self.settings)

    def seeded(self, seed: int) -> "Experiment":
        """The same training with other seeds."""
        earlier = tuple(replace(phase, seed=phase.seed + seed) for phase in self.earlier)
        return replace(self, earlier=earlier, settings=replace(self.settings, seed=self.settings.seed + seed))

    def shortened(self, rows: int, divisor: int) -> "Experiment":
        """A fraction of the last phase only, as a test run."""
        steps = max(10, self.settings.total_steps(rows) // divisor)
        quick = replace(self.settings, steps=steps, validate_every=max(5, steps // 4))
        return replace(self, earlier=(), settings=quick)

    def run(
        self,
        dataset: Dataset,
        folder: Path | None = None,
        resume: bool = False,
        callback: Callable[[Progress], "bool | None"] | None = None,
        device: "torch.device | str" = "cpu",
        config: dict[str, Any] | None = None,
    ) -> Model:
        """Train the model, phase by phase; it ends with its best weights by validation NCE, or where the callback stopped it.

        With `resume`, finished phases are read from their folders and the next one is continued.
        """
        if folder is not None and main_process():
            Run.check(folder, resume)
        torch.manual_seed(generator(self.phases[0].seed, INITIAL).initial_seed())
        model = self.build(dataset).to(device)
        if model.device.type != "cpu" and isinstance(model.engine, BP):
            model.compile_layers()
        queries = parse(self.queries, dataset.image_shape)
        train, valid = (_with_truth(dataset, split) for split in ("train", "valid"))
        stopped = False

        def report(progress: Progress) -> bool:
            nonlocal stopped
            stopped = callback is not None and bool(callback(progress))
            return stopped

        for number, settings in enumerate(self.phases, 1):
            if number > 1:
                _next_phase(model, settings)
            last = number == len(self.phases)
            subfolder = folder if folder is None or last else folder / PHASE.format(number)
            fit(model, train, valid, queries, settings, subfolder, subfolder is not None, report, config)
            if stopped:
                break
        return model

    def build(self, data: Dataset) -> Model:
        """The model before training, with the statistics of the data's preprocessing."""
        kind = self.name.split("/")[0].split("-")[0]
        tempered = {"temperature": self.temperature, "learn_temperature": self.learn_temperature}
        model: Model
        if kind == "rbm":
            model = RBM(data.train.shape[1], self.hidden, self.layers, **tempered)  # type: ignore[arg-type]
        elif kind == "dbm":
            model = DBM(data.train.shape[1], self.hidden, self.hidden, self.layers, **tempered)  # type: ignore[arg-type]
        elif kind == "grbm":
            model = GaussianRBM(data.train.shape[1], self.hidden, self.layers, learn_sigma=self.sigma)
            model.statistics = {name: torch.as_tensor(value) for name, value in data.statistics.items()}
        else:
            height, width = data.train.shape[1:]
            model = GridMRF(height, width, self.clones, self.layers, self.local_evidence, **tempered)  # type: ignore[arg-type]
            with torch.no_grad():
                model.emission.copy_(torch.as_tensor(data.statistics["emission"]))
        if self.engine is not None:
            model.engine = MeanField(self.layers) if self.engine == "mean-field" else Reweighted(self.layers, rho="learned")
            model.engine.prepare(model)
        first = self.phases[0]
        model.provenance = Provenance(self.name, data.name, data.source, "qt", first.seed, asdict(first))
        model.image_shape = data.image_shape or model.image_shape
        if self.start is not None:
            self._start_from(load(self.start), model)
        return model

    def _start_from(self, source: Model, model: Model) -> None:
        """Copy the learned parameters; what describes the data (the emission, the statistics) stays that of the dataset.

        An RBM becomes the lower part of a DBM, whose upper layer starts at random, or the first hidden units of a wider RBM,
        whose others do.
        """
        learned = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        theirs = dict(source.named_parameters())
        if source.rho is None:
            learned.pop("rho", None)  # they start at 1
        if isinstance(model, GaussianRBM) and isinstance(source, GaussianRBM) and not source.sigma.dim():
            theirs["sigma"] = source.sigma.expand_as(model.sigma)  # type: ignore[assignment]
        stacked = isinstance(model, DBM) and isinstance(source, RBM)
        if stacked:
            theirs = {LOWER_PART.get(name, name): parameter for name, parameter in theirs.items()}
            learned = {name: parameter for name, parameter in learned.items() if name in theirs}
        if isinstance(model, RBM) and isinstance(source, RBM) and len(source.W) < len(model.W):
            for name in ("W", "c_h"):
                theirs[name] = torch.cat([theirs[name], learned[name][len(source.W) :]])  # type: ignore[assignment]
        shapes = {name: list(parameter.shape) for name, parameter in learned.items()}
        fits = {name: list(theirs[name].shape) for name in shapes if name in theirs} == shapes
        if not fits or not (stacked or type(source) is type(model)):
            raise InputError(f"{self.start} is a {_sizes(source)} and cannot start {self.name}, a {_sizes(model)}.")
        with torch.no_grad():
            for name, parameter in learned.items():
                parameter.copy_(theirs[name])
        model.provenance.start = {"name": self.start} | _came_from(source.provenance)


def _came_from(before: Provenance) -> dict[str, Any]:
    """The part of an earlier training's provenance that a later one records."""
    return {key: value for key, value in before.as_dict().items() if key in ("settings", "step", "start")}


def _next_phase(model: Model, settings: Settings) -> None:
    """Reset the model's provenance for another phase."""
    before = model.provenance
    fresh = Provenance(before.experiment, before.dataset, before.source, before.method, settings.seed, asdict(settings))
    fresh.start = _came_from(before)
    model.provenance = fresh


def _with_truth(dataset: Dataset, split: str) -> "Tensor | tuple[Tensor, Tensor]":
    """The rows of a split, with their labels if these are the truth."""
    values = dataset.splits[split]
    return (values, dataset.truth[split]) if dataset.kind == "grid" and dataset.truth is not None else values


def _sizes(model: Model) -> str:
    shapes = (f"{name} {list(parameter.shape)}" for name, parameter in model.named_parameters())
    return f"{type(model).__name__} ({', '.join(shapes)})"


def _paper() -> dict[str, Experiment]:
    """The paper's settings, or those of its authors' code where the paper gives none."""
    experiments = []
    for dataset in DATASETS:
        rate = 0.01 if dataset in FAST_RATE else 0.003
        settings = Settings(epochs=SHORT.get(dataset, 1000.0), batch=500, learning_rate=rate)
        for kind in ("rbm", "dbm"):
            hidden = HIDDEN_UNITS.get(dataset, 50)
            experiments.append(
                Experiment(f"{kind}/{dataset}", dataset, settings, hidden, 10, temperature=5.0, learn_temperature=True)
            )
        if dataset in PUBLISHED:
            by_chain_rule = {"name": f"rbm/{dataset}{CARDINALITY}", "queries": "cardinality"}
            experiments.append(replace(experiments[-2], **by_chain_rule))  # type: ignore[arg-type]
        if dataset == "adult":
            experiments.append(replace(experiments[-3], name=f"rbm/{dataset}{OVER_DEPTHS}"))
    faces = Settings(epochs=50.0, batch=200, learning_rate=0.005, validate_every=8, save_every=8)
    experiments.append(Experiment("grbm/frey", "frey", faces, hidden=200, layers=50))
    experiments.append(Experiment("grbm/frey-sigma", "frey", faces, hidden=200, layers=50, sigma="pixel"))
    contours = Settings(epochs=10.0, batch=50, learning_rate=0.01, validate_every=100, valid_rows=500, save_every=50)
    for name, dataset in GRIDS.items():
        own = name != "border-authors"
        experiments += [Experiment(f"grid/{name}", dataset, contours, layers=15, queries="everything", local_evidence=own)]
    return {experiment.name: experiment for experiment in experiments}


EXPERIMENTS = _paper()
EXPERIMENTS |= {
    name: replace(EXPERIMENTS[like], name=name, **changes) for name, (like, changes, _, _) in new_models().items()
}

_DECAY = {"schedule": "linear", "decay_from": 0.4, "averaging": 0.99, "learning_rate": 0.01, "validate_every": 100}
_SMALL = _DECAY | {"batch": 100, "learning_rate": 0.02, "decay_from": 0.2, "averaging": 0.995, "validate_every": 500}
_LONG = _SMALL | {"learning_rate": 0.01, "decay_from": 0.0, "averaging": 0.998}
_UPON_RBM = _LONG | {"learning_rate": 0.003, "warmup": 200}
_NIPS = _DECAY | {"steps": 80, "learning_rate": 0.003, "averaging": 0.9, "validate_every": 5}  # overfits early, as DNA does
_GRID = {"schedule": "linear", "decay_from": 0.0, "averaging": 0.998, "batch": 10, "validate_every": 500}
_OVER_DEPTHS = {"batch": 10, "learning_rate": 0.03, "schedule": "linear", "train_layers": "8-20", "train_depths": 3}
_AVERAGED = {"decay_from": 0.3, "warmup": 100, "averaging": 0.998, "validate_every": 250, "valid_rows": 200}
_LONGER = {"warmup": 100, "averaging": 0.999, "validate_every": 250, "valid_rows": 200}
_DRAWINGS = {"steps": 2400, "learning_rate": 0.02, "train_layers": "8-24", "averaging": 0.995, "validate_every": 200, "seed": 7}
_CARDINALITY = _UPON_RBM | {"steps": 12000, "learning_rate": 0.005, "seed": 1}
_UPON_GRID = _GRID | {"learning_rate": 0.008, "warmup": 100}
RECIPES: dict[str, tuple[dict[str, Any], ...]] = {
    "grbm/frey-sigma": (
        _DECAY | {"steps": 3000, "batch": 40, "train_layers": 25, "decay_from": 0.1, "warmup": 50, "learning_rate": 0.002},
    ),
    "grbm/frey": (_DECAY | {"steps": 5000, "batch": 40, "train_layers": 25, "decay_from": 0.5},),
    "grid/border": (
        _OVER_DEPTHS | {"steps": 600, "decay_from": 0.5},
        _OVER_DEPTHS | _AVERAGED | {"steps": 8000, "seed": 1},
        _OVER_DEPTHS
        | _LONGER
        | {"steps": 10250, "learning_rate": 0.025, "decay_from": 2800 / 10250, "decay_to": 1 - 7450 / 25200}
        | {"train_layers": "12-24", "seed": 11},
        _OVER_DEPTHS
        | _LONGER
        | {"steps": 19000, "learning_rate": 0.0176, "decay_from": 0.0, "train_layers": "10-18", "seed": 12},
    ),
    "grid/border-fixed": (
        {"steps": 3310, "learning_rate": 0.05, "batch": 10, "validate_every": 800},
        _GRID | {"steps": 16400, "learning_rate": 0.03, "decay_from": 0.3, "seed": 1},
        _GRID | {"steps": 20000, "learning_rate": 0.015, "warmup": 200, "seed": 3},
    ),
    "grid/border-authors": (_UPON_GRID | {"steps": 2500, "seed": 4}, _UPON_GRID | {"steps": 4000, "seed": 5}),
    "grid/border-glyphs": (
        _OVER_DEPTHS | _LONGER | {"steps": 2000, "learning_rate": 0.01, "decay_from": 0.0, "train_layers": "10-18", "seed": 13},
    ),
    "grid/drawings": (_OVER_DEPTHS | _AVERAGED | _DRAWINGS,),
    "rbm/adult": (_LONG | {"steps": 30000, "validate_every": 1000},),
    f"rbm/adult{OVER_DEPTHS}": (
        _UPON_RBM | {"steps": 10000, "learning_rate": 0.005, "train_layers": "5-10", "train_depths": 3, "seed": 21},
    ),
    "rbm/connect4": (_SMALL | {"steps": 20000},),
    "rbm/digits": (_DECAY | {"epochs": 600.0},),
    "rbm/dna": (_DECAY | {"epochs": 1000.0, "validate_every": 50},),
    "rbm/mushrooms": (_DECAY | {"epochs": 1500.0},),
    "rbm/nips": (_NIPS,),
    "rbm/ocr_letters": (
        _SMALL | {"steps": 20000},
        _SMALL | {"steps": 40000, "learning_rate": 0.005, "decay_from": 0.0, "warmup": 200, "validate_every": 1000, "seed": 1},
        _LONG | {"steps": 80000, "warmup": 200, "validate_every": 2000, "seed": 2},
    ),
    "rbm/rcv1": (_SMALL | {"steps": 12000},),
    "rbm/web": (_LONG | {"steps": 20000},),
    "dbm/adult": (_SMALL | {"steps": 12000},),
    "dbm/connect4": (_SMALL | {"steps": 20000},),
    "dbm/digits": (_DECAY | {"epochs": 600.0},),
    "dbm/dna": (_SMALL | {"steps": 1500, "averaging": 0.99, "validate_every": 50},),
    "dbm/mushrooms": (_SMALL | {"steps": 20000, "learning_rate": 0.005},),
    "dbm/nips": (_NIPS,),
    "dbm/ocr_letters": (_UPON_RBM | {"steps": 20000},),
    "dbm/rcv1": (_SMALL | {"steps": 12000},),
    "dbm/web": (_UPON_RBM | {"steps": 5000},),
    **{f"rbm/{dataset}{CARDINALITY}": (_CARDINALITY,) for dataset in PUBLISHED},
    f"rbm/dna{CARDINALITY}": (_CARDINALITY | {"steps": 1500, "averaging": 0.99, "validate_every": 50},),
    f"rbm/ocr_letters{CARDINALITY}": (_CARDINALITY | {"steps": 6000},),
    f"rbm/web{CARDINALITY}": (_CARDINALITY | {"steps": 3000},),
    f"rbm/nips{CARDINALITY}": (
        _CARDINALITY | {"steps": 150, "learning_rate": 0.0007, "warmup": 20, "averaging": 0.9, "validate_every": 5},
    ),
    **{name: phases for name, (_, _, phases, _) in new_models().items()},
}
"""Our own settings, phase by phase, where they differ from the paper's; chosen on validation data. The models are the same.
Each recipe is that of the shipped model (a test compares it with the file's provenance)."""

STARTS = {
    "grbm/frey-sigma": "grbm/frey",
    "grid/border-authors": "grid/border-fixed",
    "grid/border-glyphs": "grid/border",
    "grid/drawings": "grid/border",
    "dbm/ocr_letters": "rbm/ocr_letters",
    f"rbm/adult{OVER_DEPTHS}": "rbm/adult",
    "dbm/web": "rbm/web",
    **{f"rbm/{dataset}{CARDINALITY}": f"rbm/{dataset}" for dataset in PUBLISHED},
    **{name: start for name, (_, _, _, start) in new_models().items() if start is not None},
}
"""Models that start from the weights of another one; the paper's start at random."""


def recipe(name: str) -> Experiment:
    """The experiment with our own settings."""
    experiment = named(name)
    *earlier, last = (replace(experiment.settings, **changes) for changes in RECIPES.get(name, ({},)))
    return replace(experiment, start=STARTS.get(name), earlier=tuple(earlier), settings=last)


def named(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise UnknownNameError(f"there is no experiment named {name!r}; {nearest(name, list(EXPERIMENTS))}")
    return EXPERIMENTS[name]
