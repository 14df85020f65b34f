"""Query training: stochastic gradient descent on the cross-entropy of the marginals, over data and over queries.

L(θ, T) = E_{v,q}[CE_q(v, v̂)] (main text, "Training the Inference Network"). One loop serves the command line, notebooks
and the app. All random numbers of step k are drawn from a generator seeded by (seed, k), so that a resumed run repeats
exactly what an uninterrupted one does, and all processes of a distributed run agree without communication.
"""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from qtcore.errors import InputError, ModelFileError, NotFiniteError, nearest, out_of_memory
from qtcore.inference import Engine
from qtcore.learn.coordinates import Coordinates
from qtcore.learn.rows import Data, Rows, check_rows, first_rows, pair
from qtcore.learn.run import Run
from qtcore.learn.settings import Settings
from qtcore.metrics import BITS, nll, score
from qtcore.models.base import Model
from qtcore.query import Mask, Query

KEPT_BYTES = 2**31
"""A minibatch is split into chunks that keep at most this much for their backward pass."""

LOOKS = 20
"""How often in the time that a training has it looks whether that suffices."""

MAX_DRAWS = 100
"""A small minibatch may have no target by chance: its queries are redrawn, at most this often."""


@dataclass(frozen=True)
class Progress:
    """Passed to the callback after every step."""

    step: int
    steps: int
    loss: float
    """Nats per target on this minibatch."""
    valid: float | None
    """The latest validation NCE in bits, if any."""
    best: float | None
    model: Model
    settings: Settings


def generator(*key: int) -> torch.Generator:
    """A generator for one purpose and one step; the key is hashed, since only 32 bits of a torch seed matter."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(key).generate_state(1)[0]))


SAVE_SECONDS = 30.0
"""A state is saved at least as often, whatever `save_every` is: a few large steps take as long as many small ones."""
INITIAL, ORDER, QUERIES, VALID, DEPTH = range(5)  # purposes of random numbers


def main_process() -> bool:
    """Whether this process writes the files: rank 0, or the only process."""
    return not dist.is_initialized() or dist.get_rank() == 0


class _Loss(nn.Module):
    """Summed cross-entropy of a chunk, as a module of its own so that DistributedDataParallel can wrap it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, query: Query | None, engine: Engine | None = None, depths: Sequence[int] = ()) -> Tensor:
        if query is None or engine is None:  # adds nothing to the gradients, but makes DistributedDataParallel reduce them
            return torch.stack([parameter.sum() * 0 for parameter in self.model.parameters() if parameter.requires_grad]).sum()
        if not depths:
            return self.model.nll(query, engine=engine)[0].sum()
        self.model.check(query)
        target = self.model.check_truth(query)
        each = engine.run_depths(self.model, query, depths)
        return torch.stack([nll(marginals, query.truth, target).sum() for marginals in each]).mean()


