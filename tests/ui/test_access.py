"""Nothing on any page keeps somebody from using it, as far as axe-core can tell: names, roles, contrast, order."""

from typing import TYPE_CHECKING, Any

import pytest
from qtcore_app.shell import THEME

from . import axe
from .helpers import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

QUERIES = {
    "?page=faces": ".qt.player canvas[data-map]",
    "?page=contours": ".qt.player canvas[data-map]",
    "?page=digits": ".qt.player canvas[data-map]",
    "?page=digits&model=rbm/adult": ".qt.record",
    "?page=yourdata": ".qt.trainer button",
    "?page=lab": ".qt.lab",
    "?page=results": ".results[data-drawn]",
}
RUN = "() => axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)"


@pytest.fixture(scope="module")
def script() -> str:
    path = axe.find()
    if path is None:
        pytest.skip("no axe-core on this machine (see tests/ui/axe.py)")
    return path.read_text("utf-8")


def serious(page: "Page") -> list[str]:
    """What axe-core calls serious or critical, each with where it is."""
    violations: list[dict[str, Any]] = page.evaluate(RUN)
    return [
        f"{each['impact']}: {each['help']}: {node['html'][:120]} {(node.get('failureSummary') or '').splitlines()[-1:]}"
        for each in violations
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation(own_page: "Page", app_url: str, script: str, theme: str) -> None:
    page = own_page
    page.context.add_cookies([{"name": THEME, "value": theme, "url": app_url}])
    found = {}
    for query, shown in QUERIES.items():
        open_page(page, app_url, query, shown=shown)
        if query == "?page=faces":
            page.evaluate(script)
        page.wait_for_timeout(900)  # until each component has looked at the theme, and the tab has faded in
        found[query] = serious(page)
    assert not any(found.values()), "\n".join(f"{query} {line}" for query, lines in found.items() for line in lines)


def test_a_violation_is_found(own_page: "Page", app_url: str, script: str) -> None:
    """Also within a shadow root, or the other test proves little."""
    page = own_page
    open_page(page, app_url, "?page=lab", shown=".qt.lab")
    page.evaluate(script)
    page.locator(".qt.lab").evaluate(
        "(lab) => { const made = document.createElement('img'); made.src = 'data:,'; lab.append(made) }"
    )
    assert any("alternative text" in line for line in serious(page))
