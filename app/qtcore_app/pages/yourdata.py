"""Your data: a visitor's own table, trained on this machine in a process of its own, and asked about."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import panel as pn
from panel.viewable import Viewable

from qtcore.errors import InputError
from qtcore.tabular import Table
from qtcore.tabular.columns import KINDS
from qtcore_app import engine, sessions
from qtcore_app.cards import card
from qtcore_app.components import Choices, ColumnsView, Trainer, Upload
from qtcore_app.components.yourdata import decode_action
from qtcore_app.layout import beside, choices
from qtcore_app.pages.picture import LEFT, NOTICE
from qtcore_app.pages.tablequestions import TableQuestions
from qtcore_app.shell import Shell
from qtcore_app.uploads import UploadError
from qtcore_app.yourdata import example, reading
from qtcore_app.yourdata.training import Event, Training

log = logging.getLogger(__name__)

MINUTES = {"½ minute": 0.5, "1 minute": 1.0, "3 minutes": 3.0}
SHOWN = {"columns": "columns", "answers": "answers", "samples": "six samples", "next": "ask next"}
"""What is shown of a trained table, and the label of its button."""
PRIVATE = "It stays on the machine that runs this app, in memory, for this visit only."
NOTHING = "<p>No table yet. Upload one, or take the example: bicycles for hire on an island that does not exist.</p>"
READY = "Look at the columns, then train."
STARTING = "Starting …"
ENDED = "The training was ended."
BROKEN = "The training failed; try again, or try a smaller table."


class YourDataPage:
    """One visitor's table. What was uploaded is kept here and nowhere else."""

    def __init__(self, shell: Shell) -> None:
        context = pn.state.curdoc.session_context if pn.state.curdoc else None
        self.identity = context.id if context else None
        self.table: Table | None = None
        self.overrides: dict[str, Any] = {}
        self.training: Training | None = None
        self.baseline = 0.0
        self.questions: TableQuestions | None = None
        self.reader, self.trains = engine.Latest(self.tell), engine.Latest(self.tell)
        self._make_parts()
        shell.when_left("yourdata", self._leave)

    def _make_parts(self) -> None:
        self.upload = Upload(
            label="Upload a CSV…", accept=".csv,.tsv,.txt,text/csv,text/plain", what="tables", width=LEFT, margin=(4, 0, 0, 0)
        )
        self.example = Choices(labels=["Example table"], width=LEFT, margin=(6, 0, 0, 0))
        self.trainer = Trainer(times=[*MINUTES], width=LEFT, margin=(14, 0, 0, 0))
        self.notice = pn.pane.HTML("", visible=False, width=LEFT, margin=(8, 0), styles=NOTICE)
        self.show_row = Choices(labels=[*SHOWN.values()], heading="Show", visible=False, margin=(0, 0, 10, 0))
        self.nothing = pn.pane.HTML(NOTHING, margin=0, sizing_mode="stretch_width")
        self.columns = ColumnsView(visible=False, sizing_mode="stretch_width", margin=0)
        self.place = pn.Column(sizing_mode="stretch_width", margin=0)
        self.upload.param.watch(self._on_upload, "file")
        self.example.param.watch(lambda event: self._read(example.csv), "clicks")
        self.show_row.param.watch(self._on_show, "clicks")
        for part in (self.columns, self.trainer):
            part.param.watch(self._on_action, "packet")

    def tell(self, sentence: str) -> None:
        """Show a sentence of ours (never an exception's text) to the visitor."""
        self.notice.object = sentence
        self.notice.visible = bool(sentence)

    def _leave(self) -> None:
        for job in (self.reader, self.trains, self.questions):
            if job is not None:
                job.cancel()

    # ------------------------------------------------------------------ the table

    def _on_upload(self, event: Any) -> None:
        data = bytes(event.new[4:])
        self._read(lambda: data)

    def _read(self, data: Callable[[], bytes]) -> None:
        """Show another table."""
        self.upload.problem = ""
        self.reader.submit(lambda: self._change(lambda: (reading.read(data()), {})))

    async def _change(self, make: Callable[[], tuple[Table, dict[str, Any]]]) -> None:
        """Take a table that is made in the background, with what the visitor said about it; or say why not."""
        try:
            table, said = await asyncio.get_running_loop().run_in_executor(engine.background, make)
        except UploadError as error:
            log.info("a table was refused")
            self.upload.problem = str(error)
        except InputError as error:
            self._show_columns(reading.sentence(error))
        else:
            self._forget()
            self.table, self.overrides = table, said
            self._show_columns()

    def _forget(self) -> None:
        """What belongs to the table before."""
        self.trains.cancel()
        if self.questions is not None:
            self.questions.cancel()
        self.training = self.questions = None
        self.place.clear()
        self.tell("")
        self.trainer.param.update(ready=True, running=False, share=0.0, words=READY, curve=[], baseline=None)
        self._show("columns")

    def _show_columns(self, problem: str = "") -> None:
        assert self.table is not None
        self.nothing.visible = False
        self.columns.param.update(
            columns=reading.described(self.table),
            rows=len(self.table),
            notes=reading.notes(self.table),
            problem=problem,
            visible=True,
        )

    def _on_action(self, event: Any) -> None:
        if event.new is None or (decoded := decode_action(event.new)) is None:
            return
        action, numbers = decoded
        if self.table is None:
            return
        if action in ("kind", "move"):
            self._mend(action, numbers)
        elif action == "train" and 0 <= numbers[0] < len(MINUTES) and not self.trainer.running:
            self.trains.submit(lambda: self._train([*MINUTES.values()][numbers[0]]))
        elif action == "stop":
            self._stop()

    def _mend(self, action: str, numbers: list[int]) -> None:
        table, said = self.table, self.overrides
        assert table is not None
        place = numbers[0]
        self.columns.problem = ""  # the same one may come again, and is then shown again
        if not 0 <= place < len(table.schema):
            return
        if action == "kind" and 0 <= numbers[1] < len(KINDS):
            self.reader.submit(lambda: self._change(lambda: reading.mended(table, said, place, KINDS[numbers[1]])))
        elif action == "move" and reading.is_permutable(table, *numbers):
            self.reader.submit(lambda: self._change(lambda: reading.moved(table, said, *numbers)))

    # ------------------------------------------------------------------ training

    async def _train(self, minutes: float) -> None:
        assert self.table is not None
        training = self.training = Training(self.table, minutes)
        self.trainer.param.update(running=True, share=0.0, words=STARTING, curve=[], baseline=None)
        words, began = BROKEN, time.monotonic()
        try:
            async with contextlib.aclosing(training.events()) as events:
                async for event in events:
                    if not sessions.present(self.identity):
                        words = ENDED
                        return
                    self._show_progress(event)
            await self._trained(training)
            words = self._result(time.monotonic() - began)
        except InputError as error:
            words = reading.sentence(error)
        except asyncio.CancelledError:
            words = ""  # whoever cancelled it has shown what there is
            raise
        finally:
            if words:
                self.trainer.param.update(running=False, words=words)

    def _show_progress(self, event: Event) -> None:
        trainer = self.trainer
        if "waiting" in event:
            others = "1 other training has" if event["waiting"] == 1 else f"{event['waiting']} other trainings have"
            trainer.words = f"Waiting: {others} to end first. Yours begins by itself."
        elif "baseline" in event:
            self.baseline = event["baseline"]
            trainer.param.update(baseline=self.baseline, words="Trying how fast it goes …")
        elif "step" in event:
            curve = trainer.curve if event["valid"] is None else [*trainer.curve, [event["step"], event["valid"]]]
            words = f"Step {event['step']:,} of {event['steps']:,}, at most {event['left']:.0f} s left."
            trainer.param.update(share=event["step"] / event["steps"], steps=event["steps"], words=words, curve=curve)

    def _result(self, seconds: float) -> str:
        assert self.training is not None
        assert self.training.model is not None
        bits, alone = self.training.model.provenance.valid_nce_bits, self.baseline
        score = (
            ", too short to be scored"
            if bits is None
            else f": {bits:.3f} bits per held-out cell ({alone:.3f} by frequencies alone)"
        )
        return f"Trained in {seconds:.0f} s{score}. Ask it."

    def _stop(self) -> None:
        if self.training is not None and self.training.process is not None:
            self.trainer.words = "Stopping …"
            self.training.stop()
        elif self.trainer.running:  # it waits for others
            self.trains.cancel()
            self.trainer.param.update(running=False, words=ENDED)

    async def _trained(self, training: Training) -> None:
        """Show the trained model with a row that it has not seen."""
        assert training.model is not None
        self.questions = TableQuestions(training.table, training.model, training.file, self.tell)
        await self.questions.answer()
        self.place[:] = [self.questions.view]
        self._show("answers")

    # ------------------------------------------------------------------ what is shown

    def _on_show(self, event: Any) -> None:
        number = self.show_row.clicked()
        if number is not None and self.questions is not None:
            self._show([*SHOWN][number])

    def _show(self, name: str) -> None:
        """One of `SHOWN`; without a model there are the columns alone."""
        self.show_row.visible = self.questions is not None
        self.show_row.selected = [*SHOWN].index(name)
        self.columns.visible, self.place.visible = name == "columns" and self.table is not None, name != "columns"
        if self.questions is not None and name != "columns":
            self.questions.show(name)

    def view(self) -> Viewable:
        words = pn.pane.HTML(f"{reading.LIMITS} {PRIVATE}", width=LEFT, margin=(8, 0, 0, 0), styles={"font-size": "12px"})
        left = [pn.pane.HTML("<b>Table</b>", margin=0), self.upload, self.example, words, self.trainer, self.notice]
        main = pn.Column(
            self.show_row, self.nothing, self.columns, self.place, sizing_mode="stretch_width", margin=(0, 0, 0, 20)
        )
        return pn.Column(
            beside(choices(*left, width=LEFT, margin=0), main, margin=(12, 0, 0, 0), sizing_mode="stretch_width"),
            beside(*explanation(), margin=(16, 0, 16, 0), sizing_mode="stretch_width"),
            margin=(0, 16),
            sizing_mode="stretch_width",
        )


