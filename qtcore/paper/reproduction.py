"""Training and scoring the cells of the paper's tables: on Dask workers, once each, with records that survive anything."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from qtcore.errors import DataError, InputError, ModelFileError
from qtcore.paper.cells import Budget, Cell, cells, checkpoint_path, read_model, read_record, record_path, score_cell, train
from qtcore.paper.plots import plot, plot_histories
from qtcore.paper.tables import TABLES, markdown, summary
from qtcore.support.files import write_atomically


def compute(cell: Cell, budget: Budget, folder: str | None) -> bytes:
    """On a worker: train a cell and return its checkpoint as bytes."""
    torch.set_num_threads(1)
    model = train(cell, budget, None if folder is None else Path(folder))
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.safetensors"
        model.save(path)
        return path.read_bytes()


def train_missing(todo: list[Cell], assets: Path, quick: bool = False, scheduler: str | None = None) -> list[str]:
    """Train cells on Dask workers; each checkpoint is written as soon as it is there. Returns what went wrong."""
    from distributed import Client, LocalCluster, as_completed

    budget = Budget(quick)
    runs = assets / "runs"
    cluster = None
    if scheduler is None:
        cluster = LocalCluster(threads_per_worker=1, dashboard_address=":0")
        client = Client(cluster)
    else:
        try:
            client = Client(scheduler)
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
        for future in as_completed(futures):
            cell = futures[future]
            if future.status == "finished":
                write_atomically(checkpoint_path(assets, cell), future.result())
                if not sys.stderr.isatty():
                    print(f"trained {cell.name}", flush=True)
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
    chosen: list[Cell], assets: Path, again: bool = False, gibbs: bool = False, gibbs_rows: int = 1000
) -> tuple[list[dict[str, Any]], list[str]]:
    """Records of all cells that can be scored; those that were scored before are kept, unless they are scored `again`."""
    records, problems = [], []
    for cell in tqdm(chosen, desc="scores", disable=not sys.stderr.isatty()):
        try:
            before = read_record(assets, cell)
        except ModelFileError as error:
            problems.append(str(error))
            continue
        wanted = (
            gibbs and cell.method in ("pcd", "advil") and not any("gibbs" in part for part in (before or {}).get("scores", {}))
        )
        if before is not None and not again and not wanted:
            records.append(before)
            continue
        try:
            model = read_model(assets, cell) if cell.trained else None
            if model is None and cell.trained:
                continue
            record = score_cell(cell, model, gibbs, gibbs_rows)
        except (DataError, ModelFileError) as error:
            problems.append(str(error))
            records += [before] if before is not None else []  # what was computed where the data are still holds
            continue
        if before is not None:  # Gibbs figures stay until they are computed anew
            record["scores"] = {part: score for part, score in before["scores"].items() if "gibbs" in part} | record["scores"]
        write_atomically(record_path(assets, cell), json.dumps(record, indent=1) + "\n")
        records.append(record)
    return records, problems


def other_records(chosen: list[Cell], assets: Path, seeds: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Records of all cells but these, as they were computed before, and what is wrong with some."""
    known = {cell.key for cell in chosen}
    records, problems = [], []
    for cell in cells("all", (), (), max(seeds, 5)):
        try:
            record = None if cell.key in known else read_record(assets, cell)
            records += [] if record is None else [record]
        except ModelFileError as error:
            problems.append(str(error))
    return records, problems


def write_tables(records: list[dict[str, Any]], table: str, assets: Path) -> list[str]:
    """The tables as Markdown and as plots, beside the records; returns the Markdown."""
    results = assets / "results"
    texts = []
    for name in TABLES:
        if table in (name, "all"):
            texts.append(markdown(name, records))
            write_atomically(results / f"{name}.md", texts[-1] + "\n")
            plot(name, records, results / f"{name}.png")
    if any(record["method"] == "advil" for record in records):
        plot_histories(records, results / "advil.png")
    write_atomically(results / "summary.md", summary(records))
    return texts
