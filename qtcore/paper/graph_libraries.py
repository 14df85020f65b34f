"""The same graphs in other libraries, for `python -m qtcore.bench graphs`: PGMax and pgmpy, from the extra `graphs-bench`.

Both are optional. A library that is missing, or that fails, gives a sentence instead of a number.
"""

import functools
import importlib
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qtcore.models.factor_graph import FactorGraph

Marginals = npt.NDArray[np.float64]
"""[n, S]"""

INSTALL = "pip install 'qtcore[graphs-bench]'"


class Unavailable(Exception):
    """Why a library cannot be compared with, in a sentence."""


@dataclass(frozen=True)
class Twin:
    """A graph in another library: `run` computes, `marginals` reads what it returned."""

    run: Callable[[], Any]
    marginals: Callable[[Any], Marginals]


def pgmax(model: FactorGraph, layers: int, compiled: bool) -> Twin:
    """Loopy belief propagation by PGMax; `compiled` once, beforehand, by jax.jit, else as its examples call it."""
    jax = _module("jax")
    if not hasattr(jax.lib, "xla_bridge"):  # where PGMax 0.6.1 looks for the platform; newer versions of jax have moved it
        jax.lib.xla_bridge = types.SimpleNamespace(get_backend=_module("jax.extend.backend").get_backend)
    fgraph, fgroup, infer, vgroup = (_module(f"pgmax.{name}") for name in ("fgraph", "fgroup", "infer", "vgroup"))
    variables = vgroup.NDVarArray(num_states=max(model.n_states), shape=(len(model.n_states),))
    graph = fgraph.FactorGraph(variable_groups=variables)
    for name, template in model.templates.items():
        table = model.tables[name].detach().numpy()
        shape = table.shape[-template.scopes.shape[1] :]
        configs = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, len(shape))
        logs = np.broadcast_to(table.reshape(-1, len(configs)), (len(template.scopes), len(configs)))
        scopes = [[variables[i] for i in scope] for scope in template.scopes.tolist()]
        graph.add_factors(fgroup.EnumFactorGroup(scopes, factor_configs=configs, log_potentials=logs))
    bp = infer.BP(graph.bp_state, temperature=1.0)
    start = bp.init()
    layers_of = functools.partial(bp.run_bp, num_iters=layers, damping=0.0)
    run = jax.jit(layers_of) if compiled else layers_of

    def marginals(arrays: Any) -> Marginals:
        return np.asarray(infer.get_marginals(bp.get_beliefs(arrays))[variables], dtype=np.float64)

    return Twin(lambda: jax.block_until_ready(run(start)), marginals)


def pgmpy(model: FactorGraph) -> Twin:
    """Exact belief propagation on a junction tree by pgmpy."""
    models, factors, inference = (_module(f"pgmpy.{name}") for name in ("models", "factors.discrete", "inference"))
    network = models.DiscreteMarkovNetwork()
    for name, template in model.templates.items():
        table = model.tables[name].detach().double().exp().numpy()
        for number, scope in enumerate(template.scopes.tolist()):
            network.add_nodes_from(map(str, scope))
            network.add_edges_from((str(a), str(b)) for k, a in enumerate(scope) for b in scope[:k])
            own = table[number] if template.stacked else table
            network.add_factors(factors.DiscreteFactor(list(map(str, scope)), own.shape, own))

    def run() -> Any:
        tree = inference.BeliefPropagation(network)
        tree.calibrate()
        return tree.get_clique_beliefs()

    def marginals(beliefs: Any) -> Marginals:
        result = np.zeros((len(model.n_states), max(model.n_states)))
        for clique, belief in beliefs.items():
            for variable in clique:
                own = belief.marginalize([other for other in clique if other != variable], inplace=False).values
                result[int(variable), : len(own)] = own / own.sum()
        return result

    return Twin(run, marginals)


def _module(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"{name.partition('.')[0]} is not installed ({INSTALL})") from error
