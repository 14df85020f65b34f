"""The server's resident memory over many visits and over an hour of strokes (Linux; the strokes need Chromium).

    python -m tests.app.soak                              # 2,000 visits, then 60 minutes of strokes on Faces and Contours
    python -m tests.app.soak --visits 200 --minutes 0     # visits alone

What all users share, models and pictures, is loaded by the first ones: the first tenth is a warm-up. From its end on, memory
may grow by a tenth; otherwise the command ends with 1. Sessions end as soon as their window is closed, so that what is weighed
is what they leave behind.
"""

import asyncio
import random
import sys
import time
from dataclasses import dataclass

from qtcore_app.bench import FLAGS, PAUSE, stroke

from qtcore.errors import InputError
from qtcore.support.cli import arguments, guarded
from tests.app.server import QUERIES, Server, connect, get, leave, served
from tests.ui.chromium import find

PAINTED = ("faces", "contours")
OPTIONS = {"--plugins": "tests.app.census", "--unused-session-lifetime": "300", "--check-unused-sessions": "100"}
WARM_UP, ALLOWED, MOMENTS = 0.1, 0.1, 20


@dataclass(frozen=True)
class Settings:
    """Weigh a server that is used for long."""

    visits: int = 2000
    """Pages that are opened and left, of all kinds in turn."""
    minutes: float = 60
    """How long two users paint."""


class Scales:
    """Weigh a server at `MOMENTS` of its use."""

    def __init__(self, server: Server, what: str) -> None:
        self.server, self.what = server, what
        self.weights: dict[int, float] = {}

    async def weigh(self, share: float) -> None:
        """If this share of the use is another moment."""
        moment = int(share * MOMENTS)
        if moment not in self.weights:
            self.weights[moment] = int(await asyncio.to_thread(get, f"{self.server.url}memory")) / 2**20
            print(f"{self.what}: {share:4.0%}, {self.weights[moment]:.0f} MB", flush=True)

    def growth(self) -> float:
        """From the end of the warm-up to the end."""
        first = min(moment for moment in self.weights if moment >= WARM_UP * MOMENTS)
        return self.weights[max(self.weights)] / self.weights[first] - 1


async def visits(scales: Scales, settings: Settings) -> None:
    count = settings.visits
    for number in range(count):
        await leave(await connect(scales.server.url, QUERIES[number % len(QUERIES)]))
        await scales.weigh((number + 1) / count)


async def strokes(scales: Scales, settings: Settings) -> None:
    from playwright.async_api import async_playwright

    rng, start, count = random.Random(0), time.monotonic(), 0
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find(), args=FLAGS)
        pages = []
        for name in PAINTED:
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            await page.goto(f"{scales.server.url}app?page={name}", timeout=120_000)
            await page.locator(".qt.player .picture canvas[data-map]").first.wait_for(timeout=120_000)
            pages.append(page)
        while (share := (time.monotonic() - start) / (60 * settings.minutes)) < 1:
            for page in pages:
                await page.bring_to_front()
                await stroke(page, rng)
                await asyncio.sleep(PAUSE)
                count += 1
            await scales.weigh(share)
        await scales.weigh(1)
        await browser.close()
    print(f"{count} strokes")


def main() -> None:
    settings = arguments(Settings, prog="python -m tests.app.soak", description=__doc__)
    if settings.visits < 0 or settings.minutes < 0 or 0 < settings.visits < 20:
        raise InputError("visits must be 0 or at least 20, minutes not negative.")
    grown = []
    for run, wanted in ((visits, settings.visits), (strokes, settings.minutes)):
        if wanted:
            with served(OPTIONS) as server:
                scales = Scales(server, run.__name__)
                asyncio.run(run(scales, settings))
            grown.append(scales.growth())
            print(f"{run.__name__}: memory changed by {grown[-1]:+.1%} after the warm-up")
    sys.exit(1 if any(growth > ALLOWED for growth in grown) else 0)


if __name__ == "__main__":
    guarded(main)
