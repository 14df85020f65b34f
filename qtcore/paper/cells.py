"""The cells of the paper's tables: what is trained, how it is scored, and the record of each."""

import dataclasses
import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import qtcore
from qtcore import data
from qtcore.data import Dataset
from qtcore.data.border import OUT
from qtcore.errors import ModelFileError, UnknownNameError, nearest
from qtcore.inference import Gibbs
from qtcore.inference.questions import acquire, consistency
from qtcore.learn import advil, pcd
from qtcore.learn.query_training import Progress, generator
from qtcore.metrics import BITS, Score, nll
from qtcore.models.base import Model
from qtcore.models.dbm import DBM
from qtcore.models.files import load
from qtcore.models.grbm import GaussianRBM
from qtcore.models.rbm import RBM
from qtcore.paper.baselines import per_image_gaussian, random_guess_iou
from qtcore.paper.beyond import QUERY_SETS, TRAINED_ON, engine_models, new_models, query_model
from qtcore.paper.experiments import (
    ASKED_ABOUT,
    EXPERIMENTS,
    HIDDEN_UNITS,
    JOINT_COLUMNS,
    QUESTION_COLUMNS,
    named,
    recipe,
)
from qtcore.paper.printed import DATASETS, PUBLISHED
from qtcore.paper.records import is_record
from qtcore.paper.scoring import (
    calibration,
    evaluate,
    evaluate_grid,
    evaluate_joint,
    evenly,
    over_depth,
    score_engines,
    score_queries,
)
from qtcore.query import Query, parse

QUICK = 100
"""Divisor of the number of steps in a quick run."""
DEEP, DEEP_ROWS = 60, 2000
"""Layers after which a grid that was trained over depths is scored once more, and on how many test images."""
DEPTH_ROWS, DEPTH_GRIDS = 2000, 300
"""Test rows, and test images of a grid, that are scored layer by layer."""
CALIBRATION_ROWS = 5000
"""Test rows on which claims are compared with what is so (of a grid: as many images as above)."""
JOINT_ROWS, JOINT_ORDERS, PAIRS = 500, 2, 2000
"""Test rows whose joint probability is computed, in how many random orders of the chain rule, and rows for consistency."""
FEWER_ROWS = {"nips": 50, "web": 200}
"""Rows with many variables take longer."""
QUESTIONS, QUESTION_ROWS = 6, 300
"""Questions that are asked one after the other, and of how many test rows."""
GRID_ROWS = ("border", "border-fixed", "border-authors")
"""The grid models of the table."""
DRAWS = 20
"""Draws of the queries on the Frey faces: a single draw of patches is noisy."""

ADVIL_RATES = {"dbm/mushrooms": 1e-3}  # at the other sets' learning rate it learns no more than how often each variable is 1
ADVIL_SIZES = {"ocr_letters": (15, 50), "nips": (50, 100), "web": (25, 50), "frey": (50, None)}  # z and middle; (15, 25) else


@dataclass(frozen=True)
class Cell:
    """One trained model and all its figures: a method, a model, a dataset and a seed."""

    table: str
    """table1, frey, grid, depth, calibration, joint, questions, queries or engines."""
    method: str
    """qt, pcd, advil, or a baseline that needs no training: image-gaussian, pixel-gaussian, random, untrained."""
    model: str
    dataset: str
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of the checkpoint: rbm/adult, rbm-pcd/adult, grbm-advil/frey, rbm/adult-seed1 …"""
        kind = self.model if self.method == "qt" else f"{self.model}-{self.method}"
        return f"{kind}/{self.dataset}" + (f"-seed{self.seed}" if self.seed else "")

    @property
    def key(self) -> str:
        """Name of the record's file."""
        return f"{self.table}-{self.method}-{self.model}-{self.dataset}-{self.seed}"

    @property
    def trained(self) -> bool:
        return self.method in ("qt", "pcd", "advil")


