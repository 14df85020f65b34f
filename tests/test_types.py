"""The types, as `make check` looks at them; here beside the other tests, since it takes one core the better part of a
minute."""

import subprocess
import sys
from pathlib import Path


def test_mypy() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
