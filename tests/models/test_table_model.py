"""A model of a table's columns: what it answers by name is what its graph answers by number."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import qtcore
from qtcore.errors import InputError, ModelFileError
from qtcore.learn.coordinates import Coordinates
from qtcore.models.base import FORMAT
from qtcore.query import Query, cardinality, gaps
from qtcore.tabular import Column, Schema

SCHEMA = Schema(
    (
        Column("id", "ignore", why="as asked"),
        Column("work", "categorical", ("a", "b", "other"), other="other"),
        Column("size", "ordered", ("S", "M", "L")),
        Column("rich", "binary", ("no", "yes")),
        Column("age", "count", low=(17, 25, 50), high=(24, 49, 90), mean=(20.0, 36.0, 61.5)),
        Column("height", "real", low=(1.0, 1.5), high=(1.4, 2.0), mean=(1.25, 1.75)),
    )
)


def model(scale: float = 0.6, **options: Any) -> qtcore.TableModel:
    """One with random log-potentials."""
    torch.manual_seed(0)
    made = qtcore.TableModel(SCHEMA, **({"n_hidden": 3} | options))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name != "T":
                parameter.normal_(0, scale)
    return made


LAST = {"rich": "yes", "height": 1.45, "work": "b", "size": "S", "age": 90}
ROWS: list[dict[str, Any]] = [{"work": "a", "age": 30}, {"size": "L", "id": "x"}, LAST]
VALUES = torch.tensor([[0, np.nan, np.nan, 1, np.nan], [np.nan, 2, *[np.nan] * 3], [1, 0, 1, 2, 1]])


def by_number(made: qtcore.TableModel, values: torch.Tensor) -> torch.Tensor:
    probs: torch.Tensor = made(Query(values, ~values.isnan())).probs  # type: ignore[attr-defined]
    return probs.detach()


# ---------------------------------------------------------------------------------------------------------------------
# Answers


def test_the_graph() -> None:
    made = model()
    assert made.names == ("work", "size", "rich", "age", "height", "hidden 0", "hidden 1", "hidden 2")
    assert made.n_states == (3, 3, 2, 3, 2, 2, 2, 2)
    scopes = {tuple(sorted(scope)) for _, some in made.factors() for scope in some}
    assert scopes == {(i,) for i in range(8)} | {(i, j) for i in range(5) for j in range(i + 1, 8)}
    scopes = {tuple(sorted(scope)) for _, some in model(lateral=False).factors() for scope in some}
    assert scopes == {(i,) for i in range(8)} | {(i, j) for i in range(5) for j in range(5, 8)}


def test_a_column_may_be_named_as_a_hidden_unit() -> None:
    schema = Schema((Column("hidden 1", "binary", ("a", "b")), Column("_hidden 0", "binary", ("a", "b"))))
    assert len(set(qtcore.TableModel(schema, 2).names)) == 4


def test_ask_is_the_marginals_by_name() -> None:
    made = model()
    torch.testing.assert_close(made.query(ROWS).values, VALUES, equal_nan=True)
    probs, answers = by_number(made, VALUES), made.ask(ROWS)
    assert list(answers) == ["work", "size", "rich", "age", "height"]
    for place, (name, answer) in enumerate(answers.items()):
        assert answer.states == SCHEMA[name].states
        assert answer.probs == pytest.approx(probs[:, place, : SCHEMA[name].n_states].numpy(), abs=1e-6)
        assert answer.probs.sum(1) == pytest.approx(1)
    age = answers["age"]
    assert age.mean == pytest.approx(age.probs @ [20, 36, 61.5])
    assert answers["work"].best == [["a", "b", "other"][k] for k in answers["work"].probs.argmax(1)]
    assert answers["work"]["nobody else has it"] == pytest.approx(answers["work"].probs[:, 2])


def test_what_is_asked_about_is_left_out_of_the_evidence() -> None:
    made = model()
    hidden = VALUES.clone()
    hidden[:, [1, 3]] = torch.nan
    answers = made.ask(ROWS, about=["age", "size"])
    assert list(answers) == ["age", "size"]
    assert answers["age"].probs == pytest.approx(by_number(made, hidden)[:, 3, :3].numpy(), abs=1e-6)


def test_exact_answers_by_another_engine() -> None:
    made = model()
    exact = qtcore.exact.marginals(made, made.query(ROWS)).probs  # type: ignore[attr-defined]
    answers = made.ask(ROWS, engine=qtcore.Exact())
    assert answers["work"].probs == pytest.approx(exact[:, 0].numpy(), abs=1e-5)


def test_one_row_and_nothing_known() -> None:
    made = model()
    answer = made.ask()
    assert answer.rows == 1
    assert answer["rich"]["yes"] == pytest.approx(float(by_number(made, torch.full((1, 5), torch.nan))[0, 2, 1]), abs=1e-6)
    assert made.ask({}, about="rich")["rich"]["yes"] == answer["rich"]["yes"]


def test_answers_are_shown() -> None:
    made = model()
    one = str(made.ask({"work": "a", "size": "XL"}, about=["rich", "age"]))
    assert one.splitlines()[0].split() == ["rich", "probability"]
    assert "17 – 24" in one
    assert "median" in one
    assert one.splitlines()[-1].startswith("note: a cell of 'size' is no level")
    assert str(made.ask([{"work": None}] * 9, about="rich")).endswith("… 9 rows")
    table = made.ask(ROWS, about=["rich", "age"]).as_dict()
    assert table["row"] == [1] * 5 + [2] * 5 + [3] * 5
    assert table["level"][:5] == ["no", "yes", "17 – 24", "25 – 49", "50 – 90"]
    assert table["mean"][:2] == [None, None]


def test_fill_by_the_likeliest_level_and_the_expected_number() -> None:
    made = model()
    answers, filled = made.ask(ROWS), made.fill(ROWS).as_dict()
    assert filled["work"] == ["a", answers["work"].best[1], "b"]
    assert filled["age"] == [30, round(answers["age"].mean[1]), 90]
    height, mean = made.schema["height"], float(answers["height"].mean[0])
    assert abs(filled["height"][0] - mean) <= (height.high[-1] - height.low[0]) / 1000
    assert len(repr(filled["height"][0])) < len(repr(mean))
    assert filled["id"] == [None, "x", None]
    assert made.fill(ROWS[2:]).as_dict()["age"] == [90]


def test_samples_agree_with_what_is_known_and_with_the_marginals() -> None:
    made = model()
    table = made.sample([ROWS[1], ROWS[2]], n=400, generator=torch.Generator().manual_seed(0))
    rows = table.as_dict()
    assert len(table) == 800
    assert not table.values.isnan().any()
    assert rows["size"] == ["L"] * 400 + ["S"] * 400
    assert rows["height"][400:] == [1.45] * 400
    work = made.ask(ROWS[1], about="work")["work"]
    share = [rows["work"][:400].count(level) / 400 for level in work.states]
    assert share == pytest.approx(work.probs[0], abs=0.1)
    assert made.sample(n=2, generator=torch.Generator().manual_seed(1)).as_dict() == made.sample(
        n=2, generator=torch.Generator().manual_seed(1)
    ).as_dict()
    query = made.query(ROWS[:2])
    assert made.sample(query, n=3).shape == (3, 2, 5)


def test_the_next_question() -> None:
    made = model()
    told = made.next({"work": "a"}, about="rich")
    bits = qtcore.next_question(made, made.query({"work": "a"}), about=[2]).bits[0]
    assert list(told.values()) == sorted(told.values(), reverse=True)
    assert told == {name: float(bits[k]) for k, name in enumerate(SCHEMA.names) if name in told}
    assert set(told) == {"size", "age", "height"}
    assert made.information([{"work": "a"}, ROWS[2]], "rich")[1].isnan().all()


def test_log_prob_is_that_of_what_is_known() -> None:
    made = model()
    values, known = VALUES, ~VALUES.isnan()
    query = Query(values, torch.zeros_like(known), known)
    expected = made.log_prob(query, orders=["forward"], engine=qtcore.Exact()).mean
    assert made.log_prob(ROWS, orders=["forward"], engine=qtcore.Exact()).mean.tolist() == pytest.approx(expected.tolist())
    with pytest.raises(InputError, match="row 2 holds nothing but gaps"):
        made.log_prob([{"work": "a"}, {"id": "x"}])


def test_start_from_the_frequencies() -> None:
    made = model(n_hidden=0, lateral=False)
    values = torch.tensor([[0, torch.nan, 1, 2, 0]] * 3 + [[1, 2, torch.nan, 2, 1]] * 6)
    made.start_from(values)
    answer = made.ask()
    assert answer["work"].probs[0] == pytest.approx(np.array([3.5, 6.5, 0.5]) / 10.5)
    assert answer["size"].probs[0] == pytest.approx(np.array([0.5, 0.5, 6.5]) / 7.5)


def test_ordered_columns_are_learned_smoothly() -> None:
    """A step of the optimiser in one bin moves its neighbours; names are learned one by one, and no answer changes."""
    made = model()
    coordinates = Coordinates(made)
    before = {name: parameter.detach().clone() for name, parameter in made.named_parameters()}
    for name, value in coordinates.values(coordinates.tensors).items():
        torch.testing.assert_close(value, before[name], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        coordinates.tensors["tables.weights_3"][0, 0, 0] += 1  # work
        coordinates.tensors["tables.weights_3"][6, 0, 0] += 1  # age
    coordinates.push()
    change = made.tables["weights_3"].detach() - before["tables.weights_3"]
    assert made.templates["weights_3"].scopes[[0, 6], 0].tolist() == [0, 3]
    assert change[0, :, 0].tolist() == pytest.approx([1, 0, 0], abs=1e-5)
    assert change[6, 0, 0] > change[6, 1, 0] > change[6, 2, 0] > 0
    made.loss(Query(VALUES[2:].expand(4, 5), torch.eye(5, dtype=torch.bool)[:4])).backward()
    coordinates.pull()
    K = dict(made.mixing()["tables.weights_3"])[1]
    expected = K.transpose(1, 2) @ made.tables["weights_3"].grad
    torch.testing.assert_close(coordinates.tensors["tables.weights_3"].grad, expected)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: m.ask({"wrk": "a"}), "there is no column named 'wrk'; did you mean work"),
        (lambda m: m.ask({"work": "a"}, about="id"), "'id' is left out"),
        (lambda m: m.ask({"work": "a"}, about=[]), "at least one column"),
        (lambda m: m.ask(ROWS[2]), "nothing is unknown"),
        (lambda m: m.ask(ROWS)["id"], "nothing was asked about 'id'"),
        (lambda m: m.ask(ROWS)["size"]["XXL"], "'size' has no level 'XXL'"),
        (lambda m: m.ask(ROWS)["size"].mean, "holds levels, not numbers"),
        (lambda m: m.ask(ROWS)["age"].quantile(2), "a quantile is a share"),
        (lambda m: m.sample(ROWS, n=0), "n must be a whole number"),
        (lambda m: m.next(ROWS, about="rich"), "about one row, not about 3"),
        (lambda _: qtcore.TableModel(SCHEMA, n_hidden=-1), "n_hidden must be a whole number"),
        (lambda _: qtcore.TableModel(SCHEMA, lateral=2), "lateral must be True or False"),  # type: ignore[arg-type]
        (lambda _: qtcore.TableModel(SCHEMA, n_hidden=10**9), "make 5000000010 pairs"),
        (lambda _: qtcore.TableModel(SCHEMA.columns[:1]), "a column is described by a dictionary"),
        (lambda _: qtcore.TableModel(Schema(SCHEMA.columns[:1])), "no column of this table can be used"),
    ],
)
def test_bad_questions(call: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(model())


def test_gaps_are_neither_evidence_nor_targets() -> None:
    queries = gaps(cardinality())
    values = VALUES.repeat(50, 1)
    query = queries(values, torch.Generator().manual_seed(0))
    plain = cardinality().draw(values.shape, torch.Generator().manual_seed(0))
    known = ~values.isnan()
    assert torch.equal(query.observed, plain & known)
    assert torch.equal(query.target, ~plain & known)


# ---------------------------------------------------------------------------------------------------------------------
# Files


def test_a_file_holds_schema_and_weights(tmp_path: Path) -> None:
    made = model(n_layers=7, damping=0.2)
    made.save(tmp_path / "model.safetensors")
    again = qtcore.load(tmp_path / "model.safetensors")
    assert isinstance(again, qtcore.TableModel)
    assert again.schema == SCHEMA
    assert again.schema["id"].why == "as asked"
    assert again.ask(ROWS)["age"].probs.tolist() == made.ask(ROWS)["age"].probs.tolist()
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def _more_hidden(config: dict[str, Any]) -> None:
    config["n_hidden"] = 2**40


def _other_levels(config: dict[str, Any]) -> None:
    config["schema"][1]["levels"].append("c")


def _twice(config: dict[str, Any]) -> None:
    config["schema"].append(config["schema"][1])


def _not_a_list(config: dict[str, Any]) -> None:
    config["schema"] = {"a": 1}


def _falling_bins(config: dict[str, Any]) -> None:
    config["schema"][4]["low"].reverse()


def _more(config: dict[str, Any]) -> None:
    config["schema"][1]["rank"] = "x"


@pytest.mark.parametrize("change", [_more_hidden, _other_levels, _twice, _not_a_list, _falling_bins, _more])
def test_files_that_were_changed(tmp_path: Path, change: Any) -> None:
    path = tmp_path / "model.safetensors"
    model().save(path)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()[FORMAT])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(about["config"])
    save_file(tensors, path, {FORMAT: json.dumps(about)})
    with pytest.raises(ModelFileError):
        qtcore.load(path)
