"""Contours: which side of a broken, noisy line is the inside? The grid MRF with clones answers, layer by layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from panel.viewable import Viewable
from torch import Tensor

import qtcore
from qtcore.data.border import CONTOUR, N_SPURIOUS, P_MISSING, add_noise
from qtcore.models.base import Model
from qtcore.models.grid import LABELS
from qtcore_app import engine, masks
from qtcore_app.cards import card
from qtcore_app.clones import clone_colours
from qtcore_app.comparisons import Comparison
from qtcore_app.completions import Drawn, Joint, in_colour, sheet
from qtcore_app.components import Choices, Gallery, Knobs, Painter, Player
from qtcore_app.components.player import GRID_VIEWS, IOU, NCE_ALL, RESIDUAL
from qtcore_app.drawings import DRAWING, MODELS, SHAPE, Digits, galleries, labels_of, thumbnails, trained
from qtcore_app.frames import GridEncoder, Header
from qtcore_app.pages.picture import LEFT, Bytes, PicturePage, arrange, restored_look, restored_mask
from qtcore_app.reasons import Subject, Wording, at, half
from qtcore_app.shell import Shell
from qtcore_app.state import decode_bytes, encode_bytes, parse_noise
from qtcore_app.uploads import drawing_from

DEPTH = 30
"""Layers to show: the models were trained over fewer, and their answers stay."""
LAYERS = (5, 60)
"""Other numbers of layers to compare with."""
BLOCK = 25
"""Labels that are drawn at a time."""
OPENS_WITH = 5
"""The digit that a page opens with: found, but not within a few layers."""
MAX_MADE = 200
"""Noisy digits to remember for undo; the painter can undo 100 strokes."""
REACH = 4
"""Readings up to so many pixels away are left out to explain a label: 81 queries instead of 900."""
FAR = "No reading near this pixel can be left out."
UNKNOWN = "The truth of a drawing is not known."
NO_MODEL = "No trained grid model is shipped with this version: what you see is the untrained one."

Noise = tuple[float, int, int]
"""The missing fraction, spurious strokes, and the seed."""


@dataclass(frozen=True)
class Origin:
    """What a noisy contour was made from."""

    source: str
    number: int
    noise: Noise
    labels: Tensor


class ContoursPage(PicturePage):
    """One user's Contours page."""

    name = "contours"
    presets = masks.CONTOURS
    note = (
        f"The labels of all pixels drawn together, {BLOCK} at a time that are far apart, in random orders: each from its "
        "marginal given the picture and the labels before."
    )
    learned = (
        "The clones' four tables of log-potentials: vertical, horizontal, diagonal, antidiagonal (rows: upper or left pixel; "
        "the last two states: OUT and IN; blue: unlikely, brown: likely)"
    )

    def __init__(self, shell: Shell) -> None:
        state = shell.states["contours"]
        self.digits = galleries()
        name, _ = trained("")
        for source in ("", DRAWING):
            clone_colours(trained(source)[1])  # now rather than at the first stroke
        self.comparison = Comparison(name or MODELS[0], DEPTH, LAYERS, state.compare, self.refresh, LEFT)
        self.noise = parse_noise(state.noise, (P_MISSING, N_SPURIOUS, 0))
        self.labels: Tensor | None = None
        self.made: dict[bytes, Origin] = {}
        drawing = self._from_address(state.image, state.pixels, state.noise)
        mask = restored_mask(state.mask, SHAPE, np.full(SHAPE, 255, np.uint8))
        painter = Painter(drawing, mask, drawable=True, title="What the model sees", margin=0)
        player = Player(
            painter,
            views=GRID_VIEWS,
            charts=[RESIDUAL, NCE_ALL, IOU],
            inspector="labels",
            even=True,
            margin=0,
            **restored_look(state, SHAPE, [12, 15]),
        )
        super().__init__(shell, painter, player)
        shown = self._shown
        self.gallery = Gallery(thumbnails(shown.labels), heading=shown.heading, width=LEFT, margin=0, zoom=1)
        self.gallery.selected = self.number
        self.row = self.digits.index(shown)  # of the gallery
        self.sources = Choices(
            labels=[*(digits.label for digits in self.digits), "empty canvas"],
            selected=-1 if self.source == DRAWING else self.row,
            width=LEFT,
            margin=(6, 0, 0, 0),
        )
        self.knobs = Knobs(
            heading="Noise",
            knobs=[
                {"label": "missing", "low": 0, "high": 60, "value": round(100 * self.noise[0]), "unit": " %"},
                {"label": "strokes", "low": 0, "high": 20, "value": self.noise[1], "unit": ""},
            ],
            action="new noise",
            width=LEFT,
            margin=(14, 0, 0, 0),
        )
        self.upload.label = "Upload a drawing…"
        self.gallery.param.watch(self._on_gallery, "clicks")
        self.sources.param.watch(self._on_source, "clicks")
        self.knobs.param.watch(self._on_noise, ["values", "actions"])
        self.tell("" if name else NO_MODEL)
        self.first()

    # ------------------------------------------------------------------ which picture

    @property
    def _shown(self) -> Digits:
        return next((digits for digits in self.digits if digits.key == self.source), self.digits[0])

    def pick(self, source: str, number: int) -> Bytes:
        """Choose a digit; return its noisy contour."""
        self.source, self.number = source, number
        self.labels = self._shown.labels[number]
        return self._noisy()

    def _noisy(self) -> Bytes:
        """The chosen digit or drawing with noise, remembered so that undo can restore it."""
        assert self.labels is not None
        missing, strokes, seed = self.noise
        noisy = (add_noise(self.labels, missing, strokes, seed).numpy() * 255).astype(np.uint8)
        self.made[noisy.tobytes()] = Origin(self.source, self.number, self.noise, self.labels)
        while len(self.made) > MAX_MADE:
            self.made.pop(next(iter(self.made)))
        return noisy

    def _drawn(self) -> None:
        """Mark the picture as the user's own drawing, whose truth is not known."""
        self.source, self.number, self.labels = DRAWING, -1, None

    def _from_address(self, image: str, pixels: str, noise: str) -> Bytes:
        if image == DRAWING and (drawing := decode_bytes(pixels, SHAPE)) is not None:
            self._drawn()
            if noise:
                self.labels = labels_of(drawing)
                return self._noisy()
            return np.where(drawing > 127, 255, 0).astype(np.uint8)
        key, _, number = image.partition("-")
        for digits in self.digits:
            if digits.key == key and number.isdecimal() and int(number) < len(digits.labels):
                return self.pick(key, int(number))
        return self.pick(self.digits[0].key, min(OPENS_WITH, len(self.digits[0].labels) - 1))

    def on_stroke(self) -> None:
        """Refresh; a canvas that no noise has made is the user's drawing."""
        origin = self.made.get(self.painter.image.tobytes())
        if origin is None:
            self._drawn()
        else:
            self.source, self.number, self.noise, self.labels = origin.source, origin.number, origin.noise, origin.labels
        self._mark()
        super().on_stroke()

    def _mark(self) -> None:
        """Show in the gallery and its buttons where the picture comes from."""
        listed = self.digits[self.row].key == self.source
        self.gallery.selected = self.number if listed else -1
        self.sources.selected = self.row if listed else -1

    def _show(self, drawing: Bytes) -> None:
        self._mark()
        self.painter.give(image=drawing)
        self.refresh()

    def _on_gallery(self, event: Any) -> None:
        number = self.gallery.clicked()
        if number is not None:
            self._show(self.pick(self.digits[self.row].key, number))

    def _on_source(self, event: Any) -> None:
        number = self.sources.clicked()
        if number is None:
            return
        if number == len(self.digits):
            self._drawn()
            self.painter.give(weights=np.full(SHAPE, 255, np.uint8))
            self._show(np.zeros(SHAPE, np.uint8))
            return
        digits, self.row = self.digits[number], number
        self.gallery.param.update(
            heading=digits.heading,
            images=thumbnails(digits.labels).tobytes(),
            names=[f"image {i + 1}" for i in range(len(digits.labels))],
        )
        self._show(self.pick(digits.key, 0))

    def take_upload(self, data: bytes) -> None:
        drawing = drawing_from(data, SHAPE)
        self._drawn()
        self._show(drawing)

    def _on_noise(self, *events: Any) -> None:
        missing, strokes = self.knobs.numbers()
        seed = self.noise[2]
        if any(event.name == "actions" for event in events):
            seed = (seed + 1) % 10**6
        self.noise = (missing / 100, int(strokes), seed)
        if self.labels is None:
            self.labels = labels_of(self.painter.image)
        self._show(self._noisy())

    def address(self) -> dict[str, str]:
        drawn = self.source == DRAWING
        clean = self.painter.image if self.labels is None else np.where(self.labels.numpy() == CONTOUR, 255, 0)
        missing, strokes, seed = self.noise
        return {
            "image": DRAWING if drawn else f"{self.source}-{self.number}",
            "pixels": encode_bytes(clean.astype(np.uint8)) if drawn else "",
            "noise": "" if self.labels is None else f"{missing:g}-{strokes}-{seed}",
            "compare": self.comparison.value,
        }

    # ------------------------------------------------------------------ what to run

    @property
    def query(self) -> qtcore.Query:
        values = torch.from_numpy((self.painter.image > 127).astype(np.float32))[None]
        return qtcore.Query(values, torch.from_numpy(self.painter.weights.astype(np.float32))[None] / 255)

    def lacking(self) -> str:
        return ""  # no label is ever seen

    def joint_question(self) -> Joint:
        return Joint(trained(self.source)[1], self.query, BLOCK)

    def coloured(self, values: Tensor) -> Bytes:
        return in_colour(values)

    def pictures(self, drawn: Drawn) -> list[bytes]:
        marginals: Any = drawn.marginals
        return [sheet(*map(in_colour, (marginals.probs, drawn.samples, drawn.best)))]

    def unexplained(self) -> str:
        """Every label can be explained, a reading is no label; but some reading must be near."""
        return "" if self.why.place() is not None and self._near() else FAR

    def _near(self) -> list[int]:
        """The pixels that are read, not far from the chosen one."""
        row, column = divmod(self.why.place() or 0, SHAPE[1])
        window = np.zeros(SHAPE, bool)
        window[max(0, row - REACH) : row + REACH + 1, max(0, column - REACH) : column + REACH + 1] = True
        return [int(place) for place in np.flatnonzero(window & (self.painter.weights > 0))]

    @property
    def model_shown(self) -> str:
        return trained(self.source)[0]

    def demonstrate(self) -> None:
        """A circle with a gap, as if somebody had drawn it."""
        row, column = np.indices(SHAPE) - 14.5
        distance = np.hypot(row, column)
        circle = (np.abs(distance - 8.5) < 0.5) & ~((column > 0) & (np.abs(row) < 2))
        self._drawn()
        self._mark()
        self.preset_row.selected = 0
        self.painter.give(np.where(circle, 255, 0).astype(np.uint8), np.full(SHAPE, 255, np.uint8))
        self.play()

    def subject(self) -> Subject:
        return Subject(trained(self.source)[1], self.query, self.why.place() or 0, DEPTH, self._near())

    def wording(self) -> Wording:
        ink, weights = self.painter.image.reshape(-1) > 127, self.painter.weights.reshape(-1)

        def seen(i: int) -> str:
            return f"{at(i, SHAPE)}, {'on' if ink[i] else 'off'}{half(weights[i])}"

        return Wording(SHAPE, "probability", seen, labels=LABELS)

    def question(self) -> tuple[Header, Sequence[engine.Run]]:
        query = self.query
        name, model = trained(self.source)
        if name and name != self.comparison.name:
            self.comparison.use(name, DEPTH)
        encoder = GridEncoder(model, self.labels)
        header = Header(
            SHAPE,
            encoder.channels,
            self.painter.seq,
            encoder.truth_bytes(),
            extra={"clones": clone_colours(model), "without": {"nce": UNKNOWN, "iou": UNKNOWN}},
        )

        def run(label: str, model: Model, n_layers: int) -> engine.Run:
            return engine.Run(label, model, query, encoder, n_layers)

        return header, self.comparison.runs(model, run)

    def view(self) -> Viewable:
        left = [self.gallery, self.sources, self.upload, self.knobs, self.preset_row, self.show_row]
        return arrange([*left, self.comparison.row, self.reliability.row, self.notice], self, explanation())


