"""python -m tests.kernels.sanitize: every kernel once under AddressSanitizer and UndefinedBehaviorSanitizer.

It needs gcc with both. All buffers are as long as asked for and never used again, so that a byte beyond one is seen. A
complaint ends the process with a report.
"""

import os
import subprocess
import sys
import tempfile
from itertools import product
from typing import Any

FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
VARIABLE = "QTCORE_SANITIZE"


def start() -> int:
    """This module in a process that has the sanitizers, with kernels compiled for them."""
    libraries = [_library(name) for name in ("libasan.so", "libstdc++.so")]  # the latter for exceptions in torch
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            VARIABLE: "1",
            "CC": "gcc",
            "QTCORE_CFLAGS": FLAGS,
            "QTCORE_CACHE": folder,
            "QTCORE_BACKEND": "native",
            "LD_PRELOAD": " ".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0",  # Python keeps what it needs to its end
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        return subprocess.run([sys.executable, "-m", "tests.kernels.sanitize"], env=environment, check=False).returncode


def _library(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return os.path.realpath(found.stdout.strip())


def run() -> None:
    import numpy as np
    import torch

    from qtcore import kernels
    from qtcore.kernels import buffers

    from ..strategies import ask, build
    from .support import HAS_KERNEL, tracked
    from .test_ops import CASES

    buffers.pool.limit = 0
    buffers._aligned = lambda size: np.empty(size, np.uint8)
    called = 0
    for threads, dtype, n, case in product((1, 3), (torch.float32, torch.float64), (1, 2, 5), CASES.values()):
        torch.set_num_threads(threads)
        layers, _, make = case
        outputs: Any = layers(*tracked(make(dtype, n)))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum(output.sum() for output in outputs if output.requires_grad).backward()
        called += 2
    for kind, damping, evidence in product(HAS_KERNEL, (0.0, 0.3), ("hard", "mixed", "none")):
        for dtype, precision in ((torch.float32, "highest"), (torch.float32, "medium"), (torch.float64, "highest")):
            torch.set_float32_matmul_precision(precision)  # "medium" rounds, where the processor can
            model = build(kind, dtype=dtype, damping=damping)
            query = ask(model, evidence=evidence)
            model.loss(query).backward()
            list(model.trace(query))
            called += 3
    if called == 0 or kernels.backend().name != "native":
        raise SystemExit("no kernel was called")
    print(f"{called} calls of kernels under AddressSanitizer and UBSan, and no complaint")


if __name__ == "__main__":
    if os.environ.get(VARIABLE):
        run()
    else:
        sys.exit(start())
