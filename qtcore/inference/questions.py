"""Joint probabilities through a model's own marginals, their consistency, and which variable to ask about next.

model.log_prob(query, orders=8).mean               # log p(targets | evidence) [batch], in nats
qtcore.consistency(model, query)                   # p(a)p(b|a) against p(b)p(a|b), in bits
qtcore.next_question(model, query, about=[12])     # the expected information of every unseen variable, in bits
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Normal

from qtcore.errors import InputError
from qtcore.inference.engine import Engine
from qtcore.inference.sampling import Block, Completion, Evidence, Order, _device, ask, steps_of, targets
from qtcore.metrics import BITS, Score
from qtcore.query import Query
from qtcore.support.progress import progress

if TYPE_CHECKING:
    from qtcore.models.base import Model

NODES = 7
"""Answers of a real variable that stand for all of them (Gauss–Hermite quadrature)."""


# ---------------------------------------------------------------------------------------------------------------------
# Joint probabilities


@dataclass(frozen=True, eq=False)
class LogProb:
    """log p(targets | evidence) in nats (of real variables: of a density), by the chain rule in several orders."""

    each: Tensor
    """In each order [orders, batch]."""

    @property
    def mean(self) -> Tensor:
        """The mean over orders [batch]."""
        return self.each.mean(0)

    @property
    def mixture(self) -> Tensor:
        """The logarithm of the mean probability over orders [batch]: an ensemble, which is a distribution too."""
        return self.each.logsumexp(0) - math.log(len(self.each))

    @property
    def spread(self) -> Tensor:
        """The standard deviation over orders [batch], 0 where marginals are consistent; NaN for a single order."""
        return self.each.std(0) if len(self.each) > 1 else torch.full_like(self.each[0], math.nan)


def log_prob(
    model: "Model",
    query: Query,
    orders: "int | str | Sequence[Order] | Tensor" = 1,
    block: Block = 1,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
) -> LogProb:
    """The joint log-probability of the targets' truth given the evidence.

    `orders` is a number of random ones (each row has its own), the name of one, or a list of them; see `sampling.steps_of`.
    """
    target = targets(model, query)
    model.check_truth(query)
    if model.variables.kind == "binary" and bool((target & (query.truth != 0) & (query.truth != 1)).any()):
        raise InputError("a joint probability needs a truth of 0 or 1 for every target, but some of them are in between.")
    many = _orders(orders)
    steps = [steps_of(target, order, block, generator, model.image_shape) for order in many]
    return _log_prob(model, query, torch.stack(steps), engine)


def _orders(orders: Any) -> "list[Order]":
    if isinstance(orders, int) and not isinstance(orders, bool):
        if orders < 1:
            raise InputError(f"orders must be at least 1, not {orders}.")
        return ["random"] * orders
    many = [orders] if isinstance(orders, str) else list(orders)
    if not many:
        raise InputError("give at least one order, or the number of random ones.")
    return many


def _log_prob(model: "Model", query: Query, steps: Tensor, engine: Engine | None) -> LogProb:
    """In each order, given by steps [orders, batch, …]."""
    rows = torch.arange(len(query), device=query.device).repeat(len(steps))
    truth = query.truth[rows]

    def known(marginals: Distribution, where: Tensor) -> Tensor:
        return truth[where].to(marginals.mean.dtype)

    completion = Completion(model, query[rows], steps.flatten(0, 1), known, engine)
    completion.finish("joint probability")
    return LogProb(completion.log_prob.reshape(len(steps), -1))


def consistency(
    model: "Model", queries: Query, generator: "torch.Generator | None" = None, engine: Engine | None = None
) -> Score:
    """How far p(a | e) p(b | a, e) is from p(b | e) p(a | b, e) in bits, for the truth of two random targets a, b of each row:
    the mean of the absolute difference of their logarithms. It is 0 if marginals are those of one joint distribution.

    Example:
        >>> import torch, qtcore
        >>> tree = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)], dtype=torch.float64)
        >>> rows = torch.tensor([[1, 0, 1], [0, 0, 0]])
        >>> round(qtcore.consistency(tree, qtcore.Query(rows, torch.zeros(2, 3, dtype=torch.bool))).mean, 9)
        0.0
    """
    target = targets(model, queries)
    pairs = target.flatten(1).sum(1) > 1
    if not bool(pairs.any()):
        raise InputError("no row has two targets, which it takes to compare p(a)p(b|a) with p(b)p(a|b).")
    queries, target = queries[pairs], target[pairs]
    shuffled = steps_of(target, "random", 1, generator)
    forth = torch.where(shuffled < 2, shuffled, -1)
    back = torch.where(forth < 0, -1, 1 - forth)
    chosen = Query(queries.values, queries.observed, forth >= 0, queries.given_truth)
    model.check(chosen)
    model.check_truth(chosen)
    one, other = _log_prob(model, chosen, torch.stack([forth, back]), engine).each
    return Score.of((one - other).abs() * BITS)


# ---------------------------------------------------------------------------------------------------------------------
# The next question


@dataclass(frozen=True, eq=False)
class NextQuestion:
    """Which variable to ask about."""

    bits: Tensor
    """Expected information about the targets from learning each variable [batch, …]; NaN where it is no candidate."""

    @property
    def best(self) -> Tensor:
        """The number of the variable that tells most [batch], counted over all variables of a row; −1 without candidates."""
        flat = self.bits.flatten(1)
        return torch.where(flat.isnan().all(1), -1, flat.nan_to_num(-math.inf).argmax(1))


def next_question(
    model: "Model",
    query: Query,
    candidates: "Sequence[int] | Tensor | None" = None,
    about: "Sequence[int] | Tensor | None" = None,
    engine: Engine | None = None,
) -> NextQuestion:
    """The expected information in bits about some variables from learning the value of another one, for each candidate.

    Learning c tells I(a; c | evidence) = H(Σ_c p(c) p(a | c)) − Σ_c p(c) H(p(a | c)) about a variable a, never
    less than 0; this is added up over all variables in `about` but c itself. (Real variables are taken for Gaussian.) The sum
    counts twice what two variables of interest have in common: it is what c tells about each of them, not about all jointly.

    Args:
        candidates: numbers of the variables that could be asked about, or a mask [variables …]; by default all that are
            neither observed nor of interest, or all that are not observed if there is no such variable.
        about: the variables of interest in the same form; by default the query's targets.

    Example:
        >>> import torch, qtcore
        >>> chain = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> nothing = torch.zeros(1, 3, dtype=torch.bool)
        >>> answer = qtcore.next_question(chain, qtcore.Query(nothing.float(), nothing), about=[2])
        >>> answer.best  # the neighbour
        tensor([1])
    """
    asking = Asking(model, query, candidates, about, engine)
    for _ in progress(asking, "questions", len(asking)):
        pass
    return NextQuestion(asking.bits)


class Asking:
    """As `next_question`, a candidate at a time: iterate over it; `bits` [batch, …] are NaN where nothing is known yet."""

    def __init__(
        self,
        model: "Model",
        query: Query,
        candidates: "Sequence[int] | Tensor | None" = None,
        about: "Sequence[int] | Tensor | None" = None,
        engine: Engine | None = None,
    ) -> None:
        model.check(query)
        self.model, self.query, self.engine = model, query, engine
        unknown = query.observed != 1 if model.variables.kind != "label" else torch.ones_like(query.observed, dtype=torch.bool)
        self.wanted = (model.target(query) if about is None else _mask("about", about, query)) & unknown
        if not bool(self.wanted.any()):
            raise InputError("there is no unobserved variable to learn about; name at least one with about.")
        others = unknown & ~self.wanted
        asked = others if bool(others.any()) else unknown
        if candidates is not None:
            asked = _mask("candidates", candidates, query) & unknown
        if not bool(asked.any()):
            raise InputError("there is no unobserved variable to ask about; name at least one with candidates.")
        self.asked = asked.flatten(1)
        self.bits = torch.full(asked.shape, math.nan, dtype=torch.float64, device=query.device)

    def __len__(self) -> int:
        return int(self.asked.any(0).sum())

    def __iter__(self) -> Iterator[Tensor]:
        """After each candidate the bits so far [batch, …], in the same tensor."""
        for column in self.asked.any(0).nonzero()[:, 0].tolist():
            where = torch.zeros_like(self.asked)
            where[:, column] = self.asked[:, column]
            place = where.reshape(self.bits.shape)
            self.bits[place] = _information(self.model, self.query, place, self.wanted, self.engine)
            yield self.bits


@dataclass(frozen=True, eq=False)
class Acquisition:
    """Questions that were asked one after the other, each about the variable whose answer was worth most at that time."""

    asked: Tensor
    """The variable of each question [n, batch]; −1 where there was nothing left to ask."""
    queries: tuple[Query, ...]
    """What is known after 0, 1, …, n answers; the targets are the variables of interest."""


def acquire(
    model: "Model",
    query: Query,
    n: int,
    about: "Sequence[int] | Tensor",
    candidates: "Sequence[int] | Tensor | None" = None,
    at_random: bool = False,
    generator: "torch.Generator | None" = None,
    engine: Engine | None = None,
) -> Acquisition:
    """Ask n questions of each row, greedily: the next one is that of `next_question`, or a random one to compare with. The
    answers are the truth of the query.

    Example:
        >>> import torch, qtcore
        >>> chain = qtcore.PairwiseMRF((2, 2, 2), [(0, 1), (1, 2)])
        >>> rows, nothing = torch.tensor([[0, 1, 1]]), torch.zeros(1, 3, dtype=torch.bool)
        >>> from qtcore.inference.questions import acquire
        >>> answer = acquire(chain, qtcore.Query(rows, nothing), 2, about=[2])
        >>> answer.asked.tolist(), answer.queries[-1].observed.tolist()
        ([[1], [0]], [[True, True, False]])
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise InputError(f"n must be a whole number of questions ≥ 1, not {n!r}.")
    model.check(query)
    if model.variables.kind == "label":
        raise InputError("labels are no evidence, so that questions about them cannot be answered one after the other.")
    wanted = _mask("about", about, query)
    allowed = ~wanted if candidates is None else _mask("candidates", candidates, query) & ~wanted
    everywhere = torch.arange(len(query), device=query.device)
    variables = torch.arange(wanted[0].numel(), device=query.device)
    known, asked = [Query(query.values, query.observed, wanted & (query.observed != 1), query.truth)], []
    for _ in progress(range(n), "questions asked"):
        last = known[-1]
        free = (allowed & (last.observed != 1)).flatten(1)
        if at_random:
            worth = torch.rand(free.shape, generator=generator, device=_device(generator)).to(query.device)
        elif bool(free.any()):  # else there is nothing left to ask, and the worth does not matter
            worth = next_question(model, last, free.reshape(query.shape), wanted, engine).bits.flatten(1)
        chosen = torch.where(free, worth, -math.inf).argmax(1).masked_fill(~free.any(1), -1)
        where = (variables == chosen[:, None]).reshape(query.shape)
        evidence = Evidence(model, last)
        evidence.add(where, query.truth[where])
        answered = evidence.query(everywhere)
        known.append(Query(answered.values, answered.observed, wanted & (answered.observed != 1), query.truth))
        asked.append(chosen)
    return Acquisition(torch.stack(asked), tuple(known))


