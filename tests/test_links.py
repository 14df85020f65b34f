"""Links of the README, the documentation, the results and the notebooks lead somewhere; the network is not asked."""

from pathlib import Path

import pytest

from .links import ROOT, broken, links, pages, places, text_of

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    wrong = {link: why for link in links(text_of(page)) if (why := broken(page, link))}
    assert not wrong


def test_there_is_something_to_check() -> None:
    assert len(PAGES) > 50
    assert sum(len(links(text_of(page))) for page in PAGES) > 100
    assert any("#" in link for page in PAGES for link in links(text_of(page)))


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    good, bad = "[good](#a-b-c) [more](#a-b-c-1) `[code](none.md)`", "[x](nowhere.md) [y](#nothing) ![p](p.png)"
    page.write_text(f"# A `b` (c)\n## A b c\n{good} {bad}\n")
    assert places(text_of(page)) == {"a-b-c", "a-b-c-1"}
    found = {link: broken(page, link) for link in links(text_of(page))}
    nowhere = "leads nowhere"
    wrong = {"nowhere.md": nowhere, "#nothing": "leads to a place that is not there", "p.png": nowhere}
    assert found == {"#a-b-c": None, "#a-b-c-1": None} | wrong
    assert broken(page, "http//example.org") == nowhere
    assert broken(page, "https:/example") == "is no address"
    assert broken(page, "https://example.org/a") is None
