"""Two users at once."""

from typing import TYPE_CHECKING

from .helpers import FACE, drag, hidden, open_page, picture, wait_for_result

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_sessions_do_not_disturb_each_other(own_page: "Page", app_url: str) -> None:
    pages = [own_page, own_page.context.new_page()]
    for number, page in enumerate(pages):
        open_page(page, app_url, f"?image=dream-{number}")
    before = [picture(page, "mean") for page in pages]
    for number, page in enumerate(pages):  # all paint before anyone looks
        drag(page, FACE, (3 * number + 2, 2), (3 * number + 2, 17))
    for number, page in enumerate(pages):
        wait_for_result(page, 0)
        rows = hidden(page, FACE).any(1).nonzero()[0].tolist()
        assert rows == [3 * number + 1, 3 * number + 2, 3 * number + 3]
        changed = (picture(page, "mean") != before[number]).any(-1)
        assert not (changed & ~hidden(page, FACE)).any()
