"""Every number of the paper's tables, by one command.

    python -m qtcore.reproduce all --evaluate-only             the tables from the shipped models
    python -m qtcore.reproduce table1 --datasets adult dna --methods qt --models rbm --seeds 3
    python -m qtcore.reproduce frey --budget quick             a quick end-to-end run
    python -m qtcore.reproduce depth --evaluate-only           the score of every shipped model over the depth
    python -m qtcore.reproduce calibration --evaluate-only     how often what every shipped model claims is so
    python -m qtcore.reproduce joint --evaluate-only           log-likelihoods by the chain rule, and consistency
    python -m qtcore.reproduce questions --evaluate-only       what a few well-chosen questions tell, against random ones
    python -m qtcore.reproduce queries --evaluate-only         models trained on some queries, asked others
    python -m qtcore.reproduce engines --evaluate-only         BP, mean field and reweighted BP, each with all weights
    python -m qtcore.reproduce all --scheduler tcp://host:8786 on a Dask cluster; by default on all cores here

Trains what is missing, scores it on the test set with fresh queries, and writes one record per cell and seed, the tables as
Markdown and a plot to the folder `reproduced` (of a quick run: `quick`), or --out: the rows that were asked for. Shipped models
and records are used, and never changed but by --update. A cell that is done is never computed again, except that
--evaluate-only scores anew; Ctrl-C leaves what is done. Gibbs rows come from their records unless --gibbs computes them.

The shipped models, and so the README's figures, are those of our own recipes (`python -m qtcore.train NAME --recipe`).
"""

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal

import tyro

from qtcore.errors import InputError
from qtcore.models.files import checkpoint_folder
from qtcore.paper.cells import cells
from qtcore.paper.reproduction import missing, other_records, score_all, train_missing, write_tables
from qtcore.support.cli import arguments, guarded
from qtcore.support.extras import needs


@dataclass(frozen=True)
class Command:
    """Which cells, and what to do with them."""

    table: tyro.conf.Positional[
        Literal["table1", "frey", "grid", "depth", "calibration", "joint", "questions", "queries", "engines", "all"]
    ] = "all"
    """Which table; depth: the score of every shipped model, layer by layer; calibration: how often what they claim is so;
    joint: log-likelihoods and consistency; questions: what chosen questions tell; queries: trained on some, asked others;
    engines: what each makes of all weights."""
    methods: tuple[str, ...] = ()
    """qt, pcd, advil, image-gaussian, pixel-gaussian, random, untrained; all by default."""
    models: tuple[str, ...] = ()
    """rbm, dbm, grbm, grid, or none (of the baselines without a model); all by default."""
    datasets: tuple[str, ...] = ()
    """Names of datasets; all by default."""
    seeds: int = 5
    """Independent runs of each cell."""
    budget: Literal["quick", "paper"] = "paper"
    """quick trains a hundredth, to see that everything works; its figures are marked and go to a folder of their own."""
    evaluate_only: bool = False
    """Train nothing: score the models that are there."""
    gibbs: bool = False
    """Also score PCD and AdVIL models by Gibbs sampling, which is slow."""
    gibbs_rows: int = 1000
    """Test rows for Gibbs sampling."""
    scheduler: str | None = None
    """Address of a Dask scheduler; by default all cores of this machine."""
    out: Path | None = None
    """Folder to write to: results/ and, of what is trained, checkpoints/ and runs/. What lies there is not computed again."""
    update: bool = False
    """Write to the project's own assets instead: its tables, records and models."""

    @property
    def quick(self) -> bool:
        return self.budget == "quick" and not self.evaluate_only

    @property
    def folders(self) -> list[Path]:
        """Where to write, and where else to look for what is done: a quick run trains all anew."""
        shipped = checkpoint_folder().parent
        if self.update:
            return [shipped]
        return [self.out or Path("quick")] if self.quick else [self.out or Path("reproduced"), shipped]


def check(command: Command) -> None:
    """Raise an InputError for what does not go, and a MissingExtraError before anything is computed."""
    if command.seeds < 1:
        raise InputError(f"seeds must be at least 1, not {command.seeds}.")
    if command.gibbs_rows < 1:
        raise InputError(f"gibbs-rows must be at least 1, not {command.gibbs_rows}.")
    if command.update and (command.out is not None or command.budget == "quick"):
        raise InputError("--update writes to the project's own assets; leave --out and --budget quick out.")
    needs("bench", "matplotlib")


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.reproduce", description=__doc__)
    check(command)
    chosen = cells(command.table, command.methods, command.datasets, command.seeds, command.models)
    if not chosen:
        raise InputError("no cell has such a method, such a model and such a dataset at once; leave one of the options out.")
    problems, folders = [], command.folders
    if not command.evaluate_only and (todo := missing(chosen, folders)):
        needs("bench", "distributed")
        signal.signal(signal.SIGTERM, _terminated)
        problems += train_missing(todo, folders[0], command.quick, command.scheduler)
    records, unscored = score_all(chosen, folders, command.evaluate_only, command.gibbs, command.gibbs_rows)
    others, damaged = other_records(chosen, folders, command.seeds, all_runs=command.update)
    whole = command.update or not (command.methods or command.models or command.datasets)
    texts = write_tables(records, others, command.table, folders[0], whole)
    if not texts:
        problems.append("none of these cells is trained; without --evaluate-only they are.")
    for text in texts:
        print(text + "\n")
    problems += unscored + damaged
    for problem in dict.fromkeys(problems):
        print(f"not done: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _terminated(number: int, _: FrameType | None) -> None:
    """In an orderly way: workers end, and what they have saved is there for the next call."""
    print("Stopped by SIGTERM; what is done is kept, and the same command goes on.", file=sys.stderr)
    sys.exit(128 + number)


if __name__ == "__main__":
    guarded(main)
