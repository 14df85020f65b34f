"""How long it takes to train from nothing until the paper's figures are reached: `python -m qtcore.bench paper`."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from qtcore import data
from qtcore.data import Dataset
from qtcore.learn.query_training import Progress
from qtcore.learn.run import BEST
from qtcore.models.files import load
from qtcore.paper.experiments import PHASE, Experiment, recipe
from qtcore.paper.printed import FREY, GRID, TABLE_1
from qtcore.paper.scoring import over_depth

GOALS = {
    "frey": ("grbm/frey", FREY["qt", "uniform"].mean),
    "adult": ("rbm/adult", TABLE_1["qt", "rbm", "adult"].mean),
    "mushrooms": ("rbm/mushrooms", TABLE_1["qt", "rbm", "mushrooms"].mean),
    "digits": ("rbm/digits", TABLE_1["qt", "rbm", "digits"].mean),
    "grid": ("grid/border-fixed", GRID["qt", "iou"].mean),
}
"""By name: the recipe, and the paper's figure on the test set, here looked for on validation data: NCE in bits, or IoU."""

GRID_ROWS = 500
"""Validation images for the IoU."""


@dataclass(frozen=True)
class Reached:
    """How a training went."""

    name: str
    goal: float
    best: float
    """The best figure on validation data."""
    samples: int
    """That the training has seen."""
    seconds: float
    done: bool
    """Whether the goal was reached."""


def until(name: str, quick: bool = False) -> Reached:
    """Train by the recipe, from random weights, until validation shows the figure. A quick run does a thousandth."""
    title, goal = GOALS[name]
    experiment = recipe(title)
    dataset = data.load(experiment.dataset)
    if quick:
        experiment = experiment.shortened(len(dataset.train), 1000)
    with tempfile.TemporaryDirectory() as folder:
        return _train(name, experiment, dataset, goal, Path(folder) / "run")


def _train(name: str, experiment: Experiment, dataset: Dataset, goal: float, folder: Path) -> Reached:
    higher_is_better = dataset.kind == "grid"
    best, samples, done = 0.0 if higher_is_better else float("inf"), 0, False

    def look(progress: Progress) -> bool:
        nonlocal best, samples, done
        samples += progress.settings.batch
        if progress.valid is None or progress.step % progress.settings.validate_every:
            return False
        if higher_is_better:
            best = max(best, _overlap(folder, experiment, dataset, progress))
        else:
            best = min(best, progress.valid)
        done = best >= goal if higher_is_better else best <= goal
        return done

    start = time.perf_counter()
    experiment.run(dataset, folder, callback=look)
    return Reached(name, goal, best, samples, time.perf_counter() - start, done)


def _overlap(folder: Path, experiment: Experiment, dataset: Dataset, progress: Progress) -> float:
    """IoU in per cent of the best model so far, on the first validation images, without rounding."""
    phases = [folder / PHASE.format(number) / BEST for number in range(1, len(experiment.phases))]
    newest = max((path for path in (*phases, folder / BEST) if path.exists()), key=lambda path: path.stat().st_mtime_ns)
    model = load(newest)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        (score,) = over_depth(model, dataset, "valid", experiment.queries, [experiment.layers], rows=GRID_ROWS)
    finally:
        torch.set_float32_matmul_precision(before)
    assert score.iou is not None
    return score.iou.mean


def table(names: Sequence[str], quick: bool, about: str) -> Iterator[str]:
    """Lines of a table, one for each name as soon as it is there. The grid rounds its matrix products where it may."""
    yield "| | the paper's figure | best on validation data | samples seen | minutes |"
    yield "|---|---|---|---|---|"
    load_before = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    for name in names:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium" if name == "grid" else before)
        try:
            result = until(name, quick)
        finally:
            torch.set_float32_matmul_precision(before)
        unit, digits = ("% IoU", 2) if name == "grid" else ("bits", 3)
        figure = f"{result.goal:.{digits}f} {unit}"
        minutes = f"{result.seconds / 60:.1f}" if result.done else f"not within {result.seconds / 60:.1f}"
        yield f"| {GOALS[name][0]} | {figure} | {result.best:.{digits}f} | {result.samples:,} | {minutes} |"
    yield ""
    yield f"{about}; load {load_before:.1f} before. The training ends as soon as validation shows the figure."
