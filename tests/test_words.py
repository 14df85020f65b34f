"""Words that docs/glossary.md rules out, and old names, do not come back. Only those that have no other use here."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACES = {"qtcore": (".py", ".c", ".h"), "app": (".py", ".js"), "docs": (".md",), "notebooks": (".ipynb",)}
EXCEPT = ROOT / "docs" / "glossary.md"  # which has to name them

REPLACED = {
    "machine code": "native kernels",
    "seen for certain": "clamped",
    "unsure": "free",
    "too sure": "overconfident",
    "opponent": "baseline",
    "explicit_target": "given_target",
    "explicit_truth": "given_truth",
    "plot_courses": "plot_histories",
    "courses of": "histories of",
    "whole or not at all": "atomic",
    "swinging": "oscillating",
}
PATTERN = re.compile(rf"\b({'|'.join(map(re.escape, REPLACED))})\b", re.IGNORECASE)


def replaced(text: str) -> list[str]:
    """Every such word of a text, and what to write instead; a line break inside a phrase hides nothing."""
    plain = re.sub(r"\s*\n[\s#/*]*", " ", text)
    return [f"{match[0]!r}: write {REPLACED[match[0].lower()]}" for match in PATTERN.finditer(plain)]


def texts() -> Iterator[tuple[Path, str]]:
    for folder, kinds in PLACES.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in kinds and path != EXCEPT and ".ipynb_checkpoints" not in path.parts:
                text = path.read_text(encoding="utf-8")
                if path.suffix == ".ipynb":
                    text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
                yield path.relative_to(ROOT), text


def test_no_replaced_word_is_written() -> None:
    result = {str(path): words for path, text in texts() if (words := replaced(text))}
    assert not result


def test_a_replaced_word_would_be_seen() -> None:
    expected = ["'Opponent': write baseline", "'machine code': write native kernels"]
    assert replaced("A fair Opponent,\n# in machine\n# code") == expected
    assert replaced("a baseline, of course; opponents_of_nothing") == []
    assert {path.suffix for path, _ in texts()} == {".py", ".c", ".h", ".js", ".md", ".ipynb"}
    assert any("sum-product" in text for path, text in texts() if path.suffix == ".ipynb")
