"""The lab's mathematics, its address, and what it takes from a browser."""

import json
import logging
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from qtcore_app.components.lab import ACTIONS, LabView, decode_action
from qtcore_app.lab import inference, training
from qtcore_app.lab.graphs import GRAPHS, PRESETS, Lab, decode, default, encode, preset
from qtcore_app.pages.lab import LabPage, applied
from qtcore_app.shell import Shell

from qtcore import exact, examples
from qtcore.inference.bp.binary import transfer

ALL = [(key, name) for key in GRAPHS for name in PRESETS]
DIAMETERS = {"chain": 4, "tree": 4}


def verdict(lab: Lab) -> inference.Verdict:
    run = inference.layers(lab)
    return inference.verdict(run.messages, run.residual)


# ---------------------------------------------------------------------- messages


@pytest.mark.parametrize(("key", "name"), ALL)
@pytest.mark.parametrize(("temperature", "damping"), [(1.0, 0.0), (0.35, 0.3), (0.0, 0.5)])
def test_a_message_by_hand_is_that_of_the_parallel_layer(key: str, name: str, temperature: float, damping: float) -> None:
    lab = replace(preset(key, name, 3), temperature=temperature, damping=damping, layers=5)
    lab = replace(lab, evidence=(1, -1, 0, *lab.evidence[3:]))
    run = inference.layers(lab)
    for k in range(5):
        np.testing.assert_allclose(inference.updates(lab, run.messages[k]).new, run.messages[k + 1], atol=1e-9)
        np.testing.assert_allclose(inference.beliefs(lab, run.messages[k]), run.beliefs[k], atol=1e-9)
    for message in (0, 3, 2 * len(lab.graph.edges) - 1):
        frames = inference.by_hand(replace(lab, hand=2, sent=(message,))).messages
        changed = np.zeros(frames.shape[1], bool)
        changed[message] = True
        np.testing.assert_allclose(frames[1][changed], run.messages[3][changed], atol=1e-9)
        np.testing.assert_array_equal(frames[1][~changed], run.messages[2][~changed])


def test_sending_from_the_leaves_and_back_solves_a_chain() -> None:
    lab = replace(preset("chain", "random", 1), hand=0, sent=(0, 2, 4, 6, 7, 5, 3, 1))
    run = inference.by_hand(lab)
    np.testing.assert_allclose(run.beliefs[-1], inference.exact_marginals(lab), atol=1e-9)
    assert run.residual[-1] < 1e-9
    assert [each.word for each in inference.verdicts(run, hand=True)] == ["not yet"] * 8 + ["converged"]


@pytest.mark.parametrize(("key", "name"), ALL)
def test_exact_marginals_are_sums_over_all_states(key: str, name: str) -> None:
    lab = replace(preset(key, name, 5), strength=0.8)
    lab = replace(lab, evidence=(0, *lab.evidence[1:]))
    w, b = lab.parameters()
    total, ones = 0.0, np.zeros(lab.graph.n)
    for bits in training.states(lab.graph.n).numpy():
        if bits[0] == 0:
            different = [bits[i] != bits[j] for i, j in lab.graph.edges]
            weight = math.exp(np.dot(b, bits) - np.dot(w, different))
            total += weight
            ones += weight * bits
    np.testing.assert_allclose(inference.exact_marginals(lab), ones / total, atol=1e-12)


