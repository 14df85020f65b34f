"""The cells of the paper's tables: what is trained, how it is scored, and the record that each leaves behind."""

import dataclasses
import json
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import qtcore
from qtcore import data, gibbs
from qtcore.baselines import per_image_gaussian, random_guess_iou
from qtcore.data import Dataset
from qtcore.data.border import OUT
from qtcore.errors import ModelFileError, UnknownNameError, nearest
from qtcore.evaluate import evaluate, evaluate_grid, overall
from qtcore.experiments import EXPERIMENTS, HIDDEN_UNITS, named, recipe
from qtcore.learn import advil, pcd
from qtcore.learn.query_training import fit, generator
from qtcore.metrics import BITS, Score
from qtcore.models.base import Model, load
from qtcore.models.dbm import DBM
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.rbm import RBM
from qtcore.paper import DATASETS
from qtcore.query import parse

DRAWS = 20
"""Draws of the queries on the Frey faces: a single draw of patches is noisy."""

ADVIL_RATES = {"dbm/mushrooms": 1e-3}  # at the rate of the others it stays at the frequencies of the variables
ADVIL_SIZES = {"ocr_letters": (15, 50), "nips": (50, 100), "web": (25, 50), "frey": (50, None)}  # z and middle; (15, 25) else


@dataclass(frozen=True)
class Cell:
    """One trained model, and all figures that come from it: a method, a model, a dataset and a seed."""

    table: str
    """table1, frey or grid."""
    method: str
    """qt, pcd, advil, or a baseline that needs no training: image-gaussian, pixel-gaussian, random."""
    model: str
    dataset: str
    seed: int = 0

    @property
    def name(self) -> str:
        """Of the checkpoint: rbm/adult, rbm-pcd/adult, grbm-advil/frey, rbm/adult-seed1 …"""
        kind = self.model if self.method == "qt" else f"{self.model}-{self.method}"
        return f"{kind}/{self.dataset}" + (f"-seed{self.seed}" if self.seed else "")

    @property
    def key(self) -> str:
        """Of the record's file."""
        return f"{self.table}-{self.method}-{self.model}-{self.dataset}-{self.seed}"

    @property
    def trained(self) -> bool:
        return self.method in ("qt", "pcd", "advil")


@dataclass(frozen=True)
class Budget:
    """How much to spend on a cell."""

    quick: bool = False
    """A small part of the paper's training, to see that everything works."""


def cells(table: str, methods: tuple[str, ...], datasets: tuple[str, ...], seeds: int) -> list[Cell]:
    """The cells of a table, restricted to some methods and datasets (all when none is named)."""
    found: list[Cell] = []
    for seed in range(seeds):
        if table in ("table1", "all"):
            kinds = (("qt", "rbm"), ("qt", "dbm"), ("pcd", "rbm"), ("advil", "rbm"), ("advil", "dbm"))
            found += [Cell("table1", method, model, dataset, seed) for method, model in kinds for dataset in DATASETS]
        if table in ("frey", "all"):
            found += [Cell("frey", method, "grbm", "frey", seed) for method in ("qt", "advil")]
        if table in ("grid", "all"):
            found += [Cell("grid", "qt", "grid", dataset, seed) for dataset in ("border", "border-authors")]
    if table in ("frey", "all"):
        found += [Cell("frey", "image-gaussian", "none", "frey"), Cell("frey", "pixel-gaussian", "none", "frey")]
    if table in ("grid", "all"):
        found += [Cell("grid", "random", "none", "border")]
    for what, given in (("method", methods), ("dataset", datasets)):
        known = {getattr(cell, what) for cell in found}
        for name in given:
            if name not in known:
                raise UnknownNameError(f"there is no {what} named {name!r} in {table}; {nearest(name, sorted(known))}")
    return [cell for cell in found if (not methods or cell.method in methods) and (not datasets or cell.dataset in datasets)]


# ---------------------------------------------------------------------- training


def train(cell: Cell, budget: Budget, folder: Path | None = None) -> tuple[Model, dict[str, Any]]:
    """Train the model of a cell; returns it with what there is to say about the training."""
    start = time.monotonic()
    experiment = EXPERIMENTS.get(f"{cell.model}/{cell.dataset}")
    dataset = data.load(experiment.dataset if experiment else cell.dataset)
    trainer = {"qt": _train_qt, "pcd": _train_pcd, "advil": _train_advil}[cell.method]
    model, about = trainer(cell, dataset, budget, folder)
    model.notes |= {"dataset": dataset.name, "source": dataset.source, "method": cell.method, "seed": cell.seed}
    model.notes |= {"minutes": round((time.monotonic() - start) / 60, 2), "quick": budget.quick} | about
    return model, about


