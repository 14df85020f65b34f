"""How the browser tests come by a Chromium, and what happens when there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .ui import chromium

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """A machine without a browser, on which nothing can be installed; the commands that were tried."""
    tried: list[list[str]] = []

    def fails(command: list[str]) -> bool:
        tried.append(command)
        return False

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "NOTE", tmp_path / ".no-chromium")
    monkeypatch.setattr(chromium, "APPLICATIONS", ())
    monkeypatch.setattr(chromium, "_playwrights_own", lambda: iter(()))
    monkeypatch.setattr(chromium, "_works", fails)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tried


def executable(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_an_installed_one_is_used(bare_machine: list[list[str]], tmp_path: Path) -> None:
    expected = executable(tmp_path / "google-chrome")
    chromium.main()
    assert chromium.find() == expected
    assert bare_machine == []


def test_root_asks_the_package_manager_then_playwright(bare_machine: list[list[str]], tmp_path: Path) -> None:
    executable(tmp_path / "dnf")
    chromium.main()
    first, second = bare_machine
    assert first == ["dnf", "install", "-qy", "chromium"]
    assert second == [sys.executable, "-m", "playwright", "install", "chromium"]


def test_the_package_manager_is_enough(bare_machine: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "apt-get")
    monkeypatch.setattr(chromium, "_works", lambda command: bool(executable(tmp_path / "chromium")))
    assert chromium.install() == tmp_path / "chromium"


def test_others_ask_playwright_alone(bare_machine: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    chromium.main()
    assert [command[0] for command in bare_machine] == [sys.executable]


def test_a_failure_is_remembered(bare_machine: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    """Or a machine without network would wait for a time-out at every `make test`."""
    chromium.main()
    assert len(bare_machine) == 1
    chromium.main()
    assert len(bare_machine) == 1
    assert "will be skipped" in capsys.readouterr().out
    chromium.NOTE.unlink()
    chromium.main()
    assert len(bare_machine) == 2


@pytest.mark.slow
def test_the_summary_says_that_browser_tests_are_skipped(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbmake", "-o", "addopts=-ra", "tests/ui"]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if chromium.find() in chromium.APPLICATIONS:
        pytest.skip("this machine's browser does not depend on the path")
    assert result.returncode == 0, result.stdout
    assert "no Chromium on this machine" in result.stdout
    assert "passed" not in result.stdout.splitlines()[-1]
