"""Scores of a model on a dataset, as the paper defines them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution

from qtcore import metrics
from qtcore.data import Dataset
from qtcore.errors import InputError
from qtcore.inference import BP, Engine
from qtcore.inference.engine import named
from qtcore.inference.sampling import Block, Order
from qtcore.learn.query_training import generator
from qtcore.metrics import BITS, Calibration, Score, batches, force_frame, iou, nll, score
from qtcore.models.base import Model
from qtcore.paper.beyond import ASKED, ENGINE_DEPTHS, ENGINE_NAMES, ENGINE_ROWS
from qtcore.potentials import GaussianPotentials
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
    values, truth, size = _samples(model, dataset, split, rows)
    per_image = dataset.kind == "gaussian"
    return Score.over(
        [
            score(model, values, masks, generator(seed, draw), truth, per_image, layers, size, engine)
            for draw in range(draws)
        ]
    )


def _samples(model: Model, dataset: Dataset, split: str, rows: int | None) -> tuple[Tensor, Tensor | None, int]:
    """Values, labels where these are the truth, and how many samples to score at a time."""
    labelled = model.variables.kind == "label"
    truth = dataset.truth[split][:rows] if labelled and dataset.truth is not None else None
    return dataset.splits[split][:rows], truth, GRID_BATCH if labelled else BATCH


@torch.no_grad()
def calibration(
    model: Model,
    dataset: Dataset,
    split: str,
    queries: str,
    seed: int = 0,
    rows: int | None = None,
    layers: int | None = None,
    engine: Engine | None = None,
) -> Calibration:
    """What marginals claim, and how often it is so, with one draw of the queries."""
    masks, draw = parse(queries, dataset.image_shape), generator(seed, 0)
    values, truth, size = _samples(model, dataset, split, rows)

    def parts() -> Iterator[tuple[Distribution, Tensor, Tensor]]:
        for part, labels in batches(values, truth, size):
            query = masks(part, draw, labels).to(model.device)
            target = model.target(query)
            if bool(target.any()):
                model.check_truth(query)
                yield model(query, layers, engine), query.truth, target

    return metrics.calibration(parts())


@dataclass(frozen=True)
class DepthScore:
    """The score of one layer."""

    layer: int
    nce: Score
    """In nats."""
    iou: Score | None
    """In per cent, for labels."""
    residual: float
    """The largest change of a message, averaged over samples."""
    at_rest: float
    """Share of the samples whose beliefs are those of the layer before."""


@torch.no_grad()
def over_depth(
    model: Model,
    dataset: Dataset,
    split: str,
    queries: str,
    depths: Collection[int],
    seed: int = 0,
    rows: int | None = None,
    engine: Engine | None = None,
) -> list[DepthScore]:
    """The scores at each of these depths, in one pass through the layers: `evaluate` with as many layers gives the same."""
    masks, draw = parse(queries, dataset.image_shape), generator(seed, 0)
    values, truth, size = _samples(model, dataset, split, rows)
    sums: dict[int, list[dict[str, Tensor]]] = {depth: [] for depth in sorted(depths)}
    counts = []
    for part, labels in batches(values, truth, size):
        query = masks(part, draw, labels).to(model.device)
        target = model.target(query)
        if not bool(target.any()):
            continue
        model.check_truth(query)
        counts.append(target.flatten(1).sum(1).cpu())
        for layer in model.trace(query, max(sums), engine):
            if layer.index in sums:
                losses = nll(layer.marginals, query.truth, target).flatten(1).cpu().sum(1, dtype=torch.float64)
                scores = {"nce": losses, "residual": layer.residual.cpu(), "period": layer.info["period"].cpu()}
                if labels is not None:
                    scores["iou"] = 100 * iou(labels, layer.marginals.probs[..., 1].cpu())  # type: ignore[attr-defined]
                sums[layer.index].append(scores)
    if not counts:
        raise InputError("none of the queries has a target, so there is nothing to score.")
    count, per_image = torch.cat(counts), dataset.kind == "gaussian"

    def one(layer: int) -> DepthScore:
        each = {name: torch.cat([batch[name] for batch in sums[layer]]) for name in sums[layer][0]}
        overlap = Score.of(each["iou"]) if "iou" in each else None
        residual, rest = float(each["residual"].double().mean()), float((each["period"] == 1).double().mean())
        return DepthScore(layer, Score.per_target(each["nce"], count, per_image), overlap, residual, rest)

    return [one(layer) for layer in sums if sums[layer]]


@dataclass(frozen=True)
class JointScore:
    """−log p(targets | evidence) of a row by the chain rule, in nats (of real variables: of a density)."""

    nll: Score
    """In one order, the mean over orders."""
    mixture: Score
    """Of the mean probability over orders."""
    spread: Score
    """The standard deviation over orders of a row's log-probability; NaN for a single order."""


