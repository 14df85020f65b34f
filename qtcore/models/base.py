"""What every model shares: the interface, the checks of a query, saving and loading."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.distributions import Distribution

from qtcore.errors import InputError, ModelFileError, NotFiniteError, UnknownNameError, nearest
from qtcore.files import write_atomically
from qtcore.query import Query, has_values

FORMAT = "qtcore"
FORMAT_VERSION = 1
STATISTICS = "statistics."  # prefix of preprocessing tensors in a file, beside the parameters

MIN_LEARNED_TEMPERATURE = 1e-3
"""A learned temperature is kept at or above this: at 0 its gradient would no longer exist."""


@dataclass(frozen=True)
class Layer:
    """What one layer of belief propagation looks like from outside.

    Attributes:
        index: 0 for the unaries alone, k after k layers.
        marginals: of the visible variables, as `model(query)` returns them after that many layers.
        hidden: marginals of the hidden variables, in the same form.
        residual: the largest change of a message in this layer, per sample [B].
        messages: all messages, by name.
        info: what else there is to know, by name.

    Example:
        >>> import torch, qtcore
        >>> chain = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> query = qtcore.Query(torch.tensor([[1, 0, 0]]), torch.tensor([[True, False, False]]))
        >>> for layer in chain.layers(query, n=4):
        ...     print(layer.index, bool(layer.residual > 1e-6))  # does any message still change?
        0 False
        1 True
        2 True
        3 False
        4 False
    """

    index: int
    marginals: Distribution
    hidden: Distribution
    residual: Tensor
    messages: dict[str, Tensor]
    info: dict[str, Tensor] = field(default_factory=dict)


class Model(nn.Module):
    """An undirected graphical model whose marginals come from N layers of loopy belief propagation.

    A subclass says how it is built again (`config`), what a valid query is (`_check`), and runs the layers.
    """

    registry: ClassVar[dict[str, type["Model"]]] = {}
    takes_likelihoods: ClassVar[bool] = False  # values with one axis more than the mask: p(reading | state)
    n_layers: int
    damping: float
    statistics: dict[str, Tensor]
    notes: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "config" in cls.__dict__:  # a model, not a base class
            Model.registry[cls.__name__] = cls

    def __init__(self, n_layers: int, damping: float = 0.0) -> None:
        super().__init__()
        _check_layer_count(n_layers)
        if not isinstance(damping, int | float) or not 0 <= damping < 1:
            raise InputError(f"damping must lie in [0, 1), not {damping!r}; 0 means none.")
        self.n_layers = n_layers
        self.damping = float(damping)
        self.compiled = False
        self.statistics = {}
        self.notes = {}

    def compile_layers(self) -> "Model":
        """Run the layers as machine code from now on, where a compiler makes it possible; otherwise nothing changes."""
        self.compiled = True
        return self

    # ------------------------------------------------------------------ to be filled in by each model

    def config(self) -> dict[str, Any]:
        """Arguments that build this model anew."""
        raise NotImplementedError

    def forward(self, query: Query, n_layers: int | None = None) -> Distribution:
        """Marginals after the last layer."""
        raise NotImplementedError

    def layers(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        """Layer 0 (the unaries alone) to layer n, one at a time."""
        raise NotImplementedError

    def watch(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        """The same as `layers`, for those who only look: `messages` and `info` may be missing, and with `compile_layers`
        it may be many times faster."""
        return self.layers(query, n)

    def kept_bytes(self, shape: tuple[int, ...], n_layers: int) -> int:
        """About how many bytes one sample of this shape keeps for the backward pass through so many layers."""
        raise NotImplementedError

    def _sample_shape(self) -> tuple[int | None, ...]:
        """The shape of one sample; None where any size will do."""
        raise NotImplementedError

    def _check_values(self, name: str, values: Tensor, where: Tensor) -> None:
        """Refuse values that a variable cannot take, where `where` is true."""

    def _check_truth(self, query: Query) -> None:
        self._check_values("truth", query.truth, query.target)

    def _target(self, query: Query) -> Tensor:
        return query.target

    # ------------------------------------------------------------------ shared

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def _check(self, query: Query) -> None:
        """Refuse a query that is not for this model, in one sentence."""
        if not isinstance(query, Query):
            raise InputError(f"{type(self).__name__} expects a qtcore.Query, not {type(query).__name__}.")
        expected = self._sample_shape()
        found = tuple(query.shape[1:])
        if len(found) != len(expected) or any(e is not None and e != f for e, f in zip(expected, found, strict=True)):
            wanted = ", ".join("any" if size is None else str(size) for size in expected)
            raise InputError(f"{type(self).__name__} expects queries of shape [batch, {wanted}], not {list(query.shape)}.")
        if query.values.dim() > query.observed.dim() and not self.takes_likelihoods:
            given = list(query.values.shape)
            raise InputError(f"{type(self).__name__} expects values {list(query.shape)}, not likelihoods {given}.")
        if query.device != self.device:
            raise InputError(f"the query is on {query.device} but the model is on {self.device}; use query.to(model.device).")
        if has_values(query.values, query.observed):
            self._check_values("values", query.values, query.observed != 0)

    def _layer_count(self, n: int | None) -> int:
        if n is None:
            return self.n_layers
        _check_layer_count(n)
        return n

    def _range_error(self, name: str, bad: Tensor, values: Tensor, expected: str) -> None:
        if bool(bad.any()):
            index = bad.nonzero()[0].tolist()
            raise InputError(f"{name} must be {expected}, but at {tuple(index)} there is {values[bad][0].item():g}.")

    def nll(self, query: Query, n_layers: int | None = None) -> tuple[Tensor, Tensor]:
        """−log marginal(truth) where scored, 0 elsewhere, in nats [B, …], and the boolean targets [B, …]."""
        self._check(query)
        target = self._target(query)
        if has_values(target) and not bool(target.any()):
            raise InputError("the query has no targets, so there is nothing to score; give at least one.")
        if has_values(query.truth):
            self._check_truth(query)
        marginals = self(query, n_layers)
        truth = torch.where(target, query.truth, 0).to(self.dtype)  # what is not scored may be NaN
        return torch.where(target, -marginals.log_prob(truth), 0), target

    def loss(self, query: Query, n_layers: int | None = None) -> Tensor:
        """Cross-entropy per target in nats, summed over all targets of the batch / their number (scalar)."""
        losses, target = self.nll(query, n_layers)
        return losses.sum() / target.sum()

    def _finite(self, name: str, layer: int, *tensors: Tensor) -> None:
        """Stop with the tensor's name and the layer where a number first went wrong."""
        for tensor in tensors:
            if has_values(tensor) and not bool(tensor.isfinite().all()):
                raise NotFiniteError(
                    f"{type(self).__name__}: {name} is not finite in layer {layer}; "
                    "the parameters are too extreme for this data type."
                )

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value!r}" for key, value in self.config().items())

    # ------------------------------------------------------------------ files

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write parameters, configuration and preprocessing statistics as one safetensors file."""
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.state_dict().items()}
        tensors |= {
            STATISTICS + name: torch.as_tensor(value).cpu().contiguous().clone() for name, value in self.statistics.items()
        }
        about = {"version": FORMAT_VERSION, "model": type(self).__name__, "config": self.config(), "notes": self.notes}
        metadata = {FORMAT: json.dumps(about)}  # one key, so that the same model always makes the same bytes
        try:  # our bytes in our own temporary file: save_file would leave one of its own behind when it is killed
            write_atomically(path, save(tensors, metadata))
        except OSError as error:
            raise ModelFileError(f"{path} could not be written ({error}).") from error


def _check_layer_count(n: int) -> None:
    if not isinstance(n, int) or isinstance(n, bool) or n < 0:
        raise InputError(f"n_layers must be a whole number ≥ 0, not {n!r}.")


class TemperedModel(Model):
    """A model of discrete variables with a temperature T: 1 is sum-product, 0 is max-product."""

    T: nn.Parameter

    def __init__(self, n_layers: int, damping: float, temperature: float, learn_temperature: bool, **factory: Any) -> None:
        super().__init__(n_layers, damping)
        if not isinstance(temperature, int | float) or not 0 <= temperature < float("inf"):
            raise InputError(f"the temperature must be ≥ 0, not {temperature!r}; 1 is sum-product, 0 is max-product.")
        if learn_temperature and temperature == 0:
            raise InputError("a learned temperature must start above 0.")
        self.T = nn.Parameter(torch.tensor(float(temperature), **factory), requires_grad=learn_temperature)

    def _tempered_config(self) -> dict[str, Any]:
        return {"n_layers": self.n_layers, "damping": self.damping, "learn_temperature": self.T.requires_grad}

    def _temperature(self) -> tuple[Tensor, bool]:
        """The unit in which to run at T = 1, and whether to sum (T > 0) or to maximise (T = 0, in the unit 1)."""
        T: Tensor = self.T
        if not has_values(T):
            return T, True
        number = float(T.detach())
        if T.requires_grad and number < MIN_LEARNED_TEMPERATURE:  # an optimiser's wild step: take it back
            with torch.no_grad():  # in place, so that T keeps a gradient, unlike behind a clamp
                T.fill_(MIN_LEARNED_TEMPERATURE)
            return T, True
        if not 0 <= number < float("inf"):
            raise InputError(f"the temperature must be ≥ 0, but T is {number:g}.")
        if number == 0:
            return torch.ones_like(T), False
        return T, True


# ---------------------------------------------------------------------- loading


def checkpoint_folder() -> Path:
    """Where the shipped models lie: in the installed package, or beside it in a clone."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "assets" / "checkpoints"
    return inside if inside.is_dir() else package.parent / "assets" / "checkpoints"


