"""What CONTRIBUTING.md says can be added works: its files and lines are applied to a copy of the project, and tested there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
CHANGES = re.findall(r"^```diff\n(\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def changed(text: str, change: str) -> str:
    """The text after a change, whose parts are separated as in a diff."""
    for part in change.split("@@\n"):
        before, after = ("\n".join(line[1:] for line in part.splitlines() if line[0] in (" ", kind)) for kind in "-+")
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with all that is added."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("qtcore", "app", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    os.symlink(ROOT / "assets", folder / "assets")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, text in FILES.items():
        assert not (folder / name).exists()
        (folder / name).write_text(text, encoding="utf-8")
    for name, change in CHANGES:
        path = folder / name
        path.write_text(changed(path.read_text(encoding="utf-8"), change), encoding="utf-8")
    return folder


def run(copy: Path, *words: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(copy), str(copy / "app")])}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_change_is_made_where_its_lines_are() -> None:
    text = "import a\nimport c\n\nx = 1\ny = 2\n"
    change = " import a\n+import b\n@@\n-x = 1\n+x = 3\n"
    assert changed(text, change) == "import a\nimport b\nimport c\n\nx = 3\ny = 2\n"
    with pytest.raises(AssertionError):
        changed(text, "-z = 1\n")


def test_each_is_one_file_and_one_test() -> None:
    tests = [name for name in FILES if name.startswith("tests/")]
    assert (len(FILES), len(tests), len(CHANGES)) == (8, 4, 5)  # a page has its title in another file
    assert all((ROOT / name).parent.is_dir() for name in FILES)


@pytest.mark.slow
def test_they_pass(copy: Path) -> None:
    run(copy, "ruff", "check", *FILES)
    tests = [name for name in FILES if name.startswith("tests/")]
    run(copy, "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests, "tests/test_rooms.py", "-m", "not slow")
