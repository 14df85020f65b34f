"""What tables are made of: figures beside the paper's, rows with the records behind them, and means over runs."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from qtcore.paper.printed import Printed
from qtcore.paper.records import Record

MISSING = "not yet trained"
NOT_SAMPLED = "not sampled"
NOT_COMPARABLE = "not comparable"


class Compared(NamedTuple):
    """One cell: our figure (mean, error, runs), the paper's, and a verdict."""

    ours: tuple[float, float, int] | None
    paper: Printed | None
    verdict: str
    """better, worse, same, not comparable, not yet trained, not sampled, or empty where there is nothing to compare with."""
    digits: int

    @property
    def difference(self) -> float | None:
        return None if self.ours is None or self.paper is None else self.ours[0] - self.paper.mean

    @property
    def printed(self) -> str:
        """The paper's figure, with its error if the supplement has one."""
        if self.paper is None:
            return "–"
        text = f"{self.paper.mean:.{self.digits}f}"
        return text if self.paper.error is None else f"{text} ± {self.spread(self.paper.error)}"

    def spread(self, error: float) -> str:
        """An error with one more decimal than its mean, or its first digit if it would round to 0."""
        return f"{error:.{self.digits + 1}f}" if error >= 0.5 * 10 ** -(self.digits + 1) else f"{error:.1g}"

    def __str__(self) -> str:
        """As Markdown."""
        printed = self.printed
        if self.ours is None:
            return f"{self.verdict} (paper {printed})"
        text = f"**{self.ours[0]:.{self.digits}f}** ± {self.spread(self.ours[1])}"
        text += f" ({self.ours[2]} runs)" if self.ours[2] > 1 else ""
        if self.difference is None:
            return text
        if self.verdict in ("", NOT_COMPARABLE):
            return f"{text}; paper {printed}" + (f", {self.verdict}" if self.verdict else "")
        return f"{text}; paper {printed}, {self.difference:+.{self.digits}f} {self.verdict}"


class Row(NamedTuple):
    """A row of a table, and the records that its figures come from."""

    title: str
    cells: "list[Compared | str]"
    records: list[Record]


class Table(NamedTuple):
    title: str
    columns: list[str]
    rows: list[Row]


def mean_over_seeds(records: Iterable[Record], part: str) -> tuple[float, float, int] | None:
    """Mean and standard error of a figure over runs (over samples for a single run), and the number of runs."""
    scores = [record["scores"][part] for record in records if part in record["scores"]]
    if not scores:
        return None
    means = [float(score["mean"]) for score in scores]
    mean = sum(means) / len(means)
    if len(means) == 1:
        return mean, float(scores[0]["error"]), 1
    variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
    return mean, math.sqrt(variance / len(means)), len(means)
