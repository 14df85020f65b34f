"""Any pairwise graph of categorical variables (main text, "Unrolling BP into a QT-NN")."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.models.factor_graph import FactorGraph
from qtcore.models.packing import read_whole, whole
from qtcore.models.templates import Template, check_variables
from qtcore.wiring import Whole, by_shape


class Stacks:
    """Tables of several shapes, those of one shape stacked: which stack holds each, and where."""

    def __init__(self, kind: str, sizes: Whole) -> None:
        """Of tables with these numbers of states along their axes [F, order]."""
        found = by_shape(sizes)
        self.members = {f"{kind}_{'x'.join(map(str, shape))}": members for shape, members in found}
        self.shapes = {name: [len(own), *shape] for (name, own), (shape, _) in zip(self.members.items(), found, strict=True)}
        self.stack, self.row = np.zeros((2, len(sizes)), dtype=np.int64)
        for number, own in enumerate(self.members.values()):
            self.stack[own], self.row[own] = number, np.arange(len(own))

    def templates(self, scopes: Whole, first_factor: int, first_table: int) -> dict[str, Template]:
        """Factors with these scopes, numbered in their order, each with its own table."""
        result = {}
        for name, members in self.members.items():
            result[name] = Template(scopes[members], first_factor + members, True, first_table)
            first_table += len(members)
        return result


class Views(Sequence[Tensor]):
    """Tables of a graph, each a view into the stack that holds it (and its gradient into that of the stack)."""

    def __init__(self, graph: FactorGraph, stacks: Stacks) -> None:
        self.graph, self.stacks, self.names = graph, stacks, list(stacks.members)

    def __len__(self) -> int:
        return len(self.stacks.row)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        stack = self.graph.tables[self.names[self.stacks.stack[index]]]
        row = int(self.stacks.row[index])
        view = stack[row]
        if stack.grad is not None:
            view.grad = stack.grad[row]
        return view


class PairwiseMRF(FactorGraph):
    """p(x) ∝ exp(Σ_i unary[i][x_i] + Σ_{e=(i,j)} pairwise[e][x_i, x_j]) on any graph, with any numbers of states.

    It is a `FactorGraph` with a table for every variable and every edge: `unary[i]` and `pairwise[e]` are views of them.

    Args:
        n_states: the number of states of each variable.
        edges: pairs (i, j) of variables; `pairwise[e]` is [S_i, S_j].
        hidden: variables that are never observed and never reported among the marginals. A query has one column for
            each of the others, in increasing order: whole numbers [B, V], or likelihoods [B, V, S].

    Example:
        >>> import torch, qtcore
        >>> chain = qtcore.PairwiseMRF(n_states=(2, 3, 2), edges=[(0, 1), (1, 2)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> chain(query).probs.shape
        torch.Size([1, 3, 3])
    """

    def __init__(
        self,
        n_states: Sequence[int],
        edges: Sequence[tuple[int, int]],
        hidden: Sequence[int] = (),
        n_layers: int = 10,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        damping: float = 0.0,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes, pairs, unseen = _whole(n_states, edges, hidden)
        check_variables(sizes, unseen)
        _check_edges(len(sizes), pairs)
        self._variable_stacks = Stacks("unary", np.array(sizes)[:, None])
        self._edge_stacks = Stacks("pairwise", np.array(sizes)[pairs])
        self._pairs = pairs
        choices: Any = (n_layers, temperature, learn_temperature, damping, device, dtype)
        super().__init__(sizes, self._variable_stacks.shapes | self._edge_stacks.shapes, (), unseen, (), *choices)
        with torch.no_grad():
            for name in self._variable_stacks.shapes:
                self.tables[name].zero_()

    def _templates(self, factors: Any) -> dict[str, Template]:
        count = len(self.n_states)
        unary = self._variable_stacks.templates(np.arange(count)[:, None], 0, 0)
        return unary | self._edge_stacks.templates(self._pairs, count, count)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        return tuple((i, j) for i, j in self._pairs.tolist())

    @property
    def unary(self) -> Sequence[Tensor]:
        """The log-potentials of each variable [S_i]."""
        return Views(self, self._variable_stacks)

    @property
    def pairwise(self) -> Sequence[Tensor]:
        """The log-potentials of each edge (i, j) [S_i, S_j]."""
        return Views(self, self._edge_stacks)

    def config(self) -> dict[str, Any]:
        graph = {"n_states": self.n_states, "edges": self.edges, "hidden": self.hidden}
        return graph | self._tempered_config()

    def packed(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        arrays = {"n_states": whole(self.n_states), "edges": whole(self._pairs), "hidden": whole(self.hidden)}
        return self._tempered_config(), arrays

    @classmethod
    def unpacked(cls, config: dict[str, Any], arrays: dict[str, Tensor]) -> dict[str, Any]:
        if not arrays:
            return config
        dims = {"n_states": 1, "edges": 2, "hidden": 1}
        graph = {name: read_whole(name, arrays, dims[name]).numpy() for name in dims}
        for name in config.keys() & graph.keys():
            raise ValueError(f"its configuration has the {name} twice")
        return config | graph

    def upgraded(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by their names of today, from a file with a tensor for every variable and every edge."""
        old: dict[str, Stacks] = {"unary": self._variable_stacks, "pairwise": self._edge_stacks}
        names = {f"{kind}.{k}" for kind, stacks in old.items() for k in range(len(stacks.row))}
        if "unary.0" not in tensors or not names <= tensors.keys():
            return tensors
        result = {name: tensor for name, tensor in tensors.items() if name not in names}
        for kind, stacks in old.items():
            for name, members in stacks.members.items():
                parts = [tensors[f"{kind}.{k}"] for k in members]
                if any(list(part.shape) != stacks.shapes[name][1:] for part in parts):
                    return tensors
                result[f"tables.{name}"] = torch.stack(parts)
        return result


def _whole(n_states: Any, edges: Any, hidden: Any) -> tuple[tuple[int, ...], Whole, tuple[int, ...]]:
    try:
        sizes = tuple(int(size) for size in n_states)
        pairs = edges if isinstance(edges, np.ndarray) else np.array([(int(i), int(j)) for i, j in edges], dtype=np.int64)
        if pairs.dtype.kind not in "iu":
            raise ValueError(f"not {pairs.dtype}")
        return sizes, pairs.reshape(-1, 2), tuple(sorted(int(i) for i in hidden))
    except (TypeError, ValueError) as error:
        raise InputError(f"a graph is n_states [n], edges (i, j) and hidden [k], all whole numbers ({error}).") from error


def _check_edges(count: int, pairs: Whole) -> None:
    outside = ((pairs < 0) | (pairs >= count)).any(1) | (pairs[:, 0] == pairs[:, 1])
    if outside.any():
        i, j = pairs[outside][0].tolist()
        raise InputError(f"edge ({i}, {j}) must join two distinct variables among 0 … {count - 1}.")
    _, first = np.unique(pairs.min(1) * count + pairs.max(1), return_index=True)
    if len(first) < len(pairs):
        i, j = pairs[np.setdiff1d(np.arange(len(pairs)), first)[0]].tolist()
        raise InputError(f"edge ({i}, {j}) is given twice; add the two potentials instead.")