@dataclass(frozen=True)
class Budget:
    """How much to spend on a cell."""

    quick: bool = False
    """A small fraction of the paper's training, as a test run."""


def cells(
    table: str, methods: tuple[str, ...], datasets: tuple[str, ...], seeds: int, models: tuple[str, ...] = ()
) -> list[Cell]:
    """The cells of a table, restricted to some methods, models and datasets (all if none are named)."""
    selected: list[Cell] = []
    for seed in range(seeds):
        if table in ("table1", "all"):
            kinds = (("qt", "rbm"), ("qt", "dbm"), ("pcd", "rbm"), ("advil", "rbm"), ("advil", "dbm"))
            selected += [Cell("table1", method, model, dataset, seed) for method, model in kinds for dataset in DATASETS]
        if table in ("frey", "all"):
            selected += [Cell("frey", method, "grbm", "frey", seed) for method in ("qt", "advil")]
        if table in ("grid", "all"):
            selected += [Cell("grid", "qt", "grid", dataset, seed) for dataset in GRID_ROWS]
    shipped = [name.split("/") for name in EXPERIMENTS if name not in new_models()]
    for name in ("depth", "calibration"):  # of every shipped model
        if table in (name, "all"):
            selected += [Cell(name, "qt", kind, dataset) for kind, dataset in shipped]
            baselines = (("pcd", "rbm"), ("advil", "rbm"), ("advil", "dbm"))
            selected += [Cell(name, method, model, dataset) for method, model in baselines for dataset in DATASETS]
            selected += [Cell(name, "advil", "grbm", "frey")]
    if table in ("joint", "all"):
        columns = JOINT_COLUMNS.values()
        selected += [Cell("joint", method, model, name + suffix) for method, model, suffix in columns for name in PUBLISHED]
    if table in ("questions", "all"):
        asked = QUESTION_COLUMNS.values()
        selected += [Cell("questions", method, model, name + suffix) for method, model, suffix in asked for name in ASKED_ABOUT]
    if table in ("queries", "all"):
        rows = [query_model(dataset, suffix) for dataset in QUERY_SETS for suffix in TRAINED_ON]
        selected += [Cell("queries", "qt", *row) for row in rows if row is not None]
    if table in ("engines", "all"):
        selected += [Cell("engines", "qt", model, dataset) for model, dataset, _ in engine_models()]
    if table in ("frey", "all"):
        selected += [Cell("frey", "qt", "grbm", "frey-sigma")]
        selected += [Cell("frey", "image-gaussian", "none", "frey"), Cell("frey", "pixel-gaussian", "none", "frey")]
    if table in ("grid", "all"):
        selected += [Cell("grid", "random", "none", "border")]
    wanted = {"method": methods, "model": models, "dataset": datasets}
    for what, names in wanted.items():
        known = {getattr(cell, what) for cell in selected}
        for name in names:
            if name not in known:
                raise UnknownNameError(f"there is no {what} named {name!r} in {table}; {nearest(name, sorted(known))}")
    return [cell for cell in selected if all(not names or getattr(cell, what) in names for what, names in wanted.items())]


# ---------------------------------------------------------------------- training


def train(cell: Cell, budget: Budget, folder: Path | None = None, report: Callable[[Progress], None] | None = None) -> Model:
    """Train the model of a cell; query training reports its progress."""
    start = time.monotonic()
    experiment = EXPERIMENTS.get(f"{cell.model}/{cell.dataset}")
    dataset = data.load(experiment.dataset if experiment else cell.dataset)
    if cell.method == "qt":
        model = _train_qt(cell, dataset, budget, folder, report)
    else:
        model = (_train_pcd if cell.method == "pcd" else _train_advil)(cell, dataset, budget)
    about = model.provenance
    about.dataset, about.source, about.method, about.seed = dataset.name, dataset.source, cell.method, cell.seed
    about.minutes, about.quick = round((time.monotonic() - start) / 60, 2), budget.quick
    return model


