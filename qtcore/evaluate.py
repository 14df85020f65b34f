"""Score a saved model on its dataset.

    python -m qtcore.evaluate rbm/adult                            a shipped model, by its name
    python -m qtcore.evaluate runs/d/best.safetensors --draws 5    a file; queries drawn five times
    python -m qtcore.evaluate grbm/frey --queries patches:5 --draws 20
    python -m qtcore.evaluate grid/border --layers 30

Prints the normalised cross-entropy (NCE) in bits and nats, for a grid also the intersection over union (IoU), with standard
errors over samples (one draw) or over draws.
"""

from dataclasses import dataclass, replace
from typing import Annotated

import torch
import tyro

from qtcore import data
from qtcore.cli import arguments, guarded
from qtcore.data import Dataset
from qtcore.errors import InputError
from qtcore.learn.query_training import generator
from qtcore.learn.run import device
from qtcore.metrics import BITS, Score, batches, force_frame, iou, score
from qtcore.models.base import Model, load
from qtcore.models.grid import GridMRF
from qtcore.query import Query, parse


@dataclass(frozen=True)
class Command:
    """What to score, and how."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Name of a shipped model, or a file."""
    data: str | None = None
    """Dataset; by default the one that the model was trained on."""
    split: str = "test"
    """train, valid or test."""
    queries: str | None = None
    """uniform[:p], patches[:size[xcount]], one-target or everything; by default uniform, for a grid everything."""
    layers: int | None = None
    """Layers of belief propagation; by default the model's own number."""
    seed: int = 0
    """Of the queries."""
    draws: int = 1
    """How often queries are drawn for every sample."""
    rows: int | None = None
    """Use only the first rows."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first of these that is there."""


def overall(scores: list[Score]) -> Score:
    """The mean over draws; its error is that over samples for one draw, else that over draws."""
    if len(scores) == 1:
        return scores[0]
    means = torch.tensor([found.mean for found in scores], dtype=torch.float64)
    return replace(Score.of(means), count=scores[0].count)


def evaluate(
    model: Model, dataset: Dataset, split: str, queries: str, layers: int | None, seed: int, draws: int, rows: int | None
) -> Score:
    """NCE in nats on a part of a dataset, averaged over draws of the queries (Frey: per image first, then over images)."""
    masks = parse(queries, dataset.image_shape)
    values = dataset.splits[split][:rows]
    truth = dataset.truth[split][:rows] if isinstance(model, GridMRF) and dataset.truth is not None else None
    per_image = dataset.kind == "gaussian"
    size = 20 if isinstance(model, GridMRF) else 200
    found = [score(model, values, masks, generator(seed, draw), truth, per_image, layers, size) for draw in range(draws)]
    return overall(found)


@dataclass(frozen=True)
class GridScore:
    """IoU in per cent and NCE in nats, as the paper defines them and as its authors count them."""

    iou: Score
    nce: Score
    iou_framed: Score
    """With the one-pixel frame of the image forced to OUT."""
    nce_framed: Score


@torch.no_grad()
def evaluate_grid(
    model: GridMRF, dataset: Dataset, split: str, layers: int | None = None, rows: int | None = None
) -> GridScore:
    """Segment every image from all of its pixels."""
    if dataset.truth is None:
        raise InputError(f"{dataset.name} has no labels to compare with.")
    parts: dict[str, list[torch.Tensor]] = {"iou": [], "nce": [], "iou_framed": [], "nce_framed": []}
    for values, truth in batches(dataset.splits[split][:rows], dataset.truth[split][:rows], 20):
        query = Query(values, torch.ones(values.shape, dtype=torch.bool), truth=truth).to(model.device)  # type: ignore[arg-type]
        labels = query.truth.long().cpu()
        p = model(query, layers).probs.cpu()
        for suffix, q in (("", p), ("_framed", force_frame(p))):
            parts["iou" + suffix].append(100 * iou(labels, q[..., 1]))
            parts["nce" + suffix].append(-q.gather(-1, labels[..., None]).double().clamp_min(1e-38).log().mean((1, 2, 3)))
    return GridScore(**{name: Score.of(torch.cat(found)) for name, found in parts.items()})


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.evaluate", description=__doc__)
    model = load(command.model, device(command.device)).compile_layers()
    name = command.data or model.notes.get("dataset")
    if name is None:
        raise InputError("the model does not say what it was trained on; name a dataset with --data.")
    if command.split not in ("train", "valid", "test"):
        raise InputError(f"split must be train, valid or test, not {command.split!r}.")
    for option, number, least in (("draws", command.draws, 1), ("rows", command.rows, 1), ("seed", command.seed, 0)):
        if number is not None and number < least:
            raise InputError(f"{option} must be at least {least}, not {number}.")
    dataset = data.load(name)
    queries = command.queries or ("everything" if isinstance(model, GridMRF) else "uniform")
    found = evaluate(model, dataset, command.split, queries, command.layers, command.seed, command.draws, command.rows)
    over = "samples" if command.draws == 1 else "draws"
    print(f"{command.model} on {name} ({dataset.source}), {command.split}, {found.count} samples, queries {queries}")
    bits = f"{found.mean * BITS:.4f} ± {found.error * BITS:.4f} bits"
    print(f"NCE {bits}, {found.mean:.4f} ± {found.error:.4f} nats (± over {over})")
    if isinstance(model, GridMRF) and queries == "everything":
        grid = evaluate_grid(model, dataset, command.split, command.layers, command.rows)
        print(f"IoU {grid.iou.mean:.2f} ± {grid.iou.error:.2f} %")
        framed = f"IoU {grid.iou_framed.mean:.2f} ± {grid.iou_framed.error:.2f} %"
        framed += f", NCE {grid.nce_framed.mean:.4f} ± {grid.nce_framed.error:.4f} nats"
        print(f"with the frame forced to OUT, as the authors count: {framed}")
    return 0


if __name__ == "__main__":
    guarded(main)
