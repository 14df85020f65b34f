"""Factor graphs from files and from other libraries, and the graphs that everybody needs."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from qtcore.errors import InputError, nearest
from qtcore.evidence import BinaryEvidence
from qtcore.models import networks, uai
from qtcore.models.base import Model, positive
from qtcore.models.uai import Floats
from qtcore.potentials import BinaryPotentials, GridPotentials

if TYPE_CHECKING:
    from qtcore.models.factor_graph import FactorGraph


class Builders:
    """The constructors `FactorGraph.from_…` and the like. All take the options of a FactorGraph, such as `n_layers`."""

    @classmethod
    def from_uai(cls, path: "str | os.PathLike[str]", fixed: bool = False, **options: Any) -> "FactorGraph":
        """The graph in a file of the UAI format (MARKOV or BAYES), its tables those of the file, in float64 by default.

        `fixed` says that training leaves all of them alone.
        """
        file = uai.read(path)
        return cls._of_potentials(file.n_states, file.scopes, file.tables, fixed, options)

    @classmethod
    def from_bif(cls, path: "str | os.PathLike[str]", fixed: bool = False, **options: Any) -> "FactorGraph":
        """The directed network in a BIF file: a factor for every variable and its parents, names kept, in float64 by default.

        `fixed` says that training leaves all tables alone.
        """
        file = networks.read_bif(path)
        return cls._of_potentials(file.variables, file.scopes, file.tables, fixed, options)

    @classmethod
    def from_xmlbif(cls, path: "str | os.PathLike[str]", fixed: bool = False, **options: Any) -> "FactorGraph":
        """The same from an XMLBIF file (version 0.3)."""
        file = networks.read_xmlbif(path)
        return cls._of_potentials(file.variables, file.scopes, file.tables, fixed, options)

    @classmethod
    def from_file(cls, path: "str | os.PathLike[str]", fixed: bool = False, **options: Any) -> "FactorGraph":
        """The graph in a file, by the end of its name: .uai, .bif, or .xml and .xmlbif."""
        name = os.fspath(path).lower()
        read = cls.from_bif if name.endswith(".bif") else cls.from_xmlbif if name.endswith(FILES[2:]) else cls.from_uai
        return read(path, fixed, **options)

    # ------------------------------------------------------------------ graphs that everybody needs

    @classmethod
    def chain(cls, n: int, states: int, **options: Any) -> "FactorGraph":
        """n variables in a row: all pairs of neighbours share the table "edge" [S, S] (the earlier one first), all variables
        the table "unary" [S]. Both are learned, from a random start, unless given: `tables={"edge": log_potentials}`.

        Example:
            >>> import qtcore
            >>> qtcore.FactorGraph.chain(100, 3).n_factors
            199
        """
        positive("n", n)
        return cls._pairwise(n, states, {"edge": np.stack([np.arange(n - 1), np.arange(1, n)], 1)}, options)

    @classmethod
    def tree(cls, parents: "Sequence[int | None]", states: int, **options: Any) -> "FactorGraph":
        """A tree, or several: variable i hangs from variable parents[i], a root from None. All pairs share the table "edge"
        [S, S] (the parent first), all variables the table "unary" [S], learned unless given as for a `chain`."""
        edges = [(parent, child) for child, parent in enumerate(parents) if parent is not None]
        for parent, child in edges:
            if isinstance(parent, bool) or not isinstance(parent, int | np.integer) or not 0 <= parent < len(parents):
                raise InputError(
                    f"the parent of variable {child} must be None or one of 0 … {len(parents) - 1}, not {parent!r}."
                )
        pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
        _refuse_loops(len(parents), pairs)
        return cls._pairwise(len(parents), states, {"edge": pairs}, options)

    @classmethod
    def grid(
        cls, height: int, width: int, states: int, neighbours: Sequence[tuple[int, int]] = ((0, 1), (1, 0)), **options: Any
    ) -> "FactorGraph":
        """Pixels in rows, each with one neighbour for every offset (rows down, columns to the right) that lies inside. All
        pairs of one offset share a table, "offset_0_1" [S, S] for (0, 1) (the pixel itself first), and all pixels the table
        "unary" [S], learned unless given as for a `chain`.

        Example:
            >>> import qtcore
            >>> eight = [(0, 1), (1, 0), (1, 1), (1, -1)]
            >>> list(qtcore.FactorGraph.grid(28, 28, 2, eight).tables)
            ['unary', 'offset_0_1', 'offset_1_0', 'offset_1_1', 'offset_1_-1']
        """
        positive("height", height)
        positive("width", width)
        y, x = np.divmod(np.arange(height * width), width)
        scopes: dict[str, Any] = {}
        for offset in neighbours:
            down, right = _offset(offset)
            if (down, right) == (0, 0) or f"offset_{down}_{right}" in scopes or f"offset_{-down}_{-right}" in scopes:
                raise InputError(
                    f"the offset {(down, right)} is no neighbour, or is given twice (there or back); give each once."
                )
            inside = (y + down >= 0) & (y + down < height) & (x + right >= 0) & (x + right < width)
            here = np.flatnonzero(inside)
            scopes[f"offset_{down}_{right}"] = np.stack([here, here + down * width + right], 1)
        graph = cls._pairwise(height * width, states, scopes, options)
        graph.image_shape = (height, width)
        return graph

    @classmethod
    def semi_restricted(
        cls,
        n_visible: int,
        n_hidden: int,
        edges: Sequence[tuple[int, int]] = (),
        groups: Sequence[Sequence[int]] = (),
        **options: Any,
    ) -> "FactorGraph":
        """A restricted Boltzmann machine whose visible bits may have edges among each other, and form groups of which exactly
        one bit is 1 (the one-of-k code of a category). The visible bits come first.

        Tables, all of them learned: "bias" of every bit [V + H, 2], "weights" of visible and hidden bits [V·H, 2, 2], visible
        bit after visible bit, and "lateral" of the edges [E, 2, 2].

        Example:
            >>> import qtcore
            >>> machine = qtcore.FactorGraph.semi_restricted(7, 4, edges=[(0, 1)], groups=[(2, 3, 4), (5, 6)])
            >>> machine.variables.shape
            (7,)
        """
        positive("n_visible", n_visible)
        positive("n_hidden", n_hidden)
        pairs = [(int(i), int(j)) for i, j in edges]
        for i in (*(i for pair in pairs for i in pair), *(i for group in groups for i in group)):
            if not 0 <= i < n_visible:
                raise InputError(f"edges and groups are of visible bits, 0 … {n_visible - 1}, not of {i}.")
        size = n_visible + n_hidden
        visible, hidden = np.divmod(np.arange(n_visible * n_hidden), n_hidden)
        tables: dict[str, Any] = {"bias": [size, 2], "weights": [n_visible * n_hidden, 2, 2]}
        factors: list[Any] = [("bias", np.arange(size)[:, None]), ("weights", np.stack([visible, n_visible + hidden], 1))]
        if pairs:
            tables["lateral"] = [len(pairs), 2, 2]
            factors.append(("lateral", pairs))
        if len(groups):
            tables["group"] = "exactly one"
            factors.append(("group", [tuple(group) for group in groups]))
        return cls._made((2,) * size, tables, factors, {"hidden": range(n_visible, size)} | options)

    # ------------------------------------------------------------------ from other models and libraries

    @classmethod
    def from_model(cls, model: Model, **options: Any) -> "FactorGraph":
        """An RBM, a DBM or a GridMRF as a factor graph, message by message the same, with a copy of its parameters.

        The bits of an RBM or a DBM come in its order, v, h (v, h1, h2). A grid has its pixels row by row with a state for every
        clone; how it reads pixels is not part of the graph, so that evidence is given as likelihoods of these states.
        """
        potentials = model.graph()
        if isinstance(potentials, BinaryPotentials):
            place = _places_of_bits(potentials)
            nothing: Any = BinaryEvidence(*(potentials.c_v.new_zeros(1, len(potentials.c_v)) for _ in range(2)))
        elif isinstance(potentials, GridPotentials):
            grid: Any = model
            height, width = int(grid.height), int(grid.width)
            place = np.arange(height * width)
            nothing = potentials.tables.new_zeros([1, height, width, len(potentials.clones)])
        else:
            raise InputError(f"a factor graph can be made of an RBM, a DBM or a GridMRF, not of a {type(model).__name__}.")
        with torch.no_grad():
            factors, _ = potentials.as_factors(nothing)
        wiring = factors.wiring
        unary = torch.zeros(len(place), wiring.n_states[0], dtype=factors.unary.dtype, device=factors.unary.device)
        unary[torch.from_numpy(place)] = factors.unary.view_as(unary)
        tables: dict[str, Any] = {"unary": unary}
        scopes: list[Any] = [("unary", np.arange(len(place))[:, None])]
        for number, (group, stack) in enumerate(zip(wiring.groups, factors.tables, strict=True)):
            tied = len(group.tables) == 1
            tables[f"edge_{number}"] = stack[0] if tied else stack[torch.from_numpy(group.table)]
            scopes.append((f"edge_{number}", place[group.scope]))
        own = {"n_layers": model.n_layers, "damping": model.damping, "hidden": [int(place[i]) for i in wiring.hidden]}
        temperature = model.temperature()
        own |= {} if temperature is None else {"temperature": float(temperature.detach())}
        own |= {"dtype": model.dtype, "device": model.device}
        return cls._made(wiring.n_states, tables, scopes, own | options)

    @classmethod
    def from_networkx(cls, graph: Any, states: int = 2, tied: bool = False, **options: Any) -> "FactorGraph":
        """A graph of networkx: a variable for every node, a factor for every edge.

        A node has the attribute "states" (a number, or names), or else as many as `states`; an edge (u, v) may have the
        attribute "table" with its log-potentials [S_u, S_v], and a node one with its own [S]. Edges without are learned: each
        has a table of its own, or with `tied` all between nodes with these numbers of states share one.
        """
        try:
            nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
        except (AttributeError, TypeError) as error:
            raise InputError(f"this is no graph of networkx, but a {type(graph).__name__}.") from error
        names = {node: str(node) for node, _ in nodes}
        if len(set(names.values())) < len(names):
            raise InputError("two nodes of the graph have the same name, written out; rename one of them.")
        variables = {names[node]: about.get("states", states) for node, about in nodes}
        sizes = {name: given if isinstance(given, int) else len(given) for name, given in variables.items()}
        given: list[tuple[tuple[str, ...], Any]] = [
            ((names[node],), about["table"]) for node, about in nodes if "table" in about
        ]
        given += [((names[u], names[v]), about.get("table")) for u, v, about in edges]
        stacks: dict[str, list[Any]] = {}
        factors: list[Any] = []
        for scope, table in given:
            shape = [sizes[name] for name in scope]
            if table is not None and list((table := torch.as_tensor(table)).shape) != shape:
                raise InputError(
                    f"the table of {scope} has the shape {list(table.shape)}, but its variables have {shape} states."
                )
            factors.append((f"{'learned' if table is None else 'given'}_{'x'.join(map(str, shape))}", scope))
            stacks.setdefault(factors[-1][0], []).append(shape if table is None else table)
        tables: dict[str, Any] = {}
        for name, parts in stacks.items():
            learned = parts[0] if tied else [len(parts), *parts[0]]
            tables[name] = learned if name.startswith("learned") else torch.stack(parts)
        return cls._made(variables, tables, factors, options)

    @classmethod
    def from_pgmpy(cls, model: Any, fixed: bool = False, **options: Any) -> "FactorGraph":
        """A discrete model of pgmpy, directed (with its CPDs) or not (with its factors); names kept, in float64 by default.

        `fixed` says that training leaves all tables alone.
        """
        try:
            parts = [cpd.to_factor() for cpd in model.get_cpds()] if hasattr(model, "get_cpds") else list(model.get_factors())
            read = [
                (tuple(map(str, part.variables)), np.asarray(part.values, dtype=np.float64), part.state_names) for part in parts
            ]
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(f"this is no discrete model of pgmpy, but a {type(model).__name__} ({error}).") from error
        variables: dict[str, Any] = {}
        for scope, table, state_names in read:
            if not np.isfinite(table).all() or (table < 0).any():
                raise InputError(f"the potentials of {scope} must be finite and not negative.")
            named = {str(name): list(states) for name, states in (state_names or {}).items()}
            for name, size in zip(scope, table.shape, strict=True):
                states = named.get(name, range(size))
                known = size if list(states) == list(range(size)) else [str(state) for state in states]
                if variables.setdefault(name, known) != known:
                    raise InputError(f"the variable {name!r} has different states in different factors.")
        missing = [str(node) for node in getattr(model, "nodes", ()) if isinstance(node, str) and node not in variables]
        if missing:
            raise InputError(f"there is no factor with the variable {missing[0]!r}, so that its states are unknown.")
        return cls._of_potentials(variables, [scope for scope, _, _ in read], [table for _, table, _ in read], fixed, options)

    # ------------------------------------------------------------------ what they share

    @classmethod
    def _made(cls, variables: Any, tables: dict[str, Any], factors: Any, options: dict[str, Any]) -> "FactorGraph":
        make: Any = cls
        graph: FactorGraph = make(variables, tables, factors, **options)
        return graph

    @classmethod
    def _pairwise(cls, n: int, states: int, scopes: dict[str, Any], options: dict[str, Any]) -> "FactorGraph":
        """A table for all variables, and one for all pairs of each name; a shape of each, or what is given for it."""
        positive("states", states)
        given, options = options.get("tables", {}), {name: value for name, value in options.items() if name != "tables"}
        scopes = {name: pairs for name, pairs in scopes.items() if len(pairs)}
        tables: dict[str, Any] = {"unary": [states]} | {name: [states, states] for name in scopes}
        for name in given:
            if name not in tables:
                raise InputError(f"there is no table named {name!r} in this graph; {nearest(str(name), list(tables))}")
        factors = [("unary", np.arange(n)[:, None]), *scopes.items()]
        return cls._made((states,) * n, tables | dict(given), factors, options)

    @classmethod
    def _of_potentials(
        cls, variables: Any, scopes: Sequence[Sequence[Any]], potentials: Sequence[Floats], fixed: bool, options: dict[str, Any]
    ) -> "FactorGraph":
        """From a table of potentials, not logs, for every factor: those of one shape are stacked."""
        names = [f"factor_{'x'.join(map(str, table.shape))}" for table in potentials]
        stacks: dict[str, list[Floats]] = {}
        for name, table in zip(names, potentials, strict=True):
            stacks.setdefault(name, []).append(table)
        with np.errstate(divide="ignore"):
            tables = {name: np.log(np.stack(parts)) for name, parts in stacks.items()}
        options = {"dtype": torch.float64, "fixed": list(tables) if fixed else ()} | options
        return cls._made(variables, tables, list(zip(names, scopes, strict=True)), options)


FILES = (".uai", ".bif", ".xml", ".xmlbif")
"""How the names of files end that `from_file` reads."""


def _offset(given: Any) -> tuple[int, int]:
    try:
        down, right = given
        if not all(isinstance(part, int | np.integer) and not isinstance(part, bool) for part in (down, right)):
            raise TypeError("whole numbers are needed")
    except (TypeError, ValueError) as error:
        raise InputError(f"an offset is a pair of whole numbers (down, right), not {given!r} ({error}).") from error
    return int(down), int(right)


def _refuse_loops(n: int, pairs: Any) -> None:
    """Raise an InputError if some variable hangs from itself, over however many others."""
    parent = dict(pairs[:, ::-1].tolist())
    above: dict[int, int] = {}  # the variable from which each was reached
    for start in range(n):
        i: int | None = start
        while i is not None and i not in above:
            above[i] = start
            i = parent.get(i)
        if i is not None and above[i] == start:
            raise InputError(f"variable {i} hangs from itself in this tree; give a root the parent None.")


def _places_of_bits(potentials: BinaryPotentials) -> Any:
    """Where the bits of a bipartite graph, side v and then side h, stand in the model's own order: v, h (a DBM: v, h1, h2)."""
    H, V = potentials.W.shape
    visible, rest = np.arange(potentials.n_visible), np.arange(V - potentials.n_visible)
    return np.concatenate([visible, potentials.n_visible + H + rest, potentials.n_visible + np.arange(H)])
