"""Serving the app: by `qtcore app`, from a clone or from an installation, as `make app` does."""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from panel.command import main as panel_command

from qtcore.errors import InputError

LIMITS = {"websocket-max-message-size": 6 * 2**20, "unused-session-lifetime": 60_000, "check-unused-sessions": 15_000}
"""No message from a browser is larger than an upload (4 MB); what is left of a closed window is cleared up after a minute."""
LOCAL = "localhost"
EVERYWHERE = ("", "0.0.0.0", "::")


def folder() -> Path:
    """What `panel serve` serves: in the installed package, or around it in a clone. Its name is the page's address."""
    package = Path(__file__).resolve().parent
    inside = package / "app"
    return inside if inside.is_dir() else package.parent


def serve(address: str, port: int, show: bool, options: Sequence[str] = ()) -> None:
    """Serve the app until somebody interrupts it.

    Args:
        address: of this machine; "0.0.0.0" lets others in.
        port: 0 takes a free one.
        show: open a browser, if there is a desktop to open it on.
        options: more of `panel serve`.
    """
    free = check(address, port)
    if address in EVERYWHERE:  # whoever lets everybody in need not know by which name they come
        options = ["--allow-websocket-origin=*", *options]
    elif address != LOCAL:
        port = free
        options = [*(f"--allow-websocket-origin={name}:{port}" for name in (address, LOCAL)), *options]
    words = ["panel", "serve", str(folder()), "--address", address, "--port", str(port)]
    words += [f"--{name}={value}" for name, value in LIMITS.items()]
    sys.argv = [*words, *(["--show"] if show and has_desktop() else []), *options]
    panel_command()


def check(address: str, port: int) -> int:
    """The port, a free one for 0; raise an InputError if nothing can be served there. (Panel would log a line.)"""
    if not 0 <= port < 2**16:
        raise InputError(f"port must be between 0 and {2**16 - 1}, not {port}.")
    try:
        family, _, _, _, place = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family) as listening:
            if os.name != "nt":  # there it would take a port from whoever has it
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            return int(listening.getsockname()[1])
    except OSError as error:
        said = error.strerror or str(error)
        raise InputError(f"port {port} of {address} cannot be used ({said}); choose with --port and --address.") from error


def has_desktop() -> bool:
    """Whether a browser that is opened here is seen by whoever asked for it."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
