"""The downloader against a server on this machine: whatever happens, the place holds the right bytes or nothing."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from qtcore.data import download as module
from qtcore.data.download import download
from qtcore.errors import DataError
from tests.data.conftest import Server, gone, good, silent, slow, status, truncated, without_length

BODY = os.urandom(300_000)
OTHER = os.urandom(300_000)


def check(data: bytes) -> bytes | None:
    return data[:10] if data == BODY else None


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_good_file_is_checked_kept_and_returned(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "file.bin"
    assert download([server.serve("/file.bin", good(BODY))], target, check) == BODY[:10]
    assert target.read_bytes() == BODY
    assert left_behind(tmp_path) == ["file.bin"]


def test_answer_without_a_length_is_accepted(server: Server, tmp_path: Path) -> None:
    download([server.serve("/x", without_length(BODY))], tmp_path / "x", check)
    assert (tmp_path / "x").read_bytes() == BODY


def test_slow_file_arrives(server: Server, tmp_path: Path, quick: None) -> None:
    """Slower in all than the timeout, which counts silence only."""
    start = time.monotonic()
    download([server.serve("/x", slow(BODY, pause=0.15))], tmp_path / "x", check)
    assert time.monotonic() - start > module.TIMEOUT
    assert (tmp_path / "x").read_bytes() == BODY


@pytest.mark.parametrize(
    ("reply", "reason", "tries"),
    [
        (good(OTHER), "300000 bytes that are not the expected ones", 3),
        (truncated(BODY), "ended after 150000 of 300000 bytes", 3),
        (gone(BODY), "reset", 3),
        (silent(3), "no answer within 1 seconds", 3),
        (status(404), "404", 1),
        (status(503), "503", 3),
    ],
    ids=["wrong hash", "truncated", "gone mid-way", "silent", "404", "503"],
)
def test_failure_is_one_sentence_and_leaves_nothing(
    server: Server, tmp_path: Path, quick: None, reply, reason: str, tries: int
) -> None:
    url = server.serve("/file.bin", reply)
    target = tmp_path / "file.bin"
    with pytest.raises(DataError) as failure:
        download([url], target, check)
    message = str(failure.value)
    assert message.startswith("file.bin could not be fetched from ")
    assert url in message
    assert reason in message
    assert message.endswith(f"put it at {target}.")
    assert "\n" not in message
    assert len(server.requests) == tries
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("first", [good(OTHER), truncated(BODY), gone(BODY), silent(3), status(500)])
def test_second_try_succeeds(server: Server, tmp_path: Path, quick: None, first) -> None:
    assert download([server.serve("/x", first, good(BODY))], tmp_path / "x", check) == BODY[:10]
    assert server.requests == ["/x", "/x"]
    assert (tmp_path / "x").read_bytes() == BODY


def test_second_address_is_asked_when_the_first_fails(server: Server, tmp_path: Path, quick: None) -> None:
    urls = [server.serve("/gone", status(404)), server.serve("/here", good(BODY))]
    assert download(urls, tmp_path / "x", check) == BODY[:10]
    assert server.requests == ["/gone", "/here"]


def test_failure_keeps_what_was_there(server: Server, tmp_path: Path, quick: None) -> None:
    (tmp_path / "x").write_bytes(b"before")
    with pytest.raises(DataError):
        download([server.serve("/x", truncated(BODY))], tmp_path / "x", check)
    assert (tmp_path / "x").read_bytes() == b"before"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "http://nowhere.invalid/x", "no address at all"])
def test_hopeless_addresses_are_given_up_at_once(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pauses.append))
    with pytest.raises(DataError, match="could not be fetched"):
        download([url], tmp_path / "x", check)
    assert pauses == []  # no second try, before which it would have waited


def test_endless_answer_is_cut_off(server: Server, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SIZE", 100_000)
    with pytest.raises(DataError, match="more than any file of ours"):
        download([server.serve("/x", good(BODY))], tmp_path / "x", check)


def test_place_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    target = tmp_path / "file" / "x"
    with pytest.raises(DataError, match="set QTCORE_CACHE to a folder that can be written") as failure:
        download([server.serve("/x", good(BODY))], target, check)
    assert str(target) in str(failure.value)


READ = """
import hashlib, sys
from qtcore.data.originals import RemoteFile, read
file = RemoteFile("some/large.bin", (), "sha256", sys.argv[1])
for _ in range(3):
    assert hashlib.sha256(read(file)).hexdigest() == sys.argv[1]
"""


@pytest.mark.slow
def test_two_processes_fetch_the_same_file(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both start on an empty cache while the server is slow, so that their downloads overlap."""
    server.serve("/some/large.bin", slow(BODY, pause=0.15))
    monkeypatch.setenv("QTCORE_MIRROR", server.url)
    command = [sys.executable, "-W", "error", "-c", READ, hashlib.sha256(BODY).hexdigest()]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert errors == ""  # no terminal, no progress bar
    assert left_behind(cache) == ["large.bin"]
    assert (cache / "some" / "large.bin").read_bytes() == BODY


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_progress_bar_on_a_terminal(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pty
    import termios

    server.serve("/some/large.bin", slow(BODY))
    monkeypatch.setenv("QTCORE_MIRROR", server.url)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    command = [sys.executable, "-c", READ, hashlib.sha256(BODY).hexdigest()]
    try:
        subprocess.run(command, stderr=theirs, check=True, timeout=300)
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(theirs)
        os.close(ours)
    assert "large.bin:" in shown
    assert "%" in shown
