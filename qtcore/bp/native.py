"""The same layers as machine code: builds native_*.c with the machine's C compiler, once, and calls it.

Only where it can be: tensors on the CPU, no damping, temperature above 0. Whoever calls asks `available()` first and has
the torch version to fall back on. Batches are shared by as many threads as torch uses.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from qtcore.files import cache_folder, write_atomically

SOURCES = sorted(Path(__file__).parent.glob("native*.[ch]"))
FLAGS = (
    *("-O3", "-march=native", "-shared", "-fPIC", "-std=gnu11"),
    # Sums may be reordered, so that they can be vectorised; infinities and NaN keep their meaning.
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
LANES = 8
"""Rows of numbers are padded to a multiple of this, the float lanes of a vector."""


def available() -> bool:
    """Whether there is a C compiler, or a library that was built before."""
    return _library(torch.float32) is not None


def can(tensor: Tensor) -> bool:
    """Whether this tensor can be handed to machine code."""
    return tensor.device.type == "cpu" and tensor.dtype in _REAL and _library(tensor.dtype) is not None


_REAL = {torch.float32: "float", torch.float64: "double"}


@functools.cache
def _library(dtype: torch.dtype) -> ctypes.CDLL | None:
    """The compiled library for a data type; None when it cannot be built."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if os.name == "nt" or compiler is None:
        return None
    real = _REAL[dtype]
    key = hashlib.sha256(
        "\0".join([*(source.read_text() for source in SOURCES), real, *FLAGS, compiler, _processor()]).encode()
    ).hexdigest()[:16]
    path = cache_folder() / f"native-{real}-{key}.so"
    try:
        if not path.exists():
            write_atomically(path, lambda temporary: _compile(compiler, real, temporary))
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError):
        return None


