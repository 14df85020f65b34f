"""LBP lab: small graphs whose messages you send by hand."""

import asyncio
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import panel as pn
import torch
from panel.viewable import Viewable

from qtcore.errors import InputError
from qtcore.learn.query_training import Progress
from qtcore_app import engine
from qtcore_app.cards import card
from qtcore_app.components.lab import LabView, decode_action
from qtcore_app.lab import address, exercises, files, graphs, training
from qtcore_app.lab.actions import DRAWS, FRESH, applied
from qtcore_app.lab.drawings import GRAPHS, MAX_FACTORS, MAX_VARIABLES
from qtcore_app.lab.graphs import PRESETS, SCHEDULES, Lab
from qtcore_app.lab.picture import picture
from qtcore_app.layout import beside
from qtcore_app.shell import Shell

log = logging.getLogger(__name__)

SECONDS = 4
MIN_STEPS, MAX_STEPS = 25, 600
"""A busy machine may take up to three times SECONDS for the smallest useful number of steps."""
LIMITS = {
    "graphs": [(graph.key, graph.label) for graph in GRAPHS.values()],
    "presets": list(PRESETS),
    "schedules": list(SCHEDULES),
    "variables": MAX_VARIABLES,
    "factors": MAX_FACTORS,
    "bytes": files.MAX_BYTES,
    "strength": graphs.MAX_STRENGTH,
    "coupling": graphs.MAX_COUPLING,
    "bias": graphs.MAX_BIAS,
    "damping": graphs.MAX_DAMPING,
    "layers": graphs.MAX_LAYERS,
    "seconds": SECONDS,
}
MODEL_ACTIONS = (
    *("graph", "preset", "strength", "coupling", "bias", "temperature", "damping", "layers", "schedule", "train", "stop"),
    *("undo", "start", "exercise", "press", *DRAWS),
)
"""Actions that make a running training useless."""
MAX_UNDO = 50

# Trainings and scores of all users; not in the pool that painting needs.
trainers = ThreadPoolExecutor(2, thread_name_prefix="qtcore-lab", initializer=lambda: torch.set_num_threads(1))
scorers = ThreadPoolExecutor(1, thread_name_prefix="qtcore-lab-scores", initializer=lambda: torch.set_num_threads(1))


Scores = dict[str, training.Score | None]

DISCARDED = "These are other couplings or biases, so the training was discarded: train again."
UNTRAINED = "Query training learns from samples of this graph, for the T, d and N that are set."
PARADOX = "As a model it is worse, but its beliefs after N layers are better."


def other_settings(lab: Lab) -> str:
    """A sentence if the trained parameters were trained for another temperature, damping or depth than is set now."""
    names = ("T = {:.2f}", "d = {:.2f}", "N = {:.0f}", "the {} schedule")
    pairs = [pair for pair in zip(names, lab.trained_for, lab.settings, strict=False) if pair[1] != pair[2]]
    if not pairs:
        return ""
    then, now = (", ".join(_setting(name, pair[side]) for name, *pair in pairs) for side in (0, 1))
    return f"Trained for {then}, but {now} is set: train again to compare."


def _setting(name: str, value: float) -> str:
    return name.format(SCHEDULES[int(value)] if "schedule" in name else value)


def both_scores(lab: Lab) -> Scores:
    return {"before": training.score(lab), "after": training.score(lab, True) if lab.trained else None}


def question(lab: Lab) -> Lab:
    """The part of the lab that the scores depend on."""
    return replace(lab, evidence=(), selected="", hand=-1, sent=(), shown=0, exercise=0, guess=-1, pressed=False)


