"""Everything that can be wrong with what a user hands us, by name.

Each message is one sentence that says what was found and what is expected. The command lines print it and
leave with exit code 2; see :func:`qtcore.cli.guarded`.
"""


class InputError(ValueError):
    """A query, a parameter or an option has the wrong shape, dtype, device or value."""


class NotFiniteError(ValueError):
    """A number inside the model became infinite or NaN; the message names the tensor and the layer."""


class UnknownNameError(ValueError):
    """No model, dataset or experiment has this name; the message lists the nearest ones."""


class ModelFileError(OSError):
    """A model file is missing, truncated, foreign, or of a newer format than this version reads."""


class DataError(OSError):
    """A dataset is missing, damaged, or not what it should be."""


def out_of_memory(error: Exception) -> bool:
    """Whether memory was the trouble; on the CPU torch raises a RuntimeError like any other."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)


def nearest(name: str, known: "list[str]") -> str:
    """The end of an error message: the known names that look like `name`, else all of them."""
    import difflib

    close = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known names: " + (", ".join(sorted(known)) if known else "none yet")
