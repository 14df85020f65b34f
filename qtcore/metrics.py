"""Scores of marginals: normalised cross-entropy in bits, intersection over union, calibration."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution, Normal

from qtcore.errors import InputError
from qtcore.query import Mask, Query

if TYPE_CHECKING:
    from qtcore.inference import Engine
    from qtcore.models.base import Model

BITS = 1 / math.log(2)
"""Nats to bits."""


@dataclass(frozen=True)
class Score:
    """A mean with its standard error over samples, and the number of samples."""

    mean: float
    error: float
    """NaN for a single sample."""
    count: int

    @classmethod
    def of(cls, values: Tensor) -> "Score":
        """The score of one value per sample [n]."""
        values = values.double()
        error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        return cls(float(values.mean()), error, len(values))

    @classmethod
    def over(cls, draws: "list[Score]") -> "Score":
        """The mean over several draws of the queries, with its error over draws (over samples if there is only one)."""
        if len(draws) == 1:
            return draws[0]
        means = torch.tensor([draw.mean for draw in draws], dtype=torch.float64)
        return replace(cls.of(means), count=draws[0].count)

    @classmethod
    def per_target(cls, total: Tensor, count: Tensor, per_image: bool = False) -> "Score":
        """The mean over targets, from each sample's sum over its targets and their number [n]; samples without targets do not
        count. `per_image` averages over the targets of each sample first, then over samples."""
        total, count = total[count > 0], count[count > 0].double()
        if per_image:
            return cls.of(total / count)
        mean = total.sum() / count.sum()
        error = ((total - mean * count) ** 2).sum().sqrt() / count.sum()  # of a ratio of sums
        return cls(float(mean), float(error) if len(count) > 1 else math.nan, len(count))

    def times(self, factor: float) -> "Score":
        """The same score in another unit."""
        return Score(self.mean * factor, self.error * factor, self.count)


def nll(marginals: Distribution, truth: Tensor, target: Tensor) -> Tensor:
    """−log marginal(truth) in nats where `target` is true, 0 elsewhere [B, …]. The truth may be NaN where it is not scored."""
    numbers = marginals.logits if isinstance(marginals, Bernoulli | Categorical) else marginals.mean
    truth = torch.where(target, truth, 0).to(numbers.dtype)
    return torch.where(target, -marginals.log_prob(truth), 0)


def nce(
    model: "Model", query: Query, per_image: bool = False, n_layers: int | None = None, engine: "Engine | None" = None
) -> float:
    """Normalised cross-entropy of a model on a query in bits: −log2 marginal(truth), averaged over the targets.

    `per_image` averages over the targets of each sample first, then over samples (as for the Frey faces).

    Example:
        >>> import torch, qtcore
        >>> from qtcore.metrics import nce
        >>> model = qtcore.RBM.from_textbook(torch.zeros(2, 6), torch.zeros(6), torch.zeros(2))
        >>> query = qtcore.Query(torch.ones(4, 6), torch.zeros(4, 6, dtype=torch.bool))
        >>> round(nce(model, query), 6)  # an uninformed model: one bit per variable
        1.0
    """
    with torch.no_grad():
        losses, target = (tensor.cpu() for tensor in model.nll(query, n_layers, engine))
    if per_image:
        return float(_per_sample(losses, target).mean()) * BITS
    return float(losses.sum(dtype=torch.float64) / target.sum()) * BITS


def _per_sample(losses: Tensor, target: Tensor) -> Tensor:
    """Nats per target, for each sample that has targets."""
    count = target.flatten(1).sum(1)
    return (losses.flatten(1).sum(1, dtype=torch.float64) / count)[count > 0]


def iou(labels: Tensor, p_out: Tensor, out: int = 1) -> Tensor:
    """Intersection over union of the foreground (everything but OUT) in each image [B]; predicted where p(OUT) < ½.

    Example:
        >>> import torch
        >>> from qtcore.metrics import iou
        >>> iou(torch.tensor([[[0, 2, 1, 1]]]), torch.tensor([[[0.1, 0.9, 0.2, 0.9]]]))  # one of three is in both
        tensor([0.3333], dtype=torch.float64)
    """
    truth, predicted = labels != out, p_out < 0.5
    both = (truth & predicted).flatten(1).sum(1).double()
    either = (truth | predicted).flatten(1).sum(1).double()
    return torch.where(either > 0, both / either, 1.0)


def force_frame(p: Tensor, out: int = 1) -> Tensor:
    """Marginals [B, height, width, 3] with the image's one-pixel frame forced to OUT, as in the authors' evaluation."""
    p = p.clone()
    frame = torch.ones(p.shape[1:3], dtype=torch.bool, device=p.device)
    frame[1:-1, 1:-1] = False
    p[:, frame] = torch.nn.functional.one_hot(torch.tensor(out), p.shape[-1]).to(p)
    return p


def batches(values: Tensor, truth: Tensor | None, size: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Values and truth in batches of at most `size` rows."""
    for start in range(0, len(values), size):
        yield values[start : start + size], None if truth is None else truth[start : start + size]


