"""The inference network of a lab: a factor graph of bits whose tables are made of the few numbers that the user sets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from qtcore import BP, FactorGraph, Query
from qtcore.potentials import FactorPotentials
from qtcore_app.lab.drawings import PARTS, Drawing, odd
from qtcore_app.lab.graphs import Lab


class LabGraph(FactorGraph):
    """A drawing with these numbers and biases; training keeps that form."""

    def __init__(self, drawing: Drawing, couplings: Sequence[float], biases: Sequence[float], **options: Any) -> None:
        shapes = {"pairs": (drawing.edges, [2, 2]), "triples": (drawing.triples, [2, 2, 2])}
        tables = {name: [len(scopes), *shape] for name, (scopes, shape) in shapes.items() if scopes}
        factors = [(name, np.array(shapes[name][0])) for name in tables]
        hidden = tuple(range(drawing.n_visible, drawing.n))
        super().__init__((2,) * drawing.n, tables, factors, hidden, dtype=torch.float64, **options)
        del self.tables
        self.n_pairs = len(drawing.edges)
        self.coupling = nn.Parameter(torch.tensor(couplings, dtype=torch.float64))
        self.bias = nn.Parameter(torch.tensor(biases, dtype=torch.float64))

    def graph(self) -> FactorPotentials:
        pairs, triples = self.coupling[: self.n_pairs], self.coupling[self.n_pairs :].view(-1, len(PARTS))
        tables = (-torch.tensordot(pairs[:, None], PAIR, 1), -torch.tensordot(triples, TRIPLE, 1))
        unary = torch.stack([torch.zeros_like(self.bias), self.bias], 1).flatten()
        return FactorPotentials(self.wiring, unary, tuple(table for table in tables if len(table)))


PAIR: Tensor = torch.from_numpy(odd(2, (0, 1))[None])
"""What each number is subtracted where [numbers, *shape]."""
TRIPLE: Tensor = torch.from_numpy(np.stack([odd(3, part) for part in PARTS]))


def model(lab: Lab, trained: bool = False) -> LabGraph:
    """The inference network that the user has set."""
    options: dict[str, Any] = {"n_layers": lab.layers, "temperature": lab.temperature, "damping": lab.damping}
    made = LabGraph(lab.graph, *lab.parameters(trained), **options)
    made.engine = BP(n_layers=lab.layers, damping=lab.damping, schedule=lab.schedule)
    return made


def query(lab: Lab) -> Query:
    values = torch.tensor([lab.evidence[: lab.graph.n_visible]])
    return Query(values.clamp_min(0), values >= 0)
