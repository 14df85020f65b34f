"""Query-train a model.

    python -m qtcore.train rbm/adult                             the paper's settings; see the others with --help
    python -m qtcore.train rbm/digits --epochs 50 --out runs/d   needs no data but what scikit-learn ships
    python -m qtcore.train rbm/digits --epochs 50 --out runs/d --resume     resumes an interrupted run
    python -m qtcore.train rbm/adult --recipe                    our recipe, phase by phase: that of the shipped model
    python -m qtcore.train grid/border --steps 1600 --batch 10 --learning-rate 0.05 --schedule linear --decay-from 0.5
                                                                 16,000 images, for a quick start

    python -m qtcore.train table people.csv                      a model of your own table (CSV), in a minute: runs/people
    python -m qtcore.train table people.csv --describe           what would be made of its columns; see table --help

On several processes of one machine, and on two machines (with a shared folder for --out):

    torchrun --nproc-per-node 2 -m qtcore.train grid/border
    torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint first:29500 -m qtcore.train grid/border

Without --recipe, the settings are those that the paper gives. The shipped models, and so the README's figures, come from our
own recipes: --recipe (or --recipe ours). The models are the same, and any setting can be changed in both.

The run folder holds config.json, log.jsonl, best.safetensors (by validation) and state.safetensors (to resume from).
"""

import dataclasses
import itertools
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
import tyro

import qtcore
from qtcore import data
from qtcore.errors import InputError
from qtcore.learn import run
from qtcore.learn.processes import start_processes
from qtcore.learn.query_training import main_process
from qtcore.learn.reporter import Reporter, in_bits
from qtcore.learn.table_training import fit_table
from qtcore.models.base import Model
from qtcore.paper.experiments import EXPERIMENTS, Experiment, named, recipe
from qtcore.support.cli import arguments, guarded
from qtcore.tabular import Table, describe
from qtcore.tabular.schema import BINS

TABLE = """Query-train a model of the columns of a table: a CSV file whose first line names them, with gaps.

    python -m qtcore.train table people.csv --describe                   what is made of its columns, and nothing else
    python -m qtcore.train table people.csv --minutes 5 --out runs/people
    python -m qtcore.train table people.csv --schema zip=categorical note=ignore size=S,M,L
    python -m qtcore.infer runs/people/best.safetensors questions.csv    the probability of every gap
"""


@dataclass(frozen=True)
class Command:
    """Settings of the experiment, each with its default."""

    experiment: Experiment
    recipe: Literal["paper", "ours"] = "paper"
    """Whose settings are the defaults: the paper's, or ours, those of the shipped model (which may have earlier phases).
    --recipe alone means ours."""
    out: Path | None = None
    """Folder of the run; runs/NAME by default."""
    resume: bool = False
    """Go on from the newest state in the folder (or start, when there is none)."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first of these that is there."""
    precision: Literal["highest", "high", "medium"] = "highest"
    """Of matrix products, as torch has it: medium may round their factors to bfloat16 and be faster."""

    @property
    def folder(self) -> Path:
        return self.out or Path("runs") / self.experiment.name.replace("/", "-")


def parse_command(words: list[str]) -> Command:
    """The command line as a Command; the experiment's name comes first and sets the defaults."""
    names = [word for word in words[:1] if not word.startswith("-")]
    if not names and not {"-h", "--help"} & set(words):
        raise InputError(f"name an experiment first: one of {', '.join(EXPERIMENTS)}, or table and a CSV file.")
    words = [part for word, after in zip(words, [*words[1:], "-"], strict=True) for part in _with_value(word, after)]
    ours = "ours" in [after for word, after in itertools.pairwise(words) if word == "--recipe"] or "--recipe=ours" in words
    default = (recipe if ours else named)(names[0]) if names else EXPERIMENTS["rbm/adult"]
    description = f"{__doc__}\nExperiments: {', '.join(EXPERIMENTS)}.\nThe defaults below are those of {default.name}."
    return arguments(
        Command,
        prog="python -m qtcore.train NAME",
        description=description,
        default=Command(default),
        args=words[len(names) :],
        config=(tyro.conf.OmitArgPrefixes,),
    )