def fit(
    model: Model,
    train: Data,
    valid: Data | None = None,
    queries: Mask | None = None,
    settings: Settings | None = None,
    folder: "str | Path | None" = None,
    resume: bool = False,
    callback: Callable[[Progress], "bool | None"] | None = None,
    config: dict[str, Any] | None = None,
    engine: Engine | None = None,
    **changes: Any,
) -> Model:
    """Query-train a model in place and return it, with its best weights by validation NCE (without `valid`: the last ones).

    Args:
        train: values [n, …], or values and truth.
        valid: the same for validation.
        queries: a distribution of masks; by default the model's own: each variable is a target with probability ½ (a
            GridMRF: everything is observed and every pixel is scored).
        settings: how to train; single settings can also be given by keyword, such as `steps=500` or `learning_rate=0.01`.
        folder: for the state, the log and the best model, so that the run can be continued with `resume`.
        callback: called after every step; return True to stop, which leaves the model with the weights of that step.
        config: content of the folder's config.json.
        engine: how marginals are computed; by default the model's own engine.

    Example:
        >>> import torch, qtcore
        >>> data = (torch.rand(200, 1) < 0.5).float().expand(200, 6).clone()
        >>> model = qtcore.fit(qtcore.RBM(6, 2), data, steps=20, batch=50)
    """
    for name, value, good, expected in (
        ("model", model, isinstance(model, Model), "a model, such as qtcore.RBM(…)"),
        ("queries", queries, queries is None or callable(queries), "a distribution of masks, such as qtcore.query.uniform()"),
        ("settings", settings, settings is None or isinstance(settings, Settings), "a qtcore.learn.settings.Settings"),
        ("folder", folder, folder is None or isinstance(folder, str | os.PathLike), "a path"),
        ("resume", resume, isinstance(resume, bool), "True or False"),
        ("callback", callback, callback is None or callable(callback), "a function of the progress"),
        ("config", config, config is None or isinstance(config, dict), "a dictionary"),
        ("engine", engine, engine is None or isinstance(engine, Engine), "an engine, such as qtcore.BP()"),
    ):
        if not good:
            raise InputError(f"{name} must be {expected}, not {type(value).__name__}.")
    settings = replace(settings or Settings(steps=1000), **chosen(changes))
    engine = engine or model.engine
    if not engine.differentiable:
        raise InputError(f"{type(engine).__name__} has no gradients to train with; give another engine, such as qtcore.BP().")
    if folder is not None:
        model.check_data_format()  # now rather than when the first model is saved
        model.saved_engine()
    engine.prepare(model)
    pairs = pair("train", train), None if valid is None else pair("valid", valid)
    training = _Training(model, *pairs, queries or model.queries(), settings, engine)
    try:
        if folder is not None:
            training.keeper = Run(Path(folder), resume, main_process())
            training.keeper.write_config(config or {"settings": asdict(settings)})
        if resume:
            training.restore()
        return training.run(callback)
    finally:
        if training.keeper is not None:
            training.keeper.close()
        del training.loss  # a traceback would keep it alive, and with it the process group and its threads


def chosen(changes: dict[str, Any]) -> dict[str, Any]:
    """Either steps or epochs: giving one unsets the other; raise an InputError for a setting that there is not."""
    known = [field.name for field in fields(Settings)]
    for name in changes:
        if name not in known:
            raise InputError(f"there is no setting named {name!r}; {nearest(name, known)}")
    if "steps" in changes and "epochs" not in changes:
        return changes | {"epochs": None}
    if "epochs" in changes and "steps" not in changes:
        return changes | {"steps": None}
    return changes


