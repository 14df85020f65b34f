"""Writing whole files or none."""

import errno
import os
import stat
from pathlib import Path

import pytest

from qtcore.support.files import write_atomically


def test_bytes_text_and_functions(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    assert write_atomically(path, b"\x00\xff") == path
    assert path.read_bytes() == b"\x00\xff"
    write_atomically(str(path), "größer")
    assert path.read_text(encoding="utf-8") == "größer"
    write_atomically(path, lambda temporary: temporary.write_bytes(b"by hand") and None)
    assert path.read_bytes() == b"by hand"
    assert os.listdir(path.parent) == ["file"]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write(temporary: Path) -> None:
        temporary.write_text("half of")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent  # a rename cannot cross file systems
        assert temporary.name.startswith(".")

    write_atomically(path, write)
    assert path.read_text() == "half of"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt(), RuntimeError("no")])
def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write(temporary: Path) -> None:
        temporary.write_text("half of")
        raise error

    with pytest.raises(type(error)) as caught:
        write_atomically(path, write)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]
    if isinstance(caught.value, OSError):
        assert str(path) in str(caught.value)  # not only that the device is full, but what was to be written


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_nothing_is_left_behind_when_the_system_fails(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_atomically(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == []


def test_the_data_are_on_the_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def noted(*args: object, name: str = name, real: object = real) -> None:
            order.append(name)
            real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, noted)
    write_atomically(tmp_path / "file", b"new")
    assert order[:2] == ["fsync", "replace"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_files_are_ordinary_ones(tmp_path: Path) -> None:
    """Readable as the user's umask says, not private as temporary files are."""
    before = os.umask(0o027)
    try:
        path = write_atomically(tmp_path / "file", b"new")
        assert os.umask(0o027) == 0o027  # left as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_through_a_link_but_never_over_a_device(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not an ordinary file"):
        write_atomically(tmp_path / "pipe", "new")
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]
