"""The lab in the address, and what the page takes from a browser."""

import logging
import math
from dataclasses import replace

import pytest
from qtcore_app.components.lab import ACTIONS, decode_action
from qtcore_app.lab.actions import applied
from qtcore_app.lab.address import decode, encode
from qtcore_app.lab.graphs import Lab, default, preset
from qtcore_app.pages.lab import LabPage
from qtcore_app.shell import Shell

from qtcore import examples

from .test_lab import ALL

# ---------------------------------------------------------------------- the address


def test_the_address_holds_the_lab() -> None:
    for key, name in ALL:
        lab = preset(key, name, 7)
        assert decode(encode(lab)) == lab
        full = replace(
            lab,
            evidence=(1, 0, *lab.evidence[2:]),
            strength=0.85,
            temperature=0.3,
            damping=0.45,
            layers=12,
            selected="n1",
            hand=3,
            sent=(0, 3, 1, 0),
            trained=tuple(0.125 * k - 0.5 for k in range(len(lab.couplings) + len(lab.biases))),
            trained_for=(1.0, 0.15, 30.0, 3.0),
            schedule="residual",
            exercise=4,
            guess=2,
            pressed=True,
            shown=1,
        )
        assert decode(encode(full)) == full
        assert len(encode(full)) < 400


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "loop",
        "nonsense~1~2~3~4~5~6",
        "loop~200_200_200~200_0_0_0~uuuu~100_100_0~40~m0",
        "loop~200_200_200_900~200_0_0_0~uuuu~100_100_0~40~m0",
        "loop~200_200_200_x~200_0_0_0~uuuu~100_100_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuu~100_100_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uu2u~100_100_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_101_0~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_100~40~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~4000000~m0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m8",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~q1",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~41_0",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~0_8",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~0_" + "1_" * 300,
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~~1_5",
        "loop~200_200_200_-200~200_0_0_0~uuuu~100_100_0~40~m0~~1_0_0_0_0_0_0_0_0~100_0",
        "loop~" + "9" * 5000 + "~200_0_0_0~uuuu~100_100_0~40~m0",
        "rbm~" + "_".join(["0"] * 8) + "~0_0_0_0_0_0~uuuu1u~100_100_0~40~m0",
    ],
)
def test_other_addresses_are_none_of_a_lab(bad: str) -> None:
    assert decode(bad) is None


def test_such_an_address_opens_the_default() -> None:
    shell = Shell()
    shell.states["lab"] = replace(shell.states["lab"], graph="nonsense~1~2~3~4~5~6", layer="77777")
    page = LabPage(shell)
    assert page.lab == default()
    assert page.component.layer == -1


# ---------------------------------------------------------------------- actions


@pytest.fixture(scope="module")
def lab_page() -> LabPage:
    """A page for tests that leave it as it is."""
    return LabPage(Shell())


@pytest.mark.parametrize(
    "bad",
    [
        None,
        b"secret",
        "secret",
        [],
        [1],
        [0, "forget"],
        [True, "forget"],
        ["secret", "forget"],
        [1, "secret"],
        [1, ["secret"]],
        [1, "forget", 1],
        [1, "strength"],
        [1, "strength", "secret"],
        [1, "strength", math.nan],
        [1, "strength", math.inf],
        [1, "strength", None],
        [1, "evidence", 0, True],
        [1, "evidence", 0, 1, 2, 3],
        {"secret": 1},
    ],
)
def test_bad_packets_are_ignored_and_logged_without_their_bytes(
    bad: object, lab_page: LabPage, caplog: pytest.LogCaptureFixture
) -> None:
    page, before = lab_page, lab_page.lab
    with caplog.at_level(logging.WARNING):
        page.component.packet = bad
        assert decode_action(bad) is None
    assert page.lab == before
    assert "ignored an action" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("action", "numbers"),
    [
        ("graph", [6]),
        ("graph", [-1]),
        ("graph", [0.5]),
        ("preset", [3]),
        ("strength", [2.1]),
        ("strength", [-0.1]),
        ("temperature", [1.5]),
        ("damping", [1.0]),
        ("layers", [0]),
        ("layers", [1e9]),
        ("coupling", [4, 0]),
        ("coupling", [0.5, 0]),
        ("coupling", [0, 3.1]),
        ("bias", [-1, 0]),
        ("bias", [0, 1e300]),
        ("evidence", [4, 1]),
        ("evidence", [0, 2]),
        ("select", [3, 0]),
        ("select", [0, 4]),
        ("select", [0, -1]),
        ("hand", [41]),
        ("send", [8, 0]),
        ("send", [0, 99]),
        ("show", [1]),
        ("show", [2]),
    ],
)
def test_actions_out_of_bounds_change_nothing(action: str, numbers: list[float]) -> None:
    assert len(numbers) == ACTIONS[action]
    assert applied(default(), action, numbers) is None


def test_actions() -> None:
    lab = default()

    def after(action: str, *numbers: float) -> Lab:
        result = applied(lab, action, list(numbers))
        assert result is not None
        return result

    assert after("evidence", 2, 1).evidence == (-1, -1, 1, -1)
    assert after("coupling", 1, -0.5).couplings == (2.0, -0.5, 2.0, -2.0)
    assert after("bias", 3, 0.25).biases == (2.0, 0.0, 0.0, 0.25)
    assert after("strength", 0.5).parameters()[0] == (1.0, 1.0, 1.0, -1.0)
    assert after("graph", 4).key == "complete"
    assert set(after("preset", 0).couplings) == {examples.SIZE}
    assert after("select", 1, 2).factor == 2
    assert after("layers", 7).layers == 7
    lab = after("send", 3, 5)
    assert (lab.hand, lab.sent, lab.selected) == (5, (3,), "m3")
    lab = after("send", 4, 1)
    assert lab.sent == (3, 4)
    assert after("send", 0, 1).sent == (3, 0)  # from an earlier one on
    assert after("schedule", 2).hand == -1
    assert after("schedule", 2).schedule == "random"
    trained = replace(lab, trained=(0.5,) * 8, shown=1)
    assert trained.parameters(True) == ((0.5,) * 4, (0.5,) * 4)
    assert trained.changed(strength=0.5).trained == ()
