"""Binary pictures with painted masks: 8×8 digits and 16×8 letters, for the RBM and the DBM."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from panel.viewable import Viewable
from torch import Tensor

import qtcore
from qtcore.models.base import Model
from qtcore.models.rbm import RBM
from qtcore_app import engine, masks
from qtcore_app.calibration import Reliability
from qtcore_app.cards import card
from qtcore_app.comparisons import Comparison
from qtcore_app.completions import Drawn, Joint, in_grey, sheet
from qtcore_app.components import Choices, Gallery, Painter, Player
from qtcore_app.components.player import BERNOULLI_VIEWS, NCE_HIDDEN, RESIDUAL
from qtcore_app.frames import BernoulliEncoder, Header
from qtcore_app.pages.picture import LEFT, Bytes, PicturePage, arrange, restored_look, restored_mask
from qtcore_app.reasons import Subject, Wording, at, half
from qtcore_app.samples import Samples
from qtcore_app.shell import Shell
from qtcore_app.state import decode_bytes, encode_bytes

LAYERS = (3, 30)
"""Other numbers of layers to compare with."""
OPENS_WITH = {"digits": 9}
"""The picture that a page opens with: found, and not within a few layers."""
DRAWN, DRAWING = -1, "drawing"
"""The number of a user's own drawing among the pictures, and its name in the address."""
UNKNOWN = "The truth of a drawing is not known."
EMPTY = "Hide at least one pixel completely to score the answer."
UNTRAINED = "No trained model of this kind is shipped with this version: what you see is an untrained one."


class OfModel(ABC):
    """A page with a query to a shipped model, which can be put to another one."""

    samples: Samples
    comparison: Comparison
    reliability: Reliability
    model: Model
    model_name: str

    def use(self, model: str) -> None:
        """Put the same query to another model."""
        self.load(model)
        self.comparison.use(model, self.model.n_layers)
        self.refresh()
        self.reliability.refresh()

    def load(self, model: str) -> None:
        """Load the shipped model, or an untrained one with a sentence that says so."""
        trained = model in qtcore.available()
        self.model = engine.model(model) if trained else engine.untrained(RBM(self.samples.values.shape[1], 50))
        self.model_name = model
        self.tell("" if trained else UNTRAINED)

    @abstractmethod
    def refresh(self) -> None:
        """Run the current query."""

    @abstractmethod
    def tell(self, sentence: str) -> None:
        """Show a sentence to the user."""