def _compile(compiler: str, real: str, path: Path) -> None:
    command = [
        compiler,
        *FLAGS,
        f"-DREAL={real}",
        f"-D{real.upper()}",
        *(str(source) for source in SOURCES if source.suffix == ".c"),
        "-lm",
        "-o",
        str(path),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def _processor() -> str:
    """What -march=native depends on: a cache folder may be shared by different machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() + platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="qtcore-native")


def share(batch: int, work: Callable[[int, int, int], None], least: int = 1) -> int:
    """Call work(first, last, thread) for parts of the batch, at the same time. Returns the number of parts."""
    threads = max(1, min(torch.get_num_threads(), batch // least))
    cuts = [batch * i // threads for i in range(threads + 1)]
    parts = list(zip(cuts, cuts[1:], range(threads), strict=False))
    if threads == 1:
        work(*parts[0])
    else:
        list(_pool(threads).map(lambda part: work(*part), parts))
    return threads


def pad(tensor: Tensor) -> Tensor:
    """The last dimension padded with zeros to a multiple of the vector length."""
    return torch.nn.functional.pad(tensor, (0, -tensor.shape[-1] % LANES)).contiguous()


def pointer(tensor: Tensor | None) -> int | None:
    if tensor is None:
        return None
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def structure(name: str, dtype: torch.dtype, longs: Sequence[str], reals: Sequence[str], pointers: Sequence[str]) -> type:
    """A C structure of longs, then numbers, then pointers, as native_*.c declare them."""
    real = ctypes.c_float if dtype == torch.float32 else ctypes.c_double
    fields = [(field, ctypes.c_long) for field in longs]
    fields += [(field, real) for field in reals]  # type: ignore[misc]
    fields += [(field, ctypes.c_void_p) for field in pointers]  # type: ignore[misc]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_KEPT = ("beliefs", "totals")  # of each layer, for the backward pass


@functools.cache
def _grbm_task(dtype: torch.dtype) -> type:
    return structure(
        "grbm_task",
        dtype,
        ("hidden", "units", "pixels", "layers"),
        ("min_precision",),
        ("count", "index", "W", "hidden_bias", "linear", "precision", "total_linear", "total_precision", *_KEPT, "floored"),
    )


class GaussianLayers(torch.autograd.Function):
    """N layers of the Gaussian RBM on the uncertain pixels: unaries in, natural parameters of the beliefs out.

    W [V, H] and hidden_bias [B, H] padded; index, linear and precision [B, J], of which count [B] are used.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        W: Tensor,
        hidden_bias: Tensor,
        linear: Tensor,
        precision: Tensor,
        index: Tensor,
        count: Tensor,
        units: int,
        layers: int,
        min_precision: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        (batch, pixels), hidden = index.shape, W.shape[1]
        training = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        out = linear.clone(), precision.clone()
        kept: list[Tensor | None] = [None, None]
        if training:
            kept = [W.new_empty(batch, layers, hidden), W.new_empty(batch, layers, 2, pixels)]
        floored = torch.zeros(batch, dtype=torch.long)
        tensors = (count, index, W, hidden_bias, linear, precision, *out, *kept, floored)
        task = _grbm_task(W.dtype)(hidden, units, pixels, layers, min_precision, *(pointer(tensor) for tensor in tensors))
        library = _library(W.dtype)
        assert library is not None
        share(batch, lambda first, last, _: library.grbm_forward(ctypes.byref(task), ctypes.c_long(first), ctypes.c_long(last)))
        if training:
            ctx.save_for_backward(*tensors[:6], *kept)  # type: ignore[arg-type]
            ctx.sizes = (hidden, units, pixels, layers, min_precision)  # type: ignore[attr-defined]
        ctx.mark_non_differentiable(floored)
        return *out, floored

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, d_linear: Tensor, d_precision: Tensor, _: Tensor) -> tuple:
        count, index, W, hidden_bias, linear, precision, *kept = ctx.saved_tensors  # type: ignore[attr-defined]
        sizes = ctx.sizes  # type: ignore[attr-defined]
        batch = len(count)
        d_linear, d_precision = d_linear.clone().contiguous(), d_precision.clone().contiguous()
        d_bias = torch.zeros_like(hidden_bias)
        d_W = W.new_zeros(torch.get_num_threads(), *W.shape)
        tensors = (count, index, W, hidden_bias, linear, precision, None, None, *kept, None)
        task = _grbm_task(W.dtype)(*sizes, *(pointer(tensor) for tensor in tensors))
        library = _library(W.dtype)
        assert library is not None
        outputs = [ctypes.c_void_p(pointer(tensor)) for tensor in (d_linear, d_precision, d_bias)]

        def work(first: int, last: int, thread: int) -> None:
            own = ctypes.c_void_p(pointer(d_W[thread]))
            library.grbm_backward(ctypes.byref(task), ctypes.c_long(first), ctypes.c_long(last), *outputs, own)

        share(batch, work)
        return d_W.sum(0), d_bias, d_linear, d_precision, None, None, None, None, None


