"""Reweighted belief propagation against its equations loop by loop, spanning trees one by one, and enumeration."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import qtcore
from qtcore import BP, RBM, Exact, FactorGraph, GaussianRBM, PairwiseMRF, Query, Reweighted, kernels
from qtcore.errors import InputError, ModelFileError
from qtcore.inference import reweighted
from qtcore.inference.bp import bethe
from qtcore.inference.engine import named
from qtcore.inference.reweighted import attach, tree_probabilities
from qtcore.learn.coordinates import Coordinates
from qtcore.query import uniform

from ..strategies import EVIDENCE, F64, QUICK, answer, ask, backends, build, close, learnable, rng

WEIGHED = ("RBM", "DBM", "GridMRF", "PairwiseMRF")
every_kind = pytest.mark.parametrize("kind", WEIGHED)
Edge = tuple[int, int]


def weigh(model: Any, seed: int = 0) -> Any:
    """The same model with a random ρ for each table, below and above 1."""
    attach(model, 1.0)
    attach(model, torch.exp(0.6 * torch.randn(model.rho.shape, generator=rng(seed), dtype=F64)))
    return model


def as_lists(model: Any, query: Query, rho: Any) -> tuple[Any, list[list[float]], list[tuple[Edge, list[list[float]], float]]]:
    """The model as a factor graph, the unary terms with the evidence of its first row, and (edge, table, ρ) of each factor."""
    factors, evidence = model.graph().as_factors(model.evidence(query))
    rows = factors.wiring.on(evidence.device).rows
    alone = rows((factors.unary[:, None] + evidence).detach())[0]
    unary = [alone[i, :size].tolist() for i, size in enumerate(factors.wiring.n_states)]
    order = sorted({int(t) for group in factors.wiring.groups for t in group.tables})
    edges: dict[int, Any] = {}
    for group, tables in zip(factors.wiring.groups, factors.tables, strict=True):
        for scope, used, number in zip(group.scope.tolist(), group.table.tolist(), group.number.tolist(), strict=True):
            place = order.index(int(group.tables[used])) if rho is model.rho else number  # learned ones belong to tables
            weight = rho if isinstance(rho, float) else float(rho.flatten()[place])
            edges[number] = (tuple(scope), tables[used].tolist(), weight)
    return factors, unary, [edges[number] for number in sorted(edges)]


def power_sum(terms: list[float], T: float) -> float:
    """T log Σ exp(x/T); the largest at T = 0."""
    top = max(terms)
    if top == -math.inf or T == 0:
        return top
    return top + T * math.log(sum(math.exp((x - top) / T) for x in terms))


def by_loops(
    unary: list[list[float]], edges: list[tuple[Edge, list[list[float]], float]], n_layers: int, T: float, damping: float
) -> list[list[float]]:
    """Beliefs after so many layers. M_ts of the literature is exp(m_ts), and a message is a product of powers of others:
    log M_ts(x_s) = log Σ_{x_t} exp(θ_st/ρ + θ_t) ∏_{v≠s} M_vt^ρ / M_st^(1−ρ)."""
    log_M: dict[tuple[int, int], list[float]] = {}
    for e, ((i, j), _, _) in enumerate(edges):
        log_M[e, i], log_M[e, j] = [0.0] * len(unary[i]), [0.0] * len(unary[j])
    for _ in range(n_layers):
        new: dict[tuple[int, int], list[float]] = {}
        for e, ((i, j), table, rho) in enumerate(edges):
            for t, s in ((i, j), (j, i)):
                sent = []
                for x_s in range(len(unary[s])):
                    terms = []
                    for x_t, own in enumerate(unary[t]):
                        score = (table[x_t][x_s] if t == i else table[x_s][x_t]) / rho + own
                        for other, ((a, b), _, weight) in enumerate(edges):
                            if other != e and t in (a, b):
                                score += weight * log_M[other, t][x_t]
                        terms.append(score - (1 - rho) * log_M[e, t][x_t])
                    sent.append(power_sum(terms, T))
                top = max(sent)
                new[e, s] = [(1 - damping) * (x - top) + damping * before for x, before in zip(sent, log_M[e, s], strict=True)]
        log_M = new
    beliefs = [list(row) for row in unary]
    for e, ((i, j), _, rho) in enumerate(edges):
        for s in (i, j):
            beliefs[s] = [b + rho * m for b, m in zip(beliefs[s], log_M[e, s], strict=True)]
    return beliefs


def softmax(row: list[float]) -> list[float]:
    weights = [math.exp(x - max(row)) for x in row]
    return [w / sum(weights) for w in weights]


def probabilities(factors: Any, beliefs: list[list[float]]) -> tuple[Tensor, Tensor]:
    """Visible and hidden marginals from beliefs, in the model's own form."""
    width = max(map(len, beliefs))
    rows = torch.tensor([[*softmax(row), *[0.0] * (width - len(row))] for row in beliefs], dtype=F64)[None].log()
    visible, hidden = factors.answers(rows)
    return visible.probs, hidden.probs


