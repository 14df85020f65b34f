"""Joint answers through a model's own marginals, by the chain rule: samples, and the most probable completion.

A query-trained model answers queries; it is not a density to run a Markov chain on (a chain visits states on which
no query ever trained it). But p(v) = ∏ p(v_i | those before) needs nothing but answers to queries: a variable is drawn from
its marginal given all that is drawn so far, and is evidence from then on. Where marginals are exact, so are the samples, in
every order. Several variables may be drawn at a time (`block`), independently of each other given those before: that is
quicker, and loses some coherence (`log_prob` with and without blocks says how much).

    model.sample(query, n=6)                   # [n, batch, …], each in a random order
    model.sample(query, n=64, block=(3, 3), order="outwards")
    model.most_probable(query)                 # [batch, …]
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Normal

from qtcore.errors import InputError
from qtcore.inference import perturbed
from qtcore.inference.bp import BP
from qtcore.inference.engine import Engine
from qtcore.query import Query
from qtcore.support.progress import progress

if TYPE_CHECKING:
    from qtcore.models.base import Model

Order: TypeAlias = "str | Sequence[int] | Tensor"
"""The name of an order, or all variables in an order."""
Block: TypeAlias = "int | tuple[int, int]"
"""So many variables at a time, or patches of an image: height and width."""

ORDERS = ("random", "forward", "outwards")
SHUFFLE = 1.5
"""How far an order from the middle outwards is shuffled, in patches."""
MAX_BATCH, MAX_BYTES = 512, 2**28
"""Queries that are asked at a time, and approximately how much memory they may take."""


# ---------------------------------------------------------------------------------------------------------------------
# When each variable is drawn


def steps_of(
    target: Tensor, order: Order = "random", block: Block = 1, generator: Any = None, image_shape: Any = None
) -> Tensor:
    """The step in which each target is drawn, −1 elsewhere; target and result [rows, variables …].

    Args:
        order: "random" (an own one for each row), "forward", "outwards" (from the middle of an image, shuffled a little, the
            same for all rows), or a permutation of all variables, counted from 0.
        block: so many targets at a time, far apart from each other in the row (of a given permutation: one after the other);
            or (height, width), the targets in such a patch of the image at a time.
    """
    flat = target.flatten(1).cpu()
    name = order if isinstance(order, str) else None
    if name is not None and name not in ORDERS:
        raise InputError(f"there is no order {order!r}; give {', '.join(ORDERS)} or a permutation of the variables.")
    image: Any = tuple(target.shape[1:]) if target.dim() == 3 else image_shape
    if isinstance(block, int) and not isinstance(order, str):
        place = _places(order, flat.shape[1])
        unit = _rank(flat[:, place], _whole(block, flat))[:, place.argsort()]
    elif isinstance(block, int) and name != "outwards":
        count, block = flat.sum(1, keepdim=True), _whole(block, flat)
        unit = _rank(flat, 1) % ((count + block - 1) // block).clamp_min(1)
    elif name is not None:
        if isinstance(block, int) and block != 1:
            raise InputError("the order outwards goes with one pixel at a time, or with patches (height, width).")
        sides = (1, 1) if isinstance(block, int) else block
        unit = _patches(sides, image).expand_as(flat)
    else:
        raise InputError("a permutation of the variables goes with a number of variables at a time, not with patches.")
    n_units = int(unit.max()) + 1
    first = torch.arange(n_units, dtype=torch.float32).expand(len(flat), -1)
    if name == "random":
        first = torch.rand(len(flat), n_units, generator=generator, device=_device(generator)).cpu()
    elif name == "outwards":
        first = _from_the_middle(sides, image, generator).expand(len(flat), -1)
    used = torch.zeros(len(flat), n_units).scatter_add(1, unit, flat.float()) > 0
    rank = first.masked_fill(~used, math.inf).argsort(dim=1, stable=True).argsort(1)
    return torch.where(flat, rank.gather(1, unit), -1).reshape(target.shape).to(target.device)


def _rank(flat: Tensor, block: int) -> Tensor:
    """Which of its row's targets each is, in blocks."""
    return (flat.cumsum(1) - 1).clamp_min(0) // block


def _whole(block: int, flat: Tensor) -> int:
    if isinstance(block, bool) or not 1 <= block <= flat.shape[1]:
        raise InputError(f"a block must have between 1 and all {flat.shape[1]} variables, not {block}.")
    return block


