"""Why a page's model thinks so: the evidence that moved a marginal and the messages that make it, in pictures and words."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

from qtcore.inference.engine import expectations
from qtcore.inference.why import Arriving, LeavingOut, LeftOut, Reasons, arriving
from qtcore.models.base import Model
from qtcore.models.grid import KINDS, GridMRF
from qtcore.query import Query
from qtcore_app import colours
from qtcore_app.sheets import COVER

Bytes = NDArray[np.uint8]

N_EVIDENCE, N_MESSAGES = 6, 8
"""How many reasons of each kind are named, the most important ones first."""
NOT_ASKED = (214, 214, 214)
"""Evidence that was not left out, since it is too far away."""
ARROWS = {
    (-1, 0): "↓ above",
    (1, 0): "↑ below",
    (0, -1): "→ left",
    (0, 1): "← right",
    (-1, -1): "↘ above left",
    (1, 1): "↖ below right",
    (1, -1): "↗ below left",
    (-1, 1): "↙ above right",
}
"""Where a message goes, and the neighbour that it comes from, by that one's place (rows down, columns right)."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is to be explained: the marginal of one variable, by so many layers of a model; and which evidence to leave out."""

    model: Model
    query: Query
    about: int
    n_layers: int
    pieces: Sequence[int | Sequence[int]] | None = None


@dataclass(frozen=True, eq=False)
class Explained:
    """How far an explanation has come."""

    share: float
    subject: Subject
    heard: Arriving
    believed: Tensor
    """The mean, or the probability of each state, of every variable [1, …]."""
    hidden: Tensor
    """Probabilities of the hidden units in each layer [layers, units]; of a grid [layers, 0]."""
    left: LeftOut | None = None


def explain(subject: Subject) -> Iterator[Explained]:
    """The messages at once, then the evidence bit by bit: to be computed in the background."""
    model, about = subject.model, subject.about
    query = subject.query.to(model.device)
    heard = arriving(model, query, about, subject.n_layers)
    believed, hidden = course(model, query, subject.n_layers)
    leaving = LeavingOut(model, query, about, subject.pieces, model.engine.at(subject.n_layers))
    yield Explained(0.02, subject, heard, believed, hidden)
    for done in leaving:
        yield Explained(done / len(leaving.left), subject, heard, believed, hidden, leaving.reasons)


def course(model: Model, query: Query, n_layers: int) -> tuple[Tensor, Tensor]:
    """What is believed in the end, and the probability of each hidden unit in each layer [layers, units]; no units for a model
    with clones."""
    layers = list(model.trace(query, n_layers))
    (believed,) = expectations(layers[-1].marginals)
    if not isinstance(layers[0].hidden, Bernoulli):
        return believed, torch.zeros(len(layers), 0)
    return believed, torch.stack([layer.hidden.probs[0].float().cpu() for layer in layers])  # type: ignore[attr-defined]


def signed(reasons: Reasons) -> Tensor:
    """What each reason did to the mean or the probability, or to the probability of the state that is most probable [n]."""
    moved = reasons.moved.cpu()
    return moved if moved.dim() == 1 else moved[:, int(reasons.marginal.probs[0].argmax())]  # type: ignore[attr-defined]


def ranked(reasons: Reasons, most: int) -> list[int]:
    """The numbers of the reasons that moved the marginal farthest, if they moved it at all."""
    bits = reasons.bits.cpu()
    order = bits.argsort(descending=True)[:most].tolist()
    return [number for number in order if float(bits[number]) > 0]


# ---------------------------------------------------------------------- on a page


@dataclass(frozen=True, eq=False)
class Wording:
    """How a page speaks of its variables, an image [h, w] of them."""

    shape: tuple[int, int]
    unit: str
    """Of what moved."""
    seen: Callable[[int], str]
    """The evidence at a place, in words."""
    factor: float = 1.0
    """From the model's units to those."""
    offset: float = 0.0
    labels: tuple[str, ...] = ()


def at(place: int, shape: tuple[int, int]) -> str:
    return f"({place // shape[1]}, {place % shape[1]})"


def half(weight: int) -> str:
    """What is said of evidence that is soft."""
    return "" if weight == 255 else f", weight {weight / 255:.1f}"


def claim(marginal: Any, words: Wording) -> str:
    """The marginal in words."""
    if isinstance(marginal, Normal):
        return f"{float(marginal.mean[0]) * words.factor + words.offset:.0f} ± {float(marginal.stddev[0]) * words.factor:.0f}"
    if isinstance(marginal, Categorical):
        return ", ".join(f"{name} {p:.2f}" for name, p in zip(words.labels, marginal.probs[0].tolist(), strict=True))
    return f"p = {float(marginal.mean[0]):.2f}"


def facts(explained: Explained, words: Wording) -> dict[str, Any]:
    """What the component writes: the claim, and the reasons that matter most."""
    about, width = explained.subject.about, words.shape[1]
    return {
        "pixel": list(divmod(about, width)),
        "claim": claim(explained.heard.marginal, words),
        "unit": unit(explained, words),
        "scale": f"{scale(explained, words):.2g}",
        "evidence": _evidence(explained, words),
        "messages": _messages(explained, words),
        "units": explained.hidden.shape[1],
        "layers": explained.hidden.shape[0],
    }


