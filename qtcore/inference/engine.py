"""The engine protocol (init, step, marginals) and what is derived from it."""

import dataclasses
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution

from qtcore.errors import InputError, UnknownNameError, nearest
from qtcore.potentials import Potentials
from qtcore.query import Query
from qtcore.support.tensors import has_values

S = TypeVar("S", bound="Engine")

MAX_PERIOD = 4
"""The longest oscillation that is recognised."""

AT_REST = 1e-3
"""Beliefs are at rest if none differs from the layer before by more than this (in probability, or in the model's units)."""


@dataclass(frozen=True)
class Layer:
    """The observable outcome of one layer of inference.

    Attributes:
        index: 0 for the unaries only, k after k layers.
        marginals: of the visible variables, as `model(query)` returns them after that many layers.
        hidden: marginals of the hidden variables, in the same form.
        residual: the largest change of a message in this layer (of a marginal, if there are no messages), per sample [B].
        messages: all messages, by name; empty for an engine without messages.
        info: further diagnostics, by name. `period` [B] says whether the beliefs are at rest: 1 if they are those of the
            layer before to within 0.001 (at rest), 2, 3 … if they are those of so many layers before (oscillating), 0 if they
            still move. (Whether messages have converged is in `residual`.)

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


class Answerable(Protocol):
    """What an engine needs from a model. (A model needs nothing from an engine but its marginals.)"""

    @property
    def engine(self) -> "Engine":
        """The model's own engine: the one it was trained with, or the default."""
        ...

    def graph(self) -> Potentials:
        """The graph and the log-potentials on it."""
        ...

    def evidence(self, query: Query, dtype: Any = None) -> Any:
        """Evidence for each variable, in the form that matches the potentials."""
        ...

    def temperature(self) -> Tensor | None:
        """T, if the model has one."""
        ...

    @property
    def rho(self) -> Tensor | None:
        """Edge weights of reweighted belief propagation, if the model has any."""
        ...

    def check(self, query: Query) -> None:
        """Raise an InputError if the query does not fit this model."""
        ...


class Engine(ABC):
    """A way of computing marginals: an immutable set of options. Everything that changes during a run is in its state.

    A subclass defines the initial state (`init`), one step (`step`: the new state, and diagnostics of the step), and how to
    read marginals off a state (`marginals`, `hidden`). `steps` is the number of steps.

    Example:
        >>> import torch, qtcore
        >>> model, engine = qtcore.RBM(6, 3), qtcore.BP(n_layers=2)
        >>> query = qtcore.Query(torch.ones(1, 6), torch.arange(6)[None] < 4)
        >>> state = engine.init(model, query)
        >>> for _ in range(engine.steps(model)):
        ...     state, info = engine.step(state)
        >>> torch.allclose(engine.marginals(state).probs, model(query, engine=engine).probs, atol=1e-6)
        True
    """

    name: ClassVar[str]
    """Its name on the command line."""
    differentiable: ClassVar[bool] = True
    """Whether marginals have gradients with respect to the model's parameters, so that a model can be trained with it."""

    @abstractmethod
    def init(self, model: Answerable, query: Query) -> Any:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: Any) -> tuple[Any, dict[str, Tensor]]:
        """The next state, and diagnostics of the step: at least its `residual` [B], the largest change of a message, or of a
        marginal for an engine without messages."""

    @abstractmethod
    def marginals(self, state: Any) -> Distribution:
        """Marginals of the visible variables."""

    @abstractmethod
    def hidden(self, state: Any) -> Distribution:
        """Marginals of the hidden variables."""

    @abstractmethod
    def steps(self, model: Answerable) -> int:
        """The largest number of steps of a run."""

    @abstractmethod
    def at(self: S, n: int | None) -> S:
        """The same engine with n steps, or with at most n if it stops by itself; None leaves the number as it is."""

    def messages(self, state: Any) -> dict[str, Tensor]:
        """All messages, by name."""
        return {}

    def finished(self, info: dict[str, Tensor]) -> bool:
        """Whether the run may stop after this step."""
        return False

    def kept_bytes(self, model: Answerable, shape: tuple[int, ...]) -> int:
        """Approximate number of bytes that one sample of this shape keeps for the backward pass."""
        return 1

    def prepare(self, model: Answerable) -> None:  # noqa: B027  (most engines learn nothing)
        """Give the model what this engine learns in a training beside the model's own parameters."""

    # ------------------------------------------------------------------ derived

    def run(self, model: Answerable, query: Query) -> Distribution:
        """Marginals of the visible variables after the last step."""
        model.check(query)
        state = self.init(model, query)
        for _ in range(self.steps(model)):
            state, info = self.step(state)
            if self.finished(info):
                break
        return self.marginals(state)

    def run_depths(self, model: Answerable, query: Query, depths: Sequence[int]) -> list[Distribution]:
        """Marginals of the visible variables after each of several numbers of steps, in rising order."""
        return [self.at(depth).run(model, query) for depth in depths]

    def layers(self, model: Answerable, query: Query) -> Iterator[Layer]:
        """Layer 0 (before the first step) to the last, one at a time."""
        return with_periods(self._layers(model, query))

    def _layers(self, model: Answerable, query: Query) -> Iterator[Layer]:
        model.check(query)
        state = self.init(model, query)
        yield self._layer(0, state, {})
        for index in range(1, self.steps(model) + 1):
            state, info = self.step(state)
            yield self._layer(index, state, info)
            if self.finished(info):
                return

    def trace(self, model: Answerable, query: Query) -> Iterator[Layer]:
        """Like `layers`, for display only: `messages` and `info` may be missing, and it may be many times faster."""
        return self.layers(model, query)

    def _layer(self, index: int, state: Any, info: dict[str, Tensor]) -> Layer:
        marginals, hidden = self.marginals(state), self.hidden(state)
        info = dict(info)
        residual = info.pop("residual", None)
        if residual is None:
            residual = marginals.mean.new_zeros(marginals.batch_shape[0])
        return Layer(index, marginals, hidden, residual, self.messages(state), info)


