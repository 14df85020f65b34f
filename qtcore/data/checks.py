"""The checks behind `verify`, and their findings."""

from collections.abc import Callable

from qtcore.data.dataset import Dataset


class Findings:
    """Collects measured values and errors."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.wrong: list[str] = []

    def require(self, right: bool, complaint: str) -> None:
        if not right:
            self.wrong.append(complaint)

    def near(self, what: str, value: float, expected: tuple[float, float], unit: str = "") -> None:
        """Record a measured value; it is an error if it differs from the expected one by more than the tolerance."""
        target, tolerance = expected
        self.facts.append(f"{what} {value:.4g}{unit}")
        if not abs(value - target) <= tolerance:  # also when it is not a number
            self.wrong.append(f"{what} is {value:.5g}{unit}, expected {target:g} ± {tolerance:g}")


Check = Callable[[Dataset, Findings], None]
"""Checks a dataset as loaded, without options, and adds to the findings."""


def shapes(rows: tuple[int, ...], tail: tuple[int, ...]) -> Check:
    """Check the number of rows of each split, and that each has shape `tail`."""

    def check(data: Dataset, findings: Findings) -> None:
        for (split, part), n in zip(data.splits.items(), rows, strict=True):
            findings.require(part.shape == (n, *tail), f"{split} has shape {tuple(part.shape)}, expected {(n, *tail)}")

    return check


def recorded(what: str) -> Check:
    """Not a check: states what the earlier checks, or the loader, compared with the published values."""
    return lambda data, findings: findings.facts.append(f"{what} as recorded")