def available() -> list[str]:
    """Names of the shipped models, such as "grbm/frey".

    Example:
        >>> import qtcore
        >>> "grbm/frey" in qtcore.available()
        True
    """
    folder = checkpoint_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.safetensors"))


def load(name_or_path: "str | os.PathLike[str]", device: "torch.device | str" = "cpu") -> Model:
    """A saved model, by the name of a shipped one ("grbm/frey") or by its path.

    Example:
        >>> import tempfile, torch, qtcore
        >>> model = qtcore.RBM(6, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/mine.safetensors")
        ...     again = qtcore.load(f"{folder}/mine.safetensors")
        >>> torch.equal(model.W, again.W)
        True
    """
    names = available()
    if str(name_or_path) in names:
        path = checkpoint_folder() / f"{name_or_path}.safetensors"
    else:
        path = Path(name_or_path)
        if not path.exists() and path.suffix != ".safetensors":
            raise UnknownNameError(
                f"there is no model and no file named {str(name_or_path)!r}; {nearest(str(name_or_path), names)}"
            )
    try:
        return _read(path, device)
    except ModelFileError:
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} does not exist.") from error
    except (SafetensorError, OSError) as error:  # a folder, a file that may not be read, half a file
        raise ModelFileError(f"{path} is not a whole safetensors file ({error}).") from error