def _train_qt(
    cell: Cell, dataset: Dataset, budget: Budget, folder: Path | None, report: Callable[[Progress], None] | None
) -> Model:
    experiment = recipe(f"{cell.model}/{cell.dataset}").seeded(cell.seed)
    if budget.quick:
        experiment = experiment.shortened(len(dataset.train), QUICK)
    return experiment.run(dataset, folder, resume=folder is not None, callback=report)


def _train_pcd(cell: Cell, dataset: Dataset, budget: Budget) -> Model:
    hidden = HIDDEN_UNITS.get(cell.dataset, 50)
    rates, iterations = ((0.1,), 40) if budget.quick else (pcd.RATES, 1000)
    rate, result = pcd.select(dataset.train, dataset.valid, hidden, rates, iterations=iterations, seed=cell.seed)
    result.model.provenance.settings = {"rate": rate, "rates": list(rates), "iterations": iterations}
    result.model.provenance.history = [list(point) for point in result.history]
    return result.model


def _train_advil(cell: Cell, dataset: Dataset, budget: Budget) -> Model:
    hidden, visible = HIDDEN_UNITS.get(cell.dataset, 50), dataset.train.shape[1]
    model: Model
    if cell.model == "dbm":
        model = DBM(visible, hidden, hidden)
    elif cell.model == "grbm":
        model = GaussianRBM(visible, named("grbm/frey").hidden)
        model.statistics = {name: torch.as_tensor(value) for name, value in dataset.statistics.items()}
        model.image_shape = dataset.image_shape
    else:
        model = RBM(visible, hidden)
    n_z, n_middle = ADVIL_SIZES.get(cell.dataset, (15, 25))
    full = advil.GAUSSIAN_BUDGET if cell.model == "grbm" else advil.BUDGET
    full = replace(full, rate=ADVIL_RATES.get(f"{cell.model}/{cell.dataset}", full.rate))
    spent = advil.Budget(steps=40, decoder_steps=2, every=20) if budget.quick else full
    result = advil.train(model, dataset.train, dataset.valid, n_z, n_middle, spent, cell.seed)
    result.model.provenance.settings = dataclasses.asdict(spent)
    result.model.provenance.history = [list(point) for point in result.history]
    return result.model


# ---------------------------------------------------------------------- scoring


def score_cell(cell: Cell, model: Model | None, with_gibbs: bool, gibbs_rows: int) -> dict[str, Any]:
    """The record of a cell: its figures on the test set with fresh queries, and how they were obtained."""
    start = time.monotonic()
    experiment = EXPERIMENTS.get(f"{cell.model}/{cell.dataset}")
    dataset = data.load(experiment.dataset if experiment else cell.dataset)
    if cell.table == "table1":
        assert model is not None
        scores = {"bp": _bits(evaluate(model, dataset, "test", "uniform", 1000 + cell.seed))}
        if with_gibbs and cell.method != "qt":
            scores["gibbs"] = _gibbs(model, dataset, "uniform", gibbs_rows, cell.seed)
    elif cell.table == "depth":
        assert model is not None
        scores = _score_depths(model, dataset)
    elif cell.table == "calibration":
        assert model is not None
        scores = _score_calibration(model, dataset)
    elif cell.table == "joint":
        scores = _score_joint(model or _untrained(cell, dataset), dataset)
    elif cell.table == "questions":
        assert model is not None
        scores = _score_questions(model, dataset)
    elif cell.table in ("queries", "engines"):
        assert model is not None
        scores = {"queries": score_queries, "engines": score_engines}[cell.table](model, dataset)
    elif cell.table == "frey":
        scores = _score_frey(cell, model, dataset, with_gibbs, gibbs_rows)
    else:
        scores = _score_grid(model, dataset)
    record = dataclasses.asdict(cell) | {"scores": scores, "source": dataset.source, "note": dataset.note}
    record["minutes_scoring"] = round((time.monotonic() - start) / 60, 3)
    record["versions"] = {"qtcore": qtcore.__version__, "torch": torch.__version__, "python": platform.python_version()}
    if model is not None:
        record["checkpoint"] = cell.name
        record["training"] = model.provenance.as_dict()
        if model.image_shape is not None:
            record["training"]["image_shape"] = list(model.image_shape)
    return record


