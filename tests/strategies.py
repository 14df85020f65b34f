"""Random models and queries, drawn from a seed or by Hypothesis, and the same model written as another kind of model.

Everything is float64 unless asked otherwise, and small enough to be enumerated or run loop by loop.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Normal

from qtcore import DBM, RBM, FactorGraph, GaussianRBM, GridMRF, PairwiseMRF, Query, kernels
from qtcore.models.base import Model, TemperedModel

F64 = torch.float64
KINDS = ("RBM", "DBM", "GaussianRBM", "GridMRF", "PairwiseMRF", "FactorGraph")
TEMPERED = tuple(kind for kind in KINDS if kind != "GaussianRBM")
EVIDENCE = ("hard", "soft", "mixed", "none")

seeds = st.integers(0, 10**6)
evidences = st.sampled_from(EVIDENCE)
kinds = st.sampled_from(KINDS)
tempered_kinds = st.sampled_from(TEMPERED)


QUICK = settings.default.max_examples < 10  # type: ignore[union-attr]
"""Whether this is `make check`, which draws less."""


def examples(count: int) -> settings:
    """So many examples, or as few as `make check` draws."""
    return settings(max_examples=min(count, settings.default.max_examples))  # type: ignore[union-attr]


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(shape, generator=rng(seed), dtype=F64)


def close(result: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(result.detach(), expected.detach().to(result.dtype), rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------------------------------------------
# Models


def learnable(model: Model) -> dict[str, Tensor]:
    """The stored tensors that make up the potential: all but the temperature, the emission and σ."""
    return {name: p for name, p in model.named_parameters() if name not in ("T", "emission", "sigma")}


def randomise(model: Any, seed: int, scale: float = 1.0) -> Any:
    """The same model with N(0, scale²) in all that makes up its potential."""
    generator = rng(seed)
    with torch.no_grad():
        for tensor in learnable(model).values():
            tensor.copy_(scale * torch.randn(tensor.shape, generator=generator, dtype=F64))
        if isinstance(model, GridMRF):
            model.emission.copy_(torch.tensor([0.8, 0.1, 0.02]))
    return model


def build(kind: str, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = F64, **options: Any) -> Any:
    """A random model with loops, of any kind. Options that it does not have (a temperature) are left out."""
    if kind == "GaussianRBM":
        options = {name: value for name, value in options.items() if "temperature" not in name}
    options = {"n_layers": 5, "dtype": dtype} | options
    if kind == "RBM":
        model: Any = RBM(4, 3, **options)
    elif kind == "DBM":
        model = DBM(3, 2, 2, **options)
    elif kind == "GaussianRBM":
        model = GaussianRBM(4, 3, **options)
    elif kind == "GridMRF":
        model = GridMRF(2, 3, clones=(2, 1, 1), **options)
    elif kind == "FactorGraph":
        tables = {"edge": [2, 3], "three": [2, 2, 4], "own": [2, 2, 4], "bias": [2]}
        factors = [("edge", (0, 1)), ("edge", (2, 1)), ("three", (0, 2, 3)), ("own", [(0, 3), (2, 3)]), ("bias", [(0,), (2,)])]
        model = FactorGraph((2, 3, 2, 4), tables, factors, hidden=(2,), **options)
    else:
        edges = [(0, 1), (2, 1), (2, 3), (0, 3), (0, 2)]
        model = PairwiseMRF((2, 3, 2, 4), edges, hidden=(2,), **options)
    return randomise(model, seed, scale)


def temperature_of(model: Model) -> float:
    return float(model.T.detach()) if isinstance(model, TemperedModel) else 1.0


# ---------------------------------------------------------------------------------------------------------------------
# Queries


def sample_shape(model: Model) -> tuple[int, ...]:
    if isinstance(model, GridMRF):
        return (model.height, model.width)
    return tuple(size for size in model.variables.shape if size is not None)


def draw_truth(model: Model, seed: int, shape: Sequence[int]) -> Tensor:
    """Values that the variables can take: whole numbers, or real ones for a Gaussian model."""
    if isinstance(model, GaussianRBM):
        return normal(seed, *shape)
    size: Any = 2
    if isinstance(model, FactorGraph):
        size = torch.tensor([model.n_states[i] for i in range(len(model.n_states)) if i not in model.hidden])
    return torch.floor(torch.rand(*shape, generator=rng(seed), dtype=F64) * size)


def draw_weights(seed: int, shape: Sequence[int], evidence: str) -> Tensor:
    """Which variables are seen: "hard" is yes or no, "soft" is in between, "mixed" is all three, "none" is none."""
    generator = rng(seed + 1)
    coin = torch.rand(*shape, generator=generator, dtype=F64)
    if evidence == "hard":
        return coin < 0.5
    if evidence == "none":
        return torch.zeros(tuple(shape), dtype=torch.bool)
    weights = 0.05 + 0.9 * torch.rand(*shape, generator=generator, dtype=F64)
    if evidence == "mixed":
        weights = torch.where(coin < 0.3, 0.0, torch.where(coin < 0.6, 1.0, weights))
    return weights


def ask(model: Any, seed: int = 0, evidence: str = "mixed", batch: int = 3, shape: Sequence[int] | None = None) -> Query:
    """A query that the model can be asked, with NaN wherever nothing is seen, and with at least one target per sample.

    Where a kind of variable may be seen as a fraction, soft and mixed evidence has fractions too.
    """
    shape = (batch, *(sample_shape(model) if shape is None else shape))
    truth, weights = draw_truth(model, seed, shape), draw_weights(seed, shape, evidence)
    values = truth
    if evidence in ("soft", "mixed") and isinstance(model, RBM | DBM | GridMRF):
        fraction = torch.rand(shape, generator=rng(seed + 2), dtype=F64)
        values = torch.where(torch.rand(shape, generator=rng(seed + 3)) < 0.4, fraction, truth)
    values = torch.where(weights == 0, math.nan, values)
    target = torch.rand(shape, generator=rng(seed + 4)) < 0.6
    target.view(batch, -1)[:, 0] = True
    if isinstance(model, GridMRF):
        truth = torch.randint(3, shape, generator=rng(seed + 5))
    return Query(values, weights, target, truth)


def clamped(query: Query) -> Tensor:
    """Where a bit is clamped."""
    values = torch.where(query.observed == 0, 0.5, query.values)
    return (query.observed == 1) & ((values == 0) | (values == 1))


# ---------------------------------------------------------------------------------------------------------------------
# Answers


def answer(marginals: Distribution) -> Tensor:
    """What defines a distribution: logits, or mean and variance."""
    if isinstance(marginals, Normal):
        return torch.stack([marginals.mean, marginals.variance])
    assert isinstance(marginals, Bernoulli | Categorical)
    return marginals.logits


def backends() -> Iterator[str]:
    """The body of a loop over this runs with the plain torch layers, then with the native kernels."""
    for name in ("torch", "auto"):
        with kernels.use(name):
            yield name


def ways(model: Any, query: Query, n: int) -> dict[str, Tensor]:
    """The answer after n layers by every road that leads there."""
    *_, last = model.layers(query, n)
    return {"layers": answer(last.marginals)} | {name: answer(model(query, n)) for name in backends()}


# ---------------------------------------------------------------------------------------------------------------------
# Graphs


@st.composite
def trees(draw: st.DrawFn, most_states: int = 4, most_variables: int = 6) -> dict[str, Any]:
    """Arguments of a PairwiseMRF that is a tree: edges either way round, some variables hidden."""
    n_states = draw(st.lists(st.integers(1, most_states), min_size=1, max_size=most_variables))
    edges = []
    for j in range(1, len(n_states)):
        i = draw(st.integers(0, j - 1))
        edges.append(draw(st.sampled_from([(i, j), (j, i)])))
    hidden = draw(st.lists(st.integers(0, len(n_states) - 1), unique=True, max_size=len(n_states) - 1))
    return {"n_states": n_states, "edges": edges, "hidden": hidden}


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a PairwiseMRF, with loops or without, in one piece or several."""
    n_states = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    pairs = list(itertools.combinations(range(len(n_states)), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=len(pairs)))
    edges = [draw(st.sampled_from([(i, j), (j, i)])) for i, j in chosen]
    hidden = draw(st.lists(st.integers(0, len(n_states) - 1), unique=True, max_size=len(n_states) - 1))
    return {"n_states": n_states, "edges": edges, "hidden": hidden}