@every_kind
@pytest.mark.parametrize("T", [1.0, 0.4, 0.0])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_layers_are_those_of_the_equations(kind: str, T: float, damping: float) -> None:
    model = weigh(build(kind, 3, 0.7), 1)
    for evidence, rho in itertools.product(EVIDENCE, (0.6, "trees", "learned")):
        query = ask(model, 3, evidence, batch=1)
        factors = model.graph().as_factors(model.evidence(query))[0]
        own = model.graph() if kind in ("RBM", "DBM") else factors
        weights = rho if isinstance(rho, float) else model.rho if rho == "learned" else tree_probabilities(own)
        _, unary, edges = as_lists(model, query, weights)
        for n in (0, 1, 4):
            engine = Reweighted(n, damping=damping, temperature=T, rho=rho)
            *_, layer = model.layers(query, engine=engine)
            visible, hidden = probabilities(factors, by_loops(unary, edges, n, T, damping))
            close(layer.marginals.probs, visible)
            close(layer.hidden.probs, hidden)
            for _ in backends():
                close(model(query, engine=engine).probs, visible)


@every_kind
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_with_weight_1_it_is_belief_propagation_bit_by_bit(kind: str, evidence: str) -> None:
    model = build(kind, 1)
    query = ask(model, 2, evidence)
    for T, damping in itertools.product((1.0, 0.4, 0.0), (0.0, 0.2)):
        how = {"n_layers": 6, "temperature": T, "damping": damping}
        for _ in backends():
            close(answer(model(query, engine=Reweighted(**how, rho=1))), answer(model(query, engine=BP(**how))), 0)
        attach(model, 1.0)
        engine = Reweighted(**how, rho="learned")
        with kernels.use("torch"):
            if kind == "GridMRF":  # rounded as the general factor graph is
                passing = BP(**how).factor_passing(model, query)
                expected = passing.after(6)
            else:
                expected = model(query, engine=BP(**how))
            close(answer(model(query, engine=engine)), answer(expected), 0)
            if kind != "GridMRF":
                for ours, theirs in zip(model.layers(query, engine=engine), model.layers(query, engine=BP(**how)), strict=True):
                    for one, other in ((ours.marginals, theirs.marginals), (ours.hidden, theirs.hidden)):
                        close(answer(one), answer(other), 0)
                    close(ours.residual, theirs.residual, 0)


def test_the_messages_that_are_shown_add_up_to_beliefs() -> None:
    rbm = weigh(build("RBM", 1, temperature=0.6))
    query = ask(rbm, 2, "soft")
    *_, layer = rbm.layers(query, engine=Reweighted(4, rho="learned"))
    expected = rbm.evidence(query).soft + rbm.c_v + layer.messages["to_visible"].sum(1)
    close(layer.marginals.logits, expected)
    pairs = weigh(build("PairwiseMRF", 1))
    query = ask(pairs, 2, "none", batch=1)
    *_, layer = pairs.layers(query, engine=Reweighted(4, rho="learned"))
    arrived = layer.messages["directed"][layer.messages["sink"] == 1].sum(0)  # at a visible variable of three states
    unary = pairs.graph().unary[2:5]
    close(layer.marginals.probs[0, 1, :3], torch.softmax(unary + arrived[0, :3], 0))


