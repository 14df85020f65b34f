"""The C files as a library: found or compiled, kept in the user's cache folder, loaded, and compared with the layout Python
expects. Whatever goes wrong is a `BackendError` of one sentence."""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from qtcore.errors import BackendError
from qtcore.support.files import cache_folder, write_atomically

SOURCES = tuple(sorted((Path(__file__).parent / "csrc").glob("*.[ch]")))
THIS_PROCESSOR = "-mcpu=native" if platform.machine().lower() in ("arm64", "aarch64") else "-march=native"
FLAGS = (
    *("-O3", THIS_PROCESSOR, "-shared", "-fPIC", "-std=gnu11", "-fvisibility=hidden"),
    # Sums may be reordered, so that they can be vectorised; infinities and NaN keep their meaning.
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
REAL = {torch.float32: "float", torch.float64: "double"}
TIMEOUT = 120
"""Seconds that the compiler may take; it takes two or three."""


def numbers(*names: str) -> list[tuple[str, Any]]:
    return [(name, ctypes.c_int64) for name in names]


def pointers(*names: str) -> list[tuple[str, Any]]:
    return [(name, ctypes.c_void_p) for name in names]


class Task(ctypes.Structure):
    """What all tasks have: `layers`, and `stop`, which makes a kernel return before its next layer."""

    def operations(self) -> int:
        """About how many a sample takes; a billion of them take between a tenth of a second and two."""
        operations: int = self.layers * self.rows * self.hidden
        return operations


class BinaryTask(Task):
    """As in csrc/binary.c, which says what each field is."""

    _fields_ = (
        *numbers("hidden", "units", "rows", "columns", "layers", "block"),
        *pointers("count", "index", "odds", "bias", "hidden_bias", "start", "total", "states", "beliefs"),
        *pointers("d_bias", "d_hidden_bias", "d_start", "d_W", "scratch"),
        *numbers("scratch_size", "stop"),
    )


class BothTask(Task):
    """As in csrc/both.c."""

    _fields_ = (
        *numbers("hidden", "units", "rows", "layers"),
        ("damping", ctypes.c_double),
        *pointers("W", "odds", "bias", "hard", "hidden_bias", "total", "states", "visible", "beliefs", "residual"),
        *pointers("d_bias", "d_hidden_bias", "d_W", "scratch"),
        *numbers("scratch_size", "stop"),
    )


class GaussianTask(Task):
    """As in csrc/gaussian.c."""

    _fields_ = (
        *numbers("hidden", "units", "rows", "columns", "layers"),
        ("min_precision", ctypes.c_double),
        *pointers("count", "index", "W", "hidden_bias", "linear", "precision", "total_linear", "total_precision"),
        *pointers("beliefs", "totals", "residual", "floored", "d_linear", "d_precision", "d_bias", "d_W", "scratch"),
        *numbers("scratch_size", "stop"),
    )


class DampedTask(Task):
    """As in csrc/damped.c."""

    _fields_ = (
        *numbers("hidden", "units", "rows", "layers"),
        ("damping", ctypes.c_double),
        ("min_precision", ctypes.c_double),
        *pointers("W", "hidden_bias", "linear", "precision", "is_free", "total_linear", "total_precision", "states"),
        *pointers("beliefs", "totals", "residual", "d_linear", "d_precision", "d_hidden_bias", "d_W", "scratch"),
        *numbers("scratch_size", "stop"),
    )


class GridTask(Task):
    """As in csrc/grid.h."""

    _fields_ = (
        *numbers("height", "width", "states", "padded", "layers", "contour", "out", "within"),
        ("small", ctypes.c_double),
        ("damping", ctypes.c_double),
        ("settled", ctypes.c_double),
        ("negligible", ctypes.c_double),
        *pointers("potential", "transposed", "evidence", "belief_evidence", "depths"),
        *numbers("n_depths"),
        *pointers("labels", "shares", "residual", "messages", "scale"),
        *numbers("slots", "keep", "rounded"),
        *pointers("d_labels", "d_evidence", "d_potential", "scratch"),
        *numbers("scratch_size", "stop"),
    )

    def operations(self) -> int:
        operations: int = self.layers * 8 * self.height * self.width * self.states * self.padded
        return operations


class FactorsTask(Task):
    """As in csrc/factors.c."""

    _fields_ = (
        *numbers("groups", "total", "messages", "layers"),
        ("damping", ctypes.c_double),
        *pointers("shapes", "logs", "tables", "places", "alone", "depths"),
        *numbers("n_depths"),
        *pointers("sums", "residual", "states"),
        *numbers("keep"),
        *pointers("d_sums", "d_alone", "d_tables"),
        *numbers("tables_size"),
        *pointers("scratch"),
        *numbers("scratch_size", "stop"),
    )

    def operations(self) -> int:
        operations: int = self.layers * 4 * (self.messages + self.tables_size)
        return operations


TASKS: dict[str, type[Task]] = {
    "binary": BinaryTask,
    "both": BothTask,
    "damped": DampedTask,
    "factors": FactorsTask,
    "gaussian": GaussianTask,
    "grid": GridTask,
}
KERNELS = (
    *("binary_forward", "binary_backward", "both_forward", "both_backward"),
    *("gaussian_forward", "gaussian_backward", "gaussian_trace", "damped_forward", "damped_backward"),
    *("grid_forward", "grid_backward", "grid_trace"),
    *("factors_prepare", "factors_forward", "factors_backward"),
)


@dataclass(frozen=True)
class Library:
    """A loaded library for one data type."""

    code: ctypes.CDLL
    compiler: str
    instructions: str  # such as "AVX2"
    can_round: bool  # whether its matrix products can take bfloat16


@functools.cache
def library(dtype: torch.dtype) -> Library:
    """The library for float32 or float64; built if need be, and the same one from then on."""
    return load(REAL[dtype])


def load(real: str) -> Library:
    """Find or build the library for a C type, and check it."""
    compiler = find_compiler()
    flags = all_flags()
    path = cache_folder() / f"kernels-{real}-{_key(real, compiler, flags)}.so"
    was_there = path.exists()
    if not was_there:
        _build(compiler, flags, real, path)
    try:
        code = _open(path)
    except BackendError:
        if not was_there:
            raise
        _build(compiler, flags, real, path)  # damaged in the cache
        code = _open(path)
    _check(code, real)
    code.vector_instructions.restype = ctypes.c_char_p
    return Library(code, compiler, code.vector_instructions().decode(), bool(code.grid_can_round()))


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BackendError(f"the kernel library cannot be loaded ({error})") from error


def find_compiler() -> str:
    if os.name == "nt":
        raise BackendError("the native kernels are not built on Windows")
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BackendError("no C compiler was found (cc, gcc, clang, or the one that CC names)")
    return compiler


def all_flags() -> list[str]:
    """Ours, then those of QTCORE_CFLAGS, which therefore take precedence."""
    return [*FLAGS, *shlex.split(os.environ.get("QTCORE_CFLAGS", ""))]


def command(compiler: str, flags: Sequence[str], real: str, path: "str | Path") -> list[str]:
    sources = [str(source) for source in SOURCES if source.suffix == ".c"]
    return [*shlex.split(compiler), *flags, f"-DREAL={real}", f"-D{real.upper()}", *sources, "-lm", "-o", str(path)]


def _build(compiler: str, flags: Sequence[str], real: str, path: Path) -> None:
    def compile(temporary: Path) -> None:
        result = subprocess.run(
            command(compiler, flags, real, temporary), capture_output=True, text=True, errors="replace", timeout=TIMEOUT
        )
        if result.returncode:
            raise BackendError(f"{compiler} failed: {_first_error(result.stderr) or f'exit code {result.returncode}'}")

    try:
        write_atomically(path, compile)
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{compiler} took more than {TIMEOUT} seconds") from error
    except OSError as error:
        raise BackendError(f"the native kernels could not be built ({error})") from error


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")


def _key(real: str, compiler: str, flags: Sequence[str]) -> str:
    """What a library depends on."""
    parts = [*(source.read_text(encoding="utf-8") for source in SOURCES), real, *flags, compiler, _processor()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """What -march=native depends on: a cache folder may be shared by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


class _Field(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_int64))


def layout_in(code: ctypes.CDLL, name: str) -> list[tuple[str, int]]:
    """Names and offsets of a task's fields as the library has them, and last its size."""
    fields = ctypes.pointer(_Field.in_dll(code, f"{name}_layout"))
    layout = []
    for i in range(1000):
        field = fields[i]
        layout.append(("" if field.name is None else field.name.decode(), field.offset))
        if field.name is None:
            break
    return layout


def layout_of(task: type[Task]) -> list[tuple[str, int]]:
    """The same as Python has them."""
    names = [field[0] for field in task._fields_]
    return [*((name, getattr(task, name).offset) for name in names), ("", ctypes.sizeof(task))]


def _check(code: ctypes.CDLL, real: str) -> None:
    """Tasks that differ by a field would be read as nonsense; better no library than that one."""
    size = ctypes.sizeof(ctypes.c_float if real == "float" else ctypes.c_double)
    code.real_bytes.restype = ctypes.c_int64
    if code.real_bytes() != size:
        raise BackendError(f"the kernel library has numbers of {code.real_bytes()} bytes, not {size}")
    for name, task in TASKS.items():
        if layout_in(code, name) != layout_of(task):
            raise BackendError(f"the kernel library has another layout of its {name} task")
    for kernel in KERNELS:
        function, scratch = getattr(code, kernel), getattr(code, f"{kernel}_scratch")
        function.argtypes, function.restype = (ctypes.c_void_p, *(ctypes.c_int64,) * 3), ctypes.c_int
        scratch.argtypes, scratch.restype = (ctypes.c_void_p,), ctypes.c_int64
    code.grid_can_round.restype = ctypes.c_int64
