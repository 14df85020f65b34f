"""Every number of the paper's tables, by one command.

    python -m qtcore.reproduce all --evaluate-only             the tables from the shipped models, in minutes
    python -m qtcore.reproduce table1 --datasets adult dna --methods qt --seeds 3
    python -m qtcore.reproduce frey --budget quick             a look at the whole chain
    python -m qtcore.reproduce all --scheduler tcp://host:8786 on a Dask cluster; by default on all cores here

Trains what is missing, scores it on the test set with fresh queries, and writes one record per cell and seed, the tables as
Markdown and a plot to the folder of results. A cell that is done is never computed again; Ctrl-C leaves what is done. Gibbs
rows come from their records unless --gibbs computes them.
"""

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from tqdm import tqdm

from qtcore.cells import Budget, Cell, cells, checkpoint_path, read_model, read_record, record_path, score_cell, train
from qtcore.cli import arguments, guarded
from qtcore.errors import DataError, InputError, ModelFileError
from qtcore.files import write_atomically
from qtcore.models.base import checkpoint_folder
from qtcore.tables import TABLES, markdown, plot, plot_courses, summary


@dataclass(frozen=True)
class Command:
    """Which cells, and what to do with them."""

    table: tyro.conf.Positional[Literal["table1", "frey", "grid", "all"]] = "all"
    """Which table."""
    methods: tuple[str, ...] = ()
    """qt, pcd, advil, image-gaussian, pixel-gaussian, random; all by default."""
    datasets: tuple[str, ...] = ()
    """Names of datasets; all by default."""
    seeds: int = 5
    """Independent runs of each cell."""
    budget: Literal["quick", "paper"] = "paper"
    """quick trains a fiftieth, to see that everything works; its figures are marked and go to a folder of their own."""
    evaluate_only: bool = False
    """Train nothing: score the models that are there."""
    gibbs: bool = False
    """Also score PCD and AdVIL models by Gibbs sampling, which is slow."""
    gibbs_rows: int = 1000
    """Test rows for Gibbs sampling."""
    scheduler: str | None = None
    """Address of a Dask scheduler; by default all cores of this machine."""
    out: Path | None = None
    """Folder with checkpoints/ and results/; by default the project's assets."""

    @property
    def assets(self) -> Path:
        if self.out is not None:
            return self.out
        return Path("quick") if self.budget == "quick" and not self.evaluate_only else checkpoint_folder().parent


def compute(cell: Cell, budget: Budget, folder: str | None) -> bytes:
    """On a worker: train a cell and return its checkpoint as bytes."""
    torch.set_num_threads(1)
    model, _ = train(cell, budget, None if folder is None else Path(folder))
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "model.safetensors"
        model.save(path)
        return path.read_bytes()


def train_missing(todo: list[Cell], command: Command) -> list[str]:
    """Train cells on Dask workers; each checkpoint is written as soon as it is there. Returns what went wrong."""
    from distributed import Client, LocalCluster, as_completed

    budget = Budget(quick=command.budget == "quick")
    runs = command.assets / "runs"
    cluster = None
    if command.scheduler is None:
        cluster = LocalCluster(threads_per_worker=1, dashboard_address=":0")
        client = Client(cluster)
    else:
        try:
            client = Client(command.scheduler)
        except (OSError, ValueError) as error:
            sentence = f"no Dask scheduler answers at {command.scheduler}; start one there with `dask scheduler`."
            raise InputError(sentence) from error
    problems = []
    try:
        futures = {
            client.submit(
                compute, cell, budget, None if command.scheduler else str(runs / cell.key), key=cell.key, pure=False
            ): cell
            for cell in todo
        }
        bar = tqdm(total=len(todo), desc="cells", disable=not sys.stderr.isatty())
        for future in as_completed(futures):
            cell = futures[future]
            if future.status == "finished":
                write_atomically(checkpoint_path(command.assets, cell), future.result())
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


def score_all(chosen: list[Cell], command: Command) -> tuple[list[dict[str, Any]], list[str]]:
    """Records of all cells that can be scored; those that were scored before are kept, unless only scoring was asked for."""
    records, problems = [], []
    for cell in tqdm(chosen, desc="scores", disable=not sys.stderr.isatty()):
        try:
            before = read_record(command.assets, cell)
        except ModelFileError as error:
            problems.append(str(error))
            continue
        wanted = (
            command.gibbs
            and cell.method in ("pcd", "advil")
            and not any("gibbs" in part for part in (before or {}).get("scores", {}))
        )
        if before is not None and not command.evaluate_only and not wanted:
            records.append(before)
            continue
        try:
            model = read_model(command.assets, cell) if cell.trained else None
            if model is None and cell.trained:
                continue
            record = score_cell(cell, model, command.gibbs, command.gibbs_rows)
        except (DataError, ModelFileError) as error:
            problems.append(str(error))
            records += [before] if before is not None else []  # what was computed where the data are still holds
            continue
        if before is not None:  # Gibbs figures stay until they are computed anew
            record["scores"] = {part: score for part, score in before["scores"].items() if "gibbs" in part} | record["scores"]
        write_atomically(record_path(command.assets, cell), json.dumps(record, indent=1) + "\n")
        records.append(record)
    return records, problems


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.reproduce", description=__doc__)
    if command.seeds < 1:
        raise InputError(f"seeds must be at least 1, not {command.seeds}.")
    if command.gibbs_rows < 1:
        raise InputError(f"gibbs-rows must be at least 1, not {command.gibbs_rows}.")
    chosen = cells(command.table, command.methods, command.datasets, command.seeds)
    if not chosen:
        raise InputError("no cell has both such a method and such a dataset; leave one of the two options out.")
    problems = []
    if not command.evaluate_only:
        todo = [cell for cell in chosen if cell.trained and not checkpoint_path(command.assets, cell).exists()]
        if todo:
            problems += train_missing(todo, command)
    records, unscored = score_all(chosen, command)
    results = command.assets / "results"
    known = {cell.key for cell in chosen}
    others = [cell for cell in cells("all", (), (), max(command.seeds, 5)) if cell.key not in known]
    for cell in others:
        try:
            records += [record] if (record := read_record(command.assets, cell)) is not None else []
        except ModelFileError as error:
            unscored.append(str(error))
    for name in TABLES:
        if command.table in (name, "all"):
            text = markdown(name, records)
            write_atomically(results / f"{name}.md", text + "\n")
            plot(name, records, results / f"{name}.png")
            print(text + "\n")
    if any(record["method"] == "advil" for record in records):
        plot_courses(records, results / "advil.png")
    write_atomically(results / "summary.md", summary(records))
    for problem in dict.fromkeys(problems + unscored):
        print(f"not done: {problem}", file=sys.stderr)
    return 1 if problems or unscored else 0


if __name__ == "__main__":
    guarded(main)
