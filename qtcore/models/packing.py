"""The factors of a graph as a file holds them: a few tensors of whole numbers, however many factors there are.

`table` says which table each factor uses (as an index among the tables' names), and `scopes.NAME` lists the scopes of all
factors of a table in their order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qtcore.models.templates import Template
from qtcore.wiring import Whole

DTYPE = torch.int32
SCOPES = "scopes."


def whole(numbers: "Sequence[int] | Whole") -> Tensor:
    return torch.tensor(np.asarray(numbers, dtype=np.int32))


def read_whole(name: str, arrays: Mapping[str, Tensor], dims: int) -> Tensor:
    """An array of a file; raise a ValueError unless it is one of whole numbers with so many dimensions."""
    array = arrays[name]
    if array.dtype != DTYPE or array.dim() != dims:
        raise ValueError(f"its graph's {name} is of the type {array.dtype} and the shape {list(array.shape)}")
    return array


def _owners(templates: Mapping[str, Template], count: int) -> Whole:
    """The table of each factor, as an index among the names."""
    owner = np.zeros(count, dtype=np.int64)
    for index, template in enumerate(templates.values()):
        owner[template.numbers] = index
    return owner


def runs(templates: Mapping[str, Template], count: int) -> Iterator[tuple[str, Whole]]:
    """All factors in their order: the name of a table, with the scopes of the factors in succession that use it."""
    return _runs([(name, template.scopes) for name, template in templates.items()], _owners(templates, count))


def _runs(named: Sequence[tuple[str, Whole]], owner: Whole) -> Iterator[tuple[str, Whole]]:
    done, start = [0] * len(named), 0
    for end in (np.flatnonzero(np.diff(owner, append=-1)) + 1).tolist():
        index, size = int(owner[start]), end - start
        name, scopes = named[index]
        yield name, scopes[done[index] : done[index] + size]
        done[index] += size
        start = end


def pack(templates: Mapping[str, Template], count: int) -> dict[str, Tensor]:
    scopes = {SCOPES + name: whole(template.scopes) for name, template in templates.items()}
    return {"table": whole(_owners(templates, count))} | scopes


def unpack(names: Sequence[str], arrays: Mapping[str, Tensor]) -> list[tuple[str, Any]]:
    """Factors as a FactorGraph takes them; raise a ValueError if the arrays do not fit each other."""
    owner = read_whole("table", arrays, 1).numpy().astype(np.int64)
    named = [(name, read_whole(SCOPES + name, arrays, 2).numpy().astype(np.int64)) for name in names]
    known = owner[(owner >= 0) & (owner < len(names))]
    used = np.bincount(known, minlength=len(names))
    if len(known) < len(owner) or used.tolist() != [len(scopes) for _, scopes in named]:
        raise ValueError("its graph names other numbers of factors than it has scopes")
    return [(name, scopes if len(scopes) > 1 else tuple(scopes[0].tolist())) for name, scopes in _runs(named, owner)]
