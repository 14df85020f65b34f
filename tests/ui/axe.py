"""Finds axe-core, which looks for what keeps people from using a page; `python -m tests.ui.axe` installs it with npm.

It is one script, pinned by its version and its hash, in the environment's folder. Without npm, or without a network, the tests
of accessibility are skipped, and the next attempt waits until the note in `.venv` is removed, as for the browser.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "4.14.0"
SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
SCRIPT = Path(sys.prefix) / "share" / f"axe-core-{VERSION}.min.js"
NOTE = Path(sys.prefix) / ".no-axe"
SECONDS = 120


def find() -> Path | None:
    """The script, if it is there and is the one we mean."""
    return SCRIPT if SCRIPT.is_file() and hashlib.sha256(SCRIPT.read_bytes()).hexdigest() == SHA256 else None


def install() -> Path | None:
    """Fetch the package into a temporary folder and keep its script."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder]
        command = [npm, "install", *options, f"axe-core@{VERSION}"]
        print("+", *command, flush=True)
        try:
            subprocess.run(command, timeout=SECONDS, check=True)
            SCRIPT.parent.mkdir(parents=True, exist_ok=True)
            fetched = shutil.copy(Path(folder) / "node_modules" / "axe-core" / "axe.min.js", SCRIPT.with_suffix(".tmp"))
            os.replace(fetched, SCRIPT)
        except (OSError, subprocess.SubprocessError) as error:
            print(error, file=sys.stderr)
    return find()


def main() -> None:
    """See to the script; never fails, since every other test runs without it."""
    if find() is None and not NOTE.exists() and install() is None:
        NOTE.write_text("No axe-core could be installed. Remove this file to try again.\n")
    if find() is None:
        print(f"No axe-core: the tests of accessibility will be skipped. Install npm, remove {NOTE}, and try again.")
    else:
        print(f"Tests of accessibility: {SCRIPT}")


if __name__ == "__main__":
    main()
