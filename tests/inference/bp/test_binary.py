"""Messages between bits: the transfer function, its gradient, the evidence, and the short cut to the visible beliefs."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from qtcore import evidence, kernels
from qtcore.evidence import BinaryEvidence
from qtcore.inference.bp import binary

from ... import naive
from ...strategies import F64, close, normal, rng, seeds

numbers = st.floats(-30, 30)


def scalar(x: float, dtype: torch.dtype = F64) -> Tensor:
    return torch.tensor([x], dtype=dtype)


# ---------------------------------------------------------------------------------------------------------------------
# One message


@given(numbers, numbers)
def test_a_message_is_the_marginal_of_its_factor(x: float, w: float) -> None:
    """f_w(x) = log p(1) − log p(0) at the far end of a factor that scores 0 for agreement and −w for disagreement."""
    one = math.log(math.exp(x) + math.exp(-w))
    zero = math.log(1 + math.exp(x - w))
    assert float(binary.sum_product(scalar(x), scalar(w))) == pytest.approx(one - zero, abs=1e-9)


@given(st.floats(-1000, 1000), st.floats(-1000, 1000), st.sampled_from([0.0, 0.2, 1.0, 3.0]))
def test_a_message_at_any_temperature_and_size(x: float, w: float, T: float) -> None:
    """Against the transcription, in float64, and in float32 to float32's own precision."""
    x, w = (float(torch.tensor(number)) for number in (x, w))  # numbers that float32 has
    expected = naive.f(w, x, T)
    assert float(binary.transfer(scalar(x), scalar(w), T)) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    result = float(binary.transfer(scalar(x, torch.float32), scalar(w, torch.float32), T))
    assert result == pytest.approx(expected, rel=1e-5, abs=1e-5)


@given(numbers, numbers)
def test_a_message_is_odd_bounded_and_symmetric(x: float, w: float) -> None:
    f = float(binary.sum_product(scalar(x), scalar(w)))
    for other, sign in (((-x, w), -1), ((x, -w), -1), ((w, x), 1)):
        assert sign * float(binary.sum_product(*map(scalar, other))) == pytest.approx(f, abs=1e-12)
    assert abs(f) <= min(abs(x), abs(w)) + 1e-12


def test_max_product_truncates() -> None:
    x = torch.tensor([-5.0, -1.0, 0.0, 1.0, 5.0])
    assert binary.max_product(x, torch.tensor(2.0)).tolist() == [-2, -1, 0, 1, 2]
    assert binary.max_product(x, torch.tensor(-2.0)).tolist() == [2, 1, 0, -1, -2]
    assert binary.max_product(x, torch.tensor(0.0)).abs().tolist() == [0] * 5


@given(seeds)
def test_gradient_of_a_message(seed: int) -> None:
    x, w = normal(seed, 3, 4, scale=3.0).requires_grad_(), normal(seed + 1, 4, scale=3.0).requires_grad_()
    assert gradcheck(binary.sum_product, (x, w))


def test_gradient_of_a_message_where_the_robust_forms_pieces_meet() -> None:
    """|x + w| and clip have kinks at x = ±w and at w = 0; f itself has none."""
    x = torch.tensor([2.0, -2.0, 2.0, 0.0, 1.0, 0.0], dtype=F64, requires_grad=True)
    w = torch.tensor([2.0, 2.0, -2.0, 1.5, 0.0, 0.0], dtype=F64, requires_grad=True)
    assert gradcheck(binary.sum_product, (x, w))


def test_gradient_of_a_truncated_message() -> None:
    x = torch.tensor([-5.0, -1.0, 1.0, 5.0], dtype=F64, requires_grad=True)
    w = torch.tensor([2.0, -3.0, 2.0, -2.0], dtype=F64, requires_grad=True)
    assert gradcheck(binary.max_product, (x, w))


@pytest.mark.parametrize("size", [1e3, 1e30])
def test_gradients_stay_finite_at_any_size(size: float) -> None:
    for sign in (-1, 1):
        x = torch.tensor([size, -size, 0.0, 1.0], requires_grad=True)
        w = torch.tensor(sign * size, requires_grad=True)
        binary.sum_product(x, w.expand(4)).sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert w.grad is not None
        assert w.grad.isfinite()


# ---------------------------------------------------------------------------------------------------------------------
# Evidence


@given(st.floats(0, 1), st.floats(0, 1))
def test_soft_evidence_is_a_reading_that_is_right_with_probability_w(v: float, w: float) -> None:
    result = evidence.binary(torch.tensor([[v]], dtype=F64), torch.tensor([[w]], dtype=F64))
    u = naive.bit_unary(v, w)
    if math.isinf(u):
        assert result.hard.tolist() == [[math.copysign(1, u)]]
        assert result.soft.tolist() == [[0.0]]
    else:
        assert result.hard.tolist() == [[0.0]]
        assert float(result.soft) == pytest.approx(naive.clip(u), abs=1e-9)


