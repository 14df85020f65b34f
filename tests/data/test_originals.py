"""Where the bytes come from, and that a wrong one is never used."""

import gzip
import hashlib
import logging
from pathlib import Path

import pooch
import pytest

from qtcore.data import SPECIFICATIONS, load, names, originals
from qtcore.data.originals import RemoteFile, read
from qtcore.errors import DataError
from tests.data.conftest import Server, good, truncated

BODY = b"the right bytes " * 1000
FILE = RemoteFile("made/thing.bin", ("https://example.invalid/thing.bin",), "sha256", hashlib.sha256(BODY).hexdigest())


def put(folder: Path, data: bytes) -> Path:
    path = folder / FILE.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_git_blob_ids() -> None:
    """Both ids are what `git hash-object` prints."""
    empty = RemoteFile("x", (), "git blob id", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
    hello = RemoteFile("x", (), "git blob id", "ce013625030ba8dba906f756967f9e9ca394464a")
    assert empty.content(b"") == b""
    assert hello.content(b"hello\n") == b"hello\n"
    assert hello.content(b"hello") is None


def test_packed_file_is_known_by_its_unpacked_bytes() -> None:
    file = RemoteFile("x.gz", (), "sha256 of the unpacked bytes", hashlib.sha256(BODY).hexdigest())
    for level in (1, 9):
        assert file.content(gzip.compress(BODY, level)) == BODY
    packed = gzip.compress(BODY)
    for wrong in (
        packed[:-4],
        packed[: len(packed) // 2],
        b"",
        BODY,
        gzip.compress(BODY + b"x"),
        packed[:20] + b"xxxx" + packed[24:],
    ):
        assert file.content(wrong) is None


def test_unpacking_stops_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "MAX_UNPACKED", len(BODY) - 1)
    file = RemoteFile("x.gz", (), "sha256 of the unpacked bytes", hashlib.sha256(BODY).hexdigest())
    assert file.content(gzip.compress(BODY)) is None


def test_order_of_places(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The data folder, then the cache, then the network; a damaged copy is passed over and named."""
    server.serve("/made/thing.bin", good(BODY))
    monkeypatch.setenv("QTCORE_MIRROR", server.url + "/")
    data = tmp_path / "data"
    in_data = put(data / "raw", BODY)
    in_cache = put(cache, BODY)
    monkeypatch.setenv("QTCORE_DATA", str(data))
    assert originals.read_local(FILE) == (in_data, BODY)
    in_data.write_bytes(b"damaged")
    assert originals.read_local(FILE) == (in_cache, BODY)
    assert f"{in_data} is damaged" in caplog.text
    in_cache.unlink()
    assert originals.read_local(FILE) is None
    assert server.requests == []
    assert read(FILE) == BODY
    assert server.requests == ["/made/thing.bin"]
    assert in_cache.read_bytes() == BODY
    assert in_data.read_bytes() == b"damaged"  # the data folder is not ours to write to
    assert read(FILE) == BODY
    assert len(server.requests) == 1


@pytest.mark.parametrize("wrong", [b"", BODY[:-1], BODY[: len(BODY) // 2], b"x" + BODY[1:]])
def test_damaged_cached_file_is_fetched_again(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wrong: bytes
) -> None:
    path = put(cache, wrong)
    server.serve("/made/thing.bin", good(BODY))
    monkeypatch.setenv("QTCORE_MIRROR", server.url)
    with caplog.at_level(logging.WARNING):
        assert read(FILE) == BODY
    assert f"{path} is damaged" in caplog.text
    assert path.read_bytes() == BODY


def test_damaged_cached_file_is_not_used_without_network(cache: Path) -> None:
    put(cache, BODY[:-1])
    with pytest.raises(DataError, match="could not be fetched"):
        read(FILE)


def test_truncated_download_does_not_reach_the_cache(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    server.serve("/made/thing.bin", truncated(BODY))
    monkeypatch.setenv("QTCORE_MIRROR", server.url)
    with pytest.raises(DataError, match="ended after"):
        read(FILE)
    assert not (cache / FILE.path).exists()


def test_public_addresses_are_used_without_a_mirror(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QTCORE_MIRROR")
    file = RemoteFile(FILE.path, (server.serve("/elsewhere/name.bin", good(BODY)),), FILE.check, FILE.digest)
    assert read(file) == BODY


def test_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QTCORE_CACHE", raising=False)
    assert originals.cache_folder() == Path(pooch.os_cache("qtcore"))
    monkeypatch.setenv("QTCORE_CACHE", str(tmp_path))
    assert originals.cache_folder() == tmp_path
    monkeypatch.setenv("QTCORE_DATA", str(tmp_path / "nothing"))
    with pytest.raises(DataError, match="which is not a folder"):
        load("dna")


@pytest.mark.parametrize("name", [name for name in names() if SPECIFICATIONS[name].files])
def test_missing_set_says_what_to_do(cache: Path, name: str) -> None:
    """With no network the error names the file, the address and the place for a copy got by hand."""
    with pytest.raises(DataError) as failure:
        load(name)
    file = SPECIFICATIONS[name].files[0]
    message = str(failure.value)
    assert f"http://127.0.0.1:9/{file.path}" in message
    assert str(cache / file.path) in message
    assert "\n" not in message


def test_every_address_is_pinned() -> None:
    """A commit in each GitHub address, a full digest for each file, a place of its own for each."""
    files = {file for known in SPECIFICATIONS.values() for file in known.files}
    assert len(files) == 16
    assert len({file.path for file in files}) == len(files)
    for file in files:
        assert len(file.digest) == (40 if file.check == "git blob id" else 64)
        for url in file.urls:
            assert url.startswith("https://")
            assert Path(url).name == Path(file.path).name
            if "github" in url:
                assert any(len(part) == 40 for part in url.split("/"))


def test_originals_have_the_recorded_hashes(data_folder: Path) -> None:
    checked = []
    for path in (data_folder / "raw").rglob("*"):
        for file in {file for known in SPECIFICATIONS.values() for file in known.files}:
            if path == data_folder / "raw" / file.path:
                assert file.content(path.read_bytes()) is not None, path
                checked.append(file.path)
    assert len(checked) == 10
