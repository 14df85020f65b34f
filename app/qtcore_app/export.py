"""Write what the app shows at an address as one page that needs no server and fetches nothing: for slides and blogs.

    python -m qtcore_app.export face.html "?page=faces&image=dream-3"
    python -m qtcore_app.export mine.html "http://localhost:5006/app?page=contours&mask=…" --title "A contour with a gap"

The address is what the button Share copies; without one it is the app's first page.
"""

import base64
import html
import io
import json
from dataclasses import dataclass, fields
from pathlib import Path
from string import Template
from typing import Annotated
from urllib.parse import parse_qsl

import tyro
from PIL import Image

from qtcore.errors import InputError
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically
from qtcore_app import colours
from qtcore_app.components.source import script, style
from qtcore_app.frames import unpack
from qtcore_app.pages.contours import ContoursPage
from qtcore_app.pages.digits import DigitsPage
from qtcore_app.pages.faces import FacesPage
from qtcore_app.pages.picture import PicturePage
from qtcore_app.sheets import HEIGHT, hatched
from qtcore_app.shell import TITLES, Shell
from qtcore_app.state import State

ADDRESS = "Copy one that the button Share of the app gives"
EXACT = ("model", "image", "mask", "pixels", "compare")
"""What must come out as the address says, or the page would show something else."""
TEXTS = {
    "faces": "Each map is the model's answer after one layer of belief propagation: the mean and the standard deviation of "
    "every hidden pixel, given those that are seen. Their difference from the picture is shown where it is known.",
    "contours": "A noisy drawing, of which some parts may be hidden. After each layer of belief propagation the model says for "
    "every pixel how probable it is that it is on a contour, inside or outside, how uncertain it is, and which of its hidden "
    "states of a contour wins.",
    "digits": "Each map is the model's answer after one layer of belief propagation: for every hidden pixel the probability "
    "that it is 1, given those that are seen, and the entropy of that. Their difference from the picture is shown too.",
}
HOW = (
    "Play the layers, or go through them with the slider, the arrow keys, Home and End; click a pixel to follow its marginal. "
    "The residual is the largest change of a message in a layer; the score is in bits, and lower is better."
)
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; }
body { margin: 16px; font: 15px/1.45 system-ui, sans-serif; background: #fff; color: #1e1e1e; }
h1 { font-size: 22px; font-weight: 500; margin: 0 0 6px; }
p { max-width: 860px; margin: 0 0 10px; }
main { display: flex; flex-wrap: wrap; gap: 20px; margin-top: 14px; }
main figure.seen { margin: 0; font-size: 13px; }
main figure.seen img { display: block; image-rendering: pixelated; box-shadow: 0 0 0 1px #8888; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; background: #8fa3b0; }
@media (prefers-color-scheme: dark) { body { background: #121212; color: #eee; } }
$style
.player .strip button { height: auto; }
.player .controls [data-name=image], .player .controls [data-name=gif] { display: none; }
</style>
</head>
<body>
<h1>$title</h1>
<p>$text</p>
<p>$how</p>
<main>
<figure class="seen"><figcaption>$seen</figcaption><img alt="$seen" src="$picture">$key</figure>
<div id="player"></div>
</main>
<script type="module">
$script
const values = $values
const frames = Uint8Array.from(atob("$frames"), (character) => character.charCodeAt(0))
const el = document.getElementById("player")
el.append(render({el, model: {...values, frames, on() {}}}))
</script>
</body>
</html>
""")


@dataclass(frozen=True)
class Command:
    """Where to write the page, and what it shows."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.html")]
    """The page to write."""
    address: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ADDRESS")] = ""
    """An address of the app with layers of pictures: "?page=faces&…"."""
    title: str = ""
    """The heading; by default the page's name and its model's depth."""


def page_at(address: str) -> PicturePage:
    """The app's page at an address, with its result; an InputError if it would show anything else."""
    query = address.partition("?")[2]
    if address and not query:
        raise InputError(f"{address[:80]!r} is not an address of the app, with its state after a question mark. {ADDRESS}.")
    given, state = dict(parse_qsl(query)), State.from_query(query)
    unknown = given.keys() - {entry.name for entry in fields(State)}
    if unknown:
        raise InputError(f"the address has a part {min(unknown)[:40]!r}, which the app does not know. {ADDRESS}.")
    if given.get("page", state.page) != state.page:
        raise InputError(f"the app has no page {given['page'][:40]!r}; its pages are {', '.join(TITLES)}.")
    if state.page not in TEXTS:
        raise InputError(f"the page {TITLES[state.page]!r} has no layers of pictures; take faces, contours or digits.")
    shell = Shell("?page=results")  # of which nothing is computed
    shell.states[state.page] = state
    page = {"faces": FacesPage, "contours": ContoursPage, "digits": _digits}[state.page](shell)
    page.remember()
    shown = shell.states[state.page]
    for name in EXACT:
        if name in given and getattr(shown, name) != given[name]:
            raise InputError(f"the {name} in the address fits nothing that is here. {ADDRESS}.")
    return page


def _digits(shell: Shell) -> PicturePage:
    (page,) = DigitsPage(shell).pages.values()
    if not isinstance(page, PicturePage):
        raise InputError("a record has no pictures; take faces, contours, or digits with the model rbm/digits.")
    return page


def explainer(page: PicturePage, title: str = "") -> str:
    """A page of HTML with all layers, the player, the curves and a paragraph."""
    painter, player = page.painter, page.player
    header, _ = unpack(player.frames)
    zoom = -(-HEIGHT // painter.shape[0])
    image = io.BytesIO()
    Image.fromarray(hatched(painter.shown, painter.weights, zoom)).save(image, "PNG")
    names = ("views", "charts", "inspector", "even", "layer", "pixel")
    values = {name: getattr(player, name) for name in names}
    values |= {"tables": colours.packed(), "scale": 0, "columns": 4, "whole_page": True, "wanted": []}
    hidden = (painter.weights < 255).any()
    return PAGE.substitute(
        title=html.escape(title or f"{TITLES[page.name]}: {' and '.join(run['label'] for run in header['runs'])}"),
        text=html.escape(TEXTS[page.name]),
        how=html.escape(HOW),
        seen=html.escape(painter.title),
        picture=f"data:image/png;base64,{base64.b64encode(image.getvalue()).decode()}",
        key='<span><i class="key"></i>hidden</span>' if hidden else "",
        style=style("player"),
        script=script("player", "chart", "layers"),
        values=json.dumps(values).replace("<", "\\u003c"),
        frames=base64.b64encode(player.frames).decode(),
    )


def main() -> int:
    command = arguments(Command, prog="python -m qtcore_app.export", description=__doc__)
    if command.file.suffix not in (".html", ".htm"):
        raise InputError(f"the page is HTML, so {command.file.name!r} should end in .html.")
    text = explainer(page_at(command.address), command.title)
    write_atomically(command.file, text)
    print(f"{command.file}: {len(text.encode()) / 1000:.0f} kB.")
    return 0


if __name__ == "__main__":
    guarded(main)
