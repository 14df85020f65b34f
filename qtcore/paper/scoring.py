"""Scores of a model on a dataset, as the paper defines them."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Categorical

from qtcore.data import Dataset
from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.learn.query_training import generator
from qtcore.metrics import Score, batches, force_frame, iou, nll, score
from qtcore.models.base import Model
from qtcore.query import Query, parse

BATCH, GRID_BATCH = 200, 20
"""Samples scored at a time."""


def evaluate(
    model: Model,
    dataset: Dataset,
    split: str,
    queries: str,
    seed: int = 0,
    draws: int = 1,
    rows: int | None = None,
    layers: int | None = None,
    engine: Engine | None = None,
) -> Score:
    """NCE in nats on a split of a dataset, averaged over draws of the queries (Frey: per image first, then over images)."""
    masks = parse(queries, dataset.image_shape)
    values = dataset.splits[split][:rows]
    labelled = model.variables.kind == "label"
    truth = dataset.truth[split][:rows] if labelled and dataset.truth is not None else None
    per_image = dataset.kind == "gaussian"
    size = GRID_BATCH if labelled else BATCH
    return Score.over(
        [
            score(model, values, masks, generator(seed, draw), truth, per_image, layers, size, engine)
            for draw in range(draws)
        ]
    )


@dataclass(frozen=True)
class GridScore:
    """IoU in per cent and NCE in nats, as the paper defines them and as its authors' code computes them."""

    iou: Score
    nce: Score
    iou_framed: Score
    """With the one-pixel frame of the image forced to OUT."""
    nce_framed: Score


@torch.no_grad()
def evaluate_grid(
    model: Model,
    dataset: Dataset,
    split: str,
    layers: int | None = None,
    rows: int | None = None,
    engine: Engine | None = None,
) -> GridScore:
    """Score the segmentation of every image, with all pixels observed."""
    if dataset.truth is None:
        raise InputError(f"{dataset.name} has no labels to compare with.")
    parts: dict[str, list[Tensor]] = {"iou": [], "nce": [], "iou_framed": [], "nce_framed": []}
    for values, truth in batches(dataset.splits[split][:rows], dataset.truth[split][:rows], GRID_BATCH):
        query = Query(values, torch.ones(values.shape, dtype=torch.bool), truth=truth).to(model.device)
        labels, everywhere = query.truth.long().cpu(), torch.ones(values.shape, dtype=torch.bool)
        p = model(query, layers, engine).probs.cpu()
        for suffix, q in (("", p), ("_framed", force_frame(p))):
            marginals = Categorical(logits=q.double().clamp_min(1e-38).log(), validate_args=False)
            parts["iou" + suffix].append(100 * iou(labels, q[..., 1]))
            parts["nce" + suffix].append(nll(marginals, labels, everywhere).mean((1, 2)))
    return GridScore(**{name: Score.of(torch.cat(scores)) for name, scores in parts.items()})