def test_temperature_goes_from_the_largest_state_to_sums() -> None:
    lab = preset("tree", "random", 2)
    best = exact.most_probable(inference.model(lab), inference.query(lab)).visible[0].numpy()
    cold = inference.layers(replace(lab, temperature=0.0)).beliefs[-1]
    np.testing.assert_array_equal(cold > 0.5, best == 1)
    np.testing.assert_allclose(inference.layers(replace(lab, temperature=0.01)).beliefs[-1], cold, atol=0.02)
    np.testing.assert_allclose(inference.layers(lab).beliefs[-1], inference.exact_marginals(lab), atol=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("key", ["chain", "tree"])
def test_on_a_tree_belief_propagation_is_exact_at_its_own_temperature(key: str, temperature: float) -> None:
    lab = replace(preset(key, "random", 3), temperature=temperature, layers=8)
    lab = replace(lab, evidence=(-1, 1, *lab.evidence[2:]))
    shown = inference.picture(lab)
    np.testing.assert_allclose(shown["beliefs"][-1], shown["exact"], atol=2e-4)
    if temperature < 1:
        assert np.abs(inference.exact_marginals(lab) - shown["exact"]).max() > 0.01  # not those of sums


@pytest.mark.parametrize(("key", "name"), ALL)
def test_at_temperature_0_the_best_states_are_compared(key: str, name: str) -> None:
    lab = preset(key, name, 5)
    w, b = lab.parameters()
    best = np.full((lab.graph.n, 2), -np.inf)
    for bits in training.states(lab.graph.n).numpy():
        score = np.dot(b, bits) - np.dot(w, [bits[i] != bits[j] for i, j in lab.graph.edges])
        for i, bit in enumerate(bits):
            best[i, bit] = max(best[i, bit], score)
    expected = 1 / (1 + np.exp(best[:, 0] - best[:, 1]))
    np.testing.assert_allclose(inference.exact_marginals(lab, 0.0), expected, atol=1e-9)


def test_trained_parameters_are_compared_with_the_marginals_of_the_true_ones() -> None:
    lab = replace(preset("loop", "frustrated"), temperature=0.0, trained=(0.5,) * 8, shown=1)
    np.testing.assert_allclose(inference.picture(lab)["exact"], inference.exact_marginals(lab), atol=1e-4)


def test_curves_are_the_transfer_function() -> None:
    curves = inference.curves(-1.5, 0.5)
    x, w = torch.tensor(curves["x"]), torch.tensor(-1.5)
    for name, T in (("now", 0.5), ("zero", 0.0), ("one", 1.0)):
        np.testing.assert_allclose(curves[name], transfer(x, w, T).numpy(), atol=1e-3)
    assert min(curves["zero"]) == -1.5


# ---------------------------------------------------------------------- converged, oscillating, not yet


@pytest.mark.parametrize("key", ["chain", "tree"])
@pytest.mark.parametrize("name", PRESETS)
def test_a_tree_is_exact_after_its_diameter(key: str, name: str) -> None:
    lab = replace(preset(key, name, 4), layers=DIAMETERS[key] + 1)
    run = inference.layers(lab)
    np.testing.assert_allclose(run.beliefs[DIAMETERS[key]], inference.exact_marginals(lab), atol=1e-9)
    words = [each.word for each in inference.verdicts(run, hand=False)]
    assert words == ["not yet"] * (DIAMETERS[key] + 1) + ["converged"]  # the layer after changes nothing any more


def test_frustration_oscillates_and_damping_calms_it() -> None:
    lab = replace(preset("complete", "frustrated"), layers=60)
    assert verdict(lab) == ("oscillating", 2)
    assert verdict(replace(lab, layers=30)) == ("oscillating", 2)
    assert verdict(replace(lab, damping=0.5, layers=100)).word == "converged"


def test_a_slow_run_is_not_yet() -> None:
    lab = replace(preset("loop", "frustrated"), couplings=(3.0, 3.0, 3.0, -3.0), layers=30)
    assert verdict(lab).word == "not yet"


def test_longer_cycles_are_found() -> None:
    angle = np.arange(30) * 2 * np.pi / 5
    messages = np.stack([np.cos(angle), np.sin(angle)], 1)
    residual = np.abs(np.diff(messages, axis=0, prepend=0)).max(1)
    assert inference.verdict(messages, residual) == ("oscillating", 5)
    falling = messages * 0.9 ** np.arange(30)[:, None]
    assert inference.verdict(falling, np.abs(np.diff(falling, axis=0, prepend=0)).max(1)).word == "not yet"
    assert inference.verdict(messages[:1], residual[:1]).word == "not yet"


def test_the_page_opens_with_a_wrong_answer_that_has_converged() -> None:
    lab = default()
    assert verdict(lab).word == "converged"
    assert np.abs(inference.layers(lab).beliefs[-1] - inference.exact_marginals(lab)).max() > 0.1


# ---------------------------------------------------------------------- training


def test_scores_of_the_truth() -> None:
    lab = preset("rbm", "random", 1)
    asked = training.queries(lab)
    np.testing.assert_allclose(
        training.exact_answers(lab, asked)[:7].numpy(),
        exact.marginals(inference.model(lab), asked[:7]).probs[..., 1].numpy(),  # type: ignore[attr-defined]
        atol=1e-9,
    )
    bits = training.states(4)
    log_p = exact.log_likelihood(inference.model(lab), bits)
    np.testing.assert_allclose(training.log_joint(inference.model(lab)).flatten().numpy(), log_p.numpy(), atol=1e-9)
    assert training.score(lab).likelihood == pytest.approx(float((log_p.exp() * log_p).sum()) / math.log(2))
    assert training.score(preset("tree", "random", 1)).error < 1e-9


def test_training_makes_a_worse_model_that_answers_better() -> None:
    lab = replace(preset("complete", "frustrated"), layers=10)
    trained = training.train(lab, 25)
    before, after = training.score(lab), training.score(trained, True)
    assert after.error < 0.5 * before.error
    assert after.nce < before.nce
    assert after.likelihood < before.likelihood
    assert training.train(lab, 25) == trained  # seeded
    assert trained.trained_for == (1.0, 0.0, 10.0)
    assert len(trained.trained) == 15


def test_hidden_variables_stay_hidden() -> None:
    lab = preset("rbm", "ferromagnetic")
    assert training.samples(lab, 10, 0).shape == (10, 4)
    steps: list[int] = []
    trained = training.train(lab, 50, lambda progress: bool(steps.append(progress.step)) or progress.step == 2)
    assert steps == [1, 2]
    assert len(trained.trained) == 8 + 6
    assert inference.picture(trained)["shown"] == 1


# ---------------------------------------------------------------------- the address


def test_the_address_holds_the_lab() -> None:
    for key, name in ALL:
        lab = preset(key, name, 7)
        assert decode(encode(lab)) == lab
        full = replace(
            lab,
            evidence=(1, 0, *lab.evidence[2:]),
            strength=0.85,
            temperature=0.3,
            damping=0.45,
            layers=12,
            selected="n1",
            hand=3,
            sent=(0, 3, 1, 0),
            trained=tuple(0.125 * k - 0.5 for k in range(len(lab.couplings) + len(lab.biases))),
            trained_for=(1.0, 0.15, 30.0),
            shown=1,
        )
        assert decode(encode(full)) == full
        assert len(encode(full)) < 400


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "loop",
        "nonsense~1~2~3~4~5~6",
        "loop~200_200_200~200_0_0_0~uuuu~100_100_0~40~m0",
        "loop~200_200_200_900~200_0_0_0~uuuu~100_100_0~40~m0",
        "loop~200_200_200_x~200_0_0_0~uuuu~100_100_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuu~100_100_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uu2u~100_100_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_101_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_100~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~4000000~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m8",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~q1",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~41_0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~0_8",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~0_" + "1_" * 300,
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~~1_5",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~~1_0_0_0_0_0_0_0_0~100_0",
        "loop~" + "9" * 5000 + "~200_0_0_0~uuuu~100_100_0~40~m0",
        "rbm~" + "_".join(["0"] * 8) + "~0_0_0_0_0_0~uuuu1u~100_100_0~40~m0",
    ],
)
def test_other_addresses_are_none_of_a_lab(bad: str) -> None:
    assert decode(bad) is None


