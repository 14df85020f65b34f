"""python -m tests.release: build wheel and sdist, try both in clean environments, and say what remains to be done by hand.

The wheel is installed with the extra `app` in a new virtual environment, outside the clone, and tests/test_wheel.py tries it
there: the commands, the app, the README's Python. In the unpacked sdist `make check` makes an environment of its own. Both
install torch anew, which takes minutes and gigabytes.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path

import qtcore

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
REMAINS = """
Built and tried: {files}.

What remains:
{wrong}- make test, on a machine with a browser and the data (QTCORE_DATA)
- if kernels have changed: make sanitize, make fuzz, and the figures of docs/speed.md
- the date of {version} in CHANGELOG.md, and an empty "Unreleased" above it
- the project's address, when there is one: Source in [project.urls] of pyproject.toml, which README.md's links follow
  (hatch_build.py), and repository-code in CITATION.cff; until then, they work in the repository alone
- git tag v{version}; upload what is in dist/; in a new environment: pip install 'qtcore[app]' and qtcore doctor
"""


def versions(root: Path = ROOT) -> dict[str, str]:
    """Where a version is written, and which one."""
    changelog, citation = ((root / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff"))
    entries = re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "CITATION.cff": re.findall(r"^version: (\S+)", citation, re.MULTILINE)[0],
        "CHANGELOG.md": entries[0] if entries else "none",
    }


def run(*words: object, cwd: Path, **environment: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], cwd=cwd, env=kept | environment, check=True)


def build() -> list[Path]:
    """The sdist, and a wheel from it, in dist/."""
    for old in DIST.glob(f"qtcore-{qtcore.__version__}*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT, cwd=ROOT)
    return sorted(DIST.glob(f"qtcore-{qtcore.__version__}*"))


def try_wheel(wheel: Path, folder: Path) -> None:
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[app]", cwd=folder)
    tests = ("-q", "-n", "0", "tests/test_wheel.py")
    run(sys.executable, "-m", "pytest", *tests, cwd=ROOT, QTCORE_WHEEL=str(wheel), QTCORE_PROGRAMS=str(programs))


def try_sdist(sdist: Path, folder: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    run("make", "check", cwd=unpacked)


def main() -> int:
    argparse.ArgumentParser(prog="make release", description=__doc__).parse_args()
    written = versions() | {"qtcore": qtcore.__version__}
    if len(set(written.values())) > 1:
        said = ", ".join(f"{where}: {version}" for where, version in written.items())
        print(f"error: these are not the same version: {said}.", file=sys.stderr)
        return 2
    files = build()
    with tempfile.TemporaryDirectory() as clean:
        try_wheel(next(path for path in files if path.suffix == ".whl"), Path(clean) / "wheel")
        try_sdist(next(path for path in files if path.name.endswith(".tar.gz")), Path(clean) / "sdist")
    changed = subprocess.run(["git", "status", "--short"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    count = len(changed.splitlines())
    wrong = f"- {count} files differ from the last commit: commit them, and build again\n" if count else ""
    names = ", ".join(f"{path.relative_to(ROOT)} ({path.stat().st_size / 1e6:.1f} MB)" for path in files)
    print(REMAINS.format(files=names, wrong=wrong, version=qtcore.__version__))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd)} failed; nothing should be released.", file=sys.stderr)
        sys.exit(1)
