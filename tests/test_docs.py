"""The documents name functions and tests that exist."""

import ast
import importlib
import re
from pathlib import Path

import pytest

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