def test_such_an_address_opens_the_default() -> None:
    shell = Shell()
    shell.states["lab"] = replace(shell.states["lab"], graph="nonsense~1~2~3~4~5~6", layer="77777")
    page = LabPage(shell)
    assert page.lab == default()
    assert page.component.layer == -1


# ---------------------------------------------------------------------- actions


@pytest.fixture(scope="module")
def lab_page() -> LabPage:
    """A page for tests that leave it as it is."""
    return LabPage(Shell())


@pytest.mark.parametrize(
    "bad",
    [
        None,
        b"secret",
        "secret",
        [],
        [1],
        [0, "forget"],
        [True, "forget"],
        ["secret", "forget"],
        [1, "secret"],
        [1, ["secret"]],
        [1, "forget", 1],
        [1, "strength"],
        [1, "strength", "secret"],
        [1, "strength", math.nan],
        [1, "strength", math.inf],
        [1, "strength", None],
        [1, "evidence", 0, True],
        [1, "evidence", 0, 1, 2, 3],
        {"secret": 1},
    ],
)
def test_bad_packets_are_ignored_and_logged_without_their_bytes(
    bad: object, lab_page: LabPage, caplog: pytest.LogCaptureFixture
) -> None:
    page, before = lab_page, lab_page.lab
    with caplog.at_level(logging.WARNING):
        page.component.packet = bad
        assert decode_action(bad) is None
    assert page.lab == before
    assert "ignored an action" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("action", "numbers"),
    [
        ("graph", [6]),
        ("graph", [-1]),
        ("graph", [0.5]),
        ("preset", [3]),
        ("strength", [2.1]),
        ("strength", [-0.1]),
        ("temperature", [1.5]),
        ("damping", [1.0]),
        ("layers", [0]),
        ("layers", [1e9]),
        ("coupling", [4, 0]),
        ("coupling", [0.5, 0]),
        ("coupling", [0, 3.1]),
        ("bias", [-1, 0]),
        ("bias", [0, 1e300]),
        ("evidence", [4, 1]),
        ("evidence", [0, 2]),
        ("select", [3, 0]),
        ("select", [0, 4]),
        ("select", [0, -1]),
        ("hand", [41]),
        ("send", [8, 0]),
        ("send", [0, 99]),
        ("show", [1]),
        ("show", [2]),
    ],
)
def test_actions_out_of_bounds_change_nothing(action: str, numbers: list[float]) -> None:
    assert len(numbers) == ACTIONS[action]
    assert applied(default(), action, numbers) is None


