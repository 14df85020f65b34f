"""The command, as a user runs it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from qtcore.data import SPECIFICATIONS, inventory, names
from qtcore.fetch import main
from qtcore.support.cli import guarded
from tests.data.conftest import Server, good, kept

OFFLINE = ("digits", "glyphs", "border-glyphs", "drawings")
FETCHED = tuple(name for name in names() if name not in OFFLINE)
NOBODY = "http://127.0.0.1:9"  # the discard port: nobody listens


class Run(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def environment(cache: Path, data: Path | None, mirror: str) -> dict[str, str]:
    result = {"QTCORE_CACHE": str(cache), "QTCORE_MIRROR": mirror}
    return result if data is None else result | {"QTCORE_DATA": str(data)}


def fetch_in_shell(*arguments: str, cache: Path, data: Path | None = None, mirror: str = NOBODY) -> Run:
    """The command in a process of its own, warnings being errors."""
    rest = {key: value for key, value in os.environ.items() if not key.startswith("QTCORE_")}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "qtcore.fetch", *arguments],
        env=rest | environment(cache, data, mirror) | {"PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    return Run(run.returncode, run.stdout, run.stderr)


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """The same command in this process: quicker, since torch is there already."""

    def run(*arguments: str, cache: Path, data: Path | None = None, mirror: str = NOBODY) -> Run:
        monkeypatch.delenv("QTCORE_DATA", raising=False)
        for key, value in environment(cache, data, mirror).items():
            monkeypatch.setenv(key, value)
        monkeypatch.setattr(sys, "argv", ["fetch", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            guarded(main)
        return Run(int(end.value.code or 0), *capsys.readouterr())

    return run


def lines(output: str) -> dict[str, list[str]]:
    """The lines that begin with a dataset's name."""
    result: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.split(" ")[0] in names():
            result.setdefault(line.split(" ")[0], []).append(line)
    return result


def words(line: str) -> list[str]:
    return line.split()


