"""Query training against what people would pick instead: the same rows, the same masks, the same test cells."""

import itertools
import json
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import qtcore
from qtcore import data
from qtcore.data import Dataset
from qtcore.errors import DataError, ModelFileError
from qtcore.learn.query_training import generator
from qtcore.models.base import Model
from qtcore.models.files import load
from qtcore.models.provenance import Provenance
from qtcore.paper.contests import EVIDENCE, PAPERS, QT, Contest, contests
from qtcore.paper.experiments import Experiment
from qtcore.paper.plots import plot
from qtcore.paper.records import is_record
from qtcore.paper.rivals import MAKERS, Rival, scored
from qtcore.paper.structures import STRUCTURES
from qtcore.paper.tables import markdown
from qtcore.paper.workers import on_workers, said
from qtcore.query import uniform
from qtcore.support.files import write_atomically

ROWS = 3000
"""Test rows at most, at equal distances: a file may begin with rows that are not like the rest."""
QUICK, QUICK_ROWS = 100, 200
"""Divisor of the number of steps in a quick run, and its test rows."""


def evenly(rows: Tensor, count: int) -> Tensor:
    """So many rows of all, at equal distances."""
    count = min(count, len(rows))
    return rows[torch.arange(count) * len(rows) // count]


# ---------------------------------------------------------------------- training and scoring


def train(contest: Contest, quick: bool, folder: Path | None) -> Model:
    """The query-trained model of a contest; with a folder, a training that was interrupted goes on."""
    start = time.process_time()
    dataset = data.load(contest.dataset)
    experiment: Experiment = STRUCTURES[contest.name]
    if quick:
        experiment = experiment.shortened(len(dataset.train), QUICK)
    model = experiment.run(dataset, folder, resume=folder is not None)
    about = model.provenance
    about.minutes, about.quick = _minutes(start), quick or None
    return model


def _minutes(start: float) -> float:
    """Of the processor, in this process: others may use the machine too."""
    return round((time.process_time() - start) / 60, 2)


def score(predict: Any, dataset: Dataset, rows: int) -> dict[str, dict[str, float]]:
    """NCE in bits at each share of evidence, on the same rows and masks for every method."""
    test = evenly(dataset.test, rows)
    scores = {}
    for percent in EVIDENCE:
        masks = uniform(1 - percent / 100).draw(test.shape, generator(1000, percent))
        result = scored(predict, test, masks)
        scores[f"evidence-{percent}"] = {"mean": result.mean, "error": result.error, "samples": result.count}
    return scores


def record_of(contest: Contest, model: Model | None, quick: bool = False) -> dict[str, Any]:
    """The record: a given model is scored, a rival is made first."""
    start = time.process_time()
    dataset = data.load(contest.dataset)
    predict: Model | Rival
    if model is None:
        predict, valid = MAKERS[contest.method](dataset, 0, quick)
        minutes = _minutes(start)
        about = Provenance(None, dataset.name, dataset.source, contest.method, 0, predict.settings)
        about.valid_nce_bits, about.minutes, about.quick = valid, minutes, quick or None
        parameters = predict.parameters
    else:
        predict, about = model.eval(), model.provenance
        parameters = sum(tensor.numel() for tensor in model.parameters())
    start = time.process_time()
    scores = score(predict, dataset, QUICK_ROWS if quick else ROWS)
    record = contest.whole | {"scores": scores, "source": dataset.source, "note": dataset.note, "parameters": parameters}
    record |= {"training": about.as_dict(), "command": command(contest)}
    record["minutes_scoring"] = _minutes(start)
    record["versions"] = {"qtcore": qtcore.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return record | ({"checkpoint": contest.name} if model is not None else {})


def command(contest: Contest) -> str:
    """What makes this record again, in a folder of its own."""
    return f"python -m qtcore.compare --methods {contest.method} --datasets {contest.dataset} --out again"


# ---------------------------------------------------------------------- on disk


def record_path(folder: Path, contest: Contest) -> Path:
    return folder / "results" / f"{contest.key}.json"


def checkpoint_path(folder: Path, contest: Contest) -> Path:
    """Not among the shipped models, each of which has a name, a card and figures over the depth."""
    return folder / "compared" / f"{contest.name}.safetensors"


def found(path: Callable[[Path, Contest], Path], folders: Sequence[Path], contest: Contest) -> Path | None:
    """The checkpoint of a contest, or its record, in the first of these folders that has one."""
    return next((each for folder in folders if (each := path(folder, contest)).exists()), None)


def read_model(folders: Sequence[Path], contest: Contest) -> Model | None:
    """The model of a contest: the paper's are the shipped ones."""
    if contest.method in PAPERS:
        return load(contest.name)
    path = found(checkpoint_path, folders, contest)
    return None if path is None else load(path)


def read_record(folders: Sequence[Path], contest: Contest) -> dict[str, Any] | None:
    """The stored record, if there is one; raises ModelFileError if it is damaged."""
    path = found(record_path, folders, contest)
    if path is None:
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if is_record(record) and contest.whole.items() <= record.items():
            return dict(record)
    except (ValueError, RecursionError):
        pass
    raise ModelFileError(f"{path} is damaged; remove it, and it is made anew.")


# ---------------------------------------------------------------------- the whole comparison


def compute(contest: Contest, folders: Sequence[Path], quick: bool, folder: Path | None) -> tuple[dict[str, Any], bytes | None]:
    """On a worker: the record of a contest, and the model as bytes if it had to be trained (in that folder, if any)."""
    torch.set_num_threads(1)
    model = read_model(folders, contest) if contest.method in QT else None
    if not contest.trained or model is not None:
        return record_of(contest, model, quick), None
    model = train(contest, quick, folder)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.safetensors"
        model.save(path)
        return record_of(contest, model, quick), path.read_bytes()


def compute_missing(
    chosen: list[Contest], folders: Sequence[Path], quick: bool, scheduler: str | None, workers: int | None
) -> list[str]:
    """Train and score what has no record yet; each is written to the first folder as soon as it is there. Returns what went
    wrong."""
    known, number = {each.key: each for each in chosen if found(record_path, folders, each) is None}, itertools.count(1)
    whole = [folder.absolute() for folder in folders]
    runs = None if scheduler else whole[0] / "runs"
    jobs = {key: (each, whole, quick, runs and runs / key) for key, each in known.items()}

    def finished(key: str, result: tuple[dict[str, Any], bytes | None]) -> None:
        record, checkpoint = result
        if checkpoint is not None:
            write_atomically(checkpoint_path(folders[0], known[key]), checkpoint)
        _write(folders[0], known[key], record)
        said(f"done {known[key].name} ({next(number)} of {len(jobs)})")

    if not jobs:
        return []
    problems = on_workers(compute, jobs, finished, "contests", "compare", scheduler, workers)
    return [f"{known[key].name}: {problem}" for key, problem in problems.items()]


def score_models(chosen: list[Contest], folders: Sequence[Path], quick: bool) -> list[str]:
    """Score the query-trained models that are there once more. Returns what went wrong."""
    problems = []
    for contest in chosen:
        if contest.method not in QT:
            continue
        try:
            model = read_model(folders, contest)
            if model is not None:
                _write(folders[0], contest, record_of(contest, model, quick))
        except (DataError, ModelFileError) as error:
            problems.append(f"{contest.name}: {error}")
    return problems


def stored(folders: Sequence[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """All records that are there, and what is wrong with some."""
    records, problems = [], []
    for contest in contests():
        try:
            record = read_record(folders, contest)
            records += [] if record is None else [record]
        except ModelFileError as error:
            problems.append(str(error))
    return records, problems


def write(records: list[dict[str, Any]], folder: Path) -> str:
    """The tables as Markdown and as a plot, in folder/results; returns the Markdown."""
    text = markdown("compare", records)
    write_atomically(folder / "results" / "compare.md", text + "\n")
    plot("compare", records, folder / "results" / "compare.png")
    return text


def _write(folder: Path, contest: Contest, record: dict[str, Any]) -> None:
    write_atomically(record_path(folder, contest), json.dumps(record, indent=1) + "\n")
