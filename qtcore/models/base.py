"""The base class of all models: interface, query checks, shortcuts to the engine."""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.distributions import Distribution

from qtcore import metrics
from qtcore.errors import InputError, ModelFileError, NotFiniteError
from qtcore.inference import BP, Engine, Layer, Layered, MeanField, Reweighted, questions, sampling
from qtcore.inference.questions import LogProb
from qtcore.inference.sampling import Block, Order
from qtcore.models.provenance import Provenance
from qtcore.potentials import Potentials
from qtcore.query import Mask, Query, uniform
from qtcore.support.files import write_atomically
from qtcore.support.tensors import has_values
from qtcore.variables import Variables

FORMAT = "qtcore"
FORMAT_VERSION = 2
"""The newest that is read. A file without a graph's tensors is written as version 1, which is the same but for them."""
STATISTICS = "statistics."  # prefix of preprocessing tensors in a file, next to the parameters
GRAPH = "graph."  # prefix of tensors that belong to the configuration

ENGINES: dict[str, type[Layered]] = {kind.name: kind for kind in (BP, MeanField, Reweighted)}
"""The engines that a file may hold."""
ENGINE_OPTIONS = (*(option.name for option in fields(Layered)), "rho")
"""Their options that it may hold; torch.compile is up to the machine that loads it."""

DTYPES = (torch.float32, torch.float64)
"""What parameters may be: float16 ends at 65504, and sums of messages in bfloat16 have two digits."""

MIN_LEARNED_TEMPERATURE = 1e-3
"""A learned temperature is kept at or above this: at 0 its gradient would no longer exist."""


