"""Joint questions that cannot be answered: one sentence each, of every kind of model."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import qtcore
from qtcore import FactorGraph, PairwiseMRF, Query
from qtcore.errors import InputError
from qtcore.inference.questions import acquire

from ..strategies import build

KINDS = ("RBM", "DBM", "GaussianRBM", "PairwiseMRF", "FactorGraph", "GridMRF")
Ask = Callable[[Any, Query], object]
SENTENCE = re.compile(r"[^\n]{20,250}\.")


def asked(model: Any, target: bool = True) -> Query:
    """Everything is a target, or nothing is; of a grid all pixels are read."""
    shape = (2, model.height, model.width) if model.variables.kind == "label" else (2, model.size)
    observed = torch.full(shape, model.variables.kind == "label" or not target)
    return Query(torch.zeros(shape), observed, torch.full(shape, target), torch.zeros(shape))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("target", "ask", "said"),
    [
        (False, lambda m, q: m.sample(q), "no targets"),
        (False, lambda m, q: m.most_probable(q), "no targets"),
        (False, lambda m, q: m.log_prob(q), "no targets"),
        (False, lambda m, q: qtcore.consistency(m, q), "no targets"),
        (False, lambda m, q: qtcore.next_question(m, q), "no unobserved variable to learn about"),
        (True, lambda m, q: m.sample(q, 0), "n must be a whole number of samples ≥ 1, not 0"),
        (True, lambda m, q: m.sample(q, 2.0), "n must be a whole number of samples ≥ 1, not 2.0"),
        (True, lambda m, q: m.sample(q, order=[0, 0, 1]), "an order must have each of the"),
        (True, lambda m, q: m.most_probable(q, order=[1]), "an order must have each of the"),
        (True, lambda m, q: m.log_prob(q, [[0.5]]), "an order must have each of the"),
        (True, lambda m, q: m.log_prob(q, 0), "orders must be at least 1, not 0"),
        (True, lambda m, q: m.sample(q, order="upwards"), "there is no order 'upwards'"),
        (True, lambda m, q: m.sample(q, block=10**6), "a block must have between 1 and all"),
        (True, lambda m, q: m.sample(q, block=0), "a block must have between 1 and all"),
        (True, lambda m, q: m.sample(q, method="gibbs"), "method must be chain or perturb"),
        (True, lambda m, q: qtcore.next_question(m, q, about=[10**6]), "about must be numbers of variables from 0 to"),
        (True, lambda m, q: m.sample("everything"), "expects a qtcore.Query"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_sentence(kind: str, target: bool, ask: Ask, said: str) -> None:
    model = build(kind)
    with pytest.raises(InputError, match=said) as caught:
        ask(model, asked(model, target))
    assert SENTENCE.fullmatch(str(caught.value))


@pytest.mark.parametrize("kind", KINDS)
def test_patches_that_are_too_large(kind: str) -> None:
    model = build(kind)
    if model.variables.kind != "label":
        model.image_shape = (1, model.size)
    with pytest.raises(InputError, match="a patch of 99×1 pixels does not fit into an image of") as caught:
        model.sample(asked(model), block=(99, 1))
    assert SENTENCE.fullmatch(str(caught.value))


@pytest.mark.parametrize("kind", ["FactorGraph", "PairwiseMRF"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda m, q: m.sample(q),
        lambda m, q: m.sample(q, method="perturb"),
        lambda m, q: m.most_probable(q),
        lambda m, q: m.most_probable(q, "max-product"),
        lambda m, q: m.log_prob(q),
        lambda m, q: m.sample(q, engine=qtcore.Exact()),
        lambda m, q: qtcore.next_question(m, q, about=[1]),
        lambda m, q: acquire(m, q, 1, about=[1], candidates=[3]),
    ],
)
def test_evidence_that_contradicts_itself(kind: str, ask: Ask) -> None:
    """The first and the third variable equal the second one, so that they cannot differ."""
    same = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])
    model: Any = FactorGraph((2, 2, 2, 2), {"same": same}, [("same", [(0, 1), (1, 2)])])
    if kind == "PairwiseMRF":
        model = PairwiseMRF((2, 2, 2, 2), [(0, 1), (1, 2)])
        model.tables["pairwise_2x2"].data[:] = same
    with pytest.raises(InputError, match="has probability 0") as caught:
        ask(model, Query(torch.tensor([[0, 0, 1, 0]]), torch.tensor([[True, False, True, False]])))
    assert "\n" not in str(caught.value)