def test_a_grid_whose_beliefs_leave_its_own_evidence_out() -> None:
    model = build("GridMRF", 1, local_evidence=False)
    query = ask(model, 2, "soft")
    for T in (1.0, 0.4):
        attach(model, 1.0)
        engine = Reweighted(5, temperature=T, rho="learned")
        close(model(query, engine=engine).probs, model(query, engine=BP(5, temperature=T)).probs)
    narrow = ask(model, 2, "soft", shape=(1, 4))  # has edges of one direction alone
    weigh(model)
    expected = model(narrow, engine=Reweighted(4, rho=float(model.rho.detach()[1])))
    close(model(narrow, engine=Reweighted(4, rho="learned")).probs, expected.probs)


def doubled(model: PairwiseMRF) -> FactorGraph:
    """A graph with each edge twice, and half of its table on each."""
    tables = {f"edge {e}": model.graph().tables[g][k].detach() / 2 for e, (g, k) in enumerate(_places(model))}
    factors: list[Any] = [(f"edge {e}", [edge, edge]) for e, edge in enumerate(model.edges)]
    unary = model.graph().unary.detach().split(list(model.n_states))
    tables |= {f"unary {i}": own for i, own in enumerate(unary)}
    factors += [(f"unary {i}", [(i,)]) for i in range(len(model.n_states))]
    return FactorGraph(model.n_states, tables, factors, hidden=model.hidden, dtype=F64)


def _places(model: PairwiseMRF) -> list[tuple[int, int]]:
    groups = enumerate(model.wiring.groups)
    found = {int(n): (g, int(group.table[k])) for g, group in groups for k, n in enumerate(group.number)}
    return [found[n] for n in sorted(found)]


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_weight_2_is_belief_propagation_on_doubled_edges(evidence: str) -> None:
    model: PairwiseMRF = build("PairwiseMRF", 5, 0.8)
    query = ask(model, 1, evidence)
    twice = doubled(model)
    for n in range(5):
        close(model(query, engine=Reweighted(n, rho=2)).probs, twice(query, engine=BP(n)).probs)


# ---------------------------------------------------------------------- spanning trees and the bound


def spanning_forests(n: int, edges: list[Edge]) -> list[tuple[int, ...]]:
    """All largest sets of edges without a loop, by trying every set."""

    def joined(chosen: tuple[int, ...]) -> bool:
        part = list(range(n))
        for e in chosen:
            i, j = (part[v] for v in edges[e])
            if i == j:
                return False
            part = [i if p == j else p for p in part]
        return True

    for size in range(len(edges), -1, -1):
        found = [chosen for chosen in itertools.combinations(range(len(edges)), size) if joined(chosen)]
        if found:
            return found
    return [()]


@pytest.mark.parametrize(
    ("n", "edges"),
    [
        (4, [(0, 1), (2, 1), (2, 3), (0, 3), (0, 2)]),
        (5, [(0, 1), (1, 2), (0, 2), (3, 4)]),  # in two pieces
        (3, [(0, 1), (0, 1), (1, 2)]),  # an edge twice
        (4, [(0, 1), (1, 2), (2, 3)]),
        (6, [(0, 3), (0, 4), (0, 5), (1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)]),
    ],
)
def test_edge_probabilities_by_listing_all_trees(n: int, edges: list[Edge]) -> None:
    graph = FactorGraph((2,) * n, {f"{e}": [2, 2] for e in range(len(edges))}, [(f"{e}", [s]) for e, s in enumerate(edges)])
    trees = spanning_forests(n, edges)
    share = torch.tensor([sum(e in tree for tree in trees) / len(trees) for e in range(len(edges))])
    close(tree_probabilities(graph.graph()), share, 1e-6)
    if n == 6:  # three and three, every pair joined: an RBM
        close(tree_probabilities(RBM(3, 3).graph()).flatten(), share, 1e-6)


