"""Messages between pixels and hidden units: moments, floors, evidence, and the short cut past clamped pixels."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from qtcore import evidence, kernels
from qtcore.evidence import GaussianEvidence
from qtcore.inference.bp import gaussian

from ... import naive
from ...strategies import F64, backends, close, normal, rng, seeds


def problem(seed: int, batch: int = 2, V: int = 4, H: int = 3, p_clamped: float = 0.3, scale: float = 0.6) -> tuple[Any, ...]:
    W, c = normal(seed, H, V, scale=scale).requires_grad_(), normal(seed + 1, H).requires_grad_()
    weight = torch.rand(batch, V, generator=rng(seed), dtype=F64)
    weight = torch.where(torch.rand(batch, V, generator=rng(seed + 2)) < p_clamped, 1.0, weight)
    b, sigma = normal(seed + 4, V), torch.tensor(0.8, dtype=F64)
    return W, c, evidence.gaussian(normal(seed + 3, batch, V), weight, b, sigma)


@given(st.floats(0, 1), st.floats(-3, 3), st.floats(-3, 3), st.sampled_from([0.5, 1.0, 2.0]))
def test_soft_evidence_is_a_power_of_the_prior_times_a_reading(w: float, v: float, b: float, sigma: float) -> None:
    result = evidence.gaussian(*(torch.tensor([[x]], dtype=F64) for x in (v, w, b)), torch.tensor(sigma, dtype=F64))
    theta1, theta2 = naive.pixel_unary(v, w, b, sigma)
    assert float(result.linear) == pytest.approx(theta1, rel=1e-12, abs=1e-12)
    assert float(result.precision) == pytest.approx(-2 * theta2, rel=1e-12)
    assert bool(result.clamped) == (w == 1)


def test_evidence_by_hand() -> None:
    """N(v, ε) when clamped, the prior N(b, σ²) when unobserved, whatever stands there."""
    values, weight = torch.tensor([[2.0, math.nan]], dtype=F64), torch.tensor([[1.0, 0.0]], dtype=F64)
    result = evidence.gaussian(values, weight, torch.tensor([5.0, 0.7], dtype=F64), torch.tensor(2.0, dtype=F64))
    mean, deviation = gaussian.moments(result.linear, result.precision)
    close(mean, torch.tensor([[2.0, 0.7]]), 1e-7)
    close(deviation, torch.tensor([[math.sqrt(1e-3), 2.0]]), 1e-7)


@given(seeds, st.booleans())
def test_one_message_each_way_is_the_supplements(seed: int, sequential: bool) -> None:
    """A pixel and a hidden unit, from any messages before."""
    w, c, m, l, theta, r = normal(seed, 6).tolist()
    r = abs(r) + 0.1
    given = GaussianEvidence(*(torch.tensor([[x]], dtype=F64) for x in (theta, r)), torch.tensor([[False]]))
    before = gaussian.Messages(*(torch.tensor([[[x]]], dtype=F64) for x in (m, l, -0.05)))
    W, bias = torch.tensor([[w]], dtype=F64), torch.tensor([c], dtype=F64)
    result, floored = gaussian.layer(before, W, bias, given, sequential=sequential)
    assert float(result.to_hidden) == pytest.approx(naive.f_gaussian(w, theta, -r / 2), rel=1e-9)
    theta1, theta2 = naive.g_gaussian(w, c, theta, -r / 2)  # the only pixel receives the hidden unit's bias alone
    assert float(result.linear) == pytest.approx(theta1, rel=1e-6, abs=1e-9)
    assert float(result.precision) == pytest.approx(-2 * theta2, rel=1e-6, abs=1e-9)
    assert int(floored) == 0


def test_messages_start_at_the_papers_values_and_clamped_pixels_receive_nothing() -> None:
    W, c, given = problem(0)
    start = gaussian.initial(W, given)
    assert not start.to_hidden.any()
    assert not start.linear.any()
    assert torch.equal(start.precision, (~given.clamped).double()[:, None, :].expand(2, 3, 4))  # θ2 = −½
    messages = start
    for _ in range(3):
        messages, _ = gaussian.layer(messages, W, c, given)
    clamped = given.clamped[:, None, :].expand(2, 3, 4)
    assert clamped.any()
    assert not messages.linear[clamped].any()
    assert not messages.precision[clamped].any()


@given(seeds)
def test_floored_precisions_are_counted(seed: int) -> None:
    """Hidden units take precision from a pixel, and with large weights more than it has."""
    W, c, given = problem(seed, p_clamped=0.0)
    taken = -3 * torch.rand(2, 3, 4, generator=rng(seed), dtype=F64)
    zeros = torch.zeros(2, 3, 4, dtype=F64)
    messages, floored = gaussian.layer(gaussian.Messages(zeros, zeros, taken), W, c, given)
    for b in range(2):
        cavities = [
            float(given.precision[b, j] + sum(taken[b, k, j] for k in range(3) if k != i)) for i in range(3) for j in range(4)
        ]
        assert int(floored[b]) == sum(precision < 1e-3 for precision in cavities)
    beliefs = given.precision + taken.sum(1)
    mean, deviation, _, floored = gaussian.beliefs(gaussian.Messages(zeros, zeros, taken), c, given)
    assert torch.equal(floored, (beliefs < 1e-3).sum(1))
    close(deviation, beliefs.clamp_min(1e-3) ** -0.5)
    close(mean, given.linear / beliefs.clamp_min(1e-3))
    assert all(part.isfinite().all() for part in messages)


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_gradient_of_a_layer(sequential: bool, damping: float) -> None:
    W, c, given = problem(0)
    messages = [normal(5, 2, 3, 4), normal(6, 2, 3, 4), -0.1 * normal(7, 2, 3, 4) ** 2]
    unaries = [tensor.detach().requires_grad_() for tensor in given[:2]]

    def layer(a: Tensor, b: Tensor, d: Tensor, W: Tensor, c: Tensor, linear: Tensor, precision: Tensor) -> Any:
        unary = GaussianEvidence(linear, precision, given.clamped)
        return gaussian.layer(gaussian.Messages(a, b, d), W, c, unary, damping, sequential)[0]

    assert gradcheck(layer, (*(m.requires_grad_() for m in messages), W, c, *unaries))


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("p_clamped", [0.0, 0.5, 1.0])
@given(seed=seeds, n=st.integers(1, 5), scale=st.sampled_from([0.5, 4.0]))
def test_the_short_cut_leaves_out_nothing_that_counts(
    backend: str, p_clamped: float, seed: int, n: int, scale: float
) -> None:
    """Clamped pixels become a bias of the hidden units; floors or not, the beliefs are those of all messages."""
    W, c, given = problem(seed, p_clamped=p_clamped, scale=scale)
    messages = gaussian.initial(W, given)
    for _ in range(n):
        messages, _ = gaussian.layer(messages, W, c, given)
    with kernels.use(backend):
        result = gaussian.visible_beliefs(W, c, given, n)
    for part, expected in zip(result, gaussian.beliefs(messages, c, given)[:2], strict=True):
        close(part, expected, 1e-8)


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("n", [1, 2, 5, 17])
def test_gradient_of_the_short_cut(backend: str, n: int) -> None:
    """17 layers are remade in segments by the backward pass of the native kernel."""
    W, c, given = problem(1, batch=3, V=3)
    unaries = [tensor.detach().requires_grad_() for tensor in given[:2]]

    def beliefs(W: Tensor, c: Tensor, linear: Tensor, precision: Tensor) -> Any:
        return gaussian.visible_beliefs(W, c, GaussianEvidence(linear, precision, given.clamped), n)

    with kernels.use(backend):
        assert gradcheck(beliefs, (W, c, *unaries))


def test_gradients_stop_at_floored_precisions_in_the_native_kernel_too() -> None:
    """A cavity at its floor no longer depends on its messages. Five layers, floored in the midst of them, with weights
    that leave the hidden units undecided: only then does anything flow back through such a cavity."""
    floored_in_all = 0
    for seed, size in itertools.product(range(6), (0.7, 0.8, 1.0)):
        W, c, _ = problem(seed, H=10, p_clamped=0.0, scale=size)
        weight = torch.zeros(2, 4, dtype=F64)
        given = evidence.gaussian(weight, weight, normal(seed, 4), torch.tensor(1.0, dtype=F64))
        messages = gaussian.initial(W, given)
        for _ in range(4):
            messages, floored = gaussian.layer(messages, W, c, given)
            floored_in_all += int(floored.sum())
        result = []
        for _ in backends():
            mean, deviation = gaussian.visible_beliefs(W, c, given, 5)
            result.append(torch.autograd.grad((mean + deviation.log()).sum(), (W, c)))
        for plain, native in zip(*result, strict=True):
            scale = plain.abs().max()
            close(native / scale, plain / scale, 1e-8)
    assert floored_in_all > 100


def test_residual_is_in_the_papers_parameters() -> None:
    """Half of a change of precision is a change of θ2."""
    old = gaussian.Messages(*torch.zeros(3, 2, 1, 1))
    changes = torch.tensor([[0.5, 0.0], [0.2, 0.0], [-0.8, -3.0]])  # logit, θ1, precision; of two samples
    new = gaussian.Messages(*changes[..., None, None])
    assert gaussian.residual(new, old).tolist() == [0.5, 1.5]
