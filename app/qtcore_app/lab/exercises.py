"""Five exercises: predict, then press. Nothing here knows an answer: each is computed from what the press does."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qtcore_app.lab import training
from qtcore_app.lab.graphs import Lab, default, preset
from qtcore_app.lab.inference import exact_marginals, layers, verdict

CORRECT = 0.005
"""The largest error of beliefs that are called exact: as far as two decimals show."""


@dataclass(frozen=True)
class Exercise:
    """A question about what will happen when a button is pressed."""

    title: str
    question: str
    choices: tuple[str, str, str]
    press: str
    """What the button says."""
    before: Lab
    after: Lab
    """What the press makes of it."""
    answer: Callable[[Lab], int]
    """Which choice is right, from what there is after the press; -1 if it cannot be told (yet)."""
    why: str
    trains: bool = False
    """Whether the press starts query training."""


def _largest_errors(lab: Lab) -> Any:
    """The largest error of a belief in each layer."""
    return np.abs(layers(lab).beliefs - exact_marginals(lab)).max(1)


def _depth(lab: Lab) -> int:
    exact = np.flatnonzero(_largest_errors(lab) < CORRECT)
    return {2: 0, 4: 1}.get(int(exact[0]), -1) if len(exact) else 2


def _certainty(lab: Lab) -> int:
    """Whether beliefs are farther from ½ than the exact marginals are."""
    believed, exact = (np.abs(p - 0.5) for p in (layers(lab).beliefs[-1], exact_marginals(lab)))
    if np.abs(believed - exact).max() < CORRECT:
        return 1
    return 0 if (believed >= exact - CORRECT).all() else 2 if (believed <= exact + CORRECT).all() else -1


def _exactness(lab: Lab) -> int:
    errors = np.abs(layers(lab).beliefs[-1] - exact_marginals(lab))
    wrong = int((errors >= CORRECT).sum())
    return 0 if not wrong else 2 if wrong == lab.evidence.count(-1) else 1


def _ending(lab: Lab) -> int:
    run = layers(lab)
    if verdict(run.messages, run.residual).word != "converged":
        return 0
    return 1 if _largest_errors(lab)[-1] < CORRECT else 2


def _learnt(lab: Lab) -> int:
    if not lab.trained:
        return -1
    before, after = training.score(lab), training.score(lab, True)
    better_model, better_answers = after.likelihood > before.likelihood, after.error < before.error
    return {(True, True): 0, (False, True): 1, (True, False): 2}.get((better_model, better_answers), -1)


_CHAIN = replace(preset("chain", "ferromagnetic"), selected="n4")
_LOOP = replace(preset("loop", "ferromagnetic"), selected="n0")
_FRUSTRATED = replace(default(), selected="n0")
_K5 = replace(preset("complete", "frustrated"), selected="n0")
_OSCILLATING = replace(_K5, strength=0.8, layers=60)

EXERCISES = (
    Exercise(
        "How far news travels",
        "In each layer every message is sent once. After how many layers are the beliefs on this chain of five exact?",
        ("after 2", "after 4", "never"),
        "Send 8 layers",
        replace(_CHAIN, layers=1),
        replace(_CHAIN, layers=8),
        _depth,
        "What x1 knows passes four edges to reach x5. On a tree nothing comes back: once news has gone along the longest path, "
        "every belief is exact.",
    ),
    Exercise(
        "Hearing oneself",
        "Close a chain to a loop of couplings that all want agreement; x1 has a bias. How certain will the beliefs be?",
        ("more certain than exact", "exactly right", "less certain than exact"),
        "Send 40 layers",
        replace(_LOOP, layers=1),
        replace(_LOOP, layers=40),
        _certainty,
        "A message goes round the loop and comes back to its sender, who takes it for new evidence and counts it twice.",
    ),
    Exercise(
        "Cutting the loop",
        "On this frustrated loop the beliefs have converged, but they are wrong. Now x3 is observed. Which will be exact?",
        ("all of them", "some of them", "none of them"),
        "Observe x₃ = 1",
        _FRUSTRATED,
        replace(_FRUSTRATED, evidence=(-1, -1, 1, -1)),
        _exactness,
        "An observed variable passes nothing on: what it sends does not depend on what it hears. The loop is a chain then.",
    ),
    Exercise(
        "One after the other",
        "On K5 the messages oscillate when all are sent at once. What if the factors are updated one after the other?",
        ("they still oscillate", "converged, exact", "converged, wrong"),
        "Use sequential",
        _OSCILLATING,
        replace(_OSCILLATING, schedule="sequential"),
        _ending,
        "The schedule decides whether a fixed point is found; where it lies depends on the graph and its couplings alone.",
    ),
    Exercise(
        "Training for the answers",
        "Query training changes couplings and biases so that 10 layers answer well. What gets better on this K5?",
        ("both better", "answers alone better", "model alone better"),
        "Query-train",
        replace(_K5, layers=10),
        replace(_K5, layers=10),
        _learnt,
        "No model fits samples of the true parameters better than these do: the likelihood falls. But the trained ones make up "
        "for what ten layers on loops get wrong.",
        trains=True,
    ),
)


def opened(lab: Lab, number: int) -> Lab:
    """The lab at the start of an exercise; 0 leaves the exercises and nothing else."""
    if number == 0:
        return replace(lab, exercise=0, guess=-1, pressed=False)
    return replace(EXERCISES[number - 1].before, exercise=number)


def pressed(lab: Lab) -> Lab | None:
    """The lab after the press, once the user has predicted something."""
    if not lab.exercise or lab.guess < 0 or lab.pressed:
        return None
    return replace(EXERCISES[lab.exercise - 1].after, exercise=lab.exercise, guess=lab.guess, pressed=True)


def wants_training(lab: Lab) -> bool:
    """Whether the answer comes with a training that has not been."""
    return lab.pressed and not lab.trained and EXERCISES[lab.exercise - 1].trains


@functools.cache
def _answer(number: int) -> int:
    exercise = EXERCISES[number - 1]
    return exercise.answer(exercise.after)


def answer(lab: Lab) -> int:
    """The right choice after the press; -1 as long as nobody knows."""
    if not lab.pressed:
        return -1
    exercise = EXERCISES[lab.exercise - 1]
    return exercise.answer(lab) if exercise.trains else _answer(lab.exercise)


def shown(lab: Lab) -> dict[str, Any] | None:
    """What the page says of the exercise that is open."""
    if not lab.exercise:
        return None
    exercise, right = EXERCISES[lab.exercise - 1], answer(lab)
    return {
        "number": lab.exercise,
        "count": len(EXERCISES),
        "title": exercise.title,
        "question": exercise.question,
        "choices": exercise.choices,
        "press": exercise.press,
        "guess": lab.guess,
        "pressed": lab.pressed,
        "answer": right,
        "words": _words(exercise, lab.guess, right) if lab.pressed else "",
    }


def _words(exercise: Exercise, guess: int, right: int) -> str:
    if right < 0:
        return "Press “Query-train this graph”: the answer comes with the training." if exercise.trains else ""
    said, true = exercise.choices[guess], exercise.choices[right]
    return f"{'Right.' if said == true else f'You said “{said}”, but it is “{true}”.'} {exercise.why}"
