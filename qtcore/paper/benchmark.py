"""How fast the models are: what `python -m qtcore.bench` measures, and its tables."""

import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

import torch
from tqdm import tqdm

import qtcore
from qtcore import kernels
from qtcore.models.base import Model
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.rbm import RBM
from qtcore.paper import naive
from qtcore.query import Query, fixed, uniform

CASES = {
    "RBM 123×50, batch 500, N=10": "rbm",
    "Gaussian RBM 560×200, 20 images, N=50": "grbm",
    "grid 30×30×66, 20 images, N=15": "grid",
}
WORK = {"step": 3, "inference": 1}
"""What is timed, and how many times the forward pass's useful work it is."""
NAIVE_BATCHES: dict[str, tuple[int, ...]] = {"rbm": (500, 100), "grbm": (20, 5, 1), "grid": (20, 4, 1)}
"""The naive twin is timed with that of these batches which is the quickest per sample: smaller ones stay in the caches."""
USUAL_BATCHES: dict[str, tuple[int, ...]] = {"rbm": (100,), "grbm": (5,), "grid": (1,)}
"""The one that it mostly is: a quick run tries no other."""
NAIVE_STEP_BYTES = {"rbm": 6e6, "grbm": 0.75e9, "grid": 1e9}  # what the naive twin keeps of a sample for its gradient, about
KEEPING = {"MALLOC_MMAP_THRESHOLD_": str(2**40), "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""With these in its environment, a process keeps memory that was freed. Without, the naive twin spends half of its time on
page faults."""


def case(kind: str, images: int | None = None) -> tuple[Any, Query]:
    """A model with random weights of a usual size, and a query."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    if kind == "rbm":
        rbm = RBM(123, 50)
        torch.nn.init.normal_(rbm.W, std=0.5)
        return rbm, uniform()((torch.rand(images or 500, 123, generator=generator) < 0.3).float(), generator)
    if kind == "grbm":
        return GaussianRBM(560, 200), uniform()(torch.randn(images or 20, 560, generator=generator), generator)
    noisy = (torch.rand(images or 20, 30, 30, generator=generator) < 0.12).float()
    truth = torch.randint(3, noisy.shape, generator=generator)
    return GridMRF(), fixed()(noisy, generator, truth)


def step(loss: Callable[[], torch.Tensor], model: Model) -> None:
    """Loss and gradient, as in training."""
    model.zero_grad(set_to_none=True)
    loss().backward()


def inference(loss: Callable[[], torch.Tensor]) -> None:
    with torch.no_grad():
        loss()


def seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(kind: str, what: str, repeats: int, batches: Sequence[int]) -> dict[str, Any]:
    """Seconds of a step or of an inference, fast and naive, measured in turn; the fast one several times as often. The naive
    one is timed with that of these batches which suits it best."""
    model, query = case(kind)
    run = (lambda loss: step(loss, model)) if what == "step" else inference
    large, out = torch.rand(2, MULTIPLY, MULTIPLY)
    fast: dict[str, Callable[[], None]] = {
        "fast": lambda: run(lambda: model.loss(query)),
        "product": lambda: multiply(large, out),
    }
    for work in fast.values():
        work()  # buffers and kernels are made once

    def naively(part: Query) -> float:
        return seconds(lambda: run(lambda: naive.loss(model, part))) * len(query) / len(part)

    room = 0.6 * _memory_bytes() / NAIVE_STEP_BYTES[kind] if what == "step" else len(query)
    parts = [query[:size] for size in batches if size <= room]
    naively(parts[-1])
    part = min(parts, key=lambda part: min(naively(part) for _ in range(2))) if len(parts) > 1 else parts[0]
    times: dict[str, list[float]] = {name: [] for name in (*fast, "naive")}
    for _ in range(repeats):
        for name, work in fast.items():
            times[name] += [seconds(work) for _ in range(5)]
        times["naive"].append(naively(part))
    entry = {name: median(values) for name, values in times.items()}
    entry |= {f"{name}_best": min(times[name]) for name in ("fast", "naive")}
    with torch.no_grad():
        difference = abs(float(model.loss(part)) - float(naive.loss(model, part)))
    return entry | {"difference": difference, "images": len(query), "naive_images": len(part)}


def _memory_bytes() -> int:
    """Of this machine; 8 GiB where it does not say."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**33


def _load() -> float:
    """How many processes wanted a core in the last minute; Windows does not count them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


MULTIPLY = 1024
"""Rows and columns of the matrices that show how fast this machine multiplies."""
PRODUCTS = 4


def multiply(large: torch.Tensor, out: torch.Tensor) -> None:
    for _ in range(PRODUCTS):
        torch.mm(large, large, out=out)


def _peak(kind: str, naively: bool, images: int) -> int:
    """By how much a training step raises the largest resident memory of this process, in bytes."""
    model, query = case(kind, images)
    small = query[:1] if kind != "rbm" else query[:2]
    tiny = GridMRF(3, 3) if kind == "grid" else None
    if tiny is not None:
        small = Query(torch.zeros(1, 3, 3), torch.ones(1, 3, 3), truth=torch.zeros(1, 3, 3, dtype=torch.long))
    warm: Any = tiny or model
    loss = naive.loss if naively else (lambda model, query: model.loss(query))
    step(lambda: loss(warm, small), warm)  # libraries, threads
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step(lambda: loss(model, query), model)
    return _resident("VmHWM") - before


def _resident(which: str) -> int:
    """Bytes of resident memory of this process, now (VmRSS) or at most (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return int(line.split()[1]) * 1024


def alone(work: Callable[..., Any], *given: Any, environment: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The work's result from a process of its own, where no memory is left over from other work."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(work, *given).result()
    finally:
        os.environ.clear()
        os.environ.update(before)


def growth(quick: bool) -> list[dict[str, float]]:
    """How long one grid inference takes by size and number of layers: the cost grows linearly with both."""
    model = GridMRF()
    sides, layers = ((15, 30, 60), (5, 15)) if quick else ((15, 30, 60, 120), (5, 15, 30, 60))
    rows = []
    for side in sides:
        image = (torch.rand(2, side, side) < 0.12).float()
        query = Query(image, torch.ones_like(image))
        for count in layers:
            work = lambda count=count, query=query: inference(lambda: model(query, count))  # noqa: E731
            work()
            taken = median(seconds(work) for _ in range(3)) / 2
            rows.append(
                {"side": side, "layers": count, "ms": 1e3 * taken, "ns_per_edge_layer": 1e9 * taken / count / _edges(side)}
            )
    return rows


def _edges(side: int) -> int:
    """Directed edges of the 8-connected grid."""
    return 4 * side * (side - 1) + 4 * (side - 1) ** 2


def one_query() -> dict[str, dict[str, float]]:
    """Milliseconds for one face and one contour image, with and without native kernels."""
    entry = {}
    for name, kind in (("one face, 50 layers", "grbm"), ("one contour image, 15 layers", "grid")):
        model, query = case(kind, 1)
        times = {}
        for backend in ("torch", "auto"):
            with kernels.use(backend):
                work = lambda model=model, query=query: inference(lambda: model(query))  # noqa: E731
                work()
                times["plain torch" if backend == "torch" else "native kernels"] = 1e3 * median(seconds(work) for _ in range(9))
        entry[name] = times
    return entry


def measure(quick: bool) -> dict[str, Any]:
    """All the numbers."""
    repeats, batches = (2, USUAL_BATCHES) if quick else (5, NAIVE_BATCHES)
    result: dict[str, Any] = {
        "machine": {
            "processor": _processor(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "backend": str(kernels.backend()),
        },
        "versions": {"qtcore": qtcore.__version__},
        "load_before": _load(),
    }
    tasks = tqdm([*product(CASES.items(), WORK)], disable=not sys.stderr.isatty(), desc="steps and inference")
    result["cases"] = {
        f"{title}: {what}": alone(compare, kind, what, repeats, batches[kind], environment=KEEPING)
        for (title, kind), what in tasks
    }
    result["grid_share"] = {}
    for (title, kind), (what, passes) in product(CASES.items(), WORK.items()):
        if kind == "grid":
            entry = result["cases"][f"{title}: {what}"]
            rate = PRODUCTS * 2 * MULTIPLY**3 / entry["product"]
            useful = passes * 2 * 66**2 * 6844 * 15 * entry["images"]
            result["grid_share"][what] = {"torch": rate, "share": useful / entry["fast"] / rate}
    if sys.platform == "linux":
        images = {"rbm": 500, "grbm": 8, "grid": 2}
        result["memory"] = {
            f"{kind}, {count} samples": {way: alone(_peak, kind, way == "naive", count) for way in ("fast", "naive")}
            for kind, count in images.items()
        }
    result["one_query"] = one_query()
    result["growth"] = growth(quick)
    return result


SAMPLES = (
    ("64 faces of 560 pixels, in patches of 3×3", "grbm/frey", 64, (3, 3)),
    ("64 faces of 560 pixels, 9 far apart at a time", "grbm/frey", 64, 9),
    ("1,000 Adult records, one variable at a time", "rbm/adult", 1000, 1),
)
"""Joint samples of shipped models, with nothing known: how many, and what is drawn at a time."""


def samples(quick: bool) -> Iterator[str]:
    """Lines of a table of joint samples; a quick run draws an eighth."""
    yield "| | seconds | processor seconds |"
    yield "|---|---|---|"
    load = _load()
    for title, name, n, block in SAMPLES:
        model = qtcore.load(name)
        nothing = torch.zeros(1, model.size, dtype=torch.bool)
        query, generator = Query(nothing.float(), nothing), torch.Generator().manual_seed(0)
        inference(lambda model=model, query=query: model(query))  # type: ignore[misc]  # buffers and kernels are made once
        start, used = time.perf_counter(), time.process_time()
        model.sample(query, n // 8 if quick else n, block=block, generator=generator)
        yield f"| {title} | {time.perf_counter() - start:.1f} | {time.process_time() - used:.1f} |"
    yield ""
    yield f"{_processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}; load {load:.1f} before."


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _ms(seconds: float) -> str:
    """Milliseconds, with a decimal where there are few."""
    return f"{1e3 * seconds:.{0 if seconds >= 0.1 else 1}f}"


def tables(result: dict[str, Any]) -> str:
    """The numbers as Markdown."""
    lines = ["| | naive | fast | ratio | difference in loss |", "|---|---|---|---|---|"]
    for title, entry in result["cases"].items():
        times = " | ".join(f"{_ms(entry[side])} ({_ms(entry[f'{side}_best'])}) ms" for side in ("naive", "fast"))
        ratios = f"{entry['naive'] / entry['fast']:.0f}× ({entry['naive_best'] / entry['fast_best']:.0f}×)"
        lines.append(f"| {title} (naive: {entry['naive_images']} at a time) | {times} | {ratios} | {entry['difference']:.1e} |")
    lines += ["", "Milliseconds for the batch: medians, and in brackets the best of all runs."]
    for what, entry in result["grid_share"].items():
        rate = f"{entry['torch'] / 1e9:.0f} GFLOP/s, torch's matrix product beside it"
        lines += [f"The grid's useful work, {what}: {100 * entry['share']:.0f} % of {rate}."]
    lines += ["", "| peak memory of a training step | naive | fast | ratio |", "|---|---|---|---|"]
    for title, entry in result.get("memory", {}).items():
        ratio = entry["naive"] / max(entry["fast"], 1)
        lines.append(f"| {title} | {entry['naive'] / 2**20:.0f} MiB | {entry['fast'] / 2**20:.0f} MiB | {ratio:.1f}× |")
    lines += ["", "| one query | plain torch | native kernels |", "|---|---|---|"]
    lines += [
        f"| {name} | {entry['plain torch']:.0f} ms | {entry['native kernels']:.1f} ms |"
        for name, entry in result["one_query"].items()
    ]
    lines += ["", "| grid inference, one image | layers | ms | ns per directed edge and layer |", "|---|---|---|---|"]
    lines += [
        f"| {r['side']}×{r['side']} | {r['layers']} | {r['ms']:.1f} | {r['ns_per_edge_layer']:.0f} |" for r in result["growth"]
    ]
    machine = result["machine"]
    about = f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}"
    lines += ["", f"{about}; load {result['load_before']:.1f} before."]
    return "\n".join(lines)