class _Training:
    """One run: the training loop and its state."""

    def __init__(
        self,
        model: Model,
        train: Rows,
        valid: Rows | None,
        queries: Mask,
        settings: Settings,
        engine: Engine,
    ) -> None:
        self.model, self.settings, self.engine = model, settings, engine
        self.train, self.queries = train, queries
        self.valid = None if valid is None else first_rows(valid, settings.valid_rows)
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        check_rows("train", model, train, queries)
        if self.valid is not None:
            check_rows("valid", model, self.valid, queries)
        loss = _Loss(model)
        self.loss: nn.Module = DistributedDataParallel(loss) if self.world > 1 else loss  # broadcasts rank 0's weights
        self.coordinates = Coordinates(model)
        tensors = self.coordinates.tensors
        adam = torch.optim.AdamW if settings.weight_decay else torch.optim.Adam
        self.optimiser = adam(tensors.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
        self.average = {name: tensor.detach().clone() for name, tensor in tensors.items()} if settings.averaging else None
        self.planned = self.steps = settings.total_steps(len(train[0]))
        self.step = 0
        self.seconds = 0.0
        self.best: float | None = None
        self.best_step: int | None = None
        self.best_tensors: dict[str, Tensor] | None = None
        self.last_valid: float | None = None
        self.chunk = self._first_chunk()
        self.keeper: Run | None = None

    # ------------------------------------------------------------------ the loop

    def run(self, callback: Callable[[Progress], "bool | None"] | None) -> Model:
        saved = time.monotonic()
        start, stopped = saved - self.seconds, False
        looked = self.step, self.seconds
        self._check_finite("the parameter", self.coordinates.tensors)
        while self.step < self.steps and not stopped and not self._exhausted():
            loss = self._one_step()
            self.step += 1
            self.seconds = time.monotonic() - start
            self._log_step(loss)
            looked = self._replan(looked)
            if self.valid is not None and (self.step % self.settings.validate_every == 0 or self.step == self.steps):
                self._validate()
            if callback is not None:
                stopped = self._agree(
                    bool(callback(Progress(self.step, self.steps, loss, self.last_valid, self.best, self.model, self.settings)))
                )
            last = self.step == self.steps or stopped or self._exhausted()
            due = self.step % self.settings.save_every == 0 or time.monotonic() >= saved + SAVE_SECONDS
            if self.keeper is not None and (last or due):
                self._save()
                saved = time.monotonic()
        if self.best_tensors is not None and not stopped:
            self.coordinates.push(self.best_tensors)
        else:
            self.coordinates.push(self._kept())
        return self.model

    def _replan(self, looked: tuple[int, float]) -> tuple[int, float]:
        """Every now and then, and before the end: as many more steps as the time allows at the pace since the last look (step,
        seconds), but no more than planned. Returns when the last look was."""
        allowed = self.settings.seconds
        if allowed is None:
            return looked
        seconds = self._over_all(self.seconds) / self.world  # all processes do the same
        if seconds - looked[1] < allowed / LOOKS and self.step < self.steps:
            return looked
        pace = (seconds - looked[1]) / (self.step - looked[0])
        more = int(max(0.0, allowed - seconds) / pace) if pace > 0 else self.planned
        self.steps = min(self.planned, self.step + more)
        return self.step, seconds

    def _exhausted(self) -> bool:
        """Whether the last validations were no better than one before them."""
        patience = self.settings.patience * self.settings.validate_every
        return bool(patience) and self.best_step is not None and self.step >= self.best_step + patience

    def _agree(self, stop: bool) -> bool:
        """Whether any process was asked to stop: then all stop together."""
        return self._over_all(float(stop)) > 0

    def _over_all(self, number: float) -> float:
        """The sum over all processes."""
        if self.world == 1:
            return number
        total = torch.tensor(number, dtype=torch.float64, device=self.model.device)  # NCCL needs it on the GPU
        dist.all_reduce(total)
        return float(total)

    def _one_step(self) -> float:
        settings = self.settings
        for group in self.optimiser.param_groups:
            group["lr"] = settings.rate(self.step, self.steps)
        query = self._minibatch()
        targets = int(self.model.target(query).sum())
        self.coordinates.push()
        total = self._backward(query, targets)
        if not math.isfinite(total):
            self._explain(f"step {self.step + 1}", query, total, self.engine.at(max(self._depths(), default=None)))
        self.coordinates.pull()
        self._check_finite("the gradient of", {name: tensor.grad for name, tensor in self.coordinates.tensors.items()})
        self.optimiser.step()
        self._check_finite("the parameter", self.coordinates.tensors)
        if self.average is not None:
            decay = min(settings.averaging, (1 + self.step) / (10 + self.step))
            for name, tensor in self.coordinates.tensors.items():
                self.average[name].lerp_(tensor.detach(), 1 - decay)
        return total

    def _minibatch(self) -> Query:
        """The whole minibatch of this step, the same in every process."""
        values, truth = self.train
        per_epoch = math.ceil(len(values) / self.settings.batch)
        epoch, position = divmod(self.step, per_epoch)
        order = torch.randperm(len(values), generator=generator(self.settings.seed, ORDER, epoch))
        rows = order[position * self.settings.batch : (position + 1) * self.settings.batch]
        labels = None if truth is None else truth[rows]
        for draw in range(MAX_DRAWS):
            key = (self.settings.seed, QUERIES, self.step, draw)
            query = self.queries(values[rows], generator(*key[: 3 if draw == 0 else 4]), labels)
            if bool(self.model.target(query).any()):
                return query
        raise InputError(f"{MAX_DRAWS} minibatches had no targets; the distribution of queries must ask for something.")

    def _depths(self) -> list[int]:
        """The numbers of layers of this step, in rising order, drawn anew if the settings have a range; the same in every
        process; none for the engine's own (docs/depth.md)."""
        if self.settings.depths is None:
            return []
        least, most = self.settings.depths
        draw = generator(self.settings.seed, DEPTH, self.step)
        return sorted((least + torch.randperm(most - least + 1, generator=draw)[: self.settings.train_depths]).tolist())

    def _backward(self, query: Query, targets: int) -> float:
        """Gradients of the mean loss over all targets of the minibatch, chunk by chunk; returns that mean in nats."""
        while True:
            self.model.zero_grad(set_to_none=True)
            try:
                total = self._accumulate(query, targets)
                break
            except NotFiniteError:  # all processes must learn of it before any of them stops
                total = math.nan
                break
            except (RuntimeError, MemoryError) as error:
                if self.chunk == 1 or not out_of_memory(error):
                    raise
            self.chunk = math.ceil(self.chunk / 2)
        if self.world > 1:  # only here, as processes may differ in their numbers of chunks, or have none
            self.loss(None).backward()
        return self._over_all(total)

    def _accumulate(self, query: Query, targets: int) -> float:
        """This process's share of the loss: every world-th row, in chunks."""
        total = 0.0
        if self.rank >= len(query):
            return total
        query = query[self.rank :: self.world] if self.world > 1 else query
        depths = self._depths()
        for start in range(0, len(query), self.chunk):
            part = query[start : start + self.chunk].to(self.model.device)
            if not bool(self.model.target(part).any()):
                continue
            with nullcontext() if self.world == 1 else self.loss.no_sync():  # type: ignore[operator]
                loss = self.loss(part, self.engine, depths) / targets
                if not loss.requires_grad:  # a grid without layers
                    raise InputError("the answers do not depend on the model's parameters; take at least one layer.")
                (loss * self.world).backward()  # DistributedDataParallel averages over the processes
            total += float(loss.detach())
        return total

    def _first_chunk(self) -> int:
        values = self.train[0]
        _, deepest = self.settings.depths or (None, None)
        per_sample = self.engine.at(deepest).kept_bytes(self.model, tuple(values.shape[1:]))
        return max(1, min(self.settings.batch, KEPT_BYTES // max(1, per_sample)))

    def _check_finite(self, what: str, tensors: Mapping[str, Tensor | None]) -> None:
        for name, tensor in tensors.items():
            if tensor is not None and not bool(tensor.isfinite().all()):
                raise NotFiniteError(f"step {self.step + 1}: {what} {name} is not finite; try a smaller learning rate.")

    @torch.no_grad()
    def _explain(self, when: str, query: Query, loss: float, engine: Engine) -> None:
        """Raise a NotFiniteError that names the first layer and tensor with a number that is not finite."""
        try:
            for start in range(0, len(query), self.chunk):
                for layer in self.model.layers(query[start : start + self.chunk].to(self.model.device), engine=engine):
                    for name, message in layer.messages.items():
                        if bool((message.isnan() | message.isposinf()).any()):
                            raise NotFiniteError(f"the message {name!r} is not finite in layer {layer.index}.")
        except NotFiniteError as error:
            raise NotFiniteError(f"{when}: {error}") from error
        raise NotFiniteError(f"{when}: the loss is {loss}, though all messages are finite; it began in the marginals.")

    # ------------------------------------------------------------------ validation

    def _kept(self) -> dict[str, Tensor]:
        """The coordinates to validate and keep: the averaged ones, or the optimiser's."""
        return self.coordinates.tensors if self.average is None else self.average

    def _validate(self) -> None:
        assert self.valid is not None
        values, truth = self.valid
        self.coordinates.push(self._kept())
        try:
            batch = min(500, self.chunk)
            nats = score(self.model, values, self.queries, generator(VALID), truth, batch=batch, engine=self.engine).mean
        except NotFiniteError:
            nats = math.nan
        if not math.isfinite(nats):
            query = self.queries(values, generator(VALID), truth)
            self._explain(f"validation after step {self.step}", query, nats, self.engine)
        self.last_valid = nats * BITS
        if self.best is None or self.last_valid < self.best:
            self._new_best(self.last_valid, self.step, {name: tensor.detach().clone() for name, tensor in self._kept().items()})
            if self.keeper is not None:
                self.keeper.save_best(self.model)
        if self.keeper is not None:
            self.keeper.log({"step": self.step, "valid": self.last_valid, "best": self.best}, self.seconds)

    def _new_best(self, best: float, step: int, tensors: dict[str, Tensor]) -> None:
        self.best, self.best_step, self.best_tensors = best, step, tensors
        self.model.provenance.valid_nce_bits = best
        self.model.provenance.step = step

    def _log_step(self, loss: float) -> None:
        if self.keeper is not None:
            rate = self.settings.rate(self.step - 1, self.steps)
            self.keeper.log({"step": self.step, "loss": loss, "learning_rate": rate}, self.seconds)

    # ------------------------------------------------------------------ saved states

    def _save(self) -> None:
        assert self.keeper is not None
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.coordinates.tensors.items():
            tensors[f"coordinate.{name}"] = tensor
            for part in ("exp_avg", "exp_avg_sq", "step"):
                tensors[f"{part}.{name}"] = self.optimiser.state[tensor][part]
        for prefix, group in (("average", self.average), ("best", self.best_tensors)):
            tensors |= {f"{prefix}.{name}": tensor for name, tensor in (group or {}).items()}
        numbers = {"step": self.step, "best": self.best, "best_step": self.best_step, "last_valid": self.last_valid}
        self.keeper.save_state(tensors, numbers | {"chunk": self.chunk, "seconds": self.seconds})

    def restore(self) -> None:
        """Continue from the latest saved state, if there is one."""
        if self.keeper is None:
            return
        saved = self.keeper.load_state()
        if saved is None:
            return
        tensors, numbers = saved
        try:
            self._check_state(tensors, numbers)
            self._take(tensors)
            self.step, self.last_valid = numbers["step"], numbers["last_valid"]
            self.chunk, self.seconds = numbers["chunk"], numbers["seconds"]
            if numbers["best"] is not None:
                best = {name: tensors[f"best.{name}"].to(self.model.device) for name in self.coordinates.tensors}
                self._new_best(numbers["best"], numbers["best_step"], best)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ModelFileError(f"the state in {self.keeper.folder} is that of another model or setting ({error}).") from error
        self.coordinates.push(self.best_tensors)
        self.keeper.go_on(self.step, None if self.best is None else self.model)

    def _check_state(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Raise a ValueError for a state with tensors of the wrong shape or with invalid numbers."""
        parts = ["coordinate", "exp_avg", "exp_avg_sq"]
        parts += ["average"] if self.average is not None else []
        parts += ["best"] if numbers["best"] is not None else []
        for name, tensor in self.coordinates.tensors.items():
            for part, shape in [(part, tensor.shape) for part in parts] + [("step", torch.Size())]:
                saved = tensors[f"{part}.{name}"]
                if saved.shape != shape or not bool(saved.isfinite().all()):
                    raise ValueError(f"{part}.{name} is not {list(shape)} of finite numbers")
        for key, least in {"step": 0, "chunk": 1, "seconds": 0}.items():
            number = numbers[key]
            if not isinstance(number, int if key != "seconds" else int | float) or not least <= number < math.inf:
                raise ValueError(f"{key} is {number!r}")
        for key in ("best", "best_step", "last_valid"):
            if numbers[key] is not None and not math.isfinite(numbers[key]):
                raise ValueError(f"{key} is {numbers[key]!r}")

    @torch.no_grad()
    def _take(self, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self.coordinates.tensors.items():
            tensor.copy_(tensors[f"coordinate.{name}"])
            moments = {part: tensors[f"{part}.{name}"].to(tensor.device) for part in ("exp_avg", "exp_avg_sq")}
            self.optimiser.state[tensor] = moments | {"step": tensors[f"step.{name}"]}
            if self.average is not None:
                self.average[name].copy_(tensors[f"average.{name}"])
