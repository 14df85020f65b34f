"""Training on a table: what is learned, what gaps do, how it is stopped and continued."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import qtcore
from qtcore.errors import InputError
from qtcore.learn.query_training import VALID, Progress, generator
from qtcore.learn.run import BEST, CONFIG
from qtcore.learn.table_training import Plan, held_out, split
from qtcore.query import Mask, Query, cardinality, gaps
from qtcore.tabular import Table

LEVELS = {"a": ["x", "y", "z"], "b": ["no", "yes"], "c": ["1", "2", "3"], "d": ["p", "q"]}


def joint() -> Any:
    """A distribution of four columns with one cause in common, which none of them shows for certain."""
    p = np.zeros((3, 2, 3, 2))
    for z in range(3):
        shares = [np.where(np.arange(size) == (z + shift) % size, 0.9, 0.05) for shift, size in enumerate(p.shape)]
        p += (1 + z) * np.einsum("a,b,c,d->abcd", *(share / share.sum() for share in shares))
    return p / p.sum()


def rows(n: int, missing: float = 0.0, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    p = joint()
    states = np.unravel_index(rng.choice(p.size, n, p=p.ravel()), p.shape)
    return {
        name: [None if rng.random() < missing else levels[k] for k in own]
        for (name, levels), own in zip(LEVELS.items(), states, strict=True)
    }


def test_answers_approach_the_true_conditional_probabilities() -> None:
    """All of them: every column given every state of every set of others, after training on rows with gaps."""
    model = qtcore.fit_table(rows(4000, missing=0.2), steps=200, schema={"c": "categorical"})
    p, errors, independent = joint(), [], []
    for place, name in enumerate(LEVELS):
        others = [k for k in range(4) if k != place]
        for count in range(4):
            for known in itertools.combinations(others, count):
                for states in itertools.product(*(range(p.shape[k]) for k in known)):
                    index: list[Any] = [slice(None)] * 4
                    for k, state in zip(known, states, strict=True):
                        index[k] = slice(state, state + 1)
                    part = p[tuple(index)]
                    truth = part.sum(tuple(others)) / part.sum()
                    row = {list(LEVELS)[k]: list(LEVELS.values())[k][state] for k, state in zip(known, states, strict=True)}
                    answer = model.ask(row, about=name)[name].probs[0]
                    weight = part.sum()
                    errors.append(weight * np.abs(answer - truth).sum() / 2)
                    independent.append(weight * np.abs(p.sum(tuple(others)) - truth).sum() / 2)
    assert sum(errors) < 0.2 * sum(independent)


def test_training_with_gaps_is_training_on_queries_that_leave_them_unobserved() -> None:
    table = Table(rows(120, missing=0.3))
    filled = table.values.nan_to_num(0)
    known = {tuple(row): ~own.isnan() for row, own in zip(filled.tolist(), table.values, strict=True)}
    assert len(known) > 9  # rows are told apart below by what they hold

    class Unobserved(Mask):
        """The same masks over complete rows, of which some cells are kept secret."""

        def draw(self, shape: Any, generator: torch.Generator | None = None) -> Tensor:
            return cardinality().draw(shape, generator)

        def __call__(self, values: Tensor, generator: torch.Generator | None = None, truth: Tensor | None = None) -> Query:
            assert truth is not None
            observed, there = self.draw(values.shape, generator), truth == 1
            return Query(values, observed & there, ~observed & there, values)

    made = []
    for data, queries in (
        (table.values, gaps(cardinality())),
        ((filled, (~table.values.isnan()).float()), Unobserved()),
    ):
        torch.manual_seed(0)
        model = qtcore.TableModel(table.schema, n_hidden=2)
        made.append(qtcore.fit(model, data, queries=queries, steps=12, batch=40, seed=3).state_dict())
    for name, tensor in made[0].items():
        assert torch.equal(tensor, made[1][name]), name


def test_hidden_units_learn_what_three_columns_do_together() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 1000))
    data = {"a": a, "b": b, "c": a ^ b}
    model = qtcore.fit_table(data, steps=300)
    answer = model.ask([{"a": 0, "b": 1}, {"a": 1, "b": 1}, {"a": 1}], about="c")["c"]
    assert answer["1"] == pytest.approx([1, 0, 0.5], abs=0.12)
    assert qtcore.fit_table(data, steps=150, n_hidden=0).ask({"a": 0, "b": 1})["c"]["1"] < 0.7


def test_a_column_of_numbers() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, 1500)
    y = 3 * x + rng.normal(0, 0.5, 1500)
    model = qtcore.fit_table({"x": x, "y": y}, steps=200)
    answer = model.ask([{"x": -1}, {"x": 0}, {"x": 1}], about="y")["y"]
    assert answer.mean == pytest.approx([-3, 0, 3], abs=0.5)
    assert np.all(answer.quantile(0.1) < answer.mean)
    assert np.all(answer.quantile(0.9) > answer.mean)


def test_sizes_follow_from_the_table() -> None:
    small, large = Plan.of(Table(rows(60))), Plan.of(Table(rows(4000)))
    assert small.n_hidden < large.n_hidden
    assert (small.settings.batch, large.settings.batch) == (50, 250)
    assert small.lateral
    wide = Table({f"c{k}": [f"l{s % 40}" for s in range(400)] for k in range(9)})
    assert not Plan.of(wide).lateral
    given = Plan.of(wide, n_hidden=5, lateral=True)
    assert (given.n_hidden, given.lateral) == (5, True)


def test_minutes_decide_the_steps_and_early_stopping_ends_sooner() -> None:
    seen: list[Progress] = []
    table = Table(rows(150))
    qtcore.fit_table(table, minutes=0.01, callback=lambda progress: seen.append(progress))  # type: ignore[arg-type, func-returns-value]
    assert 10 <= seen[-1].steps <= 1000
    seen.clear()
    model = qtcore.fit_table(table, steps=400, validate_every=4, patience=3, callback=lambda progress: seen.append(progress))  # type: ignore[arg-type, func-returns-value]
    assert seen[-1].step < 400
    assert seen[-1].step == model.provenance.step + 12  # type: ignore[operator]


def test_a_stopped_training_keeps_the_best_weights() -> None:
    train, valid = split(table := Table(rows(300)))
    scores: list[float] = []

    def stop(progress: Progress) -> bool:
        scores.append(progress.valid or 99)
        return progress.step == 30

    model = qtcore.fit_table(table, steps=400, validate_every=10, learning_rate=0.3, callback=stop)
    again = qtcore.metrics.score(model, valid.repeat(5, 1), model.queries(), generator(VALID), batch=60)
    assert again.mean * qtcore.metrics.BITS == pytest.approx(min(scores), abs=1e-5)
    assert (len(train), len(valid)) == (260, 40)


def test_which_rows_are_held_out() -> None:
    table = Table({"a": [None, *range(60)] * 2, "b": [None, *range(60, 120)] * 2}, bins=60)
    _, valid = split(table, seed=3)
    numbers = held_out(table, seed=3)
    assert numbers == sorted(set(numbers))
    assert sorted(valid.tolist()) == sorted(table.values[numbers].tolist())
    assert held_out(table, seed=4) != numbers


def test_a_run_in_a_folder_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    data = rows(200, missing=0.2)
    options: dict[str, Any] = {"steps": 40, "validate_every": 5, "save_every": 10, "patience": 0}
    whole = qtcore.fit_table(data, folder=tmp_path / "whole", **options)
    qtcore.fit_table(data, folder=tmp_path / "halves", callback=lambda progress: progress.step == 17, **options)
    resumed = qtcore.fit_table(data, minutes=7, folder=tmp_path / "halves", resume=True)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    best = qtcore.load(tmp_path / "halves" / BEST)
    assert isinstance(best, qtcore.TableModel)
    assert best.schema == whole.schema
    assert best.ask({"a": "x"})["c"].probs.tolist() == whole.ask({"a": "x"})["c"].probs.tolist()
    with pytest.raises(InputError, match="was begun with table"):
        qtcore.fit_table(rows(200, seed=1), folder=tmp_path / "halves", resume=True)
    (tmp_path / "halves" / CONFIG).write_text("{}")
    with pytest.raises(InputError, match="is not the configuration of a run on a table"):
        qtcore.fit_table(data, folder=tmp_path / "halves", resume=True)


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (rows(9), {}, "9 rows with values, but it takes 10"),
        ({"a": [1] * 50}, {}, "no column of this table can be used"),
        (rows(50), {"minutes": 0}, "minutes must be a number above 0"),
        (rows(50), {"step": 3}, "no setting named 'step'"),
        (3, {}, "a table is a DataFrame"),
    ],
)
def test_bad_input(data: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        qtcore.fit_table(data, **options)
