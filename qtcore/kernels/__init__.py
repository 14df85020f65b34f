"""Native kernels: N layers of belief propagation as one operator of torch, in C, for models on the CPU.

A kernel never changes an answer. Whoever wants one asks `usable(*tensors)` first and has plain torch to fall back on;
`backend()` says which of the two runs and why, `use("torch")` and QTCORE_BACKEND choose.
"""

from qtcore.kernels.backend import Backend, backend, usable, use
from qtcore.kernels.ops import (
    LARGEST_WEIGHT,
    binary_damped,
    binary_layers,
    binary_trace,
    described,
    factor_depths,
    factor_layers,
    factor_trace,
    fits,
    gaussian_damped,
    gaussian_damped_trace,
    gaussian_layers,
    gaussian_trace,
    grid_depths,
    grid_layers,
    grid_trace,
    rounds,
)

__all__ = [
    "LARGEST_WEIGHT",
    "Backend",
    "backend",
    "binary_damped",
    "binary_layers",
    "binary_trace",
    "described",
    "factor_depths",
    "factor_layers",
    "factor_trace",
    "fits",
    "gaussian_damped",
    "gaussian_damped_trace",
    "gaussian_layers",
    "gaussian_trace",
    "grid_depths",
    "grid_layers",
    "grid_trace",
    "rounds",
    "usable",
    "use",
]
