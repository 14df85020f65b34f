"""Optional dependencies: one sentence where they are missing."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from qtcore.errors import MissingExtraError

EXTRAS = {
    "app": ("bokeh", "panel", "panel_material_ui", "param"),
    "bench": ("distributed", "matplotlib"),
    "dev": ("playwright",),
}
"""What of the extras of pyproject.toml the commands use."""


def needs(extra: str, *modules: str) -> None:
    """Whether these modules (by default all that we use of an extra) can be imported; asked before anything is done.

    Raises:
        MissingExtraError: saying how to install them.
    """
    missing = [module for module in modules or EXTRAS[extra] if find_spec(module) is None]
    if missing:
        raise MissingExtraError(_sentence(missing[0], extra))


def required(module: str, extra: str) -> ModuleType:
    """Import a module that an extra brings.

    Raises:
        MissingExtraError: saying how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(_sentence(str(error.name), extra)) from error


def _sentence(module: str, extra: str) -> str:
    return f"this needs {module}, which is not installed; pip install 'qtcore[{extra}]' brings it."
