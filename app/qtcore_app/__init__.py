"""The interactive app: `make app` serves it, and `qtcore.widget(model)` shows its painter and player in a notebook."""

import signal
import sys

# As in qtcore.
if (
    sys.argv[:1] == ["-m"]
    and sys.orig_argv[-len(sys.argv)].removeprefix("-m").startswith("qtcore_app.")
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
