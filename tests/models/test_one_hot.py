"""Bits in one-of-k groups: exact on a tree, right about groups, and quiet where probabilities are close to 1."""

import itertools
import math
from pathlib import Path

import pytest
import torch

import qtcore
from qtcore import Exact, OneHotModel, Query
from qtcore.errors import InputError
from qtcore.models.one_hot import log_odds

F64 = torch.float64
GROUPS = [[0, 1, 2], [3], [4, 5]]


def small(pairs: "str | list[tuple[int, int]]", n_hidden: int = 0, n_layers: int = 12) -> OneHotModel:
    """With random potentials."""
    torch.manual_seed(4)
    model = OneHotModel(GROUPS, n_hidden, pairs, n_layers, dtype=F64)
    with torch.no_grad():
        for table in model.tables.items():
            table[1].normal_(0, 1.0)
    return model


def joint(model: OneHotModel) -> tuple[torch.Tensor, torch.Tensor]:
    """All rows of bits that there can be, by hand from the tables, and the probability of each; hidden units summed out."""
    options = [[None, *bits] for bits in model.groups]
    rows, weights = [], []
    for choice in itertools.product(*options):
        states = [0 if bit is None else options[group].index(bit) for group, bit in enumerate(choice)]
        total = 0.0
        for hidden in itertools.product((0, 1), repeat=model.n_hidden):
            every = [*states, *hidden]
            energy = 0.0
            for name, template in model.templates.items():
                for table, scope in zip(model.tables[name], template.scopes.tolist(), strict=True):
                    energy += float(table[tuple(every[variable] for variable in scope)].detach())
            total += math.exp(energy)
        rows.append([float(bit in choice) for bit in range(6)])
        weights.append(total)
    return torch.tensor(rows, dtype=F64), torch.tensor(weights, dtype=F64) / sum(weights)


