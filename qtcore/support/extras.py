"""Optional dependencies: one sentence where they are missing."""

from importlib import import_module
from types import ModuleType

from qtcore.errors import MissingExtraError


def required(module: str, extra: str) -> ModuleType:
    """Import a module that an extra brings.

    Raises:
        MissingExtraError: saying how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        text = f"this needs {error.name}, which is not installed; pip install 'qtcore[{extra}]' brings it."
        raise MissingExtraError(text) from error