def explanation() -> list[Viewable]:
    """Three cards: the columns, the model, the questions."""
    return [
        card(
            "The columns",
            "Empty cells, NA, NaN, None and ? are gaps; they do not disturb the training. Numbers are cut into bins with "
            "about as many rows in each; rare levels are taken together. Constants, identifiers, dates and free text are left "
            "out. Where you know better, choose another kind; levels in order are learned smoothly, so put them into theirs. "
            "A change discards the model.",
        ),
        card(
            "The training",
            r"A graph with a categorical variable for each column $i$, joined to hidden units and to each other, learns to "
            r"lower $-\log_2 p_i(v_i \mid v_{\mathrm{known}})$ for random sets of known cells of each row, through 4 layers of "
            r"belief propagation. A part of the rows is held out: the curve is their mean, in bits per cell asked for.",
        ),
        card(
            "The questions",
            r"Press the sign before a column to make it known, asked or unknown, or set its value. Answers are marginals "
            r"$p(v_i \mid v_{\mathrm{known}})$; numbers have a mean and quantiles. Samples are drawn jointly. “Ask next” "
            r"says which unknown cell would tell most about what is asked: its mutual information with it.",
        ),
    ]


def page(shell: Shell) -> Viewable:
    """The content of the tab."""
    return YourDataPage(shell).view()