def _places(order: "Sequence[int] | Tensor", size: int) -> Tensor:
    try:
        place = torch.as_tensor(order).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"an order must be a permutation of the variables, not {order!r}.") from error
    if place.shape != (size,) or not torch.equal(place.sort().values, torch.arange(size, dtype=place.dtype)):
        raise InputError(f"an order must have each of the {size} variables once, as numbers from 0 to {size - 1}.")
    return place.long()


def _patches(sides: Any, image: "tuple[int, int] | None") -> Tensor:
    """The number of the patch that each pixel lies in [V], row by row."""
    if image is None:
        raise InputError("patches and the order outwards need an image, but this model does not say what image it has.")
    if not isinstance(sides, tuple) or len(sides) != 2 or not all(isinstance(side, int) for side in sides):
        raise InputError(f"a block must be a number of variables, or a patch (height, width), not {sides!r}.")
    height, width = sides
    if not (1 <= height <= image[0] and 1 <= width <= image[1]):
        raise InputError(f"a patch of {height}×{width} pixels does not fit into an image of {image[0]}×{image[1]}.")
    row, column = torch.arange(image[0]) // height, torch.arange(image[1]) // width
    return (row[:, None] * (int(column[-1]) + 1) + column).flatten()


def _from_the_middle(sides: tuple[int, int], image: tuple[int, int], generator: Any) -> Tensor:
    """The distance of each patch from the middle, in patches, shuffled."""
    away = [(torch.arange(0, size, side) + side / 2 - size / 2) / side for size, side in zip(image, sides, strict=True)]
    distance = torch.stack(torch.meshgrid(*away, indexing="ij")).norm(dim=0).flatten()
    return distance + SHUFFLE * torch.rand(len(distance), generator=generator, device=_device(generator)).cpu()


def _device(generator: "torch.Generator | None") -> torch.device:
    return torch.device("cpu") if generator is None else generator.device


# ---------------------------------------------------------------------------------------------------------------------
# The chain rule


def targets(model: "Model", query: Query) -> Tensor:
    """What is to be drawn: the targets, but no pixel whose value is known."""
    model.check(query)
    target = model.target(query)
    if model.variables.kind == "real":
        target = target & (query.observed != 1)
    if not bool(target.any()):
        raise InputError("the query has no targets; leave at least one variable unobserved.")
    return target


class Evidence:
    """What is known so far: the evidence of a query, and the variables that were drawn since.

    `values` is what stands in a query: numbers, or likelihoods of states; of a grid, likelihoods of labels.
    """

    def __init__(self, model: "Model", query: Query) -> None:
        self.model, self.weight = model, query.observed.clone()
        if model.variables.kind == "label":
            self.values, self.weight = model.evidence(query).exp(), torch.ones_like(query.observed)
            self.filled = torch.full(query.shape, math.nan, dtype=model.dtype, device=query.device)
            return
        self.values = query.values.to(model.dtype, copy=True)
        known, values = query.observed != 0, self.values
        if self.values.dim() > self.weight.dim():  # likelihoods: known if one state alone is possible
            known, values = (query.observed == 1) & ((self.values > 0).sum(-1) == 1), self.values.argmax(-1).to(model.dtype)
        self.filled = torch.where(known, values, math.nan)

    def add(self, where: Tensor, drawn: Tensor) -> None:
        """From now on the variables there [rows, …] have the values drawn [count]."""
        drawn = drawn.to(self.filled)
        self.filled[where] = drawn
        self.weight[where] = 1
        if self.values.dim() > self.weight.dim():
            states = torch.arange(self.values.shape[-1], device=drawn.device)
            self.values[where] = (drawn[:, None] == states).to(self.values)
        else:
            self.values[where] = drawn

    def query(self, rows: Tensor) -> Query:
        return Query(self.values[rows], self.weight[rows])


