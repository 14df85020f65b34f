"""Settings: what is refused, how long a training is, how the learning rate goes."""

import math
import re
from typing import Any

import pytest

from qtcore.errors import InputError
from qtcore.learn.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("epochs", value) for value in (0.0, -1.0, math.nan, math.inf)],
        *[("seconds", value) for value in (0.0, -1.0, math.nan, math.inf, "1")],
        *[("learning_rate", value) for value in (0.0, -0.1, math.nan, math.inf, 1e31)],
        *[("decay_from", value) for value in (-0.1, 1.1, math.nan)],
        *[("averaging", value) for value in (-0.1, 1.0, math.nan)],
        *[(name, 0) for name in ("steps", "batch", "train_layers", "validate_every", "valid_rows", "save_every")],
        *[("warmup", -1), ("seed", -1), ("schedule", "nope"), ("schedule", 3), ("steps", 1.5), ("batch", True)],
        *[("learning_rate", "x"), ("seed", 1.5), ("batch", None)],
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=re.escape(f"{name} cannot be {value!r}.")):
        Settings(**({"steps": 10} | {name: value}))


def test_how_long_must_be_said() -> None:
    with pytest.raises(InputError, match="epochs or steps"):
        Settings()


@pytest.mark.parametrize(
    ("rows", "batch", "epochs", "steps"), [(10, 5, 1, 2), (11, 5, 1, 3), (11, 5, 2, 6), (3, 5, 0.1, 1), (11, 5, 0.5, 2)]
)
def test_an_odd_batch_counts_as_a_step(rows: int, batch: int, epochs: float, steps: int) -> None:
    assert Settings(epochs=epochs, batch=batch).total_steps(rows) == steps


def test_steps_take_precedence_over_epochs() -> None:
    assert Settings(epochs=100, steps=7).total_steps(10) == 7


def rates(**options: Any) -> list[float]:
    settings = Settings(**({"steps": 10, "learning_rate": 2.0} | options))
    return [settings.rate(step, 10) for step in range(10)]


def test_constant_rate() -> None:
    assert rates() == [2.0] * 10


def test_linear_rate_falls_from_the_share_that_was_named() -> None:
    assert rates(schedule="linear", decay_from=0.5) == pytest.approx([2.0] * 6 + [1.6, 1.2, 0.8, 0.4])
    assert rates(schedule="linear", decay_from=0.0) == pytest.approx([2 - 0.2 * step for step in range(10)])


def test_cosine_rate() -> None:
    expected = [1 + math.cos(math.pi * step / 10) for step in range(10)]
    assert rates(schedule="cosine", decay_from=0.0) == pytest.approx(expected)


def test_a_decay_that_never_begins() -> None:
    assert rates(schedule="cosine", decay_from=1.0) == [2.0] * 10


def test_warm_up_rises_linearly_and_goes_with_a_decay() -> None:
    assert rates(warmup=4) == pytest.approx([0.5, 1.0, 1.5] + [2.0] * 7)
    both = rates(warmup=4, schedule="linear", decay_from=0.0)
    assert both == pytest.approx([0.5, 1.0 * 0.9, 1.5 * 0.8] + [2 - 0.2 * step for step in range(3, 10)])
