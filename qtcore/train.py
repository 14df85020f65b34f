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
import importlib
import itertools
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch
import torch.distributed as dist
import tyro
from tqdm import tqdm

import qtcore
from qtcore import data
from qtcore.errors import InputError
from qtcore.learn import run
from qtcore.learn.query_training import Progress, main_process
from qtcore.learn.settings import Settings
from qtcore.paper.experiments import EXPERIMENTS, Experiment, named, recipe
from qtcore.support.cli import arguments, guarded

DEFAULTS = {field.name: field.default for field in dataclasses.fields(Settings)}
"""What a run was begun with if its configuration is older than a setting."""


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


class Reporter:
    """Reports the progress of a training, and stops it in an orderly way when a signal asks for it."""

    def __init__(self, folder: Path, settings: Settings, quiet: bool) -> None:
        self.folder, self.settings, self.quiet = folder, settings, quiet
        self.signal: int | None = None
        self.bar: tqdm | None = None
        self.shown: tuple[int, float] | None = None  # the last step of which a line was printed, and when
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.signal = number

    def __call__(self, progress: Progress) -> bool:
        if not self.quiet:
            self._show(progress)
        return self.signal is not None

    def _show(self, progress: Progress) -> None:
        if sys.stderr.isatty():
            if self.bar is None:
                batch, size = self.settings.batch, os.get_terminal_size(sys.stderr.fileno())
                self.bar = tqdm(
                    total=progress.steps * batch,
                    initial=(progress.step - 1) * batch,
                    unit="img",
                    unit_scale=True,
                    ncols=size.columns or 80,  # some terminals do not know their size
                    nrows=size.lines or 24,
                    bar_format="{percentage:3.0f}%|{bar:8}| {remaining} left, {rate_fmt}{postfix}",
                )
            valid = f"valid {_bits(progress.valid)}, best {_bits(progress.best)}"
            self.bar.set_postfix_str(f"loss {progress.loss:.4f}, {valid}", refresh=False)
            self.bar.update(self.settings.batch)
        elif progress.step % self.settings.validate_every == 0 or progress.step == progress.steps:
            now = time.monotonic()
            speed = ""
            if self.shown is not None:
                images = (progress.step - self.shown[0]) * self.settings.batch
                speed = f", {images / (now - self.shown[1]):.0f} img/s"
            self.shown = progress.step, now
            valid = f"valid {_bits(progress.valid)}, best {_bits(progress.best)} bits"
            print(f"step {progress.step}/{progress.steps}: loss {progress.loss:.4f} nats, {valid}{speed}", flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def _bits(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def start_processes(device: torch.device) -> torch.device:
    """Join the other processes when torchrun started several; returns this process's device."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    # DistributedDataParallel would import this module later, and default arguments in it would then hold the group for ever:
    # gloo's threads would outlive destroy_process_group, and may abort the interpreter's exit. So import it before.
    importlib.import_module("torch.distributed.nn")
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def check_config(folder: Path, config: dict[str, Any], resume: bool) -> None:
    """Refuse to continue a run that had other settings; only its length may change."""
    path = folder / run.CONFIG
    if not resume or not (folder / run.STATE).exists() or not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["experiment"]
        before["settings"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not the configuration of a run of this command; give another folder.") from error
    for key, value in config["experiment"].items():
        old = before.get(key)
        if key == "settings":
            free = ("epochs", "steps", "save_every")
            old = {name: setting for name, setting in (DEFAULTS | old).items() if name not in free}
            value = {name: setting for name, setting in value.items() if name not in free}
        if json.loads(json.dumps(value)) != old:
            raise InputError(f"{folder} was begun with {key} = {old}, not {value}; give the same settings, or another folder.")


def main() -> int:
    command = parse_command(sys.argv[1:])
    experiment, settings, folder = command.experiment, command.experiment.settings, command.folder
    config = {
        "experiment": dataclasses.asdict(experiment),
        "versions": {"qtcore": qtcore.__version__, "torch": torch.__version__},
    }
    run.Run.check(folder, command.resume)  # by every process, before any of them can write
    check_config(folder, config, command.resume)
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
    print(f"Done: validation NCE {_bits(model.provenance.valid_nce_bits)} bits; the model is {folder / run.BEST}.")
    return 0


if __name__ == "__main__":
    guarded(main)
