"""Latency of the app: strokes in a real headless Chromium, from the release of the mouse button to the picture.

    python -m qtcore_app.bench                      # faces and contours, with one user and with eight at once
    python -m qtcore_app.bench --users 1 --strokes 20 --pages faces
    python -m qtcore_app.bench --training           # each once alone and once while another visitor trains a table

Needs Playwright (pip install 'qtcore[dev]') and a Chromium. Times are medians and 90th percentiles in milliseconds, taken
in the page itself at the first animation frame after the new picture was drawn.
"""

import asyncio
import contextlib
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qtcore.errors import InputError
from qtcore.support.cli import arguments, guarded
from qtcore.support.extras import needs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PAINTED = ("faces", "contours", "digits")
PAUSE = 0.8
"""Seconds between two strokes of a user, as for a person who looks at the result."""

LISTEN = """
window.sent = {}; window.seen = {}
window.addEventListener("qtcore:packet", (event) => { window.sent[event.detail.seq] = event.detail.at })
window.addEventListener("qtcore:frames", (event) => requestAnimationFrame(() => {
  const {seq, done} = event.detail, at = performance.now(), times = window.seen[seq] ??= {}
  times.first ??= at
  if (done) times.last ??= at
}))
"""


@dataclass(frozen=True)
class Settings:
    """Measure the app's latency."""

    users: tuple[int, ...] = (1, 8)
    """Numbers of users who paint at once."""
    strokes: int = 12
    """Strokes of each user."""
    pages: tuple[str, ...] = ("faces", "contours")
    """Which pages."""
    training: bool = False
    """Measure again while another visitor trains a table, and give the ratio."""
    url: str = ""
    """A running app; without it one is started here."""


async def user(browser: "Browser", url: str, page_name: str, strokes: int, seed: int) -> list[tuple[float, float]]:
    """One user's strokes: (first picture, last layer) in milliseconds each."""
    from playwright.async_api import Error

    rng = random.Random(seed)
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    page = await context.new_page()
    await page.add_init_script(LISTEN)
    try:
        await page.goto(f"{url}app?page={page_name}", timeout=120_000)
    except Error as error:
        raise InputError(f"no app answers at {url}; start one with `make app`, or leave --url out.") from error
    await page.locator(".qt.player .picture canvas[data-map]").first.wait_for(timeout=120_000)
    await asyncio.sleep(2 + rng.random())
    latencies = []
    for number in range(1, strokes + 1):
        await stroke(page, rng)
        await asyncio.sleep(PAUSE * (0.75 + rng.random() / 2))
        times = await _times(page, number)
        latencies.append((times["first"] - times["sent"], times["last"] - times["sent"]))
    await context.close()
    return latencies


async def stroke(page: "Page", rng: random.Random) -> None:
    """Hide or show along a short line."""
    box = await page.locator(".qt.painter .stage").bounding_box()
    assert box is not None
    x, y = (box["x"] + box["width"] * rng.uniform(0.1, 0.9), box["y"] + box["height"] * rng.uniform(0.1, 0.9))
    await page.mouse.move(x, y)
    await page.mouse.down(button="right" if rng.random() < 0.4 else "left")
    await page.mouse.move(x + rng.uniform(-60, 60), y + rng.uniform(-60, 60), steps=4)
    await page.mouse.up()
    await page.mouse.up(button="right")


async def _times(page: "Page", number: int) -> dict[str, float]:
    """When stroke `number` was sent and answered; a stroke that changed nothing is repeated."""
    for attempt in range(200):
        times: dict[str, Any] = await page.evaluate("n => ({sent: window.sent[n], ...window.seen[n]})", number)
        if times.get("last"):
            return times
        if not times.get("sent") and attempt % 10 == 0:
            await stroke(page, random.Random(number * 1000 + attempt))
        await asyncio.sleep(0.1)
    raise TimeoutError(f"stroke {number} had no answer within 20 s.")


async def measure(url: str, settings: Settings) -> None:
    from playwright.async_api import async_playwright

    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=FLAGS)
        print(f"{'page':<10}{'users':>6}{'strokes':>9}{'first picture':>22}{'last layer':>22}")
        for name in settings.pages:
            for users in settings.users:
                alone = await strokes_of(browser, url, name, users, settings.strokes)
                if settings.training:
                    async with training(browser, url):
                        beside = await strokes_of(browser, url, name, users, settings.strokes, "beside a training")
                    ratios = [
                        statistics.median(after) / statistics.median(before)
                        for before, after in zip(alone, beside, strict=True)
                    ]
                    print(f"{'':<25}{ratios[0]:>20.2f} ×{ratios[1]:>20.2f} ×", flush=True)
        await browser.close()


async def strokes_of(
    browser: "Browser", url: str, name: str, users: int, strokes: int, note: str = ""
) -> tuple[list[float], list[float]]:
    """Milliseconds to the first picture, and to the last layer, of the strokes of so many users."""
    runs = await asyncio.gather(*(user(browser, url, name, strokes, seed) for seed in range(users)))
    first, last = ([pair[column] for run in runs for pair in run] for column in (0, 1))
    print(f"{name:<10}{users:>6}{len(first):>9}{_summary(first):>22}{_summary(last):>22}  {note}", flush=True)
    return first, last


@contextlib.asynccontextmanager
async def training(browser: "Browser", url: str) -> "AsyncIterator[None]":
    """A visitor who trains the example table for three minutes, again and again, from the first validation on."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    page = await context.new_page()
    await page.goto(f"{url}app?page=yourdata", timeout=120_000)
    await page.get_by_role("button", name="Example table").click()
    await page.get_by_text("as an identifier has").wait_for(timeout=120_000)
    train, curve = page.get_by_role("button", name="Train", exact=True), page.locator(".qt.trainer path.curve")

    async def again() -> None:
        while True:
            if await train.is_enabled():
                await page.get_by_label("how long to train").select_option(label="3 minutes")
                await train.click()
            await asyncio.sleep(0.3)

    task = asyncio.ensure_future(again())
    try:
        await curve.wait_for(timeout=300_000)
        yield
    finally:
        task.cancel()
        await context.close()


def _summary(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{statistics.median(times):.0f} ms ({ordered[int(0.9 * (len(ordered) - 1))]:.0f})"


def serve() -> "tuple[subprocess.Popen[bytes], str]":
    """The app in a process of its own, as `make app` starts it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "qtcore.app", "--no-show", "--port", str(port)]
    log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the server)
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ)
    url = f"http://localhost:{port}/"
    deadline = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}favicon.ico", timeout=5):
                return server, url
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    server.terminate()
    server.wait(timeout=20)
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()
    raise OSError(f"the app did not start; its last line is: {said[-1] if said else '(none)'}")


def main() -> None:
    settings = arguments(Settings, prog="python -m qtcore_app.bench", description=__doc__)
    if settings.strokes < 1 or not settings.users or min(settings.users) < 1:
        raise InputError("strokes and users must be at least 1.")
    unknown = [name for name in settings.pages if name not in PAINTED]
    if unknown or not settings.pages:
        raise InputError(f"pages must be among {' and '.join(PAINTED)}, not {', '.join(unknown) or 'none'}.")
    needs("dev", "playwright")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{os.cpu_count()} cores, load {load:.1f} before the start; medians, 90th percentiles in brackets")
    if settings.url:
        asyncio.run(measure(settings.url.rstrip("/") + "/", settings))
        return
    server, url = serve()
    try:
        asyncio.run(measure(url, settings))
    finally:
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    guarded(main)
