"""The interactive app: `qtcore app` serves it, and `qtcore.widget(model)` shows its painter and player in a notebook."""

import signal
import sys

if (  # one of its modules is being started: `python -m qtcore_app.export …`
    (_command := sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m").startswith("qtcore_app."))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in qtcore

from qtcore.errors import MissingExtraError
from qtcore.support.cli import BAD_INPUT
from qtcore.support.extras import needs

try:
    needs("app")
except MissingExtraError as error:
    if not _command:
        raise
    print(f"error: {error}", file=sys.stderr)
    sys.exit(BAD_INPUT)
