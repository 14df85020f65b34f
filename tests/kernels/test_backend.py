"""Which backend runs, and why: one line that never lies, whatever the compiler or the environment."""

import ctypes
import importlib
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from qtcore import kernels
from qtcore.errors import BackendError, InputError
from qtcore.kernels import build

from ..strategies import answer, ask
from ..strategies import build as build_model
from .support import F32, HAS_KERNEL, Calls, needs_compiler

backend: Any = importlib.import_module("qtcore.kernels.backend")  # the name in the package is the function


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Nothing built, nothing decided, nothing said; the cache folder is empty."""
    monkeypatch.setenv("QTCORE_CACHE", str(tmp_path))
    monkeypatch.setenv("QTCORE_CFLAGS", "-O0")  # soon built
    monkeypatch.delenv("QTCORE_BACKEND", raising=False)
    monkeypatch.setattr(backend, "_said", set())

    def forget() -> None:
        build.library.cache_clear()
        backend.native_or_why_not.cache_clear()

    forget()
    yield tmp_path
    forget()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if record.name == "qtcore"]


# ---------------------------------------------------------------------------------------------------------------------
# The decision


@pytest.mark.slow
@needs_compiler
def test_native_says_how(undecided: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "qtcore")
    result = kernels.backend()
    assert result.name == "native"
    assert "compiled by" in result.reason
    assert "-march=native" in result.reason
    assert "thread(s)" in result.reason
    assert str(result).count("\n") == 0
    assert kernels.usable(torch.zeros(1))
    assert lines(caplog) == [(logging.INFO, f"backend {result}")]  # once


def test_no_compiler_is_said_aloud(undecided: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(undecided))
    result = kernels.backend()
    assert str(result) == "torch: no C compiler was found (cc, gcc, clang, or the one that CC names)."
    assert not kernels.usable(torch.zeros(1))
    assert lines(caplog) == [(logging.WARNING, f"backend {result}")]
    with pytest.raises(BackendError, match=r'use\("native"\) asks for the native kernels, but no C'), kernels.use("native"):
        pass
    monkeypatch.setenv("QTCORE_BACKEND", "native")
    with pytest.raises(BackendError, match="QTCORE_BACKEND=native asks"):
        kernels.usable(torch.zeros(1))
    assert list(undecided.iterdir()) == []


@pytest.mark.parametrize("kind", HAS_KERNEL)
def test_without_a_compiler_nothing_changes(kind: str, undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    model = build_model(kind)
    query = ask(model)
    expected = answer(model(query))
    assert torch.equal(answer(model(query)), expected)
    assert "no-such-compiler" in kernels.backend().reason


def test_a_compiler_that_fails_is_quoted(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the C files once passed for a machine without a compiler."""
    compiler = undecided / "cc"
    said = "grid.c: In function: something", "grid.c:7: error: no such thing"
    compiler.write_text("".join(["#!/bin/sh\n", *(f"echo '{line}' >&2\n" for line in said), "exit 1\n"]))
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert kernels.backend().name == "torch"
    assert kernels.backend().reason == f"{compiler} failed: grid.c:7: error: no such thing."
    assert list(undecided.iterdir()) == [compiler]
    compiler.write_text("#!/bin/sh\nexit 3\n")
    backend.native_or_why_not.cache_clear()
    assert "failed: exit code 3" in kernels.backend().reason


def test_windows_is_named(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.os, "name", "nt")
    with pytest.raises(BackendError, match="Windows"):
        build.find_compiler()


@pytest.mark.slow
@needs_compiler
def test_the_environment_chooses(undecided: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "qtcore")
    monkeypatch.setenv("QTCORE_BACKEND", "torch")
    assert str(kernels.backend()) == "torch: chosen by QTCORE_BACKEND=torch."
    assert not kernels.usable(torch.zeros(1))
    assert [level for level, _ in lines(caplog)] == [logging.INFO]  # whoever chose it knows
    assert list(undecided.iterdir()) == []  # nothing was built in vain
    with kernels.use("auto"):
        assert kernels.backend().name == "native"
    monkeypatch.setenv("QTCORE_BACKEND", "native")
    assert kernels.backend().name == "native"
    monkeypatch.setenv("QTCORE_BACKEND", "fast")
    with pytest.raises(InputError, match="QTCORE_BACKEND must be one of auto, native, torch, not 'fast'"):
        kernels.backend()


@needs_compiler
def test_use_is_for_a_block_and_a_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with kernels.use("torch"):
        assert kernels.backend().name == "torch"
        with kernels.use("native"):
            assert kernels.backend().name == "native"
        assert kernels.backend().name == "torch"
        with ThreadPoolExecutor(1) as other:
            assert other.submit(kernels.backend).result().name == "native"
    assert kernels.backend().name == "native"
    with pytest.raises(InputError, match="not 'fast'"), kernels.use("fast"):  # type: ignore[arg-type]
        pass