@st.composite
def bipartite_trees(draw: st.DrawFn, most: int = 4, least_visible: int = 1) -> Tensor:
    """A mask [H, V] of weights that may differ from 0, so that an RBM is a tree."""
    n_hidden, n_visible = draw(st.integers(1, most)), draw(st.integers(least_visible, most))
    mask = torch.zeros(n_hidden, n_visible, dtype=F64)
    mask[0, 0] = 1
    later = draw(st.permutations([("h", i) for i in range(1, n_hidden)] + [("v", j) for j in range(1, n_visible)]))
    hidden, visible = [0], [0]
    for side, k in later:
        if side == "h":
            mask[k, draw(st.sampled_from(visible))] = 1
            hidden.append(k)
        else:
            mask[draw(st.sampled_from(hidden)), k] = 1
            visible.append(k)
    return mask


# ---------------------------------------------------------------------------------------------------------------------
# Factor graphs


def log_potentials(seed: int, shape: Sequence[int], zeros: float) -> Tensor:
    """Normal numbers, with −∞ for about such a share of them."""
    ruled_out = torch.rand(*shape, generator=rng(seed + 1), dtype=F64) < zeros
    return normal(seed, *shape).masked_fill(ruled_out, -math.inf)


def with_tables(n_states: Sequence[int], scopes: Sequence[Sequence[int]], ties: Sequence[bool], seed: int, zeros: float) -> Any:
    """Arguments of a FactorGraph: a factor shares the latest table of its shape if it is to be tied and there is one."""
    tables: dict[str, Tensor] = {}
    latest: dict[tuple[int, ...], str] = {}
    factors = []
    for k, (scope, tied) in enumerate(zip(scopes, ties, strict=True)):
        shape = tuple(n_states[i] for i in scope)
        if not tied or shape not in latest:
            latest[shape] = f"table_{k}"
            tables[f"table_{k}"] = log_potentials(seed + 10 * k, shape, zeros)
        factors.append((latest[shape], tuple(scope)))
    return {"n_states": list(n_states), "tables": tables, "factors": factors}


