"""Commands, run in this process: quicker than a process of their own, since torch is there already."""

import signal
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from qtcore.support.cli import guarded


class Run(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line of an error, without its beginning."""
        assert self.code == 2
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("error: ").rstrip("\n")


Command = Callable[..., Run]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """command(main, *arguments): exit code and what was printed."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(main: Callable[[], "int | None"], *arguments: object) -> Run:
        monkeypatch.setattr(sys, "argv", ["command", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            guarded(main)
        out, err = capsys.readouterr()
        return Run(int(end.value.code or 0), out, err)

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
