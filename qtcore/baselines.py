"""The trivial predictors of the paper's tables: a lower bar for every model, and a check of data and units."""

import math

import torch
from torch import Tensor

from qtcore.errors import InputError


def per_image_gaussian(values: Tensor, target: Tensor) -> Tensor:
    """NCE in bits of each image, float64 [n], when one Gaussian, fitted on its evidence, predicts all its targets.

    `values` are [n, V]; `target`, bool [n, V], marks what is to be predicted; the rest is evidence. Every image needs
    a target and two values of evidence.
    """
    if target.shape != values.shape or target.dtype != torch.bool:
        raise InputError(f"target is {target.dtype} {tuple(target.shape)}; expected bool {tuple(values.shape)}.")
    n_targets, n_evidence = target.sum(1), (~target).sum(1)
    if (n_targets < 1).any() or (n_evidence < 2).any():
        raise InputError("an image has no target or fewer than two values of evidence.")
    values = values.double()
    evidence = (~target).double()
    mean = (values * evidence).sum(1, keepdim=True) / n_evidence[:, None]
    error = (values - mean) ** 2
    variance = (error * evidence).sum(1) / n_evidence
    squared = (error * target).sum(1) / n_targets
    return 0.5 * (torch.log2(2 * math.pi * variance) + squared / variance / math.log(2))


def random_guess_iou(labels: Tensor, out: int, seed: int = 0) -> Tensor:
    """IoU of each label image [n, h, w], float64 [n], when every pixel is labelled IN or OUT by a coin toss.

    The foreground is all that is not `out`.
    """
    foreground = labels != out
    guess = torch.rand(labels.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    both = (guess & foreground).sum((-2, -1))
    either = (guess | foreground).sum((-2, -1))
    return both.double() / either.double()