class Model(nn.Module):
    """An undirected graphical model: parameters, potentials, variables, and what a valid query is.

    It does not know how marginals are computed: that is up to an `Engine`. `model(query)`, `model.layers(query)` and
    `model.loss(query)` are shortcuts to the model's own engine, by default N layers of loopy belief propagation.

    A subclass defines how it is rebuilt (`config`), what its `variables` are, and its interface to an engine: `graph` and
    `evidence`.
    """

    registry: ClassVar[dict[str, type["Model"]]] = {}
    may_hold_zeros: ClassVar[tuple[str, ...]] = ()
    """How the names of stored tensors begin that may hold −∞, the log-potential of what has probability 0."""
    variables: Variables
    engine: Engine
    statistics: dict[str, Tensor]
    """Statistics of the data's preprocessing, such as the mean that was subtracted."""
    provenance: Provenance
    """Where the parameters come from."""
    image_shape: tuple[int, int] | None
    """Height and width, if the variables form an image."""
    rho: nn.Parameter | None
    """Edge weights of reweighted belief propagation, one for each table, if there are any (`qtcore.inference.reweighted`)."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config" in cls.__dict__:  # a model, not a base class
            Model.registry[cls.__name__] = cls

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.statistics = {}
        self.provenance = Provenance()
        self.image_shape = None
        self.register_parameter("rho", None)

    # ------------------------------------------------------------------ defined by each model

    def config(self) -> dict[str, Any]:
        """Constructor arguments that rebuild this model."""
        raise NotImplementedError

    def packed(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The configuration as a file holds it: what is short, and what may be long, as tensors of whole numbers."""
        return self.config(), {}

    @classmethod
    def unpacked(cls, config: dict[str, Any], arrays: dict[str, Tensor]) -> dict[str, Any]:
        """The configuration, from what `packed` gave or a file claims; raise a ValueError for what it cannot have given."""
        if arrays:
            raise ValueError(f"it holds a graph, which a {cls.__name__} does not need")
        return config

    def graph(self) -> Potentials:
        """The graph and the log-potentials on it, in the paper's convention (T = 1)."""
        raise NotImplementedError

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> Any:
        """Evidence for each variable, in the form that matches the graph, computed in `dtype`."""
        raise NotImplementedError

    def temperature(self) -> Tensor | None:
        """T, if the model has one."""
        return None

    def column_names(self) -> tuple[str, ...] | None:
        """Names of the visible variables, if the model knows them itself."""
        return None

    def target(self, query: Query) -> Tensor:
        """The targets of a query: as given, or the unobserved variables."""
        return query.target

    def queries(self) -> Mask:
        """The default queries for training and scoring: each variable is a target with probability ½."""
        return uniform()

    def mixing(self) -> dict[str, list[tuple[int, Tensor]]]:
        """For some parameters [F, …], which are stacks of tables, invertible matrices [F, n, n] along an axis: training changes
        such a table not entry by entry, but as the matrices mix them."""
        return {}

    def upgraded(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The stored tensors by their names of today, from those of a file that an older version may have written."""
        return tensors

    # ------------------------------------------------------------------ shortcuts to the engine's options

    @property
    def n_layers(self) -> int:
        """Layers of the model's own engine."""
        return self.engine.steps(self)

    @n_layers.setter
    def n_layers(self, n: int) -> None:
        self.engine = self.engine.at(n)

    @property
    def damping(self) -> float:
        """Damping of the model's own engine."""
        return float(getattr(self.engine, "damping", None) or 0.0)

    @damping.setter
    def damping(self, damping: float) -> None:
        if not isinstance(self.engine, Layered):
            raise InputError(f"{self.engine} has no damping; set model.engine = qtcore.BP(…) first.")
        self.engine = replace(self.engine, damping=damping)

    def compile_layers(self) -> "Model":
        """Compile the layers with torch.compile, for devices without native kernels (a GPU); the first call takes a minute.

        On a CPU with a C compiler the native kernels are used by default: see `qtcore.backend()`.
        """
        if not isinstance(self.engine, BP):
            raise InputError(f"{self.engine} has no layers to compile; set model.engine = qtcore.BP(…) first.")
        self.engine = replace(self.engine, torch_compile=True)
        return self

    # ------------------------------------------------------------------ shared

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def size(self) -> int:
        """The number of visible variables."""
        return math.prod(size for size in self.variables.shape if size is not None)

    def check(self, query: Query) -> None:
        """Raise an InputError if the query does not fit this model."""
        if not isinstance(query, Query):
            raise InputError(f"{type(self).__name__} expects a qtcore.Query, not {type(query).__name__}.")
        if query.device != self.device:
            raise InputError(f"the query is on {query.device} but the model is on {self.device}; use query.to(model.device).")
        self._check_dtypes()
        self.variables.accept(query, type(self).__name__)

    def _check_dtypes(self) -> None:
        """Raise an InputError if parameters and buffers differ in data type, or have one that messages cannot have."""
        groups = [group for module in self.modules() for group in (module._parameters, module._buffers)]
        dtypes = {tensor.dtype for group in groups for tensor in group.values() if tensor is not None}
        floating = [dtype for dtype in dtypes if dtype.is_floating_point]
        if len(floating) == 1:
            if floating[0] not in DTYPES:
                given = _name(floating[0])
                raise InputError(f"the parameters are {given}, in which messages overflow or lose digits; use model.float().")
            return
        state = [*self.named_parameters(), *self.named_buffers()]
        named = {name: tensor for name, tensor in state if tensor.is_floating_point()}
        most = max(named, key=lambda name: named[name].numel())
        other = next(name for name in named if named[name].dtype != named[most].dtype)
        raise InputError(
            f"{other} is {_name(named[other].dtype)}, but {most} is {_name(named[most].dtype)}; use model.to(dtype)."
        )

    def check_truth(self, query: Query) -> Tensor:
        """Raise an InputError if the query cannot be scored; return its targets."""
        target = self.target(query)
        if query.scored_by is self.variables:
            return target
        if has_values(target) and not bool(target.any()):
            raise InputError("the query has no targets, so there is nothing to score; give at least one.")
        if has_values(query.truth):
            self.variables.check_truth(query, target)
        if has_values(target, query.truth):
            query.accept_truth(self.variables)
        return target

    def forward(self, query: Query, n_layers: int | None = None, engine: Engine | None = None) -> Distribution:
        """Marginals of the visible variables, by the model's own engine or another one.

        `n_layers` is the number of layers, or the largest one for an engine that stops by itself (`BP(until=…)`).
        """
        return (engine or self.engine).at(n_layers).run(self, query)

    def layers(self, query: Query, n: int | None = None, engine: Engine | None = None) -> Iterator[Layer]:
        """Layer 0 (the unaries only) to layer n, one at a time."""
        return (engine or self.engine).at(n).layers(self, query)

    def trace(self, query: Query, n: int | None = None, engine: Engine | None = None) -> Iterator[Layer]:
        """Like `layers`, for display only: `messages` and `info` may be missing, and it may be many times faster."""
        return (engine or self.engine).at(n).trace(self, query)

    def nll(self, query: Query, n_layers: int | None = None, engine: Engine | None = None) -> tuple[Tensor, Tensor]:
        """−log marginal(truth) where scored, 0 elsewhere, in nats [B, …], and the boolean targets [B, …]."""
        self.check(query)
        target = self.check_truth(query)
        return metrics.nll(self(query, n_layers, engine), query.truth, target), target

    def loss(self, query: Query, n_layers: int | None = None, engine: Engine | None = None) -> Tensor:
        """Cross-entropy in nats, averaged over all targets of the batch (scalar)."""
        losses, target = self.nll(query, n_layers, engine)
        loss = losses.sum() / target.sum()
        if has_values(loss) and not bool(loss.isfinite()):
            number = float(loss.detach())
            raise NotFiniteError(f"the loss is {number:g}; the truth is too far from the marginals for this data type.")
        return loss

    # ------------------------------------------------------------------ joint answers

    def sample(
        self,
        query: Query,
        n: int = 1,
        order: Order = "random",
        block: Block = 1,
        generator: torch.Generator | None = None,
        engine: Engine | None = None,
        method: str = "chain",
    ) -> Tensor:
        """Joint samples of the targets given the evidence [n, batch, …], with the evidence filled in; see
        `qtcore.inference.sampling`.

        Example:
            >>> import torch, qtcore
            >>> model = qtcore.RBM.from_textbook(torch.tensor([[9.0, 9.0]]), torch.tensor([-4.5, -4.5]), torch.tensor([-4.5]))
            >>> query = qtcore.Query(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]))
            >>> model.sample(query, n=2, generator=torch.Generator().manual_seed(0))  # both agree with the hidden unit
            tensor([[[1., 1.]],
            <BLANKLINE>
                    [[1., 1.]]])
        """
        return sampling.sample(self, query, n, order, block, generator, engine, method)

    def most_probable(
        self,
        query: Query,
        method: str = "chain",
        order: Order = "forward",
        block: Block = 1,
        engine: Engine | None = None,
    ) -> Tensor:
        """A completion of high joint probability [batch, …], with the evidence filled in; `method` is "chain" or "max-product".

        Example:
            >>> import torch, qtcore
            >>> model = qtcore.RBM.from_textbook(torch.tensor([[9.0, 9.0]]), torch.tensor([-4.5, -4.5]), torch.tensor([-4.5]))
            >>> query = qtcore.Query(torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]))
            >>> model.most_probable(query), model.most_probable(query, method="max-product")
            (tensor([[1., 1.]]), tensor([[1., 1.]]))
        """
        return sampling.most_probable(self, query, method, order, block, engine)

    def log_prob(
        self,
        query: Query,
        orders: "int | str | Sequence[Order] | Tensor" = 1,
        block: Block = 1,
        generator: torch.Generator | None = None,
        engine: Engine | None = None,
    ) -> LogProb:
        """The joint log-probability of the targets' truth given the evidence in nats, in so many random orders or in those
        given: its `mean` [batch] and `spread` [batch] over orders, and `each` [orders, batch].

        Example:
            >>> import torch, qtcore
            >>> model = qtcore.RBM.from_textbook(torch.zeros(2, 6), torch.zeros(6), torch.zeros(2))
            >>> query = qtcore.Query(torch.ones(1, 6), torch.zeros(1, 6, dtype=torch.bool))
            >>> round(float(model.log_prob(query, orders=3).mean / torch.log(torch.tensor(0.5))), 4)  # six fair coins
            6.0
        """
        return questions.log_prob(self, query, orders, block, generator, engine)

    # ------------------------------------------------------------------ files

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.config().items())

    def check_data_format(self) -> None:
        """Raise an InputError if `image_shape` or `statistics` are those of other variables."""
        if self.image_shape is not None and math.prod(self.image_shape) != self.size:
            raise InputError(f"the image_shape {tuple(self.image_shape)} does not have the {self.size} variables of the model.")
        for name, value in self.statistics.items():
            if (shape := list(torch.as_tensor(value).shape)) not in ([], [1], [self.size]):
                raise InputError(f"the statistic {name!r} has the shape {shape}, not [] or [{self.size}] as the variables.")

    def default_engine(self) -> Engine:
        """The engine that a model of this configuration is made with."""
        with torch.device("meta"):
            return type(self)(**self.config()).engine

    def saved_engine(self) -> dict[str, Any] | None:
        """The options of the model's own engine as a file holds them, None if `config` says it all; raise an InputError for
        an engine that a file cannot hold."""
        if type(self.engine) not in ENGINES.values():
            raise InputError(f"a file cannot hold the engine {self.engine}; set model.engine = qtcore.BP(…) first.")
        options = {name: getattr(self.engine, name) for name in ENGINE_OPTIONS if hasattr(self.engine, name)}
        if type(self.engine)(**options) == self.default_engine():
            return None
        name = {} if type(self.engine) is BP else {"name": self.engine.name}  # before there were others, files named none
        return name | {name: value for name, value in options.items() if value is not None}

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write parameters, configuration, engine and preprocessing statistics as one safetensors file."""
        data = self.to_bytes()
        try:  # through a temporary file of our own: save_file would leave one behind when killed
            write_atomically(path, data)
        except OSError as error:
            raise ModelFileError(f"{path} could not be written ({error}).") from error

    def to_bytes(self) -> bytes:
        """The content of that file; `qtcore.models.files.from_bytes` makes a model of it."""
        self.check_data_format()
        engine = self.saved_engine()
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.state_dict().items()}
        tensors |= {
            STATISTICS + name: torch.as_tensor(value).cpu().contiguous().clone() for name, value in self.statistics.items()
        }
        record = self.provenance.as_dict()
        if self.image_shape is not None:
            record["image_shape"] = list(self.image_shape)
        config, arrays = self.packed()
        tensors |= {GRAPH + name: array.contiguous() for name, array in arrays.items()}
        about = {"version": 2 if arrays else 1, "model": type(self).__name__, "config": config, "notes": record}
        about |= {} if engine is None else {"engine": engine}
        metadata = {FORMAT: json.dumps(about)}  # one key, so that the same model always gives the same bytes
        return save(tensors, metadata)


class TemperedModel(Model):
    """A model of discrete variables with a temperature T: 1 is sum-product, 0 is max-product."""

    T: nn.Parameter

    def __init__(self, n_layers: int, damping: float, temperature: float, learn_temperature: bool, **factory: Any) -> None:
        super().__init__(BP(n_layers=given_count(n_layers), damping=damping))
        if not isinstance(temperature, int | float) or not 0 <= temperature < float("inf"):
            raise InputError(f"the temperature must be ≥ 0, not {temperature!r}; 1 is sum-product, 0 is max-product.")
        if learn_temperature and temperature == 0:
            raise InputError("a learned temperature must start above 0.")
        self.T = nn.Parameter(torch.tensor(float(temperature), **factory), requires_grad=learn_temperature)

    def _tempered_config(self) -> dict[str, Any]:
        return {"n_layers": self.n_layers, "damping": self.damping, "learn_temperature": self.T.requires_grad}

    def default_engine(self) -> Engine:
        return BP(n_layers=self.n_layers, damping=self.damping)

    def temperature(self) -> Tensor:
        T: Tensor = self.T
        if not has_values(T):
            return T
        number = float(T.detach())
        if T.requires_grad and number < MIN_LEARNED_TEMPERATURE:  # an optimiser step overshot: reset it
            with torch.no_grad():  # in place, so that T keeps a gradient, unlike behind a clamp
                T.fill_(MIN_LEARNED_TEMPERATURE)
        elif not 0 <= number < float("inf"):
            raise InputError(f"the temperature must be ≥ 0, but T is {number:g}.")
        return T


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def given_count(n: Any) -> Any:
    """The number of layers; raise an InputError if it is None."""
    if n is None:
        raise InputError("n_layers must be a whole number ≥ 0, not None.")
    return n


def positive(name: str, size: int) -> None:
    """Raise an InputError unless the size is a whole number above 0."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InputError(f"{name} must be a whole number ≥ 1, not {size!r}.")
