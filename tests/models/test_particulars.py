"""What single models promise: textbook RBMs, pseudo-likelihood, grids of any size, likelihoods, schedules."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import qtcore
from qtcore import RBM, GaussianRBM, GridMRF, PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.query import one_target

from .. import oracle as exact
from ..strategies import F64, answer, ask, backends, build, close, graphs, normal, randomise, rng, seeds

# ---------------------------------------------------------------------------------------------------------------------
# RBM: the textbook's convention


def textbook_log_weights(W: Tensor, b_v: Tensor, b_h: Tensor) -> Tensor:
    """hᵀWv + b_vᵀv + b_hᵀh for every v [2^V] and h [2^H], state by state."""
    H, V = W.shape
    table = []
    for v in itertools.product((0.0, 1.0), repeat=V):
        for h in itertools.product((0.0, 1.0), repeat=H):
            vector, units = torch.tensor(v, dtype=F64), torch.tensor(h, dtype=F64)
            table.append(units @ W @ vector + b_v @ vector + b_h @ units)
    return torch.stack(table).view(2**V, 2**H)


@given(st.integers(1, 3), st.integers(1, 3), seeds)
def test_a_textbook_rbm_is_the_same_distribution(V: int, H: int, seed: int) -> None:
    W, b_v, b_h = normal(seed, H, V, scale=2.0), normal(seed + 1, V), normal(seed + 2, H)
    model = RBM.from_textbook(W, b_v, b_h)
    assert model.dtype == F64
    assert float(model.T) == 1
    weights = textbook_log_weights(W, b_v, b_h)
    log_p = weights.logsumexp(1) - weights.logsumexp((0, 1))
    every_v = torch.tensor(list(itertools.product((0.0, 1.0), repeat=V)), dtype=F64)
    close(exact.log_likelihood(model, every_v), log_p)
    for result, given_tensor in zip(model.to_textbook(), (W, b_v, b_h), strict=True):
        close(result, given_tensor, 1e-12)


def test_a_textbook_rbm_that_is_a_tree_has_exact_marginals() -> None:
    W, b_v, b_h = normal(0, 1, 3, scale=2.0), normal(1, 3), normal(2, 1)
    weights = textbook_log_weights(W, b_v, b_h).logsumexp(1).softmax(0)
    every_v = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)), dtype=F64)
    result = RBM.from_textbook(W, b_v, b_h, n_layers=2)(Query(torch.zeros(1, 3), torch.zeros(1, 3)))
    close(result.probs[0], weights @ every_v)


def test_from_textbook_takes_options_and_plain_numbers() -> None:
    model = RBM.from_textbook([[1, 2]], [0, 0], [0], n_layers=3, damping=0.1)  # type: ignore[arg-type]
    assert (model.n_layers, model.damping, model.dtype) == (3, 0.1, torch.float32)
    assert model.W.tolist() == [[0.5, 1.0]]
    with pytest.raises(InputError, match=r"expected W \[H, V\], b_v \[V\], b_h \[H\]"):
        RBM.from_textbook(torch.zeros(2, 3), torch.zeros(2), torch.zeros(3))


# ---------------------------------------------------------------------------------------------------------------------
# PairwiseMRF


@given(graphs(), seeds, st.integers(1, 3))
def test_one_target_gives_exactly_the_pseudo_likelihood(graph: Any, seed: int, n_layers: int) -> None:
    """With all other variables seen, −log p(x_i | x_rest), loops or not, from the first layer on."""
    model = randomise(PairwiseMRF(**(graph | {"hidden": []}), dtype=F64, n_layers=n_layers), seed, 2.0)
    n = len(model.n_states)
    x = torch.floor(torch.rand(n, generator=rng(seed)) * torch.tensor(model.n_states)).long()
    joint = exact.Discrete.pairwise(list(model.unary), model.edges, list(model.pairwise)).log_weights
    expected = []
    for i in range(n):
        slice_: list[Any] = x.tolist()
        slice_[i] = slice(None)
        expected.append(-joint[tuple(slice_)].log_softmax(0)[x[i]])
    query = Query(x.expand(n, n), ~torch.eye(n, dtype=torch.bool))
    losses, target = model.nll(query)
    assert torch.equal(target, torch.eye(n, dtype=torch.bool))
    close(losses.diagonal(), torch.stack(expected), 1e-12)
    close(model.loss(query), torch.stack(expected).mean(), 1e-12)
    drawn = one_target()(x.expand(6, n), rng(seed))
    close(model.loss(drawn), torch.stack(expected)[drawn.target.nonzero()[:, 1]].mean(), 1e-12)


@given(graphs(), seeds)
def test_a_value_is_the_likelihood_of_that_value_alone(graph: Any, seed: int) -> None:
    """Whole numbers and one-hot likelihoods of any size are the same evidence, hard or soft."""
    model = randomise(PairwiseMRF(**graph, dtype=F64), seed)
    query = ask(model, seed, "mixed")
    states = torch.arange(max(model.n_states))
    likelihoods = 7.0 * (query.values.nan_to_num()[..., None] == states).double()
    close(answer(model(Query(likelihoods, query.observed))), answer(model(query)), 1e-12)


def test_likelihoods_are_soft_readings_by_hand() -> None:
    model = PairwiseMRF([4], [], dtype=F64)
    likelihoods = torch.tensor([[[1.0, 0.0, 3.0, 0.0]]], dtype=F64)
    close(model(Query(likelihoods, torch.ones(1, 1))).probs, torch.tensor([[[0.25, 0, 0.75, 0]]]))
    weight = torch.tensor([[0.2]], dtype=F64)
    close(model(Query(likelihoods, weight)).probs, torch.tensor([[[0.25, 0.2, 0.35, 0.2]]], dtype=F64))


def test_padding_of_likelihoods_is_never_read() -> None:
    model = build("PairwiseMRF")
    values = torch.rand(2, 3, 4, generator=rng(0), dtype=F64)
    expected = answer(model(Query(values, torch.ones(2, 3))))
    values[:, 0, 2:] = 99.0  # the first variable has two states
    assert torch.equal(answer(model(Query(values, torch.ones(2, 3)))), expected)


def test_a_graph_of_constants_is_a_tuple() -> None:
    """A model's configuration cannot be changed behind its back."""
    edges = [(0, 1)]
    model = PairwiseMRF([2, 2], edges, hidden=[1])
    edges.append((1, 0))
    assert (model.n_states, model.edges, model.hidden) == ((2, 2), ((0, 1),), (1,))


