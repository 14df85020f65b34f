"""The player's own arithmetic, in the browser that runs it."""

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from qtcore_app.components.source import script

from .helpers import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Page


def call(page: "Page", function: str, *arguments: object) -> Any:
    """What a function of the scripts returns."""
    return page.evaluate(
        "([source, name, given]) => new Function(`${source}; return ${name}`)()(...given)",
        [script("layers"), function, list(arguments)],
    )


def test_the_badge_says_whether_beliefs_are_at_rest_and_since_when(page: "Page", app_url: str) -> None:
    open_page(page, app_url)

    def rest(periods: list[int], total: int) -> Any:
        return call(page, "restOf", {"count": len(periods), "total": total, "curves": {"period": periods}})

    assert rest([0, 0, 1, 0, 1, 1, 1], 6) == {"kind": "converged", "text": "converged at layer 4"}
    assert rest([0, 0, 0, 2, 2, 2, 2], 6) == {"kind": "oscillating", "text": "oscillating, period 2"}
    assert rest([0, 0, 0, 0, 0, 0, 0], 6) == {"kind": "moving", "text": "not converged"}
    assert rest([0, 0, 1], 6) == {"kind": "moving", "text": "…"}  # more is to come

    layers = [call(page, "milestones", total) for total in (1, 10, 30, 50)]
    for total, some in zip((1, 10, 30, 50), layers, strict=True):
        assert some[0] == 0
        assert some[-1] == total
        steps = [after - before for before, after in itertools.pairwise(some)]
        assert steps == sorted(steps)  # closer together where more happens
        assert len(some) <= 9

    paces = [call(page, "paceOf", layer, 50, False) for layer in range(50)]
    assert paces == sorted(paces, reverse=True)
    assert 250 <= paces[0] <= 500  # two to four a second
    assert 3000 < sum(paces) < 6000
    assert 250 <= sum(call(page, "paceOf", layer, 10, False) for layer in range(10)) / 10 <= 500
    assert call(page, "paceOf", 0, 30, True) == pytest.approx(5000 / 30) == pytest.approx(call(page, "paceOf", 29, 30, True))
