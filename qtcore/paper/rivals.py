"""What people would pick instead of query training: each learns from the same rows and answers the same queries about bits."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Distribution

from qtcore.data import Dataset
from qtcore.learn.query_training import generator
from qtcore.metrics import BITS, Score, nll
from qtcore.query import Query, uniform
from qtcore.support.extras import required

CERTAIN = 1e-4
"""No rival that counts or regresses claims a probability nearer to 0 or 1 than this: a single error would cost everything."""
VALID_ROWS = 1000
"""Validation rows by which a rival's sizes, penalties and last step are chosen."""
BATCH = 500
"""Rows answered at a time."""


class Rival(Protocol):
    """A predictor of the unobserved bits."""

    settings: dict[str, Any]
    """How it was made, as plain values."""

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        ...

    def __call__(self, query: Query) -> Distribution:
        """The marginals of all bits [B, V]; only those of targets matter."""
        ...


def scored(predict: Any, rows: Tensor, masks: Tensor) -> Score:
    """NCE in bits of a predictor, ours or another, on the targets of these masks [n, V]."""
    sums, counts = [], []
    with torch.no_grad():
        for start in range(0, len(rows), BATCH):
            query = Query(rows[start : start + BATCH], masks[start : start + BATCH])
            losses = nll(predict(query), query.truth, query.target)
            sums.append(losses.sum(1, dtype=torch.float64))
            counts.append(query.target.sum(1))
    return Score.per_target(torch.cat(sums), torch.cat(counts)).times(BITS)


def validation(dataset: Dataset, rows: int = VALID_ROWS) -> tuple[Tensor, Tensor]:
    """Validation rows and one draw of the queries, the same for every rival."""
    some = dataset.valid[:rows]
    return some, uniform().draw(some.shape, generator(0, 3))


def certain(p: Tensor) -> Bernoulli:
    """Bits with these probabilities, none of them certain."""
    return Bernoulli(probs=p.clamp(CERTAIN, 1 - CERTAIN), validate_args=False)


# ---------------------------------------------------------------------- how often each bit is 1


class Frequencies:
    """Every bit by itself: how often it is 1."""

    def __init__(self, dataset: Dataset) -> None:
        self.p = (dataset.train.double().sum(0) + 0.5) / (len(dataset.train) + 1)
        self.settings: dict[str, Any] = {}

    @property
    def parameters(self) -> int:
        return len(self.p)

    def __call__(self, query: Query) -> Distribution:
        return Bernoulli(probs=self.p.float().expand(query.shape), validate_args=False)


# ---------------------------------------------------------------------- a network of values and masks


@dataclass(frozen=True)
class Network:
    """Settings of a masked network: two hidden layers."""

    units: int = 256
    dropout: float = 0.0
    steps: int = 6000
    batch: int = 250
    learning_rate: float = 2e-3
    validate_every: int = 250


NETWORKS = (Network(), Network(units=512, dropout=0.3))
"""The better one on validation data is kept."""


class MaskedNetwork(nn.Module):
    """Values and mask in, the logits of all bits out; trained on the same queries."""

    def __init__(self, n_visible: int, choice: Network) -> None:
        super().__init__()
        self.settings: dict[str, Any] = asdict(choice)
        layers: list[nn.Module] = []
        for size in (2 * n_visible, choice.units):
            layers += [nn.Linear(size, choice.units), nn.ReLU(), nn.Dropout(choice.dropout)]
        self.body = nn.Sequential(*layers, nn.Linear(choice.units, n_visible))

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in nn.Module.parameters(self))

    def forward(self, query: Query) -> Distribution:
        seen = query.observed.to(torch.float32)
        logits = self.body(torch.cat([query.values.float() * seen, seen], 1))
        return Bernoulli(logits=logits, validate_args=False)


class Answering:
    """A trained network as a rival, with its best weights on validation data."""

    def __init__(self, network: MaskedNetwork) -> None:
        self.network, self.settings = network.eval(), network.settings

    @property
    def parameters(self) -> int:
        return self.network.n_parameters

    def __call__(self, query: Query) -> Distribution:
        result: Distribution = self.network(query)
        return result


