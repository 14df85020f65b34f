"""One record of binary variables: roles that the user changes, and bars with the marginals, layer by layer."""

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import param
from numpy.typing import NDArray
from panel.custom import JSComponent

from qtcore_app.components.player import RESIDUAL
from qtcore_app.components.source import script, style

log = logging.getLogger(__name__)

Bytes = NDArray[np.uint8]

UNKNOWN, TARGET, SET_0, SET_1, KNOWN = ROLES = 0, 128, 253, 254, 255
"""The roles of a variable: unobserved and not scored, target; evidence that somebody set to 0 or 1, or that is as recorded."""

NCE_ASKED = {
    "title": "Bits per asked variable",
    "curve": "nce",
    "log": False,
    "explain": "NCE: −log2 of the marginal at the truth, mean over what is asked",
}


def decode_roles(packet: Any, count: int) -> tuple[int, Bytes] | None:
    """(number, roles [count]), or None for anything that our script does not send; logged without its content."""
    if not isinstance(packet, bytes) or len(packet) != 4 + count:
        log.warning("ignored roles of a wrong length; expected %d bytes", 4 + count)
        return None
    (seq,) = struct.unpack_from("<I", packet)
    roles = np.frombuffer(packet, np.uint8, count, 4)
    if seq == 0 or not np.isin(roles, ROLES).all():
        log.warning("ignored roles that do not exist")
        return None
    return seq, roles


def evidence(roles: Bytes) -> NDArray[np.bool_]:
    """Which variables are known.

    Example:
        >>> evidence(np.array([UNKNOWN, TARGET, SET_0, KNOWN], np.uint8)).tolist()
        [False, False, True, True]
    """
    return roles >= SET_0


def grouped(names: Sequence[str] | None, count: int) -> tuple[list[str], list[list[Any]]]:
    """The label of each bar, and [title, start, stop] of each group: "odor foul" is "foul" in the group "odor"."""
    if names is None:
        return [f"variable {number + 1}" for number in range(count)], [["", 0, count]]
    parts = [name.rpartition(" ") for name in names]
    titles, options = [part[0].removesuffix(" is") for part in parts], [part[2] for part in parts]
    starts = [i for i in range(count) if i == 0 or titles[i] != titles[i - 1]]
    return options, [[titles[a], a, b] for a, b in zip(starts, [*starts[1:], count], strict=True)]


class Record(JSComponent):
    """`frames` as for the player, with a picture of one row; `changes(callback)` reports every change of a role."""

    board = param.List(default=[], constant=True, doc="Rows and columns of a board game: a group for each square, by columns.")
    names = param.List(default=[], item_type=str, constant=True)
    groups = param.List(default=[], constant=True)
    given = param.Bytes(default=b"", doc="From Python: u32 serial number, roles.")
    packet = param.Bytes(default=b"", doc="From the browser: u32 number of the change, roles.")
    frames = param.Bytes(default=b"")
    charts = param.List(default=[NCE_ASKED, RESIDUAL], item_type=dict)
    layer = param.Integer(default=-1)
    variable = param.Integer(default=-1, doc="The variable whose marginal is drawn over the layers.")

    shown = param.String(default="marginals", doc="What stands beside each variable: marginals, samples, next or why.")
    samples = param.Bytes(default=b"", doc="Completions, the most probable one last: 0, 1, or 2 where nothing is drawn yet.")
    bits = param.Bytes(default=b"", doc="float32 for each variable: what its answer would tell; NaN where that is not asked.")
    moved = param.Bytes(
        default=b"", doc="float32 for each variable: what its group did to the chosen one; NaN if it is not known."
    )
    units = param.List(default=[], item_type=dict, doc="The hidden units that speak to the chosen variable.")
    stale = param.Boolean(default=False, doc="Whether they belong to an earlier question.")
    share = param.Number(default=1.0, doc="How much is done; 1 if nothing is under way.")
    status = param.String(default="")
    asks = param.Integer(default=0)

    _esm = script("record", "chart", "layers", "joint")
    _stylesheets: ClassVar[list[str]] = [style("player", "joint", "record")]
    _priority_changes: ClassVar[list[str]] = ["packet", "asks"]

    def __init__(self, roles: Bytes, names: Sequence[str] | None = None, **params: Any) -> None:
        words, groups = grouped(names, len(roles))
        super().__init__(names=words, groups=groups, **params)
        self.seq = self._serial = 0
        self._listeners: list[Callable[[], None]] = []
        self.give(roles)
        self.param.watch(self._receive, "packet")

    def give(self, roles: Bytes) -> None:
        """Show these roles."""
        self.roles = roles.astype(np.uint8)
        self._serial += 1
        self.param.update(given=struct.pack("<I", self._serial) + self.roles.tobytes(), packet=b"")

    def changes(self, callback: Callable[[], None]) -> None:
        """Call back after each change; `roles` and `seq` then hold it."""
        self._listeners.append(callback)

    def _receive(self, event: param.parameterized.Event) -> None:
        if event.new == b"":
            return
        decoded = decode_roles(event.new, len(self.names))
        if decoded is None:
            return
        self.seq, self.roles = decoded
        for listener in self._listeners:
            listener()