def score(
    model: "Model",
    values: Tensor,
    queries: Mask,
    generator: torch.Generator,
    truth: Tensor | None = None,
    per_image: bool = False,
    n_layers: int | None = None,
    batch: int = 500,
    engine: "Engine | None" = None,
) -> Score:
    """NCE in nats over a dataset with freshly drawn queries, with its standard error over samples."""
    sums, counts = [], []
    with torch.no_grad():
        for part, labels in batches(values, truth, batch):
            query = queries(part, generator, labels).to(model.device)
            if not bool(model.target(query).any()):  # possible in a small batch
                continue
            losses, target = model.nll(query, n_layers, engine)
            sums.append(losses.flatten(1).cpu().sum(1, dtype=torch.float64))  # not every device has float64
            counts.append(target.flatten(1).sum(1).cpu())
    if not sums:
        raise InputError("none of the queries has a target, so there is nothing to score.")
    return Score.per_target(torch.cat(sums), torch.cat(counts), per_image)


INTERVALS = (0.5, 0.8, 0.95)
"""Of a real variable: the central parts of its marginal in which the truth should lie so often."""
BINS = 10
"""Of a probability: equal parts of [0, 1]."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What marginals claim, and how often it is so: of probabilities, in each bin that is not empty; of real variables, for
    each central interval."""

    claimed: Tensor
    """The mean probability in a bin, or the share of an interval."""
    true: Tensor
    """How often what has that probability is so, or the truth lies in the interval."""
    count: Tensor
    """Probabilities in a bin, or truths."""

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of `claimed` and `true`, each weighted by its count."""
        weight = self.count.double() / self.count.sum()
        return float((weight * (self.claimed - self.true).abs()).sum())


def calibration(parts: "Iterable[tuple[Distribution, Tensor, Tensor]]") -> Calibration:
    """Of marginals, each with its truth and its boolean targets. Every state of a categorical variable counts as an event.

    Example:
        >>> import torch
        >>> from qtcore.metrics import calibration
        >>> coins = torch.distributions.Bernoulli(torch.full((1, 4), 0.7))
        >>> result = calibration([(coins, torch.tensor([[1.0, 1, 1, 0]]), torch.ones(1, 4, dtype=torch.bool))])
        >>> [round(float(number), 3) for number in (result.claimed, result.true, result.error)]
        [0.7, 0.75, 0.05]
    """
    sums = torch.zeros(3, BINS, dtype=torch.float64)
    inside = torch.zeros(len(INTERVALS), dtype=torch.float64)
    truths = 0
    for marginals, truth, target in parts:
        if isinstance(marginals, Normal):
            z = ((truth - marginals.mean) / marginals.stddev)[target].double().cpu().abs()
            share = torch.erf(z / math.sqrt(2))  # the central interval that ends at the truth
            inside += torch.stack([(share <= part).sum() for part in INTERVALS])
            truths += len(share)
            continue
        p, event = _events(marginals, truth, target)
        place = (p * BINS).long().clamp(0, BINS - 1)
        sums.index_add_(1, place, torch.stack([p, event, torch.ones_like(p)]))
    if truths:
        claimed, count = torch.tensor(INTERVALS, dtype=torch.float64), torch.full((len(INTERVALS),), truths)
        return Calibration(claimed, inside / truths, count)
    used = sums[2] > 0
    if not bool(used.any()):
        raise InputError("none of the queries has a target, so there is nothing to compare with.")
    p, event, weight = sums[:, used]
    return Calibration(p / weight, event / weight, weight.long())


def _events(marginals: Distribution, truth: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of events, and whether (or how far) they are so."""
    probs: Tensor = marginals.probs[target].double().cpu()  # type: ignore[attr-defined]
    truth = truth[target].cpu()
    if isinstance(marginals, Bernoulli):
        return probs, truth.double()
    states = torch.arange(probs.shape[1])
    event = (truth[:, None] == states).double()
    possible = probs > 0  # states that a variable does not have
    return probs[possible], event[possible]
