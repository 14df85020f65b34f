"""What a release needs: one version everywhere, hooks and targets that exist, and an sdist whose tests run."""

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import qtcore

from . import release

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_there_is_one_version() -> None:
    assert set(release.versions().values()) == {qtcore.__version__}
    unreleased, newest = re.findall(r"^## (.+)", CHANGELOG, re.MULTILINE)[:2]
    assert unreleased == "Unreleased"
    assert re.fullmatch(rf"{qtcore.__version__} - \d{{4}}-\d\d-\d\d", newest)


def test_another_version_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "3.1"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 3.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 2.9 - 2030-01-01\n")
    assert release.versions(tmp_path) == {"pyproject.toml": "3.1", "CITATION.cff": "3.0", "CHANGELOG.md": "2.9"}


def test_hooks_are_targets_of_make() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    entries = [hook["entry"] for repository in config["repos"] for hook in repository["hooks"]]
    assert entries == ["make lint", "make check"]
    for entry in (*entries, "make release"):
        assert re.search(rf"^{entry.removeprefix('make ')}:", MAKEFILE, re.MULTILINE)
    assert re.search(r"^check: lint$", MAKEFILE, re.MULTILINE)


def test_templates_are_complete() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"):
        _, header, text = path.read_text(encoding="utf-8").split("---\n", 2)
        assert yaml.safe_load(header).keys() == {"name", "about"}
        assert text.strip()
    assert "CHANGELOG.md" in (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tests_of_an_sdist_run(tmp_path: Path) -> None:
    """All its tests are those of `make check`; here those that look at files, and one of each room."""
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(tmp_path / f"qtcore-{qtcore.__version__}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / f"qtcore-{qtcore.__version__}"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    kinds = {".py", ".c", ".h", ".js", ".css", ".md", ".ipynb", ".safetensors", ".json", ".png", ".gif"}
    for name in ("qtcore", "app", "assets", "docs", "notebooks", "tests"):
        wanted = {path for path in (ROOT / name).rglob("*") if path.suffix in kinds and not hidden(path.relative_to(ROOT))}
        assert {str(path.relative_to(ROOT)) for path in wanted} <= files
    tests = ["tests/test_readme.py", "tests/test_docs.py", "tests/test_release.py", "tests/test_rooms.py"]
    tests += ["tests/test_commands.py", "tests/models/test_trees.py", "tests/app/test_serve.py"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(folder / "app")])}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:nbmake", "-p", "no:cacheprovider", "-m", "not slow"]
    command += ["--hypothesis-profile", "check", "-k", "not test_python", *tests]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def hidden(path: Path) -> bool:
    """Whether it is nobody's source: a cache, or made by `make docs`."""
    return any(part.startswith((".", "_build", "__pycache__")) or part == "generated" for part in path.parts)
