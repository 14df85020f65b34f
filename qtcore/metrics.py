"""Scores of marginals: normalised cross-entropy in bits, and intersection over union."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution

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
