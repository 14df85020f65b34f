"""What must not matter: names of states, signs of bits, the unit of temperature, damping at a fixed point."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qtcore import BP, RBM, GaussianRBM, GridMRF, PairwiseMRF, Query

from ..strategies import (
    F64,
    KINDS,
    TEMPERED,
    answer,
    ask,
    backends,
    build,
    clamped,
    close,
    evidences,
    examples,
    graphs,
    kinds,
    learnable,
    randomise,
    rng,
    seeds,
)

HOW = {"n_layers": 4, "temperature": 0.7, "damping": 0.2, "dtype": F64}


def copy(model: Any, **tensors: Any) -> Any:
    """The same model with other numbers in some of its stored tensors."""
    options = {"temperature": float(model.T.detach())} if hasattr(model, "T") else {}
    other = type(model)(**model.config(), **options, dtype=model.dtype)
    other.load_state_dict(model.state_dict())
    stored = dict(other.named_parameters())
    with torch.no_grad():
        for name, value in tensors.items():
            stored[name.replace("__", ".")].copy_(value)
    return other


# ---------------------------------------------------------------------------------------------------------------------
# Relabelling


@given(graphs(), seeds, evidences)
def test_renaming_states_renames_the_answer(graph: Any, seed: int, evidence: str) -> None:
    model = randomise(PairwiseMRF(**graph, **HOW), seed)
    query = ask(model, seed, evidence)
    new = [torch.randperm(S, generator=rng(seed + i)) for i, S in enumerate(model.n_states)]  # new[i][s] was state s
    renamed = copy(model)
    with torch.no_grad():
        for i, order in enumerate(new):
            renamed.unary[i].copy_(model.unary[i][order])
        for e, (i, j) in enumerate(model.edges):
            renamed.pairwise[e].copy_(model.pairwise[e][new[i]][:, new[j]])
    visible = [i for i in range(len(new)) if i not in model.hidden]
    values = query.values.clone()
    for column, i in enumerate(visible):
        seen = query.observed[:, column] != 0
        values[seen, column] = new[i].argsort()[query.values[seen, column].long()].double()
    for old, other in zip(model.layers(query), renamed.layers(Query(values, query.observed)), strict=True):
        close(old.residual, other.residual)
        for column, i in enumerate(visible):
            S = model.n_states[i]
            close(other.marginals.logits[:, column, :S], old.marginals.logits[:, column, new[i]])


@given(graphs(), seeds, evidences)
def test_renaming_variables_renames_the_answer(graph: Any, seed: int, evidence: str) -> None:
    """The order of variables and of edges, and which end of an edge is named first, are bookkeeping."""
    graph = graph | {"hidden": []}
    model = randomise(PairwiseMRF(**graph, **HOW), seed)
    query = ask(model, seed, evidence)
    n = len(model.n_states)
    order = torch.randperm(n, generator=rng(seed)).tolist()  # variable k of the new graph was order[k]
    place = {old: k for k, old in enumerate(order)}
    edges = [(place[j], place[i]) for i, j in reversed(model.edges)]
    renamed = PairwiseMRF([model.n_states[i] for i in order], edges, **HOW)
    with torch.no_grad():
        for k, old in enumerate(order):
            renamed.unary[k].copy_(model.unary[old])
        for e, table in enumerate(reversed(list(model.pairwise))):
            renamed.pairwise[e].copy_(table.T)
    asked = Query(query.values[:, order], query.observed[:, order])
    close(renamed(asked).logits, model(query).logits[:, order])


@given(seeds, evidences)
def test_flipping_a_bit_flips_its_answer(seed: int, evidence: str) -> None:
    """In ±1 form a bit's sign is the sign of its weights and of its bias."""
    model = randomise(RBM(4, 3, **HOW), seed)
    query = ask(model, seed, evidence)
    v = torch.where(torch.rand(4, generator=rng(seed)) < 0.5, -1.0, 1.0).double()
    h = torch.where(torch.rand(3, generator=rng(seed + 1)) < 0.5, -1.0, 1.0).double()
    flipped = copy(model, W=model.W * v * h[:, None], c_v=model.c_v * v, c_h=model.c_h * h)
    values = torch.where(v > 0, query.values, 1 - query.values)
    asked = Query(values, query.observed)
    for old, other in zip(model.layers(query), flipped.layers(asked), strict=True):
        close(other.marginals.logits, old.marginals.logits * v)
        close(other.hidden.logits, old.hidden.logits * h)
        close(other.residual, old.residual)
    close(flipped(asked).logits, model(query).logits * v)


