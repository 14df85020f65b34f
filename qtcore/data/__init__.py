"""The paper's datasets, verified byte by byte, and stand-ins for machines without them.

>>> from qtcore.data import load, names
>>> digits = load("digits")
>>> tuple(digits.test.shape), digits.kind, digits.source
((1800, 64), 'soft', 'exact')
"""

from qtcore.data.border import CONTOUR, IN, OUT, Border, add_noise, border_labels, make_border
from qtcore.data.dataset import Dataset
from qtcore.data.faces import faces_offline
from qtcore.data.registry import SPECIFICATIONS, load, names, variable_names
from qtcore.data.specification import Specification

__all__ = [
    "CONTOUR",
    "IN",
    "OUT",
    "SPECIFICATIONS",
    "Border",
    "Dataset",
    "Specification",
    "add_noise",
    "border_labels",
    "faces_offline",
    "load",
    "make_border",
    "names",
    "variable_names",
]
