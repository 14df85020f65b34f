"""One graph, several models: RBM, DBM and GridMRF are PairwiseMRFs, and a DBM is an RBM, message by message, loops or not."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qtcore import DBM, RBM, GridMRF, PairwiseMRF, Query

from ..graphs import bits_as_likelihoods, bits_as_pairwise, grid_as_pairwise, pixels_as_likelihoods
from ..strategies import F64, ask, backends, clamped, close, evidences, randomise, seeds

SETTINGS = ((1.0, 0.0), (0.6, 0.3), (2.0, 0.0), (0.0, 0.0), (0.0, 0.2))  # temperature, damping
settings_of = st.sampled_from(SETTINGS)


def odds(logits: torch.Tensor) -> torch.Tensor:
    """The logit of a bit, from the log-beliefs of its two states."""
    return logits[..., 1] - logits[..., 0]


def same_bits(model: Any, query: Query) -> None:
    """Beliefs, residuals and messages in every layer, of a binary model and of the same graph as a PairwiseMRF."""
    graph = bits_as_pairwise(model)
    free = ~clamped(query)
    for own, other in zip(model.layers(query), graph.layers(bits_as_likelihoods(query)), strict=True):
        close(own.marginals.logits[free], odds(other.marginals.logits)[free])
        assert torch.equal(own.marginals.logits[~free] > 0, odds(other.marginals.logits)[~free] > 0)
        close(own.hidden.logits, odds(other.hidden.logits))
        close(own.residual, other.residual)
        assert own.index == other.index
    close(model(query).logits[free], odds(graph(bits_as_likelihoods(query)).logits)[free])


@given(st.integers(1, 4), st.integers(1, 3), settings_of, seeds, evidences)
def test_rbm_is_a_pairwise_graph(V: int, H: int, how: Any, seed: int, evidence: str) -> None:
    model = randomise(RBM(V, H, n_layers=4, temperature=how[0], damping=how[1], dtype=F64), seed)
    same_bits(model, ask(model, seed, evidence))


@given(seeds, evidences)
def test_rbm_messages_are_those_of_the_pairwise_graph(seed: int, evidence: str) -> None:
    model = randomise(RBM(3, 2, n_layers=3, temperature=0.8, damping=0.1, dtype=F64), seed)
    query = ask(model, seed, evidence)
    graph = bits_as_pairwise(model)
    for own, other in zip(model.layers(query), graph.layers(bits_as_likelihoods(query)), strict=True):
        directed = {
            (int(i), int(j)): odds(message)
            for i, j, message in zip(other.messages["source"], other.messages["sink"], other.messages["directed"], strict=True)
        }
        for i in range(2):
            for j in range(3):
                close(own.messages["to_hidden"][:, i, j], directed[j, 3 + i])
                close(own.messages["to_visible"][:, i, j], directed[3 + i, j])


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), settings_of, seeds, evidences)
def test_dbm_is_a_pairwise_graph(V: int, H1: int, H2: int, how: Any, seed: int, evidence: str) -> None:
    model = randomise(DBM(V, H1, H2, n_layers=4, temperature=how[0], damping=how[1], dtype=F64), seed)
    same_bits(model, ask(model, seed, evidence))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), settings_of, seeds, evidences)
def test_dbm_is_the_rbm_of_its_layers_side_by_side(V: int, H1: int, H2: int, how: Any, seed: int, evidence: str) -> None:
    """ṽ = [v; h2], W̃ = [W1, W2ᵀ]: h2 is a visible block that is never observed."""
    options = {"n_layers": 4, "temperature": how[0], "damping": how[1], "dtype": F64}
    dbm = randomise(DBM(V, H1, H2, **options), seed)
    rbm = RBM(V + H2, H1, **options)
    with torch.no_grad():
        rbm.W.copy_(torch.cat([dbm.W1, dbm.W2.T], 1))
        rbm.c_v.copy_(torch.cat([dbm.c_v, dbm.c_h2]))
        rbm.c_h.copy_(dbm.c_h1)
    query = ask(dbm, seed, evidence)
    unobserved = torch.zeros(len(query), H2)
    wide = Query(torch.cat([query.values, unobserved], 1), torch.cat([query.observed.double(), unobserved], 1))
    for deep, flat in zip(dbm.layers(query), rbm.layers(wide), strict=True):
        assert torch.equal(deep.marginals.logits, flat.marginals.logits[:, :V])
        assert torch.equal(deep.hidden.logits, torch.cat([flat.hidden.logits, flat.marginals.logits[:, V:]], 1))
        assert torch.equal(deep.residual, flat.residual)
    for _ in backends():
        close(dbm(query).logits, rbm(wide).logits[:, :V], 1e-12)


@given(st.integers(1, 3), st.integers(1, 3), settings_of, seeds, evidences)
def test_grid_is_a_pairwise_graph(height: int, width: int, how: Any, seed: int, evidence: str) -> None:
    options = {"n_layers": 4, "temperature": how[0], "damping": how[1], "dtype": F64}
    model = randomise(GridMRF(height, width, clones=(2, 1, 1), **options), seed)
    query = ask(model, seed, evidence, batch=2)
    graph, asked = grid_as_pairwise(model, height, width), pixels_as_likelihoods(model, query)
    for own, other in zip(model.layers(query), graph.layers(asked), strict=True):
        close(own.hidden.logits.flatten(1, 2), other.marginals.logits)
        close(own.residual, other.residual)
    labels = graph(asked).probs.unflatten(1, (height, width)).split((2, 1, 1), -1)
    for _ in backends():
        close(model(query).probs, torch.stack([part.sum(-1) for part in labels], -1))


def test_variables_without_edges_are_independent() -> None:
    model = randomise(PairwiseMRF((2, 3), [], dtype=F64), 0)
    query = Query(torch.zeros(1, 2), torch.zeros(1, 2))
    for layer in model.layers(query, 2):
        for i, S in enumerate((2, 3)):
            close(layer.marginals.probs[0, i, :S], model.unary[i].softmax(0))
        assert layer.residual.tolist() == [0.0]


@pytest.mark.parametrize("kind", [RBM, DBM])
def test_zero_weights_give_independent_bits(kind: Any) -> None:
    model = randomise(kind(*([3, 2] if kind is RBM else [3, 2, 2]), dtype=F64), 0)
    for name, tensor in model.named_parameters():
        if name.startswith("W"):
            tensor.data.zero_()
    close(model(Query(torch.zeros(1, 3), torch.zeros(1, 3))).logits[0], model.c_v)
