"""The paper's tables, as printed: means from the main text, standard deviations of the mean from the supplement."""

from typing import NamedTuple

from qtcore.data import SPECIFICATIONS


class Printed(NamedTuple):
    """A figure of the paper and the standard deviation of its mean (None where none is printed)."""

    mean: float
    error: float | None = None


DATASETS = tuple(name for name, known in SPECIFICATIONS.items() if known.in_table_1)
"""The datasets of Table 1, in its order."""

_TABLE_1 = {
    ("advil-bp", "rbm"): (0.224, 0.248, 0.530, 0.778, 0.192, 0.795, 0.470, 0.475, 0.142),
    ("advil-gibbs", "rbm"): (0.229, 0.238, 0.493, 0.782, 0.218, 0.797, 0.471, 0.477, 0.163),
    ("pcd-bp", "rbm"): (0.215, 0.285, 0.530, 0.763, 0.159, 0.801, 0.428, 0.457, 0.140),
    ("pcd-gibbs", "rbm"): (0.218, 0.288, 0.516, 0.765, 0.159, 0.804, 0.427, 0.458, 0.144),
    ("qt", "rbm"): (0.167, 0.148, 0.472, 0.766, 0.124, 0.787, 0.377, 0.452, 0.133),
    ("advil-bp", "dbm"): (0.242, 0.364, 0.578, 0.805, 0.224, 0.816, 0.490, 0.480, 0.146),
    ("advil-gibbs", "dbm"): (0.244, 0.299, 0.529, 0.560, 0.690, 0.934, 0.923, 0.568, 0.195),
    ("qt", "dbm"): (0.169, 0.146, 0.471, 0.765, 0.124, 0.787, 0.379, 0.453, 0.133),
}

_TABLE_1_ERRORS = {
    ("advil-bp", "rbm"): (4.55e-4, 7.44e-5, 1.66e-3, 2.22e-5, 4.36e-4, 7.9e-4, 2.83e-3, 1.48e-4, 2.29e-4),
    ("advil-gibbs", "rbm"): (7.84e-4, 4.98e-3, 1.29e-3, 8.71e-4, 4.06e-3, 6.77e-4, 8.55e-4, 1.13e-4, 7.32e-3),
    ("pcd-bp", "rbm"): (1.52e-3, 2.88e-3, 1.18e-3, 6.86e-4, 2.74e-3, 2.48e-3, 9.78e-4, 1.85e-4, 1.56e-4),
    ("pcd-gibbs", "rbm"): (1.86e-3, 2.58e-3, 8.09e-4, 9.68e-4, 3.2e-3, 2.07e-3, 1.28e-3, 1.94e-4, 2.24e-4),
    ("qt", "rbm"): (3.26e-4, 7.34e-4, 5.77e-4, 8.45e-4, 1.68e-3, 6.37e-5, 1.09e-3, 3.06e-4, 2.06e-4),
    ("advil-bp", "dbm"): (2.56e-4, 1.81e-4, 1.03e-3, 7e-4, 5.89e-4, 2.98e-4, 4.05e-4, 1.02e-4, 1.01e-4),
    ("advil-gibbs", "dbm"): (1.27e-4, 1.08e-4, 1.03e-3, 3.75e-4, 1.61e-3, 3.93e-4, 6.28e-4, 1.30e-4, 1.94e-4),
    ("qt", "dbm"): (1.21e-3, 5.17e-4, 2.82e-4, 2.53e-4, 4.29e-4, 4.27e-4, 6.96e-4, 2.21e-4, 7.74e-5),
}

TABLE_1: dict[tuple[str, str, str], Printed] = {
    (method, model, dataset): Printed(mean, error)
    for (method, model), means in _TABLE_1.items()
    for dataset, mean, error in zip(DATASETS, means, _TABLE_1_ERRORS[method, model], strict=True)
}
"""NCE in bits by method, model and dataset."""

FREY: dict[tuple[str, str], Printed] = {
    ("advil-gibbs", "uniform"): Printed(1.545, 9.31e-5),
    ("advil-bp", "uniform"): Printed(1.542, 1.91e-5),
    ("qt", "uniform"): Printed(1.503, 8.64e-4),
    ("image-gaussian", "uniform"): Printed(1.909),
    ("advil-gibbs", "patches"): Printed(1.525, 1.08e-3),
    ("advil-bp", "patches"): Printed(1.530, 2.58e-3),
    ("qt", "patches"): Printed(1.493, 1.06e-3),
    ("image-gaussian", "patches"): Printed(1.889),
}
"""NCE in bits by method and distribution of the test queries (Gaussian RBM, Frey faces)."""

GRID: dict[tuple[str, str], Printed] = {
    ("qt", "iou"): Printed(96.97, 0.28),
    ("qt", "nce"): Printed(0.0398),
    ("random", "iou"): Printed(16.39, 9.0e-3),
    ("random", "nce"): Printed(1.00),
}
"""IoU in per cent, and NCE: the authors' script prints that of QT in nats, while 1.00 for the guess is in bits."""

PUBLISHED: dict[str, tuple[float, float]] = {
    "adult": (13.2, 13.2),
    "connect4": (11.9, 12.6),
    "dna": (79.7, 84.8),
    "mushrooms": (9.7, 9.7),
    "nips": (271.0, 277.0),
    "ocr_letters": (26.4, 30.0),
    "web": (27.9, 28.4),
}
"""−log p of a test row in nats, the least and the most of three autoregressive models on the same files: NADE (Larochelle and
Murray, AISTATS 2011), EoNADE (Uria, Murray and Larochelle, ICML 2014), MADE (Germain and others, ICML 2015)."""
