"""Query-train a model.

    python -m qtcore.train rbm/adult                             the paper's settings; see the others with --help
    python -m qtcore.train rbm/digits --epochs 50 --out runs/d   needs no data but what scikit-learn ships
    python -m qtcore.train rbm/digits --epochs 50 --out runs/d --resume     resumes an interrupted run
    python -m qtcore.train rbm/adult --recipe ours               as the shipped model was trained, phase by phase
    python -m qtcore.train grid/border --steps 1600 --batch 10 --learning-rate 0.05 --schedule linear --decay-from 0.5
                                                                 16,000 images, for a quick start

On several processes of one machine, and on two machines (with a shared folder for --out):

    torchrun --nproc-per-node 2 -m qtcore.train grid/border
    torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint first:29500 -m qtcore.train grid/border

The run folder holds config.json, log.jsonl, best.safetensors (by validation) and state.safetensors (to resume from).
"""

import dataclasses
import itertools
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
from qtcore.paper.experiments import EXPERIMENTS, Experiment, named, recipe
from qtcore.support.cli import arguments, guarded


@dataclass(frozen=True)
class Command:
    """Settings of the experiment, each with its default."""

    experiment: Experiment
    recipe: Literal["paper", "ours"] = "paper"
    """Whose settings are the defaults: the paper's, or those of the shipped model (which may have earlier phases)."""
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
        raise InputError(f"name an experiment first: one of {', '.join(EXPERIMENTS)}.")
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


def main() -> int:
    command = parse_command(sys.argv[1:])
    experiment, settings, folder = command.experiment, command.experiment.settings, command.folder
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
    reporter = Reporter(folder, settings, quiet=quiet)
    try:
        model = experiment.run(dataset, folder, command.resume, reporter, device, config)
    finally:
        reporter.close()
        if dist.is_initialized():
            dist.destroy_process_group()
    if quiet:
        return 0
    if reporter.signal is not None:
        name = signal.Signals(reporter.signal).name
        print(f"Stopped by {name}; the state is saved. Continue with --resume and --out {folder}.", file=sys.stderr)
        return 128 + reporter.signal
    print(f"Done: validation NCE {in_bits(model.provenance.valid_nce_bits)} bits; the model is {folder / run.BEST}.")
    return 0


if __name__ == "__main__":
    guarded(main)