def _bits(score: Score) -> dict[str, float]:
    return _plain(score.times(BITS))


def _plain(score: Score) -> dict[str, float]:
    return {"mean": score.mean, "error": score.error, "samples": score.count}


def _gibbs(model: Model, dataset: Dataset, queries: str, rows: int, seed: int) -> dict[str, float]:
    engine = Gibbs(seed=2000 + seed)
    return _bits(evaluate(model, dataset, "test", queries, 2000 + seed, rows=rows, engine=engine))


def _score_frey(cell: Cell, model: Model | None, dataset: Dataset, with_gibbs: bool, gibbs_rows: int) -> dict[str, Any]:
    scores = {}
    for queries in ("uniform", "patches"):
        if model is not None:
            scores[queries] = _bits(evaluate(model, dataset, "test", queries, 1000 + cell.seed, DRAWS))
            if with_gibbs and cell.method != "qt":
                scores[f"{queries}-gibbs"] = _gibbs(model, dataset, queries, gibbs_rows, cell.seed)
            continue
        masks = parse(queries, dataset.image_shape)
        draws = []
        for draw in range(DRAWS):
            target = ~masks.draw(dataset.test.shape, generator(1000, draw))
            bits = (
                per_image_gaussian(dataset.test, target)
                if cell.method == "image-gaussian"
                else _pixel_gaussian(dataset, target)
            )
            draws.append(Score.of(bits))
        scores[queries] = _plain(Score.over(draws))
    return scores


def _pixel_gaussian(dataset: Dataset, target: Tensor) -> Tensor:
    """NCE in bits of each image when every pixel has its own Gaussian, fitted on the training images."""
    mean, deviation = dataset.train.mean(0), dataset.train.std(0)
    losses = nll(torch.distributions.Normal(mean, deviation), dataset.test, target)
    return losses.sum(1) / target.sum(1) * BITS


def _score_grid(model: Model | None, dataset: Dataset) -> dict[str, Any]:
    if model is None:
        assert dataset.truth is not None
        percent = 100 * random_guess_iou(dataset.truth["test"], OUT)
        return {"iou": _plain(Score.of(percent)), "nce_bits": {"mean": 1.0, "error": 0.0, "samples": len(percent)}}
    scores = vars(evaluate_grid(model, dataset, "test"))
    if isinstance((model.provenance.settings or {}).get("train_layers"), str):  # over depths
        deep = evaluate_grid(model, dataset, "test", DEEP, DEEP_ROWS)
        scores |= {"iou_deep": deep.iou, "nce_deep": deep.nce}
    return {name: _plain(value) for name, value in scores.items()}


def _score_depths(model: Model, dataset: Dataset) -> dict[str, Any]:
    """The figures of each layer, as lists."""
    labelled = model.variables.kind == "label"
    queries, rows = ("everything", DEPTH_GRIDS) if labelled else ("uniform", DEPTH_ROWS)
    scores = over_depth(model, dataset, "test", queries, range(1, DEEP + 1), 1000, rows)
    lists: dict[str, Any] = {
        "layer": [score.layer for score in scores],
        "nce_bits": [round(score.nce.mean * BITS, 5) for score in scores],
        "residual": [float(f"{score.residual:.3g}") for score in scores],
        "at_rest": [round(score.at_rest, 4) for score in scores],
        "samples": scores[0].nce.count,
    }
    if labelled:
        lists["iou"] = [round(score.iou.mean, 3) for score in scores if score.iou is not None]
    return lists


