"""Ask a model: fill in what is missing in a table or an image, or compute the marginals of a graph.

    python -m qtcore.infer rbm/adult rows.csv                      marginals of the blanks, in rows.marginals.csv
    python -m qtcore.infer runs/d/best.safetensors rows.csv --out answers.csv
    python -m qtcore.infer grbm/frey face.png --mask mask.png      mean.png and deviation.png, in face.marginals/
    python -m qtcore.infer grid/border contour.png --out answer    labels.png and p_contour.png, p_out.png, p_in.png
    python -m qtcore.infer rbm/adult rows.csv --samples 5          five completions of each row, in rows.samples.csv
    python -m qtcore.infer rbm/adult rows.csv --next "age 17-25"   which blank would tell most about that variable
    python -m qtcore.infer grbm/frey face.png --mask mask.png --samples 6    six completions, in face.samples.png
    python -m qtcore.infer runs/people/best.safetensors questions.csv        a model that was trained on your table
    python -m qtcore.infer graph.uai --evidence graph.uai.evid     marginals of all variables, in graph.MAR
    python -m qtcore.infer graph.bif --next rain                   which variable would tell most about that one

A table is a CSV file in UTF-8, one variable per column, with or without a line of names. Columns below the names of the
model's variables may stand in any order; of a model without names, they stand in its own. A blank (nothing, ?, NA or NaN) is
unknown. Binary variables are 0, 1 or in between (a soft reading), categorical ones whole numbers from 0. The answer has one
line per blank: its row and variable, then `probability` (of a 1), `mean` and `deviation` (in the standardised units that
the model was trained in), or one probability per state. With --samples, every row is completed so many times; with --joint,
the answer is the log-probability of what is known in a row (in nats, with its spread over orders of the chain rule); with
--next, the information (in bits) about a variable that each other blank is expected to give.

A model that was trained on a table (python -m qtcore.train table people.csv) reads its columns by name, in any order, with
their levels and numbers; those that are missing are unknown. Its answer has one line per gap and level: row, column, level
and probability, of numbers also mean, median and the 10 % and 90 % quantiles.

Of an image, --samples writes completions side by side (of a contour: labellings), and --joint prints the log-density of what is
known of a face. Of a graph, --samples writes joint states (graph.samples.csv), --joint prints the log-probability of the
evidence, and --next writes what each unobserved variable would tell about one of them (graph.next.csv).

In a mask, white pixels are known and black ones hidden (the threshold is half way). A face needs one. Its answer is in grey
levels; in deviation.png, white is a standard deviation of 64 levels or more. A contour image is bright on dark, of any size;
its mask is optional, and hidden pixels give no evidence. In labels.png contours are red, insides blue, outsides yellow.

A graph is a file of the UAI format (MARKOV or BAYES), or a directed network in BIF (.bif) or XMLBIF (.xml), whose variables
and states are numbered in the order of the file; evidence may name them. The answer is a MAR file, or with --out graph.PR
log10 of the partition function, exactly. The engine bp (the default) goes on until no message changes by more than 1e-4
(--until), but for at most 1000 layers, in the order of a --schedule; mean-field likewise, for tables without zeros; reweighted
too, for factors of two variables at most, with the weights of spanning trees, or those that a model has learned; exact
eliminates variables, which needs a graph of moderate width; join-graph is bp between clusters of variables; auto is exact where
that is possible, join-graph for 40 seconds at most elsewhere, and damped bp on very large graphs. With --reference, a MAR
file, the distance from its marginals is printed. For a folder of graphs with evidence and references (name.uai,
name.uai.evid, name.uai.MAR), a table of these distances is printed.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from qtcore.errors import InputError
from qtcore.inference import Engine
from qtcore.inference.engine import named
from qtcore.io import graphs, images, named_tables
from qtcore.io.joint_tables import ORDERS, graph_joint, graph_next, graph_samples, joint_table, next_table, sample_table
from qtcore.io.tables import Table, infer_table, table_for
from qtcore.learn.run import device
from qtcore.models import uai
from qtcore.models.base import Model
from qtcore.models.builders import FILES
from qtcore.models.factor_graph import FactorGraph
from qtcore.models.files import load
from qtcore.models.table_model import TableModel
from qtcore.query import Query
from qtcore.support.cli import arguments, guarded
from qtcore.support.files import write_atomically

JOINT = ("samples", "joint", "next")
"""Joint questions, in the place of marginals."""
BLOCK = 9
"""Pixels of an image that are drawn at a time, far apart."""


@dataclass(frozen=True)
class Command:
    """What to ask, and whom."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Name of a shipped model, or a file; or a graph (.uai, .bif, .xml), or a folder of graphs."""
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None
    """A table (CSV) with blanks, or an image; none for a graph."""
    mask: Path | None = None
    """An image of the same size: white is known, black is hidden."""
    out: Path | None = None
    """File (of a table) or folder (of an image) for the answer; by default next to FILE."""
    fit: bool = False
    """Faces: crop and scale the image and its mask to the size that the model expects."""
    engine: str | None = None
    """How marginals are computed: bp, mean-field, reweighted, gibbs, or exact (small models), for a graph also auto; by
    default as the model was trained."""
    layers: int | None = None
    """Layers of belief propagation (sweeps of gibbs); by default the engine's own number."""
    evidence: Path | None = None
    """Graphs: the observed variables and their states (.evid)."""
    until: float | None = None
    """Graphs: stop when no message changes by more than this."""
    damping: float | None = None
    """Graphs: weight of the old message in the new one, from 0 to below 1."""
    schedule: str | None = None
    """Graphs: flooding (all messages at once), sequential (one factor after the other), random (the same, in another order in
    each layer) or residual (the largest changes)."""
    reference: Path | None = None
    """Graphs: a MAR file to compare with."""
    samples: int | None = None
    """So many completions of every row, image or graph, drawn jointly, in the place of marginals."""
    joint: bool = False
    """The joint log-probability of what is known (in every row), in the place of marginals."""
    next: str | None = None
    """What each blank (of a graph: each unobserved variable) would tell about this variable, in bits."""
    device: str = "auto"
    """cuda, mps or cpu; auto takes the first of these that is there."""

    @property
    def kind(self) -> str:
        """What is asked: marginals, or one of `JOINT`."""
        return next((kind for kind in JOINT if getattr(self, kind) not in (None, False)), "marginals")


