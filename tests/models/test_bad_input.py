"""Bad input: each kind gets a named exception, and one sentence that says what was found and what is expected."""

import math
from typing import Any

import pytest
import torch

from qtcore import DBM, RBM, Exact, GaussianRBM, Gibbs, GridMRF, PairwiseMRF, Query, errors
from qtcore.errors import InputError

from ..strategies import KINDS, answer, ask, backends, build, sample_shape

every_kind = pytest.mark.parametrize("kind", KINDS)
NAN, INF = math.nan, math.inf


def test_every_named_exception_is_a_value_error_or_an_os_error() -> None:
    named = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, Exception)]
    assert len(named) >= 5
    assert all(issubclass(error, ValueError | OSError) for error in named)


def one_sentence(caught: Any) -> None:
    text = str(caught.value)
    assert text.endswith((".", "?"))
    assert "\n" not in text


# ---------------------------------------------------------------------------------------------------------------------
# Queries

zeros, ones = torch.zeros(2, 3), torch.ones(2, 3)


@pytest.mark.parametrize(
    ("values", "observed", "target", "truth", "message"),
    [
        # shape
        (zeros, torch.ones(2, 4), None, None, r"values \[2, 3\] and observed \[2, 4\] must have the same shape"),
        (torch.zeros(2, 3, 2, 2), ones, None, None, "must have the same shape"),
        (torch.zeros(3), torch.ones(3), None, None, r"observed must be batch first.*its shape is \[3\]"),
        (torch.tensor(1.0), torch.tensor(1.0), None, None, "batch first"),
        (zeros, ones, torch.ones(3, dtype=torch.bool), None, r"target \[3\] must have the shape of observed, \[2, 3\]"),
        (zeros, ones, None, torch.zeros(2, 2), r"truth \[2, 2\] must have the shape of observed"),
        # nothing there
        (torch.zeros(0, 3), torch.ones(0, 3), None, None, r"at least one sample and one variable.*\[0, 3\]"),
        (torch.zeros(2, 0), torch.ones(2, 0), None, None, "at least one sample and one variable"),
        # dtype
        (zeros + 1j, ones, None, None, "values must hold real numbers, but its dtype is torch.complex64"),
        (zeros, ones + 0j, None, None, "observed must hold real numbers"),
        (zeros, ones, None, zeros + 1j, "truth must hold real numbers"),
        (zeros, ones, ones, None, "target must be boolean, but its dtype is torch.float32"),
        (zeros, ones, ones.long(), None, "target must be boolean, but its dtype is torch.int64"),
        (zeros.to(torch.float8_e4m3fn), ones, None, None, r"values cannot be torch.float8_e4m3fn.*values.to\(torch.float32\)"),
        (zeros, ones.to(torch.float8_e5m2), None, None, "observed cannot be torch.float8_e5m2"),
        (zeros, ones, None, zeros.to(torch.uint16), "truth cannot be torch.uint16"),
        ("abc", ones, None, None, "values must be a tensor of numbers, not str"),
        (None, ones, None, None, "values must be a tensor of numbers, not NoneType"),
        (zeros, [[1, 2], [3]], None, None, "observed must be a tensor of numbers, not list"),
        (zeros, {"a": 1}, None, None, "observed must be a tensor of numbers, not dict"),
        # device
        (zeros.to("meta"), ones, None, None, "values are on meta but observed is on cpu; put both on one"),
        (zeros, ones, torch.ones(2, 3, dtype=torch.bool, device="meta"), None, "target is on meta but observed is on cpu"),
        (zeros, ones, None, zeros.to("meta"), "truth is on meta but observed is on cpu"),
        # NaN and infinity where they would count
        (zeros + NAN, ones, None, None, r"values must be finite where they are observed, but at \(0, 0\)"),
        (torch.tensor([[0, 0, INF]]), torch.tensor([[0, 0, 0.01]]), None, None, r"at \(0, 2\) there is NaN or infinity"),
        (torch.full((2, 3, 4), NAN), ones, None, None, "values must be finite where they are observed"),
        # weights
        (zeros, ones * 1.5, None, None, r"observed must be boolean or a weight in \[0, 1\], but it holds 1.5"),
        (zeros, ones * -0.1, None, None, r"a weight in \[0, 1\], but it holds -0.1"),
        (zeros, ones * NAN, None, None, r"a weight in \[0, 1\], but it holds nan"),
        (zeros, ones.long() * 2, None, None, r"a weight in \[0, 1\], but it holds 2"),
    ],
)
def test_queries_that_make_no_sense(values: Any, observed: Any, target: Any, truth: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Query(values, observed, target, truth)
    one_sentence(caught)


def test_a_single_sample_is_not_a_batch() -> None:
    with pytest.raises(InputError, match="batch first"):
        Query(zeros, ones)[0]  # type: ignore[index]
    with pytest.raises(InputError, match="at least one sample"):
        Query(zeros, ones)[5:]


# ---------------------------------------------------------------------------------------------------------------------
# Queries for models


def refused(model: Any, query: Any, message: str) -> None:
    """By every call, and before anything is computed."""
    for call in (model, model.loss, model.nll, lambda q: list(model.layers(q))):
        with pytest.raises(InputError, match=message) as caught:
            call(query)
        one_sentence(caught)


@every_kind
def test_a_query_of_another_shape(kind: str) -> None:
    model = build(kind)
    other = {"GridMRF": (2, 6), "PairwiseMRF": (2, 9)}.get(kind, (2, 9))
    refused(model, Query(torch.zeros(other), torch.zeros(other)), rf"{kind} expects queries of shape \[batch, .*\], not")
    deep = (2, *sample_shape(model), 1, 1)
    refused(model, Query(torch.zeros(deep), torch.zeros(deep)), rf"{kind} expects queries of shape")


@every_kind
def test_something_that_is_no_query(kind: str) -> None:
    refused(build(kind), torch.zeros(2, 4), f"{kind} expects a qtcore.Query, not Tensor")


@every_kind
def test_a_query_on_another_device(kind: str) -> None:
    model = build(kind)
    refused(model, ask(model).to("meta"), r"the query is on meta but the model is on cpu; use query.to\(model.device\)")


def floats(model: Any) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.is_floating_point()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_kind
def test_parameters_of_different_data_types(kind: str, dtype: torch.dtype) -> None:
    """Each parameter in turn: some once ended in an error of torch, others changed the type of the answer."""
    other = torch.float64 if dtype == torch.float32 else torch.float32
    for name in floats(build(kind)):
        model = build(kind, dtype=dtype)
        query = ask(model)
        parameter = model.get_parameter(name)
        parameter.data = parameter.data.to(other)
        for _ in backends():
            refused(model, query, r"^[\w.]+ is float\d\d, but [\w.]+ is float\d\d; use model.to\(dtype\)\.$")
        assert answer(model.to(dtype)(query)).dtype == dtype


def test_data_types_are_named() -> None:
    model = RBM(6, 3)
    model.c_h.data = model.c_h.data.double()
    refused(model, ask(model), "^c_h is float64, but W is float32; use model")
    model = RBM(6, 3)
    model.T.data = model.T.data.double()
    refused(model, ask(model), "^T is float64, but W is float32; use model")
    model.register_buffer("offset", torch.zeros(3, dtype=torch.float16))
    model.T.data = model.T.data.float()
    refused(model, ask(model), "^offset is float16, but W is float32; use model")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn])
