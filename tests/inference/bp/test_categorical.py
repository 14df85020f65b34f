"""Messages between categories: a matrix product where that is safe, the robust form elsewhere."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from qtcore import evidence
from qtcore.inference.bp import categorical, passing

from ... import naive
from ...strategies import F64, close, normal, seeds


def by_loops(cavity: Tensor, potential: Tensor, T: float) -> Tensor:
    rows, states, targets = *cavity.shape, potential.shape[1]
    return torch.tensor(
        [
            [naive.soft_max([float(cavity[r, s] + potential[s, t]) for s in range(states)], T) for t in range(targets)]
            for r in range(rows)
        ],
        dtype=F64,
    )


@given(seeds, st.sampled_from([0.5, 5.0, 30.0, 300.0]), st.booleans())
def test_a_message_sums_or_maximises_over_the_senders_states(seed: int, scale: float, sums: bool) -> None:
    """Potentials of a small range go through a matrix product, those of a large one do not; −∞ rules a state out."""
    cavity, potential = normal(seed, 5, 3, scale=scale), normal(seed + 1, 3, 4, scale=scale)
    cavity[0, 1] = cavity[1, 0] = cavity[1, 2] = -math.inf
    close(categorical.messages(cavity, potential, sums), by_loops(cavity, potential, float(sums)), 1e-9)


@given(seeds, st.floats(1, categorical.MATRIX_PRODUCT_RANGE))
def test_the_matrix_product_is_as_good_as_the_robust_form_in_float32(seed: int, extent: float) -> None:
    """Cavities of any size: what underflows beside the largest cannot be seen in the sum."""
    potential = torch.rand(4, 4, generator=torch.Generator().manual_seed(seed), dtype=F64) * extent
    cavity = normal(seed + 1, 6, 4, scale=200.0)
    result = categorical.messages(cavity.float(), potential.float())
    expected = by_loops(cavity.float().double(), potential.float().double(), 1.0)
    close(result.double(), expected, 2e-6)


def test_extent_decides_which_form_is_used() -> None:
    steep = torch.tensor([[0.0, -200.0], [-200.0, 0.0]])
    assert categorical.extent(steep) == 200
    assert categorical.extent(torch.zeros(0, 3, 3)) == 0
    cavity = torch.tensor([[0.0, -math.inf]])
    assert categorical.messages(cavity, steep).tolist() == [[0, -200]]  # e^−200 is 0 in float32


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("sums", [True, False])
def test_gradient_of_a_message(scale: float, sums: bool) -> None:
    cavity = normal(0, 2, 5, 3).requires_grad_()
    potential = normal(1, 2, 3, 4, scale=scale).requires_grad_()
    assert gradcheck(lambda c, p: categorical.messages(c, p, sums), (cavity, potential))


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("sums", [True, False])
def test_gradients_beside_states_that_are_ruled_out(scale: float, sums: bool) -> None:
    """The gradient at −∞ is 0, and the others are those of the message without that state."""
    potential = normal(1, 3, 4, scale=scale).requires_grad_()
    cavity = normal(0, 2, 3)
    cavity[:, 1] = -math.inf
    cavity.requires_grad_()
    categorical.messages(cavity, potential, sums).sum().backward()
    assert cavity.grad is not None
    assert potential.grad is not None
    assert not cavity.grad[:, 1].any()
    assert not potential.grad[1].any()
    rest, fewer = cavity.detach()[:, [0, 2]].requires_grad_(), potential.detach()[[0, 2]].requires_grad_()
    categorical.messages(rest, fewer, sums).sum().backward()
    close(cavity.grad[:, [0, 2]], rest.grad)
    close(potential.grad[[0, 2]], fewer.grad)


@pytest.mark.parametrize("dim", [-1, 1])
def test_normalised_messages_have_their_largest_entry_at_0(dim: int) -> None:
    message = normal(0, 4, 3, 2)
    assert torch.equal(categorical.normalise(message, dim), message - message.amax(dim, keepdim=True))
    assert gradcheck(lambda m: categorical.normalise(m, dim), (message.requires_grad_(),))


def test_damping_mixes_logs() -> None:
    new, old = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    assert passing.damp(new, old, 0.25).tolist() == [0.75, 2.5]
    assert passing.damp(new, old, 0.0) is new


@given(seeds)
def test_change_is_the_largest_change_of_log_odds(seed: int) -> None:
    """Whatever constants the two messages carry."""
    new, old = normal(seed, 3), normal(seed + 1, 3)
    expected = max(abs((new[s] - new[t]) - (old[s] - old[t])) for s, t in itertools.product(range(3), repeat=2))
    close(categorical.change(new + 5, old - 3), expected)
    close(categorical.change(new[:, None] + 5, old[:, None] - 3, 0)[0], expected)


@given(st.floats(0, 1), st.integers(1, 5), st.integers(0, 4))
def test_soft_evidence_is_a_reading_that_is_right_with_probability_w(w: float, S: int, v: int) -> None:
    v = min(v, S - 1)
    likelihood = (torch.arange(S) == v).double()
    result = evidence.categorical(likelihood, torch.tensor(w, dtype=F64), torch.tensor(S))
    close(result, torch.tensor(naive.category_unary(float(v), w, S), dtype=F64), 1e-12)


def test_unobserved_is_exactly_0_and_clamped_is_minus_infinity() -> None:
    likelihood = torch.tensor([[1.0, 0.0, 0.0]] * 2, dtype=F64)
    result = evidence.categorical(likelihood, torch.tensor([0.0, 1.0], dtype=F64), torch.tensor([3, 3]))
    assert result.tolist() == [[0, 0, 0], [0, -math.inf, -math.inf]]


def test_scaling_keeps_minus_infinity_out_of_the_gradient() -> None:
    """0·∞ is NaN: a temperature learned beside hard evidence once had that for a gradient."""
    log = torch.tensor([-math.inf, 2.0, -1.0], dtype=F64)
    factor = torch.tensor(3.0, dtype=F64, requires_grad=True)
    scaled = categorical.scale(log, factor)
    assert scaled.tolist() == [-math.inf, 6.0, -3.0]
    scaled.exp().sum().backward()
    assert factor.grad is not None
    close(factor.grad, torch.tensor(2 * math.exp(6) - math.exp(-3)))