def ask_graph(command: Command) -> None:
    """Marginals, or the partition function, of a graph in a file."""
    if command.file is not None or command.mask is not None or command.fit:
        raise InputError("a graph is asked by itself; what is observed is given with --evidence.")
    out = command.out or Path(command.model).with_suffix(".MAR" if command.kind == "marginals" else f".{command.kind}.csv")
    _spare(command, out)
    name = command.engine or "bp"
    if command.kind != "marginals":
        if name == "auto" or command.reference is not None:
            raise InputError(f"--engine auto and --reference go with marginals; with --{command.kind} give bp or exact.")
        if command.kind == "joint" and command.out is not None:
            raise InputError("of a graph, --joint prints a single number; leave --out away.")
    engine = None if name == "auto" else graphs.choose(name, command.layers, command.until, command.damping, command.schedule)
    model = FactorGraph.from_file(command.model, device=device(command.device))
    known = (
        {} if command.evidence is None else uai.read_evidence(command.evidence, model.n_states, model.names, model.state_names)
    )
    reference = None if command.reference is None else uai.read_marginals(command.reference, model.n_states)
    query = model.query(known)
    if command.kind != "marginals":
        print(_answer_graph(model, query, command, out, engine))
        return
    if out.suffix.upper() == ".PR":
        log_z = graphs.log_z(model, query)
        uai.write_partition(out, log_z)
        print(f"log10 of the partition function is {log_z / math.log(10):.6g}; it is in {out}.")
        return
    answer = graphs.ask_auto(model, query) if engine is None else graphs.ask(model, query, engine)
    uai.write_marginals(out, answer.marginals)
    print(f"{answer.told()}; the marginals of {len(model.n_states)} variables are in {out}.")
    if reference is not None:
        print(f"beside {command.reference}: {graphs.compare(answer.marginals, reference, set(known)).told()}.")
    if not answer.converged:
        print(f"warning: {answer.advice()}", file=sys.stderr)


