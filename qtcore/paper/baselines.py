"""The trivial predictors of the paper's tables: a lower bar for every model, and a check of data and units."""

import math

import torch
from torch import Tensor

from qtcore.data import Dataset
from qtcore.data.border import OUT
from qtcore.data.checks import Check, Findings
from qtcore.data.frey import SHAPE
from qtcore.errors import InputError
from qtcore.query import patches

DRAWS = 24  # of queries for the Gaussian: a single draw of patches is noisy (deviation 0.03)
UNIFORM = (1.903, 0.006)  # its bits on Frey's faces, and tolerance
PATCHES = (1.93, 0.02)
GUESS = (16.4, 0.1)  # per cent that a random guess reaches, and tolerance


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


def _check_gaussian(data: Dataset, findings: Findings) -> None:
    """Check the test score of one Gaussian per image, fitted to its evidence, for two distributions of queries."""
    generator = torch.Generator().manual_seed(0)
    faces = data.test.repeat(DRAWS, 1)  # all draws at once
    uniform = torch.rand(faces.shape, generator=generator) < 0.5
    squares = patches(5, 1, SHAPE)(faces, generator).target
    scores = [per_image_gaussian(faces, target).mean().item() for target in (uniform, squares)]
    findings.near("per-image Gaussian, uniform queries:", scores[0], UNIFORM, " bits")
    findings.near("5×5 patches:", scores[1], PATCHES, " bits")


def _check_guess(data: Dataset, findings: Findings) -> None:
    assert data.truth is not None
    guess = 100 * random_guess_iou(data.truth["test"], OUT).mean().item()
    findings.near("IoU of a random guess", guess, GUESS, " %")


CHECKS: dict[str, tuple[Check, ...]] = {"frey": (_check_gaussian,), "border": (_check_guess,)}
"""Datasets on which a baseline has the paper's score: checks of the data and of the units, for `verify`."""
