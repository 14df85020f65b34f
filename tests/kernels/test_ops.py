"""The operators by themselves: torch sees through them, they equal their slow twins, and they refuse what they cannot take."""

import ast
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

from qtcore import kernels
from qtcore.errors import InputError
from qtcore.kernels import buffers, reference
from qtcore.kernels.ops import binary, both, damped, factors, gaussian, grid
from qtcore.kernels.ops.factors import described
from qtcore.kernels.ops.shared import LANES, rows

from ..strategies import F64, QUICK, close, rng
from .support import (
    F32,
    J,
    V,
    binary_inputs,
    damped_binary_inputs,
    damped_factor_inputs,
    damped_gaussian_inputs,
    damped_grid_inputs,
    factor_inputs,
    factor_inputs_at_depths,
    gaussian_inputs,
    grid_inputs,
    grid_inputs_at_depths,
    needs_compiler,
    reals,
    tracked,
)

pytestmark = needs_compiler

Case = tuple[Callable[..., Any], Callable[..., Any], Callable[..., tuple[Any, ...]]]
CASES: dict[str, Case] = {
    "binary": (kernels.binary_layers, reference.binary_layers, binary_inputs),
    "damped binary": (kernels.binary_damped, reference.binary_damped, damped_binary_inputs),
    "gaussian": (kernels.gaussian_layers, reference.gaussian_layers, gaussian_inputs),
    "damped gaussian": (kernels.gaussian_damped, reference.gaussian_damped, damped_gaussian_inputs),
    "grid": (kernels.grid_layers, reference.grid_layers, grid_inputs),
    "damped grid": (kernels.grid_layers, reference.grid_layers, damped_grid_inputs),
    "grid at depths": (kernels.grid_depths, reference.grid_depths, grid_inputs_at_depths),
    "factors": (kernels.factor_layers, reference.factor_layers, factor_inputs),
    "damped factors": (kernels.factor_layers, reference.factor_layers, damped_factor_inputs),
    "factors at depths": (kernels.factor_depths, reference.factor_depths, factor_inputs_at_depths),
}
names = pytest.mark.parametrize("name", CASES)
PLAIN = ("test_schema", "test_autograd_registration", "test_faketensor")
"""All checks of torch but the tracing of a second derivative by its compiler."""


def outputs(result: Any) -> tuple[Tensor, ...]:
    return result[:2] if isinstance(result, tuple) else (result,)


# ---------------------------------------------------------------------------------------------------------------------
# What torch can do with them


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_opcheck(dtype: torch.dtype, keep: bool) -> None:
    """Schema, fake tensors, autograd registration and torch.compile, as torch itself tests them."""
    inputs = tracked(binary_inputs(dtype))
    inputs[5].fill_(J)  # what is kept of other variables may be anything
    opcheck(binary.forward, (*inputs, keep))
    opcheck(both.forward, (*tracked(damped_binary_inputs(dtype)), keep))
    opcheck(gaussian.forward, (*tracked(gaussian_inputs(dtype)), keep))
    opcheck(damped.forward, (*tracked(damped_gaussian_inputs(dtype)), keep))
    opcheck(grid.forward, (*tracked(grid_inputs_at_depths(dtype)), False, keep))
    opcheck(factors.forward, (*tracked(factor_inputs_at_depths(dtype)), keep))


