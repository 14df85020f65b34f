"""Query training against what people would pick instead: the same rows, the same masks, the same test cells.

    python -m qtcore.compare --evaluate-only                   the table from the shipped models and records
    python -m qtcore.compare --datasets dna --methods groups   trains and scores what is missing
    python -m qtcore.compare --datasets dna --out again        everything anew on one set
    python -m qtcore.compare --methods mlp circuit --quick     a quick end-to-end run, in a folder of its own
    python -m qtcore.compare --scheduler tcp://host:8786       on a Dask cluster; by default on all cores here

Methods: rbm and dbm (the paper's), rbm-large (more hidden units), lateral (bits joined to each other and to hidden units),
groups (one-of-k groups as categorical variables), mlp (a masked network), imputer (scikit-learn's IterativeImputer with
classifiers), circuit (a probabilistic circuit), frequencies. All are trained with half of the bits observed, and scored with
2 to 98 % of them observed: NCE in bits, parameters, minutes. Trained models, one record for each method and dataset, and the
tables as Markdown go to the folder `compared`, or --out. Shipped models and records are used where there is no --out, and never
changed but by --update. What is done is not computed again, except that --evaluate-only scores anew. Needs the extra `compare`.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from qtcore.errors import InputError
from qtcore.models.files import checkpoint_folder
from qtcore.paper.comparison import compute_missing, score_models, stored, write
from qtcore.paper.contests import METHODS, contests
from qtcore.support.cli import arguments, guarded
from qtcore.support.extras import needs


@dataclass(frozen=True)
class Command:
    """Which methods and datasets, and what to do with them."""

    methods: tuple[str, ...] = ()
    """Names of methods; all by default."""
    datasets: tuple[str, ...] = ()
    """Names of datasets; all by default."""
    quick: bool = False
    """Train a hundredth and score 200 rows, to see that everything works; the figures are marked and go to a folder of their
    own."""
    evaluate_only: bool = False
    """Train nothing: score the query-trained models that are there. Records of the others stay as they are."""
    workers: int | None = None
    """Processes; by default one for each core. With 1 all is done in this one."""
    scheduler: str | None = None
    """Address of a Dask scheduler."""
    out: Path | None = None
    """Folder to write to: results/ and, of what is trained, compared/ and runs/. What lies there is not computed again."""
    update: bool = False
    """Write to the project's own assets instead: its tables, records and models."""

    @property
    def folders(self) -> list[Path]:
        """Where to write, and where else to look for what is done."""
        shipped = checkpoint_folder().parent
        if self.update:
            return [shipped]
        if self.out is not None:
            return [self.out]
        return [Path("quick")] if self.quick else [Path("compared"), shipped]


def check(command: Command) -> None:
    """Raise an InputError for what does not go, and a MissingExtraError before anything is computed."""
    if command.workers is not None and command.workers < 1:
        raise InputError(f"workers must be at least 1, not {command.workers}.")
    if command.update and (command.out is not None or command.quick):
        raise InputError("--update writes to the project's own assets; leave --out and --quick out.")
    needs("compare", "matplotlib")


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.compare", description=__doc__)
    check(command)
    chosen, folders = contests(command.methods, command.datasets), command.folders
    if not chosen:
        raise InputError(f"none of these methods is for these datasets; the methods are {', '.join(METHODS)}.")
    if command.evaluate_only:
        problems = score_models(chosen, folders, command.quick)
    else:
        problems = compute_missing(chosen, folders, command.quick, command.scheduler, command.workers)
    records, damaged = stored(folders)
    print(write(records, folders[0]))
    for problem in dict.fromkeys(problems + damaged):
        print(f"not done: {problem}", file=sys.stderr)
    return 1 if problems or damaged else 0


if __name__ == "__main__":
    guarded(main)
