"""A run folder: configuration, log, best model and latest state, all written atomically."""

import json
import os
import weakref
from collections.abc import Callable
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from qtcore.errors import InputError, ModelFileError
from qtcore.learn.settings import Settings
from qtcore.models.base import Model
from qtcore.models.files import load
from qtcore.support.files import write_atomically

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

STATE, BEST, LOG, CONFIG = "state.safetensors", "best.safetensors", "log.jsonl", "config.json"
DEFAULTS = {field.name: field.default for field in fields(Settings)}
"""What a run was begun with if its configuration is older than a setting."""


class Run:
    """Keeps a training run in a folder, which is locked until `close`. Only the `main` process of a distributed run writes."""

    def __init__(self, folder: Path, resume: bool, main: bool = True) -> None:
        self.folder, self.main = folder, main
        self.close: Callable[[], object] = lambda: None
        """Lets others train in this folder."""
        if not main:
            return
        self.check(folder, resume)
        folder.mkdir(parents=True, exist_ok=True)
        if fcntl is not None:
            self.close = weakref.finalize(self, os.close, _lock(folder))
        self.check(folder, resume)  # again: another training may have ended in between
        for name in (STATE, BEST, LOG, CONFIG):  # left by a process that was killed while writing
            for temporary in folder.glob(f".{name}.*.tmp"):
                temporary.unlink(missing_ok=True)
        if not (folder / STATE).exists():  # no state to resume: start afresh, and rename the existing files
            for path in (folder / BEST, folder / LOG):
                if path.exists():
                    path.rename(next(free for n in count(1) if not (free := path.with_stem(f"{path.stem}-{n}")).exists()))

    @staticmethod
    def check(folder: Path, resume: bool) -> None:
        """Raise an InputError if the folder cannot be used."""
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; give a folder for the run.")
        used = sorted(path.name for path in folder.glob("[!.]*"))
        if used and not resume:
            raise InputError(f"{folder} is not empty ({used[0]}); continue its run with --resume, or give another folder.")

    def write_config(self, config: dict[str, Any]) -> None:
        if self.main:
            try:
                text = json.dumps(config, indent=2)
            except (TypeError, ValueError) as error:
                raise InputError(f"config must hold what JSON can: text, numbers, lists and dictionaries ({error}).") from error
            write_atomically(self.folder / CONFIG, text + "\n")

    def log(self, record: dict[str, Any], seconds: float) -> None:
        """Append one line to the log, with the time since the start of the run."""
        if self.main:
            line = json.dumps(record | {"seconds": round(seconds, 3)}) + "\n"
            try:
                with open(self.folder / LOG, "a", encoding="utf-8") as file:
                    file.write(line)
            except OSError as error:
                raise ModelFileError(f"{self.folder / LOG} could not be written ({error}).") from error

    def save_best(self, model: Model) -> None:
        if self.main:
            model.save(self.folder / BEST)

    def save_state(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        if not self.main:
            return
        plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        path = self.folder / STATE
        try:
            with open(self.folder / LOG, "rb+") as log:  # the log must reach the disk before the state that relies on it
                os.fsync(log.fileno())
            write_atomically(path, save(plain, {"numbers": json.dumps(numbers)}))
        except OSError as error:
            raise ModelFileError(f"{path} could not be written ({error}); a state from before is intact.") from error

    def load_state(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The latest state, or None."""
        path = self.folder / STATE
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                numbers = json.loads((file.metadata() or {})["numbers"])
                return {name: file.get_tensor(name) for name in file.keys()}, numbers  # noqa: SIM118  (not a dict)
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise ModelFileError(f"{path} is not a whole training state ({error}).") from error

    def go_on(self, step: int, best: Model | None) -> None:
        """Truncate the log to the step of the saved state, and write that state's best model if the file is missing."""
        if not self.main:
            return
        path = self.folder / LOG
        kept = []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):  # a truncated line
                continue
        write_atomically(path, "".join(kept))
        if best is not None and not self._has_best():
            self.save_best(best)

    def _has_best(self) -> bool:
        """Whether the best model can be read."""
        try:
            load(self.folder / BEST)
        except ModelFileError:
            return False
        return True


def _lock(folder: Path) -> int:
    """Lock a folder for as long as the file descriptor that is returned is open: no longer than this process lives."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise InputError(f"another training is running in {folder}; wait for its end, or give another folder.") from error
    except OSError:  # a file system without locks
        pass
    return handle


def device(name: str) -> torch.device:
    """The device by name; "auto" is CUDA, then MPS, then the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:  # AssertionError: torch built without CUDA
        raise InputError(f"there is no device named {name!r}; try auto, cuda, mps or cpu.") from error


def check_config(folder: Path, config: dict[str, Any], resume: bool) -> None:
    """Refuse to continue a run that had other settings; only its length may change."""
    path = folder / CONFIG
    if not resume or not (folder / STATE).exists() or not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["experiment"]
        before["settings"].items()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not the configuration of a run of this command; give another folder.") from error
    for key, value in config["experiment"].items():
        old = before.get(key)
        if key == "settings":
            free = ("epochs", "steps", "seconds", "save_every")
            old = {name: setting for name, setting in (DEFAULTS | old).items() if name not in free}
            value = {name: setting for name, setting in value.items() if name not in free}
        if json.loads(json.dumps(value)) != old:
            raise InputError(f"{folder} was begun with {key} = {old}, not {value}; give the same settings, or another folder.")
