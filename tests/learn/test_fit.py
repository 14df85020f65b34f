"""qtcore.fit, as a notebook uses it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import qtcore
from qtcore import RBM, GaussianRBM, GridMRF, PairwiseMRF, Query
from qtcore.errors import InputError, NotFiniteError
from qtcore.learn import query_training
from qtcore.learn.query_training import VALID, Progress, generator
from qtcore.learn.settings import Settings
from qtcore.metrics import BITS, nce, score
from qtcore.models.base import MIN_LEARNED_TEMPERATURE
from qtcore.query import fixed, one_target, uniform
from tests.strategies import F64, KINDS, build, close, rng

from .support import authors_loss, data_for, same, tempered_rbm, twins, weights_of

SOME = torch.tensor([True, False, False, True])


def fit(model: Any, data: Any, **options: Any) -> Any:
    return qtcore.fit(model, data, **({"steps": 5, "batch": 5} | options))


# ---------------------------------------------------------------------------------------------------------------------
# It learns


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_learns(kind: str) -> None:
    model = build(kind, scale=0.3, dtype=torch.float32)
    data = data_for(model)
    losses: list[float] = []
    fit(model, data, steps=60, batch=12, learning_rate=0.05, callback=lambda progress: losses.append(progress.loss))
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.01


def test_hidden_variables_of_a_pairwise_graph_are_learned() -> None:
    """Three equal bits that only a hidden variable joins: without it, nothing could be said."""
    torch.manual_seed(0)
    model = PairwiseMRF((2, 2, 2, 2), [(0, 3), (1, 3), (2, 3)], hidden=(3,), n_layers=3)
    fit(model, twins(40, 3), queries=one_target(), steps=150, batch=40, learning_rate=0.1)
    assert nce(model, one_target()(twins(40, 3, seed=1), rng(0))) < 0.05


@pytest.mark.parametrize("options", [{}, {"averaging": 0.9, "schedule": "cosine", "decay_from": 0.2, "warmup": 3}])
def test_it_is_plain_adam_on_the_authors_form(options: dict[str, Any]) -> None:
    model, data = tempered_rbm(), twins(8) * torch.rand(8, 4, generator=rng(3), dtype=F64).round()
    query = fixed(SOME)(data)
    leaves = {name: (p.detach() / (1 if name == "T" else 5.0)).requires_grad_() for name, p in model.named_parameters()}
    adam = torch.optim.Adam(leaves.values())
    average = {name: leaf.detach().clone() for name, leaf in leaves.items()}
    settings = Settings(steps=12, batch=8, learning_rate=0.02, **options)
    losses = []
    for step in range(12):
        adam.param_groups[0]["lr"] = settings.rate(step, 12)
        adam.zero_grad()
        loss = authors_loss(model, leaves, query)
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(float(loss.detach()))
        decay = min(settings.averaging, (1 + step) / (10 + step))
        for name, leaf in leaves.items():
            average[name] = decay * average[name] + (1 - decay) * leaf.detach()

    seen: list[float] = []
    result = qtcore.fit(model, data, queries=fixed(SOME), settings=settings, callback=lambda p: seen.append(p.loss))
    assert result is model
    assert seen == pytest.approx(losses)
    expected = average if options else leaves
    for name, parameter in model.named_parameters():
        close(parameter, expected[name] * (1 if name == "T" else expected["T"]))


def test_a_learned_temperature_stays_positive() -> None:
    torch.manual_seed(0)
    coins = (torch.rand(50, 4, generator=rng(0)) < 0.5).float()  # nothing to learn: the beliefs, and T, want to vanish
    model = RBM(4, 3, temperature=0.5, learn_temperature=True)
    result: list[float] = []
    fit(model, coins, steps=40, batch=25, learning_rate=0.4, callback=lambda p: result.append(float(p.model.T.detach())))
    assert min(result) == pytest.approx(MIN_LEARNED_TEMPERATURE)
    assert torch.isfinite(model.W).all()


# ---------------------------------------------------------------------------------------------------------------------
# What it is given, and what it tells


def test_steps_epochs_and_settings() -> None:
    def steps(**options: Any) -> int:
        result: list[Progress] = []
        qtcore.fit(build("RBM"), twins(10), callback=result.append, **options)
        assert [p.step for p in result] == list(range(1, len(result) + 1))
        assert {p.steps for p in result} == {len(result)}
        return len(result)

    assert steps(epochs=2, batch=4) == 6
    assert steps(steps=4, batch=4) == 4
    assert steps(settings=Settings(steps=7, batch=4)) == 7
    assert steps(settings=Settings(steps=7, batch=4), epochs=1) == 3
    assert steps(settings=Settings(epochs=7, batch=4), steps=2) == 2


def test_a_callback_can_stop() -> None:
    result: list[int] = []

    def callback(progress: Progress) -> bool:
        result.append(progress.step)
        return progress.step == 3

    model = fit(build("RBM"), twins(), steps=100, callback=callback)
    assert result == [1, 2, 3]
    assert same(weights_of(model), weights_of(fit(build("RBM"), twins(), steps=3)))


def test_stopping_leaves_the_model_where_it_is_even_if_it_was_better_before() -> None:
    valid = 1 - twins()
    stopped = fit(build("RBM"), twins(), valid=valid, validate_every=1, steps=9, callback=lambda p: p.step == 6)
    assert same(weights_of(stopped), weights_of(fit(build("RBM"), twins(), steps=6)))


@pytest.mark.parametrize("averaging", [0.0, 0.5])
def test_the_best_by_validation_is_what_comes_back(averaging: float) -> None:
    torch.manual_seed(0)
    mixed = (torch.rand(40, 4, generator=rng(1)) < 0.5).to(F64)  # validation gets better first, then worse
    model = build("RBM", scale=0.8)
    result: list[Progress] = []
    options: dict[str, Any] = {"validate_every": 2, "learning_rate": 0.3, "averaging": averaging}
    fit(model, twins(), valid=mixed, steps=30, callback=result.append, **options)
    valids = [p.valid for p in result if p.step % 2 == 0]
    best = min(v for v in valids if v is not None)
    assert result[0].valid is None
    assert result[0].best is None
    assert result[-1].best == best
    assert best < valids[-1]  # type: ignore[operator]
    assert score(model, mixed, uniform(), generator(VALID)).mean * BITS == pytest.approx(best, abs=1e-12)
    assert model.provenance.valid_nce_bits == best
    assert valids[model.provenance.step // 2 - 1] == best


def test_validation_uses_the_models_own_layers_and_its_first_rows() -> None:
    model = build("RBM")
    result: list[Progress] = []
    valid = twins(30, seed=1)
    options: dict[str, Any] = {"train_layers": 1, "validate_every": 1, "valid_rows": 7}
    fit(model, twins(), valid=valid, steps=1, callback=result.append, **options)
    expected = score(model, valid[:7], uniform(), generator(VALID))
    assert result[0].valid == pytest.approx(expected.mean * BITS, abs=1e-12)


def test_layers_in_training() -> None:
    one = fit(build("RBM"), twins(), train_layers=1)
    same_depth = build("RBM", n_layers=1)
    assert same(weights_of(one), weights_of(fit(same_depth, twins())))
    assert not same(weights_of(one), weights_of(fit(build("RBM"), twins())))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(kind: str) -> None:
    def run(seed: int) -> dict[str, Tensor]:
        model = build(kind, dtype=torch.float32)
        return weights_of(fit(model, data_for(model), seed=seed, learning_rate=0.05))

    torch.manual_seed(1)
    one = run(3)
    torch.manual_seed(2)  # what others draw plays no part
    assert same(one, run(3))
    assert not same(one, run(4))


def test_numpy_arrays_and_whole_numbers_will_do() -> None:
    bits = twins().numpy()
    expected = weights_of(fit(build("RBM"), twins()))
    assert same(expected, weights_of(fit(build("RBM"), bits)))
    assert same(expected, weights_of(fit(build("RBM"), torch.as_tensor(bits).to(torch.uint8))))


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


class Odd:
    """Nothing that anybody expects."""


NOT_ROWS: list[Any] = [
    "rows", b"rows", 3, -1.5, True, {}, {"a": 1}, set(), iter([1]), Odd(), Odd, len, [], [1, 0], ["a", "b"], [[0, 1], [1]],
    np.array([[1, None, 0, 1]], dtype=object), np.array([["a"] * 4]), np.zeros((5, 4), complex), np.array(3.0),
    np.zeros((5, 4))[::-1], torch.tensor(1.0), torch.zeros(4), torch.zeros(9, 4).to_sparse(), torch.zeros(9, 4, device="meta"),
    (), (twins(),), (twins(), twins(), twins()), (None, twins()), (twins(), "labels"), (twins(), torch.zeros(40)),
]  # fmt: skip


@pytest.mark.parametrize("data", NOT_ROWS, ids=lambda data: type(data).__name__)
def test_data_that_are_no_rows_are_refused(data: Any) -> None:
    for options in ({"train": data}, {"train": twins(), "valid": data}):
        name = next(reversed(options))
        with pytest.raises(InputError, match=rf"\b{name}\b") as caught:
            qtcore.fit(build("RBM"), **options, steps=1)
        assert str(caught.value).endswith(".")


def test_no_data_are_refused() -> None:
    with pytest.raises(InputError, match="train must be a tensor of numbers, not NoneType"):
        fit(build("RBM"), None)


ARGUMENTS = {
    "model": "a model, such as qtcore.RBM",
    "queries": "a distribution of masks, such as qtcore.query.uniform",
    "settings": "a qtcore.learn.settings.Settings",
    "folder": "a path",
    "resume": "True or False",
    "callback": "a function of the progress",
    "config": "a dictionary",
    "engine": "an engine, such as qtcore.BP",
}


@pytest.mark.parametrize("odd", [3, -1, 2.5, [1], np.zeros(3), torch.zeros(3), Odd()], ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_another_type_are_refused(name: str, odd: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} must be {ARGUMENTS[name]}.*, not {type(odd).__name__}\\.$"):
        qtcore.fit(**({"model": build("RBM"), "train": twins()} | {name: odd}))


@pytest.mark.parametrize("odd", [None, "many", [1], np.zeros(3), torch.zeros(3), Odd(), -1], ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("name", ["batch", "learning_rate", "schedule", "seed", "averaging", "valid_rows"])
def test_settings_of_another_type_are_refused(name: str, odd: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} cannot be "):
        fit(build("RBM"), twins(), **{name: odd})


def test_a_setting_that_there_is_not() -> None:
    with pytest.raises(InputError, match="there is no setting named 'learning_rat'; did you mean learning_rate"):
        fit(build("RBM"), twins(), learning_rat=0.1)


def test_queries_that_make_none() -> None:
    with pytest.raises(InputError, match=r"queries must make a qtcore.Query of rows, not int"):
        fit(build("RBM"), twins(), queries=lambda *_: 3)


def test_nothing_to_learn() -> None:
    """A grid without layers answers by its evidence alone."""
    rows = torch.zeros(4, 2, 3), torch.zeros(4, 2, 3, dtype=torch.long)
    with pytest.raises(InputError, match="do not depend on the model's parameters; take at least one layer"):
        fit(build("GridMRF", n_layers=0), rows)


def test_a_config_that_is_no_json(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="config must hold what JSON can"):
        fit(build("RBM"), twins(), folder=tmp_path / "run", config={"odd": Odd()})


def test_a_distribution_without_targets_is_refused() -> None:
    with pytest.raises(InputError, match="no targets"):
        fit(build("RBM"), twins(), queries=uniform(0.0))


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("RBM", torch.zeros(0, 4), "no rows"),
        ("RBM", torch.zeros(9, 5), r"shape \[batch, 4\], not \[1, 5\]"),
        ("RBM", torch.full((9, 4), 2.0), "0, 1 or in between"),
        ("GridMRF", torch.zeros(9, 6), "shape"),
        ("GridMRF", torch.zeros(9, 2, 3), "label image"),
        ("GridMRF", (torch.zeros(9, 2, 3), torch.zeros(8, 2, 3)), "9 rows of values need as many of truth, not 8"),
        ("GaussianRBM", torch.full((9, 4), torch.nan), "finite"),
        ("PairwiseMRF", torch.full((9, 3), 0.5), "whole numbers"),
    ],
)
def test_data_of_another_kind_are_refused(kind: str, data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(build(kind), data)
    model = build(kind)
    with pytest.raises(InputError, match=message):  # also when only the validation rows are wrong
        fit(model, data_for(model), valid=data, steps=1)


@pytest.mark.parametrize(
    ("kind", "bad", "expected"),
    [
        ("RBM", torch.nan, "0, 1 or in between"),
        ("GaussianRBM", torch.inf, "a finite number"),
        ("PairwiseMRF", 7, "whole numbers below the variable's number of states"),
        ("GridMRF", -1, r"0 \(off\), 1 \(on\), or in between"),
    ],
)
def test_rows_that_cannot_be_used_are_counted_and_named(kind: str, bad: float, expected: str) -> None:
    """Once named by their place in a minibatch, at the step that drew them."""
    model = build(kind)
    data: Any = data_for(model, 60)
    good = data_for(model)
    values = data[0] if isinstance(data, tuple) else data
    for row in (3, 8, 50, 51, 52, 59):
        values[row].view(-1)[1] = bad
    before = weights_of(model)
    for options, name in (({"train": data}, "train"), ({"train": good, "valid": data}, "valid")):
        said = rf"^values must be {expected}, but they are not in 6 of the 60 rows of {name}: 3, 8, 50, 51, 52 … \(counted"
        with pytest.raises(InputError, match=said):
            qtcore.fit(model, **options, steps=5)
    assert same(before, weights_of(model))
    fit(model, good, valid=data, valid_rows=3, steps=1)  # the others are not used


def test_labels_that_are_none_are_counted_and_named() -> None:
    values, labels = data_for(build("GridMRF"))
    labels[5, 0, 0] = 3
    with pytest.raises(InputError, match=r"^truth must be a label: .* in 1 of the 12 rows of train: 5 "):
        fit(build("GridMRF"), (values, labels))
    seen = torch.ones(values.shape[1:], dtype=torch.bool)
    seen[0, 0] = False
    values[:, 0, 0] = torch.nan  # never observed
    fit(build("GridMRF"), (values, labels.clamp_max(2)), queries=fixed(seen))


def test_queries_of_ones_own_may_leave_out_what_is_missing() -> None:
    data = twins()
    data[::3, 1] = torch.nan

    def queries(values: Tensor, generator: Any = None, truth: Any = None) -> Query:
        observed = uniform()(values.nan_to_num(), generator).observed & ~values.isnan()
        return Query(values, observed, ~observed & ~values.isnan())

    fit(build("RBM"), data, queries=queries)


def test_a_parameter_that_is_not_finite_is_named() -> None:
    model = build("RBM")
    with torch.no_grad():
        model.c_h[1] = torch.nan
    with pytest.raises(NotFiniteError, match="step 1: the parameter c_h is not finite"):
        fit(model, twins())


def test_weights_that_explode_are_named_with_step_layer_and_message() -> None:
    torch.manual_seed(0)
    with pytest.raises(NotFiniteError, match=r"step 2: .*message 'to_hidden' is not finite in layer 1"):
        fit(GaussianRBM(4, 3, 5), torch.randn(20, 4, generator=rng(0)), learning_rate=1e30)


def test_a_loss_that_is_infinite_for_the_marginals_alone() -> None:
    model = GaussianRBM(4, 3, 5)
    with torch.no_grad():
        model.b.fill_(1e25)
    with pytest.raises(NotFiniteError, match=r"^step 1: the loss is inf, though all messages are finite; it began in the marg"):
        fit(model, torch.randn(20, 4, generator=rng(0)))


def test_a_validation_that_is_not_finite_is_named_too() -> None:
    model = GaussianRBM(4, 3, 5)
    valid = torch.full((3, 4), 3e38), torch.zeros(3, 4)
    with pytest.raises(NotFiniteError, match=r"^validation after step 2: .* in (layer \d|the marginals)"):
        fit(model, torch.randn(20, 4, generator=rng(0)), valid=valid, validate_every=2)


def test_a_grid_is_trained_on_whatever_it_is_shown() -> None:
    """By default everything is seen and everything is scored; with other queries, everything is scored all the same."""
    data = data_for(build("GridMRF"))
    default = weights_of(fit(build("GridMRF"), data))
    assert same(default, weights_of(fit(build("GridMRF"), data, queries=fixed())))
    assert not same(default, weights_of(fit(build("GridMRF"), data, queries=uniform(0.5))))
    assert isinstance(fit(GridMRF(5, 5, (2, 1, 1), 2), data, steps=1), GridMRF)  # the size is that of the data


def test_weights_decay_besides_the_step_of_adam() -> None:
    """In the first step, by learning rate × decay × weight: that step does not depend on it otherwise."""
    after = {}
    for decay in (0.0, 0.5):
        torch.manual_seed(0)
        model = qtcore.RBM(6, 2)
        before = model.W.detach().clone()
        rows = (torch.arange(60).reshape(10, 6) % 5 < 2).float()
        after[decay] = qtcore.fit(model, rows, steps=1, batch=10, learning_rate=0.1, weight_decay=decay).W.detach()  # type: ignore[union-attr]
    torch.testing.assert_close(after[0.5], after[0.0] - 0.1 * 0.5 * before)


def test_patience_ends_a_training_that_gets_no_better() -> None:
    torch.manual_seed(0)
    rows = (torch.rand(40, 6) < 0.5).float()
    steps: list[int] = []
    model = qtcore.fit(
        qtcore.RBM(6, 8),
        rows[:20],
        rows[20:],
        steps=500,
        batch=20,
        learning_rate=0.1,
        validate_every=2,
        patience=3,
        callback=lambda progress: bool(steps.append(progress.step)),  # type: ignore[func-returns-value]
    )
    assert steps[-1] == model.provenance.step + 6 < 500  # type: ignore[operator]


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        ([1.0] * 40, 40),  # there would be time for more
        ([4.0] * 40, 20),
        ([2.0] * 10 + [20.0] * 30, 13),  # the machine gets busy
        ([1.0] * 10 + [20.0] * 2 + [1.0] * 28, 40),  # for a while
        ([100.0] * 40, 1),
    ],
)
def test_steps_that_take_too_long_become_fewer(times: list[float], steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 steps are planned, and there are 80 seconds."""
    now, seen = [0.0], list[Progress]()

    def step(training: Any) -> float:
        now[0] += times[training.step]
        return 0.5

    monkeypatch.setattr(query_training.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(query_training._Training, "_one_step", step)
    fit(RBM(4, 2), torch.ones(20, 4), steps=40, seconds=80, callback=lambda progress: seen.append(progress))
    assert seen[-1].step == seen[-1].steps == steps
    assert sum(times[: steps - 1]) < 80
