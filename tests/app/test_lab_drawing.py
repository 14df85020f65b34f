"""Graphs that are drawn: edits, third-order factors, schedules, log Z, and what there is no room for."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from qtcore_app.lab import edits, inference, training
from qtcore_app.lab.actions import applied
from qtcore_app.lab.address import decode, encode, sound
from qtcore_app.lab.drawings import MAX_FACTORS, MAX_VARIABLES, PARTS, drawn
from qtcore_app.lab.graphs import SCHEDULES, Lab, default, preset, with_preset
from qtcore_app.lab.model import model, query
from qtcore_app.lab.picture import picture

from qtcore import BP
from qtcore.inference.bp import bethe

PLACES = tuple((0.1 * i, 0.2 * (i % 4)) for i in range(8))


def loopy(seed: int = 0) -> Lab:
    """Six variables, pairs and third-order factors in loops."""
    graph = drawn(PLACES[:6], ((0, 1), (1, 2), (4, 5)), ((0, 2, 3), (3, 4, 1)))
    return with_preset(Lab("own", (), (), (-1,) * 6, drawn=graph), "random", seed)


def tree(seed: int = 0) -> Lab:
    graph = drawn(PLACES[:7], ((2, 3), (4, 6)), ((0, 1, 2), (3, 4, 5)))
    return with_preset(Lab("own", (), (), (-1,) * 7, drawn=graph, layers=12), "random", seed)


def score(lab: Lab, bits: tuple[int, ...]) -> float:
    """The log-potential of a state, from the words of the definition."""
    total = sum(b * x for b, x in zip(lab.biases, bits, strict=True)) + lab.graph.constant
    for f, scope in enumerate(lab.graph.factors):
        parts = [(0, 1)] if len(scope) == 2 else PARTS
        for w, part in zip(lab.numbers(f), parts, strict=True):
            total -= w * (sum(bits[scope[k]] for k in part) % 2)
    return float(total)


def states(lab: Lab) -> list[tuple[int, ...]]:
    """All that agree with the evidence."""
    every = itertools.product(range(2), repeat=lab.graph.n)
    return [bits for bits in every if all(seen in (-1, x) for seen, x in zip(lab.evidence, bits, strict=True))]


# ---------------------------------------------------------------------- third-order factors


@pytest.mark.parametrize("evidence", [(-1,) * 6, (1, -1, -1, -1, 0, -1)])
def test_exact_answers_are_sums_over_all_states(evidence: tuple[int, ...]) -> None:
    lab = replace(loopy(3), evidence=evidence, strength=0.7)
    possible = states(lab)
    weights = np.exp([score(lab, bits) for bits in possible])
    answers = inference.exact_answers(lab)
    np.testing.assert_allclose(answers.marginals, weights @ np.array(possible) / weights.sum(), atol=1e-12)
    assert answers.log_z == pytest.approx(math.log(weights.sum()), abs=1e-9)


@pytest.mark.parametrize(("temperature", "damping"), [(1.0, 0.0), (0.35, 0.3), (0.0, 0.5)])
def test_messages_by_hand_are_those_of_the_library(temperature: float, damping: float) -> None:
    lab = replace(loopy(1), temperature=temperature, damping=damping, layers=5, evidence=(-1, 1, -1, -1, 0, -1))
    run = inference.layers(lab)
    due = inference.updates(lab, run.messages)
    np.testing.assert_allclose(due.new[:-1], run.messages[1:], atol=1e-9)
    np.testing.assert_allclose(inference.beliefs(lab, run.messages), run.beliefs, atol=1e-9)
    frames = inference.by_hand(replace(lab, hand=2, sent=(8, 0))).messages  # one to a variable of a third-order factor first
    assert frames[1][8] == pytest.approx(run.messages[3][8], abs=1e-9)
    np.testing.assert_array_equal(np.delete(frames[1], 8), np.delete(run.messages[2], 8))


def test_a_parity_check_tells_the_third_bit() -> None:
    graph = drawn(PLACES[:3], (), ((0, 1, 2),))
    lab = Lab("own", (3.0, 0.0, 0.0, 0.0), (0.0,) * 3, (1, 0, -1), drawn=graph)
    assert inference.layers(lab).beliefs[-1][2] == pytest.approx(1 / (1 + math.exp(-3)))  # an even number of ones: a 1
    assert inference.layers(replace(lab, evidence=(1, 1, -1))).beliefs[-1][2] == pytest.approx(1 / (1 + math.exp(3)))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_on_a_tree_every_schedule_is_exact(schedule: str, temperature: float) -> None:
    lab = replace(tree(2), schedule=schedule, temperature=temperature, evidence=(-1, -1, -1, 1, -1, -1, -1))
    shown = picture(lab)
    np.testing.assert_allclose(shown["beliefs"][-1], shown["exact"], atol=2e-4)
    if temperature == 1:
        assert shown["bethe"][-1] == pytest.approx(shown["log_z"], abs=2e-4)
    else:
        assert shown["bethe"] is None


def test_training_learns_third_order_factors_too() -> None:
    lab = replace(loopy(2), layers=5, strength=2.0)
    trained = training.train(lab, 40)
    assert len(trained.trained) == 3 + 2 * 4 + 6
    assert all(own != before for own, before in zip(trained.trained, lab.parameters()[0], strict=False))
    assert training.score(trained, True).nce < training.score(trained).nce
    assert sound(trained)


# ---------------------------------------------------------------------- schedules and log Z


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_are_those_of_the_library(schedule: str) -> None:
    lab = replace(loopy(4), schedule=schedule, damping=0.2, layers=6, evidence=(-1, -1, 1, -1, -1, -1))
    run, network = inference.layers(lab), model(lab)
    for layer in network.layers(query(lab), engine=BP(n_layers=6, schedule=schedule, damping=0.2)):
        np.testing.assert_allclose(run.beliefs[layer.index], layer.marginals.probs[0, :, 1].detach(), atol=1e-12)  # type: ignore[attr-defined]
    assert inference.layers(lab).messages.tobytes() == run.messages.tobytes()  # from the same start in the same order


def test_a_schedule_starts_from_messages_of_0() -> None:
    lab = replace(default(), hand=3, sent=(0, 1))
    for which, schedule in enumerate(SCHEDULES):
        changed = applied(lab, "schedule", [which])
        assert changed is not None
        assert (changed.schedule, changed.hand, changed.sent) == (schedule, -1, ())
        assert not inference.layers(changed).messages[0].any()


@pytest.mark.parametrize("lab", [default(), loopy(5), replace(loopy(6), evidence=(-1, -1, -1, -1, 0, 1))])
def test_bethe_log_z_is_that_of_the_library(lab: Lab) -> None:
    run = inference.layers(lab)
    estimates = inference.bethe_log_z(lab, run.messages)
    for k in (0, 1, 5, lab.layers):
        expected = bethe.log_z(model(lab), query(lab), BP(n_layers=k))
        assert estimates[k] == pytest.approx(float(expected.detach()), abs=1e-9)
    assert np.abs(estimates[-1] - inference.exact_answers(lab).log_z) > 1e-4  # there are loops


# ---------------------------------------------------------------------- drawing


def test_drawing_from_the_first_variable_on() -> None:
    lab: Lab | None = preset("loop", "ferromagnetic")
    for kind, number in [(0, 3), (0, 2), (0, 1)]:
        assert lab is not None
        lab = applied(lab, "delete", [kind, number])
    assert lab is not None
    assert (lab.graph.n, lab.graph.factors, lab.selected) == (1, (), "n0")
    assert applied(lab, "delete", [0, 0]) is None  # one stays
    assert picture(lab)["beliefs"][-1][0] == pytest.approx(picture(lab)["exact"][0])
    for x, y in ((0.5, 0.5), (-1, 0), (-1, 0)):
        lab = applied(lab, "add", [x, y])
        assert lab is not None
    scopes: list[list[float]] = [[0, 1], [3, 0, 2], [2, 3]]
    for scope in scopes:
        lab = applied(lab, "join" if len(scope) == 2 else "join3", scope)
        assert lab is not None
    for factor, w in ((2, -1.25), (1, 0.5)):
        lab = applied(lab, "coupling", [factor, w])
        assert lab is not None
    assert lab.graph.factors == ((0, 1), (2, 3), (0, 2, 3))
    assert lab.couplings == (1.0, 0.5, -1.25, 0.0, 0.0, 0.0)
    assert decode(encode(lab)) == lab
    lab = applied(lab, "delete", [0, 1])
    assert lab is not None
    assert lab.graph.factors == ((1, 2), (0, 1, 2))
    assert lab.couplings == (0.5, -1.25, 0.0, 0.0, 0.0)
    lab = applied(lab, "delete", [1, 0])
    assert lab is not None
    assert lab.graph.factors == ((0, 1, 2),)
    moved = applied(lab, "move", [1, 0.123, 0.9])
    assert moved is not None
    assert moved.graph.places[1] == (0.123, 0.9)
    assert moved.couplings == lab.couplings


def test_edits_keep_numbers_and_evidence_and_discard_what_depended_on_the_graph() -> None:
    lab = replace(default(), trained=(0.5,) * 8, trained_for=(1, 0, 40, 0), shown=1)
    lab = replace(lab, evidence=(-1, 1, -1, 0), hand=0, sent=(1, 2))
    joined = applied(lab, "join", [0, 2])
    assert joined is not None
    assert (joined.key, joined.biases, joined.evidence) == ("own", lab.biases, lab.evidence)
    assert joined.couplings == (*lab.couplings, edits.NEW_COUPLING)
    assert (joined.trained, joined.shown, joined.sent, joined.selected) == ((), 0, (), "e4")
    assert applied(joined, "join", [2, 0]) == replace(joined, selected="e4")  # there is one already
    moved = applied(lab, "move", [0, 0.3, 0.3])
    assert moved is not None
    assert moved.trained == lab.trained  # it is the same graph
    deleted = applied(lab, "delete", [0, 1])
    assert deleted is not None
    assert deleted.evidence == (-1, -1, 0)
    assert deleted.biases == (2.0, 0.0, 0.0)
    assert deleted.graph.edges == ((1, 2), (2, 0))


def test_hidden_variables_become_visible() -> None:
    lab = replace(preset("rbm", "frustrated"), trained=(0.1,) * 14, trained_for=(1, 0, 30, 0))
    moved = applied(lab, "move", [0, 0.5, 0.5])
    assert moved is not None
    assert (moved.graph.n_hidden, moved.trained) == (0, ())
    np.testing.assert_allclose(inference.exact_marginals(moved), inference.exact_marginals(lab), atol=1e-12)


@pytest.mark.parametrize(
    ("action", "numbers"),
    [
        ("add", [0.14, 0.06]),  # on a variable
        ("add", [2.0, 0.5]),
        ("add", [0.5, -3.0]),
        ("move", [4, 0.5, 0.5]),
        ("move", [0.5, 0.5, 0.5]),
        ("move", [0, 0.86, 0.06]),
        ("move", [0, 7, 0]),
        ("join", [0, 0]),
        ("join", [0, 9]),
        ("join", [0, 1.5]),
        ("join3", [0, 1, 1]),
        ("join3", [0, 1, -1]),
        ("delete", [0, 4]),
        ("delete", [1, 4]),
        ("delete", [2, 0]),
        ("delete", [-1, 0]),
        ("schedule", [4]),
        ("exercise", [6]),
        ("guess", [0]),
        ("press", []),
    ],
)
def test_what_cannot_be_drawn_changes_nothing(action: str, numbers: list[float]) -> None:
    assert applied(default(), action, numbers) is None


def test_there_is_room_for_twelve_variables_and_forty_factors() -> None:
    lab: Lab | None = default()
    for _ in range(MAX_VARIABLES - 4):
        assert lab is not None
        lab = applied(lab, "add", [-1, 0])
    assert lab is not None
    assert applied(lab, "add", [-1, 0]) is None
    for pair in itertools.combinations(range(MAX_VARIABLES), 2):
        lab = applied(lab, "join", list(pair)) or lab
    assert len(lab.graph.factors) == MAX_FACTORS
    assert decode(encode(lab)) == lab
    assert len(picture(replace(lab, layers=2))["exact"]) == MAX_VARIABLES
    assert training.score(replace(lab, layers=2)).error >= 0


def test_a_frustrated_preset_of_a_drawing_frustrates_every_loop() -> None:
    lab = with_preset(replace(loopy(), drawn=drawn(PLACES[:4], ((0, 1), (1, 2), (2, 0), (2, 3)))), "frustrated")
    assert lab.couplings == (1.5, 1.5, -1.5, 1.5)


@pytest.mark.parametrize(
    "bad",
    [
        "own",
        "own~~0~u~100_100_0~9~n0",  # no places
        "own~~0~u~100_100_0~9~n0~~~~~500~",
        "own~~0~u~100_100_0~9~n0~~~~~500_1001~",
        "own~~0_0~uu~100_100_0~9~n0~~~~~500_500~",  # two biases, one place
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-2",
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-0",
        "own~0_0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1_1-0",
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0",
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1-2-3",
        "own~9999999~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1",
        "own~0~0_0~uu~100_100_0~9~m2~~~~~100_100_500_500~0-1",
        "own~0~0_0~uu~100_100_0~9~n0~~0_0_0_0~100_0_900_400~~100_100_500_500~0-1",
        "own~0~0_0~uu~100_100_0~9~n0~~~~backwards~100_100_500_500~0-1",
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1~99999999999",
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1~~6_0_0",
        "own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1~~1_3_0",
        "own~~" + "_".join("0" * 13) + "~" + "u" * 13 + "~100_100_0~9~n0~~~~~" + "_".join(str(k) for k in range(26)) + "~",
    ],
)
def test_other_addresses_are_none_of_a_drawing(bad: str) -> None:
    assert decode(bad) is None


def test_such_an_address_would_be_a_drawing() -> None:
    lab = decode("own~0~0_0~uu~100_100_0~9~n0~~~~~100_100_500_500~0-1")
    assert lab is not None
    assert lab.graph.edges == ((0, 1),)