def ask(model: "Model", query: Callable[[Tensor], Query], where: Tensor, engine: Engine | None) -> Distribution:
    """Marginals of the variables where `where` [rows, …] is true, row by row [count]; other rows are not asked."""
    answer = _max_marginals if model.variables.kind == "label" and getattr(engine, "temperature", None) == 0 else _marginals
    kept = (engine or model.engine).at(1).kept_bytes(model, tuple(where.shape[1:]))
    rows = where.flatten(1).any(1).nonzero()[:, 0]
    parts = rows.split(max(1, min(MAX_BATCH, MAX_BYTES // max(1, kept))))
    with torch.no_grad():
        return _joined([_at(answer(model, query(part), engine), where[part]) for part in parts])


def _marginals(model: "Model", query: Query, engine: Engine | None) -> Distribution:
    marginals: Distribution = model(query, engine=engine)
    return marginals


def _max_marginals(model: "Model", query: Query, engine: Engine | None) -> Distribution:
    """Of labels at T = 0: each as probable as the best of its clones, of which the model's own marginals are the sum."""
    *_, last = model.layers(query, engine=engine)
    states = last.hidden.logits.split(model.graph().clones, -1)  # type: ignore[attr-defined, union-attr]
    return Categorical(logits=torch.stack([state.amax(-1) for state in states], -1), validate_args=False)


def _at(marginals: Distribution, where: Tensor) -> Distribution:
    if isinstance(marginals, Normal):
        return Normal(marginals.loc[where], marginals.scale[where], validate_args=False)
    assert isinstance(marginals, Bernoulli | Categorical)
    return type(marginals)(logits=marginals.logits[where], validate_args=False)


def _joined(parts: Sequence[Distribution]) -> Distribution:
    if isinstance(parts[0], Normal):
        loc, scale = (torch.cat([getattr(part, name) for part in parts]) for name in ("loc", "scale"))
        return Normal(loc, scale, validate_args=False)
    assert isinstance(parts[0], Bernoulli | Categorical)
    return type(parts[0])(logits=torch.cat([part.logits for part in parts]), validate_args=False)  # type: ignore[attr-defined]


class Completion:
    """Targets that get values by the chain rule, a step at a time: iterate over it, or `finish` it.

    Args:
        query: what is known; `steps` [rows, …] says in which step each of its targets gets a value (see `steps_of`).
        choose: makes values [count] of the marginals of a step and where they are [rows, …].
    """

    def __init__(
        self,
        model: "Model",
        query: Query,
        steps: Tensor,
        choose: Callable[[Distribution, Tensor], Tensor],
        engine: Engine | None = None,
    ) -> None:
        self.evidence, self.steps, self.choose, self.engine = Evidence(model, query), steps, choose, engine
        self.log_prob = torch.zeros(len(steps), dtype=torch.float64, device=steps.device)
        """Of the values so far [rows], in nats."""

    def __len__(self) -> int:
        return int(self.steps.max()) + 1

    def __iter__(self) -> Iterator[Tensor]:
        """After each step all values so far [rows, …], in the same tensor; NaN where there is none yet."""
        for step in range(len(self)):
            possible = ~self.log_prob.isneginf()  # impossible values are no evidence
            where = (self.steps == step) & possible.reshape(-1, *[1] * (self.steps.dim() - 1))
            if bool(where.any()):
                marginals = ask(self.evidence.model, self.evidence.query, where, self.engine)
                values = self.choose(marginals, where)
                self.log_prob.index_add_(0, where.nonzero()[:, 0], marginals.log_prob(values).double())
                self.evidence.add(where, values)
            yield self.evidence.filled

    def finish(self, what: str) -> Tensor:
        """Take all steps, with a progress bar: the values [rows, …]."""
        for _ in progress(self, what, len(self)):
            pass
        return self.evidence.filled


def draw(marginals: Distribution, generator: "torch.Generator | None" = None) -> Tensor:
    """One value of each variable [count]."""
    device = _device(generator)
    if isinstance(marginals, Normal):
        noise = torch.randn(marginals.loc.shape, generator=generator, dtype=marginals.loc.dtype, device=device)
        return marginals.loc + marginals.scale * noise.to(marginals.loc.device)
    probs: Tensor = marginals.probs.to(device)  # type: ignore[attr-defined]
    if isinstance(marginals, Bernoulli):
        return torch.bernoulli(probs, generator=generator)
    return torch.multinomial(probs, 1, generator=generator)[:, 0]


def likeliest(marginals: Distribution) -> Tensor:
    """The most probable value of each variable [count]."""
    if isinstance(marginals, Bernoulli):
        return (marginals.logits > 0).to(marginals.logits)
    return marginals.logits.argmax(-1) if isinstance(marginals, Categorical) else marginals.mean


# ---------------------------------------------------------------------------------------------------------------------
# Answers


METHODS = {"sample": ("chain", "perturb"), "most_probable": ("chain", "max-product")}


def sampled(
    model: "Model",
    query: Query,
    n: int = 1,
    order: Order = "random",
    block: Block = 1,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
) -> Completion:
    """As `sample`, by the chain rule, a step at a time, with the n completions of each row below each other [n · batch, …]."""
    target, many = _repeated(model, query, n)
    steps = steps_of(target, order, block, generator, model.image_shape)
    return Completion(model, many, steps, lambda marginals, _: draw(marginals, generator), engine)


def _repeated(model: "Model", query: Query, n: int) -> tuple[Tensor, Query]:
    """What is to be drawn, and the query, n times below each other [n · batch, …]."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise InputError(f"n must be a whole number of samples ≥ 1, not {n!r}.")
    target = targets(model, query)
    many = query[torch.arange(len(query), device=query.device).repeat(n)]
    return target.repeat(n, *[1] * (target.dim() - 1)), many


def sample(
    model: "Model",
    query: Query,
    n: int = 1,
    order: Order = "random",
    block: Block = 1,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
    method: str = "chain",
) -> Tensor:
    """Joint samples of all targets given the evidence [n, batch, …], with the evidence filled in.

    What is neither observed nor a target is NaN, and so is a variable with likelihoods of several states. Of a grid, samples
    are labels. `order` and `block` are as in `steps_of`.

    Args:
        method: "chain" draws from the model's own marginals by the chain rule; "perturb", for discrete models that were
            trained as densities, is perturb-and-max-product (see `perturbed`), which knows neither order nor block.
    """
    _check_method("sample", method)
    if method == "chain":
        return sampled(model, query, n, order, block, generator, engine).finish("samples").reshape(n, *query.shape)
    if not isinstance(order, str) or (order, block) != ("random", 1):
        raise InputError("perturb-and-max-product draws all variables at once; order and block go with method='chain'.")
    target, many = _repeated(model, query, n)
    evidence = Evidence(model, many)
    evidence.add(target, perturbed.states(model, many, generator, engine)[target])
    return evidence.filled.reshape(n, *query.shape)


def _check_method(what: str, method: str) -> None:
    if method not in METHODS[what]:
        raise InputError(f"method must be {' or '.join(METHODS[what])}, not {method!r}.")


def completed(
    model: "Model",
    query: Query,
    method: str = "chain",
    order: Order = "forward",
    block: Block = 1,
    engine: Engine | None = None,
) -> Completion:
    """As `most_probable`, a step at a time."""
    _check_method("most_probable", method)
    if method == "max-product":
        engine = engine or model.engine
        if not isinstance(engine, BP):
            raise InputError(f"max-product is belief propagation at T = 0; give engine=qtcore.BP(…), not {engine}.")
        engine = replace(engine, temperature=0.0)
    steps = steps_of(targets(model, query), order, block, None, model.image_shape)
    return Completion(model, query, steps, lambda marginals, _: likeliest(marginals), engine)


def most_probable(
    model: "Model",
    query: Query,
    method: str = "chain",
    order: Order = "forward",
    block: Block = 1,
    engine: Engine | None = None,
) -> Tensor:
    """A completion of high joint probability [batch, …]: the targets get values one after the other, each the most probable
    one given those before.

    Args:
        method: "chain" takes the most probable value of each marginal, which sums over what is not yet known;
            "max-product" that of each max-marginal (belief propagation at T = 0), which maximises over it, hidden variables
            included: on a tree this is the jointly most probable state. For models of discrete variables.
    """
    return completed(model, query, method, order, block, engine).finish("most probable")


def smoothed(model: "Model", values: Tensor, block: Block = (3, 3), engine: Engine | None = None) -> Tensor:
    """Samples [rows, V] of a model of real variables without their grain: each block at its mean given all others.

    Better to look at, but no samples of the model any more, and not to be scored.
    """
    *_, means = smoothing(model, values, torch.ones_like(values, dtype=torch.bool), block, engine)
    return means


def smoothing(
    model: "Model", values: Tensor, where: Tensor, block: Block = (3, 3), engine: Engine | None = None
) -> Iterator[Tensor]:
    """As `smoothed`, a block at a time, and only where `where` [rows, V] is true; all rows get the same blocks."""
    if model.variables.kind != "real":
        raise InputError(f"samples of real variables have grain; this model is a {type(model).__name__}.")
    steps = steps_of(where.any(0, keepdim=True), "forward", block, None, model.image_shape)
    means = values.clone()
    for step in range(int(steps.max()) + 1):
        part = (steps == step).expand_as(values)
        means[part] = ask(model, Query(values, ~part).__getitem__, part, engine).mean
        yield torch.where(where, means, values)
