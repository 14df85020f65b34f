"""A browser, the served app, and pages that tolerate neither errors, here or in the server, nor requests off this machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest

from tests.app.server import COMPLAINT, Server, served

from . import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

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
]
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
WINDOW = {"width": 1280, "height": 800}
MILLISECONDS_TO_WAIT = 120_000
"""For whatever a test waits for: on a busy machine a page takes many times what it takes on an idle one."""

Contexts = Callable[..., "BrowserContext"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """One headless Chromium for all tests of a worker, or a skip that says what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium.find()
    if path is None:
        pytest.skip("no Chromium on this machine (see tests/ui/chromium.py)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def app_server(browser: "Browser") -> Iterator[Server]:
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


@pytest.fixture
def page(contexts: Contexts) -> "Page":
    """A fresh page; the test fails at its end if the page logged an error or asked for anything off localhost."""
    return contexts().new_page()


@contextmanager
def watched(browser: "Browser") -> Iterator[Contexts]:
    """Makes contexts whose pages, at the end of the block, must have logged no error and asked for nothing off localhost."""
    opened: list[BrowserContext] = []
    complaints: list[str] = []

    def check_request(url: str) -> None:
        address = urlparse(url)
        if address.scheme not in ("data", "blob", "about") and address.hostname not in LOCAL_HOSTS:
            complaints.append(f"request off localhost: {url}")

    def new_context(**options: Any) -> "BrowserContext":
        context = browser.new_context(**({"viewport": WINDOW} | options))
        context.set_default_timeout(MILLISECONDS_TO_WAIT)
        context.on("request", lambda request: check_request(request.url))
        context.on("page", lambda page: page.on("websocket", lambda websocket: check_request(websocket.url)))
        context.on("weberror", lambda error: complaints.append(f"uncaught error: {error.error}"))
        context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        opened.append(context)
        return context

    try:
        yield new_context
        for context in opened:  # what a page said until now arrives before its answer
            for page in context.pages:
                page.evaluate("0")
    finally:
        for context in opened:
            context.close()
    assert not complaints, "\n".join(complaints)
