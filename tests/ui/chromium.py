"""Finds a Chromium for the browser tests; `python -m tests.ui.chromium` installs one if there is none.

In this order: one that is installed; the system's package manager, when we are root; Playwright's own download. If all
of that fails the browser tests are skipped, and the next attempt waits until the note in `.venv` is removed (a fresh
installation does that): a machine without network should not wait for time-outs at every `make test`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
APPLICATIONS = (Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),)
NOTE = Path(sys.prefix) / ".no-chromium"
SECONDS_PER_COMMAND = 600

PACKAGE_MANAGERS: dict[str, list[list[str]]] = {
    "apt-get": [["apt-get", "update", "-q"], ["apt-get", "install", "-qy", "--no-install-recommends", "chromium"]],
    "dnf": [["dnf", "install", "-qy", "chromium"]],
    "zypper": [["zypper", "--non-interactive", "install", "chromium"]],
    "pacman": [["pacman", "-Sy", "--noconfirm", "chromium"]],
    "apk": [["apk", "add", "chromium"]],
}


def find() -> Path | None:
    """An installed Chromium or Chrome, else Playwright's own, else None."""
    for name in NAMES:
        if result := shutil.which(name):
            return Path(result)
    for path in chain(APPLICATIONS, _playwrights_own()):
        if path.exists():
            return path
    return None


def _playwrights_own() -> Iterator[Path]:
    """Where Playwright puts its browser: asked only when nothing else is found, since the answer takes a process."""
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            yield Path(playwright.chromium.executable_path)
    except Exception as error:  # no driver for this system, say: the tests are skipped and give this reason
        print(f"Playwright does not start: {error}", file=sys.stderr)


def _works(command: list[str]) -> bool:
    print("+", *command, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        return subprocess.run(command, env=environment, timeout=SECONDS_PER_COMMAND, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return False


def install() -> Path | None:
    """Try each way of getting a Chromium until there is one."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        for manager, commands in PACKAGE_MANAGERS.items():
            if shutil.which(manager):
                for command in commands:  # an update that fails (one dead mirror) need not stop the installation
                    _works(command)
                if path := find():
                    return path
    _works([sys.executable, "-m", "playwright", "install", "chromium"])
    return find()


def main() -> None:
    """See to a Chromium; never fails, since every other test runs without one."""
    path = find()
    if path is None and not NOTE.exists():
        print("No Chromium found for the browser tests; trying to install one.", flush=True)
        path = install()
        if path is None:
            NOTE.write_text("No Chromium could be installed. Remove this file to try again.\n")
    if path is None:
        print(f"No Chromium: the browser tests will be skipped. Install one, or remove {NOTE} to try again.")
    else:
        print(f"Browser tests: {path}")


if __name__ == "__main__":
    main()
