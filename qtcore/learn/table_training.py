"""Training a model of a table's columns: sizes, steps and a held-out part are chosen from the table and the time there is."""

import copy
import hashlib
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.learn.query_training import INITIAL, Progress, chosen, fit, generator
from qtcore.learn.run import CONFIG, STATE, Run, check_config
from qtcore.learn.settings import Settings
from qtcore.models.table_model import TableModel
from qtcore.query import Mask
from qtcore.tabular import Schema, Table

HELD_OUT = 9
"""The purpose of the random numbers that hold rows out, beside those of `query_training`."""
SHARE, LEAST_HELD_OUT, MOST_HELD_OUT = 0.1, 40, 2000
"""The share of the rows that is held out, between so many of them; of a small table never more than a quarter."""
QUERIES = 200
"""Fewer held-out rows are asked about several times, each time with another mask."""
LEAST_ROWS = 10
MAX_LATERAL = 30_000
"""Entries that the tables of all pairs of columns may have together; beyond, columns meet in hidden units alone."""
HIDDEN_UNITS = ((500, 8), (3000, 16), (20_000, 32))
"""Hidden units of tables with fewer rows than that; 48 for larger ones."""
MOST_HIDDEN = 48
LEAST_BATCH, BATCH = 50, 250
MOST_DECAY, DECAY_ROWS = 0.1, 30
"""Weights decay in proportion to 1/rows: small tables would be learned by heart."""
PASSES, LEAST_STEPS = 300, 1000
"""Passes through the rows at most, of a small table so many steps; early stopping ends most trainings before."""
VALIDATIONS, PATIENCE = 40, 15
LEAST_BETWEEN = 5
"""Steps between validations."""
TRIED = 4
"""Steps that are timed, after a first one."""
USED = 0.85
"""The share of the time that is planned for steps; the rest is for validation."""