def _read(path: Path, device: "torch.device | str") -> Model:
    with safe_open(path, framework="pt", device=str(device)) as file:
        try:
            about = json.loads((file.metadata() or {})[FORMAT])
            version, name = about["version"], about["model"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ModelFileError(f"{path} is a safetensors file, but not one that qtcore wrote.") from error
        if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
            raise ModelFileError(
                f"{path} has format version {version}, but this qtcore reads {FORMAT_VERSION} at most; upgrade it."
            )
        kind = Model.registry.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ModelFileError(f"{path} holds a model of the unknown kind {name!r}.")
        try:
            config, notes = dict(about["config"]), dict(about["notes"])
            with torch.device("meta"):  # shapes only: a file cannot make us allocate more than it holds
                expected = {key: tuple(tensor.shape) for key, tensor in kind(**config).state_dict().items()}
        except (KeyError, TypeError, ValueError, RuntimeError) as error:  # the last: torch, on sizes that overflow
            raise ModelFileError(f"{path} has a configuration that {kind.__name__} does not understand ({error}).") from error
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    statistics = {name.removeprefix(STATISTICS): tensors.pop(name) for name in list(tensors) if name.startswith(STATISTICS)}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected != found:
        wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        name = wrong[0]
        raise ModelFileError(
            f"{path} does not fit its own configuration: {name} is {found.get(name)}, not {expected.get(name)}."
        )
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ModelFileError(f"{path} holds numbers in {name} that are not finite.")
        if tensor.dtype != tensors[next(iter(expected))].dtype:
            raise ModelFileError(f"{path} holds numbers of different types; {name} is {tensor.dtype}.")
    with torch.random.fork_rng(devices=[]), torch.device(device):  # its first random numbers are overwritten at once
        model = kind(**config)
    learned = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    model.load_state_dict(tensors, assign=True)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(learned[name])
    model.statistics = statistics
    model.notes = notes
    return model
