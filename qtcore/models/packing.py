"""The factors of a graph as a file holds them: a few tensors of whole numbers, however many factors there are.

`scopes.NAME.ORDER` lists the scopes of all factors that share a name and have so many variables, in their order. `table` says
which of these lists each factor is from: names as in the configuration (tables before rules), of one name the shortest
scopes first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def runs(named: "Sequence[tuple[str, Template]]", count: int) -> Iterator[tuple[str, Whole]]:
    """All factors in their order: the name of a table, with the scopes of the factors in succession that use it."""
    return _runs([(name, template.scopes) for name, template in named], _owners(named, count))


def _owners(named: "Sequence[tuple[str, Template]]", count: int) -> Whole:
    """The list that each factor is from."""
    owner = np.zeros(count, dtype=np.int64)
    for index, (_, template) in enumerate(named):
        owner[template.numbers] = index
    return owner


def _runs(named: Sequence[tuple[str, Whole]], owner: Whole) -> Iterator[tuple[str, Whole]]:
    done, start = [0] * len(named), 0
    for end in (np.flatnonzero(np.diff(owner, append=-1)) + 1).tolist():
        index, size = int(owner[start]), end - start
        name, scopes = named[index]
        yield name, scopes[done[index] : done[index] + size]
        done[index] += size
        start = end


def pack(named: "Sequence[tuple[str, Template]]", count: int) -> dict[str, Tensor]:
    scopes = {f"{SCOPES}{name}.{template.scopes.shape[1]}": whole(template.scopes) for name, template in named}
    return {"table": whole(_owners(named, count))} | scopes


def unpack(names: Iterable[str], arrays: Mapping[str, Tensor]) -> list[tuple[str, Any]]:
    """Factors as a FactorGraph takes them; raise a ValueError if the arrays do not fit each other."""
    place = {name: k for k, name in enumerate(names)}
    listed = []
    for key in arrays:
        if key.startswith(SCOPES):
            name, _, order = key.removeprefix(SCOPES).rpartition(".")
            scopes = read_whole(key, arrays, 2).numpy().astype(np.int64)
            if name not in place or order != str(scopes.shape[1]):
                raise ValueError(f"its graph has {key} of the shape {list(scopes.shape)}, which no table is for")
            listed.append((place[name], scopes.shape[1], name, scopes))
    named = [(name, scopes) for _, _, name, scopes in sorted(listed, key=lambda each: each[:2])]
    owner = read_whole("table", arrays, 1).numpy().astype(np.int64)
    known = owner[(owner >= 0) & (owner < len(named))]
    used = np.bincount(known, minlength=len(named))
    if len(known) < len(owner) or used.tolist() != [len(scopes) for _, scopes in named]:
        raise ValueError("its graph names other numbers of factors than it has scopes")
    return [(name, scopes if len(scopes) > 1 else tuple(scopes[0].tolist())) for name, scopes in _runs(named, owner)]
