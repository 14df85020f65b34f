"""How a training goes, for whoever waits for it, and how it is stopped."""

import os
import signal
import sys
import time
from types import FrameType

from tqdm import tqdm

from qtcore.learn.query_training import Progress


class Reporter:
    """Reports the progress of a training, and stops it in an orderly way when a signal asks for it."""

    def __init__(self, quiet: bool, unit: str = "img") -> None:
        self.quiet, self.unit = quiet, unit
        self.signal: int | None = None
        self.bar: tqdm | None = None
        self.shown: tuple[int, float] | None = None  # the last step of which a line was printed, and when
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.signal = number

    def __call__(self, progress: Progress) -> bool:
        if not self.quiet:
            self._show(progress)
        return self.signal is not None

    def _show(self, progress: Progress) -> None:
        if sys.stderr.isatty():
            batch = progress.settings.batch
            if self.bar is None:
                size = os.get_terminal_size(sys.stderr.fileno())
                self.bar = tqdm(
                    total=progress.steps * batch,
                    initial=(progress.step - 1) * batch,
                    unit=self.unit,
                    unit_scale=True,
                    ncols=size.columns or 80,  # some terminals do not know their size
                    nrows=size.lines or 24,
                    bar_format="{percentage:3.0f}%|{bar:8}| {remaining} left, {rate_fmt}{postfix}",
                )
            valid = f"valid {in_bits(progress.valid)}, best {in_bits(progress.best)}"
            self.bar.total = progress.steps * batch  # of a training that has to be done in time it may change
            self.bar.set_postfix_str(f"loss {progress.loss:.4f}, {valid}", refresh=False)
            self.bar.update(batch)
        elif progress.step % progress.settings.validate_every == 0 or progress.step == progress.steps:
            now = time.monotonic()
            speed = ""
            if self.shown is not None:
                seen = (progress.step - self.shown[0]) * progress.settings.batch
                speed = f", {seen / (now - self.shown[1]):.0f} {self.unit}/s"
            self.shown = progress.step, now
            valid = f"valid {in_bits(progress.valid)}, best {in_bits(progress.best)} bits"
            print(f"step {progress.step}/{progress.steps}: loss {progress.loss:.4f} nats, {valid}{speed}", flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def in_bits(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