def watch_gaussian(
    W: Tensor,
    hidden_bias: Tensor,
    linear: Tensor,
    precision: Tensor,
    index: Tensor,
    count: Tensor,
    units: int,
    layers: int,
    min_precision: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """What `GaussianLayers` goes through, to be looked at: after each of N layers, natural parameters of the beliefs
    [B, N, 2, J], logits of the hidden units [B, N, H], and the largest change of a message to or from these pixels [B, N].
    """
    (batch, pixels), hidden = index.shape, W.shape[1]
    totals, beliefs = W.new_zeros(batch, layers, 2, pixels), W.new_empty(batch, layers, hidden)
    residual = W.new_empty(batch, layers)
    tensors = (count, index, W, hidden_bias, linear, precision, *(None,) * 5)
    task = _grbm_task(W.dtype)(hidden, units, pixels, layers, min_precision, *(pointer(tensor) for tensor in tensors))
    library = _library(W.dtype)
    assert library is not None
    for b in range(batch):
        results = (ctypes.c_void_p(pointer(tensor[b])) for tensor in (totals, beliefs, residual))
        library.grbm_watch(ctypes.byref(task), ctypes.c_long(b), *results)
    return totals, beliefs[..., :units], residual


@functools.cache
def _grid_task(dtype: torch.dtype) -> type:
    longs = ("height", "width", "states", "padded", "layers", "contour", "out", "within")
    pointers = ("potential", "transposed", "evidence", "belief_evidence", "labels", "messages", "scale")
    task = structure("grid_task", dtype, longs, ("small",), pointers)
    return type("grid_task_with_slots", (task,), {"_fields_": [("slots", ctypes.c_long), ("rounded", ctypes.c_long)]})


def rounds(dtype: torch.dtype) -> bool:
    """Whether matrix products take bfloat16: when torch is told to (set_float32_matmul_precision("medium")) and the
    processor can."""
    library = _library(dtype)
    return torch.get_float32_matmul_precision() == "medium" and library is not None and bool(library.grid_can_round())


_spare: dict[tuple[torch.Size, torch.dtype], Tensor] = {}
"""A buffer that the last backward pass gave back: getting hundreds of megabytes from the system costs as much as a layer."""


def _borrow(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    spare = _spare.pop((torch.Size(shape), dtype), None)
    if spare is None or spare.is_inference():
        return torch.empty(*shape, dtype=dtype)
    torch.autograd.graph.increment_version(spare)  # a second backward pass through its last owner must fail, not be wrong
    return spare


def _give_back(tensor: Tensor) -> None:
    _spare.clear()
    _spare[tensor.shape, tensor.dtype] = tensor


class GridLayers(torch.autograd.Function):
    """N layers of the grid MRF: exp(potential) [8, S, S] by direction and evidence in, log-beliefs of the labels out.

    `evidence` [B, height, width, 3] has the largest of the three at 1; `own` is what enters the beliefs of it.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        potential: Tensor,
        evidence: Tensor,
        own: Tensor,
        clones: tuple[int, int, int],
        layers: int,
    ) -> Tensor:
        batch, height, width, _ = evidence.shape
        states = potential.shape[1]
        table = _vectors(potential)
        transposed = _vectors(potential.transpose(1, 2))
        padded = table.shape[2]
        training = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        places, slots = (batch, layers + 1) if training else (torch.get_num_threads(), 2)
        messages = _borrow((places, slots, 8, height * width, padded), evidence.dtype)
        scale = evidence.new_empty(places, slots, 8, height * width)
        labels = torch.empty_like(evidence)
        tensors = (table, transposed, evidence.contiguous(), own.contiguous(), labels, messages, scale)
        # What vanishes beside a product of this size is under 1e-38/small; no potential may bring it back above 1e-8.
        small = min(1.0, max(1e-25, 1e-30 / float(potential.min())))
        sizes = (height, width, states, padded, layers, *clones, small)
        rounded = rounds(evidence.dtype)
        task = _grid_task(evidence.dtype)(*sizes, *(pointer(tensor) for tensor in tensors), slots, rounded)
        library = _library(evidence.dtype)
        assert library is not None

        def work(first: int, last: int, thread: int) -> None:
            place = (first, 1) if training else (thread, 0)
            library.grid_forward(ctypes.byref(task), *(ctypes.c_long(number) for number in (first, last, *place)))

        share(batch, work)
        if training:
            ctx.save_for_backward(*tensors)
            ctx.sizes, ctx.rounded = sizes, rounded  # type: ignore[attr-defined]
        else:
            _give_back(messages)
        return labels

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, d_labels: Tensor) -> tuple:
        table, transposed, evidence, own, labels, messages, scale = ctx.saved_tensors  # type: ignore[attr-defined]
        tensors = (table, transposed, evidence, own, labels, messages, scale)
        sizes = ctx.sizes  # type: ignore[attr-defined]
        rest = messages.shape[1], ctx.rounded  # type: ignore[attr-defined]
        task = _grid_task(evidence.dtype)(*sizes, *(pointer(tensor) for tensor in tensors), *rest)
        d_labels = d_labels.contiguous()
        d_evidence = torch.zeros_like(evidence)
        d_table = table.new_zeros(torch.get_num_threads(), *table.shape)
        library = _library(evidence.dtype)
        assert library is not None
        outputs = [ctypes.c_void_p(pointer(tensor)) for tensor in (d_labels, d_evidence)]

        def work(first: int, last: int, thread: int) -> None:
            mine = ctypes.c_void_p(pointer(d_table[thread]))
            library.grid_backward(ctypes.byref(task), ctypes.c_long(first), ctypes.c_long(last), *outputs, mine)

        share(len(evidence), work)
        _give_back(messages)
        states = sizes[2]
        # d_evidence is that of the logarithm
        return d_table.sum(0)[:, :, :states], d_evidence / evidence, d_labels / own, None, None


def _vectors(table: Tensor) -> Tensor:
    """Rows padded with zeros to whole vectors of 32 bytes."""
    lanes = 32 // table.element_size()
    return torch.nn.functional.pad(table, (0, -table.shape[-1] % lanes)).contiguous()


@functools.cache
def _rbm_task(dtype: torch.dtype) -> type:
    pointers = ("count", "index", "odds", "bias", "hidden_bias", "start", "total", "states", "beliefs")
    return structure("rbm_task", dtype, ("hidden", "pixels", "layers", "block"), (), pointers)


LARGEST_LOG = 80.0
"""A product of odds may reach e^80 before float32 overflows."""


class BinaryLayers(torch.autograd.Function):
    """N layers of the RBM on the uncertain variables: biases in, logits out.

    W [V, H], hidden_bias [B, H] and start [H] are padded; index and bias [B, J], of which count [B] are used. The weights
    must not exceed binary.LARGEST_COMPILED_WEIGHT in size: the backward pass multiplies three odds.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        W: Tensor,
        bias: Tensor,
        hidden_bias: Tensor,
        start: Tensor,
        index: Tensor,
        count: Tensor,
        layers: int,
    ) -> Tensor:
        (batch, pixels), hidden = index.shape, W.shape[1]
        training = any(ctx.needs_input_grad)  # type: ignore[attr-defined]
        block = max(2, min(64, int(LARGEST_LOG / max(float(W.abs().max()), 1e-6))))
        odds, total = W.exp(), bias.clone()
        kept: list[Tensor | None] = [None, None]
        if training:
            kept = [_borrow((batch, layers, pixels, hidden), W.dtype), W.new_empty(batch, layers, max(hidden, pixels))]
        tensors = (count, index, odds, bias, hidden_bias, start, total, *kept)
        task = _rbm_task(W.dtype)(hidden, pixels, layers, block, *(pointer(tensor) for tensor in tensors))
        library = _library(W.dtype)
        assert library is not None
        share(batch, lambda first, last, _: library.rbm_forward(ctypes.byref(task), ctypes.c_long(first), ctypes.c_long(last)))
        if training:
            ctx.save_for_backward(*tensors)  # type: ignore[arg-type]
            ctx.sizes = (hidden, pixels, layers, block)  # type: ignore[attr-defined]
        return total

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, d_total: Tensor) -> tuple:
        tensors = ctx.saved_tensors  # type: ignore[attr-defined]
        odds, hidden_bias = tensors[2], tensors[4]
        task = _rbm_task(odds.dtype)(*ctx.sizes, *(pointer(tensor) for tensor in tensors))  # type: ignore[attr-defined]
        d_bias = d_total.clone().contiguous()
        d_hidden_bias = torch.zeros_like(hidden_bias)
        threads = torch.get_num_threads()
        d_start, d_W = odds.new_zeros(threads, odds.shape[1]), odds.new_zeros(threads, *odds.shape)
        library = _library(odds.dtype)
        assert library is not None
        outputs = [ctypes.c_void_p(pointer(tensor)) for tensor in (d_bias, d_hidden_bias)]

        def work(first: int, last: int, thread: int) -> None:
            own = [ctypes.c_void_p(pointer(tensor[thread])) for tensor in (d_start, d_W)]
            library.rbm_backward(ctypes.byref(task), ctypes.c_long(first), ctypes.c_long(last), *outputs, *own)

        share(len(hidden_bias), work)
        _give_back(tensors[7])
        return d_W.sum(0), d_bias, d_hidden_bias, d_start.sum(0), None, None, None
