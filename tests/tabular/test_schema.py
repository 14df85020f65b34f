"""What is made of columns, and what is said about them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qtcore
from qtcore.errors import InputError
from qtcore.tabular import Column, Schema, Table
from qtcore.tabular.columns import of_numbers
from qtcore.tabular.schema import MAX_LEVELS

RNG = np.random.default_rng(0)
MANY = 200


def column(values: Any, name: str = "it", **options: Any) -> tuple[Column, str]:
    """What is made of the values of a column, and what is said about it."""
    table = Table({name: list(values)}, **options)
    return table.schema[name], " ".join(table.notes)


# ---------------------------------------------------------------------------------------------------------------------
# Kinds


@pytest.mark.parametrize(
    ("values", "kind", "states"),
    [
        (["yes", "no", None] * 20, "binary", ("no", "yes")),
        ([True, False] * 20, "binary", ("False", "True")),
        ([1, 0, math.nan] * 20, "binary", ("0", "1")),
        ([2.5, 1.5] * 20, "binary", ("1.5", "2.5")),
        (["b", "c", "a"] * 20, "categorical", ("a", "b", "c")),
        (["02134", "10001", "94105"] * 20, "categorical", ("02134", "10001", "94105")),
        ([5, 3, 4, 1] * 20, "count", ("1", "3", "4", "5")),
        ([0.5, 3, 4, 1] * 20, "real", ("0.5", "1", "3", "4")),
    ],
)
def test_kinds(values: list[Any], kind: str, states: tuple[str, ...]) -> None:
    made, said = column(values)
    assert (made.kind, made.states, said) == (kind, states, "")


@pytest.mark.parametrize(
    ("values", "name", "why"),
    [
        ([None] * 30, "it", "it has no values"),
        (["same"] * 30, "it", "all its values are 'same'"),
        ([1.0, "1"] * 30, "it", "all its values are '1'"),
        (range(5, 5 + MANY), "it", "another whole number in every row"),
        (RNG.permutation(10**6)[:MANY], "customer_id", "another whole number in every row"),
        ([f"user{k}" for k in range(MANY)], "it", "another value in every row, such as 'user0', as an identifier has"),
        ([f"2020-0{1 + k % 9}-{10 + k % 20}" for k in range(MANY)], "it", "it holds dates or times such as '2020-01-10'"),
        ([f"1{k % 10}.{1 + k % 9}.2020 12:30" for k in range(MANY)], "it", "it holds dates or times"),
        (["".join(RNG.choice(list("abc "), 60)) for _ in range(MANY)], "it", "it holds free text"),
    ],
)
def test_columns_that_are_left_out_say_why(values: Any, name: str, why: str) -> None:
    made, said = column(values, name)
    assert made.kind == "ignore"
    assert f"{name!r} is left out: {made.why}." == said
    assert why in said


def test_whole_numbers_that_differ_are_no_identifier_by_that_alone() -> None:
    assert column(RNG.permutation(10**6)[:MANY], "salary")[0].kind == "count"


def test_rare_levels_are_pooled() -> None:
    made, said = column(["a"] * 500 + ["b"] * 400 + ["c"] * 3 + ["d"] * 2)
    assert (made.states, made.other) == (("a", "b", "other"), "other")
    assert said == "2 rare levels of 'it' (5 rows) are taken together as 'other'."
    states, strange = made.encode(["b", "c", "e", None])
    assert states.tolist()[:3] == [1, 2, 2]
    assert math.isnan(states[3])
    assert strange == {"c": 1, "e": 1}


def test_one_rare_level_stays_and_a_level_named_other_is_not_lost() -> None:
    assert column(["a"] * 500 + ["b"] * 400 + ["c"])[0].states == ("a", "b", "c")
    made, _ = column(["a"] * 500 + ["other"] * 400 + ["c", "d"])
    assert (made.states, made.other) == (("a", "other", "(other)"), "(other)")


def test_too_many_levels_are_pooled() -> None:
    made, _ = column([f"level {k}" for k in range(MAX_LEVELS + 9)] * 20)
    assert (made.n_states, made.other) == (MAX_LEVELS + 1, "other")


def test_a_few_words_among_numbers_count_as_gaps() -> None:
    made, said = column([*range(50), "n.k."] * 2)
    assert made.kind == "count"
    assert said == "2 cells of 'it' are no number, such as 'n.k.', and count as gaps."


# ---------------------------------------------------------------------------------------------------------------------
# Overrides


def test_overrides() -> None:
    data = {"id": range(40), "zip": [1, 2, 3, 4] * 10, "size": ["S", "M", "L", "XL"] * 10, "n": [1, 2] * 20, "g": [1, 2] * 20}
    own = Column("g", "binary", ("1", "2"))
    schema = {"id": "real", "zip": "categorical", "size": ["S", "M", "L"], "n": "ignore", "g": own}
    table = Table(data, schema)
    kinds = [(each.kind, each.n_states) for each in table.schema]
    assert kinds == [("real", 4), ("categorical", 4), ("ordered", 3), ("ignore", 0), ("binary", 2)]
    assert table.schema["size"].states == ("S", "M", "L")
    assert table.notes == ["10 cells of 'size' are no level that it is known to have, such as 'XL', and count as gaps."]
    assert Table(data, {each.name: each.as_dict() for each in table.schema}).schema == table.schema
    assert Table(data, table.schema).schema is table.schema


@pytest.mark.parametrize(
    ("values", "given", "sentence"),
    [
        ([1, 2, 3], {"them": "real"}, "no column named 'them' to override"),
        ([1, 2, 3], {"it": "numeric"}, "cannot be 'numeric'; give binary, categorical"),
        ([1, 2, 3], {"it": "binary"}, "it has 3 values, not 2"),
        (["a", "b", "c"], {"it": "count"}, "no two different whole numbers"),
        (["a", "b", "c"], {"it": "ordered"}, "give them in their order, in a list"),
        (["a", "b", "c"] + [f"l{k}" for k in range(300)], {"it": "categorical"}, "hardly any of its values occurs twice"),
        ([1, 1, 1], {"it": "real"}, "fewer than two values"),
        ([1, 2, 3], {"it": ["1"]}, "cannot be ordered with the states"),
        ([1, 2, 3], {"it": 3}, "by a kind or a list of its levels, not by 3"),
        ([1, 2, 3], {"it": Column("other", "ignore")}, "is named 'other'"),
        ([1, 2, 3], 3, "schema must say by name"),
    ],
)
def test_bad_overrides(values: list[Any], given: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        column(values, schema=given)


def test_bad_bins() -> None:
    with pytest.raises(InputError, match="bins must be a whole number ≥ 2"):
        column(range(90), bins=1)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


numbers = st.lists(st.floats(-1e300, 1e300) | st.integers(-3, 3).map(float), min_size=2, max_size=80)


@given(numbers, st.integers(2, 8))
def test_every_number_is_in_its_bin(values: list[float], bins: int) -> None:
    if len(set(values)) < 2:
        return
    made = of_numbers("it", "real", values, bins)
    assert 2 <= made.n_states <= bins
    states, strange = made.encode([repr(value) for value in values])
    assert not strange
    for value, state in zip(values, states.astype(int).tolist(), strict=True):
        assert made.low[state] <= value <= made.high[state]
    assert len(set(made.states)) == made.n_states
    assert Column.from_dict(made.as_dict()) == made


def test_bins_hold_about_as_many_numbers_each() -> None:
    made = of_numbers("it", "real", RNG.normal(size=1000).tolist(), 10)
    values = np.concatenate([[low, high] for low, high in zip(made.low, made.high, strict=True)])
    assert np.all(np.diff(values) > 0)
    states, _ = made.encode([repr(value) for value in np.random.default_rng(1).normal(size=4000).tolist()])
    assert np.bincount(states.astype(int), minlength=10) == pytest.approx(400, abs=120)


def test_a_frequent_number_has_a_bin_of_its_own() -> None:
    made = of_numbers("it", "count", [0.0] * 900 + list(map(float, range(1, 101))), 5)
    assert made.states[0] == "0"
    assert made.n_states == 5


def test_means_and_quantiles() -> None:
    made = of_numbers("it", "real", np.linspace(0, 100, 1001).tolist(), 10)
    uniform = np.full((1, 10), 0.1)
    assert made.expected(uniform) == pytest.approx([50], abs=0.1)
    for q in (0, 0.05, 0.1, 0.5, 0.77, 1):
        assert made.quantile(uniform, q) == pytest.approx([100 * q], abs=0.3)
    certain = np.eye(10)[3:4]
    assert made.expected(certain) == made.mean[3]
    assert made.low[3] <= made.quantile(certain, 0.01)[0] < made.quantile(certain, 0.99)[0] <= made.high[3]


def test_draws_stay_in_their_bins() -> None:
    for kind, values in (("real", RNG.normal(size=300)), ("count", RNG.poisson(20, 300).astype(float))):
        made = of_numbers("it", kind, values.tolist(), 6)
        states = RNG.integers(0, 6, 500)
        drawn = made.draw(states, RNG.random(500))
        assert made.encode([repr(value) for value in drawn])[0].tolist() == states.tolist()
        assert {type(value) for value in drawn} == {int if kind == "count" else float}


# ---------------------------------------------------------------------------------------------------------------------
# Files, and tables as they are shown


@pytest.mark.parametrize(
    "stored",
    [
        {"name": "a", "kind": "odd"},
        {"name": "", "kind": "ignore"},
        {"name": "a", "kind": "binary", "levels": ["x"]},
        {"name": "a", "kind": "binary", "levels": ["x", "y", "z"]},
        {"name": "a", "kind": "categorical", "levels": ["x", "x"]},
        {"name": "a", "kind": "categorical", "levels": ["x", 3]},
        {"name": "a", "kind": "categorical", "levels": ["x", "y"], "other": "z"},
        {"name": "a", "kind": "real", "low": [0.0, 1.0], "high": [1.0, 2.0], "mean": [0.5, 1.5]},
        {"name": "a", "kind": "real", "low": [0.0, 2.0], "high": [1.0, 3.0], "mean": [0.5, 4.0]},
        {"name": "a", "kind": "real", "low": [0.0, 2.0], "high": [1.0], "mean": [0.5, 2.5]},
        {"name": "a", "kind": "real", "low": [0.0, math.nan], "high": [1.0, 3.0], "mean": [0.5, 2.5]},
        {"name": "a", "kind": "real", "low": [0.0], "high": [1.0], "mean": [0.5]},
        {"name": "a", "kind": "ignore", "levels": ["x", "y"]},
        {"name": "a", "kind": "ignore", "extra": "x"},
        {"name": "a", "kind": "binary", "levels": "xy"},
        {"kind": "ignore"},
        "a",
    ],
)
def test_columns_that_no_table_has(stored: Any) -> None:
    with pytest.raises(InputError, match="column"):
        Schema.from_list([stored])


def test_two_columns_of_one_name() -> None:
    with pytest.raises(InputError, match="same name"):
        Schema((Column("a", "ignore"), Column("a", "ignore")))


def test_round_trip_and_rows() -> None:
    data = {"n": [1, None, 3, 4], "w": ["x", "y", None, "x"], "c": ["same"] * 4, "z": ["007", "008", "007", "008"]}
    table = Table(data)
    assert Schema.from_list(table.schema.as_list()) == table.schema
    assert table.as_dict() == data
    assert table[1:3].as_dict() == {name: values[1:3] for name, values in data.items()}
    assert table.filled({"n": [9, 2, 9, 9]}).as_dict()["n"] == [1, 2, 3, 4]
    assert "4 rows, 4 columns" in str(table)
    assert repr(table).splitlines()[1:3] == ["n,w,c,z", "1,x,same,007"]


def test_rows_of_another_table() -> None:
    schema = Table({"n": range(40), "w": ["x", "y"] * 20, "c": [1] * 40}, {"n": "real"}).schema
    table = Table({"w": ["y", "z"], "n": [1e9, "odd"]}, schema)
    assert table.values.tolist()[0] == [3, 1]
    assert table.values.isnan().tolist()[1] == [True, True]
    assert table.notes == [
        "a cell of 'n' is no number, but 'odd', and counts as a gap.",
        "a cell of 'w' is no level that it is known to have, but 'z', and counts as a gap.",
    ]
    with pytest.raises(InputError, match="there is no column named 'ww'; did you mean w"):
        Table({"ww": ["x"]}, schema)
    with pytest.raises(InputError, match="'c' is left out"):
        schema.place("c")


def test_describe() -> None:
    table = Table({"age": [*range(30), None], "work": ["a", "b", None] * 10 + ["a"], "k": [1] * 31})
    assert qtcore.describe(table).splitlines() == [
        "31 rows, 3 columns",
        "column  kind    gaps  states",
        "age     ignore     1  –",
        "work    binary    10  a, b",
        "k       ignore     0  –",
        "note: 'age' is left out: it has another whole number in every row, as an identifier has.",
        "note: 'k' is left out: all its values are '1'.",
    ]


@pytest.mark.parametrize(
    "ends", [(0.0, 1.0), (-1.5e308, 1.5e308), (0.0, 5e-324), (10.0, 10.0001), (1e-310, 2e-310), (-3.0, 1e6)]
)
def test_numbers_are_given_to_a_thousandth_of_their_range(ends: tuple[float, float]) -> None:
    made = Column("it", "real", low=ends, high=ends, mean=ends)
    values = np.array([ends[0] / 3 + ends[1] / 3 * 2, *ends])
    for value, said in zip(values, made.rounded(values), strict=True):
        assert abs(said / 2 - value / 2) <= max((ends[1] / 2 - ends[0] / 2) / 1000, 5e-324)
    assert made.draw([0, 1], np.array([0.2, 0.3])) == [*ends]
