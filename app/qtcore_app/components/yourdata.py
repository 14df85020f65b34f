"""A visitor's own table: its columns, its training, and a record of it that is asked about."""

import json
import logging
import math
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore.tabular.columns import KINDS
from qtcore_app.components.source import script, style

log = logging.getLogger(__name__)

ACTIONS = {"kind": 2, "move": 3, "train": 1, "stop": 0, "next row": 0, "nothing known": 0, "model": 0, "filled": 0}
"""What a button of these components asks for, with how many whole numbers."""


def decode_action(packet: Any) -> tuple[str, list[int]] | None:
    """(action, its numbers), or None for anything that our scripts do not send; logged without its content."""
    if isinstance(packet, list) and len(packet) >= 2 and isinstance(packet[1], str):
        _, action, *numbers = packet
        if len(numbers) == ACTIONS.get(action, -1) and all(type(number) is int for number in numbers):
            return action, numbers
    log.warning("ignored an action that does not exist")
    return None


def decode_cells(packet: Any) -> tuple[int, Any] | None:
    """(number of the change, cells, not checked yet), or None; logged without its content."""
    if isinstance(packet, list) and len(packet) == 2 and type(packet[0]) is int and 0 < packet[0] < 2**53:
        return packet[0], packet[1]
    log.warning("ignored a record that is none")
    return None


class ColumnsView(JSComponent):
    """What each column is, to be mended. `packet` is [number, "kind", column, kind] or [number, "move", column, level, to]."""

    columns = param.List(default=[], item_type=dict, doc="As `yourdata.reading.described` gives them.")
    kinds = param.List(default=[*KINDS], constant=True)
    rows = param.Integer(default=0)
    notes = param.List(default=[], item_type=str)
    problem = param.String(default="")
    packet = param.Parameter(default=None)

    _esm = script("tablecolumns")
    _stylesheets: ClassVar[list[str]] = [style("yourdata")]
    _priority_changes: ClassVar[list[str]] = ["packet"]


class Trainer(JSComponent):
    """A button that trains or stops, and the curve. `packet` is [number, "train", which of `times`] or [number, "stop"]."""

    times = param.List(default=[], item_type=str, constant=True)
    ready = param.Boolean(default=False, doc="Whether there is a table.")
    running = param.Boolean(default=False)
    share = param.Number(default=0.0)
    words = param.String(default="")
    curve = param.List(default=[], doc="[step, bits] of each validation.")
    steps = param.Integer(default=1)
    baseline = param.Number(default=None, allow_None=True, doc="Bits with each level's frequency alone.")
    packet = param.Parameter(default=None)

    _esm = script("trainer")
    _stylesheets: ClassVar[list[str]] = [style("yourdata")]
    _priority_changes: ClassVar[list[str]] = ["packet"]


class Asker(JSComponent):
    """A record with a role and a value for each column, and what the model answers. `packet` is [number, cells], with a
    role and a value each (see `yourdata.asking`), `action` what else is wanted."""

    columns = param.List(default=[], item_type=dict, constant=True, doc='{"name", "states", "number"} of each used column.')
    given = param.String(default="", doc="From Python: a number that counts, cells, the truth of each, and its title, as JSON.")
    packet = param.Parameter(default=None)
    action = param.Parameter(default=None)
    answers = param.String(default="", doc="As JSON: the number of the change, and what `yourdata.asking.answers` gives.")
    file = param.Bytes(default=b"")
    file_name = param.String(default="")
    making = param.String(default="", doc="How far a file is that is being made.")

    shown = param.String(default="answers", doc="What stands below each column: answers, samples or next.")
    samples = param.List(default=[], doc="For each column its value in each sample, the most probable completion last.")
    bits = param.List(default=[], doc="For each column what its answer would tell; None where that is not asked.")
    stale = param.Boolean(default=False, doc="Whether they belong to an earlier question.")
    share = param.Number(default=1.0)
    status = param.String(default="")
    asks = param.Integer(default=0)

    _esm = script("asker", "joint")
    _stylesheets: ClassVar[list[str]] = [style("joint", "yourdata")]
    _priority_changes: ClassVar[list[str]] = ["packet", "action", "asks"]

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._serial = 0

    def give(self, cells: list[list[Any]], truth: list[int | None], title: str) -> None:
        """Show this record."""
        self._serial += 1
        given = {"serial": self._serial, "cells": cells, "truth": truth, "title": title}
        self.param.update(given=json.dumps(given), packet=None)

    def answer(self, seq: int, found: dict[str, Any]) -> None:
        self.answers = json.dumps({"seq": seq, **found})

    def tell_bits(self, bits: Any) -> None:
        self.bits = [None if math.isnan(each) else round(float(each), 4) for each in bits]

    def hand_over(self, name: str, data: bytes) -> None:
        """Give a file to the browser, which saves it."""
        self._serial += 1
        self.param.update(file_name=name, file=self._serial.to_bytes(4, "little") + data)
