"""Which datasets are on this machine, and whether they are correct."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from qtcore.data import originals
from qtcore.data.checks import Check, Findings
from qtcore.data.dataset import Dataset, Source
from qtcore.data.registry import load, specification_of


@dataclass(frozen=True)
class Holding:
    """The files of one dataset on this machine."""

    name: str
    source: Source | None
    """None: it cannot be loaded without a download."""
    where: str = ""
    size: int = 0
    missing: tuple[originals.RemoteFile, ...] = ()
    """The originals that are needed but have no valid copy here."""
    damaged: tuple[Path, ...] = ()
    """Copies of originals with a wrong hash; they are never used."""

    @property
    def advice(self) -> str:
        """What to do about the missing files; empty if nothing is missing."""
        if not self.missing:
            return ""
        folders: dict[str, list[str]] = {}
        for file in self.missing:
            folder, _, base = file.urls[0].rpartition("/")
            folders.setdefault(folder, []).append(base)
        files = " and ".join(f"{', '.join(bases)} from {folder}/" for folder, bases in folders.items())
        target = (originals.cache_folder() / self.missing[0].path).parent
        return f"run `python -m qtcore.fetch {self.name}`, or put {files} into {target}."


def holding(name: str) -> Holding:
    """The files of the dataset `name` on this machine; nothing is downloaded."""
    known = specification_of(name)
    files = known.files
    if not files:
        return Holding(name, known.source, known.origin)
    copies = {file: list(originals.copies(file)) for file in files}
    damaged = tuple(path for held in copies.values() for path, content in held if content is None)
    right = {file: next((path for path, content in copies[file] if content is not None), None) for file in files}
    missing = tuple(file for file, path in right.items() if path is None)
    arrays = originals.prepared(name) if known.prepared else None
    if arrays:
        return Holding(name, known.prepared, str(arrays), arrays.stat().st_size, (), damaged)
    if not missing:
        paths = [path for path in right.values() if path]
        folders = sorted({str(path.parent) for path in paths})
        where = str(paths[0]) if len(paths) == 1 else " and ".join(folders)
        return Holding(name, known.source, where, sum(path.stat().st_size for path in paths), (), damaged)
    stand_in = originals.prepared(known.stand_in) if known.stand_in else None
    if stand_in:
        return Holding(name, "stand-in", str(stand_in), stand_in.stat().st_size, missing, damaged)
    return Holding(name, None, "", 0, missing, damaged)


@dataclass(frozen=True)
class Report:
    """The outcome of checking one dataset."""

    name: str
    result: Literal["right", "stand-in", "missing", "WRONG"]
    source: str = ""
    rows: str = ""
    density: float | None = None
    remarks: tuple[str, ...] = ()
    """What was measured, what is wrong, or what to do."""


def verify(name: str, further: Sequence[Check] = ()) -> Report:
    """Recompute the known properties of the dataset `name`: shapes, densities, hashes, and whatever `further` checks."""
    held = holding(name)
    findings = Findings()
    for path in held.damaged:
        findings.wrong.append(f"{path} is damaged (wrong hash): remove it, or fetch {name} again")
    if held.source is None:
        if findings.wrong:
            return Report(name, "WRONG", remarks=tuple(findings.wrong))
        return Report(name, "missing", remarks=(held.advice,))
    try:
        data = load(name)
    except OSError as error:  # DataError, or a file that cannot be read
        return Report(name, "WRONG", held.source, remarks=(*findings.wrong, str(error)))
    for check in (*specification_of(name).checks, *further):
        check(data, findings)
    rows = "/".join(str(len(part)) for part in data.splits.values())
    rows += " × " + "×".join(str(n) for n in data.train.shape[1:])
    remarks = tuple(findings.wrong or findings.facts)
    if findings.wrong:
        return Report(name, "WRONG", data.source, rows, _density(data), remarks)
    if held.missing:  # a stand-in for data that could be fetched
        lacking = ", ".join(Path(file.path).name for file in held.missing)
        remarks = (*remarks, data.note.split(";")[0], f"missing: {lacking}", held.advice)
        return Report(name, "stand-in", data.source, rows, _density(data), remarks)
    return Report(name, "right", data.source, rows, _density(data), remarks)


def _density(data: Dataset) -> float | None:
    """The mean value, where it is meaningful: the share of ones, or of ink."""
    if data.kind == "gaussian":
        return None
    total = sum(part.sum(dtype=torch.float64).item() for part in data.splits.values())
    size = sum(part.numel() for part in data.splits.values())
    return total / size / (255 if data.kind == "image" else 1)