def test_evidence_by_hand() -> None:
    values = torch.tensor([[1.0, 0.0, math.nan, 1.0, 0.3, 1.0]], dtype=F64)
    weight = torch.tensor([[1.0, 1.0, 0.0, 0.6, 1.0, 0.0]], dtype=F64)
    result = evidence.binary(values, weight)
    assert result.hard.tolist() == [[1, -1, 0, 0, 0, 0]]
    close(result.soft, torch.tensor([[0, 0, 0, math.log(4), math.log(3 / 7), 0]], dtype=F64), 1e-12)


def test_a_clamped_bit_is_shown_as_1000_and_sends_its_whole_weight() -> None:
    """A clip at ±1000 would let a weight of 5000 through only in part."""
    W, zero = torch.tensor([[5000.0, -7000.0]]), torch.zeros(2)
    given = evidence.binary(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.ones(2, 2))
    messages = binary.layer(binary.initial(2, W), W, zero, torch.zeros(1), given)
    assert messages.to_hidden.tolist() == [[[5000, -7000]], [[-5000, 7000]]]
    assert binary.show(zero.expand(2, 2), given).tolist() == [[1000, 1000], [-1000, -1000]]


# ---------------------------------------------------------------------------------------------------------------------
# A layer


def problem(seed: int, batch: int = 2, V: int = 4, H: int = 3, p_hard: float = 0.3) -> tuple[Any, ...]:
    W, c_v, c_h = (tensor.requires_grad_() for tensor in (normal(seed, H, V), normal(seed + 1, V), normal(seed + 2, H)))
    hard = torch.where(torch.rand(batch, V, generator=rng(seed)) < p_hard, 1.0, 0.0) * normal(seed + 3, batch, V).sign()
    soft = torch.where(hard == 0, normal(seed + 4, batch, V), 0)
    return W, c_v, c_h, BinaryEvidence(soft, hard)


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_gradient_of_a_layer(sums: bool, damping: float) -> None:
    W, c_v, c_h, given = problem(0)
    messages = tuple(normal(5 + k, 2, 3, 4).requires_grad_() for k in range(2))

    def layer(a: Tensor, b: Tensor, *parameters: Tensor) -> Any:
        return binary.layer(binary.Messages(a, b), *parameters, given, damping, sums)

    assert gradcheck(layer, (*messages, W, c_v, c_h))


def test_gradient_of_the_evidence() -> None:
    values = torch.tensor([[0.2, 0.9, 0.5]], dtype=F64, requires_grad=True)
    weight = torch.tensor([[0.3, 1.0, 0.8]], dtype=F64, requires_grad=True)
    assert gradcheck(lambda v, w: evidence.binary(v, w).soft, (values, weight))


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("p_hard", [0.0, 0.4, 1.0])
@given(seed=seeds, n=st.integers(0, 6))
def test_the_short_cut_leaves_out_nothing_that_counts(backend: str, p_hard: float, seed: int, n: int) -> None:
    """Clamped variables and every second direction are left out; the beliefs are those of all messages."""
    W, c_v, c_h, given = problem(seed, p_hard=p_hard)
    messages = binary.initial(2, W)
    for _ in range(n):
        messages = binary.layer(messages, W, c_v, c_h, given)
    expected = binary.show(binary.beliefs(messages, c_v, c_h, given)[0], given)
    with kernels.use(backend):
        close(binary.show(binary.visible_beliefs(W, c_v, c_h, given, n), given), expected)


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_gradient_of_the_short_cut(backend: str, n: int) -> None:
    W, c_v, c_h, given = problem(1, batch=3)
    soft = given.soft.requires_grad_()

    def beliefs(W: Tensor, c_v: Tensor, c_h: Tensor, soft: Tensor) -> Tensor:
        return binary.show(binary.visible_beliefs(W, c_v, c_h, BinaryEvidence(soft, given.hard), n), given)

    with kernels.use(backend):
        assert gradcheck(beliefs, (W, c_v, c_h, soft))


def test_residual_is_the_largest_change_per_sample() -> None:
    old = binary.Messages(torch.zeros(2, 1, 2), torch.zeros(2, 1, 2))
    new = binary.Messages(torch.tensor([[[1.0, -3.0]], [[0.0, 0.0]]]), torch.tensor([[[2.0, 0.0]], [[0.0, -0.5]]]))
    assert binary.residual(new, old).tolist() == [3.0, 0.5]
