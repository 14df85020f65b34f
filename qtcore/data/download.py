"""Download one file: with a progress bar, retries, several addresses, and a check before anything is kept.

The bytes are gathered in memory (the largest file has 45 MB), checked, written to a temporary name and renamed.
So the place of a file never holds a half or a wrong one, and processes that fetch the same file at the same time
only replace it by itself.
"""

import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from qtcore.errors import DataError
from qtcore.support.files import write_atomically

TIMEOUT = 30.0  # seconds without a single byte before an attempt is given up
TRIES = 3  # per address
PAUSE = 0.5  # seconds before the second try, twice as long before the third
PIECE = 1 << 16  # bytes read at a time
MAX_SIZE = 1 << 28  # bytes; far above all our files, so a longer response is some other file
WORTH_ANOTHER_TRY = {408, 425, 429, 500, 502, 503, 504}  # HTTP codes of transient errors


class _Failure(Exception):
    """Why an attempt failed, and whether a retry at the same address may succeed."""

    def __init__(self, reason: str, retry: bool) -> None:
        super().__init__(reason)
        self.retry = retry


def download(urls: Sequence[str], target: Path, content: Callable[[bytes], bytes | None]) -> bytes:
    """Fetch `target` from the first of `urls` that gives the right bytes; return `content` of them.

    `content` is the check: it returns the useful bytes, or None when they are not the right ones.
    """
    failures = []
    for url in urls:
        try:
            data, useful = _fetch_from(url, target.name, content)
        except _Failure as failure:
            failures.append(f"{url} ({failure})")
            continue
        try:
            write_atomically(target, data)
        except OSError as error:
            # On Windows a file that another process has open cannot be replaced; it is then the file that we wanted.
            if not (target.is_file() and content(target.read_bytes()) is not None):
                raise DataError(
                    f"{target.name} was fetched but cannot be written to {target} ({error.strerror}); "
                    "set QTCORE_CACHE to a folder that can be written."
                ) from error
        return useful
    raise DataError(f"{target.name} could not be fetched from {' or '.join(failures)}; get it by hand and put it at {target}.")


def _fetch_from(url: str, label: str, content: Callable[[bytes], bytes | None]) -> tuple[bytes, bytes]:
    """The bytes at one address and their `content`, after as many attempts as allowed."""
    for attempt in range(1, TRIES + 1):
        try:
            data = _get(url, label)
            useful = content(data)
            if useful is None:
                raise _Failure(f"it sent {len(data)} bytes that are not the expected ones", retry=True)
            return data, useful
        except _Failure as failure:
            if not failure.retry or attempt == TRIES:
                raise
            time.sleep(PAUSE * attempt)
    raise AssertionError("unreachable")


def _get(url: str, label: str) -> bytes:
    """The body of one response; every error becomes a `_Failure`."""
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "qtcore"})
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            data = bytearray()
            # disable=None: no bar without a terminal
            with tqdm(total=total, desc=label, unit="B", unit_scale=True, leave=False, disable=None) as bar:
                while piece := answer.read(PIECE):
                    data += piece
                    bar.update(len(piece))
                    if len(data) > MAX_SIZE:
                        raise _Failure("it sends more than any file of ours has", retry=False)
    except urllib.error.HTTPError as error:
        reason = f"it answered {error.code} {error.reason}"
        error.close()  # the error holds the open response
        raise _Failure(reason, retry=error.code in WORTH_ANOTHER_TRY) from None
    except urllib.error.URLError as error:
        # An unknown host or a refused connection means no network (or a wrong mirror): waiting would not help.
        hopeless = isinstance(error.reason, socket.gaierror | ConnectionRefusedError) or error.reason is None
        raise _Failure(_reason(error.reason), retry=not hopeless) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Failure(_reason(error), retry=True) from None
    except ValueError as error:  # not a URL
        raise _Failure(str(error), retry=False) from None
    if total is not None and len(data) < total:
        raise _Failure(f"the connection ended after {len(data)} of {total} bytes", retry=True)
    return bytes(data)


def _reason(error: object) -> str:
    if isinstance(error, socket.gaierror):
        return "no network, or no such host"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} seconds"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
