"""A model of a table's columns: it knows their names and levels, and answers about any of them given any others."""

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.inference import Engine, questions
from qtcore.inference.questions import LogProb
from qtcore.inference.sampling import MAX_BATCH, Block, Order
from qtcore.models.base import Model
from qtcore.models.factor_graph import FactorGraph
from qtcore.query import Mask, Query, cardinality, gaps
from qtcore.support.tensors import along, normal
from qtcore.tabular import Answer, Answers, Schema, Table

MAX_FACTORS = 2**21
"""Pairs of variables of a model: their scopes are listed before any table is made."""

INITIAL_WEIGHT = 0.5
"""Standard deviation of the initial log-potentials of columns and hidden units. With small ones, hidden units take hundreds of
steps to part from each other, and what three columns do together is learned late."""

SMOOTH, ROUGH = 0.15, 0.1
"""Along an ordered column, what is learned reaches so far, as a share of its states; and what of it stays where it is."""

PRIOR_ROWS = 0.5
"""Rows that every level is thought to have besides those of the data, when a model starts from their frequencies."""


class TableModel(FactorGraph):
    """A Boltzmann machine of categorical variables: one for each column of a table that is used, each joined to all hidden
    units (binary), and to each other if `lateral`.

    Rows by name are a dictionary of one row, or whatever `qtcore.Table` takes; columns that are missing are gaps. Make and
    train one with `qtcore.fit_table`.

    Args:
        schema: the columns, also as a list of dictionaries (`Schema.as_list`).
        n_hidden: binary hidden units; 0 for none.
        lateral: whether every pair of columns has a table.

    Example:
        >>> import qtcore
        >>> table = qtcore.Table({"sky": ["grey", "blue"] * 9, "lawn": ["wet", "dry"] * 9})
        >>> model = qtcore.TableModel(table.schema, n_hidden=2)
        >>> sorted(model.ask({"sky": "grey"}, about="lawn")["lawn"].states)
        ['dry', 'wet']
    """

    def __init__(
        self,
        schema: "Schema | Sequence[Any]",
        n_hidden: int = 16,
        lateral: bool = True,
        n_layers: int = 4,
        damping: float = 0.0,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.schema = schema if isinstance(schema, Schema) else Schema.from_list(schema)
        self.n_hidden, self.lateral = n_hidden, lateral
        columns = self.schema.used
        if isinstance(n_hidden, bool) or not isinstance(n_hidden, int) or n_hidden < 0:
            raise InputError(f"n_hidden must be a whole number ≥ 0, not {n_hidden!r}.")
        if not isinstance(lateral, bool):
            raise InputError(f"lateral must be True or False, not {lateral!r}.")
        if not columns:
            raise InputError("no column of this table can be used; see qtcore.describe(table).")
        pairs = len(columns) * n_hidden + (len(columns) * (len(columns) - 1) // 2 if lateral else 0)
        if pairs > MAX_FACTORS:
            raise InputError(f"{len(columns)} columns and {n_hidden} hidden units make {pairs} pairs, more than {MAX_FACTORS}.")
        units = [f"hidden {unit}" for unit in range(n_hidden)]
        while any(unit in self.schema for unit in units):
            units = [f"_{unit}" for unit in units]
        variables = {column.name: column.n_states for column in columns} | dict.fromkeys(units, 2)
        tables, factors = _pairs([column.n_states for column in columns], n_hidden, lateral)
        super().__init__(
            variables,
            tables,
            factors,
            hidden=units,
            n_layers=n_layers,
            temperature=temperature,
            damping=damping,
            learn_temperature=learn_temperature,
            device=device,
            dtype=dtype,
        )

    def config(self) -> dict[str, Any]:
        own = {"schema": self.schema.as_list(), "n_hidden": self.n_hidden, "lateral": self.lateral}
        return own | self._tempered_config()

    def packed(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return self.config(), {}  # the graph follows from it

    @classmethod
    def unpacked(cls, config: dict[str, Any], arrays: dict[str, Tensor]) -> dict[str, Any]:
        return Model.unpacked.__func__(cls, config, arrays)  # type: ignore[attr-defined]

    def extra_repr(self) -> str:
        sizes = f"{len(self.schema.used)} columns, {self.n_hidden} hidden units"
        return f"{sizes}, lateral={self.lateral}, n_layers={self.n_layers}"

    def queries(self) -> Mask:
        """Any share of the known cells is evidence, the others are targets; gaps are neither."""
        return gaps(cardinality())

    def mixing(self) -> dict[str, list[tuple[int, Tensor]]]:
        """Along an ordered column, tables are learned smoothly: what is learned of one level or bin holds for its neighbours,
        less with their distance."""
        ordered = [column.is_number or column.kind == "ordered" for column in self.schema.used] + [False] * self.n_hidden
        parts: dict[str, list[tuple[int, Tensor]]] = {}
        for name, template in self.templates.items():
            if name.startswith(("weights_", "lateral_")):
                for axis, size in enumerate(self.tables[name].shape[1:]):
                    smooth = [ordered[variable] for variable in template.scopes[:, axis]]
                    if any(smooth):
                        kernel, same = _smoothing(size), torch.eye(size)
                        each = torch.stack([kernel if own else same for own in smooth]).to(self.tables[name])
                        parts.setdefault(f"tables.{name}", []).append((axis + 1, each))
        return parts

    @torch.no_grad()
    def start_from(self, values: Tensor) -> None:
        """Set the terms of single columns to the logarithms of their levels' frequencies in rows [n, V], NaN for gaps; and
        make the random tables of hidden units smooth along ordered columns."""
        for name, template in self.templates.items():
            if name.startswith("bias_"):
                table = self.tables[name]
                for own, column in zip(table, template.scopes[:, 0].tolist(), strict=True):
                    known = values[:, column][~values[:, column].isnan()].long()
                    counts = torch.bincount(known, minlength=len(own)).to(own) + PRIOR_ROWS
                    own.copy_((counts / counts.sum()).log())
        for name, parts in self.mixing().items():
            table = self.get_parameter(name)
            for axis, matrices in parts:
                table.copy_(along(axis, matrices / matrices.norm(dim=2, keepdim=True), table))

    # ------------------------------------------------------------------ rows by name

    def table(self, known: Any) -> Table:
        """Rows by name as a table with this model's schema; None for one row of which nothing is known."""
        if known is None or (isinstance(known, Mapping) and not known):
            known = {self.schema.names[0]: None}
        return Table(known, self.schema)

    def query(self, known: Any) -> Query:
        """What is known in rows by name, as a query; gaps are its targets."""
        values = self.table(known).values.to(self.dtype)
        return Query(values, ~values.isnan()).to(self.device)

    def _about(self, about: "str | Sequence[str]") -> list[str]:
        names = [about] if isinstance(about, str) else list(about)
        for name in names:
            self.schema.place(name)
        if not names:
            raise InputError("name at least one column to ask about.")
        return list(dict.fromkeys(names))

    def ask(self, known: Any = None, about: "str | Sequence[str] | None" = None, engine: Engine | None = None) -> Answers:
        """The probability of every level of some columns, given what is known in each row.

        What a row holds in the columns that are asked about is left out. By default these are all columns with a gap.

        Example:
            >>> import qtcore
            >>> rows = {"sky": ["grey", "blue"] * 30, "lawn": ["wet", "dry"] * 30}
            >>> model = qtcore.fit_table(rows, minutes=0.1, steps=50)
            >>> model.ask({"sky": "grey"})["lawn"]["wet"] > 0.8
            True
        """
        table = self.table(known)
        values = table.values.to(self.dtype)
        if about is None:
            open_columns = values.isnan().any(0).tolist()
            names = [name for name, is_open in zip(self.schema.names, open_columns, strict=True) if is_open]
            if not names:
                raise InputError("nothing is unknown in these rows; name the columns to ask about with about=….")
        else:
            names = self._about(about)
            values[:, [self.schema.place(name) for name in names]] = torch.nan
        probs = self._probs(values, [self.schema.place(name) for name in names], engine)
        return Answers({name: Answer(self.schema[name], own) for name, own in zip(names, probs, strict=True)}, table.notes)

    @torch.no_grad()
    def _probs(self, values: Tensor, places: Sequence[int], engine: Engine | None) -> list[np.ndarray]:
        """Probabilities of the states of some columns, each [rows, states], given rows [n, V], NaN for gaps."""
        parts = []
        for part in values.split(MAX_BATCH):
            marginals = self(Query(part, ~part.isnan()).to(self.device), engine=engine)
            parts.append(self.variables.numbers(marginals)[:, list(places)].double().cpu())
        probs = torch.cat(parts)
        each = [probs[:, k, : self.variables.n_states[place]].numpy() for k, place in enumerate(places)]
        return [own / own.sum(1, keepdims=True) for own in each]

    @overload
    def sample(
        self,
        query: Query,
        n: int = 1,
        order: Order = "random",
        block: Block = 1,
        generator: torch.Generator | None = None,
        engine: Engine | None = None,
        method: str = "chain",
    ) -> Tensor: ...
    @overload
    def sample(
        self,
        query: Any = None,
        n: int = 1,
        order: Order = "random",
        block: Block = 1,
        generator: torch.Generator | None = None,
        engine: Engine | None = None,
        method: str = "chain",
    ) -> Table: ...
    def sample(
        self,
        query: Any = None,
        n: int = 1,
        order: Order = "random",
        block: Block = 1,
        generator: torch.Generator | None = None,
        engine: Engine | None = None,
        method: str = "chain",
    ) -> "Tensor | Table":
        """Rows by name, each completed n times, one after the other: gaps are drawn jointly, numbers anywhere in their bins.

        Of a Query, states [n, batch, V], as of other models.
        """
        if isinstance(query, Query):
            return super().sample(query, n, order, block, generator, engine, method)
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise InputError(f"n must be a whole number of samples ≥ 1, not {n!r}.")
        given = self.table(query)
        table = given[[row for row in range(len(given)) for _ in range(n)]]
        states = table.values.to(self.dtype)
        if bool(states.isnan().any()):
            asked = Query(states, ~states.isnan()).to(self.device)
            states = super().sample(asked, 1, order, block, generator, engine, method)[0].cpu()
        uniform = torch.rand(states.shape, generator=generator, device=None if generator is None else generator.device)
        drawn = zip(self.schema.used, states.T.long().numpy(), uniform.double().cpu().T.numpy(), strict=True)
        return table.filled({column.name: column.draw(own, at) for column, own, at in drawn})

    def fill(self, known: Any, engine: Engine | None = None) -> Table:
        """Rows by name with their gaps filled, each by itself: the most probable level, the expected number."""
        table = self.table(known)
        values = table.values.to(self.dtype)
        places = [place for place, is_open in enumerate(values.isnan().any(0).tolist()) if is_open]
        if not places:
            return table
        filled: dict[str, list[Any]] = {}
        for place, probs in zip(places, self._probs(values, places, engine), strict=True):
            answer = Answer(self.schema.used[place], probs)
            filled[answer.column.name] = _likeliest(answer)
        return table.filled(filled)

    def next(self, known: Any = None, about: "str | Sequence[str]" = (), engine: Engine | None = None) -> dict[str, float]:
        """What each unknown column of a row would tell about some others, in bits, the most first."""
        bits = self.information(known, about, engine)
        if len(bits) != 1:
            raise InputError(f"the next question is about one row, not about {len(bits)}.")
        told = {name: value for name, value in zip(self.schema.names, bits[0].tolist(), strict=True) if value == value}
        return dict(sorted(told.items(), key=lambda each: -each[1]))

    def information(self, known: Any, about: "str | Sequence[str]", engine: Engine | None = None) -> Tensor:
        """The same of many rows, in bits [rows, V]; NaN where a cell is known."""
        values = self.table(known).values.to(self.dtype)
        places = [self.schema.place(name) for name in self._about(about)]
        values[:, places] = torch.nan
        bits = torch.full(values.shape, torch.nan, dtype=torch.float64)
        some = values.isnan().sum(1) > len(places)  # rows with another gap
        if bool(some.any()):
            asked = Query(values[some], ~values[some].isnan()).to(self.device)
            bits[some] = questions.next_question(self, asked, about=places, engine=engine).bits.cpu()
        bits[:, places] = torch.nan
        return bits

    def log_prob(
        self,
        query: Any,
        orders: "int | str | Sequence[Order] | Tensor" = 1,
        block: Block = 1,
        generator: torch.Generator | None = None,
        engine: Engine | None = None,
    ) -> LogProb:
        """Of rows by name, the joint log-probability in nats of what is known in each (of numbers, of their bins), gaps
        summed out; of a Query, that of its targets given its evidence, as of other models."""
        if not isinstance(query, Query):
            values = self.table(query).values.to(self.dtype)
            known = ~values.isnan()
            if not bool(known.any(1).all()):
                row = int((~known.any(1)).nonzero()[0]) + 1
                raise InputError(f"row {row} holds nothing but gaps, so that there is nothing to give the probability of.")
            query = Query(values, torch.zeros_like(known), known).to(self.device)
        return super().log_prob(query, orders, block, generator, engine)


def _pairs(states: Sequence[int], n_hidden: int, lateral: bool) -> tuple[dict[str, Any], list[Any]]:
    """The tables and factors of the graph, those with equal numbers of states together."""
    count, tables, factors = len(states), dict[str, Any](), list[Any]()
    for size in dict.fromkeys(states):
        own = np.array([column for column in range(count) if states[column] == size])
        tables[f"bias_{size}"] = torch.zeros(len(own), size)
        factors.append((f"bias_{size}", own[:, None]))
        if n_hidden:
            visible, hidden = np.repeat(own, n_hidden), np.tile(count + np.arange(n_hidden), len(own))
            tables[f"weights_{size}"] = normal(len(visible), size, 2, scale=INITIAL_WEIGHT)
            factors.append((f"weights_{size}", np.stack([visible, hidden], 1)))
    if n_hidden:
        tables["hidden"] = torch.zeros(n_hidden, 2)
        factors.append(("hidden", count + np.arange(n_hidden)[:, None]))
    scopes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i in range(count if lateral else 0):
        for j in range(i + 1, count):
            one, other = (i, j) if states[i] <= states[j] else (j, i)
            scopes.setdefault((states[one], states[other]), []).append((one, other))
    for (small, large), pairs in scopes.items():
        tables[f"lateral_{small}x{large}"] = torch.zeros(len(pairs), small, large)
        factors.append((f"lateral_{small}x{large}", np.array(pairs)))
    return tables, factors


def _smoothing(size: int) -> Tensor:
    """How the states of an ordered column share what is learned [S, S]: a Gaussian of their distance, which can be inverted."""
    state = torch.arange(size, dtype=torch.float64)
    near = (-(((state[:, None] - state) / (SMOOTH * size)) ** 2) / 2).exp()
    return ROUGH * torch.eye(size, dtype=torch.float64) + (1 - ROUGH) * near / near.sum(1, keepdim=True)


def _likeliest(answer: Answer) -> list[Any]:
    """The value that fills a gap of each row."""
    if not answer.column.is_number:
        return answer.best
    return answer.column.rounded(answer.mean)