def test_actions() -> None:
    lab = default()

    def after(action: str, *numbers: float) -> Lab:
        result = applied(lab, action, list(numbers))
        assert result is not None
        return result

    assert after("evidence", 2, 1).evidence == (-1, -1, 1, -1)
    assert after("coupling", 1, -0.5).couplings == (2.0, -0.5, 2.0, -2.0)
    assert after("bias", 3, 0.25).biases == (2.0, 0.0, 0.0, 0.25)
    assert after("strength", 0.5).parameters()[0] == (1.0, 1.0, 1.0, -1.0)
    assert after("graph", 4).key == "complete"
    assert set(after("preset", 0).couplings) == {examples.SIZE}
    assert after("select", 1, 2).edge == 2
    assert after("layers", 7).layers == 7
    lab = after("send", 3, 5)
    assert (lab.hand, lab.sent, lab.selected) == (5, (3,), "m3")
    lab = after("send", 4, 1)
    assert lab.sent == (3, 4)
    assert after("send", 0, 1).sent == (3, 0)  # from an earlier one on
    assert after("parallel").hand == -1
    trained = replace(lab, trained=(0.5,) * 8, shown=1)
    assert trained.parameters(True) == ((0.5,) * 4, (0.5,) * 4)
    assert trained.changed(strength=0.5).trained == ()


def test_the_page_answers_and_remembers() -> None:
    shell = Shell("?page=lab")
    page = LabPage(shell)
    page.component.packet = [1, "evidence", 1, 0]
    data = json.loads(page.component.data)
    assert data["seq"] == 1
    assert data["evidence"] == [-1, 0, -1, -1]
    assert data["beliefs"][-1][1] == data["exact"][1] == 0
    again = Shell(shell.states["lab"].to_query())
    assert LabPage(again).lab == page.lab
    page.component.packet = [2, "graph", 0]
    assert json.loads(page.component.data)["graph"] == "chain"
    assert json.loads(page.component.training)["before"][1] < 1e-9  # exact on a chain


def words(page: LabPage) -> str:
    return str(json.loads(page.component.training)["words"])


@pytest.fixture
def trained_page() -> LabPage:
    """A page whose K5 was trained as it opens: T = 1, d = 0, N = 30."""
    lab = preset("complete", "frustrated")
    trained = replace(lab, trained=(-0.3,) * 10 + (0.2,) * 5, trained_for=lab.settings, shown=1)
    page = LabPage(Shell(f"?page=lab&graph={encode(trained)}"))
    assert page.lab == trained
    return page


def test_parameters_trained_for_another_damping_are_said_to_be(trained_page: LabPage) -> None:
    page = trained_page
    assert "train again" not in words(page)
    page.component.packet = [1, "damping", 0.5]
    assert words(page) == "Trained for d = 0.00, but d = 0.50 is set: train again to compare."
    page.component.packet = [2, "layers", 7]
    assert words(page) == "Trained for d = 0.00, N = 30, but d = 0.50, N = 7 is set: train again to compare."
    page.component.packet = [3, "damping", 0]
    page.component.packet = [4, "layers", 30]
    assert "train again" not in words(page)
    assert not json.loads(page.component.training)["warning"]


@pytest.mark.parametrize("change", [("strength", 0.5), ("coupling", 0, 1.0), ("bias", 0, 1.0), ("preset", 0)])
def test_a_discarded_training_is_said_to_be(trained_page: LabPage, change: tuple[object, ...]) -> None:
    page = trained_page
    page.component.packet = [1, *change]
    assert page.lab.trained == page.lab.trained_for == ()
    assert "training was discarded: train again" in words(page)
    assert json.loads(page.component.training)["warning"]
    page.component.packet = [2, "damping", 0.1]
    assert "training was discarded" in words(page)  # until there is another, or another graph
    page.component.packet = [3, "graph", 0]
    assert "discarded" not in words(page)


def test_layers_from_strangers() -> None:
    page = LabPage(Shell("?page=lab&layer=3"))
    assert page.component.layer == 3
    page.component.layer = -7
    assert page.component.layer == -1
    assert LabView._priority_changes == ["packet"]