@st.composite
def factor_graphs(draw: st.DrawFn, zeros: bool = True) -> dict[str, Any]:
    """Arguments of a FactorGraph: orders 1 to 4, states 1 to 5, some tables shared, some variables hidden."""
    n_states = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5).filter(lambda sizes: math.prod(sizes) <= 400))
    variables = range(len(n_states))
    scope = st.lists(st.sampled_from(variables), unique=True, min_size=1, max_size=min(4, len(n_states)))
    scopes = draw(st.lists(scope, min_size=1, max_size=6))
    ties = [draw(st.booleans()) for _ in scopes]
    hidden = draw(st.lists(st.sampled_from(variables), unique=True, max_size=len(n_states) - 1))
    share = draw(st.sampled_from([0.0, 0.15, 0.4])) if zeros else 0.0
    return with_tables(n_states, scopes, ties, draw(seeds), share) | {"hidden": hidden}


@st.composite
def factor_trees(draw: st.DrawFn, zeros: bool = True) -> dict[str, Any]:
    """The same without loops: each further factor has one variable that is there already, and new ones."""
    n_states, scopes = [draw(st.integers(1, 4))], []
    for _ in range(draw(st.integers(1, 4))):
        new = draw(st.lists(st.integers(1, 3), max_size=3))
        own = [draw(st.integers(0, len(n_states) - 1)), *range(len(n_states), len(n_states) + len(new))]
        scopes.append(draw(st.permutations(own)))
        n_states += new
    ties = [draw(st.booleans()) for _ in scopes]
    hidden = draw(st.lists(st.integers(0, len(n_states) - 1), unique=True, max_size=len(n_states) - 1))
    share = draw(st.sampled_from([0.0, 0.15, 0.4])) if zeros else 0.0
    return with_tables(n_states, scopes, ties, draw(seeds), share) | {"hidden": hidden}


def possible_states(model: Any) -> Tensor:
    """All joint states of a factor graph that have a positive probability [states, n]."""
    total = torch.zeros(tuple(model.n_states), dtype=F64)
    for name, scopes in model.config()["factors"]:
        for scope in scopes:
            order = sorted(range(len(scope)), key=lambda axis: scope[axis])
            shape = [model.n_states[i] if i in scope else 1 for i in range(len(model.n_states))]
            total = total + model.tables[name].detach().permute(order).reshape(shape)
    return (~total.isneginf()).nonzero()


def ask_possible(model: Any, seed: int, evidence: str, batch: int = 2) -> Query | None:
    """A query whose evidence is that of states with a positive probability; None if there is none."""
    states = possible_states(model)
    if not len(states):
        return None
    rows = states[torch.randint(len(states), (batch,), generator=rng(seed))]
    visible = [i for i in range(len(model.n_states)) if i not in model.hidden]
    weights = draw_weights(seed, (batch, len(visible)), evidence)
    return Query(torch.where(weights == 0, math.nan, rows[:, visible].double()), weights, truth=rows[:, visible].double())