def _answer_graph(model: FactorGraph, query: Query, command: Command, out: Path, engine: Engine | None) -> str:
    """The answer to a joint question about a graph, in a sentence."""
    generator = torch.Generator().manual_seed(0)
    if command.samples:
        n = command.samples
        write_atomically(out, lambda path: graph_samples(model, query, path, n, generator, engine))
        return f"{n} joint states are in {out}."
    if command.next is not None:
        about = command.next
        write_atomically(out, lambda path: graph_next(model, query, path, about, engine))
        return f"what the other variables would tell about {about} is in {out}."
    mean, spread = graph_joint(model, query, generator, engine)
    return f"the log-probability of the evidence is {_nats(mean, spread)}"


def _nats(mean: float, spread: float) -> str:
    if mean == -math.inf:
        return "-inf: it is impossible."
    return f"{mean:.7g} nats (± {spread:.3g}, the spread over {ORDERS} random orders)."


def ask_table(model: Model, command: Command, engine: Engine | None) -> str:
    assert command.file is not None
    if images.is_image(command.file):
        raise InputError(f"{command.model} answers tables (CSV), not images such as {command.file}.")
    if command.mask is not None or command.fit:
        raise InputError("--mask and --fit go with an image; in a table, blanks say what is unknown.")
    out = command.out or command.file.with_name(f"{command.file.stem}.{command.kind}.csv")
    _spare(command, out)
    told: list[str] = []
    if isinstance(model, TableModel):
        rows = named_tables.read(model, command.file)
        for note in rows.notes:
            print(f"note: {note}", file=sys.stderr)
        engine = (engine or model.engine).at(command.layers)
        asked = command.samples, command.joint, command.next
        write_atomically(out, lambda path: told.append(named_tables.answer(model, rows, path, *asked, engine)))
        return f"{told[0]} in {out}."
    table = table_for(model, command.file)
    write_atomically(out, lambda temporary: told.append(_answer_table(model, table, temporary, command, engine)))
    if table.labelled:
        print("note: the model has no names for its variables; the columns were taken in its own order.", file=sys.stderr)
    return f"{told[0]} in {out}."


def _answer_table(model: Model, table: Table, out: Path, command: Command, engine: Engine | None) -> str:
    """Write the answer; the beginning of a sentence about it."""
    if command.kind == "marginals":
        rows, blanks = infer_table(model, table, out, command.layers, engine)
        return f"{blanks} blanks in {rows} rows; their marginals are"
    engine = (engine or model.engine).at(command.layers)
    generator = torch.Generator().manual_seed(0)
    if command.samples:
        rows = sample_table(model, table, out, command.samples, generator=generator, engine=engine)
        return f"{command.samples} samples of each of {rows} rows are"
    if command.joint:
        return f"the log-probabilities of {joint_table(model, table, out, generator, engine)} rows are"
    assert command.next is not None
    return f"what the blanks of {next_table(model, table, out, command.next, engine)} rows would tell about {command.next} is"


def ask_image(model: Model, command: Command, engine: Engine | None) -> str:
    assert command.file is not None
    if model.variables.kind == "real":
        shape = images.face_shape(model)
        if command.mask is None:
            raise InputError("a face needs --mask, an image that is white where the face is known and black elsewhere.")
        known = images.read_mask(command.mask, shape, command.fit)
        grey = images.read_grey(command.file, shape, command.fit)
        pictures = images.face_pictures(images.face_marginals(model, grey, known, command.layers, engine))
    else:
        if command.fit:
            raise InputError("--fit is for faces; a contour image may have any size.")
        grey = images.read_grey(command.file)
        if (grey > images.ON).mean() > 0.5:
            print("note: most pixels are on; a contour should be bright on dark.", file=sys.stderr)
        mask = None if command.mask is None else images.read_mask(command.mask, (grey.shape[0], grey.shape[1]))
        pictures = images.grid_pictures(images.grid_marginals(model, grey, mask, command.layers, engine))
    out = command.out or command.file.with_name(f"{command.file.stem}.marginals")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give a folder for the images.")
    for name in pictures:
        _spare(command, out / f"{name}.png")
    for name, picture in pictures.items():
        images.write_png(out / f"{name}.png", picture)
    return f"{', '.join(f'{name}.png' for name in pictures)} are in {out}."


