"""Looking into run folders: the same run leaves the same numbers, whatever happened to it on the way."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

import qtcore
from qtcore.learn.run import BEST, CONFIG, LOG, STATE

FILES = {STATE, BEST, LOG, CONFIG}


def state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and numbers of the newest state, without the time that it took."""
    with safe_open(folder / STATE, framework="pt") as file:
        numbers = json.loads(file.metadata()["numbers"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    assert numbers.pop("seconds") > 0
    return tensors, numbers


def log(folder: Path) -> list[dict[str, Any]]:
    """The lines of the log, without their times."""
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    seconds = [line.pop("seconds") for line in lines]
    assert seconds == sorted(seconds)
    return lines


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, moments of the optimiser, averages and the log are equal bit by bit; so is the best model."""
    tensors, numbers = state(one)
    other_tensors, other_numbers = state(other)
    assert numbers == other_numbers
    assert tensors.keys() == other_tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, other_tensors[name]), name
    assert log(one) == log(other)
    assert ((one / BEST).exists(), (other / BEST).exists()) in ((True, True), (False, False))
    if (one / BEST).exists():
        assert (one / BEST).read_bytes() == (other / BEST).read_bytes()


def assert_whole(folder: Path) -> None:
    """Whatever is there can be read."""
    if (folder / STATE).exists():
        state(folder)
    if (folder / BEST).exists():
        qtcore.load(folder / BEST)
    if (folder / CONFIG).exists():
        json.loads((folder / CONFIG).read_text())
