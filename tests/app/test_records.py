"""Records: roles from a browser, groups of names, ready-made questions."""

import logging
import struct

import numpy as np
import pytest
import torch
from qtcore_app.components import Record
from qtcore_app.components.record import KNOWN, SET_0, SET_1, TARGET, UNKNOWN, decode_roles, evidence, grouped
from qtcore_app.frames import unpack
from qtcore_app.pages.digits import DigitsPage
from qtcore_app.pages.records import GROUPED, PRESETS, RecordPage, preset
from qtcore_app.shell import Shell

import qtcore
from qtcore.data import variable_names


def packet(seq: int, *roles: int) -> bytes:
    return struct.pack("<I", seq) + bytes(roles)


def test_good_roles() -> None:
    result = decode_roles(packet(3, KNOWN, TARGET, UNKNOWN), 3)
    assert result is not None
    assert result[0] == 3
    assert result[1].tolist() == [KNOWN, TARGET, UNKNOWN]


@pytest.mark.parametrize("bad", [b"", packet(1, KNOWN), packet(0, 0, 0, 0), packet(1, 0, 7, 0), None, "text"])
def test_bad_roles_are_ignored_and_logged_without_their_bytes(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert decode_roles(bad, 3) is None
    assert "ignored roles" in caplog.text
    assert "text" not in caplog.text


def test_a_record_listens_to_good_roles_only() -> None:
    record, heard = Record(np.zeros(2, np.uint8)), []
    record.changes(lambda: heard.append(record.roles.tolist()))
    record.packet = packet(1, KNOWN, TARGET)
    record.packet = packet(2, KNOWN, 3)
    assert heard == [[KNOWN, TARGET]]
    assert record.seq == 1


def test_names_in_groups() -> None:
    assert grouped(("odor foul", "odor none", "cap-shape flat"), 3) == (
        ["foul", "none", "flat"],
        [["odor", 0, 2], ["cap-shape", 2, 3]],
    )
    assert grouped(("base -1 is A", "base -1 is C", "base +1 is A"), 3)[1] == [["base -1", 0, 2], ["base +1", 2, 3]]
    words, groups = grouped(None, 4)
    assert words[3] == "variable 4"
    assert groups == [["", 0, 4]]
    assert len(grouped(variable_names("mushrooms"), 112)[1]) == 21


@pytest.mark.parametrize("name", PRESETS)
def test_ready_made_questions(name: str) -> None:
    groups = [["a", 0, 10], ["b", 10, 40]]
    asked = preset(name, groups, 40, 1) == TARGET
    expected = {"30 %": 12, "50 %": 20, "80 %": 32, "everything": 40, "nothing": 0}.get(name)
    if expected is None:
        assert asked.nonzero()[0].tolist() in (list(range(10)), list(range(10, 40)))
        assert (preset(name, [["", 0, 40]], 40, 1) == TARGET).sum() == 1
    else:
        assert asked.sum() == expected
    rest = UNKNOWN if name == "one, nothing known" else KNOWN
    assert set(preset(name, groups, 40, 1).tolist()) <= {rest, TARGET}


@pytest.mark.parametrize("name", ["rbm/adult", "rbm/mushrooms"])
def test_what_is_said_of_the_groups_is_true(name: str) -> None:
    """The bars of a group of which nothing is known: in the data they add up to 1 at most, in the model to something else."""
    model = qtcore.load(name)
    names = variable_names(name.partition("/")[2])
    assert names is not None
    zeros = torch.zeros(1, len(names))
    with torch.inference_mode():
        bars = model(qtcore.Query(zeros, zeros.bool())).probs[0]
    sums = [float(bars[start:stop].sum()) for _, start, stop in grouped(names, len(names))[1] if stop - start > 1]
    assert max(sums) > 1.01
    assert "need not add up to 1" in GROUPED


def test_a_value_that_is_set() -> None:
    """A level of a group is evidence with its own values, whatever the record says, also when it comes from an address."""
    page = next(iter(DigitsPage(Shell("?page=digits&model=rbm/adult")).pages.values()))
    assert isinstance(page, RecordPage)
    title, start, stop = page.record.groups[3]
    masters = page.record.names.index("Masters")
    assert (title, masters in range(start, stop)) == ("education", True)
    roles = np.full(len(page.record.names), UNKNOWN, np.uint8)
    roles[start:stop] = SET_0
    roles[masters] = SET_1
    page.record.packet = packet(1, *roles.tolist())
    assert page.values[start:stop].tolist() == [float(i == masters) for i in range(start, stop)]
    assert (page.values[:start] == page.samples.values[page.number][:start]).all()
    query = qtcore.Query(page.values[None], torch.from_numpy(evidence(roles))[None])
    with torch.inference_mode():
        expected = page.model(query).probs[0]
    bar = unpack(page.record.frames)[1][0][-1, 0, 0]
    np.testing.assert_allclose(bar / 255, expected.clamp(0, 1), atol=0.51 / 255)
    (again,) = DigitsPage(Shell(page.shell.states["digits"].to_query())).pages.values()
    assert isinstance(again, RecordPage)
    assert again.values.tolist() == page.values.tolist()
    again.number = 5  # another record, the same question
    assert again.values[start:stop].tolist() == page.values[start:stop].tolist()
    again.record.give(preset("everything", again.record.groups, len(roles), 0))
    assert (again.values == again.samples.values[5]).all()


def test_of_a_board_whole_squares_are_asked_for() -> None:
    _, groups = grouped([f"{square} {state}" for square in ("a1", "a2", "b1", "b2") for state in ("x", "empty", "o")], 12)
    roles = preset("50 %", groups, 12, 3, whole=True).reshape(4, 3)
    assert (roles == roles[:, :1]).all()
    assert (roles[:, 0] == TARGET).sum() == 2