@given(seeds, evidences)
def test_negating_a_pixel_negates_its_mean(seed: int, evidence: str) -> None:
    model = randomise(GaussianRBM(4, 3, n_layers=4, dtype=F64), seed)
    query = ask(model, seed, evidence)
    sign = torch.where(torch.rand(4, generator=rng(seed)) < 0.5, -1.0, 1.0).double()
    negated = copy(model, W=model.W * sign, b=model.b * sign)
    result, old = negated(Query(query.values * sign, query.observed)), model(query)
    close(result.mean, old.mean * sign)
    close(result.variance, old.variance)


def mirrored(model: GridMRF, how: str) -> GridMRF:
    """The model of mirrored images."""
    p = {name: table.detach() for name, table in model.potentials.items()}
    if how == "transposed":
        new = {
            "vertical": p["horizontal"],
            "horizontal": p["vertical"],
            "diagonal": p["diagonal"],
            "antidiagonal": p["antidiagonal"].T,
        }
    else:  # left and right exchanged
        new = {
            "vertical": p["vertical"],
            "horizontal": p["horizontal"].T,
            "diagonal": p["antidiagonal"].T,
            "antidiagonal": p["diagonal"].T,
        }
    return copy(model, **{f"potentials__{name}": table for name, table in new.items()})


@pytest.mark.parametrize(("how", "mirror"), [("transposed", lambda x: x.transpose(1, 2)), ("exchanged", lambda x: x.flip(2))])
@given(seed=seeds, evidence=evidences)
def test_mirrored_images_have_mirrored_answers(how: str, mirror: Any, seed: int, evidence: str) -> None:
    model = randomise(GridMRF(3, 4, clones=(2, 1, 1), n_layers=3, dtype=F64), seed)
    query = ask(model, seed, evidence, batch=2)
    other = mirrored(model, how)
    for _ in backends():
        close(other(Query(mirror(query.values), mirror(query.observed))).logits, mirror(model(query).logits))


@given(seeds, evidences)
def test_the_order_of_clones_does_not_matter(seed: int, evidence: str) -> None:
    model = randomise(GridMRF(2, 3, clones=(3, 2, 1), n_layers=3, dtype=F64), seed)
    query = ask(model, seed, evidence)
    order = torch.cat([torch.randperm(3, generator=rng(seed)), 3 + torch.randperm(2, generator=rng(seed)), torch.tensor([5])])
    other = copy(model, **{f"potentials__{name}": table[order][:, order] for name, table in model.potentials.items()})
    close(other(query).logits, model(query).logits)


@given(kinds, seeds, evidences)
def test_samples_of_a_batch_do_not_meet(kind: str, seed: int, evidence: str) -> None:
    model = build(kind, seed)
    query = ask(model, seed, evidence, batch=4)
    order = [2, 0, 3, 1]
    axis = 1 if kind == "GaussianRBM" else 0
    for _ in backends():
        together = answer(model(query))
        close(answer(model(query[order])), together.index_select(axis, torch.tensor(order)), 1e-12)
        close(answer(model(query[1:2])), together.narrow(axis, 1, 1), 1e-12)


