"""One binary record: what is known, what is asked, and the model's answer for each variable."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import panel as pn
import torch
from numpy.typing import NDArray
from panel.viewable import Viewable
from torch import Tensor

import qtcore
from qtcore.inference.questions import Asking
from qtcore.models.base import Model
from qtcore_app import engine
from qtcore_app.calibration import Reliability
from qtcore_app.cards import card
from qtcore_app.comparisons import Comparison
from qtcore_app.completions import Asked, Drawn, Joint, draw, joint_model
from qtcore_app.components import Choices, Record
from qtcore_app.components.record import KNOWN, ROLES, SET_0, SET_1, TARGET, UNKNOWN, evidence
from qtcore_app.frames import BernoulliEncoder, Header
from qtcore_app.layout import beside, choices
from qtcore_app.pages.picture import LEFT, NOTICE
from qtcore_app.pages.pixels import LAYERS, OfModel, both_models
from qtcore_app.reasons import N_MESSAGES, Explained, Subject, couplings, explain, ranked, signed
from qtcore_app.samples import MAX_STEPS, Samples
from qtcore_app.shell import Shell
from qtcore_app.state import decode_bytes, encode_bytes, pixel_of

Bytes = NDArray[np.uint8]

PRESETS = ("one question", "one, nothing known", "30 %", "50 %", "80 %", "everything", "nothing")
SHOWN = {"marginals": "marginals", "samples": "six samples", "next": "ask next", "why": "why"}
"""What is drawn beside each variable, and the label of its button."""
ASK = "Ask for at least one variable."
CHOOSE = "Choose a variable that is not known: its bar, or its name."
NOTHING = "Nothing is known, so that no evidence can be left out."
STRONGEST = 3
"""Variables that are named of a hidden unit."""
KNOW = "Every variable is known: make at least one unknown or asked."
EMPTY = "Ask for at least one variable to score the answer."
BOARDS = {"connect4": [6, 7]}
"""Rows and columns of games."""
ABOUT = {
    "adult": " Income, the class of the original table, is not in this file; where the fifths of fnlwgt, a weight of the "
    "census, end is not known.",
    "mushrooms": " Whether a mushroom can be eaten, the class of the original table, is not in this file.",
    "connect4": " Who wins, the class of the original table, is not in this file. Every position has eight pieces; x began.",
}
"""What else is to be said of a file."""
UNNAMED = "The meaning of this set's variables was never published."
JOINT = (
    " Samples and what to ask next are answered by a model that was trained with any number of known variables, where one is "
    "shipped."
)
GROUPED = (
    "In the data a group has at most one 1. The model has a bit for each variable and was not told so: it learned it in part, "
    "and the bars of a group need not add up to 1."
)


def preset(name: str, groups: Sequence[Sequence[Any]], count: int, seed: int, whole: bool = False) -> Bytes:
    """Roles of `count` variables: the targets are a whole group, or a share of all, or of all groups as a `whole`."""
    roles = np.full(count, UNKNOWN if name.endswith("nothing known") else KNOWN, np.uint8)
    rng = np.random.default_rng(seed)
    if name.startswith("one"):
        _, start, stop = groups[int(rng.integers(len(groups)))]
        if len(groups) == 1:  # no names, no groups
            start = int(rng.integers(count))
            stop = start + 1
        roles[start:stop] = TARGET
    elif name.endswith("%") and whole:
        for chosen in rng.permutation(len(groups))[: round(int(name[:-2]) / 100 * len(groups))]:
            roles[slice(*groups[chosen][1:])] = TARGET
    elif name.endswith("%"):
        roles[rng.permutation(count)[: round(int(name[:-2]) / 100 * count)]] = TARGET
    elif name == "everything":
        roles[:] = TARGET
    return roles


class RecordPage(OfModel):
    """One user's record of a binary set."""

    def __init__(self, shell: Shell, samples: Samples, model: str) -> None:
        state = shell.states["digits"]
        self.shell, self.samples = shell, samples
        self.number = samples.number(state.image)
        self.seed = 0
        count = samples.values.shape[1]
        self.notice = pn.pane.HTML("", visible=False, width=LEFT, margin=(8, 0), styles=NOTICE)
        self.latest = engine.Latest(self.tell)
        stored = decode_bytes(state.record, (1, count))
        chosen = pixel_of(state.pixel, (1, count))
        self.record = Record(
            np.zeros(count, np.uint8),
            samples.names,
            board=BOARDS.get(samples.dataset, []),
            layer=state.integer("layer", 0, 1000, -1),
            sizing_mode="stretch_width",
            margin=(0, 0, 0, 20),
        )
        usable = stored is not None and bool(np.isin(stored, ROLES).all())
        self.record.give(
            stored[0]
            if usable and stored is not None
            else preset("50 %", self.record.groups, count, 0, bool(self.record.board))
        )
        self.record.variable = chosen[1] if chosen else int((self.record.roles == TARGET).argmax())
        self.rows = Choices(
            labels=[str(i + 1) for i in range(len(samples.values))],
            selected=self.number,
            heading=f"Record: {samples.heading[0].lower()}{samples.heading[1:]}" if samples.key == "dream" else samples.heading,
            width=LEFT,
            margin=(14, 0, 0, 0),
        )
        self.preset_row = Choices(labels=list(PRESETS), heading="Ask", width=LEFT, margin=(14, 0, 0, 0))
        self.preset_row.selected = -1 if usable else PRESETS.index("50 %")
        self.show_row = Choices(labels=list(SHOWN.values()), heading="Show", selected=0, width=LEFT, margin=(14, 0, 0, 0))
        self.joint = Asked(self.record, self._answer, self._show_answer, self.lacking)
        self.answered: set[str] = set()  # which joint answers are those to the current question
        self.show_row.param.watch(self._on_show, "clicks")
        self.record.changes(self._on_change)
        self.rows.param.watch(self._on_row, "clicks")
        self.preset_row.param.watch(self._on_preset, "clicks")
        self.record.param.watch(self._on_look, ["layer", "variable"])
        shell.when_left("digits", self.latest.cancel)
        shell.when_left("digits", self.joint.cancel)
        self.load(model)
        self.comparison = Comparison(model, self.model.n_layers, LAYERS, state.compare, self.refresh, LEFT)
        self.reliability = Reliability(lambda: self.model_name, LEFT)
        shell.when_left("digits", self.reliability.cancel)
        header, runs = self.question()
        self.record.frames = engine.compute(header, runs)

    # ------------------------------------------------------------------ what to run

    @property
    def values(self) -> Tensor:
        """The record [V], with what is set."""
        roles, values = torch.tensor(self.record.roles), self.samples.values[self.number]
        return values.masked_fill(roles == SET_0, 0.0).masked_fill(roles == SET_1, 1.0)

    def question(self) -> tuple[Header, Sequence[engine.Run]]:
        values, roles = self.values, self.record.roles
        target = torch.from_numpy(roles == TARGET)
        query = qtcore.Query(values[None], torch.from_numpy(evidence(roles))[None])
        encoder = BernoulliEncoder(self.model, values, target)
        extra = {"without": {"nce": EMPTY}}
        header = Header((1, len(roles)), encoder.channels, self.record.seq, encoder.truth_bytes(), extra=extra)

        def run(label: str, model: Model, n_layers: int) -> engine.Run:
            return engine.Run(label, model, query, encoder, n_layers)

        return header, self.comparison.runs(self.model, run)

    def refresh(self) -> None:
        """Run the current query; cancel the previous run."""
        self.joint.stop()
        self.answered.clear()
        if self.record.shown == "why":
            self.record.asks += 1
        self.latest.submit(self._run)
        self.remember()

    async def _run(self) -> None:
        header, runs = self.question()
        async for blob in engine.stream(header, runs):
            self.record.frames = blob

    def lacking(self) -> str:
        """What keeps a joint question from being asked, if anything."""
        roles = self.record.roles
        if self.record.shown == "next":
            return "" if (roles == TARGET).any() else ASK
        if self.record.shown == "why":
            chosen = 0 <= self.record.variable < len(roles) and not evidence(roles)[self.record.variable]
            return CHOOSE if not chosen else "" if evidence(roles).any() else NOTHING
        return KNOW if evidence(roles).all() else ""

    def _answer(self, seed: int) -> Iterator[Any]:
        """Samples of all that is not known, or what each unknown variable (else each asked one) would tell about the asked
        ones."""
        roles = torch.tensor(self.record.roles)
        query = qtcore.Query(self.values[None], torch.from_numpy(evidence(self.record.roles))[None])
        if self.record.shown == "why":
            return explain(Subject(self.model, query, self.record.variable, self.model.n_layers, self._pieces()))
        model = joint_model(self.model_name, self.model)
        if self.record.shown == "next":
            return tell_bits(Asking(model, query.to(model.device), about=roles == TARGET))
        return draw(Joint(model, query, math.ceil(len(roles) / MAX_STEPS)), seed)

    def _show_answer(self, answer: Any) -> None:
        if isinstance(answer, Drawn):
            drawn = torch.cat([answer.samples, answer.best]).nan_to_num(2)
            self.record.samples = drawn.cpu().to(torch.uint8).numpy().tobytes()
        elif isinstance(answer, Explained):
            self._show_reasons(answer)
        else:
            self.record.bits = answer.bits.astype("<f4").tobytes()
        if answer.share >= 1:
            self.answered.add({Drawn: "samples", Told: "next", Explained: "why"}[type(answer)])

    def _pieces(self) -> list[list[int]]:
        """What is known, a whole group at a time: each of its options follows from the others."""
        known = evidence(self.record.roles)
        if len(self.record.groups) == 1:
            return [[int(i)] for i in np.flatnonzero(known)]
        pieces = [[i for i in range(start, stop) if known[i]] for _, start, stop in self.record.groups]
        return [piece for piece in pieces if piece]

    def _show_reasons(self, explained: Explained) -> None:
        """What each known variable did, with its group, and which hidden units speak to the chosen one."""
        moved = np.full(len(self.record.names), np.nan, "<f4")
        if explained.left is not None:
            for piece, value in zip(explained.left.pieces.cpu().numpy(), signed(explained.left).tolist(), strict=True):
                moved[piece] = value
        strengths, effect, p = couplings(self.model), signed(explained.heard), explained.hidden[-1]
        units = []
        for k in ranked(explained.heard, N_MESSAGES):
            strongest = strengths[k].abs().argsort(descending=True)[:STRONGEST].tolist()
            names = ", ".join(f"{'+' if strengths[k, i] > 0 else '−'} {self._named(i)}" for i in strongest)
            units.append({"moved": f"{float(effect[k]):+.2g}", "name": f"unit {k + 1}, p = {float(p[k]):.2f}", "text": names})
        self.record.param.update(moved=moved.tobytes(), units=units)

    def _named(self, i: int) -> str:
        title = next(title for title, start, stop in self.record.groups if start <= i < stop)
        return f"{title}: {self.record.names[i]}" if title else self.record.names[i]

    def _on_show(self, event: Any) -> None:
        number = self.show_row.clicked()
        if number is None:
            return
        self.show_row.selected = number
        self.record.shown = list(SHOWN)[number]
        if number and self.record.shown not in self.answered:
            self.record.asks += 1

    def tell(self, sentence: str) -> None:
        self.notice.object = sentence
        self.notice.visible = bool(sentence)

    def remember(self) -> None:
        self.shell.remember(
            "digits",
            model=self.model_name,
            image=f"{self.samples.key}-{self.number}",
            record=encode_bytes(self.record.roles),
            compare=self.comparison.value,
            layer="" if self.record.layer < 0 else self.record.layer,
            pixel=f"0-{self.record.variable}" if self.record.variable >= 0 else "",
            mask="",
            pixels="",
        )

    # ------------------------------------------------------------------ what the user does

    def _on_change(self) -> None:
        self.preset_row.selected = -1
        self.refresh()

    def _on_row(self, event: Any) -> None:
        number = self.rows.clicked()
        if number is not None:
            self.number = self.rows.selected = number
            self.refresh()

    def _on_preset(self, event: Any) -> None:
        number = self.preset_row.clicked()
        if number is not None:
            self.seed += 1
            self.preset_row.selected = number
            groups, count = self.record.groups, len(self.record.names)
            self.record.give(preset(PRESETS[number], groups, count, self.seed, bool(self.record.board)))
            self.refresh()

    def _on_look(self, *events: Any) -> None:
        if self.record.layer < -1:  # from a client that is not ours
            self.record.layer = -1
        if not -1 <= self.record.variable < len(self.record.names):
            self.record.variable = -1
        if any(event.name == "variable" for event in events):
            self._explain()
        self.remember()

    def _explain(self) -> None:
        """Another variable has other reasons: at once where they are shown."""
        self.answered.discard("why")
        if self.record.shown == "why":
            self.record.asks += 1

    def view(self, above: Sequence[Viewable]) -> Viewable:
        left = [*above, self.rows, self.preset_row, self.show_row, self.comparison.row, self.reliability.row, self.notice]
        return pn.Column(
            beside(choices(*left, width=LEFT, margin=0), self.record, margin=(12, 0, 0, 0), sizing_mode="stretch_width"),
            beside(*explanation(self.samples), self.reliability.pane, margin=(8, 0, 16, 0), sizing_mode="stretch_width"),
            margin=(0, 16),
            sizing_mode="stretch_width",
        )


@dataclass(frozen=True, eq=False)
class Told:
    """How far a search for the next question has come, and the bits so far [V]; NaN where there are none."""

    share: float
    bits: NDArray[np.float64]


def tell_bits(asking: Asking) -> Iterator[Told]:
    for done, bits in enumerate(asking, 1):
        yield Told(done / len(asking), bits[0].cpu().numpy())


def explanation(samples: Samples) -> list[Viewable]:
    """Three cards: the question, a layer, the two models."""
    return [
        card(
            "What is asked",
            r"Click the square before a variable to make it known, asked or unknown; click a heading for its whole group, "
            r"or set the group to a value beside it: what is asked is then still scored against the record as it was. "
            r"The bar is $p(v_i = 1 \mid v_{\mathrm{known}})$; asked variables are scored by "
            r"$\mathrm{NCE} = -\tfrac1n \sum_{\text{asked } i} \log_2 p(v_i)$, unknown ones are summed out. "
            + (UNNAMED if samples.names is None else GROUPED)
            + ABOUT.get(samples.dataset, "")
            + JOINT,
        ),
        *both_models(),
    ]
