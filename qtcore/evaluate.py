"""Score a saved model on its dataset.

    python -m qtcore.evaluate rbm/adult                            a shipped model, by its name
    python -m qtcore.evaluate runs/d/best.safetensors --draws 5    a file; queries drawn five times
    python -m qtcore.evaluate grbm/frey --queries patches:5 --draws 20
    python -m qtcore.evaluate grid/border --layers 30
    python -m qtcore.evaluate grid/border --layers 1-60 --plot depth.png    the score over the depth
    python -m qtcore.evaluate rbm-pcd/adult --engine gibbs --rows 500
    python -m qtcore.evaluate grbm/frey --calibration    how often what is claimed is so
    python -m qtcore.evaluate rbm/adult --joint --rows 500    −log p of whole rows, by the chain rule
    python -m qtcore.evaluate grbm/frey --joint --queries halves --block 3x3 --rows 20

Prints the normalised cross-entropy (NCE) in bits and nats, for a grid also the intersection over union (IoU), with standard
errors over samples (one draw) or over draws. With --calibration also a table: in each tenth of [0, 1] the mean probability that
the model claims, and how often what it is about is so (of real variables: how often the truth lies in the central 50, 80 and
95 % of its marginal), and the mean distance of the two, the expected calibration error.

With --joint it prints −log p of all targets jointly, in nats per row, and its spread over orders of the chain rule, which is 0
where marginals are consistent; without --queries, nothing is observed.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from qtcore import data
from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.inference.engine import named
from qtcore.learn.run import device
from qtcore.metrics import BITS
from qtcore.models.base import Model
from qtcore.models.files import load
from qtcore.paper.plots import plot_depths
from qtcore.paper.scoring import DepthScore, calibration, evaluate, evaluate_grid, evaluate_joint, over_depth
from qtcore.support.cli import arguments, guarded
from qtcore.support.extras import needs
from qtcore.support.ranges import parse_block, parse_range


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
    """uniform[:p], cardinality, patches[:size[xcount]], halves, one-target, everything, or a mixture such as
    2*uniform+patches; by default uniform, for a grid everything."""
    engine: str | None = None
    """How marginals are computed: bp, mean-field, reweighted, gibbs, or exact (small models); by default as the model was
    trained."""
    layers: str | None = None
    """Layers of belief propagation (sweeps of gibbs); by default the engine's own number. A range such as 1-60 scores every
    layer of it."""
    plot: Path | None = None
    """With a range of layers: a picture of the scores, PNG."""
    calibration: bool = False
    """Also compare what is claimed with what is so."""
    seed: int = 0
    """Seed of the queries."""
    draws: int = 1
    """Number of queries drawn for every sample."""
    rows: int | None = None
    """Use only the first rows."""
    joint: bool = False
    """Score the targets of a row jointly, by the chain rule."""
    order: str = "random"
    """With --joint: random (another one for each row), forward or outwards."""
    orders: int = 2
    """With --joint: in how many such orders."""
    block: str = "1"
    """With --joint: what is scored at a time, a number of variables or a patch such as 3x3."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first one available."""


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.evaluate", description=__doc__)
    if command.plot is not None:
        needs("bench", "matplotlib")
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
    if not command.joint and (command.order, command.orders, command.block) != ("random", 2, "1"):
        raise InputError("--order, --orders and --block go with --joint.")
    if command.joint:
        return _evaluate_joint(command, model, name, engine)
    dataset = data.load(name)
    labelled = model.variables.kind == "label"
    queries = command.queries or ("everything" if labelled else "uniform")
    layers = None if command.layers is None else parse_range(command.layers, smallest=0)
    if command.layers is not None and layers is None:
        raise InputError(f"layers must be a number such as 15 or a range such as 1-60, not {command.layers!r}.")
    if command.plot is not None and "-" not in (command.layers or ""):
        raise InputError("plot goes with a range of layers, such as --layers 1-60.")
    if command.calibration and "-" in (command.layers or ""):
        raise InputError("calibration goes with one number of layers, not with a range.")
    if layers is not None and "-" in str(command.layers):
        depths = range(layers[0], layers[1] + 1)
        scores = over_depth(model, dataset, command.split, queries, depths, command.seed, command.rows, engine)
        _print_depths(command, name, dataset.source, queries, scores)
        return 0
    choices = {"rows": command.rows, "layers": layers and layers[0], "engine": engine}
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
    if command.calibration:
        result = calibration(model, dataset, command.split, queries, command.seed, **choices)  # type: ignore[arg-type]
        print("claimed      so   count")
        for claimed, true, count in zip(result.claimed, result.true, result.count, strict=True):
            print(f"{claimed:7.3f} {true:7.3f} {count:7d}")
        print(f"expected calibration error {result.error:.4f}")
    return 0


def _evaluate_joint(command: Command, model: Model, name: str, engine: Engine | None) -> int:
    if command.plot is not None or command.draws != 1 or command.calibration:
        raise InputError("--plot, --draws and --calibration do not go with --joint.")
    if command.orders < 1:
        raise InputError(f"orders must be at least 1, not {command.orders}.")
    layers = None if command.layers is None else parse_range(command.layers, smallest=0)
    if command.layers is not None and (layers is None or layers[0] != layers[1]):
        raise InputError(f"with --joint, layers must be a number such as 15, not {command.layers!r}.")
    block, dataset, start = parse_block(command.block), data.load(name), time.perf_counter()
    engine = (engine or model.engine).at(layers and layers[0])
    orders: Any = [command.order] * command.orders
    joint = evaluate_joint(model, dataset, command.split, command.queries, command.seed, command.rows, orders, block, engine)
    nothing = "all readings observed" if model.variables.kind == "label" else "nothing observed"
    known = f"queries {command.queries}" if command.queries else nothing
    print(f"{command.model} on {name} ({dataset.source}), {command.split}, {joint.nll.count} rows, {known}")
    print(f"block {command.block}, {command.orders} × order {command.order}, {time.perf_counter() - start:.1f} s")
    print(f"−log p {joint.nll.mean:.2f} ± {joint.nll.error:.2f} nats a row; mixture of the orders {joint.mixture.mean:.2f}")
    if command.orders > 1:
        print(f"spread over orders {joint.spread.mean:.2f} nats")
    return 0


def _print_depths(command: Command, name: str, source: str, queries: str, scores: list[DepthScore]) -> None:
    count = scores[0].nce.count
    print(f"{command.model} on {name} ({source}), {command.split}, {count} samples, queries {queries}, layer by layer")
    print(f"layer  NCE/bits  NCE/nats{'  IoU/%' if scores[0].iou else ''}  residual  at rest")
    for score in scores:
        overlap = f"{score.iou.mean:7.2f}" if score.iou else ""
        nats = f"{score.nce.mean * BITS:8.4f}  {score.nce.mean:8.4f}"
        print(f"{score.layer:5d}  {nats}{overlap}  {score.residual:8.2g}  {100 * score.at_rest:5.0f} %")
    if command.plot is not None:
        plot_depths(scores, f"{command.model}, {command.split} set", command.plot)
        print(f"The picture is {command.plot}.")


if __name__ == "__main__":
    guarded(main)
