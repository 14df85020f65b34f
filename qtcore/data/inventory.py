"""What is on this machine, and whether it is right."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from qtcore.baselines import per_image_gaussian, random_guess_iou
from qtcore.data import border, digits, frey, glyphs, load, mnist, registry
from qtcore.data.binary import RCV1_CUT, RCV1_VALID_ONES, SETS, row_fingerprint
from qtcore.data.dataset import Dataset, Source
from qtcore.data.reading import fingerprint

DRAWS = 24  # of queries for the Frey baseline: a single draw of patches is noisy (deviation 0.03)
FREY_UNIFORM = (1.903, 0.006)  # bits, and how far off they may be
FREY_PATCHES = (1.93, 0.02)
BORDER_GUESS = (16.4, 0.1)  # per cent
BORDER_LABELS = "086f78ea6cc2006f2d6a1b9081bd7b9ef439205291e2819bee36e6bc2e67ee50"  # `fingerprint` of all label images
SPURIOUS = (0.033, 0.001)  # p(on | OUT)
KEPT = (0.8, 0.002)  # how much of the contours the noise leaves
GLYPH_INK = (0.15, 0.02)  # foreground; the font's rendering may differ a little between machines


@dataclass(frozen=True)
class Holding:
    """What this machine has of one dataset."""

    name: str
    source: Source | None
    """None: it cannot be loaded without a download."""
    where: str = ""
    size: int = 0
    missing: tuple[registry.RemoteFile, ...] = ()
    """The originals of which there is no right copy here, and which would be used if there were."""
    damaged: tuple[Path, ...] = ()
    """Copies of originals with a wrong hash; they are never used."""

    @property
    def advice(self) -> str:
        """What to do about the missing files, in one sentence; empty when nothing is missing."""
        if not self.missing:
            return ""
        folders: dict[str, list[str]] = {}
        for file in self.missing:
            folder, _, base = file.urls[0].rpartition("/")
            folders.setdefault(folder, []).append(base)
        files = " and ".join(f"{', '.join(bases)} from {folder}/" for folder, bases in folders.items())
        target = (registry.cache_folder() / self.missing[0].path).parent
        return f"run `python -m qtcore.fetch {self.name}`, or put {files} into {target}."


def holding(name: str) -> Holding:
    """What is on this machine of the dataset `name`; nothing is fetched."""
    files = registry.FILES[name]
    if not files:
        if name == "digits":
            return Holding(name, "exact", "scikit-learn")
        return Holding(name, "stand-in", "drawn when loaded")
    copies = {file: list(registry.copies(file)) for file in files}
    damaged = tuple(path for found in copies.values() for path, content in found if content is None)
    right = {file: next((path for path, content in copies[file] if content is not None), None) for file in files}
    missing = tuple(file for file, path in right.items() if path is None)
    is_binary = name in SETS
    arrays = registry.prepared(name) if (is_binary and SETS[name].prepared) or name == "frey" else None
    if arrays:
        source: Source = "rearranged" if is_binary and SETS[name].rearranged else "exact"
        return Holding(name, source, str(arrays), arrays.stat().st_size, (), damaged)
    if not missing:
        paths = [path for path in right.values() if path]
        folders = sorted({str(path.parent) for path in paths})
        where = str(paths[0]) if len(paths) == 1 else " and ".join(folders)
        return Holding(name, "exact", where, sum(path.stat().st_size for path in paths), (), damaged)
    stand_in = registry.prepared("rcv1_valid_only") if name == "rcv1" else None
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


class _Checks:
    """Gathers what was measured and what of it is wrong."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.wrong: list[str] = []

    def require(self, right: bool, complaint: str) -> None:
        if not right:
            self.wrong.append(complaint)

    def near(self, what: str, value: float, expected: tuple[float, float], unit: str = "") -> None:
        """Note a measured value; it is wrong when it is further from the expected one than allowed."""
        target, tolerance = expected
        self.facts.append(f"{what} {value:.4g}{unit}")
        if not abs(value - target) <= tolerance:  # also when it is not a number
            self.wrong.append(f"{what} is {value:.5g}{unit}, expected {target:g} ± {tolerance:g}")


def verify(name: str) -> Report:
    """Recompute all that is known of the dataset `name`: shapes, densities, hashes, published baselines."""
    held = holding(name)
    checks = _Checks()
    for path in held.damaged:
        checks.wrong.append(f"{path} is damaged (wrong hash): remove it, or fetch {name} again")
    if held.source is None:
        if checks.wrong:
            return Report(name, "WRONG", remarks=tuple(checks.wrong))
        return Report(name, "missing", remarks=(held.advice,))
    try:
        data = load(name)
    except OSError as error:  # DataError, or a file that cannot be read
        return Report(name, "WRONG", held.source, remarks=(*checks.wrong, str(error)))
    _VERIFIERS.get(name, _binary)(data, checks)
    rows = "/".join(str(len(part)) for part in data.splits.values())
    rows += " × " + "×".join(str(n) for n in data.train.shape[1:])
    remarks = tuple(checks.wrong or checks.facts)
    if checks.wrong:
        return Report(name, "WRONG", data.source, rows, _density(data), remarks)
    if held.missing:  # a stand-in for something that could be had
        lacking = ", ".join(Path(file.path).name for file in held.missing)
        remarks = (*remarks, data.note.split(";")[0], f"missing: {lacking}", held.advice)
        return Report(name, "stand-in", data.source, rows, _density(data), remarks)
    return Report(name, "right", data.source, rows, _density(data), remarks)


def _density(data: Dataset) -> float | None:
    """The mean value, where it says something: the share of ones, or of ink."""
    if data.kind == "gaussian":
        return None
    total = sum(part.sum(dtype=torch.float64).item() for part in data.splits.values())
    size = sum(part.numel() for part in data.splits.values())
    return total / size / (255 if data.kind == "image" else 1)


