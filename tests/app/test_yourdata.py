"""A visitor's own table: what is read, what a browser may send, the training's process, and the answers."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from qtcore_app import sessions
from qtcore_app.components.yourdata import decode_action, decode_cells
from qtcore_app.pages import yourdata as page_module
from qtcore_app.pages.tablequestions import TableQuestions
from qtcore_app.pages.yourdata import YourDataPage
from qtcore_app.shell import Shell
from qtcore_app.uploads import MAX_BYTES, UploadError
from qtcore_app.yourdata import asking, example, reading, training
from qtcore_app.yourdata.asking import ASKED, KNOWN, UNKNOWN, Record
from qtcore_app.yourdata.training import Training, Turns

import qtcore
from qtcore.errors import InputError
from qtcore.learn.table_training import held_out
from qtcore.models.files import from_bytes
from qtcore.models.table_model import TableModel
from qtcore.tabular import Table
from qtcore.tabular.columns import KINDS

SMALL = "size,sold,price\n" + "".join(
    f"{'SML'[k % 3]},{'yes' if k % 3 else 'no'},{k % 3 * 10 + k % 7 / 2 if k % 5 else ''}\n" for k in range(90)
)
"""Levels, gaps and numbers."""


def small() -> Table:
    return reading.read(SMALL.encode())


@pytest.fixture(scope="module")
def trained() -> tuple[Table, TableModel]:
    table = small()
    return table, qtcore.fit_table(table, steps=60).requires_grad_(False)


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def test_the_example_has_words_numbers_gaps_and_an_identifier_and_is_always_the_same() -> None:
    table = reading.read(example.csv())
    kinds = {column.kind for column in table.schema}
    assert {"binary", "categorical", "count", "real", "ignore"} <= kinds
    assert any(None in cells for cells in table.cells.values())
    example.csv.cache_clear()
    assert reading.read(example.csv()).cells == table.cells
    assert reading.notes(table) == []  # the one about the identifier stands beside its column


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "The file is empty. A CSV file whose first line"),
        (b"x" * (MAX_BYTES + 1), "The file is 4.0 MB; tables up to 4 MB are read."),
        (b"a,b\n1,2\n3\n", "The table, line 3: there are 1 fields"),
        (b"\x89PNG\r\n\x1a\n\0\0", "The table, line 1: this is no text in UTF-8"),
        (b"1,2\n3,4\n", "The table: the first line must name the columns"),
        (
            (",".join(f"c{k}" for k in range(41)) + "\n" + ",".join("1" * 41) + "\n").encode(),
            "The table has 41 columns; up to 40",
        ),
        (b"a,b\n" + b"1,2\n" * 10_001, "The table has 10,001 rows; up to 10,000"),
        (b"a" + b"," * 300_000 + b"\n" + b"," * 300_000 + b"\n", "The table has 300,001 columns"),
    ],
)
def test_tables_that_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(UploadError, match=words.replace(".", r"\.")):
        reading.read(data)


def test_columns_are_mended_one_after_the_other() -> None:
    table, said = reading.mended(small(), {}, 2, "ignore")
    table, said = reading.mended(table, said, 0, "ordered")
    assert [column.kind for column in table.schema] == ["ordered", "binary", "ignore"]
    assert table.schema["size"].levels == ("L", "M", "S")
    assert reading.is_permutable(table, 0, 2, 0)
    assert not reading.is_permutable(table, 0, 3, 0)
    assert not reading.is_permutable(table, 1, 1, 0)
    table, said = reading.moved(table, said, 0, 2, 0)
    assert table.schema["size"].levels == ("S", "L", "M")
    table, _ = reading.mended(table, said, 2, "real")
    assert table.schema["size"].levels == ("S", "L", "M")
    assert table.schema["price"].is_number
    with pytest.raises(InputError, match="cannot be binary: it has 3 values"):
        reading.mended(table, said, 0, "binary")


def test_too_many_levels_are_refused() -> None:
    table = Table({"x": [k / 8 for k in range(400)], "y": ["a", "b"] * 200})
    with pytest.raises(InputError, match="has 400 values, too many for levels"):
        reading.mended(table, {}, 0, "ordered")


def test_a_browser_sees_short_texts() -> None:
    table = Table({"n" * 200: [f"{'long ' * 50}{k % 2}" for k in range(40)]})
    shown = repr(reading.described(table)) + repr(reading.listed(table.schema.used))
    assert len(shown) < 1000
    assert "…" in shown


# ---------------------------------------------------------------------------------------------------------------------
# What a browser sends


@pytest.mark.parametrize(
    "bad",
    [None, "kind", [], [1], [1, 2], [1, "kind", 1], [1, "move", 0, 1], [1, "drop"], [1, "train", 0.5], [1, "train", True]],
)
def test_bad_actions_are_ignored(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decode_action(bad) is None
    assert caplog.messages == ["ignored an action that does not exist"]
    assert decode_action([1, "train", 2]) == ("train", [2])


CELLS = [[KNOWN, 1], [ASKED, None], [UNKNOWN, None]]


@pytest.mark.parametrize("bad", [None, [], [0, CELLS], [2**60, CELLS], [1.5, CELLS], [True, CELLS], [1, CELLS, 2], "secret"])
def test_bad_packets_are_ignored(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decode_cells(bad) is None
    assert "secret" not in caplog.text
    assert decode_cells([1, CELLS]) == (1, CELLS)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        [],
        CELLS[:2],
        [[KNOWN, 3], *CELLS[1:]],  # no such level
        [[KNOWN, -1], *CELLS[1:]],
        [[KNOWN, 0.5], *CELLS[1:]],
        [[KNOWN, None], *CELLS[1:]],
        [[KNOWN, "S"], *CELLS[1:]],
        [[3, 1], *CELLS[1:]],
        [[True, 1], *CELLS[1:]],
        [[KNOWN], *CELLS[1:]],
        [*CELLS[:2], [KNOWN, float("nan")]],
        [*CELLS[:2], [KNOWN, "1"]],
        {"a": 1},
    ],
)
def test_bad_records_are_none(bad: Any) -> None:
    assert asking.decoded(bad, small().schema) is None


def test_a_record_survives() -> None:
    schema = small().schema
    record = asking.decoded([[KNOWN, 1], [ASKED, 0], [KNOWN, -1e300]], schema)
    assert record == Record((KNOWN, ASKED, KNOWN), ("M", "no", -1e300))
    assert asking.decoded(asking.encoded(record, schema), schema) == record
    assert record.known(schema) == {"size": "M", "price": -1e300}
    assert asking.states(record, schema)[2] == 0  # in the lowest bin


# ---------------------------------------------------------------------------------------------------------------------
# Answers


def test_rows_ask_for_their_gaps_a_level_and_a_number() -> None:
    table = small()
    full, gap = asking.of_row(table, 1), asking.of_row(table, 0)
    assert full.roles == (KNOWN, ASKED, ASKED)
    assert gap.roles == (KNOWN, ASKED, ASKED)
    assert gap.values[2] is None
    assert full.values == ("M", "yes", 10.5)
    alone = Table({"a": ["x", "y"] * 20})
    assert asking.of_row(alone, 0).roles == (ASKED,)


def test_answers_are_those_of_the_model(trained: tuple[Table, TableModel]) -> None:
    table, model = trained
    record = Record((KNOWN, ASKED, UNKNOWN), ("S", None, None))
    found = asking.answers(model, record, [None, 0, None])
    expected = model.ask({"size": "S"}, about=["sold", "price"])
    size, sold, price = found["columns"]
    assert size is None
    np.testing.assert_allclose(sold["p"], expected["sold"].probs[0], atol=1e-4)
    np.testing.assert_allclose(price["p"], expected["price"].probs[0], atol=1e-4)
    assert price["mean"] == pytest.approx(expected["price"].mean[0], rel=1e-3)
    assert found["bits"] == pytest.approx(-np.log2(expected["sold"]["no"]), abs=1e-3)
    assert sold["p"][0] > 0.8  # small ones are not sold
    assert asking.answers(model, Record((KNOWN,) * 3, ("S", "no", 1.0)), [None] * 3)["columns"] == [None] * 3
    assert asking.answers(model, asking.empty(table.schema), [None] * 3)["bits"] is None
    assert json.loads(json.dumps(found)) == found


def test_samples_keep_what_is_known_and_are_of_the_columns(trained: tuple[Table, TableModel]) -> None:
    table, model = trained
    record = Record((KNOWN, ASKED, UNKNOWN), ("S", None, None))
    steps = asking.completions(model, record, 1)
    first = asking.told(next(steps), table.schema, 1)
    assert "" in first[1] + first[2]  # not drawn yet
    *_, last = steps
    size, sold, price = asking.told(last, table.schema, 1)
    assert size == ["S"] * 7
    assert set(sold) <= {"no", "yes"}
    low, high = table.schema["price"].low[0], table.schema["price"].high[-1]
    assert all(low <= float(word) <= high for word in price)
    assert all(now in ("", then) for now, then in zip(first[2], price, strict=True))  # a number that is drawn stays


def test_the_next_question(trained: tuple[Table, TableModel]) -> None:
    _, model = trained
    *_, bits = asking.next_questions(model, Record((UNKNOWN, ASKED, UNKNOWN), (None,) * 3))
    told = model.next(None, about="sold")
    assert bits[0, [0, 2]].tolist() == pytest.approx([told["size"], told["price"]], abs=1e-5)


def test_the_filled_table_has_no_gaps_and_all_else_as_it_was(
    trained: tuple[Table, TableModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, model = trained
    monkeypatch.setattr(asking, "CHUNK", 40)
    parts = list(asking.filled(model, table))
    assert [share for share, _ in parts] == [pytest.approx(40 / 90), pytest.approx(80 / 90), 1.0]
    filled = [cell for _, part in parts for cell in part.cells["price"]]
    for before, after in zip(table.cells["price"], filled, strict=True):
        assert after is not None
        assert before is None or before == after


# ---------------------------------------------------------------------------------------------------------------------
# Training


def follow(run: Training) -> list[training.Event]:
    async def work() -> list[training.Event]:
        return [event async for event in run.events() if event]

    return asyncio.run(work())


@pytest.mark.slow
def test_a_training_in_a_process_of_its_own() -> None:
    table = small()
    run = Training(table, 0.02)
    told = follow(run)
    assert told[0]["rows"] == 90
    values = [event["valid"] for event in told if event.get("valid") is not None]
    assert min(values) < told[0]["baseline"]  # better than frequencies
    assert run.model is not None
    assert run.model.schema == table.schema
    assert run.process is None
    assert isinstance(from_bytes(run.file), TableModel)
    assert run.model.provenance.valid_nce_bits == pytest.approx(min(values))


@pytest.mark.slow
def test_it_stops_with_what_it_has_and_gives_way_to_others() -> None:
    run = Training(reading.read(example.csv()), 3.0)
    nice: list[int] = []

    async def work() -> int:
        last = 0
        async for event in run.events():
            last = event.get("step", last)
            if event.get("valid") is not None and not nice:
                assert run.process is not None
                nice.append(os.getpriority(os.PRIO_PROCESS, run.process.pid))
                run.stop()
        return last

    assert asyncio.run(work()) < 1000
    assert nice == [os.getpriority(os.PRIO_PROCESS, 0) + 10] or nice == [19]
    assert run.model is not None


def sleeper() -> "subprocess.Popen[bytes]":
    code = "import sys, time; sys.stdin.readline(); print('{\"rows\": 1}', flush=True); time.sleep(600)"
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_who_leaves_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def start() -> Any:
        started.append(sleeper())
        return started[-1]

    monkeypatch.setattr(training, "started", start)
    turns = Turns(1)
    monkeypatch.setattr(training, "turns", turns)

    async def work() -> None:
        run = Training(small(), 1.0)
        events = run.events()
        assert (await anext(events)) == {"rows": 1}
        await events.aclose()

    asyncio.run(work())
    assert started[0].returncode is not None
    assert turns.before(turns.enter()) == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("pass", "ended unexpectedly"),
        ('print(\'{"error": "no column is left."}\')', "no column is left"),
        ("import time; time.sleep(600)", "took too long"),
    ],
)
def test_a_process_that_fails_is_told(code: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    monkeypatch.setattr(training, "started", lambda: subprocess.Popen([sys.executable, "-c", code], **pipes))  # type: ignore[call-overload]
    monkeypatch.setattr(training, "PATIENCE", 0.0)
    monkeypatch.setattr(training, "MORE", 1.0 if "sleep" in code else 300.0)
    with pytest.raises(InputError, match=words):
        follow(Training(small(), 1.0))


def test_turns() -> None:
    turns = Turns(2)
    tickets = [turns.enter() for _ in range(4)]
    assert [turns.before(ticket) for ticket in tickets] == [0, 0, 1, 2]
    turns.leave(tickets[0])
    assert [turns.before(ticket) for ticket in tickets[1:]] == [0, 0, 1]
    turns.leave(tickets[2])  # one that gave up
    assert turns.before(tickets[3]) == 0


@pytest.mark.slow
def test_the_worker_ends_when_nobody_speaks_to_it_any_more() -> None:
    process = training.started()
    assert process.stdin is not None
    order = {"cells": small().cells, "schema": small().schema.as_list(), "minutes": 60.0}
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    assert process.stdout is not None
    assert b"baseline" in process.stdout.readline()
    process.stdin.close()
    try:
        assert process.wait(300) == 0
    finally:
        process.kill()
        process.stdout.close()


# ---------------------------------------------------------------------------------------------------------------------
# The page


class Quick:
    """In the place of a training."""

    def __init__(self, table: Table, minutes: float) -> None:
        self.table, self.minutes, self.file, self.process = table, minutes, b"", None
        self.model: TableModel | None = None

    async def events(self) -> Any:
        yield {"waiting": 2}
        yield {"rows": len(self.table), "baseline": 2.0}
        yield {"step": 5, "steps": 10, "left": 3.0, "valid": 1.5}
        yield {}
        self.model = qtcore.fit_table(self.table, steps=10)
        self.file = self.model.to_bytes()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[YourDataPage]:
    monkeypatch.setattr(page_module, "Training", Quick)
    made = YourDataPage(Shell("?page=results"))
    yield made
    made._leave()


def upload(page: YourDataPage, text: str) -> None:
    page.upload.file = os.urandom(4) + text.encode()


def test_from_a_file_to_answers_in_three_clicks(page: YourDataPage) -> None:
    upload(page, SMALL)
    assert [column["name"] for column in page.columns.columns] == ["size", "sold", "price"]
    assert page.columns.visible
    page.trainer.packet = [1, "train", 1]
    assert not page.trainer.running
    assert page.trainer.curve == [[5, 1.5]]
    assert page.questions is not None
    asker = page.questions.view
    assert list(page.place) == [asker]
    assert asker.shown == "answers"
    given = json.loads(asker.given)
    row = held_out(small())[0]
    assert given["title"].startswith(f"Row {row + 1} ")
    assert given["cells"] == asking.encoded(asking.of_row(small(), row), small().schema)
    assert len(json.loads(asker.answers)["columns"]) == 3


def test_an_upload_that_is_refused_leaves_what_was_there(page: YourDataPage) -> None:
    upload(page, SMALL)
    before = page.table
    upload(page, "a,b\n1\n")
    assert "line 2" in page.upload.problem
    assert page.table is before
    page.example.clicks = [0, 1]
    assert page.upload.problem == ""
    assert page.table is not None
    assert len(page.table) == example.ROWS


def test_mending_a_column_forgets_the_model(page: YourDataPage) -> None:
    upload(page, SMALL)
    page.trainer.packet = [1, "train", 0]
    assert page.questions is not None
    page.columns.packet = [2, "kind", 0, KINDS.index("binary")]  # it cannot be
    assert "cannot be binary" in page.columns.problem
    assert page.questions is not None
    page.columns.packet = [3, "kind", 0, KINDS.index("ordered")]
    assert page.columns.problem == ""
    assert page.questions is None
    assert not page.show_row.visible
    page.columns.packet = [4, "move", 0, 2, 0]
    assert page.columns.columns[0]["states"] == ["S", "L", "M"]


@pytest.mark.parametrize(
    "odd",
    [[1, "kind", 9, 0], [1, "kind", 0, 99], [1, "move", 0, 0, 1], [1, "move", -1, 0, 0], [1, "train", 7], [1, "stop"], "x"],
)
def test_odd_actions_change_nothing(page: YourDataPage, odd: Any) -> None:
    page.columns.packet = odd  # without a table
    upload(page, SMALL)
    page.columns.packet, page.trainer.packet = odd, odd
    assert page.overrides == {}
    assert page.questions is None
    assert not page.trainer.running


def test_a_training_that_fails_says_so(page: YourDataPage) -> None:
    upload(page, "a,b\n" + "x,1\ny,2\n" * 3)
    page.trainer.packet = [1, "train", 0]
    assert page.trainer.words.startswith("The table has 6 rows with values, but it takes 10")
    assert not page.trainer.running


def test_who_has_gone_is_not_trained_for(page: YourDataPage, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(page, SMALL)
    monkeypatch.setattr(sessions, "present", lambda identity: False)
    page.trainer.packet = [1, "train", 0]
    assert page.questions is None
    assert not page.trainer.running


def test_present() -> None:
    assert sessions.present(None)
    assert not sessions.present("never opened")


def test_questions_from_a_browser(trained: tuple[Table, TableModel], caplog: pytest.LogCaptureFixture) -> None:
    table, model = trained
    questions = TableQuestions(table, model, b"the file", print)
    view = questions.view
    view.packet = [5, [[KNOWN, 2], [ASKED, None], [UNKNOWN, None]]]
    answer = json.loads(view.answers)
    assert answer["seq"] == 5
    np.testing.assert_allclose(answer["columns"][1]["p"], model.ask({"size": "S"})["sold"].probs[0], atol=1e-4)
    view.packet = [6, [[KNOWN, 77], [ASKED, None], [UNKNOWN, None]]]
    assert questions.seq == 5
    assert "ignored a record that does not fit" in caplog.text
    questions.show("samples")
    assert [len(words) for words in view.samples] == [7, 7, 7]
    questions.show("next")
    assert view.bits[:2] == [None, None]  # of what is known and of what is asked for
    assert 0 <= view.bits[2] < 1
    first = json.loads(view.given)["title"]
    view.action = [1, "next row"]
    assert json.loads(view.given)["title"] != first
    assert view.stale
    view.action = [2, "nothing known"]
    assert json.loads(view.given)["cells"] == [[UNKNOWN, None], [UNKNOWN, None], [ASKED, None]]
    view.action = [3, "model"]
    assert (view.file[4:], view.file_name) == (b"the file", "table-model.safetensors")
    view.action = [4, "filled"]
    assert (view.file_name, view.making) == ("table-filled.csv", "")
    again = reading.read(view.file[4:])
    assert None not in again.cells["price"]
    assert again.cells["size"] == table.cells["size"]
    questions.cancel()


def test_nothing_to_draw_and_nothing_to_ask_about(trained: tuple[Table, TableModel]) -> None:
    questions = TableQuestions(*trained, b"", print)
    questions.view.packet = [1, [[KNOWN, 0], [KNOWN, 0], [KNOWN, 1]]]
    for what, words in (("samples", "Every variable is known"), ("next", "Ask for at least one variable")):
        questions.show(what)
        assert words in questions.view.status