def train_network(dataset: Dataset, choice: Network, seed: int = 0) -> tuple[Answering, float]:
    """The network after its best step on validation data, and its NCE there in bits."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = MaskedNetwork(dataset.train.shape[1], choice)
        optimiser = torch.optim.Adam(network.parameters(), lr=choice.learning_rate, fused=True)
        best, best_step, weights = math.inf, 0, network.state_dict()
        rows, masks = validation(dataset)
        for step, query in enumerate(_minibatches(dataset.train, choice.batch, choice.steps, seed), 1):
            optimiser.param_groups[0]["lr"] = choice.learning_rate * (1 - (step - 1) / choice.steps)
            losses = nll(network.train()(query), query.truth, query.target)
            optimiser.zero_grad()
            (losses.sum() / query.target.sum()).backward()
            optimiser.step()
            if step % choice.validate_every == 0 or step == choice.steps:
                score = scored(network.eval(), rows, masks).mean
                if score < best:
                    best, best_step, weights = score, step, copy.deepcopy(network.state_dict())
    network.load_state_dict(weights)
    network.settings |= {"kept": best_step}
    return Answering(network), best


def _minibatches(rows: Tensor, batch: int, steps: int, seed: int) -> Iterator[Query]:
    queries = uniform()
    for step in range(steps):
        draw = generator(seed, 7, step)
        chosen = torch.randint(len(rows), (min(batch, len(rows)),), generator=draw)
        yield queries(rows[chosen], draw)


def network_of(dataset: Dataset, seed: int = 0, quick: bool = False) -> tuple[Answering, float]:
    choices = [replace(choice, steps=60, validate_every=20) for choice in NETWORKS] if quick else NETWORKS
    return min((train_network(dataset, choice, seed) for choice in choices), key=lambda pair: pair[1])


# ---------------------------------------------------------------------- chained classifiers


PENALTIES = (0.03, 0.3)
"""Inverse strengths of the penalty on the weights of the classifiers; the better one on validation data is kept."""
ROUNDS = 2
"""Passes through all columns."""
IMPUTER_ROWS = 5000
"""Training rows at most: it solves a regression for every bit in every round."""


class Imputer:
    """scikit-learn's IterativeImputer with a logistic regression for each bit on all the others, unobserved ones at their
    current probability."""

    def __init__(self, dataset: Dataset, penalty: float, rounds: int = ROUNDS, rows: int = IMPUTER_ROWS, seed: int = 0) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (needed for the next import)
        from sklearn.impute import IterativeImputer

        self.settings: dict[str, Any] = {"C": penalty, "rounds": rounds, "rows": min(rows, len(dataset.train))}
        train = dataset.train[:rows]
        observed = uniform().draw(train.shape, generator(seed, 4))
        observed[0] = True  # a column that is never observed would be dropped
        options: dict[str, Any] = {"initial_strategy": "mean", "min_value": 0.0, "max_value": 1.0, "tol": 0.0}
        self.imputer = IterativeImputer(_Chance(penalty), max_iter=rounds, random_state=seed, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # there are so many rounds and no more
            self.imputer.fit(_with_gaps(train, observed))

    @property
    def parameters(self) -> int:
        return sum(triplet.estimator.n_weights for triplet in self.imputer.imputation_sequence_)

    def __call__(self, query: Query) -> Distribution:
        gaps = _with_gaps(query.values, query.observed != 0)
        return certain(torch.from_numpy(np.asarray(self.imputer.transform(gaps))).float())


def _with_gaps(rows: Tensor, observed: Tensor) -> np.ndarray:
    return torch.where(observed, rows.double(), torch.nan).numpy()


def _chance() -> type:
    """The class of `_Chance`, made when it is needed: scikit-learn takes a second to import."""
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.linear_model import LogisticRegression

    class Chance(RegressorMixin, BaseEstimator):
        """A classifier whose prediction is the probability of 1, as IterativeImputer fills in what is predicted. A target
        between 0 and 1 is a row of each, weighted."""

        def __init__(self, C: float = 0.1) -> None:
            self.C = C

        def fit(self, X: np.ndarray, y: np.ndarray) -> "Chance":
            self.mean_ = float(np.clip(y.mean(), CERTAIN, 1 - CERTAIN))
            self.n_weights, self.classifier_ = 1, None
            if 0 < y.mean() < 1:
                soft = ((y > 0) & (y < 1)).any()
                rows, labels = (np.concatenate([X, X]), np.repeat([0, 1], len(y))) if soft else (X, (y > 0.5).astype(int))
                weights = np.concatenate([1 - y, y]) if soft else None
                self.classifier_ = LogisticRegression(C=self.C, max_iter=50, tol=1e-3).fit(rows, labels, sample_weight=weights)
                self.n_weights = X.shape[1] + 1
            return self

        def predict(self, X: np.ndarray) -> np.ndarray:
            if self.classifier_ is None:
                return np.full(len(X), self.mean_)
            return np.asarray(self.classifier_.predict_proba(X)[:, 1])

    return Chance


def _Chance(C: float) -> Any:
    return _chance()(C)


def imputer_of(dataset: Dataset, seed: int = 0, quick: bool = False) -> tuple[Imputer, float]:
    rows, masks = validation(dataset, 500)
    size = {"rounds": 1, "rows": 200} if quick else {}
    made = [Imputer(dataset, penalty, seed=seed, **size) for penalty in PENALTIES[: 1 if quick else None]]
    return min(((each, scored(each, rows, masks).mean) for each in made), key=lambda pair: pair[1])


# ---------------------------------------------------------------------- a probabilistic circuit


@dataclass(frozen=True)
class Circuitry:
    """Settings of a circuit, and of its training by maximum likelihood."""

    states: int = 16
    steps: int = 300
    batch: int = 250
    learning_rate: float = 0.1
    validate_every: int = 30
    patience: int = 4


class Circuit:
    """A hidden Chow–Liu tree of the library SPFlow: exact marginals of any bits given any others."""

    def __init__(self, dataset: Dataset, choice: Circuitry, seed: int = 0) -> None:
        learn = required("spflow.zoo.hclt.learn", "compare")
        self.settings: dict[str, Any] = asdict(choice)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            hard = (dataset.train > 0.5).float()
            self.module = learn.learn_hclt_binary(hard, num_hidden_cats=choice.states, init="uniform")
        leaves = [module for module in self.module.modules() if type(module).__name__ == "Bernoulli"]
        self.leaves = sorted(leaves, key=lambda leaf: int(leaf.scope.query[0]))
        self.best = self._train(dataset, choice, seed)

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())

    def _train(self, dataset: Dataset, choice: Circuitry, seed: int) -> float:
        """Maximum likelihood; the NCE on validation data in bits says when to stop."""
        optimiser = torch.optim.Adam(self.module.parameters(), lr=choice.learning_rate)
        best, best_step, weights = math.inf, 0, copy.deepcopy(self.module.state_dict())
        rows, masks = validation(dataset)
        for step, query in enumerate(_minibatches(dataset.train, choice.batch, choice.steps, seed), 1):
            optimiser.param_groups[0]["lr"] = choice.learning_rate * (1 - (step - 1) / choice.steps)
            hard = torch.bernoulli(query.values.float(), generator=generator(seed, 8, step))  # grey values are chances
            optimiser.zero_grad()
            (-self.module.log_likelihood(hard).mean()).backward()
            optimiser.step()
            if step % choice.validate_every == 0 or step == choice.steps:
                score = scored(self, rows, masks).mean
                if score < best:
                    best, best_step, weights = score, step, copy.deepcopy(self.module.state_dict())
                if step >= best_step + choice.patience * choice.validate_every:
                    break
        self.module.load_state_dict(weights)
        self.settings |= {"kept": best_step}
        return best

    def __call__(self, query: Query) -> Distribution:
        """The gradient of the log-likelihood with respect to those of a leaf's components is their posterior."""
        cache = required("spflow.utils.cache", "compare").Cache()
        hard = torch.where(query.observed != 0, (query.values > 0.5).float(), torch.nan)
        with torch.enable_grad():
            total = self.module.log_likelihood(hard, cache=cache).sum()
            given = [cache["log_likelihood"][leaf] for leaf in self.leaves]
            posteriors = torch.autograd.grad(total, given)
        columns = [
            (posterior.flatten(1) * leaf.probs.detach().flatten()).sum(1) / posterior.flatten(1).sum(1)
            for leaf, posterior in zip(self.leaves, posteriors, strict=True)
        ]
        return certain(torch.stack(columns, 1))


def circuit_of(dataset: Dataset, seed: int = 0, quick: bool = False) -> tuple[Circuit, float]:
    choice = Circuitry(states=4, steps=20, validate_every=10) if quick else Circuitry()
    circuit = Circuit(dataset, choice, seed)
    return circuit, circuit.best


def frequencies_of(dataset: Dataset, seed: int = 0, quick: bool = False) -> tuple[Frequencies, float]:
    made = Frequencies(dataset)
    return made, scored(made, *validation(dataset)).mean


MAKERS: dict[str, Callable[[Dataset, int, bool], tuple[Rival, float]]] = {
    "mlp": network_of,
    "imputer": imputer_of,
    "circuit": circuit_of,
    "frequencies": frequencies_of,
}
"""By method: what makes it from a dataset and a seed, with its validation NCE in bits."""
