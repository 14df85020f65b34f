"""The query-trained models of the comparison that are not the paper's: larger, semi-restricted, or of one-of-k groups.

Sizes and structures are chosen on validation data (docs/comparison.md says among which). Queries are the paper's uniform ones.
"""

from dataclasses import asdict, dataclass
from typing import Any

from qtcore.data import Dataset
from qtcore.errors import InputError
from qtcore.learn.settings import Settings
from qtcore.models.base import Model
from qtcore.models.one_hot import OneHotModel
from qtcore.models.provenance import Provenance
from qtcore.models.rbm import RBM
from qtcore.paper.experiments import Experiment

ONE_HOT = ("adult", "connect4", "dna", "mushrooms")
"""The sets whose bits stand in one-of-k groups, named after them (qtcore/data/variables.py)."""


@dataclass(frozen=True)
class Structure(Experiment):
    """A model with another structure than the paper's: "rbm-large/…", "lateral/…" (single bits, joined to each other) or
    "groups/…" (one-of-k groups, joined to each other)."""

    pairs: str = "all"
    """Which groups (or bits) are joined to each other: all, none, near:K (at most K places apart) or grid:K (at most K rows and
    columns apart)."""

    def build(self, data: Dataset) -> Model:
        """The model before training."""
        kind, width = self.name.split("/")[0], data.train.shape[1]
        model: Model
        if kind == "rbm-large":
            model = RBM(width, self.hidden, self.layers, temperature=self.temperature, learn_temperature=self.learn_temperature)
        else:
            groups = groups_of(data) if kind == "groups" else [[bit] for bit in range(width)]
            pairs = pairs_of(self.pairs, len(groups), data.image_shape)
            model = OneHotModel(groups, self.hidden, pairs, self.layers)
            model.start_from(data.train)
        first = self.phases[0]
        model.provenance = Provenance(self.name, data.name, data.source, "qt", first.seed, asdict(first))
        model.image_shape = data.image_shape
        return model


def groups_of(data: Dataset) -> list[list[int]]:
    """The bits of each one-of-k group, from their names: "workclass Private", "base -3 is A"."""
    if data.name not in ONE_HOT or data.variable_names is None:
        raise InputError(f"the bits of {data.name} do not stand in one-of-k groups; those of {', '.join(ONE_HOT)} do.")
    groups: dict[str, list[int]] = {}
    for bit, name in enumerate(data.variable_names):
        groups.setdefault(name.rpartition(" ")[0], []).append(bit)
    return list(groups.values())


def pairs_of(rule: str, count: int, image_shape: tuple[int, int] | None) -> "str | list[tuple[int, int]]":
    """Pairs of groups by the rule of a `Structure`."""
    name, _, reach = rule.partition(":")
    if rule == "all":
        return "all"
    if rule == "none":
        return []
    if name == "near" and reach.isdigit():
        return [(i, j) for i in range(count) for j in range(i + 1, min(count, i + int(reach) + 1))]
    if name == "grid" and reach.isdigit() and image_shape is not None:
        at = [divmod(pixel, image_shape[1]) for pixel in range(count)]
        close = int(reach)
        return [
            (i, j)
            for i in range(count)
            for j in range(i + 1, count)
            if max(abs(at[i][0] - at[j][0]), abs(at[i][1] - at[j][1])) <= close
        ]
    raise InputError(f"pairs cannot be {rule!r}; give all, none, near:K or, of images, grid:K.")


_FALLING: dict[str, Any] = {"batch": 100, "schedule": "linear", "decay_from": 0.2, "averaging": 0.99}
_GROUPS = _FALLING | {"learning_rate": 0.015, "validate_every": 100}
_LARGE = _FALLING | {"learning_rate": 0.01, "validate_every": 250, "averaging": 0.995}


def _structure(name: str, hidden: int, layers: int, pairs: str, *phases: dict[str, Any], **more: Any) -> Structure:
    *earlier, last = (Settings(**phase) for phase in phases)
    return Structure(name, name.split("/")[1], last, hidden, layers, earlier=tuple(earlier), pairs=pairs, **more)


_CHOSEN = (
    _structure("groups/adult", 40, 4, "all", _GROUPS | {"steps": 1500}),
    _structure("groups/connect4", 50, 4, "all", _GROUPS | {"steps": 1500}),
    _structure("groups/dna", 8, 4, "near:2", _GROUPS | {"steps": 500, "learning_rate": 0.02, "weight_decay": 0.1}),
    _structure("groups/mushrooms", 50, 4, "all", _GROUPS | {"steps": 1000, "learning_rate": 0.02}),
    _structure("rbm-large/digits", 150, 6, "none", _LARGE | {"steps": 3000}),
    _structure("rbm-large/ocr_letters", 200, 6, "none", _LARGE | {"steps": 5000}),
    _structure("lateral/digits", 50, 4, "all", _GROUPS | {"steps": 1500}),
    _structure("lateral/ocr_letters", 50, 4, "grid:2", _GROUPS | {"steps": 2500}),
)
STRUCTURES = {structure.name: structure for structure in _CHOSEN}
"""By name."""
