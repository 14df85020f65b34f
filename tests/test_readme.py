"""What the README says can be typed works: its Python runs, its commands exist, its links lead somewhere."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = sorted(set(re.findall(r"python -m ((?:qtcore|qtcore_app)\.\w+)", TEXT)))
LINKS = [link for link in re.findall(r"\]\(([^)#]+)\)", TEXT) if "://" not in link]


def test_there_is_something_to_check() -> None:
    assert len(SNIPPETS) >= 2
    assert {"qtcore.train", "qtcore.infer", "qtcore.reproduce", "qtcore_app.pictures"} <= set(COMMANDS)
    assert "docs/pictures/face.gif" in LINKS


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_python(snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {})


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # a process of its own would take seconds
def test_command(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["command", "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    said = capsys.readouterr()
    assert not end.value.code, said.err
    assert f"python -m {module} " in said.out.split("options")[0], "no example"


@pytest.mark.parametrize("link", LINKS)
def test_link(link: str) -> None:
    assert (ROOT / link).exists()


def test_make_targets() -> None:
    for target in set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE)):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_results_are_those_of_the_records() -> None:
    assert (ROOT / "assets" / "results" / "summary.md").read_text().strip() in TEXT