def test_opcheck_of_the_backward_operators_and_of_the_trace() -> None:
    inputs = tracked(binary_inputs(n=2))
    kept = [tensor.detach() for tensor in binary.forward(*inputs, True)[1:]]
    opcheck(binary.backward, (*inputs, *kept, reals(9, *inputs[1].shape)), test_utils=PLAIN)
    inputs = tracked(damped_binary_inputs(n=2))
    states = both.forward(*inputs, True)[1].detach()
    opcheck(both.backward, (*inputs, states, reals(9, *inputs[1].shape)), test_utils=PLAIN)
    opcheck(both.trace, damped_binary_inputs(n=2))
    inputs = tracked(gaussian_inputs(n=2))
    kept = [tensor.detach() for tensor in gaussian.forward(*inputs, True)[3:]]
    opcheck(gaussian.backward, (*inputs, *kept, reals(8, *inputs[2].shape), reals(9, *inputs[2].shape)), test_utils=PLAIN)
    opcheck(gaussian.trace, gaussian_inputs(n=2))
    inputs = tracked(damped_gaussian_inputs(n=2))
    states = damped.forward(*inputs, True)[2].detach()
    opcheck(damped.backward, (*inputs, states, reals(8, *inputs[2].shape), reals(9, *inputs[2].shape)), test_utils=PLAIN)
    opcheck(damped.trace, damped_gaussian_inputs(n=2))
    inputs = (*tracked(grid_inputs_at_depths(n=2)), False)
    labels, *kept = (tensor.detach() for tensor in grid.forward(*inputs, True))
    opcheck(grid.backward, (*inputs, *kept, reals(9, *labels.shape)), test_utils=PLAIN)
    opcheck(grid.trace, (*grid_inputs(n=2), False))
    inputs = tracked(factor_inputs_at_depths(n=2))
    sums, states = (tensor.detach() for tensor in factors.forward(*inputs, True))
    opcheck(factors.backward, (*inputs, states, reals(9, *sums.shape)), test_utils=PLAIN)
    opcheck(factors.trace, factor_inputs(n=2))


@pytest.mark.slow
@names
def test_torch_compile_takes_them_whole(name: str) -> None:
    """In one graph, forward and backward; "aot_eager" compiles all but the last step."""
    torch._dynamo.reset()  # which counts all cases as one function that is compiled again and again
    layers, _, make = CASES[name]

    def loss(*inputs: Any) -> Tensor:
        return sum(output.square().sum() for output in outputs(layers(*inputs)))  # type: ignore[return-value]

    eager, compiled = tracked(make()), tracked(make())
    loss(*eager).backward()
    torch.compile(loss, backend="aot_eager", fullgraph=True)(*compiled).backward()
    for a, b in zip(eager, compiled, strict=True):
        if isinstance(a, Tensor) and a.requires_grad:
            close(b.grad, a.grad, 1e-12)


@names
def test_torch_export_takes_them(name: str) -> None:
    layers, _, make = CASES[name]
    inputs = make()
    tensors = tuple(x for x in inputs if isinstance(x, Tensor))
    rest = inputs[len(tensors) :]

    class Module(torch.nn.Module):
        def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
            return outputs(layers(*tensors, *rest))

    exported = torch.export.export(Module(), tensors)
    assert any("qtcore" in str(node.target) for node in exported.graph.nodes)
    for a, b in zip(exported.module()(*tensors), outputs(layers(*inputs)), strict=True):
        assert torch.equal(a, b)


# ---------------------------------------------------------------------------------------------------------------------
# What they say


@names
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_they_equal_their_twins(name: str, n: int) -> None:
    layers, twin, make = CASES[name]
    for dtype, tolerance in ((F64, 1e-9), (F32, 2e-4)):
        inputs = make(dtype, n)
        for result, expected in zip(outputs(layers(*inputs)), outputs(twin(*make(F64, n))), strict=True):
            close(result.to(F64), expected, tolerance)


@names
@pytest.mark.parametrize("n", [1, 3])
def test_first_and_second_derivatives(name: str, n: int) -> None:
    """Against finite differences. A second derivative was once 0, or what lay in memory, and no error."""
    layers, _, make = CASES[name]

    def function(*inputs: Any) -> tuple[Tensor, ...]:
        return outputs(layers(*inputs))

    inputs = tracked(make(n=n))
    assert gradcheck(function, inputs, fast_mode=QUICK)
    assert gradgradcheck(function, inputs, fast_mode=True)  # in random directions


@names
def test_third_derivatives_are_those_of_the_twin(name: str) -> None:
    layers, twin, make = CASES[name]

    def third(function: Callable[..., Any]) -> Tensor:
        first, *rest = tracked(make(n=2))
        value = sum(output.square().sum() for output in outputs(function(first, *rest)))
        for _ in range(3):
            (gradient,) = torch.autograd.grad(value, first, create_graph=True)
            value = gradient.square().sum()
        return gradient

    close(third(layers), third(twin), 1e-8)


