"""Belief propagation between clusters of variables, for graphs that are too wide to be eliminated.

Elimination adds up all tables with a variable, which makes one table on all its neighbours. Where that would be too large, the
tables are divided among several clusters, each with a table of a bounded size, joined in a chain by the variable alone (the
mini-buckets of Dechter, Kask and Mateescu's iterative join-graph propagation). Each cluster hands the rest of its variables on
to the cluster of the next variable among them. What results is a graph of clusters, with an edge wherever something was handed
on, and a separator of variables on every edge; messages are tables on separators,

    m_cd(sep) = log Σ_{c without sep} exp(table_c + Σ_{e ≠ d} m_ec).

A layer goes through all clusters, there and back. With clusters as large as elimination makes them, the graph is a tree, and
one layer is exact; with clusters of one factor each it is much like belief propagation. In between, short loops lie inside
clusters.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from qtcore.errors import InputError
from qtcore.inference.elimination import Narrowed, along, consistent
from qtcore.inference.engine import Answerable
from qtcore.inference.layered import Layered
from qtcore.inference.orders import Scope, min_fill
from qtcore.potentials import FactorPotentials, GaussianPotentials
from qtcore.query import Query
from qtcore.support.tensors import log_sum

TABLES = (2**16, 2**14, 2**12, 2**10, 2**8, 2**6)
"""Entries of the largest cluster (unless a factor alone has more): the first of these is taken with which …"""
ENTRIES = 2**22
"""… all clusters together have no more than so many: a layer then takes about a second."""
MAX_FACTOR = 2**22
"""Entries of a logic factor that is written out."""
AVERAGED = 8
"""The layer from which on marginals are averaged, where messages do not come to rest."""


class Edge(NamedTuple):
    """From the cluster that hands something on to the one that takes it."""

    source: int
    sink: int
    separator: Scope


class Sent(NamedTuple):
    """A message's edge, and whether it goes from its source to its sink, or back."""

    edge: int
    forth: bool


Messages = dict[Sent, Tensor]


@dataclass(eq=False)
class Cluster:
    """Variables, the first of them the one in whose place in the order it stands; the log-potentials on them; and the edges to
    other clusters, with the way from here to there."""

    scope: Scope
    sizes: list[int]
    tables: list[tuple[Scope, Tensor]] = field(default_factory=list)
    ways: list[Sent] = field(default_factory=list)

    @cached_property
    def axes(self) -> dict[int, int]:
        return {variable: axis for axis, variable in enumerate(self.scope)}

    @property
    def shape(self) -> list[int]:
        return [self.sizes[i] for i in self.scope]

    @cached_property
    def table(self) -> Tensor:
        total = torch.zeros(self.shape, dtype=torch.float64)
        for scope, table in self.tables:
            total += self.on(scope, table)
        return total

    def on(self, scope: Scope, table: Tensor) -> Tensor:
        """A table as one on the axes of the cluster."""
        return along(self.axes, self.sizes, scope, table[..., None])[..., 0]