@every_kind
def test_parameters_of_too_few_digits(kind: str, dtype: torch.dtype) -> None:
    """Messages overflowed in float16, and all probabilities were NaN; in bfloat16 they were wrong by up to 0.77."""
    model = build(kind).to(dtype)
    name = str(dtype).removeprefix("torch.")
    query = ask(build(kind))
    refused(model, query, rf"^the parameters are {name}, in which messages overflow .*; use model\.float\(\)")
    with pytest.raises(InputError, match=f"the parameters are {name}"):
        model(query, engine=Exact())
    assert not answer(model.float()(query)).isnan().any()


@every_kind
def test_autocast_is_allowed(kind: str) -> None:
    model = build(kind, dtype=torch.float32)
    query = ask(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert not answer(model(query)).isnan().any()


@pytest.mark.parametrize("engine", [Exact(), Gibbs(sweeps=50)])
def test_options_of_belief_propagation_on_a_model_with_another_engine(engine: Any) -> None:
    model = build("RBM")
    model.engine = engine
    for change, message in (
        (lambda: setattr(model, "damping", 0.5), "has no damping; set model.engine = qtcore.BP"),
        (model.compile_layers, "has no layers to compile; set model.engine = qtcore.BP"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            change()
        one_sentence(caught)
    assert model.engine == engine


@pytest.mark.parametrize("kind", ["RBM", "DBM", "GaussianRBM"])
def test_likelihoods_for_a_model_that_takes_values(kind: str) -> None:
    """They once ended in an error of torch about shapes that do not broadcast."""
    model = build(kind)
    shape = (2, *sample_shape(model))
    refused(model, Query(torch.ones(*shape, 2), torch.ones(shape)), f"{kind} expects values .* not likelihoods")


@pytest.mark.parametrize("bad", [2.0, -0.5, 1.0001, 1e30])
@pytest.mark.parametrize("kind", ["RBM", "DBM", "GridMRF"])
def test_a_bit_out_of_range(kind: str, bad: float) -> None:
    model = build(kind)
    query = ask(model, 1, "hard")
    values = torch.where(query.observed, query.values, 0.0)
    where = tuple(query.observed.nonzero()[0].tolist())
    values[where] = bad
    place = r"\(" + ", ".join(map(str, where)) + r"\)"
    truth = torch.zeros_like(values)
    refused(model, Query(values, query.observed, truth=truth), f"values must be 0.* 1.*in between, but at {place} there is")


@pytest.mark.parametrize("bad", [2, -1, 0.5, 1e30])
def test_a_category_out_of_range(bad: float) -> None:
    model = build("PairwiseMRF")
    values = torch.zeros(2, 3, dtype=torch.float64)
    values[1, 0] = bad  # the first variable has two states
    refused(model, Query(values, torch.ones(2, 3)), r"whole numbers below the variable's number of states, but at \(1, 0\)")


def test_the_last_category_of_each_variable_is_in_range() -> None:
    model = build("PairwiseMRF")
    model(Query(torch.tensor([[1, 2, 3]]), torch.ones(1, 3)))
    for column, too_large in ((0, 2), (1, 3), (2, 4)):
        values = torch.zeros(1, 3).index_fill(1, torch.tensor([column]), too_large)
        refused(model, Query(values, torch.ones(1, 3)), "number of states")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.ones(2, 3, 3), r"likelihoods must have 4 states \(padded\), not 3"),
        (-torch.ones(2, 3, 4), "likelihoods ≥ 0 that are not all 0"),
        (torch.zeros(2, 3, 4), "likelihoods ≥ 0 that are not all 0"),
        (torch.tensor([0.0, 0, 1, 1]).expand(2, 3, 4), "likelihoods ≥ 0 that are not all 0"),  # all in the padding
    ],
)
def test_likelihoods_that_make_no_sense(values: Any, message: str) -> None:
    refused(build("PairwiseMRF"), Query(values, torch.ones(2, 3)), message)


