"""Shared by faces, contours and digits: a painter, a player, and runs that follow the latest stroke."""

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import panel as pn
import torch
from numpy.typing import NDArray
from panel.viewable import Viewable
from torch import Tensor

from qtcore_app import engine
from qtcore_app.calibration import Reliability
from qtcore_app.completions import TITLES, Asked, Drawn, Joint, draw
from qtcore_app.components import Choices, Completions, Painter, Player, Upload, Why
from qtcore_app.frames import Header
from qtcore_app.layout import beside, choices
from qtcore_app.reasons import Explained, Subject, Wording, atlas, evidence_map, explain, facts, filters
from qtcore_app.shell import Shell
from qtcore_app.state import decode_bytes, encode_bytes, pixel_of, pixel_text
from qtcore_app.uploads import UploadError

log = logging.getLogger(__name__)

Bytes = NDArray[np.uint8]
LEFT = 216
HIDE = "Hide something first: there is nothing to draw."
SHOWN = ("layer by layer", "six samples", "why")
SEEN = "This pixel is seen, so that nothing needs to be explained: click a hidden one."
NOTHING = "Nothing is seen, so that no evidence can be left out."
NOTICE = {"color": "#d55e00", "font-size": "13px"}


class PicturePage:
    """The state of one page for one user. A subclass defines the picture and what to run (`question`)."""

    name = ""
    presets: ClassVar[dict[str, Callable[[tuple[int, int], int], Bytes]]] = {}
    looks: ClassVar[tuple[str, ...]] = ()
    """The ways in which samples can be shown, if there are several."""
    note: ClassVar[str] = ""
    """What is said below the samples."""
    learned: ClassVar[str] = "All learned filters (blue: negative, brown: positive, each with a scale of its own)"
    """What the picture of all that the model has learned shows."""

    def __init__(self, shell: Shell, painter: Painter, player: Player) -> None:
        self.shell, self.painter, self.player = shell, painter, player
        painter.whole_page = player.whole_page = True
        self.seq = 0
        self.preset_seed = 0
        self.latest = engine.Latest(self.tell)
        self.notice = pn.pane.HTML("", visible=False, width=LEFT, margin=(8, 0), styles=NOTICE)
        self.upload = Upload(width=LEFT, margin=(8, 0, 0, 0))
        self.preset_row = Choices(labels=list(self.presets), heading="Hide", width=LEFT, margin=(14, 0, 0, 0))
        self.completions = Completions(
            (painter.height_px, painter.width_px),
            (player.views[0]["title"], *TITLES),
            self.looks,
            note=self.note,
            visible=False,
            margin=0,
        )
        self.why = Why(painter.shape, learned=self.learned, visible=False, margin=0)
        self.reasons = Asked(self.why, lambda seed: explain(self.subject()), self._show_reasons, self.unexplained)
        self.joint = Asked(self.completions, lambda seed: draw(self.joint_question(), seed), self._show_drawn, self.lacking)
        self.show_row = Choices(labels=list(SHOWN), heading="Show", selected=0, width=LEFT, margin=(14, 0, 0, 0))
        self.painter.strokes(self.on_stroke)
        self.show_row.param.watch(self._on_show, "clicks")
        self.preset_row.param.watch(self._on_preset, "clicks")
        self.upload.param.watch(self._on_upload, "file")
        self.player.param.watch(self._on_look, ["layer", "pixel"])
        self.why.param.watch(self._on_why, "pixel")
        shell.when_left(self.name, self.latest.cancel)
        shell.when_left(self.name, self.joint.cancel)
        shell.when_left(self.name, self.reasons.cancel)
        self.reliability = Reliability(lambda: self.model_shown, LEFT)
        shell.when_left(self.name, self.reliability.cancel)
        shell.tour.drives(self.name, self.demonstrate)

    # ------------------------------------------------------------------ for subclasses

    def question(self) -> tuple[Header, Sequence[engine.Run]]:
        """The runs for the painter's current picture and mask."""
        raise NotImplementedError

    def take_upload(self, data: bytes) -> None:
        """Show an uploaded file, or raise UploadError."""
        raise NotImplementedError

    def joint_question(self) -> Joint:
        """What to draw for the painter's current picture and mask."""
        raise NotImplementedError

    @property
    def model_shown(self) -> str:
        """The name of the shipped model that answers."""
        raise NotImplementedError

    def demonstrate(self) -> None:
        """What the tour shows of this page."""
        raise NotImplementedError

    def subject(self) -> Subject:
        """What to explain: the chosen pixel of the current question."""
        raise NotImplementedError

    def wording(self) -> Wording:
        """How to speak of it."""
        raise NotImplementedError

    def coloured(self, values: Tensor) -> Bytes:
        """Values or beliefs [n, …] as colours [n, h, w, 3]."""
        raise NotImplementedError

    def pictures(self, drawn: Drawn) -> list[bytes]:
        """Marginals, samples and the most probable completion (see `app.completions.sheet`), in each of the looks there are."""
        raise NotImplementedError

    def lacking(self) -> str:
        """What keeps samples from being drawn, if anything."""
        return HIDE if (self.painter.weights == 255).all() else ""

    def unexplained(self) -> str:
        """What keeps the chosen pixel from being explained, if anything."""
        weights, place = self.painter.weights.reshape(-1), self.why.place()
        if place is None or weights[place] == 255:
            return SEEN
        return "" if (weights > 0).any() else NOTHING

    def on_stroke(self) -> None:
        self.preset_row.selected = -1
        self.refresh()

    def address(self) -> dict[str, str]:
        """The parameters of this page besides mask, layer and pixel."""
        return {}

    # ------------------------------------------------------------------ shared

    def first(self) -> None:
        """Compute the result that the page opens with."""
        header, runs = self.question()
        self.player.frames = engine.compute(header, runs)

    def play(self) -> None:
        """Answer the current canvas at once, and play the layers."""
        self.show(0)
        self.joint.stop()
        self.latest.cancel()
        self.first()
        self.player.play = True
        self.remember()

    def refresh(self) -> None:
        """Run the current canvas; cancel the previous run."""
        self.seq += 1
        self.joint.stop()
        self.reasons.stop()
        if self.why.visible:
            self.why.asks += 1
        self.latest.submit(self._run)
        self.remember()

    async def _run(self) -> None:
        header, runs = self.question()
        async for blob in engine.stream(header, runs):
            self.player.frames = blob

    def tell(self, sentence: str) -> None:
        """Show a sentence of ours (never an exception's text) to the user."""
        self.notice.object = sentence
        self.notice.visible = bool(sentence)

    def remember(self) -> None:
        weights = self.painter.weights
        self.shell.remember(
            self.name,
            mask="" if (weights == 255).all() else encode_bytes(weights),
            layer="" if self.player.layer < 0 else self.player.layer,
            pixel=pixel_text(self.player.pixel),
            **self.address(),
        )

    def _show_drawn(self, drawn: Drawn) -> None:
        self.completions.pictures = b"".join(self.pictures(drawn))

    def _show_reasons(self, explained: Explained) -> None:
        words, model = self.wording(), explained.subject.model
        pictures = np.concatenate([self.coloured(explained.believed), evidence_map(explained, words)[None]])
        if not self.why.atlas:
            picture = atlas(model, self.painter.shape)
            self.why.atlas = struct.pack("<HH", *picture.shape[:2]) + picture.tobytes()
        self.why.param.update(
            pictures=pictures.tobytes(),
            filters=filters(explained, self.painter.shape),
            activity=(explained.hidden * 255).round().to(torch.uint8).numpy().tobytes(),
        )
        self.why.facts = facts(explained, words)

    def _on_show(self, event: Any) -> None:
        number = self.show_row.clicked()
        if number is not None:
            self.show(number)

    def show(self, number: int) -> None:
        """Show layers, samples or reasons; the first time, samples are drawn."""
        self.show_row.selected = number
        self.player.visible, self.completions.visible, self.why.visible = (number == k for k in range(len(SHOWN)))
        if number == 1 and (not self.joint.count or self.completions.stale):
            self.completions.asks += 1
        if number == 2:
            self.why.pixel = self.player.pixel
            self.why.asks += 1

    def _on_why(self, event: Any) -> None:
        """A pixel that was chosen among the reasons is chosen everywhere."""
        if self.why.place() is not None:
            self.player.pixel = self.why.pixel

    def _on_preset(self, event: Any) -> None:
        number = self.preset_row.clicked()
        if number is None:
            return
        self.preset_seed += 1
        self.hide(list(self.presets)[number])
        self.refresh()

    def hide(self, preset: str) -> None:
        """Put a ready-made mask on the canvas."""
        self.preset_row.selected = list(self.presets).index(preset)
        self.painter.give(weights=self.presets[preset](self.painter.shape, self.preset_seed))

    def _on_upload(self, event: Any) -> None:
        try:
            self.upload.problem = ""
            self.take_upload(bytes(event.new[4:]))
        except UploadError as error:
            log.info("an upload was refused: %s", error)
            self.upload.problem = str(error)

    def _on_look(self, *events: Any) -> None:
        if self.player.layer < -1:  # from a client that is not ours
            self.player.layer = -1
        self.remember()


def restored_mask(text: str, shape: tuple[int, int], default: Bytes) -> Bytes:
    """The mask that an address describes, else the default."""
    mask = decode_bytes(text, shape) if text else None
    return default if mask is None else mask


def restored_look(state: Any, shape: tuple[int, int], default: list[int]) -> dict[str, Any]:
    """The player's cursor and pixel that an address describes."""
    return {"layer": state.integer("layer", 0, 1000, -1), "pixel": pixel_of(state.pixel, shape) or default}


def arrange(left: Sequence[Viewable], page: PicturePage, below: Sequence[Viewable]) -> Viewable:
    """Choices on the left, then the pictures in a row, explanations below."""
    return pn.Column(
        beside(
            choices(*left, last=True, width=LEFT, margin=0),
            pn.Column(page.painter, margin=(0, 0, 0, 20)),
            pn.Column(page.player, page.completions, page.why, margin=(0, 0, 0, 12)),
            margin=(12, 0, 0, 0),
        ),
        beside(*below, page.reliability.pane, margin=(8, 0, 16, 0), sizing_mode="stretch_width"),
        margin=(0, 16),
        sizing_mode="stretch_width",
    )
