"""Links in Markdown: where they lead, and the places that a page has."""

import json
import re
import unicodedata
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+(?:\([^()]*\)[^()\s]*)?)\)")
FENCE = re.compile(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """All pages that somebody may read: of the documentation, results, notebooks, and those at the top."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("assets/**/*.md"), *ROOT.glob("notebooks/*.ipynb")]
    return sorted(path for path in found if "_build" not in path.parts)


def text_of(path: Path) -> str:
    """The Markdown of a page, or of the text cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def links(text: str) -> list[str]:
    """Addresses of all links and pictures, but for those in code."""
    return LINK.findall(re.sub(r"`[^`\n]+`", "", FENCE.sub("", text)))


def places(text: str) -> set[str]:
    """The anchors of a page's headings, as Markdown's renderers make them; the second of a name ends in -1."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        kept = [c for c in words.strip().lower() if c in " -_" or unicodedata.category(c)[0] in "LNM"]
        name = base = "".join(kept).replace(" ", "-")
        number = 0
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken(path: Path, link: str) -> str | None:
    """What is wrong with a link of a page, if anything; other machines are not asked."""
    if re.match(r"[a-z]+:", link):
        return None if re.fullmatch(r"(https?://[\w.-]+\.[a-z]+(/\S*)?|mailto:\S+@\S+)", link) else "is no address"
    name, _, place = link.partition("#")
    target = path if not name else (ROOT / name.lstrip("/") if name.startswith("/") else path.parent / name)
    if not target.exists():
        return "leads nowhere"
    if place and target.suffix in (".md", ".ipynb") and place not in places(text_of(target)):
        return "leads to a place that is not there"
    return None
