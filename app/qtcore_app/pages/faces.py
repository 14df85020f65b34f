"""Faces: hide parts of a face and see the Gaussian RBM fill them in, with its uncertainty."""

import asyncio
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from panel.viewable import Viewable
from torch import Tensor
from torch.distributions import Normal

import qtcore
from qtcore.data import faces_offline
from qtcore.data.frey import SHAPE, grey_levels, load_frey
from qtcore.data.inventory import holding
from qtcore.errors import DataError
from qtcore.metrics import BITS
from qtcore.models.base import Model
from qtcore.models.grbm import GaussianRBM
from qtcore.paper.baselines import per_image_gaussian
from qtcore_app import engine, masks
from qtcore_app.cards import card
from qtcore_app.comparisons import Comparison
from qtcore_app.completions import Drawn, Joint, in_grey, joint_model, sheet
from qtcore_app.components import Choices, Gallery, Painter, Player
from qtcore_app.components.player import GAUSSIAN_VIEWS, NCE_HIDDEN, RESIDUAL
from qtcore_app.frames import GaussianEncoder, Header
from qtcore_app.pages.picture import LEFT, Bytes, PicturePage, arrange, restored_look, restored_mask
from qtcore_app.reasons import Subject, Wording, at, half
from qtcore_app.shell import Shell
from qtcore_app.state import decode_bytes, encode_bytes
from qtcore_app.uploads import face_from

log = logging.getLogger(__name__)

MODEL = "grbm/frey"
N_SHOWN = 12
OPENS_WITH, OPENS_HIDING = {"frey": 1, "dream": 5}, "80 %"
"""The face of each gallery, and the mask, that a page opens with: found, and not within a few layers."""
MAX_STANDARDISED = 8.0
"""Uploads are clipped here: where a pixel hardly varies in the training faces, any other grey would become a huge number."""
LAYERS = (5, 15, 100)
"""Other numbers of layers to compare with."""
SMOOTHED = "smooth"
"""The key of samples without their grain: no truth to score an answer with, since the model expects the grain."""
FOLDS = 4
"""The seen pixels are hidden in as many parts, one after the other, to see whether the model expects them."""
EXPECTED = 2.5
"""The squared error of those pixels in units of the model's own variance: at most 1.5 for the faces that are shown here,
whatever is hidden, about 2 for one that is uploaded, with its contrast stretched; more for a grey area, noise or a gradient."""
UNLIKE = (
    "The model does not know such pictures: asked for seen pixels, hidden from it in turn, it was off by {:.1f} times its own "
    "± (for the faces above by 1.2 at most), so do not trust its ±."
)
BLOCK = 9
"""Pixels that are drawn at a time: far apart, they lose less coherence than a patch of as many does (see docs/joint.md)."""
EMPTY = "Hide at least one pixel completely to score the answer."
NOT_SCORED = "Without its grain a sample is easier than the model expects: not scored."


@dataclass(frozen=True)
class Faces:
    """A row of the gallery: standardised faces [n, 560] and what they are."""

    key: str
    label: str
    heading: str
    values: Tensor


def trained() -> Model:
    """The shipped model, or an untrained one if there is none."""
    if MODEL in qtcore.available():
        return engine.model(MODEL)
    return engine.untrained(GaussianRBM(SHAPE[0] * SHAPE[1], 200))


@functools.cache
def galleries() -> tuple[Faces, ...]:
    """The faces available on this machine; nothing is downloaded."""
    rows = []
    try:
        if holding("frey").source is not None:
            rows.append(Faces("frey", "Frey", "Frey's faces (test set)", load_frey().test[::28][:N_SHOWN].clone()))
    except DataError as error:
        log.info("no Frey faces: %s", error)
    try:
        rows.append(Faces("dream", "samples", "Samples from the model", faces_offline(grain=True)[:N_SHOWN]))
        rows.append(Faces(SMOOTHED, "smoothed", "Samples, smoothed: not scored", faces_offline()[:N_SHOWN]))
    except DataError as error:
        log.info("no samples: %s", error)
    if not rows:
        rows.append(Faces("dream", "mean face", "The mean of all faces", torch.zeros(1, SHAPE[0] * SHAPE[1])))
    return tuple(rows)