def _train_qt(cell: Cell, dataset: Dataset, budget: Budget, folder: Path | None) -> tuple[Model, dict[str, Any]]:
    experiment = recipe(f"{cell.model}/{cell.dataset}")
    settings = replace(experiment.settings, seed=cell.seed)
    if budget.quick:
        steps = max(10, settings.total_steps(len(dataset.train)) // 50)
        settings = replace(settings, steps=steps, validate_every=max(5, steps // 4))
    torch.manual_seed(generator(cell.seed, 0).initial_seed())
    model = experiment.build(dataset).compile_layers()
    parts = ((dataset.train, "train"), (dataset.valid, "valid"))
    grid = isinstance(model, GridMRF) and dataset.truth is not None
    train_part, valid_part = ((values, dataset.truth[name]) if grid else values for values, name in parts)  # type: ignore[index]
    queries = parse(experiment.queries, dataset.image_shape)
    fit(model, train_part, valid_part, queries, settings, folder, resume=folder is not None)
    return model, {"settings": dataclasses.asdict(settings)}


def _train_pcd(cell: Cell, dataset: Dataset, budget: Budget, folder: Path | None) -> tuple[Model, dict[str, Any]]:
    hidden = HIDDEN_UNITS.get(cell.dataset, 50)
    rates, iterations = ((0.1,), 40) if budget.quick else (pcd.RATES, 1000)
    rate, found = pcd.select(dataset.train, dataset.valid, hidden, rates, iterations=iterations, seed=cell.seed)
    return found.model, {"settings": {"rate": rate, "rates": rates, "iterations": iterations}, "course": found.course}


def _train_advil(cell: Cell, dataset: Dataset, budget: Budget, folder: Path | None) -> tuple[Model, dict[str, Any]]:
    hidden, visible = HIDDEN_UNITS.get(cell.dataset, 50), dataset.train.shape[1]
    model: Model
    if cell.model == "dbm":
        model = DBM(visible, hidden, hidden)
    elif cell.model == "grbm":
        model = GaussianRBM(visible, named("grbm/frey").hidden)
        model.statistics = {name: torch.as_tensor(value) for name, value in dataset.statistics.items()}
        model.notes["image_shape"] = list(dataset.image_shape or ())
    else:
        model = RBM(visible, hidden)
    n_z, n_middle = ADVIL_SIZES.get(cell.dataset, (15, 25))
    full = advil.GAUSSIAN_BUDGET if cell.model == "grbm" else advil.BUDGET
    full = replace(full, rate=ADVIL_RATES.get(f"{cell.model}/{cell.dataset}", full.rate))
    spent = advil.Budget(steps=40, decoder_steps=2, every=20) if budget.quick else full
    found = advil.train(model.compile_layers(), dataset.train, dataset.valid, n_z, n_middle, spent, cell.seed)
    return found.model, {"settings": dataclasses.asdict(spent), "course": found.course}


# ---------------------------------------------------------------------- scoring


def score_cell(cell: Cell, model: Model | None, with_gibbs: bool, gibbs_rows: int) -> dict[str, Any]:
    """The record of a cell: its figures on the test set with fresh queries, and all that made them."""
    start = time.monotonic()
    experiment = EXPERIMENTS.get(f"{cell.model}/{cell.dataset}")
    dataset = data.load(experiment.dataset if experiment else cell.dataset)
    if model is not None:
        model.compile_layers()
    if cell.table == "table1":
        assert model is not None
        scores = {"bp": _bits(evaluate(model, dataset, "test", "uniform", None, 1000 + cell.seed, 1, None))}
        if with_gibbs and cell.method != "qt":
            scores["gibbs"] = _gibbs(model, dataset, "uniform", 1, gibbs_rows, cell.seed)
    elif cell.table == "frey":
        scores = _score_frey(cell, model, dataset, with_gibbs, gibbs_rows)
    else:
        scores = _score_grid(model, dataset)
    record = dataclasses.asdict(cell) | {"scores": scores, "source": dataset.source, "note": dataset.note}
    record["minutes_scoring"] = round((time.monotonic() - start) / 60, 3)
    record["versions"] = {"qtcore": qtcore.__version__, "torch": torch.__version__, "python": platform.python_version()}
    if model is not None:
        record["checkpoint"] = cell.name
        record["training"] = model.notes
    return record


def _bits(found: Score) -> dict[str, float]:
    return {"mean": found.mean * BITS, "error": found.error * BITS, "samples": found.count}


def _plain(found: Score) -> dict[str, float]:
    return {"mean": found.mean, "error": found.error, "samples": found.count}


def _gibbs(model: Model, dataset: Dataset, queries: str, draws: int, rows: int, seed: int) -> dict[str, float]:
    masks = parse(queries, dataset.image_shape)
    found = []
    for draw in range(draws):
        random = generator(2000 + seed, draw)
        query = masks(dataset.test[:rows], random)
        losses, target = gibbs.nll(model, query, random)
        each, count = losses.sum(1).double(), target.sum(1).double()
        if dataset.kind == "gaussian":
            each = each / count
            found.append(Score(float(each.mean()), float(each.std()) / len(each) ** 0.5, len(each)))
        else:
            mean = each.sum() / count.sum()
            error = ((each - mean * count) ** 2).sum().sqrt() / count.sum()
            found.append(Score(float(mean), float(error), len(each)))
    return _bits(overall(found))


def _score_frey(cell: Cell, model: Model | None, dataset: Dataset, with_gibbs: bool, gibbs_rows: int) -> dict[str, Any]:
    scores = {}
    for queries in ("uniform", "patches"):
        if model is not None:
            scores[queries] = _bits(evaluate(model, dataset, "test", queries, None, 1000 + cell.seed, DRAWS, None))
            if with_gibbs and cell.method != "qt":
                scores[f"{queries}-gibbs"] = _gibbs(model, dataset, queries, 1, gibbs_rows, cell.seed)
            continue
        masks = parse(queries, dataset.image_shape)
        found = []
        for draw in range(DRAWS):
            target = ~masks.draw(dataset.test.shape, generator(1000, draw))
            each = (
                per_image_gaussian(dataset.test, target)
                if cell.method == "image-gaussian"
                else _pixel_gaussian(dataset, target)
            )
            found.append(Score(float(each.mean()), float(each.std()) / len(each) ** 0.5, len(each)))
        scores[queries] = _plain(overall(found))
    return scores


def _pixel_gaussian(dataset: Dataset, target: Tensor) -> Tensor:
    """NCE in bits of each image when every pixel has its own Gaussian, fitted on the training images."""
    mean, deviation = dataset.train.mean(0), dataset.train.std(0)
    losses = -torch.distributions.Normal(mean, deviation).log_prob(dataset.test) * BITS
    return (losses * target).sum(1) / target.sum(1)


def _score_grid(model: Model | None, dataset: Dataset) -> dict[str, Any]:
    if model is None:
        assert dataset.truth is not None
        each = 100 * random_guess_iou(dataset.truth["test"], OUT)
        found = Score(float(each.mean()), float(each.std()) / len(each) ** 0.5, len(each))
        return {"iou": _plain(found), "nce_bits": {"mean": 1.0, "error": 0.0, "samples": len(each)}}
    assert isinstance(model, GridMRF)
    return {name: _plain(value) for name, value in vars(evaluate_grid(model, dataset, "test")).items()}


# ---------------------------------------------------------------------- on disk


def record_path(assets: Path, cell: Cell) -> Path:
    return assets / "results" / f"{cell.key}.json"


def checkpoint_path(assets: Path, cell: Cell) -> Path:
    return assets / "checkpoints" / f"{cell.name}.safetensors"


def read_record(assets: Path, cell: Cell) -> dict[str, Any] | None:
    """What was computed before; raises ModelFileError where it is damaged."""
    path = record_path(assets, cell)
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if dataclasses.asdict(cell).items() <= record.items() and "source" in record and isinstance(record["scores"], dict):
            return dict(record)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ModelFileError(f"{path} is damaged; remove it, and its cell is scored anew.")


def read_model(assets: Path, cell: Cell) -> Model | None:
    path = checkpoint_path(assets, cell)
    return load(path) if path.exists() else None
