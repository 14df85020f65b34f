"""Serve the interactive app, and open it in a browser where there is a desktop.

    python -m qtcore.app                            at http://localhost:5006
    python -m qtcore.app --port 5007 --no-show      elsewhere, and nothing is opened
    python -m qtcore.app --address 0.0.0.0          for everybody in this network
    python -m qtcore.app -- --autoreload            what stands after -- goes to `panel serve`

It needs the extra `app`: pip install 'qtcore[app]'.
"""

import sys
from dataclasses import dataclass

from qtcore.support.cli import arguments, guarded
from qtcore.support.extras import needs, required


@dataclass(frozen=True)
class Command:
    """Where to serve it."""

    port: int = 5006
    """Port; 0 takes a free one."""
    address: str = "localhost"
    """Address of this machine to listen at; 0.0.0.0 lets others in."""
    show: bool = True
    """Open the app in a browser, if there is a desktop."""


def main() -> int:
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    command = arguments(Command, prog="python -m qtcore.app", description=__doc__, args=words[:end])
    needs("app")
    required("qtcore_app.serve", "app").serve(command.address, command.port, command.show, words[end + 1 :])
    return 0


if __name__ == "__main__":
    guarded(main)