def to_grey(values: Tensor, model: Model) -> Bytes:
    """Standardised values [..., 560] as grey levels, uint8 [..., 28, 20]."""
    grey = grey_levels(values, model.statistics) if model.statistics else values * 42 + 128
    return grey.round().clamp(0, 255).to(torch.uint8).reshape(*values.shape[:-1], *SHAPE).numpy()


def to_values(grey: Bytes, model: Model) -> Tensor:
    """Grey levels [28, 20] as standardised values [560]."""
    flat = torch.from_numpy(grey.astype(np.float32)).reshape(-1)
    if not model.statistics:
        return (flat - 128) / 42
    statistics = model.statistics
    values = (flat / statistics["maximum"] - statistics["mean"]) / statistics["deviation"]
    return values.clamp(-MAX_STANDARDISED, MAX_STANDARDISED)


def baselines(truth: Tensor, target: Tensor) -> dict[str, float]:
    """Bits per target of two trivial answers: N(0, 1), the mean face; and one Gaussian for all targets, fitted to the rest."""
    if not bool(target.any()):
        return {}
    bits = {"mean face": float(-Normal(0.0, 1.0).log_prob(truth[target]).mean()) * BITS}
    if int((~target).sum()) >= 2:
        bits["one Gaussian"] = float(per_image_gaussian(truth[None], target[None])[0])
    return {label: value for label, value in bits.items() if np.isfinite(value)}


def surprise(model: Model, values: Tensor, weights: Tensor) -> float | None:
    """How far the seen pixels of a face [V] are from what the model expects, given the other ones: the mean squared error in
    units of its own variance. None if there are too few."""
    fold = torch.randperm(len(values), generator=torch.Generator().manual_seed(0)) % FOLDS
    asked = (weights > 0) & (fold == torch.arange(FOLDS)[:, None])
    if not bool(asked.any(1).all()):
        return None
    with torch.inference_mode():
        query = qtcore.Query(values.expand(FOLDS, -1), weights * ~asked)
        answer: Any = model(query.to(model.device))
        errors = (values - answer.mean.cpu()) / answer.stddev.cpu()
    return float(errors[asked].square().mean())


