"""Score a saved model on its dataset.

    python -m qtcore.evaluate rbm/adult                            a shipped model, by its name
    python -m qtcore.evaluate runs/d/best.safetensors --draws 5    a file; queries drawn five times
    python -m qtcore.evaluate grbm/frey --queries patches:5 --draws 20
    python -m qtcore.evaluate grid/border --layers 30
    python -m qtcore.evaluate rbm-pcd/adult --engine gibbs --rows 500

Prints the normalised cross-entropy (NCE) in bits and nats, for a grid also the intersection over union (IoU), with standard
errors over samples (one draw) or over draws.
"""

from dataclasses import dataclass
from typing import Annotated

import tyro

from qtcore import data
from qtcore.errors import InputError
from qtcore.inference.engine import named
from qtcore.learn.run import device
from qtcore.metrics import BITS
from qtcore.models.files import load
from qtcore.paper.scoring import evaluate, evaluate_grid
from qtcore.support.cli import arguments, guarded


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
    engine: str | None = None
    """How marginals are computed: bp, gibbs, or exact (small models); by default as the model was trained."""
    layers: int | None = None
    """Layers of belief propagation (sweeps of gibbs); by default the engine's own number."""
    seed: int = 0
    """Seed of the queries."""
    draws: int = 1
    """Number of queries drawn for every sample."""
    rows: int | None = None
    """Use only the first rows."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first one available."""


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.evaluate", description=__doc__)
    model = load(command.model, device(command.device))
    name = command.data or model.provenance.dataset
    if name is None:
        raise InputError("the model does not say what it was trained on; name a dataset with --data.")
    if command.split not in ("train", "valid", "test"):
        raise InputError(f"split must be train, valid or test, not {command.split!r}.")
    for option, number, least in (("draws", command.draws, 1), ("rows", command.rows, 1), ("seed", command.seed, 0)):
        if number is not None and number < least:
            raise InputError(f"{option} must be at least {least}, not {number}.")
    engine = None if command.engine is None else named(command.engine)
    dataset = data.load(name)
    labelled = model.variables.kind == "label"
    queries = command.queries or ("everything" if labelled else "uniform")
    choices = {"rows": command.rows, "layers": command.layers, "engine": engine}
    score = evaluate(model, dataset, command.split, queries, command.seed, command.draws, **choices)  # type: ignore[arg-type]
    over = "samples" if command.draws == 1 else "draws"
    print(f"{command.model} on {name} ({dataset.source}), {command.split}, {score.count} samples, queries {queries}")
    bits = score.times(BITS)
    print(f"NCE {bits.mean:.4f} ± {bits.error:.4f} bits, {score.mean:.4f} ± {score.error:.4f} nats (± over {over})")
    if labelled and queries == "everything":
        grid = evaluate_grid(model, dataset, command.split, **choices)  # type: ignore[arg-type]
        print(f"IoU {grid.iou.mean:.2f} ± {grid.iou.error:.2f} %")
        framed = f"IoU {grid.iou_framed.mean:.2f} ± {grid.iou_framed.error:.2f} %"
        framed += f", NCE {grid.nce_framed.mean:.4f} ± {grid.nce_framed.error:.4f} nats"
        print(f"with the frame forced to OUT, as the authors count: {framed}")
    return 0


if __name__ == "__main__":
    guarded(main)
