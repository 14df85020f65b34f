"""One page of HTML that shows what is at an address of the app, without a server."""

import base64
import re
from pathlib import Path

import pytest
from qtcore_app import export
from qtcore_app.frames import unpack

from tests.commands import Command, command  # noqa: F401  (a fixture)

ADDRESS = "?page=digits&image=test-2&mask=bAAAAAP____8&layer=3&pixel=1-2"
SVG = "http://www.w3.org/2000/svg"


def test_a_page_holds_all_it_needs(command: Command, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "page.html"
    result = command(export.main, file, f"http://localhost:5006/app{ADDRESS}", "--title", "<b>Two & one")
    assert (result.code, result.err) == (0, "")
    text = file.read_text(encoding="utf-8")
    assert "<h1>&lt;b&gt;Two &amp; one</h1>" in text
    assert set(re.findall(r"https?://[^\s\"'<>)]*", text)) == {SVG}
    for word in ("fetch(", "import ", "@import", "url(", "<link", "XMLHttpRequest"):
        assert word not in text
    sources = re.findall(r"\bsrc=\"([^\"]*)", text)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    (frames,) = re.findall(r'atob\("([^"]*)"\)', text)
    header, (layers,) = unpack(base64.b64decode(frames))
    assert base64.b64decode(frames) == export.page_at(ADDRESS).player.frames
    assert len(layers) == header["runs"][0]["total"] + 1 == 11
    assert '"layer": 3, "pixel": [1, 2]' in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("faces", "is not an address of the app"),
        ("?page=nowhere", "has no page 'nowhere'; its pages are faces"),
        ("?page=lab", "'LBP lab' has no layers of pictures"),
        ("?page=digits&model=rbm/adult", "a record has no pictures"),
        ("?page=digits&mask=bAA", "the mask in the address fits nothing"),
        ("?page=digits&image=test-999", "the image in the address fits nothing"),
        ("?page=digits&colour=red", "has a part 'colour'"),
    ],
)
def test_an_address_that_shows_something_else(command: Command, tmp_path: Path, address: str, words: str) -> None:  # noqa: F811
    assert words in command(export.main, tmp_path / "page.html", address).sentence
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_a_page(command: Command, tmp_path: Path) -> None:  # noqa: F811
    assert command(export.main, tmp_path / "page.gif").sentence == "the page is HTML, so 'page.gif' should end in .html."
    assert "python -m qtcore_app.export face.html" in command(export.main, "--help").out
