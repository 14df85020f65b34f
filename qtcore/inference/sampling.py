"""Samples drawn through a model's own marginals, by the chain rule.

A query-trained model answers queries; it is not a density to run a Markov chain on (a chain visits states on which
no query ever trained it). But p(v) = ∏ p(block | blocks before) needs nothing but answers to queries: a block is drawn
from its marginals given all that is drawn so far, and is evidence from then on. Within a block the draws are
independent, so blocks are small. A last pass gives each pixel its mean given the others (`smooth` = 1), which takes
the grain away: better to look at, but no sample of the model any more, and not to be scored.
"""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.query import Query

if TYPE_CHECKING:
    from qtcore.models.base import Model


def blocks(image_shape: tuple[int, int], size: int, generator: torch.Generator, spread: float = 1.5) -> list[Tensor]:
    """The pixels of each block of size×size, in an order from the middle outwards, shuffled by `spread` blocks."""
    height, width = image_shape
    pixels = torch.arange(height * width).reshape(height, width)
    ordered = []
    for top in range(0, height, size):
        for left in range(0, width, size):
            block = pixels[top : top + size, left : left + size].flatten()
            middle = torch.tensor([top + size / 2 - height / 2, left + size / 2 - width / 2])
            distance = float(middle.norm()) / size + spread * float(torch.rand((), generator=generator))
            ordered.append((distance, block))
    return [block for _, block in sorted(ordered, key=lambda pair: pair[0])]


@torch.inference_mode()
def dream(
    model: "Model",
    count: int = 16,
    image_shape: tuple[int, int] | None = None,
    size: int = 4,
    temperature: float = 1.0,
    smooth: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Samples [count, V] of a model with Gaussian pixels, drawn block by block.

    Args:
        image_shape: height and width; a shipped model has its own.
        size: side of a block in pixels.
        temperature: factor on the standard deviation of every draw; below 1 the faces are more typical.
        smooth: how much of its mean given all other blocks each block gets in the last pass (0 … 1).
    """
    shape = image_shape or model.image_shape
    if shape is None:
        raise InputError("this model does not say what image its variables form; give image_shape=(height, width).")
    height, width = (int(side) for side in shape)
    if size < 1 or count < 1:
        raise InputError(f"count and size must be at least 1, not {count} and {size}.")
    if not 0 <= temperature < math.inf or not 0 <= smooth <= 1:
        raise InputError(f"temperature must be 0 or more and smooth between 0 and 1, not {temperature:g} and {smooth:g}.")
    if model.variables.kind != "real":
        raise InputError(f"faces are dreamed up by a GaussianRBM, such as grbm/frey; this model is a {type(model).__name__}.")
    generator = torch.Generator().manual_seed(seed)
    parts = blocks((height, width), size, generator)
    values = torch.zeros(count, height * width)
    observed = torch.zeros(count, height * width, dtype=torch.bool)
    for block in parts:
        marginals = model(Query(values, observed))
        mean, deviation = marginals.mean[:, block], marginals.stddev[:, block]
        values[:, block] = mean + temperature * deviation * torch.randn(mean.shape, generator=generator)
        observed[:, block] = True
    return smoothed(model, values, shape, size, smooth) if smooth else values


@torch.inference_mode()
def smoothed(
    model: "Model", values: Tensor, image_shape: tuple[int, int] | None = None, size: int = 4, share: float = 1.0
) -> Tensor:
    """Samples [count, V] without (a share of) their grain: each block moves towards its mean given all others."""
    shape = image_shape or model.image_shape
    assert shape is not None
    means, observed = torch.empty_like(values), torch.ones_like(values, dtype=torch.bool)
    for block in blocks(shape, size, torch.Generator()):
        observed[:, block] = False
        means[:, block] = model(Query(values, observed)).mean[:, block]
        observed[:, block] = True
    return torch.lerp(values, means, share)


@torch.inference_mode()
def dream_records(model: "Model", count: int = 8, seed: int = 0, rounds: int = 128) -> Tensor:
    """Samples [count, V] of a model with binary variables, drawn by the chain rule in a random order.

    Where there are more than `rounds` variables, several of them (far from each other in the row) are drawn at a time.
    """
    if count < 1 or rounds < 1:
        raise InputError(f"count and rounds must be at least 1, not {count} and {rounds}.")
    if model.variables.kind != "binary":
        raise InputError(f"records are drawn from a model with binary variables; this one is a {type(model).__name__}.")
    generator = torch.Generator().manual_seed(seed)
    (size,) = model.variables.shape
    assert size is not None
    values, observed = torch.zeros(count, size), torch.zeros(count, size, dtype=torch.bool)
    n_rounds = min(rounds, size)
    for start in torch.randperm(n_rounds, generator=generator).tolist():
        block = torch.arange(start, size, n_rounds)
        probability = model(Query(values, observed).to(model.device)).mean[:, block].cpu()
        values[:, block] = torch.bernoulli(probability, generator=generator)
        observed[:, block] = True
    return values