class Clusters:
    """The graph of clusters for one query."""

    def __init__(self, narrowed: Narrowed, largest: int | None) -> None:
        self.sizes, self.states = narrowed.sizes, narrowed.states
        for rule, scope in narrowed.rules:
            if math.prod(self.sizes[i] for i in scope) > MAX_FACTOR:
                raise InputError(
                    f"a factor {rule!r} of {len(scope)} variables is too large to be written out; take the engine bp."
                )
        narrowed.write_rules()
        tables = [*narrowed.tables, *(((i,), narrowed.own(i)) for i, size in enumerate(self.sizes) if size > 1)]
        flat = [(scope, table[..., 0]) for scope, table in tables if scope]
        order = min_fill(self.sizes, [scope for scope, _ in flat], refuse=False).variables
        for size in TABLES if largest is None else (largest,):
            self._fill(flat, order, size)
            if self.entries <= ENTRIES:
                break

    def _fill(self, tables: list[tuple[Scope, Tensor]], order: Sequence[int], largest: int) -> None:
        self.edges: list[Edge] = []
        self.clusters: list[Cluster] = []
        self.home: dict[int, int] = {}
        """The cluster that a variable's marginal is read from."""
        rank = {variable: k for k, variable in enumerate(order)}
        waiting: dict[int, list[tuple[Scope, Tensor | int]]] = {}

        def hand_on(scope: Scope, what: "Tensor | int") -> None:
            waiting.setdefault(min(scope, key=rank.__getitem__), []).append((scope, what))

        for scope, table in tables:
            hand_on(scope, table)
        for variable in order:
            before = None
            for together in _divided(waiting.pop(variable, []), self.sizes, largest):
                others = sorted({i for scope, _ in together for i in scope} - {variable}, key=rank.__getitem__)
                number = self._add((variable, *others), together)
                if before is not None:
                    self._join(before, number, (variable,))
                before = number
                self.home.setdefault(variable, number)
                if others:
                    hand_on(tuple(others), number)

    def _add(self, scope: Scope, together: "list[tuple[Scope, Tensor | int]]") -> int:
        number = len(self.clusters)
        self.clusters.append(Cluster(scope, self.sizes))
        for own, what in together:
            if isinstance(what, Tensor):
                self.clusters[number].tables.append((own, what))
            else:
                self._join(what, number, own)
        return number

    def _join(self, source: int, sink: int, separator: Scope) -> None:
        self.clusters[source].ways.append(Sent(len(self.edges), True))
        self.clusters[sink].ways.append(Sent(len(self.edges), False))
        self.edges.append(Edge(source, sink, separator))

    @property
    def entries(self) -> int:
        """Of the tables of all clusters."""
        return sum(math.prod(cluster.shape) for cluster in self.clusters)

    def belief(self, cluster: Cluster, messages: Messages) -> Tensor:
        """The cluster's table with all that has arrived."""
        total = cluster.table
        for edge, forth in cluster.ways:
            message = messages.get(Sent(edge, not forth))
            if message is not None:
                total = total + cluster.on(self.edges[edge].separator, message)
        return total

    def layer(self, messages: Messages, damping: float) -> tuple[Messages, float]:
        """All messages sent once, there and back, and the largest change of one (of its exponential, the largest entry 1)."""
        messages, change = dict(messages), 0.0
        for clusters, forth in ((self.clusters, True), (self.clusters[::-1], False)):
            for cluster in clusters:
                ways = [way for way in cluster.ways if way.forth == forth]
                if not ways:
                    continue
                belief = self.belief(cluster, messages)
                for way in ways:
                    new, old = self._message(cluster, belief, way, messages), messages.get(way)
                    change = max(change, 1.0 if old is None else float((new.exp() - old.exp()).abs().max()))
                    messages[way] = new if old is None or not damping else _damped(new, old, damping)
        return messages, change

    def _message(self, cluster: Cluster, belief: Tensor, way: Sent, messages: Messages) -> Tensor:
        """To one neighbour, from all that the others sent. A state that the neighbour itself rules out stays so."""
        separator = self.edges[way.edge].separator
        back = messages.get(Sent(way.edge, not way.forth))
        if back is not None:
            own = cluster.on(separator, back)
            ruled_out = own.isneginf()
            belief = (belief - own.masked_fill(ruled_out, 0)).masked_fill(ruled_out, -math.inf)
        left = [axis for axis, variable in enumerate(cluster.scope) if variable not in separator]
        message = log_sum(belief, left) if left else belief
        kept = [variable for variable in cluster.scope if variable in separator]
        message = message.permute([kept.index(variable) for variable in separator])
        top = message.max()
        if bool(top.isneginf()):
            raise InputError("the evidence has probability 0 under this model, so that no marginals exist.")
        return message - top

    def marginals(self, messages: Messages) -> list[Tensor]:
        """The probabilities of the states that are left, of each variable."""
        result = [torch.ones(1, dtype=torch.float64)] * len(self.sizes)
        for variable, number in self.home.items():
            belief = self.belief(self.clusters[number], messages)
            result[variable] = log_sum(belief.reshape(len(belief), -1), 1).softmax(0)
        return result


def _divided(
    items: "list[tuple[Scope, Tensor | int]]", sizes: list[int], largest: int
) -> "list[list[tuple[Scope, Tensor | int]]]":
    """What waits for a variable, in clusters of a bounded size: each item, the largest first, goes where it adds the least."""
    room = math.log2(largest) + 1e-9

    def size(variables: "set[int]") -> float:
        return sum(math.log2(sizes[i]) for i in variables)

    clusters: list[tuple[set[int], list[tuple[Scope, Tensor | int]]]] = []
    for scope, what in sorted(items, key=lambda item: -size(set(item[0]))):
        best: tuple[float, int] | None = None
        for number, (variables, _) in enumerate(clusters):
            together = size(variables | set(scope))
            if variables.issuperset(scope) or together <= room:
                best = min(best or (math.inf, 0), (together - size(variables), number))
        if best is None:
            clusters.append((set(scope), [(scope, what)]))
        else:
            clusters[best[1]][0].update(scope)
            clusters[best[1]][1].append((scope, what))
    return [together for _, together in clusters]


