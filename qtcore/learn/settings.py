"""Training settings: one frozen dataclass, shown by `python -m qtcore.train --help`."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from qtcore.errors import InputError
from qtcore.support.ranges import parse_range

MAX_RATE = 1e30
"""Beyond this the optimiser itself overflows in float32."""


Schedule = Literal["constant", "linear", "cosine"]


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value matches a field's annotation: a type, a union of types, or one of several words."""
    if kind is Schedule:
        return isinstance(value, str) and value in get_args(kind)
    kinds = get_args(kind) or (kind,)
    return isinstance(value, (*kinds, int) if float in kinds else kinds) and not isinstance(value, bool)


@dataclass(frozen=True)
class Settings:
    """Settings of a query training."""

    epochs: float | None = None
    """Passes through the data; `steps` takes precedence."""
    steps: int | None = None
    """Number of minibatches."""
    seconds: float | None = None
    """Time there is: if steps turn out to take too long for it, fewer are done, and the rate falls sooner accordingly."""
    batch: int = 500
    """Samples in a minibatch, over all processes."""
    learning_rate: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 0.0
    """What of each weight is taken away in a step, in units of the learning rate (AdamW); 0 for Adam."""
    schedule: Schedule = "constant"
    """How the rate falls to zero at the end: not at all, linearly or as a cosine, from `decay_from` on."""
    decay_from: float = 0.5
    """Fraction of the training after which the rate starts to fall."""
    warmup: int = 0
    """Steps over which the rate rises linearly from zero."""
    averaging: float = 0.0
    """Decay of the moving average of the weights that is validated and kept; 0 keeps the weights themselves."""
    train_layers: int | str | None = None
    """Layers in training, if different from the model's own number (which validation always uses): a number, or a range such
    as 8-20, from which every step draws its number."""
    train_depths: int = 1
    """How many numbers of layers each step draws from that range; its loss is the average over them."""
    seed: int = 0
    """Seed of the initial weights, the order of the data and the queries."""
    validate_every: int = 200
    """Steps between validations."""
    valid_rows: int = 5000
    """Largest number of validation rows to use."""
    patience: int = 0
    """Stop after so many validations without a better one; 0 goes on to the end."""
    save_every: int = 200
    """Steps between saved states; one is also saved every half a minute, and at the end."""

    def __post_init__(self) -> None:
        if self.epochs is None and self.steps is None:
            raise InputError("give epochs or steps: how long to train.")
        for field in fields(self):
            if not _fits(getattr(self, field.name), field.type):
                raise InputError(f"{field.name} cannot be {getattr(self, field.name)!r}.")
        checks = {
            "epochs": self.epochs is None or 0 < self.epochs < math.inf,
            "steps": self.steps is None or self.steps > 0,
            "seconds": self.seconds is None or 0 < self.seconds < math.inf,
            "batch": self.batch > 0,
            "learning_rate": 0 < self.learning_rate <= MAX_RATE,
            "weight_decay": self.weight_decay >= 0 and self.weight_decay * self.learning_rate <= 1,
            "decay_from": 0 <= self.decay_from <= 1,
            "warmup": self.warmup >= 0,
            "averaging": 0 <= self.averaging < 1,
            "train_layers": self.train_layers is None or self.depths is not None,
            "train_depths": 1 <= self.train_depths <= self._number_of_depths,
            "seed": self.seed >= 0,
            "validate_every": self.validate_every > 0,
            "valid_rows": self.valid_rows > 0,
            "patience": self.patience >= 0,
            "save_every": self.save_every > 0,
        }
        for name, good in checks.items():
            if not good:
                raise InputError(f"{name} cannot be {getattr(self, name)!r}.")

    @property
    def depths(self) -> tuple[int, int] | None:
        """The least and the largest number of layers in training; None for the model's own number."""
        return parse_range(self.train_layers)

    @property
    def _number_of_depths(self) -> int:
        least, most = self.depths or (1, 1)
        return most - least + 1

    def total_steps(self, rows: int) -> int:
        """Number of minibatches for a dataset of this many rows, with the smaller last one of an epoch included."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(1, math.ceil(self.epochs * math.ceil(rows / self.batch)))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) out of `steps`."""
        rate = self.learning_rate
        if step < self.warmup:
            rate *= (step + 1) / self.warmup
        start = self.decay_from * steps
        if self.schedule == "constant" or step < start:
            return rate
        left = 1 - (step - start) / (steps - start)
        return rate * (left if self.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2)
