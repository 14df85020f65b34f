"""Training and scoring the cells of the paper's tables: on Dask workers, once each, with records that survive anything."""

import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from qtcore.errors import DataError, InputError, ModelFileError
from qtcore.learn.query_training import Progress
from qtcore.learn.reporter import in_bits
from qtcore.paper.cells import (
    Budget,
    Cell,
    cells,
    checkpoint_path,
    read_model,
    read_record,
    record_path,
    score_cell,
    stored,
    train,
)
from qtcore.paper.plots import plot, plot_histories
from qtcore.paper.records import Record
from qtcore.paper.tables import TABLES, markdown, row_of, summary
from qtcore.support.extras import required
from qtcore.support.files import write_atomically

EVERY = 60.0
"""Seconds between two lines about a training."""


def said(line: str) -> None:
    """A line of progress; on a terminal there is a bar instead."""
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


class Lines:
    """Says now and then how a training goes."""

    def __init__(self, name: str) -> None:
        self.name, self.last = name, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self.last + EVERY:
            self.last = time.monotonic()
            said(f"{self.name}: step {progress.step} of {progress.steps}, best {in_bits(progress.best)} bits on validation")


def compute(cell: Cell, budget: Budget, folder: str | None) -> bytes:
    """On a worker: train a cell and return its checkpoint as bytes."""
    torch.set_num_threads(1)
    model = train(cell, budget, None if folder is None else Path(folder), Lines(cell.name))
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.safetensors"
        model.save(path)
        return path.read_bytes()


def missing(chosen: list[Cell], folders: Sequence[Path]) -> list[Cell]:
    """The cells to train: neither their model nor their record is in one of these folders. One for each model."""
    todo: dict[str, Cell] = {}
    for cell in chosen:
        if cell.trained and not any(stored(path, folders, cell) for path in (checkpoint_path, record_path)):
            todo.setdefault(cell.name, cell)
    return list(todo.values())


def train_missing(todo: list[Cell], out: Path, quick: bool = False, scheduler: str | None = None) -> list[str]:
    """Train cells on Dask workers; each checkpoint is written as soon as it is there. Returns what went wrong."""
    dask = required("distributed", "bench")
    budget = Budget(quick)
    runs = out / "runs"
    cluster = None
    if scheduler is None:
        quiet = {"silence_logs": logging.CRITICAL}  # what goes wrong with a cell is said below
        cluster = dask.LocalCluster(threads_per_worker=1, dashboard_address=":0", **quiet)
        client = dask.Client(cluster)
    else:
        try:
            client = dask.Client(scheduler)
        except (OSError, ValueError) as error:
            sentence = f"no Dask scheduler answers at {scheduler}; start one there with `dask scheduler`."
            raise InputError(sentence) from error
    problems = []
    try:
        futures = {
            client.submit(compute, cell, budget, None if scheduler else str(runs / cell.key), key=cell.key, pure=False): cell
            for cell in todo
        }
        bar = tqdm(total=len(todo), desc="cells", disable=not sys.stderr.isatty())
        said(f"{len(todo)} to train: {', '.join(cell.name for cell in todo)}")
        for number, future in enumerate(dask.as_completed(futures), 1):
            cell = futures[future]
            if future.status == "finished":
                write_atomically(checkpoint_path(out, cell), future.result())
                said(f"trained {cell.name} ({number} of {len(todo)})")
            else:
                problems.append(f"{cell.name}: {future.exception()}")
            future.release()
            bar.update()
        bar.close()
    finally:
        client.close()
        if cluster is not None:
            cluster.close()
    return problems


def score_all(
    chosen: list[Cell], folders: Sequence[Path], again: bool = False, gibbs: bool = False, gibbs_rows: int = 1000
) -> tuple[list[Record], list[str]]:
    """Records of all cells that can be scored; those that were scored before are kept, unless they are scored `again`.

    Models and records are looked for in these folders, in this order; new records go to the first one.
    """
    records, problems = [], []
    for number, cell in enumerate(tqdm(chosen, desc="scores", disable=not sys.stderr.isatty()), 1):
        try:
            before = read_record(folders, cell)
        except ModelFileError as error:
            problems.append(str(error))
            continue
        wanted = (
            gibbs and cell.method in ("pcd", "advil") and not any("gibbs" in part for part in (before or {}).get("scores", {}))
        )
        kept = [] if before is None else [before]  # what was computed where the data are, or the model, still holds
        if before is not None and not again and not wanted:
            records += kept
            continue
        try:
            model = read_model(folders, cell) if cell.trained else None
            if model is None and cell.trained:
                records += kept
                continue
            record = score_cell(cell, model, gibbs, gibbs_rows)
        except (DataError, ModelFileError) as error:
            problems.append(str(error))
            records += kept
            continue
        if before is not None:  # Gibbs figures stay until they are computed anew
            record["scores"] = {part: score for part, score in before["scores"].items() if "gibbs" in part} | record["scores"]
        said(f"scored {cell.name}, {cell.table} ({number} of {len(chosen)}): {60 * record['minutes_scoring']:.0f} s")
        if not (before is not None and _same(before, record) and record_path(folders[0], cell).exists()):
            write_atomically(record_path(folders[0], cell), json.dumps(record, indent=1) + "\n")
        records.append(record)
    return records, problems


def _same(before: Record, record: Record) -> bool:
    """Whether two records differ in nothing but when they were made."""
    made = {"minutes_scoring": 0, "versions": {}}
    return bool({**before, **made} == {**json.loads(json.dumps(record)), **made})


def other_records(
    chosen: list[Cell], folders: Sequence[Path], seeds: int, all_runs: bool = False
) -> tuple[list[Record], list[str]]:
    """Records of all cells but these, as they were computed before, and what is wrong with some.

    Other runs of the chosen cells are left out unless `all_runs` are wanted: they may be of another training.
    """
    known = {cell.key for cell in chosen}
    asked = set() if all_runs else {replace(cell, seed=0) for cell in chosen}
    records, problems = [], []
    for cell in cells("all", (), (), max(seeds, 5)):
        try:
            beside = cell.key not in known and replace(cell, seed=0) not in asked
            record = read_record(folders, cell) if beside else None
            records += [] if record is None else [record]
        except ModelFileError as error:
            problems.append(str(error))
    return records, problems


def write_tables(records: list[Record], others: list[Record], table: str, out: Path, whole: bool = True) -> list[str]:
    """The tables as Markdown and as plots, in out/results; returns the Markdown.

    Whole, they have all rows and all records. Otherwise they have the rows that these records belong to; some of the others
    stand beside them there.
    """
    results = out / "results"
    if not whole:
        rows = {row_of(record) for record in records}
        others = [record for record in others if row_of(record) in rows]
    place = {cell.key: number for number, cell in enumerate(cells("all", (), (), 5))}
    shown = sorted([*records, *others], key=lambda record: place.get(_cell(record).key, len(place)))
    texts = []
    for name in TABLES:
        if table in (name, "all") and (whole or any(record["table"] == name for record in records)):
            texts.append(markdown(name, shown, whole))
            write_atomically(results / f"{name}.md", texts[-1] + "\n")
            plot(name, shown, results / f"{name}.png", whole)
    if any(record["method"] == "advil" for record in shown):
        plot_histories(shown, results / "advil.png")
    if whole:
        write_atomically(results / "summary.md", summary(shown))
    return texts


def _cell(record: Record) -> Cell:
    return Cell(*(record[name] for name in ("table", "method", "model", "dataset", "seed")))