# ---------------------------------------------------------------------------------------------------------------------
# Truth


@pytest.mark.parametrize("bad", [NAN, INF])
@every_kind
def test_truth_that_is_none_at_a_target(kind: str, bad: float) -> None:
    """Answered all the same; NaN is fine where nothing is scored."""
    model = build(kind)
    query = ask(model, 1, "hard")
    truth = query.truth.double().masked_fill(query.target, bad)
    asked = Query(query.values, query.observed, query.target, truth)
    model(asked)
    with pytest.raises(InputError, match="truth must be") as caught:
        model.loss(asked)
    one_sentence(caught)
    fine = query.truth.double().masked_fill(~query.target, NAN)
    assert torch.equal(model.loss(Query(query.values, query.observed, query.target, fine)), model.loss(query))


@pytest.mark.parametrize("kind", ["RBM", "DBM", "GaussianRBM", "PairwiseMRF"])
def test_values_that_are_scored_must_be_there(kind: str) -> None:
    """Without a truth of their own, targets are scored against the values, which were NaN here."""
    model = build(kind)
    values, observed = ask(model, 1, "none").values, ask(model, 1, "none").observed
    with pytest.raises(InputError, match=r"truth must be .* but at \(0, 0\) there is nan"):
        model.loss(Query(values, observed))


