"""What the documentation's site is made with: model cards from records, equations, and a check that no network is asked."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qtcore
from qtcore.paper.beyond import new_models

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "site"))
import equations  # noqa: E402
import offline  # noqa: E402
import shipped  # noqa: E402

SECTIONS = ("Data", "Recipe", "Scores", "Depth", "Calibration", "Not for")


def test_every_shipped_model_has_a_card() -> None:
    families = {name: shipped.family_of(name) for name in qtcore.available() if name not in new_models()}
    assert set(families.values()) == shipped.FAMILIES.keys()
    assert (families["rbm/adult"], families["rbm-pcd/adult"], families["grid/drawings"]) == ("rbm", "pcd", "drawings")
    index = (ROOT / "docs" / "cards" / "index.md").read_text(encoding="utf-8")
    for family in shipped.FAMILIES:
        text = (ROOT / "docs" / "cards" / f"{family}.md").read_text(encoding="utf-8")
        assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == SECTIONS
        asked = set(re.findall(r"^```\{shipped\} (\w+) ([\w-]+)$", text, re.MULTILINE))
        parts = shipped.PARTS.keys() - (set() if shipped.SCORES[family] else {"scores"})
        assert asked == {(part, family) for part in parts}
        assert f"({family}.md)" in index


def test_cards_have_a_row_for_every_model_and_no_figure_of_their_own() -> None:
    records = shipped.records()
    named = {name for name in qtcore.available() if "-seed" not in name} - new_models().keys()  # which have tables
    listed = set()
    for family in shipped.FAMILIES:
        found = re.findall(r"^\| `([^`]+)` \|", shipped.trainings(family, records), re.MULTILINE)
        assert {shipped.family_of(name) for name in found} == {family}
        listed |= set(found)
        for part in ("depths", "calibrations"):
            rows = re.findall(r"^\| ([^| ]+) \| [\d.]+ \|", shipped.PARTS[part](family, records), re.MULTILINE)
            assert sorted(rows) == sorted(name.split("/")[1] for name in found), (family, part)
        text = (ROOT / "docs" / "cards" / f"{family}.md").read_text(encoding="utf-8")
        assert not re.search(r"\d\.\d\d+ (?:bits|nats|%)|\d %.*IoU|IoU.*\d %", text)
    assert listed == named


def test_scores_of_a_card_are_those_of_the_records() -> None:
    records = shipped.records()
    (record,) = [each for each in records if (each["table"], each.get("checkpoint")) == ("table1", "rbm/connect4")]
    assert f"| Conn4 | **{record['scores']['bp']['mean']:.3f}** ±" in shipped.scores("rbm", records)
    assert "Conn4" not in shipped.scores("rbm", [each for each in records if each is not record])
    other = record | {"scores": {"bp": {"mean": 0.9876, "error": 0.1, "samples": 7}}}
    changed = [other if each is record else each for each in records]
    assert "**0.988**" in shipped.scores("rbm", changed)
    assert "AdVIL-Gibbs" in shipped.scores("advil", records)
    assert "QT" not in shipped.scores("pcd", records)


def test_functions_get_their_equations() -> None:
    table = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    found = equations.equations(table)
    assert found.keys() == set(re.findall(r"`(qtcore\.[\w.]+)`", table.split("## Main text")[1]))
    (message,) = found["qtcore.inference.bp.binary.sum_product"]
    assert equations.restructured(message.text).startswith(":math:`f_w(x) = ")
    assert "|" not in "".join(re.findall(r"\$[^$]+\$", table)), "a bar ends a table's cell: write \\mid"


def test_equations_become_mathml() -> None:
    pytest.importorskip("sphinx", reason="needs the extra docs")
    pytest.importorskip("latex2mathml")
    from docutils import nodes
    from mathml import _mathml

    assert _mathml(nodes.math(text=r"\log \hat v - x"), "inline") == (
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>log</mi><mspace width="0.17em"></mspace>'
        '<mover accent="true"><mi>v</mi><mo>^</mo></mover><mo>−</mo><mi>x</mi></mrow></math>'
    )
    assert "mspace" not in _mathml(nodes.math(text=r"\exp(x) \log_2"), "inline")


def test_requests_and_places_that_are_not_there_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example.org/a.css"><script src="//cdn.example.org/b.js"></script>'
        '<link rel="canonical" href="https://example.org/">'
        '<style>@import "http://example.org/c.css"; a{background:url(d.png)}</style>'
        '<a href="https://example.org/">free</a><a href="other.html#here">x</a>'
        '<a href="other.html#there">y</a><a href="none.html">z</a>'
    )
    (tmp_path / "other.html").write_text('<p id="here">')
    said = sorted(offline.problems(tmp_path))
    assert said == [
        "index.html links to none.html, which is not there.",
        "index.html links to other.html#there, but there is no such place.",
        "index.html loads //cdn.example.org/b.js.",
        "index.html loads http://example.org/c.css.",
        "index.html loads https://fonts.example.org/a.css.",
    ]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_network(tmp_path: Path) -> None:
    """But for the notebooks' outputs: `make docs` executes them, and so do their own tests."""
    pytest.importorskip("sphinx", reason="needs the extra docs")
    line = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs", "-D", "nb_execution_mode=off"]
    made = subprocess.run([*line, ".", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert sorted(offline.problems(tmp_path)) == []
    page = (tmp_path / "docs" / "reference" / "messages.html").read_text(encoding="utf-8")
    assert "<math" in page.split("sum_product", 1)[1]
    assert "usage: python -m qtcore.train" in (tmp_path / "docs" / "reference" / "commands.html").read_text(encoding="utf-8")
    assert "<math" in (tmp_path / "notebooks" / "08_consistency.html").read_text(encoding="utf-8")


def test_a_model_of_several_phases_names_them_all() -> None:
    """Those of grid/border follow each other without a name."""
    lines = shipped.trainings("border", shipped.records()).splitlines()
    (row,) = [line for line in lines if line.startswith("| `grid/border` |")]
    phases = ("600 steps", "8,000 steps", "28,000 steps", "19,000 steps")
    assert [row.index(phase) for phase in phases] == sorted(row.index(phase) for phase in phases)
    assert "``" not in "".join(lines)