def exact_log_z(model: Any, query: Query) -> Tensor:
    """Given the evidence of each row, by enumeration."""
    factors, evidence = model.graph().as_factors(model.evidence(query))
    rows, table = factors.wiring.on(evidence.device).rows(evidence.detach()), qtcore.exact.joint(model).log_weights
    result = []
    for row in rows:
        scores = table
        for i, size in enumerate(table.shape):
            scores = scores + row[i, :size].reshape(-1, *[1] * (table.dim() - 1 - i))
        result.append(scores.flatten().logsumexp(0))
    return torch.stack(result)


CONVERGED = {"damping": 0.4, "until": 1e-9, "at_most": 5000}


@every_kind
@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_bound_is_above_log_z(kind: str, evidence: str, scale: float) -> None:
    for seed in range(1 if QUICK or kind == "GridMRF" else 3):
        model = build(kind, seed, scale)
        query = ask(model, seed, evidence, batch=2)
        exact = exact_log_z(model, query)
        attach(model, float(tree_probabilities(model.graph().as_factors(model.evidence(query))[0]).min()) / 2)
        with torch.no_grad():
            trees = reweighted.log_z(model, query, Reweighted(**CONVERGED, rho="trees"))
            looser = reweighted.log_z(model, query, Reweighted(**CONVERGED, rho="learned"))
        assert bool((exact <= trees + 1e-8).all())
        assert bool((trees <= looser + 1e-8).all())  # forests have fewer edges


def test_the_bound_holds_for_any_mixture_of_trees_and_not_for_weight_1() -> None:
    """On a frustrated loop the Bethe estimate is above log Z, on an attractive one below; the bound is above both."""
    below = 0
    for seed in range(12):
        model: PairwiseMRF = build("PairwiseMRF", seed, 1.5)
        nothing = ask(model, 0, "none", batch=1)
        trees = spanning_forests(4, list(model.edges))
        share = torch.rand(len(trees), generator=rng(seed), dtype=F64)
        share /= share.sum()
        weights = [sum(p for p, tree in zip(share, trees, strict=True) if e in tree) for e in range(5)]
        attach(model, torch.tensor(weights, dtype=F64))
        with torch.no_grad():
            exact = exact_log_z(model, nothing)
            assert bool((exact <= reweighted.log_z(model, nothing, Reweighted(**CONVERGED, rho="learned")) + 1e-8).all())
            below += int(bethe.log_z(model, nothing, BP(**CONVERGED)) < exact - 1e-4)
    assert below > 0


def test_on_a_tree_it_is_exact() -> None:
    model = PairwiseMRF((2, 3, 2, 2), [(0, 1), (1, 2), (1, 3)], dtype=F64)
    query = ask(model, 4, "mixed")
    with torch.no_grad():
        close(model(query, engine=Reweighted(6, rho="trees")).probs, model(query, engine=Exact()).probs)
        close(reweighted.log_z(model, query), exact_log_z(model, query), 1e-6)


@every_kind
def test_with_tree_weights_every_start_ends_at_the_same_place(kind: str) -> None:
    """Strong couplings, where belief propagation has several fixed points."""
    model = build(kind, 1, 3.0)
    query = ask(model, 2, "none", batch=1)
    ends = []
    for seed in range(3):
        engine = Reweighted(rho="trees", damping=0.5)
        state = engine.init(model, query)
        start = state.messages
        noise = rng(seed)
        parts = start if isinstance(start, tuple) else [start]
        shifted = [4 * torch.randn(part.shape, generator=noise, dtype=F64) for part in parts]
        state = state._replace(messages=type(start)(*shifted) if isinstance(start, tuple) else shifted[0])
        with torch.no_grad():
            for _ in range(2000):
                state, info = engine.step(state)
                if float(info["residual"].max()) < 1e-12:
                    break
        ends.append(engine.marginals(state).probs)
    for end in ends[1:]:
        close(end, ends[0], 1e-6)