@names
def test_a_gradient_that_was_not_prepared_for(name: str) -> None:
    """`keep` is an economy: without it the backward pass runs the layers again."""
    _, _, make = CASES[name]
    operator = {"binary": binary.forward, "gaussian": gaussian.forward}.get(name, grid.forward)
    if "factors" in name:
        operator, make = factors.forward, factor_inputs_at_depths
    if operator is grid.forward:  # takes the depths as a list
        make = grid_inputs_at_depths
    extra = (False,) if operator is grid.forward else ()
    gradients = []
    for keep in (True, False):
        inputs = tracked(make())
        operator(*inputs, *extra, keep)[0].square().sum().backward()
        gradients.append([x.grad for x in inputs if isinstance(x, Tensor) and x.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@names
def test_any_strides_will_do(name: str) -> None:
    layers, _, make = CASES[name]
    inputs = make()

    def twisted(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dim() < 2:
            return x
        return x.transpose(0, -1).contiguous().transpose(0, -1)

    for result, expected in zip(outputs(layers(*map(twisted, inputs))), outputs(layers(*inputs)), strict=True):
        assert torch.equal(result, expected)
    negated = torch._neg_view(-inputs[0])
    assert negated.is_neg()
    for result, expected in zip(outputs(layers(negated, *inputs[1:])), outputs(layers(*inputs)), strict=True):
        assert torch.equal(result, expected)


@names
def test_an_empty_batch(name: str) -> None:
    layers, _, make = CASES[name]
    first, *rest = tracked(make())
    no_batch = {"binary": {2}, "damped binary": {1}, "damped gaussian": {0}}  # biases of the hidden units
    no_batch |= {each: {1} for each in CASES if "factors" in each}  # places
    shared = no_batch.get(name, set())
    empty = [x[:0] if isinstance(x, Tensor) and i not in shared else x for i, x in enumerate(rest)]
    result = outputs(layers(first, *empty))
    assert all(len(output) == 0 for output in result)
    sum(output.sum() for output in result).backward()
    assert not first.grad.any()


def test_padding_to_whole_vectors() -> None:
    for size in (1, 7, 8, 9):
        for given in (torch.ones(2, size), torch.ones(size, 2).T):
            padded = rows(given)
            assert padded.shape[1] % LANES == 0
            assert padded.shape[1] - size < LANES
            assert padded.sum() == 2 * size
            assert padded.is_contiguous()


def test_no_free_variables() -> None:
    W, hidden_bias, linear, precision, index, count, *rest = gaussian_inputs()
    none = (linear[:, :0], precision[:, :0], index[:, :0], torch.zeros_like(count))
    totals, hidden, residual = kernels.gaussian_trace(W, hidden_bias, *none, *rest)
    assert totals.shape == (4, 3, 2, 0)
    close(hidden, hidden_bias[:, None].expand_as(hidden))
    assert not residual.any()


def test_the_trace_ends_where_the_layers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread and on three."""
    inputs = gaussian_inputs(n=6)
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        totals, hidden, residual = kernels.gaussian_trace(*inputs)
        linear, precision, _ = kernels.gaussian_layers(*inputs)
        used = torch.arange(linear.shape[1]) < inputs[5][:, None]
        close(totals[:, -1, 0][used], linear[used], 1e-12)
        close(totals[:, -1, 1][used], precision[used], 1e-12)
        assert hidden.shape == (4, 6, 5)
        assert residual.shape == (4, 6)
        assert not totals.requires_grad
        labels, shares, residual = kernels.grid_trace(*damped_grid_inputs(n=6))
        close(labels[:, -1], kernels.grid_layers(*damped_grid_inputs(n=6)), 1e-12)
        parts = torch.stack([part.sum(-1) for part in shares.split(damped_grid_inputs()[3], -1)], -1)
        close(parts, torch.ones_like(parts), 1e-12)
        assert residual.shape == (2, 6)


# ---------------------------------------------------------------------------------------------------------------------
# What they refuse


def test_mixed_data_types_are_refused() -> None:
    """float32 weights with float64 biases were once read as they lay: logits off by 1.3, or bytes past the end."""
    for layers, _, make in CASES.values():
        single, double = make(F32), make(F64)
        reals_at = [i for i, x in enumerate(single) if isinstance(x, Tensor) and x.is_floating_point()]
        for i in reals_at:
            for ours, theirs in ((single, double), (double, single)):
                mixed = [theirs[k] if k == i else x for k, x in enumerate(ours)]
                assert not kernels.usable(*(mixed[k] for k in reals_at))
                with pytest.raises(InputError, match=r"of one data type\.$"):
                    layers(*mixed)
        half = [x.half() if isinstance(x, Tensor) and x.is_floating_point() else x for x in single]
        with pytest.raises(InputError, match="must be float32 or float64"):
            layers(*half)


@pytest.mark.parametrize("name", ["binary", "gaussian"])
def test_places_out_of_range_are_refused(name: str) -> None:
    layers, _, make = CASES[name]
    *reals_first, index, count, n = make()[:7]
    rest = make()[7:]
    for bad in (-1, V, 2**40):
        wrong = index.clone()
        wrong[0, 2] = bad
        with pytest.raises(InputError, match="index must name rows of W"):
            layers(*reals_first, wrong, count, n, *rest)
        wrong = index.clone()
        wrong[1, 0] = bad  # of a sample without free variables: never read
        layers(*reals_first, wrong, count, n, *rest)
    for bad in (-1, index.shape[1] + 1, 2**40):
        wrong = count.clone()
        wrong[3] = bad
        with pytest.raises(InputError, match="count must lie between"):
            layers(*reals_first, index, wrong, n, *rest)
    with pytest.raises(InputError, match="index must be int64"):
        layers(*reals_first, index.int(), count, n, *rest)
    with pytest.raises(InputError, match="count must have the shape"):
        layers(*reals_first, index, count[:2], n, *rest)
    with pytest.raises(InputError, match=r"must have the shape \[4, 6\]"):
        layers(*(x[:, :5] if x.shape == (4, 6) else x for x in reals_first), index, count, n, *rest)
    with pytest.raises(InputError, match="at least one layer"):
        layers(*reals_first, index, count, 0, *rest)


def test_numbers_that_a_kernel_cannot_hold_are_refused() -> None:
    W, *rest = binary_inputs(F32)
    for bad in (kernels.LARGEST_WEIGHT + 1, -100.0, float("nan")):
        wrong = W.clone()
        wrong[1, 2] = bad
        with pytest.raises(InputError, match="must not exceed 20 in size"):
            kernels.binary_layers(wrong, *rest)
    table, evidence, own, clones, n, _ = grid_inputs(F32)
    for bad in (0.0, 1e-30, float("nan"), float("inf")):
        wrong = table.clone()
        wrong[1, 2, 3] = bad
        with pytest.raises(InputError, match="the table's entries"):
            kernels.grid_layers(wrong, evidence, own, clones, n)
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        wrong = evidence.clone()
        wrong[0, 1, 2, 0] = bad
        with pytest.raises(InputError, match="evidence must be above 0 and finite everywhere"):
            kernels.grid_layers(table, wrong, own, clones, n)
        with pytest.raises(InputError, match="own must be above 0 and finite everywhere"):
            kernels.grid_trace(table, evidence, wrong, clones, n)
    with pytest.raises(InputError, match="three whole numbers"):
        kernels.grid_layers(table, evidence, own, (2, 2, 0), n)
    with pytest.raises(InputError, match="table must have the shape"):
        kernels.grid_layers(table, evidence, own, (3, 1, 1), n)
    with pytest.raises(InputError, match=r"damping must lie in \[0, 1\)"):
        kernels.grid_layers(table, evidence, own, clones, n, 1.0)
    with pytest.raises(InputError, match="min_precision"):
        kernels.gaussian_layers(*gaussian_inputs()[:-1], 0.0)


def test_factors_that_do_not_fit_are_refused() -> None:
    tables, alone, places, groups, n, _ = factor_inputs()
    for bad in (-1, alone.shape[1] - 1, 2**31 - 1):  # the second leaves room for one state
        wrong = places.clone()
        wrong[3] = bad
        with pytest.raises(InputError, match="places must say where the states of a variable begin"):
            kernels.factor_layers(tables, alone, wrong, groups, n)
        for function in (factors.forward, factors.trace):
            settings = ([n], 0.0, False) if function is factors.forward else (n, 0.0)
            with pytest.raises(InputError, match="places must say"):
                function(tables, alone, wrong, groups, *settings)
    for numbers in ([1, 2, 1, 2], [9, 1, 1, *[1] * 9], [2, 10, 2, 2, 2], [2, 10, 1, 2], [2, 10]):
        with pytest.raises(InputError, match="groups must give order"):
            kernels.factor_layers(tables, alone, places, numbers, n)
    for numbers in ([2, 0, 1, 2, 2], [2, 10, 1, 0, 2], [2, 1, 1, 65, 64], [2, 1, 1, 2**40, 2**40]):
        with pytest.raises(InputError, match="a group has factors"):
            kernels.factor_layers(tables, alone, places, numbers, n)
    with pytest.raises(InputError, match="tables must have the shape"):
        kernels.factor_layers(tables[1:], alone, places, groups, n)
    with pytest.raises(InputError, match="places must be int32 of the shape"):
        kernels.factor_layers(tables, alone, places.long(), groups, n)
    with pytest.raises(InputError, match="too few for these factors"):
        kernels.factor_layers(tables, alone[:, :2], places, groups, n)
    for k in (0, 7, len(tables) - 1):
        for bad in (-70.0, 70.0, -float("inf"), float("inf"), float("nan")):
            wrong = tables.clone()
            wrong[k] = bad
            with pytest.raises(InputError, match="must be finite and lie within a range of 62"):
                kernels.factor_layers(wrong, alone, places, groups, n)
    for bad in (float("nan"), float("inf")):
        wrong = alone.clone()
        wrong[0, 1] = bad
        with pytest.raises(InputError, match="alone must be finite"):
            kernels.factor_layers(tables, wrong, places, groups, n)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("states", [1, 4, 5, 8, 11, 16])
def test_factors_of_any_number_of_states(states: int, dtype: torch.dtype) -> None:
    """Fewer states than a vector holds, as many, and more; rows in pairs, and one left over."""
    shape, count = (3, states, 2, states), 11
    scopes = torch.randint(states, (4, count), generator=rng(0)).int()  # any places among the states will do
    alone = reals(1, 2, 3 * states + 3, dtype=dtype)
    inputs = tracked(
        (reals(2, count * math.prod(shape), dtype=dtype), alone, scopes.flatten(), described([shape], [count], [True]))
    )
    given = reals(3, *alone.shape, dtype=dtype)
    sums = [layers(*inputs, 2) for layers in (kernels.factor_layers, reference.factor_layers)]
    steps = [torch.autograd.grad((each * given).sum(), inputs[:2]) for each in sums]
    for ours, theirs in ((sums[0], sums[1]), *zip(*steps, strict=True)):
        close(ours, theirs, 1e-11 if dtype == F64 else 1e-4)


def test_a_trace_of_factors_ends_where_the_layers_end() -> None:
    inputs = damped_factor_inputs(n=6)
    sums, residual = kernels.factor_trace(*inputs)
    close(sums, kernels.factor_depths(*inputs[:4], range(1, 7), 0.3), 1e-12)
    assert residual.shape == (3, 6)
    assert bool((residual > 0).all())
    assert not sums.requires_grad


def test_what_the_backward_pass_is_given_is_checked_too() -> None:
    inputs = binary_inputs()
    _, states, beliefs = binary.forward(*inputs, True)
    with pytest.raises(InputError, match="states must have the shape"):
        binary.backward(*inputs, states[:, :1], beliefs, inputs[1])
    with pytest.raises(InputError, match=r"d_total is torch\.float32"):
        binary.backward(*inputs, states, beliefs, inputs[1].float())


def test_checks_do_not_depend_on_assert() -> None:
    """Which python -O leaves out: bytes past a buffer were once read that way."""
    for path in Path(kernels.__file__).parent.rglob("*.py"):
        assert not [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Assert)], path


@names
def test_no_memory_is_a_memory_error(name: str) -> None:
    """More layers to keep than there are bytes."""
    layers, _, make = CASES[name]
    depth = [i for i, x in enumerate(make()) if isinstance(x, int | list)][-1]
    before = buffers.usage().lent
    for n in (10**13, 10**17):
        given = [n] if name.endswith("at depths") else n
        inputs = [given if i == depth else x for i, x in enumerate(tracked(make()))]
        with pytest.raises(MemoryError, match="could not allocate"):
            layers(*inputs)
    del inputs
    assert buffers.usage().lent <= before