def _shapes(data: Dataset, checks: _Checks, rows: tuple[int, ...], tail: tuple[int, ...]) -> None:
    for (split, part), n in zip(data.splits.items(), rows, strict=True):
        checks.require(part.shape == (n, *tail), f"{split} has shape {tuple(part.shape)}, expected {(n, *tail)}")


def _binary(data: Dataset, checks: _Checks) -> None:
    known = SETS[data.name]
    stand_in = data.source == "stand-in"
    _shapes(data, checks, RCV1_CUT if stand_in else known.rows, (known.n_variables,))
    expected = RCV1_VALID_ONES if stand_in else known.ones
    if expected is not None:
        ones = sum(int(part.sum(dtype=torch.float64)) for part in data.splits.values())
        checks.require(ones == expected, f"it has {ones} ones, expected {expected}")
    if known.row_set is not None:
        found = row_fingerprint({split: part.numpy() for split, part in data.splits.items()})
        checks.require(found == known.row_set, f"its rows are not the published ones (sha256 {found})")
    checks.facts.append("hash, shapes and density as recorded")


def _digits(data: Dataset, checks: _Checks) -> None:
    _shapes(data, checks, (6465, 720, 1800), (64,))
    checks.require(fingerprint({"images": digits.original_digits()}) == digits.CONTENT, "its images are not the published ones")
    low, high = torch.aminmax(torch.cat(list(data.splits.values())))
    checks.require(low.item() == 0 and high.item() == 1, f"its values run from {low} to {high}, expected 0 to 1")
    checks.facts.append("hash, shapes and range as recorded")


def _frey(data: Dataset, checks: _Checks) -> None:
    n_valid = round(frey.VALID_FRACTION * frey.N_TRAIN)
    _shapes(data, checks, (frey.N_TRAIN - n_valid, n_valid, frey.N_TEST), (frey.SHAPE[0] * frey.SHAPE[1],))
    generator = torch.Generator().manual_seed(0)
    faces = data.test.repeat(DRAWS, 1)  # all draws at once
    uniform = torch.rand(faces.shape, generator=generator) < 0.5
    patches = _random_patches(len(faces), frey.SHAPE, 5, generator)
    scores = [per_image_gaussian(faces, target).mean().item() for target in (uniform, patches)]
    checks.near("per-image Gaussian, uniform queries:", scores[0], FREY_UNIFORM, " bits")
    checks.near("5×5 patches:", scores[1], FREY_PATCHES, " bits")


def _random_patches(n: int, shape: tuple[int, int], size: int, generator: torch.Generator) -> Tensor:
    """One square of targets per image, its top left corner uniform, bool [n, height · width]."""
    inside = []
    for length, axes in zip(shape, ((-1, 1), (1, -1)), strict=True):
        corner = torch.randint(length - size + 1, (n, 1), generator=generator)
        offset = torch.arange(length) - corner
        inside.append(((offset >= 0) & (offset < size)).reshape(n, *axes))
    return (inside[0] & inside[1]).reshape(n, -1)


def _mnist(data: Dataset, checks: _Checks) -> None:
    _shapes(data, checks, (mnist.N_TRAIN - mnist.N_VALID, mnist.N_VALID, mnist.N_TEST), (mnist.SIDE, mnist.SIDE))
    checks.facts.append("hashes and shapes as recorded")


def _glyphs(data: Dataset, checks: _Checks) -> None:
    _shapes(data, checks, tuple(glyphs.N_ROWS.values()), (glyphs.SIDE, glyphs.SIDE))
    assert data.truth is not None
    counts = torch.bincount(data.truth["train"].long(), minlength=10)
    checks.require(bool((counts == counts[0]).all()), "the ten digits are not equally frequent")
    ink = (data.train > border.THRESHOLD).double().mean((1, 2))
    checks.require(bool((ink > 0).all()), "an image is empty")
    checks.near("foreground", ink.mean().item(), GLYPH_INK)


def _border(data: Dataset, checks: _Checks) -> None:
    rows = (mnist.N_TRAIN - mnist.N_VALID, mnist.N_VALID, mnist.N_TEST)
    _any_border(data, checks, rows, SPURIOUS)
    assert data.truth is not None
    labels = fingerprint({split: part.numpy() for split, part in data.truth.items()})
    checks.require(labels == BORDER_LABELS, f"its labels do not follow from MNIST (sha256 {labels})")
    guess = 100 * random_guess_iou(data.truth["test"], border.OUT).mean().item()
    checks.near("IoU of a random guess", guess, BORDER_GUESS, " %")


def _border_glyphs(data: Dataset, checks: _Checks) -> None:
    _any_border(data, checks, tuple(glyphs.N_ROWS.values()), (SPURIOUS[0], 5 * SPURIOUS[1]))


def _any_border(data: Dataset, checks: _Checks, rows: tuple[int, ...], spurious: tuple[float, float]) -> None:
    _shapes(data, checks, rows, (30, 30))
    assert data.truth is not None
    emission = data.statistics["emission"]
    assert isinstance(emission, Tensor)
    kept = data.train[data.truth["train"] == border.CONTOUR].double().mean().item()
    checks.near("contour kept", kept, KEPT)
    checks.near("p(on | OUT)", emission[1].item(), spurious)
    checks.require(not data.train[data.truth["train"] == border.IN].any(), "an inside pixel is on")


_VERIFIERS = {
    "digits": _digits,
    "frey": _frey,
    "mnist": _mnist,
    "border": _border,
    "glyphs": _glyphs,
    "border-glyphs": _border_glyphs,
}