# ---------------------------------------------------------------------- gradients, training, files


@every_kind
@pytest.mark.parametrize("evidence", ["mixed", "hard"])
def test_gradients_of_potentials_and_weights(kind: str, evidence: str) -> None:
    model = weigh(build(kind, 1, 0.5))
    query = ask(model, 2, evidence)
    names = [*learnable(model), "T"]
    assert "rho" in names

    for damping in (0.0, 0.2):
        engine = Reweighted(3, damping=damping, rho="learned")

        class Scored(torch.nn.Module):
            def __init__(self, engine: Reweighted) -> None:
                super().__init__()
                self.model, self.engine = model, engine

            def forward(self) -> Tensor:
                return model.loss(query, engine=self.engine)

        scored, state = Scored(engine), dict(model.named_parameters())

        def losses(*tensors: Tensor, scored: Scored = scored) -> Tensor:
            return functional_call(scored, {f"model.{name}": tensor for name, tensor in zip(names, tensors, strict=True)})

        leaves = [state[name].detach().clone().requires_grad_() for name in names]
        assert torch.autograd.gradcheck(losses, leaves, fast_mode=QUICK or kind != "RBM")


def copies(rows: int = 80) -> Tensor:
    """Rows of six equal bits."""
    return (torch.rand(rows, 1, generator=rng(0)) < 0.5).float().expand(rows, 6).clone()


def learner(**options: Any) -> RBM:
    torch.manual_seed(1)
    model = RBM(6, 3, **options)
    model.engine = Reweighted(4, damping=0.1, rho="learned")
    return model


def test_weights_are_learned_by_the_same_fit_and_stay_positive() -> None:
    model = learner(temperature=2.0, learn_temperature=True)
    query = uniform()(copies(), rng(3))
    with pytest.raises(InputError, match="has learned no edge weights; train it with this engine"):
        model(query)
    before = float(model.loss(query, engine=Reweighted(4, damping=0.1, rho=1)).detach())
    qtcore.fit(model, copies(), steps=60, batch=20, learning_rate=0.3)  # so large that a plain ρ would turn negative
    assert model.rho is not None
    assert float(model.loss(query).detach()) < 0.5 * before
    assert bool((model.rho > 0).all())
    assert float(model.rho.detach().min()) < 0.9
    assert float(model.rho.detach().max()) > 1.1
    kept = model.rho.detach().clone()
    qtcore.fit(model, copies(), steps=5, batch=20, engine=BP(4))  # which has no use for them
    close(model.rho, kept, 1e-6)


def test_a_coordinate_of_a_weight_is_its_logarithm_at_every_temperature() -> None:
    model = learner(temperature=2.0, learn_temperature=True)
    model.engine.prepare(model)
    attach(model, 0.7)
    model.engine.prepare(model)
    coordinates = Coordinates(model)
    close(coordinates.tensors["rho"], torch.full((3, 6), 0.7).log(), 1e-6)
    values = coordinates.values({**coordinates.tensors, "T": torch.tensor(9.0)})
    close(values["rho"], torch.full((3, 6), 0.7), 1e-6)
    close(values["W"], model.W / 2 * 9, 1e-6)


def test_a_training_goes_on_bit_by_bit(tmp_path: Path) -> None:
    def train(folder: Path, **options: Any) -> RBM:
        model = learner(learn_temperature=True)
        queries = uniform(0.4)
        how = {"batch": 20, "learning_rate": 0.05, "averaging": 0.9, "save_every": 5, "validate_every": 5} | options
        qtcore.fit(model, copies(), copies(20), queries, folder=folder, **how)
        return model

    whole = train(tmp_path / "whole", steps=20)
    seen: list[int] = []
    train(tmp_path / "parts", steps=20, callback=lambda progress: (seen.append(progress.step), progress.step == 10)[1])
    assert seen[-1] == 10
    resumed = train(tmp_path / "parts", steps=20, resume=True)
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, dict(resumed.named_parameters())[name]), name
    best = qtcore.load(tmp_path / "parts" / "best.safetensors")
    assert torch.equal(best.rho, whole.rho)  # type: ignore[arg-type]


