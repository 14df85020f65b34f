"""The page that stands in for the app opens, in a browser that is allowed to talk to this machine alone."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def test_root_leads_to_the_page(page: "Page", app_url: str) -> None:
    page.goto(app_url)
    page.get_by_text("The app is not here yet").wait_for()
    assert page.title() == "qtcore"


def test_the_page_fixture_notices_trouble(browser: "Browser", app_url: str) -> None:
    """A console error and a foreign request must both be caught, or the test above proves little."""
    from . import conftest

    guarded = conftest.page.__wrapped__(browser)  # type: ignore[attr-defined]
    page = next(guarded)
    page.goto(app_url)
    page.evaluate("console.error('oh no')")
    page.evaluate("fetch('http://foreign.invalid/x').catch(() => 0)")
    with pytest.raises(AssertionError) as caught:
        next(guarded)
    assert "oh no" in str(caught.value)
    assert "request off localhost: http://foreign.invalid/x" in str(caught.value)
