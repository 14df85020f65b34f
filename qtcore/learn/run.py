"""A run folder: configuration, log, best model and newest state, none of which is ever half written."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from qtcore.errors import InputError, ModelFileError
from qtcore.files import write_atomically
from qtcore.models.base import Model

STATE, BEST, LOG, CONFIG = "state.safetensors", "best.safetensors", "log.jsonl", "config.json"


class Run:
    """Keeps a training run in a folder. Only the `main` process of a distributed run writes."""

    def __init__(self, folder: Path, resume: bool, main: bool = True) -> None:
        self.folder, self.main = folder, main
        if not main:
            return
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; give a folder for the run.")
        used = [name for name in (STATE, BEST, LOG) if (folder / name).exists()]
        if used and not resume:
            raise InputError(f"{folder} already holds a run ({used[0]}); go on with it by --resume, or give another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*.tmp"):  # of a process that was killed in the middle of writing
            left.unlink(missing_ok=True)
        if not (folder / STATE).exists():  # nothing to go on with: start anew
            for name in (BEST, LOG):
                (folder / name).unlink(missing_ok=True)

    def write_config(self, config: dict[str, Any]) -> None:
        if self.main:
            write_atomically(self.folder / CONFIG, json.dumps(config, indent=2) + "\n")

    def log(self, record: dict[str, Any], seconds: float) -> None:
        """Add one line to the log, with the time since the run began."""
        if self.main:
            with open(self.folder / LOG, "a", encoding="utf-8") as file:
                file.write(json.dumps(record | {"seconds": round(seconds, 3)}) + "\n")

    def save_best(self, model: Model) -> None:
        if self.main:
            model.save(self.folder / BEST)

    def save_state(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        if not self.main:
            return
        plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        write_atomically(self.folder / STATE, lambda path: save_file(plain, path, {"numbers": json.dumps(numbers)}))

    def load_state(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest state, or None; the log is cut back to where that state was saved."""
        path = self.folder / STATE
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                numbers = json.loads((file.metadata() or {})["numbers"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
        except (SafetensorError, KeyError, json.JSONDecodeError) as error:
            raise ModelFileError(f"{path} is not a saved training state ({error}).") from error
        if self.main:
            self._cut_log(numbers["step"])
        return tensors, numbers

    def _cut_log(self, step: int) -> None:
        path = self.folder / LOG
        kept = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (json.JSONDecodeError, KeyError):  # a line that was cut off in the middle
                continue
        write_atomically(path, "".join(kept))


def device(name: str) -> torch.device:
    """The device by name; "auto" is CUDA, then MPS, then the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise InputError(f"there is no device named {name!r}; try auto, cuda, mps or cpu.") from error
