"""What tables are made of: figures beside the paper's, rows with their records, means over runs."""

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


def chosen_records(records: list[Record], table: str, method: str, **which: str) -> tuple[list[Record], str]:
    """Records of a row and its inference method: a row is named after training and inference."""
    training, _, inference = method.partition("-") if method.startswith(("pcd", "advil")) else (method, "", "")
    wanted = {"table": table, "method": training} | which
    return [record for record in records if wanted.items() <= record.items()], inference or "bp"


def comparison(
    ours: tuple[float, float, int] | None,
    paper: Printed | None,
    comparable: bool = True,
    digits: int = 3,
    more_is_better: bool = False,
    trained: bool = False,
) -> Compared:
    """Our figure next to the paper's: the same if they differ by no more than the error of the difference, or in no printed
    digit. `trained` means that a model exists and only its sampling is missing."""
    if ours is None:
        return Compared(ours, paper, NOT_SAMPLED if trained else MISSING, digits)
    if paper is None or not comparable:
        return Compared(ours, paper, "" if paper is None else NOT_COMPARABLE, digits)
    difference = ours[0] - paper.mean
    if abs(difference) <= max(0.5 * 10**-digits, math.hypot(ours[1], paper.error or 0.0)):
        return Compared(ours, paper, "same", digits)
    return Compared(ours, paper, "better" if (difference > 0) == more_is_better else "worse", digits)