def _with_value(word: str, after: str) -> tuple[str, ...]:
    """--recipe alone is --recipe ours."""
    return (word, "ours") if word == "--recipe" and after.startswith("-") else (word,)


@dataclass(frozen=True)
class TableCommand:
    """A table and how to train on it."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """The table (CSV); nothing, NA, N/A, NaN, None, null and ? are gaps."""
    out: Path | None = None
    """Folder of the run; runs/ and the file's name by default."""
    resume: bool = False
    """Go on from the newest state in the folder, as it was begun (or start, when there is none)."""
    minutes: float = 1.0
    """About how long to train; small tables are done earlier."""
    schema: tuple[str, ...] = ()
    """What columns are, where it is known better: NAME=KIND (binary, categorical, ordered, count, real, ignore), or their
    levels in order, NAME=S,M,L."""
    bins: int = BINS
    """The largest number of bins of a column of numbers."""
    hidden: int | None = None
    """Hidden units; by default by the number of rows."""
    lateral: bool | None = None
    """Whether each pair of columns has a table of its own; by default if these are not too large."""
    seed: int = 0
    """Seed of the initial weights, the held-out rows, the order and the queries."""
    describe: bool = False
    """Only print what is made of the columns."""

    def read(self) -> Table:
        overrides: dict[str, Any] = {}
        for text in self.schema:
            name, mark, what = text.rpartition("=")
            if not mark or not what:
                raise InputError(f"--schema takes NAME=KIND or NAME=LEVEL,LEVEL,…, not {text!r}.")
            overrides[name] = what.split(",") if "," in what else what
        return Table.read(self.file, overrides, self.bins)


def train_table(words: list[str]) -> int:
    """Train on a user's own table."""
    command = arguments(TableCommand, prog="python -m qtcore.train table", description=TABLE, args=words)
    folder = command.out or Path("runs") / command.file.stem
    if not command.describe:
        run.Run.check(folder, command.resume)
    table = command.read()
    print(describe(table), flush=True)
    if command.describe:
        return 0
    reporter = Reporter(quiet=False, unit="rows")
    try:
        model = fit_table(
            table,
            command.minutes,
            n_hidden=command.hidden,
            lateral=command.lateral,
            folder=folder,
            resume=command.resume,
            callback=reporter,
            seed=command.seed,
        )
    finally:
        reporter.close()
    return ended(reporter, model, folder)


def ended(reporter: Reporter, model: Model, folder: Path) -> int:
    """Say how a training ended; the exit code."""
    if reporter.signal is not None:
        name = signal.Signals(reporter.signal).name
        print(f"Stopped by {name}; the state is saved. Continue with --resume and --out {folder}.", file=sys.stderr)
        return 128 + reporter.signal
    print(f"Done: validation NCE {in_bits(model.provenance.valid_nce_bits)} bits; the model is {folder / run.BEST}.")
    return 0


def main() -> int:
    if sys.argv[1:2] == ["table"]:
        return train_table(sys.argv[2:])
    command = parse_command(sys.argv[1:])
    experiment, folder = command.experiment, command.folder
    config = {
        "experiment": dataclasses.asdict(experiment),
        "versions": {"qtcore": qtcore.__version__, "torch": torch.__version__},
    }
    run.Run.check(folder, command.resume)  # by every process, before any of them can write
    run.check_config(folder, config, command.resume)
    torch.set_float32_matmul_precision(command.precision)
    device = start_processes(run.device(command.device))
    quiet = not main_process()
    dataset = data.load(experiment.dataset)
    reporter = Reporter(quiet=quiet)
    try:
        model = experiment.run(dataset, folder, command.resume, reporter, device, config)
    finally:
        reporter.close()
        if dist.is_initialized():
            dist.destroy_process_group()
    if quiet:
        return 0
    return ended(reporter, model, folder)


if __name__ == "__main__":
    guarded(main)
