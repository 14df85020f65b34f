"""Models of every kind, queries of every shape and type: probabilities that are some, and the same on both backends."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

import qtcore
from qtcore import BP, DBM, RBM, Exact, GaussianRBM, Gibbs, GridMRF, PairwiseMRF, Query, kernels

from ..strategies import graphs, rng, sample_shape
from .support import tried

SCALES = (0.0, 0.1, 1.0, 1.0, 10.0, 100.0, 1e4, 1e20, 3e38)
ODD = (math.nan, math.inf, -math.inf, 0.5, -1.0, 2.0, 7.0, 1e18, -1e18, 1e-45, 3e38)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bool, torch.uint8, torch.int64, torch.int8)
ENGINES = (
    *(BP(n_layers=3), BP(until=1e-3, at_most=5), BP(until=0.0, at_most=2), BP(damping=0.5), BP(n_layers=0)),
    *(Exact(), Gibbs(sweeps=3, burn=1)),
)
sizes = st.integers(1, 6)


@st.composite
def models(draw: st.DrawFn, most: float = math.inf) -> Any:
    """Any kind and size, with parameters of any scale up to `most`."""
    kind = draw(st.sampled_from([RBM, DBM, GaussianRBM, GridMRF, PairwiseMRF]))
    options: dict[str, Any] = {
        "n_layers": draw(st.integers(0, 6)),
        "dtype": draw(st.sampled_from([torch.float32, torch.float64])),
        "damping": draw(st.sampled_from([0.0, 0.0, 0.3, 0.99])),
    }
    if kind is not GaussianRBM:
        options["temperature"] = draw(st.sampled_from([1.0, 1.0, 0.0, 0.5, 3.0] + [1e-30, 1e-3, 1e5] * (most > 10)))
    if kind is DBM:
        arguments: Any = (draw(sizes), draw(sizes), draw(sizes))
    elif kind is GridMRF:
        arguments = (draw(sizes), draw(sizes), draw(st.tuples(*[st.integers(1, 9)] * 3)))
    elif kind is PairwiseMRF:
        graph = draw(graphs())
        arguments, options["hidden"] = (graph["n_states"], graph["edges"]), graph["hidden"]
    else:
        arguments = (draw(sizes), draw(sizes))
    model = kind(*arguments, **options)
    scale, generator = draw(st.sampled_from([s for s in SCALES if s <= most])), rng(draw(st.integers(0, 99)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in ("T", "emission", "sigma"):
                numbers = scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(numbers.clamp(-3e38, 3e38))
    return model


def laid_out(tensor: Tensor, how: str) -> Tensor:
    """The same numbers, in memory otherwise."""
    if how == "transposed" and tensor.dim() > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "strided":
        return torch.stack([tensor, tensor], -1)[..., 1]
    if how == "reversed":
        return tensor.flip(-1).flip(-1)
    return tensor


layouts = st.sampled_from(["plain", "transposed", "strided", "reversed"])


@st.composite
def queries(draw: st.DrawFn, model: Any, odd: bool) -> dict[str, Any]:
    """Arguments of a Query: usually one that fits."""
    shape = (draw(st.integers(0 if odd else 1, 3)), *sample_shape(model))
    if odd and draw(st.integers(0, 9)) == 0:
        shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    generator = rng(draw(st.integers(0, 99)))
    values = torch.randint(0, 2, shape, generator=generator).double()
    observed: Tensor = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    if draw(st.booleans()) and not isinstance(model, PairwiseMRF):
        observed = observed * torch.rand(shape, generator=generator, dtype=torch.float64)
    if odd and values.numel():
        for tensor in (values, *([observed] if observed.is_floating_point() else [])):
            for _ in range(draw(st.integers(0, 2))):
                tensor.view(-1)[draw(st.integers(0, tensor.numel() - 1))] = draw(st.sampled_from(ODD))
        values = values.to(draw(st.sampled_from(DTYPES)))
    arguments = {"values": values, "observed": observed}
    if draw(st.booleans()):
        arguments["target"] = torch.rand(shape, generator=generator) < 0.7
    if isinstance(model, GridMRF) or draw(st.integers(0, 3)) == 0:
        arguments["truth"] = torch.randint(0, 3 if isinstance(model, GridMRF) else 2, shape, generator=generator)
    return {name: laid_out(tensor, draw(layouts)) for name, tensor in arguments.items()}


def sensible(marginals: Any) -> None:
    if not isinstance(marginals, Bernoulli | Categorical):  # of a Gaussian model, or a mixture of such
        assert marginals.mean.isfinite().all()
        assert (marginals.stddev > 0).all()
        return
    assert ((marginals.probs >= 0) & (marginals.probs <= 1)).all()  # NaN is neither
    if isinstance(marginals, Categorical):
        torch.testing.assert_close(marginals.probs.sum(-1), torch.ones_like(marginals.probs[..., 0]))


@pytest.fixture(autouse=True)
def _threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@given(st.data())
def test_marginals_and_losses(data: st.DataObject) -> None:
    model = data.draw(models())
    torch.set_num_threads(data.draw(st.sampled_from([1, 2, 3])))
    arguments = data.draw(queries(model, odd=True))
    with kernels.use(data.draw(st.sampled_from(["torch", "auto"]))):
        marginals = tried("calls", lambda: model(Query(**arguments)))
        if marginals is not None:
            sensible(marginals)
        engine = data.draw(st.sampled_from(ENGINES))
        answer = tried("calls", lambda: model(Query(**arguments), engine=engine))
        if answer is not None:
            sensible(answer)
        last = tried("calls", lambda: list(model.trace(Query(**arguments)))[-1])
        if last is not None:
            sensible(last.marginals)
        loss = tried("calls", lambda: model.loss(Query(**arguments)))
        if loss is not None:
            assert loss.isfinite()
        if loss is not None and loss.requires_grad:
            tried("calls", loss.backward)
            for name, parameter in model.named_parameters():
                if parameter.grad is not None and float(parameter.detach().abs().max() if parameter.numel() else 0) < 100:
                    assert parameter.grad.isfinite().all(), name


@given(st.data())
def test_both_backends_answer_the_same(data: st.DataObject) -> None:
    model = data.draw(models(most=1.0)).double()
    arguments = data.draw(queries(model, odd=False))
    torch.set_num_threads(data.draw(st.sampled_from([1, 2, 3])))
    answers = []
    for backend in ("torch", "auto"):
        model.zero_grad()
        with kernels.use(backend):
            answer = tried("backends", lambda: model(Query(**arguments)))
            loss = tried("backends", lambda: model.loss(Query(**arguments)))
            if loss is not None and loss.requires_grad:
                loss.backward()
        numbers = None if answer is None else answer.mean if isinstance(answer, Normal) else answer.probs
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        answers.append((numbers, loss, *gradients))
    for one, other in zip(*answers, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-7)


@given(st.data())
def test_one_step_of_training(data: st.DataObject) -> None:
    model = data.draw(models(most=100.0))
    arguments = data.draw(queries(model, odd=True))
    train = (arguments["values"], arguments["truth"]) if "truth" in arguments else arguments["values"]
    trained = tried("trainings", lambda: qtcore.fit(model, train, steps=1, batch=data.draw(st.integers(1, 5))))
    if trained is not None:
        assert all(parameter.isfinite().all() for parameter in trained.parameters())