class FacesPage(PicturePage):
    """One user's Faces page."""

    name = "faces"
    presets = masks.FACES
    looks = ("smoothed", "with grain")
    note = (
        f"By a model with a learned σ for each pixel: all hidden pixels drawn together, {BLOCK} at a time that are far apart, "
        "in random orders. A draw has the model's own grain; smoothed, each patch of it is at its mean given all others."
    )

    def __init__(self, shell: Shell) -> None:
        state = shell.states["faces"]
        self.model = trained()
        self.faces = galleries()
        self.comparison = Comparison(MODEL, self.model.n_layers, LAYERS, state.compare, self.refresh, LEFT)
        self.pick(*self._from_address(state.image, state.pixels))
        mask = restored_mask(state.mask, SHAPE, masks.FACES[OPENS_HIDING](SHAPE, 0))
        if state.image and not state.mask:
            mask = np.full(SHAPE, 255, np.uint8)
        painter = Painter(to_grey(self.values, self.model), mask, margin=0)
        look = restored_look(state, SHAPE, [10, 5])
        player = Player(painter, views=GAUSSIAN_VIEWS, charts=[RESIDUAL, NCE_HIDDEN], margin=0, **look)
        super().__init__(shell, painter, player)
        shown = self._shown
        self.gallery = Gallery(to_grey(shown.values, self.model), heading=shown.heading, width=LEFT, margin=0, zoom=2)
        self.gallery.selected = self.number
        self.sources = Choices(
            labels=[faces.label for faces in self.faces], selected=self.faces.index(shown), width=LEFT, margin=(6, 0, 0, 0)
        )
        self.gallery.param.watch(self._on_gallery, "clicks")
        self.sources.param.watch(self._on_source, "clicks")
        if not state.image and not state.mask:
            self.preset_row.selected = list(self.presets).index(OPENS_HIDING)
        self.first()

    # ------------------------------------------------------------------ which face

    @property
    def _shown(self) -> Faces:
        return next((faces for faces in self.faces if faces.key == self.source), self.faces[0])

    def pick(self, source: str, number: int, values: Tensor) -> None:
        self.source, self.number, self.values = source, number, values

    def _from_address(self, image: str, pixels: str) -> tuple[str, int, Tensor]:
        """The face that an address names: "dream-3", or "upload" with its pixels; else the first one."""
        if image == "upload" and (grey := decode_bytes(pixels, SHAPE)) is not None:
            return "upload", -1, to_values(grey, self.model)
        key, _, number = image.partition("-")
        for faces in self.faces:
            if faces.key == key and number.isdecimal() and int(number) < len(faces.values):
                return key, int(number), faces.values[int(number)]
        first = self.faces[0]
        opens = OPENS_WITH.get(first.key, 0)
        return first.key, opens, first.values[opens]

    def _show(self) -> None:
        self.gallery.selected = self.number
        self.painter.give(image=to_grey(self.values, self.model))
        self.refresh()

    def _on_gallery(self, event: Any) -> None:
        number = self.gallery.clicked()
        if number is not None:
            faces = self.faces[self.sources.selected]
            self.pick(faces.key, number, faces.values[number])
            self._show()

    def _on_source(self, event: Any) -> None:
        number = self.sources.clicked()
        if number is not None:
            faces = self.faces[number]
            self.sources.selected = number
            self.gallery.param.update(
                heading=faces.heading,
                images=to_grey(faces.values, self.model).tobytes(),
                names=[f"image {i + 1}" for i in range(len(faces.values))],
            )
            self.pick(faces.key, 0, faces.values[0])
            self._show()

    def take_upload(self, data: bytes) -> None:
        grey = to_grey(to_values(face_from(data, SHAPE), self.model), self.model)  # as an address would hold it
        self.pick("upload", -1, to_values(grey, self.model))
        self._show()

    def address(self) -> dict[str, str]:
        uploaded = self.source == "upload"
        return {
            "image": "upload" if uploaded else f"{self.source}-{self.number}",
            "pixels": encode_bytes(to_grey(self.values, self.model)) if uploaded else "",
            "compare": self.comparison.value,
        }

    # ------------------------------------------------------------------ what to run

    @property
    def weights(self) -> Tensor:
        """Of the evidence, [560]."""
        return torch.from_numpy(self.painter.weights.reshape(-1).astype(np.float32)) / 255

    def first(self) -> None:
        super().first()
        if self.source == "upload":
            self._judge(engine.in_pool(surprise, self.model, self.values, self.weights))

    async def _run(self) -> None:
        await super()._run()
        if self.source == "upload":
            arguments = self.model, self.values, self.weights
            self._judge(await asyncio.get_running_loop().run_in_executor(engine.pool, surprise, *arguments))
        else:
            self.upload.problem = ""

    def _judge(self, surprise: float | None) -> None:
        """Warn of a picture that is unlike the faces of the training set."""
        self.upload.problem = "" if surprise is None or surprise <= EXPECTED else UNLIKE.format(surprise**0.5)

    def question(self) -> tuple[Header, Sequence[engine.Run]]:
        weights = self.weights
        target = weights == 0
        query = qtcore.Query(self.values[None], weights[None])
        truth = None if self.source == SMOOTHED else self.values
        encoder = GaussianEncoder(self.model, truth, target)
        header = Header(
            SHAPE,
            encoder.channels,
            self.painter.seq,
            encoder.truth_bytes(),
            {} if truth is None else {"nce": baselines(truth, target)},
            extra={"without": {"nce": NOT_SCORED if truth is None else EMPTY}, "hidden": target.nonzero()[:, 0].tolist()},
        )

        def run(label: str, model: Model, n_layers: int) -> engine.Run:
            return engine.Run(label, model, query, GaussianEncoder(model, truth, target), n_layers)

        return header, self.comparison.runs(self.model, run)

    def joint_question(self) -> Joint:
        weights = self.weights[None]
        return Joint(joint_model(MODEL, self.model), qtcore.Query(self.values[None], weights, weights < 1), BLOCK, smooth=True)

    def coloured(self, values: Tensor) -> Bytes:
        levels = grey_levels(values.cpu(), self.model.statistics) if self.model.statistics else values.cpu() * 42 + 128
        return in_grey(levels.reshape(-1, *SHAPE))

    def pictures(self, drawn: Drawn) -> list[bytes]:
        same = [self.coloured(values) for values in (drawn.marginals.mean, drawn.best)]
        looks = [drawn.samples] if drawn.smooth is None else [drawn.smooth, drawn.samples]
        return [sheet(same[0], self.coloured(samples), same[1]) for samples in looks]

    @property
    def model_shown(self) -> str:
        return MODEL

    def demonstrate(self) -> None:
        self.hide(OPENS_HIDING)
        self.play()

    def subject(self) -> Subject:
        query = qtcore.Query(self.values[None], self.weights[None])
        return Subject(self.model, query, self.why.place() or 0, self.model.n_layers)

    def wording(self) -> Wording:
        grey, weights, place = self.painter.image.reshape(-1), self.painter.weights.reshape(-1), self.why.place() or 0
        encoder = GaussianEncoder(self.model, None, torch.ones(len(self.values), dtype=torch.bool))
        factor, offset = (float(part.expand(len(self.values))[place]) for part in (encoder.factor, encoder.offset))
        return Wording(
            SHAPE, "grey levels", lambda i: f"{at(i, SHAPE)}, grey level {grey[i]}{half(weights[i])}", factor, offset
        )

    def view(self) -> Viewable:
        left = [self.gallery, *([self.sources] if len(self.faces) > 1 else []), self.upload, self.preset_row]
        return arrange([*left, self.show_row, self.comparison.row, self.reliability.row, self.notice], self, explanation())