@pytest.mark.parametrize(
    ("kind", "bad"), [("RBM", 1.5), ("RBM", -1), ("DBM", 2), ("PairwiseMRF", 7), ("GridMRF", 3), ("GridMRF", 0.5)]
)
def test_truth_out_of_range(kind: str, bad: float) -> None:
    model = build(kind)
    query = ask(model, 1, "hard")
    truth = query.truth.double()
    truth[query.target] = bad
    with pytest.raises(InputError, match=rf"truth must be .* there is {bad:g}"):
        model.loss(Query(query.values, query.observed, query.target, truth))


def test_a_grid_without_its_label_image() -> None:
    model = build("GridMRF")
    with pytest.raises(InputError, match="scored against a label image; give it as the query's truth"):
        model.loss(Query(torch.zeros(2, 2, 3), torch.ones(2, 2, 3)))


def test_likelihoods_have_no_truth_of_their_own() -> None:
    model = build("PairwiseMRF")
    observed = torch.tensor([[1.0, 0.0, 0.0]])
    with pytest.raises(InputError, match="give it when values are likelihoods"):
        model.loss(Query(torch.ones(1, 3, 4), observed))
    assert model.loss(Query(torch.ones(1, 3, 4), observed, truth=torch.zeros(1, 3))).isfinite()


