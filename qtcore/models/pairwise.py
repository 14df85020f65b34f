"""Any pairwise graph of categorical variables (main text, "Unrolling BP into a QT-NN")."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.models.factor_graph import FactorGraph, check_variables
from qtcore.wiring import Whole


class Views(Sequence[Tensor]):
    """Some tables of a graph, each a view into the stack that holds it (and its gradient into that of the stack)."""

    def __init__(self, graph: FactorGraph, rows: "list[tuple[str, int]]") -> None:
        self.graph, self.rows = graph, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        name, row = self.rows[index]
        stack = self.graph.tables[name]
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
        self._unary_rows, unary = _stacks("unary", np.array(sizes)[:, None])
        self._pairwise_rows, pairwise = _stacks("pairwise", np.array(sizes)[pairs])
        variables = [(name, (i,)) for i, (name, _) in enumerate(self._unary_rows)]
        factors = variables + [(name, scope) for (name, _), scope in zip(self._pairwise_rows, pairs.tolist(), strict=True)]
        choices: Any = (n_layers, temperature, learn_temperature, damping, device, dtype)
        super().__init__(sizes, unary | pairwise, factors, unseen, (), *choices)
        with torch.no_grad():
            for name in unary:
                self.tables[name].zero_()
        self.edges = tuple((i, j) for i, j in pairs.tolist())

    @property
    def unary(self) -> Sequence[Tensor]:
        """The log-potentials of each variable [S_i]."""
        return Views(self, self._unary_rows)

    @property
    def pairwise(self) -> Sequence[Tensor]:
        """The log-potentials of each edge (i, j) [S_i, S_j]."""
        return Views(self, self._pairwise_rows)

    def config(self) -> dict[str, Any]:
        graph = {"n_states": self.n_states, "edges": self.edges, "hidden": self.hidden}
        return graph | self._tempered_config()

    def upgraded(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by their names of today, from a file with a tensor for every variable and every edge."""
        rows = {f"unary.{i}": row for i, row in enumerate(self._unary_rows)}
        rows |= {f"pairwise.{e}": row for e, row in enumerate(self._pairwise_rows)}
        if "unary.0" not in tensors or not rows.keys() <= tensors.keys():
            return tensors
        result = {name: tensor for name, tensor in tensors.items() if name not in rows}
        stacks: dict[str, list[Tensor]] = {}
        for old, (name, _) in rows.items():  # the rows of a stack are in rising order
            shape = tuple(self.tables[name].shape[1:])
            if tuple(tensors[old].shape) != shape:
                return tensors
            stacks.setdefault(f"tables.{name}", []).append(tensors[old])
        return result | {name: torch.stack(parts) for name, parts in stacks.items()}


def _whole(n_states: Any, edges: Any, hidden: Any) -> tuple[tuple[int, ...], Whole, tuple[int, ...]]:
    try:
        sizes = tuple(int(size) for size in n_states)
        pairs = np.asarray(edges if isinstance(edges, np.ndarray) else [(int(i), int(j)) for i, j in edges], dtype=np.int64)
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


def _stacks(kind: str, sizes: Whole) -> "tuple[list[tuple[str, int]], dict[str, list[int]]]":
    """For tables of these shapes [F, order], the stack of each and its row there; and the shapes of the stacks, by name."""
    counts: dict[tuple[int, ...], int] = {}
    rows = []
    for shape in map(tuple, sizes.tolist()):
        row = counts.get(shape, 0)
        rows.append((f"{kind}_{'x'.join(map(str, shape))}", row))
        counts[shape] = row + 1
    return rows, {f"{kind}_{'x'.join(map(str, shape))}": [count, *shape] for shape, count in counts.items()}
