"""Optional dependencies: whatever needs one that is missing says so in one sentence, and does nothing before."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import qtcore
from qtcore import evaluate
from qtcore.errors import MissingExtraError
from qtcore.support.extras import EXTRAS, needs

from .commands import Command, command  # noqa: F401  (a fixture)

ROOT = Path(__file__).parents[1]


def test_the_extras_are_those_of_the_package() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, modules in EXTRAS.items():
        brought = [requirement.partition(">")[0].replace("-", "_") for requirement in project["optional-dependencies"][extra]]
        assert set(modules) <= set(brought)
        needs(extra)  # all are here


def test_the_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "qtcore_app.inline", raising=False)
    monkeypatch.setitem(sys.modules, "panel", None)
    with pytest.raises(MissingExtraError, match=r"^this needs panel, .* pip install 'qtcore\[app\]' brings it\.$"):
        _ = qtcore.widget


def test_a_picture_of_scores(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # noqa: F811
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(evaluate, "load", None)  # nothing is even loaded
    said = command(evaluate.main, "rbm/digits", "--layers", "1-3", "--plot", tmp_path / "scores.png").sentence
    assert said == "this needs matplotlib, which is not installed; pip install 'qtcore[bench]' brings it."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "missing", "extra"),
    [
        ("-m qtcore_app.bench", "panel", "app"),
        ("-m qtcore_app.bench", "playwright", "dev"),
        ("-m qtcore_app.export page.html", "panel", "app"),
        ("-m app.export page.html", "panel", "app"),
        ("-m qtcore.app --port 0 --no-show", "param", "app"),
    ],
)
def test_commands_of_the_app(words: str, missing: str, extra: str, tmp_path: Path) -> None:
    """The benchmark once waited a minute, and said that the app did not start."""
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    paths = os.pathsep.join(map(str, (tmp_path, ROOT, ROOT / "app")))
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    said = f"error: this needs {missing}, which is not installed; pip install 'qtcore[{extra}]' brings it.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert not (tmp_path / "page.html").exists()