def explanation() -> list[Viewable]:
    """Three cards: the question, a layer, the clones."""
    return [
        card(
            "What is asked",
            r"The evidence is a line with gaps and false strokes: each pixel is on or off, with "
            r"$p(\mathrm{on} \mid \mathrm{CONTOUR}) = 0.8$ and about $0.03$ outside. Which pixels are the contour, and "
            r"which side is inside? Draw on the canvas, or hide pixels so that they give no evidence.",
        ),
        card(
            "What happens in a layer",
            r"Every pixel sends to each of its 8 neighbours what it believes without that neighbour: "
            r"$m_{ij}(t) = \log \sum_s \exp\big(\theta_{ij}(s,t) + u_i(s) + \sum_{k \neq j} m_{ki}(s)\big)$. "
            r"Information moves by one pixel per layer. Training asked for the right answer after 8 to 20 layers (for "
            r"drawings up to 24), drawn anew in every step: it gets better with every layer, and stays. A model that was "
            r"trained at 15 layers alone can be compared with; it is right there and nowhere else.",
        ),
        card(
            "Clones",
            r"CONTOUR has 64 hidden states that look the same. Training gives them different neighbours, so that each comes "
            r"to stand for an orientation and a side. The colour shows on which side the inside lay, on other digits, where "
            r"this clone won; grey clones have no preferred side.",
        ),
    ]


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    return ContoursPage(shell).view()