def test_a_file_keeps_weights_and_engine(tmp_path: Path) -> None:
    model = qtcore.fit(learner(), copies(), steps=3, batch=20)
    path = tmp_path / "model.safetensors"
    query = uniform()(copies(), rng(3))
    model.save(path)
    again = qtcore.load(path)
    assert again.engine == model.engine
    assert torch.equal(again(query).probs, model(query).probs)
    assert again.rho is not None
    assert again.rho.requires_grad
    fixed = RBM(6, 3)
    attach(fixed, 0.5)
    for engine in (BP(3), Reweighted(3), Reweighted(3, rho=0.25), Reweighted(3, rho="trees")):
        fixed.engine = engine
        fixed.save(path)
        again = qtcore.load(path)
        assert again.engine == engine
        assert again.rho is not None
        assert not again.rho.requires_grad
        assert torch.equal(again(query).probs, fixed(query).probs)
    with torch.no_grad():
        fixed.rho[0, 0] = -1  # type: ignore[index]
    fixed.save(path)
    with pytest.raises(ModelFileError, match="holds numbers in rho that are not positive"):
        qtcore.load(path)
    gaussian: Any = GaussianRBM(4, 3)
    gaussian.register_parameter("rho", torch.nn.Parameter(torch.ones(3, 4)))
    gaussian.save(path)
    with pytest.raises(ModelFileError, match="not for a Gaussian RBM"):
        qtcore.load(path)


@pytest.mark.parametrize("kind", ["GridMRF", "PairwiseMRF"])
def test_graphs_learn_and_keep_theirs(kind: str, tmp_path: Path) -> None:
    model = build(kind, 1, 0.5, dtype=torch.float32)
    model.engine = Reweighted(3, rho="learned")
    query = ask(model, 2)
    values = query.values.nan_to_num(0.0).floor()
    data: Any = (values, query.truth) if kind == "GridMRF" else values
    qtcore.fit(model, data, steps=3, batch=2, learning_rate=0.1)
    assert bool((model.rho != 1).all())
    assert model.rho.shape == ((4,) if kind == "GridMRF" else (5,))
    model.save(tmp_path / "model.safetensors")
    again = qtcore.load(tmp_path / "model.safetensors")
    assert torch.equal(answer(again(query)), answer(model(query)))


# ---------------------------------------------------------------------- what is refused, zeros, options


def test_what_cannot_be_reweighted_is_refused() -> None:
    gaussian = build("GaussianRBM")
    three = build("FactorGraph")
    rule = FactorGraph((2, 2), {"one": "exactly one"}, [("one", (0, 1))])
    refused = (gaussian, "not for a Gaussian RBM"), (three, "a factor of 3 variables"), (rule, "the logic factor")
    for model, message in refused:
        for use in (lambda model=model: model(ask(model), engine=Reweighted()), lambda model=model: attach(model)):
            with pytest.raises(InputError, match=message):
                use()
        with pytest.raises(InputError, match=r"Gaussian|discrete" if model is gaussian else message):
            reweighted.log_z(model, ask(model))
    pairs = build("PairwiseMRF")
    with pytest.raises(InputError, match="schedule must be 'flooding'"):
        pairs(ask(pairs), engine=Reweighted(schedule="residual"))
    with pytest.raises(InputError, match="needs the temperature 1"):
        reweighted.log_z(pairs, ask(pairs), Reweighted(temperature=0.5))
    for rho in (0, -1.0, math.inf, math.nan, True, "tree"):
        with pytest.raises(InputError, match="rho must be a number > 0, 'trees' or 'learned'"):
            Reweighted(rho=rho)
    with pytest.raises(InputError, match="give each table its own with"):
        Reweighted(rho=torch.ones(3))  # type: ignore[arg-type]
    for wrong, message in ((torch.ones(3), "one for each table"), (0.0, "must be > 0"), (math.nan, "must be > 0")):
        with pytest.raises(InputError, match=message):
            attach(RBM(4, 3), wrong)
    lattice = FactorGraph.chain(6000, 2)
    with pytest.raises(InputError, match="spanning trees are counted for up to 5000 variables; this graph has 6000"):
        lattice(lattice.query({}), engine=Reweighted(rho="trees"))
    lattice(lattice.query({}), engine=Reweighted(2, rho=0.5))