# ---------------------------------------------------------------------------------------------------------------------
# GridMRF


@pytest.mark.parametrize("size", [(1, 1), (2, 4), (5, 1), (4, 3)])
def test_a_grid_of_any_size_at_query_time(size: tuple[int, int]) -> None:
    """The potentials are shared by all pixels, so a model of 3×3 answers as one of that size would."""
    model = build("GridMRF", 1)
    other = GridMRF(*size, clones=(2, 1, 1), n_layers=5, dtype=F64)
    other.load_state_dict(model.state_dict())
    query = ask(other, 2)
    for _ in backends():
        assert torch.equal(answer(model(query)), answer(other(query)))
        close(model.loss(query), other.loss(query), 1e-12)
    for result, expected in zip(model.layers(query), other.layers(query), strict=True):
        assert torch.equal(answer(result.hidden), answer(expected.hidden))


def test_local_evidence_is_in_the_belief_or_not() -> None:
    """Without it a pixel's belief is what its neighbours say, and differs by exactly the pixel's own evidence."""
    model = build("GridMRF", 1)
    query = ask(model, 2, "hard")
    other = GridMRF(2, 3, clones=(2, 1, 1), n_layers=5, local_evidence=False, dtype=F64)
    other.load_state_dict(model.state_dict())
    on = torch.where(query.values[..., None].nan_to_num() == 1, model.emission, 1 - model.emission)
    evidence = torch.where(query.observed[..., None], on, 1.0).log()
    for _ in backends():
        close((other(query).logits + evidence).log_softmax(-1), model(query).logits)


def test_a_grid_scores_every_pixel_unless_told_otherwise() -> None:
    model = build("GridMRF", 1)
    values, truth = torch.zeros(2, 2, 3), torch.ones(2, 2, 3)
    everything = Query(values, torch.ones(2, 2, 3, dtype=torch.bool), truth=truth)
    losses, target = model.nll(everything)
    assert bool(target.all())
    close(model.loss(everything), -model(everything).log_prob(truth).mean(), 1e-12)
    some = torch.rand(2, 2, 3, generator=rng(0)) < 0.5
    asked = Query(values, torch.ones(2, 2, 3, dtype=torch.bool), some, truth)
    close(model.loss(asked), losses[some].mean(), 1e-12)


