"""The dataset that every loader returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

Kind = Literal["binary", "soft", "gaussian", "grid", "image"]
Source = Literal["exact", "rearranged", "stand-in"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Train, validation and test rows, with their metadata.

    =============  ==================================================  ===============================
    kind           values of `train`, `valid`, `test`                  sets
    =============  ==================================================  ===============================
    ``binary``     float32 0 or 1, [n, V]                              the eight binary sets
    ``soft``       float32 in [0, 1], [n, V]                           digits
    ``gaussian``   float32, standardised, [n, V]                       frey
    ``image``      uint8 grey levels, [n, 28, 28]                      mnist, glyphs
    ``grid``       uint8 0 or 1, the noisy contour, [n, 30, 30]        border, border-glyphs, drawings
    =============  ==================================================  ===============================
    """

    name: str
    kind: Kind
    train: Tensor
    valid: Tensor
    test: Tensor
    source: Source
    """``exact``: the standard rows in the standard order; ``rearranged``: the standard rows, some in another order
    or split; ``stand-in``: other data, whose figures do not compare with the paper's."""
    note: str
    """How it was made."""
    image_shape: tuple[int, int] | None = None
    """Height and width, if a row is an image."""
    variable_names: tuple[str, ...] | None = None
    """One name per column of a flat row, if known."""
    statistics: Mapping[str, Tensor | float] = field(default_factory=dict)
    """Statistics of the preprocessing, such as the mean that was subtracted."""
    truth: Mapping[str, Tensor] | None = None
    """By split (``train``, ``valid``, ``test``): the label of each pixel (grid: CONTOUR, OUT, IN) or the digit (image)."""
    raw: Mapping[str, Tensor] | None = None
    """By split: the images before preprocessing, uint8 (frey)."""

    @property
    def splits(self) -> dict[str, Tensor]:
        """The three splits by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test}
