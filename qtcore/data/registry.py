"""The datasets by name: everything in `SPECIFICATIONS` can be loaded, listed, fetched, verified and shown."""

import inspect
from typing import Any

from qtcore.data.binary_sets import SETS
from qtcore.data.border_sets import BORDER, BORDER_GLYPHS
from qtcore.data.dataset import Dataset
from qtcore.data.digits import DIGITS
from qtcore.data.drawings import DRAWINGS
from qtcore.data.frey import FREY
from qtcore.data.glyphs import GLYPHS
from qtcore.data.mnist import MNIST
from qtcore.data.specification import Specification
from qtcore.errors import InputError, UnknownNameError, nearest

_BINARY = tuple(known.specification for known in SETS.values())
_ALL = (*_BINARY, DIGITS, FREY, MNIST, BORDER, GLYPHS, BORDER_GLYPHS, DRAWINGS)
_TABLE_1 = sorted((entry for entry in _ALL if entry.in_table_1), key=lambda entry: entry.name)  # the paper's order

SPECIFICATIONS: dict[str, Specification] = {entry.name: entry for entry in (*_TABLE_1, *_ALL)}
"""All datasets, those of the paper's Table 1 first."""


def names() -> tuple[str, ...]:
    """The names that `load` accepts, the paper's datasets first."""
    return tuple(SPECIFICATIONS)


def specification_of(name: str) -> Specification:
    """The specification of the dataset `name`."""
    if name not in SPECIFICATIONS:
        raise UnknownNameError(f"no dataset is called {name!r}; {nearest(name, list(SPECIFICATIONS))}")
    return SPECIFICATIONS[name]


def load(name: str, **options: Any) -> Dataset:
    """The dataset `name`, downloaded first if it is not on this machine.

    Options: those of the dataset, such as `seed` (digits, frey, glyphs, border, border-glyphs, drawings), `p_missing` and
    `n_spurious` (border, border-glyphs).
    """
    loader = specification_of(name).load
    known = inspect.signature(loader).parameters
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}; it has {' and '.join(known) or 'none'}.")
    return loader(**options)


def variable_names(name: str) -> tuple[str, ...] | None:
    """One name per column of the dataset `name`; None if they are not known, or there is no such dataset."""
    return SPECIFICATIONS[name].variable_names if name in SPECIFICATIONS else None
