"""Who is compared with whom: methods, datasets, and the shares of evidence."""

from dataclasses import dataclass
from typing import Any

from qtcore.errors import UnknownNameError, nearest
from qtcore.paper.printed import DATASETS
from qtcore.paper.structures import STRUCTURES

COMPARED = tuple(name for name in DATASETS if name != "rcv1")
"""The paper's sets that are here whole (of RCV1 there may be a part)."""
EVIDENCE = (2, 10, 25, 50, 75, 90, 98)
"""Shares of the bits that are observed in the test, in per cent; all models are trained at 50 %."""
TRAINED_AT = 50
PAPERS = ("rbm", "dbm")
OURS = ("rbm-large", "lateral", "groups")
QT = (*PAPERS, *OURS)
RIVALS = ("mlp", "imputer", "circuit", "frequencies")
METHODS = (*QT, *RIVALS)


@dataclass(frozen=True)
class Contest:
    """One method on one dataset."""

    method: str
    dataset: str

    @property
    def key(self) -> str:
        """Name of the record's file."""
        return f"compare-{self.method}-{self.dataset}-0"

    @property
    def name(self) -> str:
        """Name of the checkpoint; rivals have none."""
        return f"{self.method}/{self.dataset}"

    @property
    def trained(self) -> bool:
        """Whether it is one of the query-trained models that this command trains."""
        return self.method in OURS

    @property
    def whole(self) -> dict[str, Any]:
        """As a record names it."""
        method, model = ("qt", self.method) if self.method in QT else (self.method, "none")
        return {"table": "compare", "method": method, "model": model, "dataset": self.dataset, "seed": 0}


def contests(methods: tuple[str, ...] = (), datasets: tuple[str, ...] = ()) -> list[Contest]:
    """All of them, or those with these methods and datasets."""
    for what, names, known in (("method", methods, METHODS), ("dataset", datasets, COMPARED)):
        for name in names:
            if name not in known:
                raise UnknownNameError(f"there is no {what} named {name!r} in the comparison; {nearest(name, list(known))}")
    every = [
        Contest(method, dataset)
        for dataset in COMPARED
        for method in METHODS
        if method not in OURS or f"{method}/{dataset}" in STRUCTURES
    ]
    return [each for each in every if (not methods or each.method in methods) and (not datasets or each.dataset in datasets)]
