"""Whether what a model claims is so as often as it says: a reliability diagram, measured when the user asks for it."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import panel as pn
import torch

import qtcore
from qtcore import metrics
from qtcore.data import load
from qtcore.data.border import add_noise, border_labels
from qtcore.data.glyphs import draw_glyph
from qtcore.data.inventory import holding
from qtcore.data.mnist import load_mnist
from qtcore.errors import DataError
from qtcore.metrics import Calibration
from qtcore.models.base import Model
from qtcore.models.grid import GridMRF
from qtcore.paper.scoring import calibration
from qtcore_app import engine
from qtcore_app.components import Choices

ROWS, IMAGES, SEED = 1000, 60, 11
"""Rows of a test set, and noisy digits, that are asked about."""
SIDE, LEFT, BOTTOM = 200, 34, 34
"""Pixels of the diagram, and of the numbers beside and below it."""
MISSING = "The test set is not on this machine, so that this cannot be measured here."
WORKING = "Asking about rows of the test set …"
FRAME = (
    '<svg width="{w}" height="{h}" role="img" aria-label="{label}" style="overflow:visible;font:11px sans-serif">{parts}</svg>'
)


@functools.lru_cache(maxsize=32)
def measured(name: str) -> Calibration | None:
    """Of a shipped model, on its test set with half of the variables hidden (of a grid, on noisy digits); None without data."""
    model = engine.model(name)
    if isinstance(model, GridMRF):
        return metrics.calibration(digits(model))
    dataset = name.partition("/")[2]
    try:
        if holding(dataset).source is None:
            return None
        return calibration(model, load(dataset), "test", "uniform", SEED, ROWS)
    except DataError:
        return None


def digits(model: Model) -> Iterator[tuple[Any, torch.Tensor, torch.Tensor]]:
    """Marginals, labels and targets of noisy digits that the gallery does not show: MNIST's, else printed ones."""
    try:
        images = load_mnist().test[-IMAGES:] if holding("mnist").source is not None else None
    except DataError:
        images = None
    if images is None:
        rng = np.random.default_rng(SEED)
        images = torch.from_numpy(np.stack([draw_glyph(number % 10, rng) for number in range(IMAGES)]))
    labels = border_labels(images)
    noisy = add_noise(labels, seed=SEED).float().to(model.device)
    for part, truth in zip(noisy.split(4), labels.split(4), strict=True):
        with torch.no_grad():
            marginals = model(qtcore.Query(part, torch.ones_like(part)))
        yield marginals, truth.long().to(model.device), torch.ones_like(part, dtype=torch.bool)


def diagram(result: Calibration) -> str:
    """What was claimed against what was so; a circle's area is how often it was claimed."""
    share = (result.count.double() / result.count.max()).sqrt().tolist()
    x, y = (lambda p: LEFT + p * SIDE), (lambda p: 6 + (1 - p) * SIDE)
    points = list(zip(result.claimed.tolist(), result.true.tolist(), share, strict=True))
    parts = [
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="currentColor" stroke-dasharray="3 3" opacity="0.6"/>'
    ]
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<line x1="{x(0)}" x2="{x(1)}" y1="{y(tick)}" y2="{y(tick)}" stroke="currentColor" opacity="0.2"/>')
        parts.append(f'<text x="{x(0) - 6}" y="{y(tick) + 4}" text-anchor="end" fill="currentColor">{tick:g}</text>')
        parts.append(f'<text x="{x(tick)}" y="{y(0) + 14}" text-anchor="middle" fill="currentColor">{tick:g}</text>')
    parts.append(f'<text x="{x(0.5)}" y="{y(0) + 29}" text-anchor="middle" fill="currentColor">claimed</text>')
    parts.append(f'<text x="{x(0)}" y="{y(1) + 12}" dx="4" fill="currentColor">true</text>')
    line = " ".join(f"{x(p):.1f},{y(q):.1f}" for p, q, _ in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="1.5"/>')
    for (p, q, size), count in zip(points, result.count.tolist(), strict=True):
        title = f"claimed {p:.3f}, true {q:.3f}, {count} times"
        parts.append(
            f'<circle cx="{x(p):.1f}" cy="{y(q):.1f}" r="{2 + 6 * size:.1f}" fill="#0072b2"><title>{title}</title></circle>'
        )
    label = f"reliability: {'; '.join(f'claimed {p:.2f}, true {q:.2f}' for p, q, _ in points)}"
    return FRAME.format(w=LEFT + SIDE + 12, h=SIDE + 6 + BOTTOM, label=label, parts="".join(parts))


def describe(name: str, result: Calibration | None) -> str:
    """The diagram with a heading and a sentence."""
    head = f"<b>Is it calibrated?</b> {name}"
    if result is None:
        return f"{head}<br>{MISSING}"
    intervals = result.claimed.tolist() == list(metrics.INTERVALS)
    what = "truths within the central 50, 80 and 95 % of their marginals" if intervals else "probabilities"
    total = int(result.count.max() if intervals else result.count.sum())
    return (
        f"{head}<br>{diagram(result)}<br>Expected calibration error {result.error:.4f}, over {total:,} {what}. On the "
        "dashed line what is claimed is so as often as the model says."
    )


class Reliability:
    """A button, and the diagram of the model that `name` names when it is pressed; pressed again, the diagram goes."""

    def __init__(self, name: Callable[[], str], width: int) -> None:
        self._name = name
        self.row = Choices(labels=["is it calibrated?"], width=width, margin=(14, 0, 0, 0))
        self.pane = pn.pane.HTML("", visible=False, width=SIDE + 70, margin=(0, 24, 0, 0), styles={"font-size": "13px"})
        self._latest = engine.Latest(self._tell)
        self.cancel = self._latest.cancel
        self.row.param.watch(self._on_click, "clicks")

    def refresh(self) -> None:
        """Measure the model that is shown now, if somebody looks."""
        if self.pane.visible:
            self._latest.submit(self._measure)

    def _on_click(self, event: Any) -> None:
        if self.row.clicked() is not None:
            self.pane.visible = not self.pane.visible
            self.row.selected = 0 if self.pane.visible else -1
            self.refresh()

    async def _measure(self) -> None:
        name = self._name()
        self._tell(WORKING)
        result = await asyncio.get_running_loop().run_in_executor(engine.background, measured, name)
        self.pane.object = describe(name, result)

    def _tell(self, sentence: str) -> None:
        self.pane.object = f"<b>Is it calibrated?</b><br>{sentence}"
