"""The directive `commands`: every command with what its --help says."""

import contextlib
import io
import os
import runpy
import sys
import warnings

from made import Made
from sphinx.application import Sphinx

from qtcore.__main__ import COMMANDS

OTHERS = ("qtcore.train table", "qtcore_app.export", "qtcore_app.pictures", "qtcore_app.bench")
"""Commands that are not among those of `qtcore`."""
COLUMNS = "96"


def help_of(words: str) -> str:
    """What `python -m WORDS --help` prints. In this process: one of its own would import torch each time."""
    module, *rest = words.split()
    before, columns = sys.argv, os.environ.get("COLUMNS")
    sys.argv, os.environ["COLUMNS"] = [module, *rest, "--help"], COLUMNS
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said, warnings.catch_warnings(), contextlib.suppress(SystemExit):
            warnings.simplefilter("ignore", RuntimeWarning)  # the module was imported before it is run
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.argv = before
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return said.getvalue()


class Commands(Made):
    def text(self) -> str:
        parts = []
        for name, what in COMMANDS.items():
            parts += [f"## qtcore {name}", f"{what[0].upper()}{what[1:]}.", f"```text\n{help_of(f'qtcore.{name}')}```"]
            more = [other for other in OTHERS if other.startswith(f"qtcore.{name} ")]
            parts += [f"### qtcore {other.removeprefix('qtcore.')}\n\n```text\n{help_of(other)}```" for other in more]
        more = [other for other in OTHERS if other.startswith("qtcore_app")]
        parts += [f"## python -m {other}\n\n```text\n{help_of(other)}```" for other in more]
        return "\n\n".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
