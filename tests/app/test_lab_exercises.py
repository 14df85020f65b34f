"""Exercises: predict, then press. Their answers are computed, and each press shows what it asks about."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from qtcore_app.lab import exercises, inference, training
from qtcore_app.lab.address import CHOICES, sound
from qtcore_app.lab.address import EXERCISES as COUNT
from qtcore_app.lab.exercises import EXERCISES
from qtcore_app.lab.graphs import Lab, preset
from qtcore_app.pages.lab import LabPage
from qtcore_app.shell import Shell

NUMBERS = range(1, len(EXERCISES) + 1)


def errors(lab: Lab) -> NDArray[np.float64]:
    return np.asarray(np.abs(inference.layers(lab).beliefs - inference.exact_marginals(lab)).max(1))


def test_all_of_them_fit_the_page() -> None:
    assert len(EXERCISES) == COUNT
    for exercise in EXERCISES:
        assert len(set(exercise.choices)) == CHOICES
        assert sound(exercise.before)
        assert sound(exercise.after)
        assert len(exercise.question) < 130  # two lines
        assert len(exercise.why) < 170


def test_what_the_answers_speak_of() -> None:
    """Each fact by itself, without the function that looks for it."""
    chain, loop, cut, sequential = (exercise.after for exercise in EXERCISES[:4])
    assert errors(chain)[3] > 0.01
    assert errors(chain)[4] < 1e-9
    believed, exact = inference.layers(loop).beliefs[-1], inference.exact_marginals(loop)
    assert (believed > exact).all()
    assert (exact > 0.5).all()
    assert errors(EXERCISES[2].before)[-1] > 0.1
    assert errors(cut)[-1] < 1e-9
    for lab, word in ((EXERCISES[3].before, "oscillating"), (sequential, "converged")):
        run = inference.layers(lab)
        assert inference.verdict(run.messages, run.residual).word == word
    assert errors(sequential)[-1] > 0.05
    right = [exercise.choices[exercise.answer(exercise.after)] for exercise in EXERCISES[:4]]
    assert right == ["after 4", "more certain than exact", "all of them", "converged, wrong"]


def test_other_graphs_have_other_answers() -> None:
    """No answer is written down."""
    depth, certainty, exactness, ending = (exercise.answer for exercise in EXERCISES[:4])
    tree = replace(preset("tree", "ferromagnetic"), layers=8)
    short = replace(preset("chain", "ferromagnetic"), layers=8, evidence=(-1, -1, 1, -1, -1))  # cut in two
    assert depth(short) == 0
    assert depth(replace(preset("loop", "ferromagnetic"), layers=8)) == 2
    assert certainty(tree) == 1
    assert exactness(replace(preset("loop", "ferromagnetic"), layers=60)) == 2
    assert exactness(EXERCISES[2].before) == 1  # opposite x1 nothing is to be had wrong
    assert ending(tree) == 1
    assert ending(EXERCISES[3].before) == 0


def test_the_answer_of_the_last_one_comes_from_its_training() -> None:
    lab = replace(EXERCISES[4].after, exercise=5, guess=1, pressed=True)
    assert exercises.answer(lab) == -1
    trained = training.train(lab, 25)
    assert EXERCISES[4].choices[exercises.answer(trained)] == "answers alone better"
    worse = replace(trained, trained=tuple(-w for w in trained.trained))
    assert exercises.answer(worse) == -1  # worse in both


@pytest.mark.parametrize("number", NUMBERS)
def test_an_exercise_from_its_question_to_its_answer(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell("?page=lab")
    page = LabPage(shell)
    monkeypatch.setattr("qtcore_app.pages.lab.MAX_STEPS", 25)

    def shown() -> dict[str, object]:
        result = json.loads(page.component.data)["exercise"]
        assert isinstance(result, dict)
        return result

    page.component.packet = [1, "exercise", number]
    assert page.lab == replace(EXERCISES[number - 1].before, exercise=number)
    page.component.packet = [2, "press"]  # before a prediction
    assert not page.lab.pressed
    assert (shown()["answer"], shown()["words"]) == (-1, "")
    page.component.packet = [3, "guess", 0]
    page.component.packet = [4, "guess", 1]
    assert LabPage(Shell(shell.states["lab"].to_query())).lab == page.lab
    page.component.packet = [5, "press"]
    assert page.lab.pressed
    page.component.packet = [6, "guess", 0]  # too late
    assert (shown()["guess"], shown()["pressed"]) == (1, True)
    right = shown()["answer"]
    said = str(shown()["words"])
    assert said.startswith("Right." if right == 1 else f"You said “{EXERCISES[number - 1].choices[1]}”, but it is “")
    assert said.endswith(EXERCISES[number - 1].why)
    page.component.packet = [7, "bias", 0, 0.75]  # whatever is tried afterwards
    assert number == 5 or shown()["answer"] == right
    page.component.packet = [8, "exercise", 0]
    assert json.loads(page.component.data)["exercise"] is None
    assert page.lab.biases[0] == 0.75


def test_drawing_ends_an_exercise() -> None:
    page = LabPage(Shell("?page=lab"))
    page.component.packet = [1, "exercise", 1]
    page.component.packet = [2, "add", 0.5, 0.5]
    assert page.lab.exercise == 0
    page.component.packet = [3, "exercise", 2]
    page.component.packet = [4, "graph", 0]
    assert page.lab.exercise == 0