def unit(explained: Explained, words: Wording) -> str:
    marginal = explained.heard.marginal
    return (
        f"probability of {words.labels[int(marginal.probs[0].argmax())]}" if isinstance(marginal, Categorical) else words.unit
    )


def scale(explained: Explained, words: Wording) -> float:
    """The largest effect of a piece of evidence, where the colours end."""
    return 0.0 if explained.left is None else float(signed(explained.left).abs().max()) * words.factor


def _number(moved: float) -> str:
    return f"{moved:+.1f}" if abs(moved) >= 10 else f"{moved:+.2g}"


def _evidence(explained: Explained, words: Wording) -> list[dict[str, Any]]:
    left = explained.left
    if left is None:
        return []
    moved, bits, places = signed(left) * words.factor, left.bits, left.pieces.flatten(1).int().argmax(1)
    return [
        {
            "place": list(divmod(int(places[k]), words.shape[1])),
            "text": words.seen(int(places[k])),
            "moved": _number(float(moved[k])),
            "bits": f"{float(bits[k]):.2g}",
        }
        for k in ranked(left, N_EVIDENCE)
    ]


def _messages(explained: Explained, words: Wording) -> list[dict[str, Any]]:
    heard, last = explained.heard, explained.hidden[-1]
    moved, here, width = signed(heard) * words.factor, explained.subject.about, words.shape[1]

    def name(sender: int) -> tuple[str, str]:
        if len(last):
            return f"unit {sender + 1}", f"on with p = {float(last[sender]):.2f}"
        step = sender // width - here // width, sender % width - here % width
        return ARROWS[step], ""

    return [
        dict(zip(("name", "text"), name(int(heard.senders[k])), strict=True)) | {"moved": _number(float(moved[k]))}
        for k in ranked(heard, N_MESSAGES)
    ]


# ---------------------------------------------------------------------- pictures


def tinted(values: Tensor, largest: float) -> Bytes:
    """Signed numbers in colour [..., 3], blue below 0 and brown above; white at 0."""
    place = (127.5 + 127.5 * values.float().cpu() / max(largest, 1e-12)).round().clamp(0, 255).long().numpy()
    return np.asarray(colours.tables()["difference"][place])


def evidence_map(explained: Explained, words: Wording) -> Bytes:
    """What each seen pixel did to the one in question [h, w, 3]; hidden ones are covered."""
    known = (explained.subject.query.observed[0].flatten() > 0).cpu().numpy()
    result = np.where(known[:, None], np.array(NOT_ASKED), np.array(COVER)).astype(np.uint8)
    if explained.left is not None:
        moved = signed(explained.left)
        shown = tinted(moved, float(moved.abs().max()))
        for piece, colour in zip(explained.left.pieces.flatten(1).cpu().numpy(), shown, strict=True):
            result[piece] = colour
    return result.reshape(*words.shape, 3)


def filter_of(model: Any, unit: int, shape: tuple[int, int]) -> Bytes:
    """The couplings of a hidden unit of the first layer to all pixels [h, w, 3], each picture with a scale of its own."""
    weights = couplings(model)[unit].reshape(shape)
    return tinted(weights, float(weights.abs().max()))


def filters(explained: Explained, shape: tuple[int, int]) -> bytes:
    """Of the hidden units that are named, one after the other; none of a grid."""
    if not explained.hidden.shape[1]:
        return b""
    units = [int(explained.heard.senders[k]) for k in ranked(explained.heard, N_MESSAGES)]
    return b"".join(filter_of(explained.subject.model, unit, shape).tobytes() for unit in units)


def couplings(model: Any) -> Tensor:
    """Of the hidden units of the first layer with the visible variables [H, V]."""
    return model.graph().W.detach()[:, : model.size].float().cpu()


@functools.lru_cache(maxsize=8)
def atlas(model: Model, shape: tuple[int, int]) -> Bytes:
    """All learned filters, or the tables of the clones, in one picture [height, width, 3]."""
    if isinstance(model, GridMRF):
        tables = [model.potentials[kind].detach() for kind in KINDS]
        largest = max(float(table.abs().quantile(0.995)) for table in tables)
        return mosaic([tinted(table, largest) for table in tables], len(tables))
    count = len(couplings(model))
    return mosaic([filter_of(model, unit, shape) for unit in range(count)], 20 if count > 64 else 10)


def mosaic(pictures: Sequence[Bytes], columns: int) -> Bytes:
    """Pictures of one size in rows, with a grey line between them."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    result = np.full((rows * (height + 1) - 1, columns * (width + 1) - 1, 3), 190, np.uint8)
    for number, each in enumerate(pictures):
        top, left = number // columns * (height + 1), number % columns * (width + 1)
        result[top : top + height, left : left + width] = each
    return result
