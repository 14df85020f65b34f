"""Any pairwise graph of categorical variables (main text, "Unrolling BP into a QT-NN")."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qtcore import evidence
from qtcore.errors import InputError
from qtcore.models.base import TemperedModel
from qtcore.potentials import FactorPotentials, Wiring
from qtcore.query import Query
from qtcore.support.tensors import normal
from qtcore.variables import Categorical

INITIAL_POTENTIAL = 0.1
"""Standard deviation of the initial log-potentials: not 0, or the states of hidden variables would stay identical."""

MAX_PADDED = 2**26
"""Variables times states of the largest one, the size of an answer: its indices take eight bytes each."""


class PairwiseMRF(TemperedModel):
    """p(x) ∝ exp(Σ_i unary[i][x_i] + Σ_{e=(i,j)} pairwise[e][x_i, x_j]) on any graph, with any numbers of states.

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

    variables: Categorical

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
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(n_layers, damping, temperature, learn_temperature, **factory)
        try:
            self.n_states = tuple(int(size) for size in n_states)
            self.edges = tuple((int(i), int(j)) for i, j in edges)
            self.hidden = tuple(sorted(int(i) for i in hidden))
        except (TypeError, ValueError) as error:
            raise InputError(f"a graph is n_states [n], edges (i, j) and hidden [k], all whole numbers ({error}).") from error
        self._check_graph()
        sizes = self.n_states
        self.unary = nn.ParameterList(nn.Parameter(torch.zeros(size, **factory)) for size in sizes)
        self.pairwise = nn.ParameterList(
            nn.Parameter(normal(sizes[i], sizes[j], scale=INITIAL_POTENTIAL, **factory)) for i, j in self.edges
        )
        self.wiring = Wiring.of(sizes, self.edges, hidden=self.hidden)
        visible = tuple(sizes[i] for i in self.wiring.visible)
        self.variables = Categorical((len(visible),), visible, max(sizes))

    def _check_graph(self) -> None:
        count = len(self.n_states)
        if count == 0 or min(self.n_states) < 1:
            raise InputError(f"n_states must give each variable at least one state, not {list(self.n_states)}.")
        if count * max(self.n_states) > MAX_PADDED:
            raise InputError(
                f"{count} variables with up to {max(self.n_states)} states are too many: answers have as many states for each, "
                f"and may have {MAX_PADDED} in all."
            )
        pairs = set()
        for i, j in self.edges:
            if not (0 <= i < count and 0 <= j < count) or i == j:
                raise InputError(f"edge ({i}, {j}) must join two distinct variables among 0 … {count - 1}.")
            if (min(i, j), max(i, j)) in pairs:
                raise InputError(f"edge ({i}, {j}) is given twice; add the two potentials instead.")
            pairs.add((min(i, j), max(i, j)))
        if any(not 0 <= i < count for i in self.hidden) or len(set(self.hidden)) < len(self.hidden):
            raise InputError(f"hidden must name distinct variables among 0 … {count - 1}, not {list(self.hidden)}.")
        if len(self.hidden) == count:
            raise InputError("at least one variable must be visible.")

    def config(self) -> dict[str, Any]:
        graph = {"n_states": self.n_states, "edges": self.edges, "hidden": self.hidden}
        return graph | self._tempered_config()

    def graph(self) -> FactorPotentials:
        tables = tuple(
            torch.stack([self.pairwise[e] for e in group.number.tolist()]) for group in self.wiring.groups
        )
        return FactorPotentials(self.wiring, torch.cat(list(self.unary)), tables)

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> Tensor:
        """Log-likelihoods of all states [total, B]; 0 for hidden variables."""
        dtype = dtype or self.dtype
        where = self.wiring.on(query.device)
        sizes = torch.tensor(self.variables.n_states, dtype=dtype, device=query.device)
        log = evidence.categorical(self._likelihood(query, dtype), query.observed.to(dtype), sizes)
        return where.flat(log.new_zeros(len(query), *where.padding.shape).index_copy(1, where.visible, log))

    def _likelihood(self, query: Query, dtype: torch.dtype) -> Tensor:
        """Likelihoods [B, V, S] that sum to 1 over the states; a constant where unobserved."""
        where = self.wiring.on(query.device)
        padding = where.padding[where.visible]
        if query.values.dim() == 2:
            value = torch.where(query.observed > 0, query.values, 0).long()
            return (value[..., None] == torch.arange(padding.shape[1], device=value.device)).to(dtype)
        likelihood = torch.where(query.observed[..., None] > 0, query.values, 1).masked_fill(padding, 0)
        likelihood = (likelihood / likelihood.amax(-1, keepdim=True)).to(dtype)  # first, or it may overflow the dtype
        return likelihood / likelihood.sum(-1, keepdim=True)
