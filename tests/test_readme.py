"""What the README says can be typed works: its Python runs, its commands and make targets exist; its figures are on record."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import pytest

from qtcore.__main__ import COMMANDS

from .links import links

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
MODULES = [*(f"qtcore.{name}" for name in COMMANDS), *sorted(set(re.findall(r"python -m (qtcore_app\.\w+)", TEXT)))]


def test_there_is_something_to_check() -> None:
    assert SNIPPETS
    assert "qtcore_app.pictures" in MODULES
    assert "docs/pictures/answers.gif" in TEXT
    assert len(TEXT.splitlines()) < 150


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_python(snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {})


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # a process of its own would take seconds
def test_command(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["command", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    said = capsys.readouterr()
    assert not end.value.code, said.err
    assert f"python -m {module}" in said.out.split("options")[0], "no example"


def test_an_index_gets_addresses_that_lead_to_files() -> None:
    """As hatchling reads it for the metadata of wheel and sdist."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = hook.absolute(TEXT, "https://example.org/qtcore/")
    assert len(links(text)) == len(links(TEXT)) > 20
    for link in links(text):
        found = re.fullmatch(r"https://example\.org/qtcore/(raw|blob)/main/(.+)", link)
        assert found, link
        assert (ROOT / found[2].partition("#")[0]).exists()
        assert (found[1] == "raw") == found[2].endswith((".gif", ".png"))
    assert hook.absolute(text, "https://example.org/qtcore/") == text


def test_make_targets() -> None:
    targets = set(re.findall(r"`make (\w+)`", TEXT))
    assert len(targets) >= 3
    for target in targets:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_results_are_those_of_the_records() -> None:
    """Ten rows of all of them, with what is worse than the paper's too."""
    rows = [line for line in TEXT.splitlines() if re.match(r"\| (RBM|DBM|Gaussian RBM|Grid)[ ,]", line)]
    assert len(rows) == 10
    assert set(rows) <= set((ROOT / "assets" / "results" / "summary.md").read_text().splitlines())
    assert any(row.endswith("| worse |") for row in rows)
