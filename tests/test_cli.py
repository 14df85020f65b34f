"""Commands as a shell starts them: an interrupt while they are still being imported, and outputs that are closed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent
NAMES = ("app", "train", "evaluate", "infer", "fetch", "reproduce", "bench", "sample", "doctor")
COMMANDS = [*(f"qtcore.{name}" for name in NAMES), "qtcore", "qtcore train", "qtcore_app.bench", "qtcore_app.pictures"]

INTERRUPT = """
import os, signal, sys

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
"""


def start(tmp_path: Path, words: str, before: str = "") -> subprocess.CompletedProcess[bytes]:
    line = f"{before} exec {sys.executable} -m {words}"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    return subprocess.run(["sh", "-c", line], cwd=ROOT, env=environment, capture_output=True, check=False)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_during_the_imports(command: str, tmp_path: Path) -> None:
    """It once left the traceback of an import. A shell reports a process that died of this signal as 130."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    result = start(tmp_path, f"{command} --help")
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As in a shell's background."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    assert b"usage" in start(tmp_path, "qtcore.fetch --help", before="trap '' INT;").stdout


@pytest.mark.parametrize("words", ["theirs", "theirs -m qtcore.train"])
def test_nobody_else_s_command_is_touched(words: str, tmp_path: Path) -> None:
    """One that imports this library while it is itself being imported."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("import qtcore_app\nimport qtcore\n")
    (tmp_path / "theirs" / "__main__.py").write_text("import signal\nprint(signal.getsignal(signal.SIGINT).__name__)\n")
    result = start(tmp_path, words)
    assert (result.stdout, result.stderr) == (b"default_int_handler\n", b"")


@pytest.mark.parametrize("command", ["qtcore.train", "qtcore_app.bench"])
def test_help_to_nobody(command: str, tmp_path: Path) -> None:
    result = start(tmp_path, f"{command} --help >&-")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_an_error_to_nobody(tmp_path: Path) -> None:
    assert start(tmp_path, "qtcore.infer --nonsense >&- 2>&-").returncode == 2


def test_an_output_without_our_letters(tmp_path: Path) -> None:
    """As on Windows, where the output is a file or a pipe."""
    result = start(tmp_path, "qtcore.evaluate --help", before="PYTHONIOENCODING=ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"?log p of all targets" in result.stdout
