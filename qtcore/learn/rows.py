"""The rows of a training, checked once before it starts, so that what is wrong is named by its row."""

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.models.base import Model
from qtcore.query import Mask, Query, real_tensor
from qtcore.support.tensors import has_values

Data = Tensor | tuple[Tensor, Tensor]
"""Values, or values and truth (the labels of a GridMRF)."""

Rows = tuple[Tensor, Tensor | None]

AT_ONCE = 10_000
"""Rows that are checked together."""

NAMED = 5
"""Wrong rows that are named; the others are counted."""


def pair(name: str, data: Data) -> Rows:
    """Values and truth, if there is one; raise an InputError if they are no tensors of as many rows."""
    if isinstance(data, tuple) and len(data) != 2:
        raise InputError(f"{name} must be values, or values and truth, not {len(data)} things.")
    given = data if isinstance(data, tuple) else (data, None)
    values = real_tensor(name, given[0]).detach()
    truth = None if given[1] is None else real_tensor(f"the truth of {name}", given[1]).detach()
    for tensor in (values, *([] if truth is None else [truth])):
        if tensor.dim() < 2 or not has_values(tensor):
            raise InputError(f"{name} must be rows of numbers [n, …], not {list(tensor.shape)} on {tensor.device}.")
    if len(values) == 0:
        raise InputError(f"there are no rows in {name}.")
    if truth is not None and len(truth) != len(values):
        raise InputError(f"{len(values)} rows of values need as many of truth, not {len(truth)}.")
    return values, truth


def first_rows(rows: Rows, count: int) -> Rows:
    values, truth = rows
    return values[:count], None if truth is None else truth[:count]


def check_rows(name: str, model: Model, rows: Rows, queries: Mask) -> None:
    """Raise an InputError for rows of the wrong shape, wrong numbers or missing labels."""
    values, truth = first_rows(rows, 1)
    if type(queries).__call__ is Mask.__call__:  # others may leave out what is missing
        nothing = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        unseen = Query(values, nothing, truth=truth).to(model.device)
        model.check(unseen)  # shapes and types
        model.variables.check_truth(unseen, unseen.observed)  # labels
        _check_numbers(name, model, rows, queries)
    query = queries(values, torch.Generator().manual_seed(0), truth)
    if not isinstance(query, Query):
        raise InputError(f"queries must make a qtcore.Query of rows, not {type(query).__name__}; see qtcore.query.uniform.")
    query = query.to(model.device)
    model.check(query)
    model.variables.check_truth(query, model.target(query))


def _check_numbers(name: str, model: Model, rows: Rows, queries: Mask) -> None:
    variables, draw = model.variables, torch.Generator().manual_seed(0)
    bad_values: list[int] = []
    bad_truth: list[int] = []
    for start in range(0, len(rows[0]), AT_ONCE):
        values, truth = (None if part is None else part[start : start + AT_ONCE] for part in rows)
        assert values is not None
        bad = ~variables.valid(values)
        if truth is None:
            bad_truth += _some(~variables.valid_truth(values), start)
        else:  # values are not read where they are not observed
            observed = queries.draw(values.shape, draw).to(values.device)
            target = model.target(Query(torch.zeros_like(values), observed))
            bad &= observed
            bad_truth += _some(target & ~variables.valid_truth(truth), start)
        bad_values += _some(bad, start)
    for what, expected, found in (
        ("values", variables.expected(), bad_values),
        ("truth", variables.expected_truth(), bad_truth),
    ):
        if found:
            which = ", ".join(map(str, found[:NAMED])) + (" …" if len(found) > NAMED else "")
            count = f"{len(found)} of the {len(rows[0])} rows of {name}"
            raise InputError(f"{what} must be {expected}, but they are not in {count}: {which} (counted from 0).")


def _some(bad: Tensor, start: int) -> list[int]:
    """The numbers of the rows in which something is bad."""
    return (start + bad.flatten(1).any(1).nonzero()[:, 0]).tolist()
