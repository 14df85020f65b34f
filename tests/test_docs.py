"""The documents name functions, tests and commands that exist, and what they say can be typed works."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from qtcore.__main__ import COMMANDS, main

from .commands import Command, command  # noqa: F401  (a fixture)

ROOT = Path(__file__).parent.parent
EQUATIONS = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
FUNCTIONS = sorted(set(re.findall(r"`(qtcore\.[\w.]+)`", EQUATIONS)))
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", EQUATIONS + RELIABILITY)))


def test_every_row_of_a_table_has_a_function_and_a_test() -> None:
    rows = [line for line in EQUATIONS.splitlines() if line.startswith("|") and not line.startswith(("|---", "| equation"))]
    assert len(rows) > 20
    for row in rows:
        assert "`qtcore." in row or "notebooks/" in row, row
        assert "`tests/" in row or "checked there" in row, row


def test_every_promise_has_a_test() -> None:
    rows = [line for line in RELIABILITY.splitlines() if line.startswith("|") and not line.startswith(("|---", "| promise"))]
    assert len(rows) > 20
    for row in rows:
        assert "`tests/" in row or "`make " in row, row


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_there(name: str) -> None:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            result = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            result = getattr(result, part)
        return
    raise AssertionError(f"{name} is nowhere")


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_every_test_is_there(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FETCHES = {"data.md"}
"""Pages whose code loads datasets that may not be there."""
PAGES = {path.relative_to(ROOT / "docs").as_posix(): path for path in sorted((ROOT / "docs").glob("**/*.md"))}
CODE = {name: path for name, path in PAGES.items() if BLOCK.search(path.read_text(encoding="utf-8")) and name not in FETCHES}


@pytest.mark.parametrize("page", CODE)
def test_code_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCK.findall(CODE[page].read_text(encoding="utf-8")):
        exec(compile(block, page, "exec"), names)


def test_there_is_code() -> None:
    assert {"python.md", "guides/image.md", "guides/graph.md", "guides/trust.md", "tables.md"} <= CODE.keys()


LINE = re.compile(r"(?:^|`|-m )(?:qtcore |python -m qtcore\.|qtcore\.)(\w+)((?: [^`\n]*)?)", re.MULTILINE)
TYPED = {path: LINE.findall(path.read_text(encoding="utf-8")) for path in (*PAGES.values(), ROOT / "README.md")}


def test_commands_and_their_options_exist(command: Command) -> None:  # noqa: F811
    """`qtcore NAME … --option` in the text: there is such a command, and its --help names the option."""
    options: dict[str, set[str]] = {}
    for lines in TYPED.values():
        for name, rest in lines:
            if name in COMMANDS:
                wanted = options.setdefault("train table" if (name, rest[:7]) == ("train", " table ") else name, set())
                wanted |= set(re.findall(r" (--[a-z][a-z-]+)", rest.partition(" -- ")[0]))  # what follows is for somebody else
    assert len(options) > 7
    for words, wanted in options.items():
        said = command(main, *words.split(), "--help").out
        assert wanted <= set(re.findall(r"--[a-z][a-z-]+", said)), words


def test_commands_named_in_text_blocks_exist() -> None:
    for path in TYPED:
        for block in re.findall(r"^```(?:text|)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for name in re.findall(r"^qtcore (\w+)", block, re.MULTILINE):
                assert name in {*COMMANDS, "app"}, f"{path.name}: qtcore {name}"


def test_the_scores_of_engines_are_those_of_the_table() -> None:
    (total,) = [line for line in PAGES["graphs.md"].read_text(encoding="utf-8").splitlines() if line.startswith("| all 25")]
    scores = re.findall(r"mean score ([\d.]+)", total)
    section = PAGES["guides/trust.md"].read_text(encoding="utf-8").split("twenty-five")[1]
    assert re.findall(r"^\| .* \| ([\d.]+) \|$", section, re.MULTILINE) == scores
