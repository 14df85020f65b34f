"""What all command lines share: one clear sentence and exit code 2 instead of a traceback."""

import sys
from collections.abc import Callable

BAD_INPUT = 2
INTERRUPTED = 130


def guarded(main: Callable[[], "int | None"]) -> None:
    """Run `main` and leave the process with its exit code.

    Errors that a user can mend (every named error of ours is a ValueError or an OSError) become one line on
    stderr and exit code 2; Ctrl-C becomes exit code 130. Anything else is a bug and keeps its traceback.
    """
    try:
        code = main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) went away: nothing is wrong
        sys.stderr.close()
        code = 0
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT
    sys.exit(code or 0)