def _damped(new: Tensor, old: Tensor, damping: float) -> Tensor:
    ruled_out = new.isneginf() | old.isneginf()
    mixed = torch.lerp(new.masked_fill(ruled_out, 0), old.masked_fill(ruled_out, 0), damping)
    return torch.where(ruled_out, new, mixed)


@dataclass(frozen=True, eq=False)
class Row:
    """One query of a batch: its clusters, their messages, and the marginals of the last layers added up."""

    clusters: Clusters
    messages: Messages
    change: float = math.inf
    layers: int = 0
    total: tuple[Tensor, ...] = ()

    def step(self, damping: float) -> "Row":
        messages, change = self.clusters.layer(self.messages, damping)
        layers, total = self.layers + 1, self.total
        if layers >= AVERAGED:
            now = self.clusters.marginals(messages)
            again = layers & (layers - 1) == 0  # at every power of 2: what is old is forgotten
            total = tuple(now) if again else tuple(a + b for a, b in zip(total, now, strict=True))
        return Row(self.clusters, messages, change, layers, total)

    def marginals(self, at_rest: float) -> list[Tensor]:
        """Those of the last layer; where messages still move, the average over the later half of the layers."""
        if self.change <= at_rest or not self.total:
            return self.clusters.marginals(self.messages)
        return [total / total.sum() for total in self.total]


class State(NamedTuple):
    """What the next layer needs."""

    potentials: FactorPotentials
    rows: tuple[Row, ...]
    damping: float

    def logits(self) -> Tensor:
        """Of all variables [B, n, S], −∞ for what is ruled out."""
        wiring = self.potentials.wiring
        logits = torch.full((len(self.rows), len(wiring.n_states), max(wiring.n_states)), -math.inf, dtype=torch.float64)
        for b, row in enumerate(self.rows):
            for i, (states, marginal) in enumerate(zip(row.clusters.states, row.marginals(AT_REST), strict=True)):
                logits[b, i, torch.from_numpy(states)] = marginal.log()
        return logits


AT_REST = 1e-4
"""Messages that change by more than this still move: then the marginals of several layers are averaged."""


@dataclass(frozen=True)
class JoinGraph(Layered):
    """Belief propagation between clusters of variables, in float64, for models of discrete variables.

    Args:
        table: entries of the largest cluster (2 to the number of binary variables in it); by default as many, up to 65,536, as
            a total of four million allows.
        n_layers: how often all messages are sent, there and back.
        damping: weight of the old message in the new one.
        until: stop when no message changes by more than this.
        at_most: the largest number of layers, if `until` is given.

    Example:
        >>> import torch, qtcore
        >>> loop = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2), (2, 0)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> answer = loop(query, engine=qtcore.JoinGraph(table=8))  # all three variables fit into one cluster
        >>> torch.allclose(answer.probs, loop(query, engine=qtcore.Exact()).probs)
        True
    """

    name = "join-graph"
    differentiable = False
    table: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table is not None and (not isinstance(self.table, int) or isinstance(self.table, bool) or self.table < 1):
            raise InputError(f"table must be a whole number ≥ 1, the entries of the largest cluster, not {self.table!r}.")
        for option in ("temperature", "schedule"):
            if getattr(self, option) is not None:
                raise InputError(f"clusters have no {option}; leave it out.")

    @torch.no_grad()
    def init(self, model: Answerable, query: Query) -> State:
        potentials = model.graph()
        if isinstance(potentials, GaussianPotentials):
            raise InputError("clusters are for models of discrete variables; take another engine, such as bp.")
        factors, evidence = potentials.as_factors(model.evidence(query, torch.float64))
        alone = factors.unary.detach().to("cpu", torch.float64)[:, None] + evidence.detach().to("cpu", torch.float64)
        possible = consistent(factors, alone).numpy()

        def row(b: int) -> Row:
            return Row(Clusters(Narrowed(factors, alone[:, b : b + 1], possible[:, b]), self.table), {})

        return State(factors, tuple(row(b) for b in range(alone.shape[1])), self._damping(model))

    @torch.no_grad()
    def step(self, state: State) -> tuple[State, dict[str, Tensor]]:
        rows = tuple(row.step(state.damping) for row in state.rows)
        change = torch.tensor([row.change for row in rows], dtype=torch.float64)
        return State(state.potentials, rows, state.damping), {"residual": change}

    def marginals(self, state: State) -> Distribution:
        return state.potentials.answers(state.logits())[0]

    def hidden(self, state: State) -> Distribution:
        return state.potentials.answers(state.logits())[1]