@every_kind
def test_targets_and_truth_are_checked_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each model, and anew in every slice, which may have no targets; each check waits for the device."""
    model, other = build(kind), build(kind)
    query, checked = ask(model, 1, "hard", batch=4), []
    check = type(model.variables).check_truth
    monkeypatch.setattr(
        type(model.variables), "check_truth", lambda self, query, target: (checked.append(query), check(self, query, target))
    )
    assert torch.equal(model.loss(query), model.loss(query))
    assert checked == [query]
    other.loss(query)
    assert checked == [query, query]
    target = query.target.clone()
    target[:2] = False
    some = Query(query.values, query.observed, target, query.truth)
    model.loss(some)
    assert checked[2:] == [some]
    with pytest.raises(InputError, match="nothing to score"):
        model.loss(some[:2])
    bad = Query(query.values, query.observed, query.target, query.truth.double().masked_fill(query.target, NAN))
    for _ in range(2):  # what was refused is not remembered
        with pytest.raises(InputError, match="truth must be"):
            model.loss(bad)


@every_kind
@pytest.mark.parametrize("bad", [-1, 2.5, "3", True])
def test_a_number_of_layers_that_is_none(kind: str, bad: Any) -> None:
    model = build(kind)
    query = ask(model, 1, "hard")
    for call in (lambda: model(query, bad), lambda: list(model.layers(query, bad)), lambda: model.loss(query, bad)):
        with pytest.raises(InputError, match="n_layers must be a whole number ≥ 0"):
            call()


# ---------------------------------------------------------------------------------------------------------------------
# Constructors

COMMON: list[tuple[dict[str, Any], str]] = [
    ({"n_layers": -1}, "n_layers must be a whole number ≥ 0, not -1"),
    ({"n_layers": 2.0}, "n_layers must be a whole number"),
    ({"n_layers": None}, "n_layers must be a whole number"),
    ({"n_layers": 10**12}, "n_layers must be at most 1000000, not 1000000000000"),
    ({"damping": 1.0}, r"damping must lie in \[0, 1\), not 1.0; 0 means none"),
    ({"damping": -0.1}, "damping must lie in"),
    ({"damping": NAN}, "damping must lie in"),
    ({"damping": "half"}, "damping must lie in"),
]
TEMPERATURE: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1}, "temperature must be ≥ 0, not -1; 1 is sum-product, 0 is max-product"),
    ({"temperature": INF}, "temperature must be ≥ 0"),
    ({"temperature": None}, "temperature must be ≥ 0"),
    ({"temperature": 0, "learn_temperature": True}, "must start above 0"),
]


OPTIONS = [(kind, *case) for kind in KINDS for case in COMMON + (TEMPERATURE if kind != "GaussianRBM" else [])]


@pytest.mark.parametrize(("kind", "options", "message"), OPTIONS)
def test_options_that_make_no_sense(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        build(kind, **options)
    one_sentence(caught)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBM(0, 3), "n_visible must be a whole number ≥ 1, not 0"),
        (lambda: RBM(3, -2), "n_hidden must be a whole number ≥ 1, not -2"),
        (lambda: RBM(3.0, 2), "n_visible must be a whole number ≥ 1, not 3.0"),  # type: ignore[arg-type]
        (lambda: RBM(True, 2), "n_visible must be a whole number"),
        (lambda: DBM(0, 2, 2), "n_visible must be"),
        (lambda: DBM(2, 0, 2), "n_hidden_1 must be"),
        (lambda: DBM(2, 2, 0), "n_hidden_2 must be"),
        (lambda: GaussianRBM(0, 2), "n_visible must be"),
        (lambda: GaussianRBM(2, 0), "n_hidden must be"),
        (lambda: GaussianRBM(2, 2, schedule="random"), "schedule must be 'sequential' or 'flooding', not 'random'"),  # type: ignore[arg-type]
        (lambda: GridMRF(0, 3), "height must be"),
        (lambda: GridMRF(3, 0), "width must be"),
        (lambda: GridMRF(clones=(1, 1)), r"at least one state to each of CONTOUR, OUT, IN, not \[1, 1\]"),
        (lambda: GridMRF(clones=(1, 0, 1)), "at least one state to each of"),
        (lambda: GridMRF(clones=("a", 1, 1)), "clones must be three whole numbers"),  # type: ignore[arg-type]
        (lambda: GridMRF(clones=3), "clones must be three whole numbers"),  # type: ignore[arg-type]
        (lambda: PairwiseMRF([], []), r"at least one state, not \[\]"),
        (lambda: PairwiseMRF([2, 0], []), "at least one state"),
        (lambda: PairwiseMRF([2, 2], [(0, 2)]), r"edge \(0, 2\) must join two distinct variables among 0 … 1"),
        (lambda: PairwiseMRF([2, 2], [(-1, 0)]), "must join two distinct variables"),
        (lambda: PairwiseMRF([2, 2], [(1, 1)]), "must join two distinct variables"),
        (lambda: PairwiseMRF([2, 2], [(0, 1), (1, 0)]), r"edge \(1, 0\) is given twice"),
        (lambda: PairwiseMRF([2, 2], [(0, 1, 1)]), "all whole numbers"),  # type: ignore[list-item]
        (lambda: PairwiseMRF([2, "two"], []), "all whole numbers"),  # type: ignore[list-item]
        (lambda: PairwiseMRF(3, []), "all whole numbers"),  # type: ignore[arg-type]
        (lambda: PairwiseMRF([2, 2], [], hidden=(2,)), "hidden must name distinct variables among"),
        (lambda: PairwiseMRF([2, 2], [], hidden=(1, 1)), "hidden must name distinct variables"),
        (lambda: PairwiseMRF([2, 2], [], hidden=(0, 1)), "at least one variable must be visible"),
    ],
)
def test_sizes_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make()
    one_sentence(caught)
