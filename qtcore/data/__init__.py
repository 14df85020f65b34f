"""The datasets of the paper, checked to the byte, and stand-ins for machines that cannot get them.

>>> from qtcore.data import load, names
>>> digits = load("digits")
>>> tuple(digits.test.shape), digits.kind, digits.source
((1800, 64), 'soft', 'exact')
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from qtcore.data import registry
from qtcore.data.binary import SETS, load_binary
from qtcore.data.border import CONTOUR, IN, OUT, Border, add_noise, border_labels, load_border, load_border_glyphs, make_border
from qtcore.data.dataset import Dataset
from qtcore.data.digits import load_digits
from qtcore.data.faces import faces_offline
from qtcore.data.frey import load_frey
from qtcore.data.glyphs import load_glyphs
from qtcore.data.mnist import load_mnist
from qtcore.errors import InputError, UnknownNameError, nearest

__all__ = [
    "CONTOUR",
    "IN",
    "OUT",
    "Border",
    "Dataset",
    "add_noise",
    "border_labels",
    "faces_offline",
    "load",
    "make_border",
    "names",
]

_LOADERS: dict[str, Callable[..., Dataset]] = {name: functools.partial(load_binary, name) for name in SETS}
_LOADERS |= {
    "digits": load_digits,
    "frey": load_frey,
    "mnist": load_mnist,
    "border": load_border,
    "glyphs": load_glyphs,
    "border-glyphs": load_border_glyphs,
}


def names() -> tuple[str, ...]:
    """The names that `load` knows, the paper's first."""
    return tuple(registry.FILES)


def load(name: str, **options: Any) -> Dataset:
    """The dataset `name`, fetched first when it is not on this machine.

    Options: `seed` (digits, frey, glyphs, border, border-glyphs), `p_missing` and `n_spurious` (border,
    border-glyphs).
    """
    if name not in _LOADERS:
        raise UnknownNameError(f"no dataset is called {name!r}; {nearest(name, list(_LOADERS))}")
    loader = _LOADERS[name]
    known = inspect.signature(loader).parameters
    for option in options:
        if option not in known:
            raise InputError(f"{name} has no option {option!r}; it has {' and '.join(known) or 'none'}.")
    return loader(**options)