def by_enumeration(model: OneHotModel, values: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
    rows, p = joint(model)
    fits = ((rows == values) | ~observed).all(1)
    return (p * fits) @ rows / (p * fits).sum()


def test_every_query_on_a_tree_is_answered_exactly() -> None:
    """All masks of all possible rows: what an observed 0 rules out, and what an observed 1 fixes."""
    model = small([(0, 1), (1, 2)])
    rows, _ = joint(model)
    masks = torch.tensor(list(itertools.product((False, True), repeat=6)))
    for row in rows[::3]:
        answers = model(Query(row.expand(64, 6), masks)).probs
        for answer, mask in zip(answers, masks, strict=True):
            torch.testing.assert_close(answer, by_enumeration(model, row, mask), atol=1e-9, rtol=0)


def test_with_hidden_units_and_loops_the_exact_engine_agrees() -> None:
    model = small("all", n_hidden=2)
    values, observed = torch.tensor([[0.0, 0, 1, 0, 0, 1]], dtype=F64), torch.tensor([[True, False, False, True, True, False]])
    expected = by_enumeration(model, values[0], observed[0])
    torch.testing.assert_close(model(Query(values, observed), engine=Exact()).probs[0], expected, atol=1e-9, rtol=0)
    assert float((model(Query(values, observed)).probs[0] - expected).detach().abs().max()) < 0.1  # loopy


def test_soft_readings_weigh_states() -> None:
    """A reading of ¾ for one bit and ½ for another: odds of 3 to 1 for the state against all the others."""
    model = small([(0, 1), (1, 2)])
    rows, p = joint(model)
    values, observed = torch.tensor([[0.75, 0, 0, 0.5, 0, 0]], dtype=F64), torch.tensor([[1.0, 0, 0, 1, 0, 0]], dtype=F64)
    weight = p * torch.where(rows[:, 0] == 1, 0.75, 0.25)
    torch.testing.assert_close(model(Query(values, observed)).probs[0], weight @ rows / weight.sum(), atol=1e-9, rtol=0)
    half = torch.tensor([[0.0, 0.5, 0, 0, 0, 0]], dtype=F64)  # an observed 1 that is right every other time
    one = torch.tensor([[0.0, 1, 0, 0, 0, 0]], dtype=F64)
    weight = p * torch.where(rows[:, 1] == 1, 0.75, 0.25)
    torch.testing.assert_close(model(Query(one, half)).probs[0], weight @ rows / weight.sum(), atol=1e-9, rtol=0)


def test_the_bits_of_a_group_that_is_known_cost_nothing() -> None:
    model = small("all", n_hidden=3).float()
    values = torch.tensor([[0.0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]])
    observed = torch.tensor([[False, True, False, False, True, True], [True, True, True, False, True, False]])
    losses, target = model.nll(Query(values, observed))
    known = torch.tensor([[True, False, True, False, False, False], [False, False, False, False, False, True]])
    assert bool(target[known].all())
    assert float(losses[known].detach().abs().max()) == 0
    assert bool((losses.detach()[target & ~known] > 0).all())


def test_log_odds_of_what_is_almost_certain_keep_their_digits() -> None:
    logits = torch.tensor([[0.0, -40.0, -30.0], [-1000.0, 0.0, -1000.0], [0.0, 0.0, 0.0]], requires_grad=True)
    odds = log_odds(logits)
    exact = logits.detach().double()
    for state in range(3):
        others = torch.cat([exact[:, :state], exact[:, state + 1 :]], 1).logsumexp(1)
        torch.testing.assert_close(odds[:, state].detach().double(), exact[:, state] - others, rtol=1e-6, atol=1e-6)
    odds.sum().backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


def test_it_learns_which_bits_exclude_each_other_and_which_go_together() -> None:
    """Two groups that say the same: half of the bits tell nearly all the others."""
    draw = torch.Generator().manual_seed(0)
    state = torch.randint(3, (600,), generator=draw)
    rows = torch.nn.functional.one_hot(state, 3).repeat(1, 2).float()
    model = OneHotModel([[0, 1, 2], [3, 4, 5]], n_hidden=0)
    model.start_from(rows)
    qtcore.fit(model, rows, steps=200, batch=100, learning_rate=0.1, schedule="linear", decay_from=0.2)
    certain = Query(torch.tensor([[0.0, 1, 0, 0, 0, 0]]), torch.tensor([[False, True, False, False, False, False]]))
    assert model(certain).probs[0].tolist() == pytest.approx([0, 1, 0, 0, 1, 0], abs=0.02)
    either = Query(torch.zeros(1, 6), torch.tensor([[True, False, False, False, False, False]]))
    share = float((state == 1).sum() / (state > 0).sum())
    assert model(either).probs[0].tolist() == pytest.approx([0, share, 1 - share] * 2, abs=0.04)


def test_it_starts_from_the_frequencies() -> None:
    rows = torch.tensor([[1.0, 0, 0, 1, 0, 0]] * 3 + [[0.0, 0, 1, 0, 0, 0]])
    model = OneHotModel(GROUPS, n_hidden=0, pairs=[])
    model.start_from(rows)
    p = model(Query(torch.zeros(1, 6), torch.zeros(1, 6, dtype=torch.bool))).probs[0].tolist()
    assert p[:4] == pytest.approx([3.5 / 6, 0.5 / 6, 1.5 / 6, 3.5 / 5], abs=1e-5)


def test_samples_have_at_most_one_bit_of_a_group_and_files_keep_the_model(tmp_path: Path) -> None:
    model = small("all", n_hidden=2)
    query = Query(torch.tensor([[0.0, 0, 0, 1, 0, 0]], dtype=F64), torch.tensor([[True, False, False, True, False, False]]))
    drawn = model.sample(query, n=40, generator=torch.Generator().manual_seed(1))
    assert bool((drawn[..., :3].sum(-1) <= 1).all())
    assert bool((drawn[..., 4:].sum(-1) <= 1).all())
    assert drawn[..., 1].unique().tolist() == [0, 1]
    model.save(tmp_path / "model.safetensors")
    again = qtcore.load(tmp_path / "model.safetensors")
    assert isinstance(again, OneHotModel)
    assert torch.equal(again(query).probs, model(query).probs)
    assert "6 bits, 3 groups, 3 pairs, 2 hidden units" in repr(model)
    assert model.query({3: 1}).values.tolist() == [[0, 0, 0, 1, 0, 0]]


def test_input_that_cannot_be_is_one_sentence() -> None:
    for make, said in (
        (lambda: OneHotModel([[0, 1], [1]]), "groups must hold every number from 0 once"),
        (lambda: OneHotModel([[0], []]), "groups must hold every number from 0 once"),
        (lambda: OneHotModel(3), "groups must list the bits"),  # type: ignore[arg-type]
        (lambda: OneHotModel(GROUPS, pairs="some"), "pairs must be"),
        (lambda: OneHotModel(GROUPS, pairs=[(0, 3)]), r"\(0, 3\) must join two distinct groups among 0 … 2"),
        (lambda: OneHotModel(GROUPS, n_hidden=-1), "n_hidden must be a whole number"),
        (lambda: OneHotModel(GROUPS, n_hidden=10**9), "3 groups and 1000000000 hidden units make 3000000003 pairs"),
        (lambda: OneHotModel([[bit] for bit in range(9000)], 0), "9000 groups and 0 hidden units make 40495500 pairs"),
        (lambda: small("all").query({6: 1}), "a bit is named by its number from 0 to 5, not by 6"),
    ):
        with pytest.raises(InputError, match=said):
            make()
    model = OneHotModel(GROUPS)
    two = Query(torch.tensor([[0.0] * 6, [1.0, 1, 0, 0, 0, 0]]), torch.ones(2, 6, dtype=torch.bool))
    with pytest.raises(InputError, match="row 1 has 2 ones among the bits 0, 1, 2, of which at most one can be"):
        model(two)
