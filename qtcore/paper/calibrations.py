"""Records of calibration: how often what a model claims is so."""

from qtcore.paper.records import Record

CALIBRATION = (
    "Test set: the first 300 images of a grid, the first 5,000 rows of the others with one draw of uniform queries. The "
    "expected calibration error is the mean distance between what is claimed and what is so, weighted by how often each is "
    "claimed."
)

TITLES = {
    ("qt", "grid"): "Grid MRF",
    ("qt", "grbm"): "Gaussian RBM",
    ("qt", "rbm"): "RBM",
    ("qt", "dbm"): "DBM",
    ("pcd", "rbm"): "RBM, trained by PCD",
    ("advil", "grbm"): "Gaussian RBM, trained by AdVIL",
    ("advil", "rbm"): "RBM, trained by AdVIL",
    ("advil", "dbm"): "DBM, trained by AdVIL",
}


def calibration_error(record: Record) -> float:
    """The expected calibration error of a record (see `qtcore.metrics.Calibration`)."""
    scores = record["scores"]
    apart = (count * abs(p - so) for p, so, count in zip(scores["claimed"], scores["true"], scores["count"], strict=True))
    return float(sum(apart) / max(1, sum(scores["count"])))


def calibration_curves(records: list[Record]) -> dict[str, list[Record]]:
    """The records of calibration, by training and kind of model."""
    curves: dict[str, list[Record]] = {title: [] for title in TITLES.values()}
    for record in records:
        title = TITLES.get((record["method"], record["model"]))
        if record["table"] == "calibration" and title is not None:
            curves[title].append(record)
    return {title: chosen for title, chosen in curves.items() if chosen}
