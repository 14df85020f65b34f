"""Shared by all commands: one clear sentence and exit code 2 instead of a traceback."""

import contextlib
import io
import itertools
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from qtcore.errors import InputError, out_of_memory

BAD_INPUT = 2
INTERRUPTED = 130

T = TypeVar("T")


def guarded(main: Callable[[], "int | None"]) -> None:
    """Run `main` and leave the process with its exit code.

    Errors that a user can mend (every named error of ours is a ValueError or an OSError) become one line on
    stderr and exit code 2; Ctrl-C becomes exit code 130. Anything else is a bug and keeps its traceback.
    """
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115  (closed)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # Windows writes to files and pipes in an encoding without − and ×
            stream.reconfigure(errors="replace")
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # set by qtcore/__init__.py
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) closed the pipe: not an error
        sys.stderr.close()
        code = 0
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        print("error: the memory of this machine is not enough for that; take a smaller model or fewer rows.", file=sys.stderr)
        code = BAD_INPUT
    sys.exit(code or 0)


def arguments(kind: type[T], **options: Any) -> T:
    """Parse the command line into a dataclass by tyro.cli with these options; errors become one sentence."""
    import tyro

    with contextlib.redirect_stderr(io.StringIO()) as captured:
        try:
            return tyro.cli(kind, **options)
        except SystemExit as end:
            if not end.code:  # --help
                raise
    raise InputError(_sentence(captured.getvalue()))


def _sentence(box: str) -> str:
    """The error from tyro's box: a title, perhaps a rule, the error, a rule, where to find help."""
    lines = [line.strip(" │|") for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines()[1:]]
    rule = [not line.strip("─-╰╯") for line in lines]
    rest = itertools.dropwhile(lambda pair: pair[1], zip(lines, rule, strict=True))
    text = " ".join(line for line, _ in itertools.takewhile(lambda pair: not pair[1], rest))
    text = re.sub(r"^Error parsing [a-z._]+: ", "", text)  # the sentence that follows names the setting itself
    return text.rstrip(".") + "." if text else "the command line cannot be understood; see --help."
