"""Whether built pages ask anything of a network, and whether what they refer to is there.

    python docs/site/offline.py docs/_build/html

A link that a reader may follow is no request; scripts, styles, pictures and frames are.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src"}
LOADED |= {"object": "data", "link": "href", "image": "href", "use": "href"}
"""What a browser fetches by itself: the attribute of each tag."""
NOT_FETCHED = {"canonical", "author", "license", "next", "prev", "index", "search", "help"}
"""Relations of <link> that only inform."""


class Page(HTMLParser):
    """What a page loads, where its links lead, and which places it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)
        for inside in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text):
            self.loaded += [address for address in inside if address]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        informs = tag == "link" and set(found.get("rel", "").split()) <= NOT_FETCHED
        if tag in LOADED and LOADED[tag] in found and not informs:
            self.loaded.append(found[LOADED[tag]])


def problems(folder: Path) -> Iterator[str]:
    """A sentence for each request to a network, and for each link to a page or a place that is not there."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for style in folder.rglob("*.css"):
        pages[style] = Page(f"<style>{re.sub(r'/[*].*?[*]/', '', style.read_text(encoding='utf-8'), flags=re.DOTALL)}</style>")
    for path, page in pages.items():
        where = path.relative_to(folder)
        for address in page.loaded:
            if urlsplit(address).scheme in ("http", "https") or address.startswith("//"):
                yield f"{where} loads {address}."
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if not target.exists():
                yield f"{where} links to {address}, which is not there."
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in pages[target].places:
                yield f"{where} links to {address}, but there is no such place."


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    if not (folder / "index.html").exists():
        print(f"error: there is no site in {folder}.", file=sys.stderr)
        return 2
    found = sorted(set(problems(folder)))
    for sentence in found:
        print(sentence, file=sys.stderr)
    print(f"{len(list(folder.rglob('*.html')))} pages, {len(found)} problems.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
