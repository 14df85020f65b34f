"""Comparing the model that is shown with another one on the same query."""

from collections.abc import Callable, Sequence
from typing import Any

import qtcore
from qtcore.models.base import Model
from qtcore_app import engine
from qtcore_app.components import Choices

METHODS = {"pcd": "PCD", "advil": "AdVIL"}
"""Other ways to train the same model; the query-trained one has the plain name."""
OTHER_KIND = {"rbm": "dbm", "dbm": "rbm"}
FIXED, FIXED_DEPTH = "fixed", 15
"""The same model, trained at a single depth: that of the paper's grid."""

Make = Callable[[str, Model, int], engine.Run]


def offered(name: str, layers: Sequence[int], depth: int) -> dict[str, str]:
    """What the model `name`, shown with `depth` layers, can be compared with: key in the address → label of the button."""
    shipped = qtcore.available()
    options = {"": "off"}
    options |= {method: f"trained with {label}" for method, label in METHODS.items() if _sibling(name, method) in shipped}
    other = OTHER_KIND.get(name.partition("/")[0])
    if other and _sibling(name, other) in shipped:
        options[other] = other.upper()
    if _sibling(name, FIXED) in shipped:
        options[FIXED] = f"trained at {FIXED_DEPTH} layers"
    if name in shipped:
        options["untrained"] = "untrained"
    return options | {f"layers-{count}": f"{'stop at' if count < depth else 'go on to'} {count}" for count in layers}


def _sibling(name: str, word: str) -> str:
    """The model of the same dataset that was trained by another method or at a fixed depth, or is of the other kind."""
    if word == FIXED:
        return f"{name}-{FIXED}"
    kind, _, dataset = name.partition("/")
    return f"{word}/{dataset}" if word in OTHER_KIND else f"{kind}-{word}/{dataset}"


class Comparison:
    """A row of buttons and the chosen comparison. `changed` is called when the user chooses another one. Of the model that is
    shown there are `depth` layers; it can be compared with itself after each of the numbers in `layers`."""

    def __init__(
        self,
        name: str,
        depth: int,
        layers: Sequence[int],
        wanted: str,
        changed: Callable[[], None],
        width: int,
    ) -> None:
        self.value = wanted
        self._layers, self._changed = layers, changed
        self.row = Choices(heading="Compare with", width=width, margin=(14, 0, 0, 0))
        self.use(name, depth)
        self.row.param.watch(self._on_click, "clicks")

    def use(self, name: str, depth: int) -> None:
        """Compare with this model from now on."""
        self.name, self._depth = name, depth
        self.options = offered(name, self._layers, depth)
        self.value = self.value if self.value in self.options else ""
        self.row.param.update(labels=list(self.options.values()), selected=list(self.options).index(self.value))

    def _on_click(self, event: Any) -> None:
        number = self.row.clicked()
        if number is not None:
            self.row.selected = number
            self.value = list(self.options)[number]
            self._changed()

    def runs(self, model: Model, make: Make) -> list[engine.Run]:
        """The run of the model that is shown, and that of the other one; `make(label, model, layers)` makes a run."""
        if not self.value:
            return [make(f"{self._depth} layers", model, self._depth)]
        if self.value.startswith("layers-"):
            counts = self._depth, int(self.value.removeprefix("layers-"))
            return [make(f"{'stopped at' if n < max(counts) else 'all'} {n} layers", model, n) for n in counts]
        if self.value == "untrained":
            other, labels = engine.untrained(model), ("trained", "untrained")
        else:
            other = engine.model(_sibling(self.name, self.value))
            own_kind = OTHER_KIND.get(self.value)
            theirs = METHODS.get(self.value, f"at {FIXED_DEPTH} layers")
            labels = (own_kind.upper(), self.value.upper()) if own_kind else ("QT", theirs)
        return [make(labels[0], model, self._depth), make(labels[1], other, self._depth)]
