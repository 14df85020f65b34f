"""Notebooks as they are committed: no outputs, a kernel that everybody has, goals at the top, questions with hidden answers.

That they run is tested by nbmake, as a part of `make test`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest) -> "NotebookNode":
    import nbformat  # takes seconds, which every worker of `make check` would pay

    result = nbformat.read(request.param, as_version=4)
    nbformat.validate(result)
    return result


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


def test_outputs_are_stripped(notebook: "NotebookNode") -> None:
    for cell in notebook.cells:
        assert not cell.get("outputs"), cell.source
        assert cell.get("execution_count") is None, cell.source


def test_kernel(notebook: "NotebookNode") -> None:
    assert notebook.metadata.kernelspec.name == "python3"


def test_goals_come_first(notebook: "NotebookNode") -> None:
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert "What you will know at the end" in first.source


def test_questions_have_hidden_answers(notebook: "NotebookNode") -> None:
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert text.count("<details>") == text.count("</details>") >= 2
    assert text.count("<summary>") == text.count("</summary>") == text.count("<details>")


def test_links_lead_somewhere(notebook: "NotebookNode") -> None:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for part in cell.source.split("](")[1:]:
                target = part.split(")")[0]
                assert target.startswith("http") or (NOTEBOOKS[0].parent / target.split("#")[0]).exists(), target
