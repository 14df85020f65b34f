"""Layers as bytes, for the player in the browser.

A blob is a u32 (little-endian) with the length of a JSON header, the header padded to a multiple of four bytes, then for
each run its layers, each layer its channels, each channel height × width bytes. A byte b of a channel stands for
low + b/255·(high − low), with fixed low and high.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qtcore.inference import Layer
from qtcore.metrics import BITS, iou, nll
from qtcore.models.base import Model
from qtcore.models.grid import LABELS, GridMRF

CONTOUR, OUT, IN = range(len(LABELS))
MAX_ENTROPY = math.log2(len(LABELS))
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Channel:
    """One map of numbers, with the fixed scale of its bytes."""

    name: str
    low: float
    high: float

    def quantise(self, values: Tensor) -> Bytes:
        scaled = (values.detach().float().cpu() - self.low) / (self.high - self.low) * 255
        return scaled.round().clamp(0, 255).nan_to_num(0).to(torch.uint8).numpy()


@dataclass(frozen=True)
class Header:
    """What all runs of a blob share."""

    shape: tuple[int, int]
    channels: tuple[Channel, ...]
    seq: int = 0
    truth: Bytes | None = None
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Curve → label → value."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Trace:
    """The layers of one run so far."""

    label: str
    total: int
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    frames: list[bytes] = field(default_factory=list)

    def add(self, channels: Sequence[Bytes], scalars: Mapping[str, float | None]) -> None:
        self.frames.append(b"".join(np.ascontiguousarray(channel).tobytes() for channel in channels))
        for name, value in scalars.items():
            usable = value is not None and math.isfinite(value)
            self.curves.setdefault(name, []).append(float(f"{value:.5g}") if usable else None)

    @property
    def count(self) -> int:
        return len(self.frames)


class Encoder(Protocol):
    """Turns layers into channels and curves."""

    channels: tuple[Channel, ...]

    def encode(self, layer: Layer) -> tuple[list[Bytes], dict[str, float | None]]: ...


def pack(header: Header, traces: Sequence[Trace]) -> bytes:
    """One blob for the player."""
    pixels = header.shape[0] * header.shape[1]
    described: dict[str, Any] = {
        "seq": header.seq,
        "height": header.shape[0],
        "width": header.shape[1],
        "channels": [{"name": c.name, "low": c.low, "high": c.high} for c in header.channels],
        "baselines": {
            curve: [{"label": label, "value": value} for label, value in values.items()]
            for curve, values in header.baselines.items()
        },
        "truth": header.truth is not None,
        **header.extra,
    }
    described["runs"] = [
        {"label": trace.label, "count": trace.count, "total": trace.total, "curves": trace.curves} for trace in traces
    ]
    text = json.dumps(described, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    parts = [struct.pack("<I", len(text)), text]
    if header.truth is not None:
        assert header.truth.size == pixels
        parts.append(header.truth.astype(np.uint8).tobytes())
    parts += [b"".join(trace.frames) for trace in traces]
    return b"".join(parts)


def unpack(blob: bytes) -> tuple[dict[str, Any], list[Bytes]]:
    """The header, and for each run its bytes [layers, channels, height, width]: as in the browser, for tests and GIFs."""
    (length,) = struct.unpack_from("<I", blob)
    described = json.loads(blob[4 : 4 + length])
    height, width, channels = described["height"], described["width"], len(described["channels"])
    at = 4 + length + (height * width if described["truth"] else 0)
    runs = []
    for run in described["runs"]:
        size = run["count"] * channels * height * width
        runs.append(np.frombuffer(blob, np.uint8, size, at).reshape(run["count"], channels, height, width))
        at += size
    return described, runs


def truth_bytes(blob: bytes) -> Bytes | None:
    """The truth in a blob, flat, or None."""
    (length,) = struct.unpack_from("<I", blob)
    described = json.loads(blob[4 : 4 + length])
    if not described["truth"]:
        return None
    return np.frombuffer(blob, np.uint8, described["height"] * described["width"], 4 + length)


def bits(layer: Layer, truth: Tensor, target: Tensor) -> float | None:
    """The NCE of one picture in bits per target; None if there are no targets."""
    if not bool(target.any()):
        return None
    device = layer.residual.device
    losses = nll(layer.marginals, truth.to(device)[None], target.to(device)[None])
    return float(losses.sum() / target.sum()) * BITS


def convergence(layer: Layer) -> dict[str, float | None]:
    """How much the messages of the first sample still change, and the period of its beliefs."""
    return {"residual": float(layer.residual[0]), "period": float(layer.info["period"][0])}


# ---------------------------------------------------------------------- Gaussian pixels


class GaussianEncoder:
    """Mean, standard deviation and difference from the truth of Gaussian pixels, in grey levels if the model has statistics.

    `truth` are the standardised values [V] or None; `target` bool [V] says what is scored, in bits per pixel.
    """

    def __init__(self, model: Model, truth: Tensor | None, target: Tensor) -> None:
        statistics = model.statistics
        if {"mean", "deviation", "maximum"} <= statistics.keys():
            self.factor = (statistics["deviation"] * statistics["maximum"]).cpu().flatten()
            self.offset = (statistics["mean"] * statistics["maximum"]).cpu().flatten()
            low, high, spread, difference = 0.0, 255.0, 64.0, 128.0
        else:
            self.factor, self.offset = torch.ones(()), torch.zeros(())
            low, high, spread, difference = -3.0, 3.0, 1.5, 3.0
        self.channels: tuple[Channel, ...] = (Channel("mean", low, high), Channel("deviation", 0.0, spread))
        self.truth, self.target = truth, target
        if truth is not None:
            self.channels += (Channel("difference", -difference, difference),)

    def grey(self, values: Tensor) -> Tensor:
        return values * self.factor + self.offset

    def truth_bytes(self) -> Bytes | None:
        return None if self.truth is None else self.channels[0].quantise(self.grey(self.truth))

    def encode(self, layer: Layer) -> tuple[list[Bytes], dict[str, float | None]]:
        mean = layer.marginals.mean[0].float().cpu()
        deviation = layer.marginals.stddev[0].float().cpu()
        shown = [self.grey(mean), deviation * self.factor]
        nce = None
        if self.truth is not None:
            shown.append(shown[0] - self.grey(self.truth))
            nce = bits(layer, self.truth, self.target)
        channels = [channel.quantise(values) for channel, values in zip(self.channels, shown, strict=True)]
        return channels, {**convergence(layer), "nce": nce}


# ---------------------------------------------------------------------- binary pixels


class BernoulliEncoder:
    """Probability and entropy of binary pixels [V], and the difference from the truth."""

    def __init__(self, model: Model, truth: Tensor | None, target: Tensor) -> None:
        self.channels: tuple[Channel, ...] = (Channel("mean", 0.0, 1.0), Channel("entropy", 0.0, 1.0))
        self.truth, self.target = truth, target
        if truth is not None:
            self.channels += (Channel("difference", -1.0, 1.0),)

    def truth_bytes(self) -> Bytes | None:
        return None if self.truth is None else self.channels[0].quantise(self.truth)

    def encode(self, layer: Layer) -> tuple[list[Bytes], dict[str, float | None]]:
        p = layer.marginals.mean[0].float().cpu()
        shown = [p, (torch.special.entr(p) + torch.special.entr(1 - p)) * BITS]
        nce = None
        if self.truth is not None:
            shown.append(p - self.truth)
            nce = bits(layer, self.truth, self.target)
        channels = [channel.quantise(values) for channel, values in zip(self.channels, shown, strict=True)]
        return channels, {**convergence(layer), "nce": nce}


# ---------------------------------------------------------------------- labels on a grid


class GridEncoder:
    """Probabilities of the labels, their entropy and the winning clone of each pixel; IoU and NCE if labels are known."""

    channels: tuple[Channel, ...] = (
        Channel("contour", 0.0, 1.0),
        Channel("in", 0.0, 1.0),
        Channel("entropy", 0.0, MAX_ENTROPY),
        Channel("clone", 0.0, 255.0),
    )

    def __init__(self, model: GridMRF, truth: Tensor | None) -> None:
        self.n_clones = model.clones[CONTOUR]
        self.truth = None if truth is None else truth.long().cpu()

    def truth_bytes(self) -> Bytes | None:
        return None if self.truth is None else self.truth.to(torch.uint8).numpy().reshape(-1)

    def encode(self, layer: Layer) -> tuple[list[Bytes], dict[str, float | None]]:
        p = layer.marginals.probs[0].float().cpu()  # type: ignore[attr-defined]
        states = layer.hidden.probs[0, ..., : self.n_clones]  # type: ignore[attr-defined]
        entropy = torch.special.entr(p).sum(-1) * BITS
        clone = states.argmax(-1).cpu().clamp_max(255)
        channels = [
            channel.quantise(values)
            for channel, values in zip(self.channels, [p[..., CONTOUR], p[..., IN], entropy, clone], strict=True)
        ]
        scalars: dict[str, float | None] = {**convergence(layer), "nce": None, "iou": None}
        if self.truth is not None:
            scalars["nce"] = bits(layer, self.truth, torch.ones_like(self.truth, dtype=torch.bool))
            scalars["iou"] = float(iou(self.truth[None], p[None, ..., OUT])[0])
        return channels, scalars
