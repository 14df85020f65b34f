"""The lab's mathematics, and its page."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from qtcore_app.components.lab import LabView
from qtcore_app.lab import inference, training
from qtcore_app.lab.address import encode
from qtcore_app.lab.drawings import GRAPHS
from qtcore_app.lab.graphs import PRESETS, Lab, default, preset
from qtcore_app.lab.model import model, query
from qtcore_app.lab.picture import curves, picture
from qtcore_app.pages.lab import LabPage
from qtcore_app.shell import Shell

from qtcore import exact
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
    best = exact.most_probable(model(lab), query(lab)).visible[0].numpy()
    cold = inference.layers(replace(lab, temperature=0.0)).beliefs[-1]
    np.testing.assert_array_equal(cold > 0.5, best == 1)
    np.testing.assert_allclose(inference.layers(replace(lab, temperature=0.01)).beliefs[-1], cold, atol=0.02)
    np.testing.assert_allclose(inference.layers(lab).beliefs[-1], inference.exact_marginals(lab), atol=1e-9)


@pytest.mark.parametrize("temperature", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("key", ["chain", "tree"])
def test_on_a_tree_belief_propagation_is_exact_at_its_own_temperature(key: str, temperature: float) -> None:
    lab = replace(preset(key, "random", 3), temperature=temperature, layers=8)
    lab = replace(lab, evidence=(-1, 1, *lab.evidence[2:]))
    shown = picture(lab)
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
    np.testing.assert_allclose(picture(lab)["exact"], inference.exact_marginals(lab), atol=1e-4)


def test_curves_are_the_transfer_function() -> None:
    drawn = curves(-1.5, 0.5)
    x, w = torch.tensor(drawn["x"]), torch.tensor(-1.5)
    for name, T in (("now", 0.5), ("zero", 0.0), ("one", 1.0)):
        np.testing.assert_allclose(drawn[name], transfer(x, w, T).numpy(), atol=1e-3)
    assert min(drawn["zero"]) == -1.5


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
        exact.marginals(model(lab), asked[:7]).probs[..., 1].numpy(),  # type: ignore[attr-defined]
        atol=1e-9,
    )
    bits = training.states(4)
    log_p = exact.log_likelihood(model(lab), bits)
    np.testing.assert_allclose(training.log_joint(model(lab)).flatten().numpy(), log_p.numpy(), atol=1e-9)
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
    assert trained.trained_for == (1.0, 0.0, 10.0, 0.0)
    assert len(trained.trained) == 15


def test_hidden_variables_stay_hidden() -> None:
    lab = preset("rbm", "ferromagnetic")
    assert training.samples(lab, 10, 0).shape == (10, 4)
    steps: list[int] = []
    trained = training.train(lab, 50, lambda progress: bool(steps.append(progress.step)) or progress.step == 2)
    assert steps == [1, 2]
    assert len(trained.trained) == 8 + 6
    assert picture(trained)["shown"] == 1


# ---------------------------------------------------------------------- the page


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
