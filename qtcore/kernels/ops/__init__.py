"""The operators of torch.library, one file for each kind of model."""

from qtcore.kernels.ops.binary import LARGEST_WEIGHT, binary_layers
from qtcore.kernels.ops.both import binary_damped, binary_trace
from qtcore.kernels.ops.damped import gaussian_damped, gaussian_damped_trace
from qtcore.kernels.ops.factors import described, factor_depths, factor_layers, factor_trace, fits
from qtcore.kernels.ops.gaussian import gaussian_layers, gaussian_trace
from qtcore.kernels.ops.grid import grid_depths, grid_layers, grid_trace, rounds

__all__ = [
    "LARGEST_WEIGHT",
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
]
