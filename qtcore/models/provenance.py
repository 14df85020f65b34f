"""Where a model's parameters come from: a typed record that travels in its file."""

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Provenance:
    """A record of a training. Every field may be missing; other entries of a file are kept in `other`."""

    experiment: str | None = None
    """The experiment's name, such as rbm/adult."""
    dataset: str | None = None
    source: str | None = None
    """Whether the data were exact, rearranged or a stand-in."""
    method: str | None = None
    """qt, pcd or advil."""
    seed: int | None = None
    settings: dict[str, Any] | None = None
    """Settings of the training (of its last phase)."""
    start: dict[str, Any] | None = None
    """The starting point: name, settings and step of an earlier phase or of another model."""
    step: int | None = None
    """The step with the best validation score, whose weights these are."""
    valid_nce_bits: float | None = None
    minutes: float | None = None
    quick: bool | None = None
    """Whether this was only a fraction of a training, as a test run."""
    history: list[list[float]] | None = None
    """(step, validation NCE in bits) along the training."""
    other: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The known fields, as plain values."""
        known = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "other"}
        return {name: value for name, value in known.items() if value is not None} | self.other

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Provenance":
        """The inverse of `as_dict`; raises ValueError for a value of the wrong type."""
        kinds: dict[str, tuple[type, ...]] = {
            "settings": (dict,),
            "start": (dict,),
            "seed": (int,),
            "step": (int,),
            "valid_nce_bits": (int, float),
            "minutes": (int, float),
            "quick": (bool,),
            "history": (list,),
        }
        rest = {_FORMER.get(name, name): value for name, value in stored.items()}
        record = cls()
        for entry in fields(cls):
            value = rest.pop(entry.name, None) if entry.name != "other" else None
            if value is None:
                continue
            if not isinstance(value, kinds.get(entry.name, (str,))):
                raise ValueError(f"its note {entry.name!r} is {value!r}")
            setattr(record, entry.name, value)
        record.other = rest
        return record


_FORMER = {"course": "history"}
"""Names in older files."""