class PixelsPage(PicturePage, OfModel):
    """One user's picture of a binary set."""

    name = "digits"
    presets = masks.PIXELS
    note = "All hidden pixels drawn together, one after the other in random orders: each from its marginal given those before."

    def __init__(self, shell: Shell, samples: Samples, model: str) -> None:
        state = shell.states["digits"]
        assert samples.shape is not None
        self.samples, shape = samples, samples.shape
        self.number = samples.number(state.image) if state.image else OPENS_WITH.get(samples.dataset, 0)
        drawing = decode_bytes(state.pixels, shape) if state.image == DRAWING else None
        if drawing is not None:
            self.number = DRAWN
        default = masks.PIXELS["nothing" if state.image else "left half"](shape, 0)
        picture = samples.pictures()[self.number] if drawing is None else drawing
        painter = Painter(picture, restored_mask(state.mask, shape, default), drawable=True, grey=True, margin=0)
        player = Player(
            painter,
            views=BERNOULLI_VIEWS,
            charts=[RESIDUAL, NCE_HIDDEN],
            inspector="probability",
            margin=0,
            **restored_look(state, shape, [shape[0] // 2, shape[1] // 4]),
        )
        super().__init__(shell, painter, player)
        zoom = 24 / shape[1]
        self.gallery = Gallery(samples.pictures(), heading=samples.heading, width=LEFT, margin=(14, 0, 0, 0), zoom=zoom)
        self.gallery.selected = self.number
        self.gallery.param.watch(self._on_gallery, "clicks")
        self.draw_row = Choices(labels=["draw your own"], width=LEFT, margin=(6, 0, 0, 0))
        self.draw_row.selected = 0 if self.number == DRAWN else -1
        self.draw_row.param.watch(self._on_draw, "clicks")
        if not state.image and not state.mask:
            self.preset_row.selected = list(self.presets).index("left half")
        self.load(model)
        self.comparison = Comparison(model, self.model.n_layers, LAYERS, state.compare, self.refresh, LEFT)
        self.first()

    def _on_gallery(self, event: Any) -> None:
        number = self.gallery.clicked()
        if number is not None:
            self.number = number
            self._mark()
            self.painter.give(image=self.samples.pictures()[number])
            self.refresh()

    def _on_draw(self, event: Any) -> None:
        """An empty canvas of which nothing is known: what is drawn becomes evidence."""
        self.number = DRAWN
        self._mark()
        self.preset_row.selected = -1
        self.painter.give(np.zeros(self.painter.shape, np.uint8), np.zeros(self.painter.shape, np.uint8))
        self.painter.pencils += 1
        self.refresh()

    def _mark(self) -> None:
        """Show where the picture comes from."""
        self.gallery.selected, self.draw_row.selected = self.number, 0 if self.number == DRAWN else -1

    def on_stroke(self) -> None:
        """A canvas that is none of the pictures is the user's drawing."""
        same = (self.samples.pictures() == self.painter.image).all((1, 2))
        if self.number == DRAWN or not same[self.number]:
            self.number = int(same.argmax()) if same.any() else DRAWN
        self._mark()
        super().on_stroke()

    @property
    def values(self) -> Tensor:
        """What is seen, and the truth of what is hidden if it is not drawn [V]."""
        if self.number == DRAWN:
            return torch.from_numpy(self.painter.image.reshape(-1).astype(np.float32)) / 255
        return self.samples.values[self.number]

    @property
    def weights(self) -> Tensor:
        """Of the evidence [1, V]."""
        return torch.from_numpy(self.painter.weights.reshape(1, -1).astype(np.float32)) / 255

    def address(self) -> dict[str, str]:
        drawn = self.number == DRAWN
        return {
            "model": self.model_name,
            "image": DRAWING if drawn else f"{self.samples.key}-{self.number}",
            "pixels": encode_bytes(self.painter.image) if drawn else "",
            "compare": self.comparison.value,
            "record": "",
        }

    def question(self) -> tuple[Header, Sequence[engine.Run]]:
        values, weights, drawn = self.values, self.weights, self.number == DRAWN
        target = weights[0] == 0
        query = qtcore.Query(values[None], weights)
        encoder = BernoulliEncoder(self.model, None if drawn else values, target)
        extra = {"without": {"nce": UNKNOWN if drawn else EMPTY}, "hidden": target.nonzero()[:, 0].tolist()}
        header = Header(self.painter.shape, encoder.channels, self.painter.seq, encoder.truth_bytes(), extra=extra)

        def run(label: str, model: Model, n_layers: int) -> engine.Run:
            return engine.Run(label, model, query, encoder, n_layers)

        return header, self.comparison.runs(self.model, run)

    def joint_question(self) -> Joint:
        weights = self.weights
        return Joint(self.model, qtcore.Query(self.values[None], weights, weights < 1))

    def coloured(self, values: Tensor) -> Bytes:
        return in_grey(255 * values.reshape(-1, *self.painter.shape))

    def pictures(self, drawn: Drawn) -> list[bytes]:
        return [sheet(*map(self.coloured, (drawn.marginals.mean, drawn.samples, drawn.best)))]

    @property
    def model_shown(self) -> str:
        return self.model_name

    def demonstrate(self) -> None:
        self.hide("left half")
        self.play()

    def subject(self) -> Subject:
        return Subject(self.model, qtcore.Query(self.values[None], self.weights), self.why.place() or 0, self.model.n_layers)

    def wording(self) -> Wording:
        values, weights, shape = self.values, self.painter.weights.reshape(-1), self.painter.shape
        return Wording(shape, "probability", lambda i: f"{at(i, shape)}, seen as {float(values[i]):.2g}{half(weights[i])}")

    def view(self, above: Sequence[Viewable]) -> Viewable:
        left = [
            *above,
            self.gallery,
            self.draw_row,
            self.preset_row,
            self.show_row,
            self.comparison.row,
            self.reliability.row,
            self.notice,
        ]
        return arrange(left, self, explanation(self.samples.dataset == "digits"))


def explanation(soft: bool) -> list[Viewable]:
    """Three cards: the question, a layer, the two models."""
    grey = r" The digits' grey levels are soft evidence: 0.5 says nothing." if soft else ""
    return [
        card(
            "What is asked",
            r"Seen pixels are evidence, hatched ones are targets. The model answers with a probability for each: "
            r"$p(v_i = 1 \mid v_{\mathrm{seen}}) \approx \sigma(\text{belief})$, and the score is "
            r"$\mathrm{NCE} = -\tfrac1n \sum_{\text{hidden } i} \log_2 p(v_i)$ in bits: lower is better." + grey,
        ),
        *both_models(),
    ]


def both_models() -> list[Viewable]:
    """Two cards that pictures and records share."""
    return [
        card(
            "What happens in a layer",
            r"Visible and hidden variables exchange log-odds. With the cavity $x$ (all that the sender knows but for what came "
            r"from the receiver) a message is $f_w(x) = \log\dfrac{1 + e^{x + w}}{e^w + e^x}$, never larger than the coupling "
            r"$w$. One layer updates the messages in both directions; training aimed at the answer after exactly 10.",
        ),
        card(
            "RBM and DBM",
            r"The RBM connects each visible variable to each of 50 hidden ones (100 or 200 for the largest sets). The DBM has "
            r"a second hidden layer above: $v - h_1 - h_2$. Belief propagation treats both the same way, since $v$ and $h_2$ "
            r"form one side of a bipartite graph and $h_1$ the other.",
        ),
    ]
