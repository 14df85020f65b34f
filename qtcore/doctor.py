"""What is installed here, what runs the layers, what data are found: ten lines to read, or to send along with a question.

    python -m qtcore.doctor
"""

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import qtcore
from qtcore import kernels
from qtcore.data import registry
from qtcore.data.inventory import holding
from qtcore.errors import BackendError
from qtcore.kernels.build import find_compiler
from qtcore.learn.run import device
from qtcore.models.files import available, checkpoint_folder
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import cache_folder

LIBRARIES = ("numpy", "safetensors", "panel", "holoviews", "bokeh")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Command:
    """There is nothing to choose."""


def report() -> Iterator[tuple[str, str]]:
    """What each line is about, and what it says."""
    yield "qtcore", f"{qtcore.__version__} in {Path(qtcore.__file__).parent}"
    yield "python", f"{platform.python_version()} ({sys.executable}), {platform.system()} {platform.machine()}"
    yield "torch", f"{torch.__version__}, {torch.get_num_threads()} threads"
    yield "libraries", ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    yield "kernels", str(kernels.backend())
    yield "device", str(device("auto"))
    names = registry.names()
    found = [name for name in names if holding(name).source is not None]
    yield "data", f"{len(found)} of {len(names)} datasets ({', '.join(found)}); `qtcore fetch` gets the others"
    yield "models", f"{len(available())} in {checkpoint_folder()}"
    yield "cache", _space(cache_folder())
    yield "tools", f"C compiler: {_compiler()}; browser: {_browser()}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _space(folder: Path) -> str:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return f"{folder}, {shutil.disk_usage(existing).free / 2**30:.1f} GiB free"


def _compiler() -> str:
    try:
        return find_compiler()
    except BackendError:
        return "none (the layers run in plain torch)"


def _browser() -> str:
    return next((path for name in BROWSERS if (path := shutil.which(name))), "none (browser tests are skipped)")


def main() -> int:
    arguments(Command, prog="python -m qtcore.doctor", description=__doc__)
    for about, text in report():
        print(f"{about:10} {text}")
    return 0


if __name__ == "__main__":
    guarded(main)
