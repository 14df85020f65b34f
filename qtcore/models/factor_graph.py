"""Any graphical model of categorical variables: a factor graph with tied and untied tables of any order."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from qtcore import evidence, logic
from qtcore.errors import InputError, nearest
from qtcore.models import uai
from qtcore.models.base import TemperedModel
from qtcore.models.builders import Builders
from qtcore.models.packing import pack, read_whole, runs, unpack, whole
from qtcore.models.templates import Tables, Template, check_variables, logic_templates, read_rule, read_shape, read_variables
from qtcore.potentials import FactorPotentials, Wiring
from qtcore.query import Query
from qtcore.support.tensors import has_values, normal
from qtcore.variables import Categorical
from qtcore.wiring import Factors, Whole

INITIAL_POTENTIAL = 0.1
"""Standard deviation of the initial log-potentials: not 0, or the states of hidden variables would stay identical."""


class FactorGraph(Builders, TemperedModel):
    """p(x) ∝ exp(Σ_f table_f(x_f)) over categorical variables, for factors of any order with tables of log-potentials.

    Args:
        n_states: the number of states of each variable; or, by name, the number of states or the names of the states.
        tables: by name, the shape of a learned table (whole numbers), or its log-potentials (an array); −∞ is a zero of the
            potential. All factors of that name share the table, the axes in the order of their scopes. With one axis more,
            in front, each factor has a table of its own. Or one of "and", "or" (the last variable of a scope is the AND, or the
            OR, of the others), "at most one", "exactly one" (are 1): logic factors on binary variables, with scopes of
            any length.
        factors: pairs (table's name, scope). A scope lists variables, by number or by name; an array of scopes [F, order]
            stands for F factors.
        hidden: variables that are never observed and never reported among the marginals. A query has one column for
            each of the others, in increasing order: whole numbers [B, V], or likelihoods [B, V, S].
        fixed: names of tables that training leaves alone.

    Example:
        >>> import torch, qtcore
        >>> xor = torch.tensor([[[0.0, -5], [-5, 0]], [[-5, 0], [0, -5]]])
        >>> graph = qtcore.FactorGraph(
        ...     n_states=(2,) * 5, tables={"xor": xor, "edge": [2, 2]}, fixed=["xor"],
        ...     factors=[("xor", (0, 1, 2)), ("xor", (2, 3, 4)), ("edge", (0, 4))],
        ... )
        >>> query = qtcore.Query(torch.ones(1, 5), torch.tensor([[True, True, False, False, False]]))
        >>> graph(query).probs.shape
        torch.Size([1, 5, 2])
    """

    variables: Categorical
    may_hold_zeros = ("tables.",)

    def __init__(
        self,
        n_states: "Sequence[int] | Whole | Mapping[str, int | Sequence[str]]",
        tables: Mapping[str, Any],
        factors: Sequence[tuple[str, Any]],
        hidden: "Sequence[int | str]" = (),
        fixed: Sequence[str] = (),
        n_layers: int = 10,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        damping: float = 0.0,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(n_layers, damping, temperature, learn_temperature, **factory)
        self.n_states, self.names, self.state_names = read_variables(n_states)
        self._places = {name: place for place, name in enumerate(self.names)}
        self.hidden = tuple(sorted(self.place(variable) for variable in hidden))
        check_variables(self.n_states, self.hidden)
        if not isinstance(tables, Mapping):
            raise InputError(f"tables must be given by name, {{name: shape or array}}, not as a {type(tables).__name__}.")
        self.tables = Tables()
        self.rules: dict[str, str] = {}
        self.logic: list[tuple[str, Template]] = []
        for name, given in tables.items():
            self._add_table(name, given, factory)
        self.fixed = tuple(fixed)
        for name in self.fixed:
            if name not in self.tables:
                raise InputError(f"there is no table named {name!r} to be fixed; {nearest(str(name), list(self.tables))}")
            self.tables[name].requires_grad_(False)
        self.templates = self._templates(factors)
        self.wiring = self._wiring()
        visible = tuple(self.n_states[i] for i in self.wiring.visible)
        self.variables = Categorical((len(visible),), visible, max(self.n_states))
        self._pieces = [list(self._group_pieces(group.tables)) for group in self.wiring.groups]
        self._indices: dict[Any, Tensor] = {}

    def to_uai(self, path: "str | os.PathLike[str]") -> None:
        """Write the graph as a file of the UAI format (MARKOV), factors in their order; names and ties are not kept, and logic
        factors are written out."""
        scopes, tables, used = [], [], dict.fromkeys(self.tables, 0)
        for name, together in self.factors():
            if name in self.rules:
                scopes += [tuple(scope) for scope in together]
                tables += [logic.table(self.rules[name], len(together[0])).numpy()] * len(together)
                continue
            table = self.tables[name].detach().to("cpu", torch.float64).numpy()
            for scope in together:
                scopes.append(tuple(scope))
                tables.append(table[used[name]] if self.templates[name].stacked else table)
                used[name] += 1
        uai.write(path, self.n_states, scopes, tables)

    # ------------------------------------------------------------------ construction

    def place(self, variable: "int | str") -> int:
        """The number of a variable, from its name or its number."""
        if isinstance(variable, str):
            if variable not in self._places:
                raise InputError(f"there is no variable named {variable!r}; {nearest(variable, list(self.names))}")
            return self._places[variable]
        if isinstance(variable, bool) or not isinstance(variable, int | np.integer):
            raise InputError(f"a variable is named by its number or its name, not by {variable!r}.")
        return int(variable)

    def _add_table(self, name: Any, given: Any, factory: dict[str, Any]) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise InputError(f"a table cannot be named {name!r}; give a word without a full stop.")
        if isinstance(given, str):
            self.rules[name] = read_rule(name, given)
            return
        shape = read_shape(given)
        if shape is not None:
            values = normal(*shape, scale=INITIAL_POTENTIAL, **factory)
        else:
            try:
                values = given if isinstance(given, Tensor) else torch.as_tensor(given)
                values = values.detach().to(device=factory["device"], dtype=factory["dtype"] or torch.get_default_dtype())
            except (TypeError, ValueError, RuntimeError) as error:
                raise InputError(f"the table {name!r} must be a shape or an array of log-potentials ({error}).") from error
            if has_values(values) and bool((values.isnan() | values.isposinf()).any()):
                raise InputError(f"the table {name!r} holds NaN or infinity; log-potentials are finite, or −∞ for a zero.")
            values = values.clone()
        self.tables[name] = nn.Parameter(values)

    def _templates(self, factors: Sequence[tuple[str, Any]]) -> dict[str, Template]:
        known = [*self.tables, *self.rules]
        singles: dict[str, tuple[list[Any], list[int]]] = {name: ([], []) for name in known}
        arrays: dict[str, list[tuple[Whole, Whole]]] = {name: [] for name in known}
        count = 0
        for entry in factors:
            try:
                name, scope = entry
                own = singles[name]
            except (TypeError, ValueError) as error:
                raise InputError(f"a factor is a pair (table's name, scope), not {entry!r}.") from error
            except KeyError as error:
                raise InputError(f"there is no table named {name!r}; {nearest(str(name), known)}") from error
            if name in self.rules:
                listed = scope.tolist() if isinstance(scope, np.ndarray | Tensor) else scope
                several = listed if len(listed) and isinstance(listed[0], list | tuple) else [listed]
                own[0].extend([self.place(variable) for variable in each] for each in several)
                own[1].extend(range(count, count + len(several)))
                count += len(several)
            elif isinstance(scope, np.ndarray | Tensor) or (len(scope) and isinstance(scope[0], list | tuple)):
                block = self._scopes(name, scope)
                block = block[None] if block.ndim == 1 else block
                arrays[name].append((block, np.arange(count, count + len(block))))
                count += len(block)
            else:
                own[0].append(scope)
                own[1].append(count)
                count += 1
        templates, first = {}, 0
        for name, (scopes, numbers) in singles.items():
            parts = arrays[name]
            if scopes and name in self.rules:
                together = logic_templates(self.n_states, name, self.rules[name], scopes, numbers)
                self.logic += [(name, template) for template in together]
                continue
            if scopes:
                parts.append((self._scopes(name, scopes), np.array(numbers)))
            if not parts:
                raise InputError(f"the table {name!r} is used by no factor; leave it out.")
            if len({part.shape[1] for part, _ in parts}) > 1:
                raise InputError(f"the factors of table {name!r} must have scopes of one length.")
            scope, number = (np.concatenate(each) for each in zip(*parts, strict=True))
            order = np.argsort(number, kind="stable")
            templates[name] = self._template(name, scope[order], number[order], first)
            first += len(scope) if templates[name].stacked else 1
        return templates

    def _scopes(self, name: str, scopes: Any) -> Whole:
        """Scopes as numbers [F, order]."""
        if self.names and not isinstance(scopes, np.ndarray | Tensor):
            scopes = [[self.place(variable) for variable in scope] for scope in scopes]
        try:
            array = np.asarray(scopes)
        except (ValueError, TypeError) as error:
            raise InputError(f"the factors of table {name!r} must have scopes of one length ({error}).") from error
        if array.size == 0 and array.ndim <= 2:
            return array.astype(np.int64)
        if array.dtype.kind not in "iu" or array.ndim > 2:
            raise InputError(f"the scopes of table {name!r} must list variables, by whole numbers or names.")
        return array.astype(np.int64)

    def _template(self, name: str, scopes: Whole, numbers: Whole, first: int) -> Template:
        count, order = len(self.n_states), scopes.shape[1]
        outside = ((scopes < 0) | (scopes >= count)).any(1)
        ordered = np.sort(scopes, 1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(1)
        for bad, what in ((outside, f"must name variables among 0 … {count - 1}"), (twice, "names a variable twice")):
            if bad.any():
                raise InputError(f"the scope {tuple(scopes[bad][0].tolist())} of table {name!r} {what}.")
        if order > uai.MAX_ORDER:
            raise InputError(f"the factors of table {name!r} have {order} variables, but {uai.MAX_ORDER} are the most.")
        shape = tuple(self.tables[name].shape)
        stacked = len(shape) == order + 1
        if len(shape) != order and not stacked:
            raise InputError(f"the table {name!r} has {len(shape)} axes, but its factors have {order} variables.")
        if stacked and shape[0] != len(scopes):
            raise InputError(f"the table {name!r} is a stack of {shape[0]} tables for {len(scopes)} factors; give each one.")
        wrong = (np.array(self.n_states)[scopes] != np.array(shape[stacked:])).any(1)
        if wrong.any():
            scope = scopes[wrong][0].tolist()
            sizes = [self.n_states[i] for i in scope]
            given = list(shape[stacked:])
            raise InputError(f"the table {name!r} has the shape {given}, but {tuple(scope)} have {sizes} states.")
        return Template(scopes, numbers, stacked, first)

    def _wiring(self) -> Wiring:
        """Of the factors with at least two variables; the others are unary terms."""
        longer = [template for template in self.templates.values() if template.scopes.shape[1] > 1]
        counted = np.zeros(self.n_factors, dtype=np.int64)
        for template in (*longer, *(template for _, template in self.logic)):
            counted[template.numbers] = 1
        rank = counted.cumsum() - 1
        blocks = [(t.scopes, t.first + t.stacked * np.arange(len(t.scopes)), rank[t.numbers]) for t in longer]
        wiring = Wiring.of_arrays(self.n_states, blocks, self.hidden, self.names)
        rules = [
            Factors((2,) * t.scopes.shape[1], t.scopes, 0 * t.numbers, rank[t.numbers], np.array([-1]), self.rules[name])
            for name, t in self.logic
        ]
        return replace(wiring, groups=(*wiring.groups, *rules)) if rules else wiring

    def _group_pieces(self, tables: Whole) -> Iterator[tuple[str, "Whole | None"]]:
        """Where a group's tables come from: names, each with the rows of its stack (None for all, or for a single table)."""
        for name, template in self.templates.items():
            count = len(template.scopes) if template.stacked else 1
            inside = tables[(tables >= template.first) & (tables < template.first + count)] - template.first
            if len(inside) and template.scopes.shape[1] > 1:
                yield name, None if len(inside) == count else inside

    # ------------------------------------------------------------------ interface

    def config(self) -> dict[str, Any]:
        return self._short_config() | {"n_states": self._variables(), "factors": self.factors(), "hidden": self.hidden}

    def _short_config(self) -> dict[str, Any]:
        """All of it but variables and factors, of which there may be millions."""
        tables = {name: list(table.shape) for name, table in self.tables.items()} | self.rules
        return {"tables": tables, "fixed": self.fixed} | self._tempered_config()

    def _variables(self) -> Any:
        if not self.names:
            return self.n_states
        states = zip(self.names, self.n_states, self.state_names, strict=True)
        return {name: size if labels is None else labels for name, size, labels in states}

    def packed(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        arrays = pack(self._named(), self.n_factors) | {"hidden": whole(self.hidden)}
        if self.names:
            return self._short_config() | {"n_states": self._variables()}, arrays
        return self._short_config(), arrays | {"n_states": whole(self.n_states)}

    @classmethod
    def unpacked(cls, config: dict[str, Any], arrays: dict[str, Tensor]) -> dict[str, Any]:
        if not arrays:
            return config
        lists = {name: read_whole(name, arrays, 1).tolist() for name in ("n_states", "hidden") if name in arrays}
        for name in config.keys() & {"factors", *lists}:
            raise ValueError(f"its configuration has the {name} twice")
        return config | lists | {"factors": unpack(config["tables"], arrays)}

    def factors(self) -> list[tuple[str, list[list[int]]]]:
        """All factors in their order: the name of a table, with the scopes of the factors in succession that use it."""
        return [(name, scopes.tolist()) for name, scopes in runs(self._named(), self.n_factors)]

    def _named(self) -> list[tuple[str, Template]]:
        """All factors by their tables, then by their rules and the lengths of their scopes."""
        place = {name: k for k, name in enumerate(self.rules)}
        return [*self.templates.items(), *sorted(self.logic, key=lambda each: (place[each[0]], each[1].scopes.shape[1]))]

    def column_names(self) -> tuple[str, ...] | None:
        return tuple(self.names[i] for i in self.wiring.visible) if self.names else None

    @property
    def n_factors(self) -> int:
        return sum(len(template.scopes) for _, template in (*self.templates.items(), *self.logic))

    def extra_repr(self) -> str:
        sizes = f"{len(self.n_states)} variables, {self.n_factors} factors, {len(self.tables)} tables"
        options = ", ".join(f"{key}={value!r}" for key, value in self._tempered_config().items())
        return f"{sizes}, {options}"

    def graph(self) -> FactorPotentials:
        tables = []
        for number, pieces in enumerate(self._pieces):
            if self.wiring.groups[number].rule:
                tables.append(torch.full((1, 1), -torch.inf, dtype=self.dtype, device=self.device))  # in place of a table
                continue
            parts = [self._piece(number, name, rows) for name, rows in pieces]
            tables.append(parts[0] if len(parts) == 1 else torch.cat(parts))
        return FactorPotentials(self.wiring, self._unary(), tuple(tables))

    def _piece(self, number: int, name: str, rows: "Whole | None") -> Tensor:
        table: Tensor = self.tables[name]
        if not self.templates[name].stacked:
            return table[None]
        return table if rows is None else table.index_select(0, self._index((number, name), rows))

    def _unary(self) -> Tensor:
        """The terms of single variables [total]; a factor without variables is a constant, which the first one takes."""
        unary = torch.zeros(sum(self.n_states), dtype=self.dtype, device=self.device)
        offset = np.cumsum((0, *self.n_states))
        for name, (scopes, _, stacked, _) in self.templates.items():
            if (order := scopes.shape[1]) > 1:
                continue
            table: Tensor = self.tables[name]
            if order == 1:
                entries = self._index(name, (offset[scopes] + np.arange(table.shape[-1])).ravel())
                values = table.flatten() if stacked else table.repeat(len(scopes))
            else:
                entries = self._index(name, np.arange(self.n_states[0]))
                values = (table.sum() * (1 if stacked else len(scopes))).expand(self.n_states[0])
            unary = unary.index_add(0, entries, values)
        return unary

    def _index(self, key: Any, array: Any) -> Tensor:
        """An array as a tensor on the model's device, kept for the next call."""
        kept = self._indices.get(key)
        if kept is None or kept.device != self.device:
            with torch.inference_mode(False):
                kept = self._indices[key] = torch.tensor(array, device=self.device)
        return kept

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

    def query(self, known: "Mapping[Any, Any]") -> Query:
        """A query of one row: for each variable that is observed, its state (by number or name), or likelihoods of its states.

        Example:
            >>> import qtcore
            >>> variables = {"rain": ["no", "yes"], "wet": ["no", "yes"]}
            >>> lawn = qtcore.FactorGraph(variables, {"edge": [2, 2]}, [("edge", ("rain", "wet"))])
            >>> lawn.query({"wet": "yes"}).observed
            tensor([[False,  True]])
        """
        columns = {variable: column for column, variable in enumerate(self.wiring.visible)}
        values = torch.zeros(1, len(columns), self.variables.width, dtype=self.dtype)
        observed = torch.zeros(1, len(columns), dtype=torch.bool)
        for given, state in known.items():
            variable = self.place(given)
            if variable not in columns:
                known_as = "is hidden" if variable in self.hidden else "does not exist"
                raise InputError(f"the variable {given!r} {known_as}, so that it cannot be observed.")
            observed[0, columns[variable]] = True
            values[0, columns[variable], : self.n_states[variable]] = self._reading(variable, state)
        return Query(values, observed).to(self.device)

    def _reading(self, variable: int, state: Any) -> Tensor:
        size, labels = self.n_states[variable], self.state_names[variable] if self.state_names else None
        if isinstance(state, str):
            if labels is None or state not in labels:
                raise InputError(f"the variable {self.wiring.name(variable)} has no state {state!r}; it has {labels or size}.")
            state = labels.index(state)
        if isinstance(state, int) and not isinstance(state, bool):
            if not 0 <= state < size:
                raise InputError(f"the variable {self.wiring.name(variable)} has the states 0 … {size - 1}, not {state}.")
            return torch.arange(size) == state
        likelihood = torch.as_tensor(state)
        if likelihood.shape != (size,):
            raise InputError(f"the variable {self.wiring.name(variable)} needs a state or {size} likelihoods, not {state!r}.")
        return likelihood
