"""The columns of Adult by a model of the table, beside the RBM of its bits, on the same questions; measured, not asserted.

    QTCORE_DATA=… python -m tests.adult_columns --minutes 1
"""

import argparse
import math

import torch
from torch import Tensor

import qtcore
from qtcore import data
from qtcore.data import variable_names
from qtcore.query import Query, one_target, uniform
from qtcore.tabular import Column, Table

ROWS = 5000
QUERIES = {"10 %": uniform(0.9), "50 %": uniform(0.5), "90 %": uniform(0.1), "all others": one_target()}


def columns() -> dict[str, list[int]]:
    """The bits of each column."""
    names = variable_names("adult")
    assert names is not None
    groups: dict[str, list[int]] = {}
    for bit, name in enumerate(names):
        groups.setdefault(name.split(" ")[0], []).append(bit)
    return groups


def states(bits: Tensor, groups: dict[str, list[int]]) -> Tensor:
    """The state of each column [n, columns], NaN where none of its bits is on."""
    parts = [bits[:, own] for own in groups.values()]
    return torch.stack([torch.where(part.sum(1) == 1, part.argmax(1).float(), torch.nan) for part in parts], 1)


def table(bits: Tensor, groups: dict[str, list[int]]) -> Table:
    names = variable_names("adult")
    assert names is not None
    schema, cells = {}, {}
    for (name, own), column in zip(groups.items(), states(bits, groups).T.tolist(), strict=True):
        levels = tuple(names[bit].split(" ")[1] for bit in own)
        schema[name] = Column(name, "categorical", levels)
        cells[name] = [None if math.isnan(state) else levels[int(state)] for state in column]
    return Table(cells, schema)


@torch.no_grad()
def losses(model: qtcore.TableModel, rbm: qtcore.RBM, bits: Tensor, observed: Tensor, groups: dict[str, list[int]]) -> Tensor:
    """Bits per column [models, n, columns]; an RBM's odds of a column's bits are scaled to add up to 1."""
    values = states(bits, groups)
    truth = values.nan_to_num(0).long()
    by_column = model(Query(values, observed)).logits.log_softmax(-1)  # type: ignore[attr-defined]
    ours = by_column.gather(2, truth[..., None])[..., 0]
    seen = torch.zeros(bits.shape, dtype=torch.bool)
    for column, own in enumerate(groups.values()):
        seen[:, own] = observed[:, column, None]
    logits = rbm(Query(bits, seen)).logits  # type: ignore[attr-defined]
    parts = [logits[:, own].log_softmax(-1).gather(1, truth[:, k, None]) for k, own in enumerate(groups.values())]
    return -torch.stack([ours, torch.cat(parts, 1)]) / math.log(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    minutes = parser.parse_args().minutes
    adult, groups = data.load("adult"), columns()
    rbm = qtcore.load("rbm/adult")
    assert isinstance(rbm, qtcore.RBM)
    model = qtcore.fit_table(table(torch.cat([adult.train, adult.valid]), groups), minutes)
    print(f"{model.provenance.settings['steps']} steps in {model.provenance.minutes} minutes")  # type: ignore[index]
    bits = adult.test[:ROWS]
    known = ~states(bits, groups).isnan()
    print("evidence    columns  bits")
    for name, queries in QUERIES.items():
        observed = queries.draw(known.shape, torch.Generator().manual_seed(11)) & known
        target = known & ~observed
        parts = [losses(model, rbm, bits[k : k + 500], observed[k : k + 500], groups) for k in range(0, len(bits), 500)]
        ours, theirs = ((part * target).sum() / target.sum() for part in torch.cat(parts, 1))
        print(f"{name:10}  {float(ours):.4f}   {float(theirs):.4f}", flush=True)


if __name__ == "__main__":
    main()