def _score_calibration(model: Model, dataset: Dataset) -> dict[str, Any]:
    """In each tenth of [0, 1] (of real variables: for each central interval) what is claimed, how often it is so, and of how
    many events."""
    queries, rows = ("everything", DEPTH_GRIDS) if model.variables.kind == "label" else ("uniform", CALIBRATION_ROWS)
    result = calibration(model, dataset, "test", queries, 1000, rows)
    curves = {name: [round(float(number), 5) for number in getattr(result, name)] for name in ("claimed", "true")}
    return {**curves, "count": result.count.tolist(), "samples": len(dataset.test[:rows])}


def _untrained(cell: Cell, dataset: Dataset) -> Model:
    torch.manual_seed(cell.seed)
    return named(f"{cell.model}/{cell.dataset}").build(dataset)


def _score_joint(model: Model, dataset: Dataset) -> dict[str, Any]:
    """−log p of a test row by the chain rule in nats, in one order (mean over orders) and of their mixture, its spread over
    orders, and the inconsistency of two variables with half of the others observed, in bits."""
    draw = generator(1000, 1)
    fewer = replace(dataset, test=evenly(dataset.test, FEWER_ROWS.get(dataset.name, JOINT_ROWS)))
    answer = evaluate_joint(model, fewer, "test", None, 1000, None, JOINT_ORDERS)
    pairs = parse("uniform", None)(evenly(dataset.test, PAIRS), draw)
    scores = {**vars(answer), "inconsistency": consistency(model, pairs, draw)}
    return {name: _plain(score) for name, score in scores.items()}


def _score_questions(model: Model, dataset: Dataset) -> dict[str, Any]:
    """In how many rows, in per cent, the most probable option of a property is the true one after so many questions: chosen
    ones, and random ones. At first nothing is known."""
    assert dataset.variable_names is not None
    about = [i for i, name in enumerate(dataset.variable_names) if name.rpartition(" ")[0] == ASKED_ABOUT[dataset.name]]
    rows = dataset.test[dataset.test[:, about].sum(1) == 1][:QUESTION_ROWS]
    nothing, truth = Query(rows, torch.zeros(rows.shape, dtype=torch.bool)), rows[:, about].argmax(1)
    scores: dict[str, Any] = {"questions": list(range(QUESTIONS + 1)), "samples": len(rows)}
    for kind, at_random in (("chosen", False), ("random", True)):
        known = acquire(model, nothing, QUESTIONS, about, at_random=at_random, generator=generator(1000, 2)).queries
        with torch.no_grad():
            right = [model(query).mean[:, about].argmax(1) == truth for query in known]
        scores[kind] = [round(100 * float(each.double().mean()), 2) for each in right]
    return scores


# ---------------------------------------------------------------------- on disk


def record_path(assets: Path, cell: Cell) -> Path:
    return assets / "results" / f"{cell.key}.json"


def checkpoint_path(assets: Path, cell: Cell) -> Path:
    return assets / "checkpoints" / f"{cell.name}.safetensors"


def stored(path: Callable[[Path, Cell], Path], folders: Sequence[Path], cell: Cell) -> Path | None:
    """The cell's checkpoint, or its record, in the first of these folders that has one."""
    return next((found for folder in folders if (found := path(folder, cell)).exists()), None)


def read_record(folders: Sequence[Path], cell: Cell) -> dict[str, Any] | None:
    """The stored record, if there is one; raises ModelFileError if it is damaged.

    Where a folder has a model of its own, the records of later folders are about another one.
    """
    own = [folder for folder in folders if checkpoint_path(folder, cell).exists()]
    path = stored(record_path, folders[: folders.index(own[0]) + 1] if own else folders, cell)
    if path is None:
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if is_record(record) and dataclasses.asdict(cell).items() <= record.items():
            return dict(record)
    except (ValueError, RecursionError):
        pass
    raise ModelFileError(f"{path} is damaged; remove it, and its cell is scored anew.")


def read_model(folders: Sequence[Path], cell: Cell) -> Model | None:
    path = stored(checkpoint_path, folders, cell)
    return None if path is None else load(path)