def _mask(name: str, given: "Sequence[int] | Tensor", query: Query) -> Tensor:
    """Variables as a mask [batch, …]."""
    tensor = torch.as_tensor(given, device=query.device)
    size = query.shape[1:].numel()
    if tensor.dtype == torch.bool and tensor.shape in (query.shape, query.shape[1:]):
        return tensor.expand(query.shape)
    numbers = not (tensor.is_floating_point() or tensor.dtype == torch.bool) and tensor.dim() == 1 and tensor.numel() > 0
    if not numbers or not bool(((tensor >= 0) & (tensor < size)).all()):
        raise InputError(f"{name} must be numbers of variables from 0 to {size - 1}, or a mask, not {given!r}.")
    mask = torch.zeros(size, dtype=torch.bool, device=query.device)
    mask[tensor.long()] = True
    return mask.reshape(query.shape[1:]).expand(query.shape)


def _information(model: "Model", query: Query, where: Tensor, wanted: Tensor, engine: Engine | None) -> Tensor:
    """Bits about the wanted variables [rows] from learning the one where `where` [batch, …] is true, for rows that have one."""
    rows = where.flatten(1).any(1).nonzero()[:, 0]
    values, weights = _possible(ask(model, query.__getitem__, where, engine))  # [rows, answers]
    row, answer = (weights > 0).nonzero().unbind(1)  # impossible answers are not asked about
    evidence = Evidence(model, query[rows[row]])
    evidence.add(where[rows[row]], values[row, answer])
    about = wanted[rows] & ~where[rows]
    total = torch.zeros(len(rows), dtype=torch.float64, device=query.device)
    if not bool(about.any()):
        return total
    after = ask(model, evidence.query, about[row], engine)
    # each entry of `after` is a variable of a row given an answer: its place among the rows' variables, and the answer's weight
    place = (about.flatten().cumsum(0) - 1).reshape(about.shape)[row][about[row]]
    count = about[row].flatten(1).sum(1)
    weight = weights[row, answer].repeat_interleave(count)
    each = _gained(after, place, weight, int(about.sum()))
    return total.index_add_(0, about.nonzero()[:, 0], each) * BITS