def test_labels_are_contour_out_in() -> None:
    """An isolated pixel: its label follows from the emission and the number of clones."""
    model = GridMRF(1, 1, clones=(2, 1, 1), dtype=F64)
    model.emission.data.copy_(torch.tensor([0.8, 0.1, 0.05]))
    on, off = (model(Query(torch.tensor([[[v]]]), torch.ones(1, 1, 1))).probs[0, 0, 0] for v in (1.0, 0.0))
    close(on, torch.tensor([1.6, 0.1, 0.05], dtype=F64) / 1.75, 1e-7)
    close(off, torch.tensor([0.4, 0.9, 0.95], dtype=F64) / 2.25, 1e-7)


# ---------------------------------------------------------------------------------------------------------------------
# GaussianRBM


def test_schedules_differ_on_the_way_and_agree_at_the_end() -> None:
    sequential = randomise(GaussianRBM(4, 3, dtype=F64), 1, 0.4)
    flooding = GaussianRBM(4, 3, schedule="flooding", dtype=F64)
    flooding.load_state_dict(sequential.state_dict())
    query = ask(sequential, 2)
    assert not torch.allclose(answer(sequential(query, 1)), answer(flooding(query, 1)))
    close(answer(sequential(query, 100)), answer(flooding(query, 200)))


def test_floors_are_shown_in_the_layers_information() -> None:
    model = randomise(GaussianRBM(3, 6, n_layers=6, dtype=F64), 1, 2.0)
    query = ask(model, 6, "none")
    counts = torch.stack([layer.info["floored"] for layer in model.layers(query)])
    assert counts.shape == (7, 3)
    assert not counts[0].any()
    assert bool((counts.sum(0) > 0).all())
    weak = randomise(GaussianRBM(3, 6, n_layers=6, dtype=F64), 1, 0.1)
    assert not any(layer.info["floored"].any() for layer in weak.layers(query))


def test_gaussian_messages_are_shown_as_the_papers_parameters() -> None:
    """(θ1, θ2) = (μ/s², −1/(2s²)); they start at (0, −½), but 0 where a pixel is clamped."""
    model = build("GaussianRBM")
    query = ask(model, 1, "hard")
    first = next(iter(model.layers(query)))
    assert not first.messages["theta_1"].any()
    expected = torch.where(query.observed, 0.0, -0.5)[:, None, :].expand(3, 3, 4)
    assert torch.equal(first.messages["theta_2"], expected.double())


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_sigma_must_be_positive(bad: float) -> None:
    model = build("GaussianRBM")
    model.sigma.data.fill_(bad)
    with pytest.raises(InputError, match="sigma must be > 0"):
        model(ask(model))
    each = build("GaussianRBM", learn_sigma="pixel")
    each.sigma.data[1] = bad
    with pytest.raises(InputError, match=f"sigma must be > 0, but it is {bad:g}"):
        each(ask(each))


def test_which_sigma_is_learned(tmp_path: Any) -> None:
    shapes = {name: GaussianRBM(4, 3, learn_sigma=name).sigma for name in ("no", "shared", "pixel")}
    assert {name: (list(sigma.shape), sigma.requires_grad) for name, sigma in shapes.items()} == {
        "no": ([], False),
        "shared": ([], True),
        "pixel": ([4], True),
    }
    with pytest.raises(InputError, match="learn_sigma must be no, shared or pixel, not 'all'"):
        GaussianRBM(4, 3, learn_sigma="all")
    rows = 0.2 * torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    for name in ("shared", "pixel"):
        model = qtcore.fit(GaussianRBM(4, 3, n_layers=5, learn_sigma=name), rows, steps=150, batch=50, learning_rate=0.03)
        assert bool(((model.sigma > 0.1) & (model.sigma < 0.35)).all())
        model.save(tmp_path / "model.safetensors")
        again = qtcore.load(tmp_path / "model.safetensors")
        assert again.config() == model.config()
        assert torch.equal(again.sigma, model.sigma)  # type: ignore[arg-type]
