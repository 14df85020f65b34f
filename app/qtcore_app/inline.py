"""Painter and player for any model with an image shape, in a notebook or wherever Panel runs."""

from collections.abc import Sequence

import numpy as np
import panel as pn
import torch
from numpy.typing import NDArray
from torch import Tensor

import qtcore
from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.models.base import Model
from qtcore.models.grid import GridMRF
from qtcore_app import engine
from qtcore_app.clones import clone_colours
from qtcore_app.components import Painter, Player
from qtcore_app.components.player import BERNOULLI_VIEWS, GAUSSIAN_VIEWS, GRID_VIEWS, IOU, NCE_ALL, NCE_HIDDEN, RESIDUAL
from qtcore_app.frames import BernoulliEncoder, Encoder, GaussianEncoder, GridEncoder, Header

Bytes = NDArray[np.uint8]
MAX_SIDE = 128


def shape_of(model: Model, image_shape: Sequence[int] | None = None) -> tuple[int, int]:
    """Height and width of a model's picture: as given, or the model's own."""
    shape = image_shape or model.image_shape
    if shape is None:
        raise InputError("this model does not say what image its variables form; give image_shape=(height, width).")
    height, width = (int(side) for side in shape)
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise InputError(f"an image of {height}×{width} pixels is not shown; sides from 1 to {MAX_SIDE} are.")
    return height, width


class Inline:
    """One painter and one player around a model. `view` is what to display."""

    def __init__(
        self,
        model: Model,
        values: Tensor | None = None,
        truth: Tensor | None = None,
        n_layers: int | None = None,
        image_shape: Sequence[int] | None = None,
        scale: int = 8,
        how: Engine | None = None,
    ) -> None:
        self.model = model
        self.shape = shape_of(model, image_shape)
        self.grid, self.gaussian = model.variables.kind == "label", model.variables.kind == "real"
        self.how = (how or model.engine).at(n_layers)
        self.n_layers = self.how.steps(model)
        flat = self.shape[0] * self.shape[1]
        if values is not None and values.numel() != flat:
            raise InputError(f"values have {values.numel()} numbers, but the image has {self.shape[0]}×{self.shape[1]} pixels.")
        if truth is not None and truth.numel() != flat:
            raise InputError(f"truth has {truth.numel()} numbers, but the image has {self.shape[0]}×{self.shape[1]} pixels.")
        self.values = torch.zeros(flat) if values is None else values.detach().float().cpu().reshape(-1)
        self.truth = None if truth is None else truth.detach().cpu().reshape(self.shape)
        self.painter = Painter(self._picture(), drawable=self.grid, scale=scale, margin=(5, 16, 5, 5))
        views = GRID_VIEWS if self.grid else GAUSSIAN_VIEWS if self.gaussian else BERNOULLI_VIEWS
        self.player = Player(
            self.painter,
            views=views,
            charts=[RESIDUAL, NCE_ALL, IOU] if self.grid else [RESIDUAL, NCE_HIDDEN],
            inspector="labels" if self.grid else "band" if self.gaussian else "probability",
            even=self.grid,
            pixel=[self.shape[0] // 2, self.shape[1] // 2],
            scale=scale,
            margin=5,
        )
        self.latest = engine.Latest()
        self.painter.strokes(lambda: self.latest.submit(self._run))
        self.player.frames = engine.compute(*self.question())
        self.view = pn.Row(self.painter, self.player)

    def _picture(self) -> Bytes:
        if self.grid:
            return np.where(self.values.numpy().reshape(self.shape) > 0.5, 255, 0).astype(np.uint8)
        encoder = GaussianEncoder if self.gaussian else BernoulliEncoder
        grey = encoder(self.model, self.values, self.values == self.values).truth_bytes()
        assert grey is not None
        return grey.reshape(self.shape)

    def _query(self, weights: Tensor) -> qtcore.Query:
        values = self.values
        if self.grid and hasattr(self, "painter"):
            values = torch.from_numpy((self.painter.image > 127).astype(np.float32))
        shape = self.shape if self.grid else (-1,)
        return qtcore.Query(values.reshape(1, *shape), weights.reshape(1, *shape)).to(self.model.device)

    def question(self) -> tuple[Header, list[engine.Run]]:
        """The runs for the painter's current picture and mask."""
        weights = torch.from_numpy(self.painter.weights.reshape(-1).astype(np.float32)) / 255
        encoder: Encoder
        extra: dict[str, object] = {"without": dict.fromkeys(("nce", "iou"), "Hide a pixel completely to score.")}
        if isinstance(self.model, GridMRF):
            grid = GridEncoder(self.model, self.truth)
            encoder, truth = grid, grid.truth_bytes()
            extra = {
                "clones": clone_colours(self.model) if self.shape == (30, 30) else [],
                "without": {"nce": "No truth was given.", "iou": "No truth was given."},
            }
        else:
            kind = GaussianEncoder if self.gaussian else BernoulliEncoder
            pixels = kind(self.model, self.values, weights == 0)
            encoder, truth = pixels, pixels.truth_bytes()
        header = Header(self.shape, encoder.channels, self.painter.seq, truth, extra=extra)
        label, query = f"{self.n_layers} layers", self._query(weights)
        return header, [engine.Run(label, self.model, query, encoder, self.n_layers, self.how)]

    async def _run(self) -> None:
        header, runs = self.question()
        async for blob in engine.stream(header, runs):
            self.player.frames = blob


def widget(
    model: Model,
    values: Tensor | None = None,
    truth: Tensor | None = None,
    n_layers: int | None = None,
    image_shape: Sequence[int] | None = None,
    scale: int = 8,
    engine: Engine | None = None,
) -> pn.viewable.Viewable:
    """Painter and player for a model: hide pixels with the mouse and see the layers fill them in.

    In a notebook, after ``import panel as pn; pn.extension(inline=True)``::

        import qtcore
        from qtcore.data import faces_offline
        qtcore.widget(qtcore.load("grbm/frey"), faces_offline(grain=True)[0])

    Args:
        model: any model of this package that has an image shape.
        values: the picture, one number per pixel in the model's own units (zeros by default); a grid's is 0 or 1.
        truth: the label image of a GridMRF, if known.
        n_layers: number of layers; by default the model's own.
        image_shape: height and width, for a model without them.
        scale: screen pixels per image pixel.
        engine: another engine than the model's own, such as ``qtcore.BP(damping=0.5)`` or ``qtcore.Gibbs(200)``.
    """
    return Inline(model, values, truth, n_layers, image_shape, scale, engine).view