@dataclass(frozen=True)
class Plan:
    """What is trained, and how: all that a run needs to be continued."""

    n_hidden: int
    lateral: bool
    n_layers: int
    settings: Settings

    @classmethod
    def of(cls, table: Table, n_hidden: int | None = None, lateral: bool | None = None, n_layers: int = 4) -> "Plan":
        """Sizes from the number of rows and levels; a batch, but no number of steps yet."""
        sizes = [column.n_states for column in table.schema.used]
        entries = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
        rows = len(table)
        hidden = next((units for fewer, units in HIDDEN_UNITS if rows < fewer), MOST_HIDDEN)
        settings = Settings(
            steps=1,
            batch=min(BATCH, max(LEAST_BATCH, rows // 5)),
            learning_rate=0.05,
            schedule="cosine",
            decay_from=0.3,
            averaging=0.99,
            weight_decay=min(MOST_DECAY, DECAY_ROWS / rows),
            patience=PATIENCE,
        )
        return cls(
            hidden if n_hidden is None else n_hidden, entries <= MAX_LATERAL if lateral is None else lateral, n_layers, settings
        )

    def model(self, table: Table, values: Tensor) -> TableModel:
        """The model before training: columns as frequent as in the rows [n, V], and hidden units from the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator(self.settings.seed, INITIAL).initial_seed())
            model = TableModel(table.schema, self.n_hidden, self.lateral, self.n_layers)
        model.start_from(values)
        return model

    def timed(self, model: TableModel, values: Tensor, minutes: float, given: dict[str, Any]) -> "Plan":
        """With as many steps as the time allows, and with settings as given."""
        settings = replace(self.settings, **chosen(given))
        if not {"steps", "epochs"} & given.keys():
            pace = _pace(copy.deepcopy(model), values, settings)
            most = max(LEAST_STEPS, PASSES * len(values) // settings.batch)
            settings = replace(settings, steps=max(10, min(most, int(60 * minutes * USED / pace))), seconds=60 * minutes)
        steps = settings.total_steps(len(values))
        if "validate_every" not in given:
            settings = replace(settings, validate_every=max(LEAST_BETWEEN, steps // VALIDATIONS))
        return replace(self, settings=settings)


def fit_table(
    table: Any,
    minutes: float = 1.0,
    schema: "Schema | dict[str, Any] | None" = None,
    n_hidden: int | None = None,
    lateral: bool | None = None,
    queries: Mask | None = None,
    folder: "str | Path | None" = None,
    resume: bool = False,
    callback: Callable[[Progress], "bool | None"] | None = None,
    **settings: Any,
) -> TableModel:
    """Query-train a model of a table's columns and return it, with its best weights on rows that are held out.

    Gaps are neither observed nor targets. Any share of a row's known cells is evidence in training, so that any may be later.

    Args:
        table: a `qtcore.Table`, or what it takes.
        minutes: about how long to train; small tables are done earlier.
        schema: what columns are, if `table` is no Table yet.
        n_hidden: hidden units; by default by the number of rows.
        lateral: whether each pair of columns has a table of its own; by default if these are not too large.
        queries: a distribution of masks, by default any number of observed cells; see `qtcore.query.gaps`.
        folder: for the state, the log and the best model, so that the run can be continued with `resume`.
        callback: called after every step with the step, the number of steps and the validation NCE in bits; return True to
            stop. The best weights so far are kept.
        settings: settings of `qtcore.fit` in the place of those that are chosen, such as `steps=500` or `seed=1`.

    Example:
        >>> import qtcore
        >>> rows = {"sky": ["grey", "blue", None] * 30, "lawn": ["wet", "dry", "wet"] * 30}
        >>> model = qtcore.fit_table(rows, steps=50)
        >>> model.ask({"sky": "grey"}, about="lawn")["lawn"].best
        ['wet']
    """
    if not isinstance(minutes, int | float) or not 0 < minutes < 1e6:
        raise InputError(f"minutes must be a number above 0, not {minutes!r}.")
    if schema is not None or not isinstance(table, Table):
        table = Table(table, schema)
    train, valid = split(table, settings.get("seed", 0))
    folder = None if folder is None else Path(folder)
    plan = None if folder is None or not resume else _stored(folder)
    if folder is not None:
        Run.check(folder, resume)
    if plan is None:
        plan = Plan.of(table, n_hidden, lateral)
        model = plan.model(table, train)
        plan = plan.timed(model, train, minutes, settings)
    model = plan.model(table, train)
    config = _config(table, plan)
    if folder is not None:
        check_config(folder, config, resume)
    model.provenance.method, model.provenance.seed = "qt", plan.settings.seed
    model.provenance.settings, model.provenance.other = asdict(plan.settings), {"rows": len(table)}
    best = _Best(callback)
    start = time.monotonic()
    valid = valid.repeat(-(-QUERIES // len(valid)), 1)
    fit(model, train, valid, queries, plan.settings, folder, resume, best, config)
    best.restore(model)
    model.provenance.minutes = round((time.monotonic() - start) / 60, 2)
    return model


def split(table: Table, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows for training and held-out ones [n, V], in a random order; those that are all gaps left out.

    Raise an InputError if there are too few.
    """
    if not table.schema.used:
        raise InputError("no column of this table can be used; see qtcore.describe(table).")
    values = table.values[~table.values.isnan().all(1)]
    if len(values) < LEAST_ROWS:
        raise InputError(f"the table has {len(values)} rows with values, but it takes {LEAST_ROWS} to learn from.")
    order, count = _order(len(values), seed)
    return values[order[count:]], values[order[:count]]


def held_out(table: Table, seed: int = 0) -> list[int]:
    """The numbers of the rows that a training with this seed holds out, from 0."""
    known = (~table.values.isnan().all(1)).nonzero()[:, 0]
    order, count = _order(len(known), seed)
    return sorted(known[order[:count]].tolist())


def _order(count: int, seed: int) -> tuple[Tensor, int]:
    """A random order of so many rows, and how many of them, the first ones, are held out."""
    order = torch.randperm(count, generator=generator(seed, HELD_OUT))
    return order, min(MOST_HELD_OUT, max(2, round(SHARE * count), min(LEAST_HELD_OUT, count // 4)))


class _Best:
    """Calls the callback, and keeps the best weights: one that stops a training leaves those of the last step."""

    def __init__(self, callback: Callable[[Progress], "bool | None"] | None) -> None:
        self.callback = callback
        self.score: float | None = None
        self.tensors: dict[str, Tensor] = {}

    def __call__(self, progress: Progress) -> bool:
        if progress.best is not None and progress.best == progress.valid != self.score:
            self.score = progress.best
            self.tensors = {name: tensor.detach().clone() for name, tensor in progress.model.state_dict().items()}
        return self.callback is not None and bool(self.callback(progress))

    def restore(self, model: TableModel) -> None:
        if self.tensors:
            model.load_state_dict(self.tensors)


def _pace(model: TableModel, values: Tensor, settings: Settings) -> float:
    """Seconds of a step when nothing else keeps the machine busy: there will be fewer of them if it does."""
    times: list[float] = []

    def tick(_: Progress) -> None:
        times.append(time.perf_counter())

    fit(model, values, settings=replace(settings, steps=1 + TRIED), callback=tick)
    return min(after - before for before, after in itertools.pairwise(times))


def _config(table: Table, plan: Plan) -> dict[str, Any]:
    """What a run folder says about its run."""
    cells = hashlib.sha256(json.dumps(table.cells).encode()).hexdigest()
    experiment = {"table": {"rows": len(table), "sha256": cells, "schema": table.schema.as_list()}} | asdict(plan)
    return {"experiment": experiment, "versions": {"torch": torch.__version__}}


def _stored(folder: Path) -> Plan | None:
    """The plan of a run that was begun in this folder."""
    if not (folder / STATE).exists() or not (folder / CONFIG).exists():
        return None
    try:
        stored = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["experiment"]
        settings = Settings(**stored["settings"])
        return Plan(stored["n_hidden"], stored["lateral"], stored["n_layers"], settings)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder / CONFIG} is not the configuration of a run on a table; give another folder.") from error
