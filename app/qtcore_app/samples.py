"""Binary pictures and records for queries: from the test set if it is on this machine, else samples from the model."""

import functools
import logging
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import qtcore
from qtcore.data import SPECIFICATIONS, load
from qtcore.data.inventory import holding
from qtcore.errors import DataError
from qtcore.models.base import Model
from qtcore_app import engine

log = logging.getLogger(__name__)

KINDS = ("rbm", "dbm")
N_SHOWN = 18
MAX_STEPS = 128
"""Steps in which samples are drawn: a few seconds."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows to choose from: values [n, V] in [0, 1], and where they come from."""

    dataset: str
    key: str
    """In the address: test or dream."""
    heading: str
    values: Tensor

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width, if a row is a picture."""
        return SPECIFICATIONS[self.dataset].image_shape

    @property
    def names(self) -> tuple[str, ...] | None:
        return SPECIFICATIONS[self.dataset].variable_names

    def pictures(self) -> NDArray[np.uint8]:
        """Grey pictures [n, height, width]."""
        assert self.shape is not None
        return (self.values * 255).round().numpy().astype(np.uint8).reshape(-1, *self.shape)

    def number(self, image: str) -> int:
        """The row that an address names, such as "test-3"; else the first."""
        key, _, number = image.partition("-")
        return int(number) if key == self.key and number.isdecimal() and int(number) < len(self.values) else 0


def offered() -> dict[str, list[str]]:
    """Dataset → the kinds of models that exist for it. The digits are always there and come first: they need no data file."""
    shipped = qtcore.available()
    sets = [name for name, known in SPECIFICATIONS.items() if known.kind in ("binary", "soft")]
    models = {name: [kind for kind in KINDS if f"{kind}/{name}" in shipped] for name in sets}
    first = {"digits": models.pop("digits") or ["rbm"]}
    return first | {name: kinds for name, kinds in models.items() if kinds}


def title(dataset: str) -> str:
    return SPECIFICATIONS[dataset].title


@functools.cache
def samples(dataset: str) -> Samples:
    """Some rows of the test set, or samples of the model; the same for all users. Nothing is fetched."""
    try:
        if holding(dataset).source is not None:
            test = load(dataset).test
            test = test[: len(test) // SPECIFICATIONS[dataset].versions]  # shifted copies come after the originals
            rows = test[:: max(1, len(test) // N_SHOWN)][:N_SHOWN].clone()
            return Samples(dataset, "test", f"{title(dataset)} (test set)", rows)
    except DataError as error:
        log.info("no %s: %s", dataset, error)
    name = engine.first_available(*(f"{kind}/{dataset}" for kind in KINDS))
    assert name is not None, "only datasets with a model are offered"
    return Samples(dataset, "dream", "Samples from the model", engine.in_pool(drawn, engine.model(name)))


def drawn(model: Model) -> Tensor:
    """Samples of a model [n, V]; of many variables, some that are far apart are drawn at a time."""
    nothing = torch.zeros(1, model.size, dtype=torch.bool)
    query, block = qtcore.Query(nothing.float(), nothing), math.ceil(model.size / MAX_STEPS)
    return model.sample(query, N_SHOWN, block=block, generator=torch.Generator().manual_seed(0))[:, 0]