@needs_compiler
def test_a_backward_pass_may_come_under_another_backend() -> None:
    model = build_model("RBM")
    with Calls() as calls:
        loss = model.loss(ask(model))
        with kernels.use("torch"):
            loss.backward()
    assert calls.names == ["binary_layers", "binary_layers_backward"]


def test_a_record_is_frozen() -> None:
    with pytest.raises(AttributeError):
        kernels.backend().name = "torch"  # type: ignore[misc]


# ---------------------------------------------------------------------------------------------------------------------
# The library


@pytest.mark.slow
@needs_compiler
def test_the_library_is_built_once_and_kept(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.load("float")
    (kept,) = undecided.iterdir()
    assert kept.suffix == ".so"
    whole = build._build
    monkeypatch.setattr(build, "_build", lambda *args: pytest.fail("built again"))
    build.load("float")
    elsewhere = undecided / "damaged"
    elsewhere.mkdir()
    (elsewhere / kept.name).write_bytes(b"not a library")
    monkeypatch.setenv("QTCORE_CACHE", str(elsewhere))
    built = []
    monkeypatch.setattr(build, "_build", lambda *args: (built.append(args), whole(*args)))
    assert build.load("float").code.real_bytes() == 4  # built anew, where it once was given up
    assert len(built) == 1


@needs_compiler
def test_a_library_that_stays_damaged_is_said(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged in the cache, and no better when it is built anew: an error of ctypes once ended the program."""
    monkeypatch.setattr(build, "_build", lambda compiler, flags, real, path: path.write_bytes(b"not a library"))
    for _ in ("built", "in the cache"):
        with pytest.raises(BackendError, match="the kernel library cannot be loaded"):
            build.load("float")
    assert kernels.backend().name == "torch"


@pytest.mark.slow
@needs_compiler
def test_flags_of_the_user_are_part_of_the_key(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.load("float")
    monkeypatch.setenv("QTCORE_CFLAGS", "-O1 -DSOMETHING=1")
    build.load("float")
    assert len(list(undecided.iterdir())) == 2
    assert build.all_flags()[-2:] == ["-O1", "-DSOMETHING=1"]
    monkeypatch.setenv("QTCORE_CFLAGS", "-fno-such-flag-exists")
    with pytest.raises(BackendError, match="no-such-flag-exists"):
        build.load("float")


def test_a_cache_folder_that_cannot_be_written(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (undecided / "file").write_text("")
    monkeypatch.setenv("QTCORE_CACHE", str(undecided / "file" / "folder"))
    if build.os.environ.get("CC") or build.shutil.which("cc"):
        assert "could not be built" in kernels.backend().reason


@needs_compiler
@pytest.mark.parametrize("name", sorted(build.TASKS))
def test_tasks_are_the_same_on_both_sides(name: str) -> None:
    for dtype in (F32, torch.float64):
        assert build.layout_in(build.library(dtype).code, name) == build.layout_of(build.TASKS[name])


@pytest.mark.slow
@needs_compiler
def test_another_layout_is_refused(undecided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field more, or two that changed places, would be read as nonsense."""
    monkeypatch.setattr(build, "cache_folder", lambda: Path(undecided))
    for name, right in sorted(build.TASKS.items()):
        fields = list(right._fields_)
        for wrong in ([*fields, ("more", ctypes.c_int64)], [fields[1], fields[0], *fields[2:]], fields[:-1]):
            task: Any = type("Task", (ctypes.Structure,), {"_fields_": wrong})
            monkeypatch.setitem(build.TASKS, name, task)
            backend.native_or_why_not.cache_clear()
            assert kernels.backend().reason == f"the kernel library has another layout of its {name} task."
        monkeypatch.setitem(build.TASKS, name, right)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("real", ["float", "double"])
def test_the_c_files_compile_without_a_warning(real: str, tmp_path: Path) -> None:
    """Nor with an array on the stack that grows with a model, which gcc can tell."""
    compiler = build.find_compiler()
    clang = "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    own = ["-Wno-unknown-pragmas"] if clang else ["-Wstack-usage=16384"]
    flags = [*build.FLAGS, "-Wall", "-Wextra", "-Werror", *own]
    result = subprocess.run(build.command(compiler, flags, real, tmp_path / "library.so"), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("path", build.SOURCES, ids=lambda path: path.name)
def test_the_c_files_can_be_read(path: Path) -> None:
    """No line over 120 characters, no function over 60 lines, nothing allocated."""
    text = path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 120
    assert "malloc" not in text
    start = None
    for number, line in enumerate(text.splitlines()):
        if line.endswith("{") and not line.startswith((" ", "}", "typedef", "enum")):
            start = number
        if line == "}" and start is not None:
            assert number - start < 60, f"{path.name}:{start + 1}"
            start = None
