"""A browser, the served app, and a page that tolerates neither console errors nor requests off this machine."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlparse

import pytest

from . import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
SECONDS_TO_START = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """One headless Chromium for all tests, or a skip that says what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium.find()
    if path is None:
        pytest.skip("no Chromium on this machine (see tests/ui/chromium.py)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def app_url() -> Iterator[str]:
    """The app as `make app` serves it, in a process of its own on a free port; its root address."""
    port = free_port()
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as cache:
        server = serve(port, log, {"QTCORE_CACHE": cache})
        try:
            _wait_for(f"http://localhost:{port}/", server, log)
            yield f"http://localhost:{port}/"
        finally:
            server.terminate()
            server.wait(timeout=20)
        log.seek(0)
        said = log.read().decode(errors="replace")
    assert not re.search(r"^(Traceback|\S*Error\b)|\bERROR\b", said, re.MULTILINE), f"the server complained:\n{said}"


def serve(
    port: int, log: IO[bytes], settings: dict[str, str], options: dict[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """`make app` without make: shipped models and pictures only, whatever data this machine has."""
    limits = re.search(r"^LIMITS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert limits is not None
    command = [sys.executable, "-m", "panel", "serve", "app/", "--address", "localhost", "--port", str(port)]
    command += [*limits[1].split(), *(part for option in (options or {}).items() for part in option)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QTCORE_")}
    environment |= {"OMP_NUM_THREADS": "1", **settings}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)


def _wait_for(url: str, server: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    log.seek(0)
    said = log.read().decode(errors="replace")
    pytest.fail(f"the app did not answer at {url} within {SECONDS_TO_START} s:\n{said}")


@pytest.fixture
def page(browser: "Browser") -> "Iterator[Page]":
    """A fresh page; the test fails at its end if the page logged an error or asked for anything off localhost."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    complaints: list[str] = []

    def check_request(url: str) -> None:
        address = urlparse(url)
        if address.scheme not in ("data", "blob", "about") and address.hostname not in LOCAL_HOSTS:
            complaints.append(f"request off localhost: {url}")

    page.on("request", lambda request: check_request(request.url))
    page.on("websocket", lambda websocket: check_request(websocket.url))
    page.on("pageerror", lambda error: complaints.append(f"uncaught error: {error}"))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not complaints, "\n".join(complaints)