@pytest.mark.slow
def test_verify_with_an_empty_cache(
    fetch: Callable[..., Run], tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line per set: what to do about those that are missing; the others are checked; nobody is asked."""
    monkeypatch.setattr(inventory, "load", kept)
    run = fetch("--verify", cache=tmp_path / "cache", mirror=server.url)
    assert run.returncode == 0
    assert run.stderr == ""
    result = lines(run.stdout)
    assert list(result) == list(names())
    for name, (line,) in result.items():
        if name in OFFLINE:
            assert words(line)[1] == "right"
        else:
            assert words(line)[1] == "missing"
            assert f"run `python -m qtcore.fetch {name}`" in line
            for file in SPECIFICATIONS[name].files:
                assert Path(file.path).name in line
                assert file.urls[0].rpartition("/")[0] in line
            assert str((tmp_path / "cache" / SPECIFICATIONS[name].files[0].path).parent) in line
    assert run.stdout.splitlines()[-1] == "11 missing, 4 right"
    assert server.requests == []
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_verify_the_data_folder(
    fetch: Callable[..., Run], tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "load", kept)
    run = fetch("--verify", *FETCHED, cache=tmp_path / "cache", data=data_folder)
    assert run.returncode == 0, run.stdout
    assert run.stderr == ""
    result = {name: line for name, (line,) in lines(run.stdout).items()}
    assert {name: words(line)[1] for name, line in result.items()} == {
        name: "stand-in" if name == "rcv1" else "right" for name in FETCHED
    }
    sources = {name: words(line)[2] for name, line in result.items()}
    assert sorted(name for name in sources if sources[name] == "rearranged") == ["adult", "connect4", "web"]
    assert "missing: rcv1.train.data, rcv1.test.data" in result["rcv1"]
    assert "no figure compares with the paper" in result["rcv1"]
    assert "32152/10000/10000 × 128" in result["ocr_letters"]
    assert "0.1128" in result["adult"]
    assert "1.90" in result["frey"]
    assert "1.9" in result["frey"].split("patches:")[1]
    assert "16.4" in result["border"]


def test_list(fetch: Callable[..., Run], tmp_path: Path, data_folder: Path) -> None:
    run = fetch("--list", cache=tmp_path / "cache", data=data_folder)
    assert run.returncode == 0
    result = {name: line for name, (line,) in lines(run.stdout).items()}
    assert list(result) == list(names())
    assert words(result["adult"])[1:] == ["rearranged", "0.3", "MB", str(data_folder / "prepared" / "adult.npz")]
    assert words(result["border"])[1:] == ["exact", "11.4", "MB", str(data_folder / "raw" / "mnist")]
    assert words(result["rcv1"])[1] == "stand-in"
    assert words(result["digits"])[1:] == ["exact", "scikit-learn"]


@pytest.mark.slow
def test_without_arguments_it_lists_and_fetches_nothing(tmp_path: Path, server: Server) -> None:
    run = fetch_in_shell(cache=tmp_path / "cache", mirror=server.url)
    assert run.returncode == 0
    assert list(lines(run.stdout)) == list(names())
    assert words(lines(run.stdout)["dna"][0])[1] == "missing"
    assert server.requests == []


def test_fetch_without_network(fetch: Callable[..., Run], tmp_path: Path) -> None:
    run = fetch("mushrooms", "glyphs", cache=tmp_path / "cache")
    assert run.returncode == 1
    result = lines(run.stdout)
    assert list(result) == ["mushrooms", "glyphs"]
    (line,) = result["mushrooms"]
    assert "not fetched: mushrooms.npz could not be fetched" in line
    assert f"{NOBODY}/made/mushrooms.npz" in line
    assert str(tmp_path / "cache" / "made" / "mushrooms.npz") in line
    assert "Traceback" not in run.stdout + run.stderr


def test_fetch_then_verify_then_damage(fetch: Callable[..., Run], tmp_path: Path, data_folder: Path, server: Server) -> None:
    cache = tmp_path / "cache"
    original = data_folder / "raw" / "made" / "nips.npz"
    server.serve("/made/nips.npz", good(original.read_bytes()))
    run = fetch("nips", cache=cache, mirror=server.url)
    assert (run.returncode, run.stderr) == (0, "")
    assert str(cache / "made" / "nips.npz") in run.stdout
    assert (cache / "made" / "nips.npz").read_bytes() == original.read_bytes()

    run = fetch("nips", "--verify", cache=cache)
    assert run.returncode == 0
    assert words(lines(run.stdout)["nips"][0])[1:3] == ["right", "exact"]

    (cache / "made" / "nips.npz").write_bytes(original.read_bytes()[:-1000])
    run = fetch("nips", "digits", "--verify", cache=cache)
    assert run.returncode == 1
    assert words(lines(run.stdout)["nips"][0])[1] == "WRONG"
    assert f"{cache / 'made' / 'nips.npz'} is damaged" in run.stdout
    assert words(lines(run.stdout)["digits"][0])[1] == "right"

    run = fetch("nips", cache=cache, mirror=server.url)
    assert run.returncode == 0
    assert (cache / "made" / "nips.npz").read_bytes() == original.read_bytes()


def test_rcv1_is_fetched_although_a_stand_in_is_there(fetch: Callable[..., Run], tmp_path: Path, data_folder: Path) -> None:
    data = tmp_path / "data"
    (data / "prepared").mkdir(parents=True)
    shutil.copy(data_folder / "prepared" / "rcv1_valid_only.npz", data / "prepared")
    run = fetch("rcv1", cache=tmp_path / "cache", data=data)
    assert run.returncode == 1
    assert f"{NOBODY}/ucla/rcv1.train.data" in run.stdout


def test_wrong_prepared_file_is_wrong(fetch: Callable[..., Run], tmp_path: Path, data_folder: Path) -> None:
    data = tmp_path / "data"
    (data / "prepared").mkdir(parents=True)
    shutil.copy(data_folder / "prepared" / "dna.npz", data / "prepared" / "nips.npz")
    run = fetch("nips", "--verify", cache=tmp_path / "cache", data=data)
    assert run.returncode == 1
    assert words(lines(run.stdout)["nips"][0])[1] == "WRONG"
    assert "has shape (1400, 180)" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mushroms"], "no dataset is called 'mushroms'; did you mean mushrooms?"),
        (["--verify", "--list"], "not allowed with argument"),
        (["--frobnicate"], "unrecognized arguments"),
    ],
)
def test_bad_input(fetch: Callable[..., Run], tmp_path: Path, arguments: list[str], message: str) -> None:
    run = fetch(*arguments, cache=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


def test_data_folder_that_does_not_exist(fetch: Callable[..., Run], tmp_path: Path) -> None:
    run = fetch("--list", cache=tmp_path, data=tmp_path / "nothing")
    assert run.returncode == 2
    assert run.stderr == (
        f"error: QTCORE_DATA names {tmp_path / 'nothing'}, which is not a folder; correct the variable or unset it.\n"
    )


def test_help_shows_an_example(fetch: Callable[..., Run], tmp_path: Path) -> None:
    run = fetch("--help", cache=tmp_path)
    assert run.returncode == 0
    assert "python -m qtcore.fetch adult frey" in run.stdout