def _possible(marginals: Distribution) -> tuple[Tensor, Tensor]:
    """The values that variables may turn out to have, and their probabilities; both [count, answers], in float64."""
    if isinstance(marginals, Normal):
        x, weight = _hermite(marginals.loc.device)
        values = marginals.loc[:, None].double() + marginals.scale[:, None].double() * x
        return values, weight.expand_as(values)
    if isinstance(marginals, Bernoulli):
        probs = torch.stack([torch.sigmoid(-marginals.logits), marginals.probs], 1)
    else:
        assert isinstance(marginals, Categorical)
        probs = marginals.probs
    return torch.arange(probs.shape[1], device=probs.device).double().expand_as(probs), probs.double()


def _hermite(device: torch.device) -> tuple[Tensor, Tensor]:
    """Nodes and weights with Σ w f(x) ≈ E f(x), x ~ N(0, 1): eigenvalues of the recurrence's matrix (Golub and Welsch)."""
    side = torch.arange(1, NODES, dtype=torch.float64).sqrt()
    x, vectors = torch.linalg.eigh(torch.diag(side, 1) + torch.diag(side, -1))
    return x.to(device), (vectors[0] ** 2).to(device)


def _gained(after: Distribution, place: Tensor, weight: Tensor, count: int) -> Tensor:
    """Entropy of the mean minus the mean of the entropies of the distributions at each place [count], in nats."""

    def mean(values: Tensor) -> Tensor:
        result = torch.zeros(count, *values.shape[1:], dtype=torch.float64, device=values.device)
        return result.index_add_(0, place, values.double() * weight.reshape(-1, *[1] * (values.dim() - 1)))

    if isinstance(after, Normal):
        variance = mean(after.variance) + mean(after.loc.double() ** 2) - mean(after.loc) ** 2
        return variance.log() / 2 - mean(after.scale.log())
    probs = torch.stack([torch.sigmoid(-after.logits), after.probs], 1) if isinstance(after, Bernoulli) else after.probs  # type: ignore[attr-defined]
    return _entropy(mean(probs)) - mean(_entropy(probs.double()))


def _entropy(probs: Tensor) -> Tensor:
    return -torch.special.xlogy(probs, probs).sum(-1)
