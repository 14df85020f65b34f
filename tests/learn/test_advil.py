"""AdVIL: its energy is the model's, its entropies are right, and it learns."""

import math

import pytest
import torch

from qtcore import DBM, RBM, GaussianRBM
from qtcore.learn import advil
from tests.learn.test_pcd import blocks


def test_energy_of_an_rbm_is_minus_its_potential() -> None:
    model = RBM(4, 3).double().requires_grad_(False)
    torch.nn.init.normal_(model.W)
    torch.nn.init.normal_(model.c_v)
    torch.nn.init.normal_(model.c_h)
    v, h = torch.rand(5, 4).round().double(), torch.rand(5, 3).round().double()
    for row in range(5):
        agree = sum(float(model.W[i, j] * (2 * h[row, i] - 1) * (2 * v[row, j] - 1)) / 2 for i in range(3) for j in range(4))
        fields = float(((2 * h[row] - 1) @ model.c_h + (2 * v[row] - 1) @ model.c_v) / 2)
        constant = float(-model.W.sum() + model.c_h.sum() + model.c_v.sum()) / 2
        assert float(advil.energy(model.graph(), v, [h])[row]) == pytest.approx(-(agree + fields + constant))


def test_energy_of_a_dbm_is_minus_its_potential() -> None:
    model = DBM(4, 3, 2).double()
    for parameter in (model.W1, model.W2, model.c_v, model.c_h1, model.c_h2):
        torch.nn.init.normal_(parameter)
    v, h1, h2 = (torch.rand(6, n).round().double() for n in (4, 3, 2))
    W1, W2 = model.W1, model.W2
    potential = (
        2 * torch.einsum("bk,ki,bi->b", h2, W2, h1)
        + 2 * torch.einsum("bi,ij,bj->b", h1, W1, v)
        + h2 @ (model.c_h2 - W2.sum(1))
        + v @ (model.c_v - W1.sum(0))
        + h1 @ (model.c_h1 - W2.sum(0) - W1.sum(1))
    )
    assert torch.allclose(advil.energy(model.graph(), v, [h1, h2]), -potential)


def test_energy_of_a_gaussian_rbm() -> None:
    model = GaussianRBM(4, 3).double()
    torch.nn.init.normal_(model.b)
    v, h = torch.randn(5, 4).double(), torch.rand(5, 3).round().double()
    expected = ((v - model.b) ** 2).sum(1) / 2 - h @ model.c - torch.einsum("bi,ij,bj->b", h, model.W, v)
    assert torch.allclose(advil.energy(model.graph(), v, [h]), expected)


def test_entropy_and_relaxation() -> None:
    p = torch.tensor([[0.5, 0.9, 0.001]], dtype=torch.float64)
    expected = -sum(float(x) * math.log(float(x)) + (1 - float(x)) * math.log(1 - float(x)) for x in p[0])
    assert float(advil.entropy(torch.logit(p))) == pytest.approx(expected)
    samples = advil.relaxed(torch.full((4000, 1), math.log(3.0)), torch.Generator().manual_seed(0))
    assert float((samples > 0.5).float().mean()) == pytest.approx(0.75, abs=0.03)
    assert float(((samples < 0.05) | (samples > 0.95)).float().mean()) > 0.8


def test_the_entropy_bound_of_a_decoder_that_ignores_z_is_exact() -> None:
    """With h independent of z the best r(z | h) is the prior, and the bound is H(h) + H(v | h) − H(z)."""
    decoder = advil.Decoder(2, None, [3, 2], gaussian=False)
    decoder.requires_grad_(False)
    with torch.no_grad():
        decoder.start.weight.zero_()
        decoder.back.weight.zero_()
        decoder.back.bias.zero_()
        decoder.maps[0].weight.zero_()
    _, _, bound = decoder(20000, torch.Generator().manual_seed(0))
    hidden = float(advil.entropy(decoder.start.bias))
    visible = float(advil.entropy(decoder.maps[0].bias))
    of_z = math.log(2 * math.pi * math.e)
    assert float(bound.mean()) == pytest.approx(hidden + visible - of_z, abs=0.03)


@pytest.mark.parametrize("kind", ["rbm", "dbm", "grbm"])
def test_learns(kind: str) -> None:
    """Each model ends well below the NCE of its start, at the best of the steps that were looked at."""
    train, valid = blocks(300), blocks(200, seed=1)
    torch.manual_seed(0)
    model = {"rbm": RBM(8, 4), "dbm": DBM(8, 4, 3), "grbm": GaussianRBM(8, 4, n_layers=10)}[kind]
    if kind == "grbm":
        train, valid = 2 * train - 1, 2 * valid - 1
    budget = advil.Budget(steps=60, decoder_steps=5, batch=100, rate=1e-2, helper_rate=1e-2, every=10)
    result = advil.train(model, train, valid, 3, 5, budget)
    first, best = result.history[0][1], result.valid
    assert best == min(nce for _, nce in result.history)
    assert best < first - 0.1