def ask_image_jointly(model: Model, command: Command, engine: Engine | None) -> str:
    """Completions of an image, or the log-density of what is known of a face."""
    assert command.file is not None
    if command.kind == "next":
        raise InputError("--next names a variable of a table or of a graph; pixels have no names.")
    if command.kind == "joint" and model.variables.kind == "label":
        raise InputError("--joint gives the probability of what is known, and of an image no label is known.")
    query = images.image_query(model, command.file, command.mask, command.fit).to(model.device)
    engine, generator = (engine or model.engine).at(command.layers), torch.Generator().manual_seed(0)
    if command.kind == "joint":
        if command.out is not None:
            raise InputError("of an image, --joint prints a single number; leave --out away.")
        known = query.observed == 1
        if not bool(known.any()):
            raise InputError("nothing is known of this face, so there is nothing to give the probability of.")
        asked = Query(query.values, torch.zeros_like(known), known)
        answer = model.log_prob(asked, ORDERS, BLOCK, generator, engine)
        return f"the log-density of {int(known.sum())} known pixels is {_nats(float(answer.mean), float(answer.spread))}"
    assert command.samples is not None
    out = command.out or command.file.with_name(f"{command.file.stem}.samples.png")
    if out.suffix.lower() != ".png":
        raise InputError(f"{out} must end in .png: samples of an image are written side by side.")
    _spare(command, out)
    images.write_sheet(out, model, model.sample(query, command.samples, "random", BLOCK, generator, engine).cpu())
    return f"{command.samples} samples are in {out}."


def _spare(command: Command, out: Path) -> None:
    """Refuse to write over what was read, or over a folder."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; give a file for the answer.")
    for path in (command.file, command.mask, Path(command.model), command.evidence, command.reference):
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"{out} is also read; give another place for the answer with --out.")


def main() -> int:
    command = arguments(Command, prog="python -m qtcore.infer", description=__doc__)
    asked = [f"--{kind}" for kind in JOINT if getattr(command, kind) not in (None, False)]
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)} are answers of their own; give one of them.")
    if command.samples is not None and command.samples < 1:
        raise InputError(f"--samples must be at least 1, not {command.samples}.")
    if Path(command.model).is_dir():
        if asked:
            raise InputError(f"{asked[0]} goes with a single graph, not with a folder of them.")
        for line in graphs.table(Path(command.model)):
            print(line, flush=True)
        return 0
    if command.model.lower().endswith(FILES):
        ask_graph(command)
        return 0
    for option in ("evidence", "until", "damping", "schedule", "reference"):
        if getattr(command, option) is not None:
            raise InputError(f"--{option} goes with a graph ({', '.join(FILES)}), not with the model {command.model}.")
    if command.file is None:
        raise InputError(f"give a table or an image to ask {command.model} about.")
    model = load(command.model, device(command.device))
    if not command.file.exists() or command.file.is_dir():
        raise InputError(
            f"{command.file} {'is a folder' if command.file.is_dir() else 'does not exist'}; give a table or an image."
        )
    engine = None if command.engine is None else named(command.engine)
    kind = model.variables.kind
    if kind == "label" or (kind == "real" and images.is_image(command.file)):
        print((ask_image if command.kind == "marginals" else ask_image_jointly)(model, command, engine))
    else:
        print(ask_table(model, command, engine))
    return 0


if __name__ == "__main__":
    guarded(main)