@given(kinds, seeds, evidences)
def test_a_query_may_be_a_view(kind: str, seed: int, evidence: str) -> None:
    """Every other sample, stored the other way round. A transposed image once stopped the grid's native kernel."""
    model = build(kind, seed)
    query = ask(model, seed, evidence, batch=4)

    def view(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)[::2]

    viewed = Query(view(query.values), view(query.observed), view(query.target), view(query.truth))
    for _ in backends():
        close(answer(model(viewed)), answer(model(query[::2])), 1e-12)
        close(model.loss(viewed), model.loss(query[::2]), 1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Temperature


@pytest.mark.parametrize("T", [0.3, 2.5])
@given(seed=seeds, evidence=evidences)
def test_temperature_is_a_unit_for_bits(T: float, seed: int, evidence: str) -> None:
    """Running at T with θ and u is T times running at 1 with θ/T and u/T (hard evidence need not be scaled)."""
    model = randomise(RBM(4, 3, n_layers=4, temperature=T, damping=0.1, dtype=F64), seed)
    query = ask(model, seed, evidence)
    scaled = copy(model, W=model.W / T, c_v=model.c_v / T, c_h=model.c_h / T, T=torch.tensor(1.0))
    w, v = query.observed.double(), query.values.nan_to_num()
    u = torch.logit(w * v + (1 - w) / 2)
    asked = Query(torch.where(w > 0, torch.sigmoid(u / T), 0), w > 0)
    free = ~clamped(query)
    close(model(query).logits[free], T * scaled(asked).logits[free])


@pytest.mark.parametrize("T", [0.3, 2.5])
@given(graph=graphs(), seed=seeds, evidence=evidences)
def test_temperature_is_a_unit_for_categories(T: float, graph: Any, seed: int, evidence: str) -> None:
    model = randomise(PairwiseMRF(**graph, n_layers=4, temperature=T, dtype=F64), seed)
    query = ask(model, seed, evidence)
    scaled = copy(model, **{name: tensor / T for name, tensor in learnable(model).items()}, T=torch.tensor(1.0))
    sizes = torch.tensor([S for i, S in enumerate(model.n_states) if i not in model.hidden])
    w, v = query.observed.double()[..., None], query.values.nan_to_num()[..., None]
    states = torch.arange(max(model.n_states))
    phi = torch.where(states < sizes[:, None], w * (v == states) + (1 - w) / sizes[:, None], 0)
    expected = (T * scaled(Query(phi ** (1 / T), torch.ones(query.shape))).logits).log_softmax(-1)
    possible = phi > 0
    close(model(query).logits[possible], expected[possible])


@pytest.mark.parametrize("kind", TEMPERED)
@given(seed=seeds, evidence=evidences)
def test_low_temperature_tends_to_max_product(kind: str, seed: int, evidence: str) -> None:
    """T log Σ exp(x/T) is at most T log S above the maximum, so the answers close in on those at 0 as fast as T does."""
    model = build(kind, seed, n_layers=4, temperature=0.0)
    query = ask(model, seed, evidence)

    def states(T: float) -> torch.Tensor:
        model.T.data.fill_(T)
        *_, last = model.layers(query)
        return answer(last.hidden if kind == "GridMRF" else last.marginals).detach()

    limit = states(0.0)
    shown = limit.isfinite() & (limit.abs() < 900)
    errors = [float((states(T) - limit)[shown].abs().max()) if shown.any() else 0.0 for T in (0.1, 0.01, 0.001)]
    # each of 4 layers adds at most T log 4 to each of at most 8 messages that meet; what is left of it shrinks with T
    assert all(error <= 8**4 * T * 1.4 for error, T in zip(errors, (0.1, 0.01, 0.001), strict=True))
    assert errors[2] <= max(0.25 * errors[0], 1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Damping


@pytest.mark.parametrize("kind", KINDS)
@examples(4)
@given(seed=seeds, evidence=evidences)
def test_damping_leaves_fixed_points_alone(kind: str, seed: int, evidence: str) -> None:
    """Weak coupling converges; from there on the damped and the undamped layers stand still at the same place."""
    model = build(kind, seed, scale=0.25)
    query = ask(model, seed, evidence)
    *_, last = model.layers(query, engine=BP(until=1e-13, at_most=120))
    assert bool((last.residual < 1e-12).all())
    for damping in (0.3, 0.7):
        *_, damped = model.layers(query, engine=BP(until=1e-13, at_most=250, damping=damping))
        assert bool((damped.residual < 1e-12).all())
        close(answer(damped.marginals), answer(last.marginals))
        close(answer(damped.hidden), answer(last.hidden))


@given(kinds, seeds, st.sampled_from([0.2, 0.5, 0.9]))
def test_the_first_damped_layer_goes_part_of_the_way(kind: str, seed: int, damping: float) -> None:
    """m ← (1 − d)·new + d·old for every message, in logits, logs or natural parameters."""
    model = build(kind, seed)
    query = ask(model, seed)
    start, full = model.layers(query, 1)
    model.damping = damping
    _, damped = model.layers(query, 1)
    for name in full.messages.keys() - {"source", "sink"}:
        if kind == "GaussianRBM" and name != "to_hidden":
            continue  # these already depend on the fresh messages to the hidden units
        close(damped.messages[name], (1 - damping) * full.messages[name] + damping * start.messages[name], 1e-12)
    if kind != "GaussianRBM":
        close(damped.residual, (1 - damping) * full.residual, 1e-12)