def with_periods(layers: Iterable[Layer]) -> Iterator[Layer]:
    """The same layers, each with the `period` of its beliefs in `info`."""
    earlier: deque[tuple[Tensor, Tensor]] = deque(maxlen=MAX_PERIOD)  # the latest first
    for layer in layers:
        if not has_values(layer.residual):  # nothing moves in shapes alone
            yield layer
            continue
        beliefs = _flat(layer.marginals), _flat(layer.hidden)
        period = _period(beliefs, tuple(earlier))
        earlier.appendleft(beliefs)
        yield dataclasses.replace(layer, info={**layer.info, "period": period})


def _period(beliefs: tuple[Tensor, Tensor], earlier: tuple[tuple[Tensor, Tensor], ...]) -> Tensor:
    """How many layers before each sample's beliefs, visible and hidden, were the same [B]; 0 if they were not."""
    visible, hidden = beliefs
    if not earlier:
        return torch.zeros(len(visible), dtype=torch.long, device=visible.device)
    same = _farthest(torch.stack([each for each, _ in earlier]), visible) <= AT_REST  # [layers back, B]
    for back in same.any(1).nonzero()[:, 0].tolist():  # of the hidden ones there may be many more
        same[back] &= _farthest(earlier[back][1], hidden) <= AT_REST
    nearest = (same * torch.arange(len(earlier), 0, -1, device=same.device)[:, None]).amax(0)  # the more, the fewer layers back
    return torch.where(nearest > 0, len(earlier) + 1 - nearest, 0)


def change_of_marginals(before: Sequence[Distribution], after: Sequence[Distribution]) -> Tensor:
    """The largest change of a probability or a mean [B]."""
    return _farthest(_flat(*before), _flat(*after))


def expectations(*marginals: Distribution) -> list[Tensor]:
    """Probabilities or means [B, …] of each."""
    return [(each.probs if isinstance(each, Categorical) else each.mean).detach() for each in marginals]


def _flat(*marginals: Distribution) -> Tensor:
    """All of these side by side [B, n]."""
    return torch.cat([each.flatten(1) for each in expectations(*marginals)], 1)


def _farthest(one: Tensor, other: Tensor) -> Tensor:
    """The largest difference in each sample [..., B]; 0 where there are no variables."""
    difference = (one - other).abs()
    return difference.amax(-1) if difference.shape[-1] else difference.sum(-1)


def named(name: str, **choices: Any) -> Engine:
    """The engine of that name ("bp", "exact", "gibbs") with these options; None keeps the engine's default."""
    kinds = {kind.name: kind for kind in _all(Engine) if "name" in kind.__dict__}  # type: ignore[type-abstract]
    if name not in kinds:
        raise UnknownNameError(f"there is no engine named {name!r}; {nearest(name, sorted(kinds))}")
    kind = kinds[name]
    known = {option.name for option in dataclasses.fields(kind)}  # type: ignore[arg-type]  # every engine is a dataclass
    options = {key: value for key, value in choices.items() if value is not None}
    for key in options:
        if key not in known:
            has = ", ".join(sorted(known)) or "none"
            raise InputError(f"the engine {name} has no choice {key.replace('_', '-')}; it has {has}.")
    return kind(**options)


def _all(kind: type[Engine]) -> Iterator[type[Engine]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _all(subclass)
