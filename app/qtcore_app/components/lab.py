"""The lab's view: the graph with its messages, sliders, curves. It draws what Python computed and sends back actions."""

import logging
import math
from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from qtcore_app.components.source import script, style

log = logging.getLogger(__name__)

MAX_NUMBERS = 3
ACTIONS = {  # how many numbers follow
    "graph": 1,
    "preset": 1,
    "strength": 1,
    "temperature": 1,
    "damping": 1,
    "layers": 1,
    "coupling": 2,
    "bias": 2,
    "evidence": 2,
    "forget": 0,
    "select": 2,
    "hand": 1,
    "schedule": 1,
    "send": 2,
    "train": 0,
    "stop": 0,
    "show": 1,
    "add": 2,
    "move": 3,
    "join": 2,
    "join3": 3,
    "delete": 2,
    "undo": 0,
    "start": 0,
    "save": 0,
    "exercise": 1,
    "guess": 1,
    "press": 0,
}


def decode_action(packet: Any) -> tuple[int, str, list[float]] | None:
    """(number, action, its numbers), or None for anything that our script does not send; logged without its content."""
    if not isinstance(packet, list) or not 2 <= len(packet) <= 2 + MAX_NUMBERS:
        log.warning("ignored an action that is no short list")
        return None
    seq, action, *numbers = packet
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 < seq < 2**53:
        log.warning("ignored an action without a number")
        return None
    if not isinstance(action, str) or ACTIONS.get(action) != len(numbers):
        log.warning("ignored an action that does not exist")
        return None
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers):
        log.warning("ignored an action whose numbers are none")
        return None
    return seq, action, [float(number) for number in numbers]


class LabView(JSComponent):
    """`data` is what `qtcore_app.lab.picture` makes of a lab, in JSON; `layer` the cursor (-1: last); `packet` an action."""

    data = param.String(default="")
    training = param.String(default="", doc="The state of the training and both scores, as JSON.")
    layer = param.Integer(default=-1)
    packet = param.Parameter(default=None)
    notice = param.String(default="", doc="A sentence when something went wrong.")
    limits = param.Dict(default={})
    file = param.Bytes(default=b"", doc="Four bytes that change each time, then a UAI file from the user's machine.")
    saved = param.String(default="", doc="The text of a UAI file for the user, and a number that changes each time, as JSON.")

    _esm = script("lab", "labgraph", "labdraw", "labcharts", "labformula", "labexercise")
    _stylesheets: ClassVar[list[str]] = [style("lab")]
    _priority_changes: ClassVar[list[str]] = ["packet"]
