"""python -m tests.fuzz --minutes 10: the tests of this folder again and again, each time with other inputs."""

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--examples", type=int, default=200, help="of each test, before the next one's turn")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31), help="of the first round")
    options = parser.parse_args()
    files = sorted(HERE.glob("test_*.py"))
    counts: Counter[str] = Counter()
    start, rounds, failed = time.monotonic(), 0, set()
    print(f"seed {options.seed}", flush=True)
    while rounds == 0 or time.monotonic() - start < 60 * options.minutes:
        for file in files:
            if rounds and time.monotonic() - start > 60 * options.minutes:
                break
            code, found = run(file, options.seed + rounds, options.examples)
            counts += found
            if code:
                failed.add(file.name)
        rounds += 1
    for kind in sorted(kind for kind in counts if not kind.endswith(", refused")):
        print(f"{kind}: {counts[kind]}, of which {counts[f'{kind}, refused']} were refused by name")
    total = sum(number for kind, number in counts.items() if not kind.endswith(", refused"))
    minutes = (time.monotonic() - start) / 60
    result = f"failures in {', '.join(sorted(failed))}; see fuzz-failures/" if failed else "no failure"
    print(f"{total} inputs in {minutes:.1f} minutes; {result}")
    return len(failed) > 0


def run(file: Path, seed: int, examples: int) -> tuple[int, Counter[str]]:
    """One file with one seed, in a process of its own: a crash is a failure like any other."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        environment = os.environ | {"QTCORE_FUZZ_COUNTS": str(counts), "QTCORE_FUZZ_EXAMPLES": str(examples)}
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--no-header", "--hypothesis-profile", "fuzz"]
        command += [f"--hypothesis-seed={seed}", str(file)]
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            print(result.stdout[-3000:], result.stderr[-1000:], f"exit code {result.returncode}", flush=True)
        found: Counter[str] = Counter(json.loads(counts.read_text())) if counts.exists() else Counter()
        return result.returncode, found


if __name__ == "__main__":
    sys.exit(main())
