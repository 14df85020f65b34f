"""Whether beliefs are at rest, oscillate, or still move: `info["period"]` of a layer."""

import pytest
import torch

from qtcore import BP, Exact, PairwiseMRF, Query
from qtcore.inference.engine import AT_REST, MAX_PERIOD

from ..strategies import KINDS, ask, build


def repulsive(n: int = 5, coupling: float = -3.0) -> PairwiseMRF:
    """Everybody wants to be 1, and nobody wants to agree: all change their minds at once, for ever."""
    model = PairwiseMRF([2] * n, [(i, j) for i in range(n) for j in range(i)], dtype=torch.float64)
    with torch.no_grad():
        for table in model.unary:
            table.copy_(torch.tensor([0.0, 1.0]))
        for table in model.pairwise:
            table.copy_(torch.tensor([[coupling, 0.0], [0.0, coupling]]))
    return model


def nothing_seen(n: int = 5) -> Query:
    return Query(torch.zeros(1, n, dtype=torch.long), torch.zeros(1, n, dtype=torch.bool))


def periods(model: PairwiseMRF, engine: BP) -> list[int]:
    with torch.no_grad():
        return [int(layer.info["period"]) for layer in model.layers(nothing_seen(), engine=engine)]


def test_an_oscillation_has_its_period() -> None:
    seen = periods(repulsive(), BP(n_layers=40))
    assert seen[0] == 0  # there is nothing to compare with
    assert set(seen[20:]) == {2}


def test_damping_brings_it_to_rest() -> None:
    seen = periods(repulsive(), BP(n_layers=60, damping=0.7))
    assert seen[-1] == 1
    assert 0 in seen[:5]


def test_exact_marginals_do_not_move() -> None:
    *_, last = repulsive().layers(nothing_seen(), engine=Exact())
    assert last.info["period"].shape == (1,)


@pytest.mark.parametrize("kind", KINDS)
def test_by_hand(kind: str) -> None:
    """The smallest number of layers before which all beliefs, hidden ones too, were the same, of each sample."""
    model = build(kind, 1, 1.5)
    with torch.no_grad():
        layers = list(model.layers(ask(model, 2, "soft"), 12))
        traced = list(model.trace(ask(model, 2, "soft"), 12))

    def numbers(layer: int, sample: int) -> torch.Tensor:
        both = (layers[layer].marginals, layers[layer].hidden)
        return torch.cat([(p.probs if hasattr(p, "probs") else p.mean)[sample].flatten() for p in both])

    for n, layer in enumerate(layers):
        for b, period in enumerate(layer.info["period"].tolist()):
            lags = [
                lag for lag in range(1, min(n, MAX_PERIOD) + 1) if (numbers(n, b) - numbers(n - lag, b)).abs().max() <= AT_REST
            ]
            assert period == (min(lags) if lags else 0)
        assert torch.equal(layer.info["period"], traced[n].info["period"])