@pytest.mark.parametrize("T", [1.0, 0.0])
def test_zeros_in_tables_stay_exact(T: float) -> None:
    table = torch.tensor([[0.3, -torch.inf], [0.1, 0.7]], dtype=F64)
    other = torch.tensor([[-torch.inf, 0.2], [0.5, -0.4]], dtype=F64)
    graph = FactorGraph((2, 2, 2), {"a": table, "b": other}, [("a", [(0, 1), (1, 2)]), ("b", [(0, 2)])], dtype=F64)
    attach(graph, torch.tensor([0.6, 1.5], dtype=F64))
    query = graph.query({})
    factors, unary, edges = as_lists(graph, query, graph.rho)
    for n in (1, 3):
        expected, _ = probabilities(factors, by_zeros(unary, edges, n, T))
        close(graph(query, engine=Reweighted(n, temperature=T, rho="learned")).probs, expected)
    with pytest.raises(InputError, match="leaves the variable"):
        graph(graph.query({0: 0, 1: 1}), engine=Reweighted(4, rho=0.5))
    engine = Reweighted(3, rho="learned", damping=0.2)
    graph.rho.requires_grad_()  # type: ignore[union-attr]
    graph(query, engine=engine).probs[0, 0, 0].backward()
    assert graph.rho is not None
    assert graph.rho.grad is not None
    assert bool(graph.rho.grad.isfinite().all())


def by_zeros(unary: Any, edges: Any, n: int, T: float) -> list[list[float]]:
    """`by_loops` with −1e6 for −∞, which is as good as none here, and no difference of two infinities."""
    soft = [(edge, [[max(x, -1e6) for x in row] for row in table], rho) for edge, table, rho in edges]
    return by_loops(unary, soft, n, T, 0.0)


def test_options_are_the_models_own_where_they_are_left_open() -> None:
    model = weigh(build("RBM", 1, n_layers=3))
    query = ask(model, 2)
    close(answer(model(query, engine=Reweighted())), answer(model(query, engine=Reweighted(3, rho="learned"))), 0)
    model.engine = Reweighted(4, damping=0.3, rho=0.5)
    close(answer(model(query)), answer(model(query, engine=Reweighted(4, 0.3, rho=0.5))), 0)
    close(answer(model(query, engine=Reweighted(rho="trees"))), answer(model(query, engine=Reweighted(4, 0.3, rho="trees"))), 0)
    close(answer(model(query, engine=BP())), answer(model(query, engine=BP(4, 0.0))), 0)
    bare = build("RBM", 1)
    close(answer(bare(query, engine=Reweighted())), answer(bare(query, engine=Reweighted(rho="trees"))), 0)
    assert named("reweighted", rho=0.5) == Reweighted(rho=0.5)
    both = model(query), model(query, engine=Reweighted(until=1e-9, at_most=4))
    close(answer(both[0]), answer(both[1]), 1e-9)


def test_a_graph_without_edges() -> None:
    lonely = PairwiseMRF((2, 3), [], dtype=F64)
    query = Query(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool))
    close(lonely(query, engine=Reweighted(2)).probs, lonely(query, engine=Exact()).probs)
