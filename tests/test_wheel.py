"""A built wheel carries both packages and the assets, and nothing else; installed, it does what the README says."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import qtcore
from qtcore.support.files import cache_folder

from .app.server import COMPLAINT, LISTENS, connect, get, leave, running

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new one, or that of `make release`."""
    if "QTCORE_WHEEL" in os.environ:
        return Path(os.environ["QTCORE_WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that the wheel is installed in. What it depends on comes from the environment of these
    tests, which is quicker than to install it anew; qtcore comes from the wheel alone. `make release` has a clean one."""
    if "QTCORE_PROGRAMS" in os.environ:
        return Path(os.environ["QTCORE_PROGRAMS"])
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], env=clean(folder), check=True)
    (site,) = (path for path in folder.rglob("site-packages"))
    (site / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")) + "\n")
    return programs


def clean(folder: Path) -> dict[str, str]:
    """An environment without this clone and its settings, and a cache with the kernels that were built before."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    for library in cache_folder().glob("kernels-*.so"):
        shutil.copy(library, cache)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("QTCORE_")}
    return kept | {"QTCORE_CACHE": str(cache), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}


def said(command: list[object], cwd: Path) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=clean(cwd), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"qtcore", "qtcore_app"}
    for folder in (ROOT / "qtcore", ROOT / "app" / "qtcore_app"):
        kinds = (".py", ".c", ".h", ".js", ".css")  # what is compiled or served goes along
        sources = {str(path.relative_to(folder.parent)) for path in folder.rglob("*") if path.suffix in kinds}
        assert sources <= names
    assert {"qtcore/py.typed", "qtcore_app/app/main.py", "qtcore_app/app/app_hooks.py"} <= names
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "qtcore = qtcore.__main__:console" in zipfile.ZipFile(wheel).read(entry).decode()
    assets = {path.relative_to(ROOT / "assets") for path in (ROOT / "assets").rglob("*") if path.is_file()}
    seeds = {path for path in assets if re.search(r"-seed\d", path.name)}
    assert {path.suffix for path in seeds} == {".safetensors"}
    there = {f"qtcore/assets/{path.as_posix()}" for path in assets - seeds}
    assert there == {name for name in names if name.startswith("qtcore/assets/")}


def test_doctor(bin: Path, tmp_path: Path) -> None:
    lines = dict(line.split(maxsplit=1) for line in said([bin / "qtcore", "doctor"], tmp_path).splitlines())
    site = next(bin.parent.rglob("site-packages"))
    assert lines["qtcore"] == f"{qtcore.__version__} in {site / 'qtcore'}"
    assert lines["models"].endswith(f"in {site / 'qtcore' / 'assets' / 'checkpoints'}")
    assert lines["cache"].startswith(str(tmp_path / "cache"))
    assert "digits" in lines["data"]


def test_infer(bin: Path, tmp_path: Path) -> None:
    rows = [["0", "1", *["?"] * 62], ["1", "0.5", *["?"] * 62]]
    (tmp_path / "rows.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    assert said([bin / "qtcore", "infer", "rbm/digits", "rows.csv"], tmp_path).startswith("124 blanks in 2 rows")
    _, *lines = (tmp_path / "rows.marginals.csv").read_text().splitlines()
    assert len(lines) == 124
    assert all(0 < float(line.rpartition(",")[2]) < 1 for line in lines)


def test_python_of_the_readme(bin: Path, tmp_path: Path) -> None:
    """Beside files of a user's own that have the names of folders of ours."""
    for name in ("app", "tests"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this is mine')\n")
    code = f"""
import re
from pathlib import Path
import qtcore, qtcore_app
text = Path({str(ROOT / "README.md")!r}).read_text(encoding="utf-8")
snippets = re.findall(r"^```python\\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
for snippet in snippets:
    exec(compile(snippet, "README.md", "exec"), {{}})
print(len(snippets), qtcore.__file__, qtcore_app.__file__, sep="\\n")
"""
    *_, count, ours, app = said([bin / "python", "-c", code], tmp_path).splitlines()
    assert int(count) >= 1
    assert all(Path(path).is_relative_to(bin.parent) for path in (ours, app))
    assert "python -m qtcore_app.export" in said([bin / "python", "-m", "qtcore_app.export", "--help"], tmp_path)


def test_the_app(bin: Path, tmp_path: Path) -> None:
    """Where `qtcore app` serves it, as the one of a clone."""
    command = [str(bin / "qtcore"), "app", "--port", "0", "--no-show"]
    with running(command, tmp_path, clean(tmp_path), tmp_path / "log", LISTENS) as server:
        assert "<title>qtcore</title>" in get(server.url)

        async def visit() -> None:
            await leave(await connect(server.url, "?page=faces"))

        asyncio.run(visit())
        server.settle()
        assert not COMPLAINT.search(server.said())
        assert "websocket_max_message_size set to 6291456 bytes" in server.said()
