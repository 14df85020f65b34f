"""A browser, the served app, and pages that tolerate neither errors, here or in the server, nor requests off this machine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from tests.app.server import COMPLAINT, Server, served

from . import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, BrowserType, Page

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",  # small in a container
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--process-per-site",  # the next page need not wait for a process of its own
    "--disable-renderer-backgrounding",  # of several pages all are in front
    "--disable-background-timer-throttling",
]
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
WINDOW = {"width": 1280, "height": 800}
MILLISECONDS_TO_WAIT = 300_000
"""For whatever a test waits for: on a busy machine a page takes many times what it takes on an idle one."""

Contexts = Callable[..., "BrowserContext"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


Launcher = tuple["BrowserType", dict[str, Any]]


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """A headless Chromium that can be launched with these options, or a skip that says what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium.find()
    if path is None:
        pytest.skip("no Chromium on this machine (see tests/ui/chromium.py)")
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium, {"executable_path": path, "args": FLAGS}


@pytest.fixture(scope="session")
def browser(launcher: Launcher) -> "Iterator[Browser]":
    """A browser whose windows share nothing, one for all tests of a worker."""
    chromium, options = launcher
    browser = chromium.launch(**options)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def app_server(launcher: Launcher) -> Iterator[Server]:
    """The app as `make app` serves it, one server for all tests of a worker; none where there is no browser."""
    with served() as server:
        yield server


@pytest.fixture
def app_url(app_server: Server) -> Iterator[str]:
    """The root address of the app; a test fails at its end if the server complained meanwhile."""
    with without_complaints(app_server):
        yield app_server.url


@contextmanager
def without_complaints(server: Server) -> Iterator[None]:
    """What the server says in this block belongs to it."""
    before = server.log.stat().st_size
    yield
    server.settle()
    said = server.said(before)
    assert not COMPLAINT.search(said), f"the server complained:\n{said}"


@pytest.fixture
def contexts(browser: "Browser", app_url: str) -> Iterator[Contexts]:
    """Fresh windows of the browser, closed before the server is looked at."""
    with watched(browser) as new_context:
        yield new_context


@pytest.fixture(scope="session")
def shared(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Watched]":
    """A window for all tests of a worker that need none of their own, of a browser with a folder: what it has fetched and
    compiled is kept there, and a page opens in two thirds of the time."""
    chromium, options = launcher
    context = chromium.launch_persistent_context(tmp_path_factory.mktemp("browser"), viewport=WINDOW, **options)
    yield Watched(context)
    context.close()


@pytest.fixture
def page(shared: "Watched", app_url: str) -> "Iterator[Page]":
    """The page that the test before left (`helpers.open_page` goes to another address in it, which takes a fifth of the time
    of opening one); the test fails at its end if the page logged an error or asked for anything off localhost, and then
    the next test gets another page."""
    (page, *_) = shared.pages or [shared.context.new_page()]
    kept: list[Page] = []
    try:
        yield page
        shared.check()
        kept = [page]
    finally:
        shared.clear(kept)


@pytest.fixture
def own_page(shared: "Watched", app_url: str) -> "Iterator[Page]":
    """A page for one test alone, which may change the window, the theme or the connection."""
    others = shared.pages
    try:
        yield shared.context.new_page()
        shared.check()
    finally:
        shared.clear(others)


class Watched:
    """A window of the browser, and what its pages complained of."""

    def __init__(self, context: "BrowserContext") -> None:
        self.context, self.complaints = context, list[str]()
        self._first = context.pages  # a browser with a folder opens with a page, and ends with its last one
        self.context.set_default_timeout(MILLISECONDS_TO_WAIT)
        self.context.on("request", lambda request: self._asked_for(request.url))
        self.context.on("page", lambda page: page.on("websocket", lambda websocket: self._asked_for(websocket.url)))
        self.context.on("weberror", lambda error: self.complaints.append(f"uncaught error: {error.error}"))
        self.context.on("console", self._said)

    @property
    def pages(self) -> "list[Page]":
        return [page for page in self.context.pages if page not in self._first]

    def _asked_for(self, url: str) -> None:
        address = urlparse(url)
        if address.scheme not in ("data", "blob", "about") and address.hostname not in LOCAL_HOSTS:
            self.complaints.append(f"request off localhost: {url}")

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.complaints.append(message.text)

    def check(self) -> None:
        """Its pages must have logged no error and asked for nothing off localhost."""
        for page in self.pages:  # what a page said until now arrives before its answer
            page.evaluate("0")
        assert not self.complaints, "\n".join(self.complaints)

    def clear(self, kept: "Sequence[Page]" = ()) -> None:
        """As new, but for the cache, and for pages that may stay."""
        for page in self.pages:
            if page not in kept:
                page.close()
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.complaints.clear()


@contextmanager
def watched(browser: "Browser") -> Iterator[Contexts]:
    """Makes windows that are checked at the end of the block."""
    opened: list[Watched] = []

    def new_context(**options: Any) -> "BrowserContext":
        opened.append(Watched(browser.new_context(**({"viewport": WINDOW} | options))))
        return opened[-1].context

    try:
        yield new_context
        for window in opened:
            window.check()
    finally:
        for window in opened:
            window.context.close()
