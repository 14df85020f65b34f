"""Under each function of the reference: the equations that it computes, and the test of each, from docs/equations.md."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx

TABLE = Path(__file__).parents[1] / "equations.md"


class Equation(NamedTuple):
    text: str
    """Markdown, with LaTeX between dollars."""
    where: str
    """The section of the paper, or the heading in the table's page."""
    test: str


def equations(text: str) -> dict[str, list[Equation]]:
    """The equations of each function that the tables name."""
    found: dict[str, list[Equation]] = defaultdict(list)
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = re.findall(r"`(qtcore\.[\w.]+)`", cells[-2]) if line.startswith("| ") and len(cells) > 2 else []
        where = cells[1] if len(cells) == 4 and cells[1] != "–" else heading
        for name in names:
            found[name].append(Equation(cells[0], where, cells[-1]))
    return dict(found)


def restructured(markdown: str) -> str:
    """Markdown of one line as reStructuredText, which docstrings are."""
    parts = re.split(r"(\$[^$]+\$|`[^`]+`|\*[^*]+\*)", markdown)
    forms = {"$": ":math:`{}`", "`": "``{}``"}
    return "".join(forms[part[0]].format(part[1:-1]) if part[:1] in forms else part for part in parts)


KNOWN = equations(TABLE.read_text(encoding="utf-8"))


def add(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Append a function's equations to its docstring."""
    for equation in KNOWN.get(name, ()):
        where, text, test = map(restructured, equation)
        lines += ["", f"**Equation** ({where}): {text}. Checked by {test}.", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