class LabPage:
    """One user's lab."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        state = shell.states["lab"]
        self.lab = address.decode(state.graph) or graphs.default()
        self.start = self.lab
        """Where "start over" leads: the graph as it was chosen, drawn or opened."""
        self.past: list[Lab] = []
        self.presses = 0
        self.seq = 0
        self.latest = engine.Latest(self._tell)
        self.trainer = engine.Latest(self._tell)
        self.scores: Scores = {"before": None, "after": None}
        self.discarded = False
        self._scored: Lab | None = None
        layer = state.integer("layer", 0, graphs.MAX_LAYERS + graphs.MAX_SENT, -1)
        self.component = LabView(limits=LIMITS, layer=layer, sizing_mode="stretch_width", margin=0)
        self._put(engine.in_pool(picture, self.lab))
        if self.lab.schedule == SCHEDULES[0]:  # the others take too long for everybody else to wait
            self.scores, self._scored = engine.in_pool(both_scores, self.lab), question(self.lab)
        self._show_training()
        self.latest.submit(self._score)
        for jobs in (self.latest, self.trainer):
            shell.when_left("lab", jobs.cancel)
        self.component.param.watch(self._receive, "packet")
        self.component.param.watch(self._on_layer, "layer")
        self.component.param.watch(self._on_file, "file")

    # ------------------------------------------------------------------ the picture

    def _put(self, shown: dict[str, Any]) -> None:
        self.component.data = json.dumps(shown | {"seq": self.seq, "can_undo": bool(self.past)})

    async def _run(self) -> None:
        loop, lab = asyncio.get_running_loop(), self.lab
        self._put(await loop.run_in_executor(engine.pool, picture, lab))
        await self._score()

    async def _score(self) -> None:
        """Both scores, if they are not those of the lab already."""
        loop, lab = asyncio.get_running_loop(), self.lab
        if question(lab) != self._scored:
            self.scores = await loop.run_in_executor(scorers, both_scores, lab)
            self._scored = question(lab)
            self._show_training()

    def _refresh(self) -> None:
        self.component.notice = ""
        self.latest.submit(self._run)
        self._remember()

    def _remember(self) -> None:
        layer = self.component.layer
        self.shell.remember("lab", graph=address.encode(self.lab), layer="" if layer < 0 else layer)

    def _tell(self, sentence: str) -> None:
        self.component.notice = sentence

    # ------------------------------------------------------------------ what the user does

    def _receive(self, event: Any) -> None:
        decoded = decode_action(event.new)
        if decoded is None:
            return
        self.seq, action, numbers = decoded
        if action in MODEL_ACTIONS:
            self.trainer.cancel()
        if action == "train":
            self.trainer.submit(self._train)
        elif action == "stop":
            self._show_training()
        elif action == "save":
            self.component.saved = json.dumps({"seq": self.seq, "name": f"{self.lab.key}.uai", "text": files.saved(self.lab)})
        else:
            self._act(action, numbers)
        self._refresh()
        if action == "press" and exercises.wants_training(self.lab):
            self.trainer.submit(self._train)

    def _act(self, action: str, numbers: list[float]) -> None:
        self.presses += action == "preset"
        if action == "undo":
            changed = self.past.pop() if self.past else None
        else:
            changed = self.start if action == "start" else applied(self.lab, action, numbers, self.presses)
        if changed is None:
            log.warning("ignored an action that is out of bounds")
            return
        if action in DRAWS or action in ("graph", "exercise", "preset"):
            self._keep(changed)
        if action in ("hand", "schedule", "send", "undo", *FRESH):
            self.component.layer = -1
        self._become(changed)

    def _keep(self, changed: Lab) -> None:
        """What can be undone, and what "start over" leads to from now on."""
        if changed != self.lab:
            self.past = [*self.past[1 - MAX_UNDO :], self.lab]
        self.start = replace(changed, evidence=(-1,) * changed.graph.n, hand=-1, sent=(), guess=-1, pressed=False)

    def _become(self, changed: Lab) -> None:
        same = changed.key == self.lab.key and changed.exercise == self.lab.exercise
        self.discarded = same and not changed.trained and (self.discarded or bool(self.lab.trained))
        self.lab = changed

    def _on_layer(self, event: Any) -> None:
        if not -1 <= self.component.layer <= graphs.MAX_LAYERS + graphs.MAX_SENT:
            self.component.layer = -1
        self._remember()

    def _on_file(self, event: Any) -> None:
        """A graph from a file; one that is refused changes nothing but the notice."""
        try:
            lab = files.opened(bytes(event.new or b"")[4:])
        except InputError as error:
            sentence = str(error)
            self._tell(sentence[0].upper() + sentence[1:])
            return
        self.trainer.cancel()
        lab = replace(lab, temperature=self.lab.temperature, damping=self.lab.damping, schedule=self.lab.schedule)
        self._keep(lab)
        self.component.layer = -1
        self._become(lab)
        self._refresh()

    # ------------------------------------------------------------------ training

    def _show_training(self, running: bool = False, progress: float = 0.0, words: str = "") -> None:
        warning = "" if words else DISCARDED if self.discarded else other_settings(self.lab)
        if not words:
            words = warning or (UNTRAINED if not self.scores["after"] else PARADOX if self._paradox() else "Trained.")
        state = {"running": running, "progress": round(progress, 3), "words": words, "warning": bool(warning)}
        self.component.training = json.dumps(state | self.scores)

    def _paradox(self) -> bool:
        before, after = self.scores["before"], self.scores["after"]
        assert before is not None
        assert after is not None
        return after.likelihood < before.likelihood and after.error < before.error

    async def _train(self) -> None:
        lab, stop = self.lab, threading.Event()
        begun: list[float] = []  # it may have to wait for others

        def enough(progress: Progress) -> bool:
            passed = time.monotonic() - begun[0]
            return stop.is_set() or passed > (SECONDS if progress.step >= MIN_STEPS else 3 * SECONDS)

        def work() -> Lab:
            begun.append(time.monotonic())
            return training.train(lab, MAX_STEPS, enough)

        job = asyncio.get_running_loop().run_in_executor(trainers, work)
        try:
            while not job.done():
                if begun:
                    self._show_training(True, min(1.0, (time.monotonic() - begun[0]) / SECONDS), "Training …")
                else:
                    self._show_training(True, 0.0, "Waiting for another training to end.")
                await asyncio.wait([job], timeout=0.15)
            trained = job.result()
        finally:
            stop.set()
        self.lab = replace(self.lab, trained=trained.trained, trained_for=trained.trained_for, shown=1)
        self._refresh()

    def view(self) -> Viewable:
        return pn.Column(
            self.component,
            beside(*explanation(), margin=(12, 0, 16, 0), sizing_mode="stretch_width"),
            margin=(12, 16, 0, 16),
            sizing_mode="stretch_width",
        )


def explanation() -> list[Viewable]:
    """Three cards: the model, a message, why a worse model can answer better."""
    return [
        card(
            "The model",
            r"$p(x) \propto \exp\big(\sum_i b_i x_i - \sum_{(i,j)} w_{ij}\,[x_i \ne x_j]\big)$: a positive coupling wants its "
            r"two variables to be equal, a negative one wants them to differ. A third-order factor, drawn as a square, scores "
            r"$-w$ where the number of ones among its three variables is odd. A loop with an odd number of negative couplings "
            r"is frustrated: no state satisfies them all. The exact marginals sum over all $2^n$ states; at $T = 0$ the exact "
            r"max-marginals take the best of them.",
        ),
        card(
            "A message",
            r"$m_{i \to j} = f_w(x; T)$ with the cavity $x = b_i + \sum_{k \ne j} m_{k \to i}$, all in log-odds. At $T = 1$ "
            r"(sum-product) $f_w(x) = \log\dfrac{1 + e^{x + w}}{e^w + e^x}$; at $T = 0$ (max-product) it is $\pm x$ clipped at "
            r"$\pm w$. The belief is $\sigma(b_i + \sum_k m_{k \to i})$: exact on a tree. On a loop a message returns to "
            r"its sender and is counted twice. The Bethe estimate of $\log Z$ is computed from the messages alone.",
        ),
        card(
            "Why query training helps",
            r"It takes the $N$ layers as they are and minimises $-\log$ of their beliefs at the truth, over samples and "
            r"queries. The trained parameters are a worse model (the likelihood falls), but they compensate for what belief "
            r"propagation gets wrong on this graph. Strong frustrated couplings on $K_5$ show it best. There "
            r"damping alone does as well: compare at the same $d$.",
        ),
    ]


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    return LabPage(shell).view()
