"""Factor graphs from files and from other libraries, and the graphs that everybody needs."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from qtcore.models import networks, uai
from qtcore.models.uai import Floats

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
        make: Any = cls
        graph: FactorGraph = make(variables, tables, list(zip(names, scopes, strict=True)), **options)
        return graph


FILES = (".uai", ".bif", ".xml", ".xmlbif")
"""How the names of files end that `from_file` reads."""
