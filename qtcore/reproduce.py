"""Every number of the paper's tables, by one command.

    python -m qtcore.reproduce all --evaluate-only             the tables from the shipped models
    python -m qtcore.reproduce table1 --datasets adult dna --methods qt --seeds 3
    python -m qtcore.reproduce frey --budget quick             a quick end-to-end run
    python -m qtcore.reproduce depth --evaluate-only           the score of every shipped model over the depth
    python -m qtcore.reproduce joint --evaluate-only           log-likelihoods by the chain rule, and consistency
    python -m qtcore.reproduce questions --evaluate-only       what a few well-chosen questions tell, against random ones
    python -m qtcore.reproduce queries --evaluate-only         models trained on some queries, asked others
    python -m qtcore.reproduce engines --evaluate-only         BP, mean field and reweighted BP, each with all weights
    python -m qtcore.reproduce all --scheduler tcp://host:8786 on a Dask cluster; by default on all cores here

Trains what is missing, scores it on the test set with fresh queries, and writes one record per cell and seed, the tables as
Markdown and a plot to the folder of results. A cell that is done is never computed again; Ctrl-C leaves what is done. Gibbs
rows come from their records unless --gibbs computes them.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from qtcore.errors import InputError
from qtcore.models.files import checkpoint_folder
from qtcore.paper.cells import cells, checkpoint_path
from qtcore.paper.reproduction import other_records, score_all, train_missing, write_tables
from qtcore.support.cli import arguments, guarded


@dataclass(frozen=True)
class Command:
    """Which cells, and what to do with them."""

    table: tyro.conf.Positional[
        Literal["table1", "frey", "grid", "depth", "joint", "questions", "queries", "engines", "all"]
    ] = "all"
    """Which table; depth: the score of every shipped model, layer by layer; joint: log-likelihoods and consistency;
    questions: what chosen questions tell; queries: trained on some, asked others; engines: what each makes of all weights."""
    methods: tuple[str, ...] = ()
    """qt, pcd, advil, image-gaussian, pixel-gaussian, random, untrained; all by default."""
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
    """Folder with checkpoints/ and results/; by default the project's assets."""

    @property
    def assets(self) -> Path:
        if self.out is not None:
            return self.out
        return Path("quick") if self.budget == "quick" and not self.evaluate_only else checkpoint_folder().parent


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
        todo = {checkpoint_path(command.assets, cell): cell for cell in reversed(chosen) if cell.trained}
        missing = [cell for path, cell in reversed(todo.items()) if not path.exists()]
        if missing:
            problems += train_missing(missing, command.assets, command.budget == "quick", command.scheduler)
    records, unscored = score_all(chosen, command.assets, command.evaluate_only, command.gibbs, command.gibbs_rows)
    others, damaged = other_records(chosen, command.assets, command.seeds)
    for text in write_tables(records + others, command.table, command.assets):
        print(text + "\n")
    problems += unscored + damaged
    for problem in dict.fromkeys(problems):
        print(f"not done: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    guarded(main)
