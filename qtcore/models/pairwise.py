"""Any pairwise graph of categorical variables (main text, "Unrolling BP into a QT-NN")."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from qtcore.bp import categorical
from qtcore.errors import InputError
from qtcore.models.base import Layer, TemperedModel
from qtcore.query import Query

INITIAL_POTENTIAL = 0.1
"""Standard deviation of the log-potentials at the start: not 0, or hidden variables would never tell states apart."""


class PairwiseMRF(TemperedModel):
    """p(x) ∝ exp(Σ_i unary[i][x_i] + Σ_{e=(i,j)} pairwise[e][x_i, x_j]), any graph, any mix of numbers of states.

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

    takes_likelihoods = True
    valid: Tensor
    source: Tensor
    sink: Tensor
    visible: Tensor
    unseen: Tensor

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
            nn.Parameter(INITIAL_POTENTIAL * torch.randn(sizes[i], sizes[j], **factory)) for i, j in self.edges
        )
        # Directed edges: 2e goes from i to j, 2e + 1 back, so that the reverse of d is d ^ 1.
        both_ways = [pair for i, j in self.edges for pair in ((i, j), (j, i))]
        index: dict[str, Any] = {"dtype": torch.long, "device": device}
        self._constant("source", torch.tensor([i for i, _ in both_ways], **index))
        self._constant("sink", torch.tensor([j for _, j in both_ways], **index))
        self._constant("visible", torch.tensor([i for i in range(len(sizes)) if i not in self.hidden], **index))
        self._constant("unseen", torch.tensor(self.hidden, **index))
        size = torch.tensor(sizes, **index)
        self._constant("valid", torch.arange(max(sizes), device=device) < size[:, None])

    def _constant(self, name: str, tensor: Tensor) -> None:
        """A tensor that follows the module's device but is no parameter and is not saved."""
        self.register_buffer(name, tensor, persistent=False)

    def _check_graph(self) -> None:
        count = len(self.n_states)
        if count == 0 or min(self.n_states) < 1:
            raise InputError(f"n_states must give each variable at least one state, not {list(self.n_states)}.")
        seen = set()
        for i, j in self.edges:
            if not (0 <= i < count and 0 <= j < count) or i == j:
                raise InputError(f"edge ({i}, {j}) must join two different ones of the variables 0 … {count - 1}.")
            if (min(i, j), max(i, j)) in seen:
                raise InputError(f"edge ({i}, {j}) is given twice; add the two potentials instead.")
            seen.add((min(i, j), max(i, j)))
        if any(not 0 <= i < count for i in self.hidden) or len(set(self.hidden)) < len(self.hidden):
            raise InputError(f"hidden must name different ones of the variables 0 … {count - 1}, not {list(self.hidden)}.")
        if len(self.hidden) == count:
            raise InputError("at least one variable must be visible.")

    def config(self) -> dict[str, Any]:
        graph = {"n_states": self.n_states, "edges": self.edges, "hidden": self.hidden}
        return graph | self._tempered_config()

    def _sample_shape(self) -> tuple[int | None, ...]:
        return (len(self.visible),)

    @property
    def _sizes(self) -> Tensor:
        return self.valid.sum(1)

    def _check_values(self, name: str, values: Tensor, where: Tensor) -> None:
        if values.dim() == where.dim():
            whole = values == values.floor() if values.is_floating_point() else torch.ones_like(where)
            bad = where & ~(whole & (values >= 0) & (values < self._sizes[self.visible]))
            self._range_error(name, bad, values, "whole numbers below the variable's number of states")
            return
        if name == "truth":
            raise InputError("truth must be whole numbers [batch, variables]; give it when values are likelihoods.")
        if values.shape[-1] != self.valid.shape[1]:
            raise InputError(f"likelihoods must have {self.valid.shape[1]} states (padded), not {values.shape[-1]}.")
        possible = values.masked_fill(~self.valid[self.visible], 0)
        bad = where & ~((values >= 0).all(-1) & (possible.sum(-1) > 0))
        self._range_error(name, bad, values.sum(-1), "likelihoods ≥ 0 that are not all 0")

    def kept_bytes(self, shape: tuple[int, ...], n_layers: int) -> int:
        return n_layers * max(1, len(self.source)) * self.valid.shape[1] * self.dtype.itemsize * 8

    def _prepare(self, query: Query) -> tuple[Tensor, bool, Tensor, Tensor, Tensor]:
        """The unit T, sum or max, potentials [2E, S, S], biases [n, S], log-evidence [n, B, S]; all in that unit."""
        T, sums = self._temperature()
        count, states = self.valid.shape
        zeros = self.T.new_zeros
        potential = zeros(2 * len(self.edges), states, states)
        if self.edges:
            padded = [_pad(table, states, states) for table in self.pairwise]
            potential = torch.stack([table for forth in padded for table in (forth, forth.T)])
        bias = torch.stack([_pad(table[None], 1, states)[0] for table in self.unary])
        seen = query.observed.to(self.dtype)
        log = categorical.log_evidence(self._likelihood(query), seen, self._sizes[self.visible].to(self.dtype))
        given = zeros(count, len(query), states).index_copy(0, self.visible, log.transpose(0, 1))
        given = given.masked_fill(~self.valid[:, None], -torch.inf)
        return T, sums, potential / T, bias / T, categorical.scale(given, 1 / T)

    def _likelihood(self, query: Query) -> Tensor:
        """Likelihoods [B, V, S] that add up to 1 over the states; a constant where nothing is observed."""
        states = self.valid.shape[1]
        if query.values.dim() == 2:
            value = torch.where(query.observed > 0, query.values, 0).long()
            return (value[..., None] == torch.arange(states, device=value.device)).to(self.dtype)
        valid = self.valid[self.visible]
        likelihood = torch.where(query.observed[..., None] > 0, query.values, 1).masked_fill(~valid, 0)
        likelihood = (likelihood / likelihood.amax(-1, keepdim=True)).to(self.dtype)  # first, or it may not fit the dtype
        return likelihood / likelihood.sum(-1, keepdim=True)

    def _layer(self, message: Tensor, potential: Tensor, bias: Tensor, given: Tensor, sums: bool) -> Tensor:
        """One parallel update of all directed messages [2E, B, S]."""
        if not self.edges:
            return message
        total = self._beliefs(message, bias, given)
        cavity = total[self.source] - message[self._reverse]
        new = categorical.normalise(categorical.messages(cavity, potential, sums), self.valid[self.sink][:, None])
        return categorical.damp(new, message, self.damping)

    @property
    def _reverse(self) -> Tensor:
        return torch.arange(len(self.source), device=self.source.device) ^ 1

    def _beliefs(self, message: Tensor, bias: Tensor, given: Tensor) -> Tensor:
        """θ_i + u_i + Σ_k m_ki for every variable [n, B, S]; −∞ for states that are padding or ruled out."""
        return (bias[:, None] + given).index_add(0, self.sink, message)

    def _marginals(self, T: Tensor, message: Tensor, bias: Tensor, given: Tensor) -> tuple[Categorical, Categorical]:
        """Visible and hidden marginals; a state that is ruled out shows its −1000, padding is −∞."""
        shown = categorical.scale(given, T).clamp_min(categorical.HARD_LOG).masked_fill(~self.valid[:, None], -torch.inf)
        logits = (T * self._beliefs(message, bias, torch.zeros_like(given)) + shown).transpose(0, 1)
        visible, hidden = logits[:, self.visible], logits[:, self.unseen]
        return Categorical(logits=visible, validate_args=False), Categorical(logits=hidden, validate_args=False)

    def forward(self, query: Query, n_layers: int | None = None) -> Categorical:
        """Marginals of the visible variables, Categorical [B, V] padded with −∞."""
        self._check(query)
        T, sums, potential, bias, given = self._prepare(query)
        message = self._initial(query)
        for _ in range(self._layer_count(n_layers)):
            message = self._layer(message, potential, bias, given, sums)
        return self._marginals(T, message, bias, given)[0]

    def _initial(self, query: Query) -> Tensor:
        return self.T.new_zeros(len(self.source), len(query), self.valid.shape[1])

    def layers(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        self._check(query)
        T, sums, potential, bias, given = self._prepare(query)
        message = self._initial(query)
        residual = self.T.new_zeros(len(query))
        for index in range(self._layer_count(n) + 1):
            if index and self.edges:
                old, message = message, self._layer(message, potential, bias, given, sums)
                residual = T * categorical.change(message, old, self.valid[self.sink][:, None]).amax(0)
            shown = {"directed": T * message, "source": self.source, "sink": self.sink}
            yield Layer(index, *self._marginals(T, message, bias, given), residual, shown)


def _pad(table: Tensor, rows: int, columns: int) -> Tensor:
    return nn.functional.pad(table, (0, columns - table.shape[1], 0, rows - table.shape[0]))
