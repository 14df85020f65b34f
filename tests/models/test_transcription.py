"""Every model against the loop-by-loop transcription of the paper's equations, layer by layer and by every road."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from qtcore import DBM, RBM, GaussianRBM, GridMRF, PairwiseMRF, Query

from .. import naive
from ..strategies import EVIDENCE, F64, KINDS, answer, ask, build, clamped, close, evidences, graphs, randomise, seeds, ways

LAYERS = (0, 1, 2, 5)
SETTINGS = ((1.0, 0.0), (0.6, 0.0), (1.7, 0.3), (1.0, 0.4), (0.0, 0.0), (0.0, 0.25))  # temperature, damping


def transcription(model: Any, query: Query, n: int) -> tuple[Tensor, Tensor]:
    """What the loops say of the visible and of the hidden variables, in the form that a model's marginals have."""
    if isinstance(model, RBM | DBM):
        loops = naive.rbm if isinstance(model, RBM) else naive.dbm
        visible, hidden = loops(model, query, n, model.damping)
        # A clamped bit shows ±1000, whatever messages it receives.
        return torch.where(clamped(query), visible.sign() * 1000, visible), hidden
    if isinstance(model, GaussianRBM):
        mean, variance, hidden = naive.gaussian_rbm(model, query, n, model.damping, model.schedule)
        return torch.stack([mean, variance]), hidden
    if isinstance(model, GridMRF):
        return naive.grid_mrf(model, query, n, model.damping, model.local_evidence)
    loops = naive.pairwise_mrf if isinstance(model, PairwiseMRF) else naive.factor_graph
    return loops(model, query, n, model.damping)


def agrees(model: Any, query: Query, n: int) -> None:
    visible, hidden = transcription(model, query, n)
    for result in ways(model, query, n).values():
        close(result, visible)
    *_, last = model.layers(query, n)
    close(answer(last.hidden), hidden)


CASES = [
    (kind, *how, evidence)
    for kind, how, evidence in itertools.product(KINDS, SETTINGS, EVIDENCE)
    if kind != "GaussianRBM" or how[0] == 1
]


@pytest.mark.parametrize(("kind", "temperature", "damping", "evidence"), CASES)
def test_models_are_the_papers_equations(kind: str, temperature: float, damping: float, evidence: str) -> None:
    model = build(kind, seed=1, scale=0.8, temperature=temperature, damping=damping)
    query = ask(model, seed=2, evidence=evidence, batch=2)
    for n in LAYERS:
        agrees(model, query, n)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("schedule", ["sequential", "flooding"])
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_gaussian_rbm_in_both_schedules(evidence: str, schedule: Any, damping: float) -> None:
    """With σ ≠ 1, one for all pixels or one for each, and weights that drive precisions to their floor."""
    for scale, learned, sigma in ((0.5, "pixel", [0.7, 1.3, 0.4, 2.0]), (3.0, "no", 0.7)):
        options: Any = {"schedule": schedule, "damping": damping, "learn_sigma": learned}
        model = randomise(GaussianRBM(4, 3, **options, dtype=F64), 3, scale)
        model.sigma.data.copy_(torch.tensor(sigma))
        for n in LAYERS:
            agrees(model, ask(model, 4, evidence, batch=2), n)


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_grid_that_leaves_a_pixels_own_evidence_out(evidence: str) -> None:
    model = build("GridMRF", 1, local_evidence=False)
    for n in LAYERS:
        agrees(model, ask(model, 2, evidence, batch=2), n)


@given(graphs(), seeds, evidences)
def test_pairwise_on_random_graphs(graph: Any, seed: int, evidence: str) -> None:
    model = randomise(PairwiseMRF(**graph, temperature=1.3, damping=0.2, dtype=F64), seed)
    agrees(model, ask(model, seed, evidence, batch=2), 3)


@given(seeds)
def test_pairwise_with_likelihoods_for_values(seed: int) -> None:
    """Likelihoods of any size and weight, impossible states and unobserved NaN among them."""
    model = build("PairwiseMRF", seed, temperature=0.7)
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(2, 3, 4, generator=generator, dtype=F64) * 10.0 ** torch.randint(-3, 4, (2, 3, 1), generator=generator)
    values[..., 1] = torch.where(torch.rand(2, 3, generator=generator) < 0.4, 0.0, values[..., 1])
    weights = torch.tensor([[1.0, 0.0, 0.4], [0.8, 1.0, 1.0]], dtype=F64)
    values[weights == 0] = torch.nan
    agrees(model, Query(values, weights), 3)


@given(seeds, evidences)
def test_uncommon_shapes(seed: int, evidence: str) -> None:
    """One variable, one unit, more units than a vector holds, one pixel, one sample, odd sizes."""
    for model in (
        RBM(1, 1, dtype=F64),
        RBM(3, 9, dtype=F64),
        RBM(11, 2, dtype=F64),
        DBM(1, 1, 1, dtype=F64),
        DBM(3, 5, 6, dtype=F64),
        GaussianRBM(1, 1, dtype=F64),
        GaussianRBM(2, 9, dtype=F64),
        GridMRF(1, 1, clones=(1, 1, 1), dtype=F64),
        GridMRF(3, 2, clones=(1, 3, 1), dtype=F64),
        PairwiseMRF([3], [], dtype=F64),
    ):
        randomise(model, seed, 0.5)
        for n in (1, 2):
            agrees(model, ask(model, seed, evidence, batch=1), n)
