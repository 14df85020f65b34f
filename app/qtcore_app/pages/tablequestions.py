"""Questions to a model of a visitor's table: a record, what is known of it, and the model's answers."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from qtcore.learn.table_training import held_out
from qtcore.models.table_model import TableModel
from qtcore.tabular import Table
from qtcore.tabular.reading import Cells, csv_text
from qtcore_app import engine
from qtcore_app.completions import Asked, Drawn
from qtcore_app.components import Asker
from qtcore_app.components.yourdata import decode_action, decode_cells
from qtcore_app.pages.records import ASK, KNOW, tell_bits
from qtcore_app.yourdata import asking, reading
from qtcore_app.yourdata.asking import ASKED, KNOWN, Record

log = logging.getLogger(__name__)

EMPTY = "A record of which nothing is known"
NO_FILE = "The file could not be made."


class TableQuestions:
    """One model of a table, and what is asked of it. `file` is the model's file."""

    def __init__(self, table: Table, model: TableModel, file: bytes, tell: Any) -> None:
        self.table, self.model, self.file = table, model, file
        self.schema = table.schema
        self.rows, self.turn, self.seq = held_out(table), 0, 0
        self.answered: set[str] = set()
        """Which joint answers are those to the current question."""
        self.view = Asker(columns=reading.listed(self.schema.used), sizing_mode="stretch_width", margin=0)
        self.joint = Asked(self.view, self._joint_answer, self._show_joint, self._lacking)
        self.latest, self.making = engine.Latest(tell), engine.Latest(lambda sentence: self._say(NO_FILE))
        self._take_row()
        self.view.param.watch(self._on_cells, "packet")
        self.view.param.watch(self._on_action, "action")

    def cancel(self) -> None:
        for job in (self.latest, self.making, self.joint):
            job.cancel()

    def show(self, what: str) -> None:
        """Answers, samples or next; the latter two are asked for when they are first wanted."""
        self.view.shown = what
        if what != "answers" and what not in self.answered:
            self.view.asks += 1

    # ------------------------------------------------------------------ the record

    def _take_row(self) -> None:
        row = self.rows[self.turn % len(self.rows)]
        record = asking.of_row(self.table, row)
        self._give(record, asking.states(record, self.schema), f"Row {row + 1:,} of the table, held out of the training")

    def _give(self, record: Record, truth: list[int | None], title: str) -> None:
        self.record, self.truth = record, truth
        self.view.give(asking.encoded(record, self.schema), truth, title)

    def _on_cells(self, event: Any) -> None:
        if event.new is None or (decoded := decode_cells(event.new)) is None:
            return
        record = asking.decoded(decoded[1], self.schema)
        if record is None:
            log.warning("ignored a record that does not fit the table")
            return
        self.seq, self.record = decoded[0], record
        self._refresh()

    def _on_action(self, event: Any) -> None:
        if event.new is None or (decoded := decode_action(event.new)) is None:
            return
        action, _ = decoded
        if action == "next row":
            self.turn += 1
            self._take_row()
            self._refresh()
        elif action == "nothing known":
            self._give(asking.empty(self.schema), [None] * len(self.schema.used), EMPTY)
            self._refresh()
        elif action == "model":
            self.view.hand_over("table-model.safetensors", self.file)
        elif action == "filled":
            self.making.submit(self._fill)

    # ------------------------------------------------------------------ answers

    def _refresh(self) -> None:
        self.joint.stop()
        self.answered.clear()
        self.latest.submit(self.answer)

    async def answer(self) -> None:
        """Answer the current question."""
        question = self.model, self.record, self.truth
        self.view.answer(self.seq, await asyncio.get_running_loop().run_in_executor(engine.pool, asking.answers, *question))

    def _lacking(self) -> str:
        """What keeps a joint question from being asked, if anything."""
        if self.view.shown == "next":
            return "" if ASKED in self.record.roles else ASK
        return KNOW if {*self.record.roles} == {KNOWN} else ""

    def _joint_answer(self, seed: int) -> Iterator[Any]:
        if self.view.shown == "next":
            return tell_bits(asking.next_questions(self.model, self.record))
        return asking.completions(self.model, self.record, seed)

    def _show_joint(self, answer: Any) -> None:
        if isinstance(answer, Drawn):
            self.view.samples = asking.told(answer, self.schema, self.joint.count)
        else:
            self.view.tell_bits(answer.bits)
        if answer.share >= 1:
            self.answered.add("samples" if isinstance(answer, Drawn) else "next")

    # ------------------------------------------------------------------ files

    async def _fill(self) -> None:
        """The table with its gaps filled, as a file."""
        cells: Cells = {column.name: [] for column in self.schema}
        async for share, part in engine.one_by_one(asking.filled(self.model, self.table)):
            self._say(f"Filling: {100 * share:.0f} %")
            for name, own in part.cells.items():
                cells[name] += own
        self._say("")
        self.view.hand_over("table-filled.csv", csv_text(cells).encode())

    def _say(self, words: str) -> None:
        self.view.making = words
