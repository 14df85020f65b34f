"""`qtcore COMMAND` is `python -m qtcore.COMMAND`, and the doctor says what there is."""

from importlib import import_module
from pathlib import Path

import pytest

import qtcore
from qtcore import doctor, kernels
from qtcore.__main__ import COMMANDS, main

from .commands import Command, command  # noqa: F401  (a fixture)


def test_without_a_command_it_lists_them(command: Command) -> None:  # noqa: F811
    for words in ((), ("--help",), ("-h",)):
        result = command(main, *words)
        assert result.code == 0
        assert all(f"\n  {name} " in result.out for name in COMMANDS)
    assert command(main, "--version").out == f"{qtcore.__version__}\n"


def test_every_command_is_there_and_has_an_example() -> None:
    package = Path(qtcore.__file__).parent
    with_main = {path.stem for path in package.glob("*.py") if "def main(" in path.read_text(encoding="utf-8")}
    assert with_main - {"__main__"} == COMMANDS.keys()
    for name in COMMANDS:
        assert f"python -m qtcore.{name}" in (import_module(f"qtcore.{name}").__doc__ or "")


def test_a_subcommand_gets_its_words(command: Command, tmp_path: Path) -> None:  # noqa: F811
    result = command(main, "evaluate", tmp_path / "none.safetensors")
    assert (result.code, result.sentence) == (2, f"{tmp_path / 'none.safetensors'} does not exist.")
    assert command(main, "trian").sentence == "there is no command named 'trian'; did you mean train?"


def test_the_doctor(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with kernels.use("torch"):
        result = command(doctor.main)
    lines = dict(line.split(maxsplit=1) for line in result.out.splitlines())
    assert result.code == 0
    assert list(lines) == ["qtcore", "python", "torch", "libraries", "kernels", "device", "data", "models", "cache", "tools"]
    assert lines["qtcore"].startswith(qtcore.__version__)
    assert lines["kernels"] == 'torch: chosen by use("torch").'
    assert "digits" in lines["data"]
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "nowhere")
    assert "browser: none" in dict(doctor.report())["tools"]
    monkeypatch.setattr(doctor, "LIBRARIES", ("no-such-library",))
    assert dict(doctor.report())["libraries"] == "no-such-library not installed"
    assert command(doctor.main, "--nonsense").code == 2
