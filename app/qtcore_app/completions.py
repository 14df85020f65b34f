"""Samples and the most probable completion of what a page hides: drawn when the user asks, in the background, step by step."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution

from qtcore.inference.sampling import Block, completed, sampled, smoothing
from qtcore.models.base import Model
from qtcore.query import Query
from qtcore_app import colours, engine
from qtcore_app.sheets import COVER

Bytes = NDArray[np.uint8]

N = 6
_NAMES = [f"Sample {number + 1}" for number in range(N)]
TITLES = (*_NAMES[: N // 2], "Most probable", *_NAMES[N // 2 :])
"""What stands after the marginals, in two rows."""
EMIT = 0.1
"""Seconds between two pictures of what is drawn so far."""
CHANGED = "The question has changed: these belong to the one before."
WORKING = "Under way…"


@dataclass(frozen=True, eq=False)
class Joint:
    """What to draw: all targets of a query to a model jointly, a block at a time."""

    model: Model
    query: Query
    block: Block = 1
    smooth: bool = False
    """Whether to take the grain of the samples away as well."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """How far the completions have come; what has no value yet is NaN."""

    share: float
    marginals: Distribution
    samples: Tensor
    """[N, …]"""
    best: Tensor
    """[1, …]"""
    smooth: Tensor | None = None
    """The samples without their grain, if that is wanted and all else is done: as far as it is taken away."""


def joint_model(name: str, otherwise: Model) -> Model:
    """The shipped relative of a model that is better at joint answers, if there is one: trained for any number of observed
    variables, or with a σ for each pixel, which leaves samples little grain."""
    relative = engine.first_available(f"{name}-cardinality", f"{name}-sigma")
    return engine.model(relative) if relative else otherwise


def draw(joint: Joint, seed: int) -> Iterator[Drawn]:
    """The completions after each step: to be computed in the background."""
    model, query, block = joint.model, joint.query.to(joint.model.device), joint.block
    drawing = sampled(model, query, N, block=block, generator=torch.Generator().manual_seed(seed))
    best, marginals = completed(model, query, block=block), model(query)
    samples, values = drawing.evidence.filled, best.evidence.filled
    total = len(drawing) + len(best) + joint.smooth
    for done, _ in enumerate(chain(drawing, best), 1):
        yield Drawn(done / total, marginals, samples, values)
    if joint.smooth:
        for smooth in smoothing(model, samples, (query.observed < 1).expand_as(samples)):
            yield Drawn(1 - 1 / total, marginals, samples, values, smooth)
        yield Drawn(1.0, marginals, samples, values, smooth)


# ---------------------------------------------------------------------- on a page


class Asked:
    """The latest request of a user for a joint answer: `ask` begins anew, `stop` gives up what is under way.

    `view` has the parameters `asks`, `share`, `status` and `stale` (see `app/components/joint.js`); `make` computes the steps
    of the answer, `show` puts one of them on the page, and `lacking` says what keeps it from being asked, if anything.
    """

    def __init__(
        self,
        view: Any,
        make: Callable[[int], Iterator[Any]],
        show: Callable[[Any], None],
        lacking: Callable[[], str] = lambda: "",
    ) -> None:
        self.view, self.make, self.show, self.lacking = view, make, show, lacking
        self.count = 0
        self._latest = engine.Latest(self._tell)
        self.cancel = self._latest.cancel
        view.param.watch(lambda event: self.ask(), "asks")

    def ask(self) -> None:
        self.cancel()
        self.count += 1
        if sentence := self.lacking():
            self._tell(sentence)
        else:
            self._latest.submit(self._answer)

    def stop(self) -> None:
        """The question has changed."""
        self.cancel()
        if self.count and not self.view.stale:
            self.view.param.update(share=1.0, stale=True, status=CHANGED)

    async def _answer(self) -> None:
        began = shown = time.monotonic()
        self.view.param.update(share=0.0, stale=False, status=WORKING)
        async for step in engine.one_by_one(self.make(self.count)):
            if step.share >= 1 or time.monotonic() - shown >= EMIT:
                self.show(step)
                self.view.share, shown = step.share, time.monotonic()
        self.view.param.update(share=1.0, status=f"Done in {time.monotonic() - began:.1f} s.")

    def _tell(self, sentence: str) -> None:
        self.view.param.update(share=1.0, stale=True, status=sentence)


def in_grey(levels: Tensor) -> Bytes:
    """Grey levels [n, h, w] as colours [n, h, w, 3]; what is NaN is covered as in the painter."""
    grey = levels.float().cpu().numpy()[..., None]
    return np.where(np.isnan(grey), np.array(COVER), grey.clip(0, 255)).round().astype(np.uint8)


def in_colour(labels: Tensor) -> Bytes:
    """Labels [n, h, w], or their probabilities [n, h, w, 3], as colours [n, h, w, 3]."""
    table = np.array([colours.CONTOUR, colours.OUT, colours.IN, COVER])
    if labels.dim() == 4:
        return (labels.float().cpu().numpy() @ table[:3]).round().astype(np.uint8)
    return table[labels.nan_to_num(3).long().cpu().numpy()].astype(np.uint8)


def sheet(marginals: Bytes, samples: Bytes, best: Bytes) -> bytes:
    """Eight pictures in the order of `TITLES`."""
    return np.concatenate([marginals, samples[: N // 2], best, samples[N // 2 :]]).tobytes()
