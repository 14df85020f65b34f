"""Specification of a dataset: everything known about it before it is loaded."""

from collections.abc import Callable
from dataclasses import dataclass

from qtcore.data.checks import Check
from qtcore.data.dataset import Dataset, Kind, Source
from qtcore.data.originals import RemoteFile


@dataclass(frozen=True)
class Specification:
    """One dataset: the single source for loading, fetching, verifying, the tables and the app."""

    name: str
    title: str
    """Its title in the app."""
    kind: Kind
    origin: str
    """Its origin in a few words; ``fetch --list`` shows them if there are no files."""
    load: Callable[..., Dataset]
    """Makes the dataset; its parameters are the options of `qtcore.data.load`, and all have a default."""
    checks: tuple[Check, ...]
    """The checks that verify it, in this order."""
    files: tuple[RemoteFile, ...] = ()
    """The original files; none if the data come with the package or its dependencies."""
    source: Source = "exact"
    """The source of a dataset loaded from the originals."""
    prepared: Source | None = None
    """The source of one loaded from ``prepared/<name>.npz``, which takes precedence over the originals; None: not used."""
    stand_in: str | None = None
    """Name of the arrays in ``prepared/`` that replace originals missing on this machine."""
    short_title: str = ""
    """A shorter title for narrow columns, if needed."""
    image_shape: tuple[int, int] | None = None
    """Height and width, if a row is an image."""
    variable_names: tuple[str, ...] | None = None
    """One name per column of a flat row, if known."""
    versions: int = 1
    """Number of versions of each image in a split; the originals come first, all together."""
    in_table_1: bool = False
    """Whether it is in the paper's Table 1."""

    @property
    def heading(self) -> str:
        """The title, short enough for a table."""
        return self.short_title or self.title
