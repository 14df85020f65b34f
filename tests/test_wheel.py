"""A built wheel carries both packages and the assets, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"qtcore", "qtcore_app"}
    for folder in (ROOT / "qtcore", ROOT / "app" / "qtcore_app"):
        kinds = (".py", ".c", ".h", ".js", ".css")  # what is compiled or served goes along
        sources = {str(path.relative_to(folder.parent)) for path in folder.rglob("*") if path.suffix in kinds}
        assert sources <= names
    assert "qtcore/py.typed" in names
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert "qtcore = qtcore.__main__:console" in zipfile.ZipFile(wheel).read(entry).decode()
    assets = [path for path in (ROOT / "assets").rglob("*") if path.is_file()]
    assert assets
    assert {f"qtcore/assets/{path.relative_to(ROOT / 'assets')}" for path in assets} <= names


def test_both_packages_import_from_it(wheel: Path, tmp_path: Path) -> None:
    """Outside the clone, with the wheel alone on the path, `qtcore`, `qtcore_app` and a shipped model come from it."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = """
import torch, qtcore, qtcore_app
from qtcore.models.files import checkpoint_folder
model = qtcore.load("grbm/frey")
assert model(qtcore.Query(torch.zeros(1, 560), torch.arange(560)[None] < 280)).mean.isfinite().all()
print(qtcore.__file__, qtcore_app.__file__, checkpoint_folder(), sep="\\n")
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    places = [Path(line) for line in result.stdout.split()]
    assert len(places) == 3
    assert all(place.is_relative_to(tmp_path) for place in places)