@torch.no_grad()
def evaluate_joint(
    model: Model,
    dataset: Dataset,
    split: str,
    queries: str | None = None,
    seed: int = 0,
    rows: int | None = None,
    orders: "int | list[Order]" = 2,
    block: Block = 1,
    engine: Engine | None = None,
) -> JointScore:
    """The joint score of a split. Without queries nothing is observed (of a grid: all readings are, and no label)."""
    values, truth, _ = _samples(model, dataset, split, rows)
    if queries is None and truth is None:
        query = Query(values, torch.zeros(values.shape, dtype=torch.bool))
    else:
        query = parse(queries or "everything", dataset.image_shape)(values, generator(seed, 2), truth)
    answer = model.log_prob(query.to(model.device), orders, block, generator(seed, 0), engine)
    return JointScore(Score.of(-answer.mean.cpu()), Score.of(-answer.mixture.cpu()), Score.of(answer.spread.cpu()))


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


QUERY_ROWS = 5000
"""Test samples of the query matrix at most."""
ROWS = 2000
"""Test rows on which engines are compared, unless `beyond.ENGINE_ROWS` says otherwise."""


def evenly(rows: Tensor, count: int) -> Tensor:
    """So many rows of all, at equal distances: a file may begin with rows that are not like the rest."""
    return rows[torch.arange(min(count, len(rows))) * len(rows) // min(count, len(rows))]


def score_queries(model: Model, dataset: Dataset) -> dict[str, dict[str, float]]:
    """NCE in bits under each distribution of queries."""
    asked = [queries for queries in ASKED.values() if queries != "patches" or dataset.image_shape is not None]
    fewer = replace(dataset, test=evenly(dataset.test, QUERY_ROWS))
    scores = {queries: evaluate(model, fewer, "test", queries, 1000) for queries in asked}
    return {queries: _in_bits(score) for queries, score in scores.items()}


def score_engines(model: Model, dataset: Dataset) -> dict[str, dict[str, float]]:
    """NCE in bits by each engine that applies after each number of layers. An engine that learns nothing but the model's own
    parameters takes them as they are; reweighted BP takes the edge weights of the model, or those of spanning trees."""
    rows, scores = ENGINE_ROWS.get(dataset.name, ROWS), {}
    queries = "everything" if model.variables.kind == "label" else "uniform"
    for short, name in ENGINE_NAMES.items():
        if name == "reweighted" and isinstance(model.graph(), GaussianPotentials):
            continue
        engine = BP() if name is None else named(name)
        for depth in ENGINE_DEPTHS:
            score = evaluate(model, dataset, "test", queries, 1000, rows=rows, layers=depth, engine=engine)
            scores[f"{short}-{depth}"] = _in_bits(score)
    return scores


def _in_bits(score: Score) -> dict[str, float]:
    bits = score.times(BITS)
    return {"mean": bits.mean, "error": bits.error, "samples": bits.count}