def explanation() -> list[Viewable]:
    """Three cards: the question, a layer, the score."""
    return [
        card(
            "What is asked",
            r"The pixels $v$ that you see are evidence, the hatched ones are targets. The model answers with a Gaussian for "
            r"each target: $p(v_i \mid v_{\mathrm{seen}}) \approx \mathcal{N}(\mu_i, s_i^2)$. Half-hidden pixels are soft "
            r"evidence with a weight between 0 and 1.",
        ),
        card(
            "What happens in a layer",
            r"Each pixel tells each of 200 hidden units what it believes without that unit, its cavity "
            r"$\mathcal{N}(\mu, s^2)$: $m_{i \to j} = \mu w_{ij} + \tfrac12 s^2 w_{ij}^2$. With "
            r"$p = \sigma(\text{sum of all} + c_j)$ the unit answers with the Gaussian that has the moments of the mixture: "
            r"$\mu + p\,s^2 w$ and $s^2 + p(1-p)\,s^4 w^2$.",
        ),
        card(
            "How good it is",
            r"$\mathrm{NCE} = -\tfrac1n \sum_{\text{hidden } i} \log_2 \mathcal{N}(v_i; \mu_i, s_i^2)$, on standardised "
            r"pixels: lower is better. Dashed: the mean face with the spread of all faces, $\mathcal{N}(0, 1)$, and one "
            r"Gaussian fitted to the pixels seen in this picture. A sample has the model's own noise of $\sigma = 1$: "
            r"2.05 bits that nobody can predict. In training the answer was scored after 25 layers; 50 are shown.",
        ),
    ]


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    return FacesPage(shell).view()
