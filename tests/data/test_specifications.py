"""One entry makes a dataset known everywhere."""

import dataclasses
import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from qtcore_app import samples

import qtcore
from qtcore.data import SPECIFICATIONS, Dataset, Specification, load, names, originals, variable_names
from qtcore.data.binary_sets import SETS
from qtcore.data.checks import Findings, recorded, shapes
from qtcore.data.inventory import holding, verify
from qtcore.data.originals import RemoteFile
from qtcore.errors import InputError
from qtcore.fetch import main
from qtcore.paper.printed import DATASETS
from tests.data.conftest import Server, good, kept

BITS = np.arange(40, dtype=np.uint8).reshape(10, 4) % 2
BODY = BITS.tobytes()
FILE = RemoteFile("toys/toy.bin", ("https://example.invalid/toys/toy.bin",), "sha256", hashlib.sha256(BODY).hexdigest())
ROOT = Path(qtcore.__file__).parents[1]


def load_toy(flip: bool = False) -> Dataset:
    rows = torch.frombuffer(bytearray(originals.read(FILE)), dtype=torch.uint8).reshape(10, 4).float()
    rows = 1 - rows if flip else rows
    return Dataset("toy", "binary", rows[:6], rows[6:8], rows[8:], "exact", "A toy.", (2, 2), TOY.variable_names)


def check_columns(data: Dataset, findings: Findings) -> None:
    findings.near("ones in the first column:", data.train[:, 0].mean().item(), (0, 0.1))


TOY = Specification(
    name="toy",
    title="Toy of ours",
    short_title="Toy",
    kind="binary",
    origin="this test",
    load=load_toy,
    checks=(shapes((6, 2, 2), (4,)), check_columns, recorded("shapes")),
    files=(FILE,),
    image_shape=(2, 2),
    variable_names=("a", "b", "c", "d"),
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Specification:
    monkeypatch.setitem(SPECIFICATIONS, "toy", TOY)
    return TOY


@pytest.fixture
def cached(cache: Path) -> Path:
    """The toy's file, in the cache."""
    (cache / FILE.path).parent.mkdir(parents=True)
    (cache / FILE.path).write_bytes(BODY)
    return cache / FILE.path


def fetch(*arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code and lines of the command."""
    monkeypatch.setattr(sys, "argv", ["fetch", *arguments])
    return main(), capsys.readouterr().out.splitlines()


def test_a_new_entry_is_loaded(toy: Specification, cached: Path) -> None:
    assert names()[-1] == "toy"
    assert variable_names("toy") == ("a", "b", "c", "d")
    assert torch.equal(load("toy").train, torch.from_numpy(BITS[:6]).float())
    assert torch.equal(load("toy", flip=True).test, 1 - load("toy").test)
    with pytest.raises(InputError, match="toy has no option 'seed'; it has flip"):
        load("toy", seed=1)


def test_a_new_entry_is_fetched_and_listed(
    toy: Specification, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = fetch("--list", monkeypatch=monkeypatch, capsys=capsys)
    assert (code, lines[-1].split()[:2]) == (0, ["toy", "missing"])
    assert f"put toy.bin from https://example.invalid/toys/ into {cache / 'toys'}." in lines[-1]
    server.serve("/toys/toy.bin", good(BODY))
    monkeypatch.setenv("QTCORE_MIRROR", server.url)
    assert fetch("toy", monkeypatch=monkeypatch, capsys=capsys) == (0, [f"{'toy':<14}exact, {cache / FILE.path}"])
    _, lines = fetch("--list", "toy", monkeypatch=monkeypatch, capsys=capsys)
    assert lines[-1].split()[:2] == ["toy", "exact"]


def test_a_new_entry_is_verified(
    toy: Specification, cached: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = verify("toy")
    assert (report.result, report.rows, report.density) == ("right", "6/2/2 × 4", 0.5)
    assert report.remarks == ("ones in the first column: 0", "shapes as recorded")
    code, lines = fetch("--verify", "toy", monkeypatch=monkeypatch, capsys=capsys)
    assert (code, lines[1].split()[:3], lines[-1]) == (0, ["toy", "right", "exact"], "1 right")
    flipped = dataclasses.replace(toy, load=lambda: load_toy(flip=True))
    monkeypatch.setitem(SPECIFICATIONS, "toy", flipped)
    assert verify("toy").remarks == ("ones in the first column: is 1, expected 0 ± 0.1",)
    cached.write_bytes(BODY[:-1])
    assert verify("toy").result == "WRONG"


def test_a_new_entry_with_a_model_is_in_the_app(toy: Specification, cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qtcore, "available", lambda: ["rbm/toy"])
    assert samples.offered() == {"digits": ["rbm"], "toy": ["rbm"]}
    result = samples.samples.__wrapped__("toy")
    assert (result.heading, result.shape, result.names) == ("Toy of ours (test set)", (2, 2), ("a", "b", "c", "d"))
    assert result.pictures().shape == (2, 2, 2)


def test_a_new_binary_set_needs_an_entry_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Described as the paper's are: one archive with three arrays."""
    path = cache / "made" / "mine.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, train_data=BITS[:6], valid_data=BITS[6:8], test_data=BITS[8:])
    file = RemoteFile(
        "made/mine.npz", ("https://example.invalid/mine.npz",), "sha256", hashlib.sha256(path.read_bytes()).hexdigest()
    )
    entry = type(SETS["dna"])("mine", "Mine", "a test", (file,), 4, (6, 2, 2), ones=20, in_table_1=False)
    monkeypatch.setitem(SPECIFICATIONS, "mine", entry.specification)
    assert verify("mine").result == "right"
    assert torch.equal(load("mine").valid, torch.from_numpy(BITS[6:8]).float())
    fewer = dataclasses.replace(entry, ones=19)
    monkeypatch.setitem(SPECIFICATIONS, "mine", fewer.specification)
    assert verify("mine").remarks == ("it has 20 ones, expected 19",)


@pytest.mark.parametrize("name", names())
def test_entry_and_loader_agree(name: str, request: pytest.FixtureRequest) -> None:
    known = SPECIFICATIONS[name]
    assert known.name == name
    assert known.checks
    if holding(name).source is None:
        request.getfixturevalue("data_folder")  # skips
    data = kept(name)
    assert (data.name, data.kind) == (name, known.kind)
    assert (data.image_shape, data.variable_names) == (known.image_shape, known.variable_names)
    assert data.source == holding(name).source


def test_titles() -> None:
    assert len({known.title for known in SPECIFICATIONS.values()}) == len(SPECIFICATIONS)
    headings = [SPECIFICATIONS[name].heading for name in DATASETS]
    assert headings == ["Adult", "Conn4", "Digits", "DNA", "Mushr", "NIPS", "OCR", "RCV1", "Web"]
    assert [samples.title(name) for name in ("connect4", "mushrooms", "web")] == ["Connect 4", "Mushrooms", "Web"]


def test_every_entry_is_in_the_documentation() -> None:
    lines = (ROOT / "docs" / "data.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ")[:2] for line in lines if line.startswith("| `") and line.count(" | ") == 4]
    assert rows == [[f"| `{name}`", known.kind] for name, known in SPECIFICATIONS.items()]
