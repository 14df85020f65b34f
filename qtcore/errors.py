"""Exceptions for everything that can be wrong with a user's input.

Each message is a single sentence that says what is wrong and what is expected. The commands print it and exit with code 2;
see :func:`qtcore.support.cli.guarded`.
"""


class InputError(ValueError):
    """A query, a parameter or an option has the wrong shape, dtype, device or value."""


class NotFiniteError(ValueError):
    """A number inside the model became infinite or NaN; the message names the tensor and the layer."""


class UnknownNameError(ValueError):
    """No model, dataset or experiment has this name; the message lists the nearest ones."""


class ModelFileError(OSError):
    """A model file is missing, truncated, not ours, or of a newer format than this version reads."""


class DataError(OSError):
    """A dataset is missing, damaged, or not what it should be."""


class BackendError(ValueError):
    """The native backend was requested explicitly but is not available; the message says why."""


class MissingExtraError(ImportError, ValueError):
    """Something needs an optional dependency that is not installed; the message says how to install it."""


def out_of_memory(error: Exception) -> bool:
    """Whether the error means out of memory; on the CPU torch raises a plain RuntimeError."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)


def nearest(name: str, known: "list[str]") -> str:
    """The end of an error message: the known names similar to `name`, or all of them."""
    import difflib

    close = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known names: " + (", ".join(sorted(known)) if known else "none yet")
