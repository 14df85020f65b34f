"""Every dataset: its form everywhere, its contents where the data folder is there."""

import dataclasses
import gzip
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qtcore.data import (
    CONTOUR,
    IN,
    OUT,
    SPECIFICATIONS,
    Dataset,
    binary,
    border_labels,
    faces,
    faces_offline,
    load,
    mnist,
    names,
)
from qtcore.data.binary_sets import SETS
from qtcore.data.border import emission_of
from qtcore.data.frey import grey_levels
from qtcore.data.originals import RemoteFile
from qtcore.errors import DataError, InputError, UnknownNameError
from tests.data.conftest import Server, kept

FORM = {
    "adult": ("binary", "rearranged", (5000, 1414, 26147), (123,)),
    "connect4": ("binary", "rearranged", (16000, 4000, 47557), (126,)),
    "digits": ("soft", "exact", (6465, 720, 1800), (64,)),
    "dna": ("binary", "exact", (1400, 600, 1186), (180,)),
    "mushrooms": ("binary", "exact", (2000, 500, 5624), (112,)),
    "nips": ("binary", "exact", (400, 100, 1240), (500,)),
    "ocr_letters": ("binary", "exact", (32152, 10000, 10000), (128,)),
    "rcv1": ("binary", "stand-in", (8000, 1000, 1000), (150,)),
    "web": ("binary", "rearranged", (14000, 3188, 32561), (300,)),
    "frey": ("gaussian", "exact", (1415, 157, 393), (560,)),
    "mnist": ("image", "exact", (55000, 5000, 10000), (28, 28)),
    "border": ("grid", "exact", (55000, 5000, 10000), (30, 30)),
    "glyphs": ("image", "stand-in", (10000, 1000, 2000), (28, 28)),
    "border-glyphs": ("grid", "stand-in", (10000, 1000, 2000), (30, 30)),
    "drawings": ("grid", "exact", (5000, 400, 600), (30, 30)),
}


def all_rows(data: Dataset) -> torch.Tensor:
    return torch.cat(list(data.splits.values()))


def test_names() -> None:
    assert names() == tuple(FORM)


def test_unknown_names_and_options() -> None:
    with pytest.raises(UnknownNameError, match="did you mean mushrooms"):
        load("mushroms")
    with pytest.raises(InputError, match="digits has no option 'p_missing'; it has seed"):
        load("digits", p_missing=0.1)
    with pytest.raises(InputError, match="dna has no option 'seed'; it has none"):
        load("dna", seed=1)


def test_a_dataset_is_frozen() -> None:
    data = load("digits")
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.train = data.test


@pytest.mark.parametrize("name", FORM)
def test_form(data_folder: Path, name: str) -> None:
    kind, source, rows, tail = FORM[name]
    data = kept(name)
    assert (data.name, data.kind, data.source) == (name, kind, source)
    assert data.note.endswith(".")
    assert [tuple(part.shape) for part in data.splits.values()] == [(n, *tail) for n in rows]
    dtype = torch.uint8 if kind in ("image", "grid") else torch.float32
    assert all(part.dtype == dtype for part in data.splits.values())
    if data.variable_names is not None:
        assert len(set(data.variable_names)) == tail[0]
    if data.image_shape is not None:
        assert np.prod(data.image_shape) == np.prod(tail)
    if kind in ("binary", "grid"):
        assert all_rows(data).unique().tolist() == [0, 1]
    if data.truth is not None:
        assert [len(data.truth[split]) for split in data.splits] == list(rows)


class TestDigits:
    def test_parts_are_those_of_the_paper(self) -> None:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        rest, test = train_test_split(load_digits().data / 16, test_size=0.2, random_state=0)
        data = load("digits")
        np.testing.assert_allclose(data.test[:360], test)
        ours = np.concatenate([data.train[:1293], data.valid[:144]])
        order = [np.lexsort(part.T) for part in (ours, rest)]
        np.testing.assert_allclose(ours[order[0]], rest[order[1]])

    def test_shifts(self) -> None:
        data = load("digits")
        parts = data.test.reshape(5, 360, 8, 8)
        assert (data.test.min(), data.test.max()) == (0, 1)
        for part, (down, right) in zip(parts, [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)], strict=True):
            expected = torch.zeros_like(parts[0])
            for r in range(8):
                for c in range(8):
                    if 0 <= r + down < 8 and 0 <= c + right < 8:
                        expected[:, r + down, c + right] = parts[0][:, r, c]
            assert torch.equal(part, expected)

    def test_seed_changes_the_held_out_part_only(self) -> None:
        one, other = load("digits", seed=1), load("digits", seed=2)
        assert torch.equal(one.test, other.test)
        assert not torch.equal(one.valid, other.valid)
        assert torch.equal(one.valid, load("digits", seed=1).valid)

    def test_pixel_names(self) -> None:
        names_ = load("digits").variable_names
        assert names_ is not None
        assert (names_[0], names_[10], names_[63]) == ("row 0, column 0", "row 1, column 2", "row 7, column 7")

    def test_other_images_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read = np.loadtxt
        wrong = np.eye(1797, 65, dtype=np.uint8)
        monkeypatch.setattr(np, "loadtxt", lambda *given, **options: read(*given, **options) + wrong)
        with pytest.raises(DataError, match="not the 1797 published ones"):
            load("digits")

    def test_without_scikit_learn(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec(name, None, origin=str(tmp_path / "x.py")))
        with pytest.raises(DataError, match="cannot be read"):
            load("digits")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(DataError, match="pip install scikit-learn"):
            load("digits")


class TestNames:
    """The names fit the data: groups are one-hot, and counts are those of the original tables."""

    def counts(self, name: str) -> dict[str, int]:
        data = kept(name)
        assert data.variable_names is not None
        return dict(zip(data.variable_names, all_rows(data).sum(0).int().tolist(), strict=True))

    def groups(self, name: str) -> dict[str, list[int]]:
        result: dict[str, list[int]] = {}
        variable_names = kept(name).variable_names
        assert variable_names is not None
        for column, variable in enumerate(variable_names):
            result.setdefault(variable.split(" ")[0], []).append(column)
        return result

    def test_adult(self, data_folder: Path) -> None:
        rows = all_rows(kept("adult"))
        for group, columns in self.groups("adult").items():
            per_row = rows[:, columns].sum(1)
            unknown = group in ("workclass", "occupation", "native-country")  # UCI has question marks there
            assert per_row.max() == 1
            assert per_row.min() == (0 if unknown else 1), group
        counts = self.counts("adult")
        assert counts["sex Male"] == 21790
        assert counts["workclass Private"] == 22696
        assert counts["education HS-grad"] == counts["education-num 9"] == 10501
        assert counts["native-country Mexico"] == 643
        assert counts["native-country Holand-Netherlands"] == 1
        never = kept("adult").variable_names.index("marital-status Never-married")
        shares = [rows[rows[:, age] == 1][:, never].mean().item() for age in range(5)]
        assert shares == sorted(shares, reverse=True)  # the youngest come first

    def test_the_bins_of_adult(self, data_folder: Path) -> None:
        """So many people of each age, and with so many hours a week, are in UCI's adult.data; the last bin has the others."""
        young = (395, 550, 712, 753, 720, 765, 877, 798, 841, 785, 835, 867, 813, 861, 888, 828, 875)
        middle = (886, 876, 898, 858, 827, 816, 794, 808, 780, 770, 724, 734, 737, 708, 543, 577)
        ages = dict(enumerate(young + middle, 17))
        hours = dict(enumerate((1297, 220, 149, 476, 38, 15217, 36, 219, 151, 212, 1824, 82, 49), 35))
        counts = self.counts("adult")
        for group, known, edges in (
            ("age", ages, ((17, 25), (26, 32), (33, 40), (41, 49))),
            ("hours-per-week", hours, ((35, 39), (41, 47))),
        ):
            for low, high in edges:
                assert counts[f"{group} {low}-{high}"] == sum(known[number] for number in range(low, high + 1))
        assert counts["hours-per-week 40"] == hours[40]
        numbers = ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad")
        numbers += ("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate")
        rows, names = all_rows(kept("adult")), list(kept("adult").variable_names)
        for number, level in enumerate(numbers, 1):
            having = rows[rows[:, names.index(f"education {level}")] == 1]
            bins = [
                name.split(" ")[1]
                for name, count in zip(names, having.sum(0), strict=True)
                if name.startswith("education-num ") and count
            ]
            assert len(bins) == 1
            low, _, high = bins[0].partition("-")
            assert int(low) <= number <= int(high or low)

    def test_mushrooms(self, data_folder: Path) -> None:
        rows = all_rows(kept("mushrooms"))
        groups = self.groups("mushrooms")
        assert len(groups) == 21
        for columns in groups.values():
            assert (rows[:, columns].sum(1) == 1).all()
        counts = self.counts("mushrooms")
        expected = {"odor none": 3528, "odor musty": 36, "cap-shape convex": 3656, "habitat woods": 3148}
        expected |= {"gill-color buff": 1728, "ring-number none": 36, "stalk-color-below-ring yellow": 24}
        assert {name: counts[name] for name in expected} == expected

    def test_connect4(self, data_folder: Path) -> None:
        rows = all_rows(kept("connect4")).reshape(-1, 7, 6, 3)
        assert (rows.sum(3) == 1).all()
        empty = rows[..., 1] == 1
        assert not (empty[:, :, :-1] & ~empty[:, :, 1:]).any()  # nothing hangs in the air
        for player in (0, 2):
            assert (rows[..., player].sum((1, 2)) == 4).all()
        # Some boards can only be reached when one of the two began; that one is x.
        first = [_playable(board, 0) for board in rows[:1500].argmax(3).tolist()]
        second = [_playable(board, 2) for board in rows[:1500].argmax(3).tolist()]
        assert all(first)
        assert not all(second)
        names_ = kept("connect4").variable_names
        assert names_[:4] == ("a1 x", "a1 empty", "a1 o", "a2 x")
        assert names_[-1] == "g6 o"

    def test_dna(self, data_folder: Path) -> None:
        """Around a splice point stands …AG|GT…: UCI's positions -2, -1, +1, +2."""
        rows = all_rows(kept("dna"))
        assert rows.reshape(-1, 60, 3).sum(2).max() == 1
        counts = self.counts("dna")
        for position in ("-2", "-1", "+1"):
            base = "A" if position == "-2" else "G"
            assert counts[f"base {position} is {base}"] > 1500
        t_at_2 = len(rows) - sum(counts[f"base +2 is {base}"] for base in "ACG")
        assert t_at_2 > 1400

    def test_ocr_letters_are_upright_images(self, data_folder: Path) -> None:
        """Neighbours in a 16×8 image agree far more often than pixels that are neighbours in 8×16 only."""
        images = all_rows(kept("ocr_letters")).reshape(-1, 16, 8)
        below = (images[:, 1:] == images[:, :-1]).float().mean()
        wrong = images.reshape(-1, 8, 16)
        assert below > (wrong[:, 1:] == wrong[:, :-1]).float().mean() + 0.05

    def test_no_invented_names(self, data_folder: Path) -> None:
        assert [name for name in SETS if kept(name).variable_names is None] == ["nips", "rcv1", "web"]


def _playable(board: list[list[int]], first: int) -> bool:
    """Whether eight alternating moves that start with `first` can lead to this board (0, 2: stones; 1: empty)."""
    stacks = tuple(tuple(stone for stone in column if stone != 1) for column in board)
    reached = {(0,) * 7}
    for move in range(8):
        player = first if move % 2 == 0 else 2 - first
        reached = {
            (*heights[:i], heights[i] + 1, *heights[i + 1 :])
            for heights in reached
            for i, stack in enumerate(stacks)
            if heights[i] < len(stack) and stack[heights[i]] == player
        }
    return bool(reached)


class TestFrey:
    def test_standardised(self, data_folder: Path) -> None:
        data = load("frey")
        rows = all_rows(data)
        assert torch.allclose(rows.mean(0), torch.zeros(560), atol=1e-5)
        expected = 1 - 1e-3 / data.statistics["deviation"]  # a thousandth is added to what each pixel is divided by
        assert torch.allclose(rows.std(0, unbiased=False), expected, atol=1e-4)
        assert 238 < data.statistics["maximum"] < 239

    def test_raw_faces_belong_to_the_rows(self, data_folder: Path) -> None:
        data = load("frey")
        assert data.raw is not None
        for split, values in data.splits.items():
            faces_ = data.raw[split]
            assert faces_.dtype == torch.uint8
            assert faces_.shape == (len(values), 28, 20)
            noise = grey_levels(values, data.statistics) - faces_.flatten(1)
            assert noise.min() > -1e-3
            assert noise.max() < 1 + 1e-3
            assert noise.mean().item() == pytest.approx(0.5, abs=0.01)

    def test_split(self, data_folder: Path) -> None:
        with np.load(data_folder / "prepared" / "frey.npz") as file:
            published, train = file["faces"][file["test_index"]], file["faces"][file["train_index"]]
        data = load("frey")
        assert data.raw is not None
        np.testing.assert_array_equal(data.raw["test"], published)
        ours = torch.cat([data.raw["train"], data.raw["valid"]]).flatten(1).numpy()
        train = train.reshape(len(train), -1)
        np.testing.assert_array_equal(ours[np.lexsort(ours.T)], train[np.lexsort(train.T)])

    def test_seed(self, data_folder: Path) -> None:
        one, again, other = (load("frey", seed=seed) for seed in (1, 1, 2))
        assert torch.equal(one.train, again.train)
        assert not torch.equal(one.test, other.test)
        assert torch.equal(one.raw["test"], other.raw["test"])
        assert not torch.equal(one.raw["valid"], other.raw["valid"])


class TestBorder:
    def test_one_to_one_with_mnist(self, data_folder: Path) -> None:
        mnist, border = kept("mnist"), kept("border")
        assert mnist.truth is not None
        assert border.truth is not None
        assert mnist.truth["train"][:5].tolist() == [5, 0, 4, 1, 9]
        assert mnist.truth["test"][:5].tolist() == [7, 2, 1, 0, 4]
        for split, images in mnist.splits.items():
            assert torch.equal(border.truth[split], border_labels(images))
        emission = border.statistics["emission"]
        assert emission.tolist() == pytest.approx([0.8, 0.033, 1e-10], abs=5e-4)
        assert torch.equal(emission, emission_of(border.train, border.truth["train"]))
        for split, noisy in border.splits.items():
            labels = border.truth[split]
            assert noisy[labels == CONTOUR].double().mean().item() == pytest.approx(0.8, abs=0.003)
            assert not noisy[labels == IN].any()
            assert ((noisy.bool() & (labels == OUT)).sum((1, 2)) == 24).double().mean() > 0.999


class TestOriginals:
    """The same sets from the bytes as they were published."""

    @pytest.mark.parametrize("name", ["dna", "mushrooms", "nips", "frey"])
    def test_originals_give_what_the_prepared_arrays_give(self, data_folder: Path, name: str, raw_only: Path) -> None:
        result = load(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("QTCORE_DATA", str(data_folder))
            expected = load(name)
        assert result.source == "exact"
        for split, part in result.splits.items():
            assert torch.equal(part, expected.splits[split])

    def test_download_then_cache(self, data_folder: Path, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        server.serve_folder(data_folder / "raw")
        monkeypatch.setenv("QTCORE_MIRROR", server.url)
        for name in ("dna", "frey", "mnist"):
            data = load(name)
            assert data.source == "exact"
            assert [len(part) for part in data.splits.values()] == list(FORM[name][2])
        asked = sorted(server.requests)
        assert asked == sorted(f"/{file.path}" for name in ("dna", "frey", "mnist") for file in SPECIFICATIONS[name].files)
        assert all((cache / path[1:]).is_file() for path in asked)
        load("frey")
        assert sorted(server.requests) == asked  # the second time nothing is asked for

    @pytest.mark.slow
    def test_two_processes_load_the_same_set(
        self, data_folder: Path, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.serve_folder(data_folder / "raw")
        monkeypatch.setenv("QTCORE_MIRROR", server.url)
        code = "from qtcore.data import load; d = load('frey'); print(d.source, d.train.sum().item())"
        processes = [
            subprocess.Popen([sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        outputs = {process.communicate(timeout=300)[0] for process in processes}
        assert [process.returncode for process in processes] == [0, 0]
        assert len(outputs) == 1
        assert outputs.pop().startswith("exact ")
        assert sorted(p.name for p in (cache / "frey").iterdir()) == ["frey_faces_fixed_split.pkl", "freyfaces.pkl"]

    def test_half_a_cached_archive_is_replaced(
        self, data_folder: Path, server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.serve_folder(data_folder / "raw")
        monkeypatch.setenv("QTCORE_MIRROR", server.url)
        whole = (data_folder / "raw" / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes()
        for file in mnist.FILES:
            (cache / file.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(data_folder / "raw" / file.path, cache / file.path)
        (cache / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(whole[: len(whole) // 2])
        load("mnist")
        assert server.requests == ["/mnist/t10k-labels-idx1-ubyte.gz"]
        assert (cache / "mnist" / "t10k-labels-idx1-ubyte.gz").read_bytes() == whole


class TestRcv1:
    """With files of our own making: the whole set is larger than what tests should carry."""

    ROWS = (6, 3, 4)

    @pytest.fixture
    def parts(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
        rng = np.random.default_rng(0)
        texts, files = {}, []
        for split, n in zip(binary.SPLITS, self.ROWS, strict=True):
            rows = rng.integers(2, size=(n, 150))
            texts[split] = "".join(",".join(map(str, row)) + "\n" for row in rows).encode()
            blob = hashlib.sha1(b"blob %d\0" % len(texts[split]) + texts[split]).hexdigest()
            files.append(RemoteFile(f"ucla/rcv1.{split}.data", ("https://x.invalid/y",), "git blob id", blob))
        self.describe(monkeypatch, files=tuple(files), rows=self.ROWS)
        return texts

    def describe(self, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        """From now on RCV1 is known to be otherwise."""
        known = dataclasses.replace(SETS["rcv1"], **changes)
        monkeypatch.setitem(SETS, "rcv1", known)
        monkeypatch.setitem(SPECIFICATIONS, "rcv1", known.specification)

    def put(self, folder: Path, parts: dict[str, bytes]) -> None:
        (folder / "ucla").mkdir(parents=True, exist_ok=True)
        for split, text in parts.items():
            (folder / "ucla" / f"rcv1.{split}.data").write_bytes(text)

    def test_whole_set(self, cache: Path, parts: dict[str, bytes]) -> None:
        self.put(cache, parts)
        data = load("rcv1")
        assert data.source == "exact"
        for split, part in data.splits.items():
            text = "".join(",".join(str(int(x)) for x in row) + "\n" for row in part.tolist()).encode()
            assert text == parts[split]

    def test_stand_in_only_while_the_whole_set_is_not_here(
        self, data_folder: Path, cache: Path, parts: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = tmp_path / "data"
        (data / "prepared").mkdir(parents=True)
        shutil.copy(data_folder / "prepared" / "rcv1_valid_only.npz", data / "prepared")
        monkeypatch.setenv("QTCORE_DATA", str(data))
        self.put(data / "raw", {"valid": parts["valid"]})
        result = load("rcv1")
        assert result.source == "stand-in"
        assert "no figure compares with the paper" in result.note
        self.put(cache, {split: parts[split] for split in ("train", "test")})
        assert load("rcv1").source == "exact"

    def test_part_that_is_missing_is_named(self, cache: Path, parts: dict[str, bytes]) -> None:
        self.put(cache, {split: parts[split] for split in ("train", "valid")})
        with pytest.raises(DataError, match=r"rcv1\.test\.data could not be fetched"):
            load("rcv1")

    def test_wrong_shape_behind_a_right_hash(
        self, cache: Path, parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.put(cache, parts)
        self.describe(monkeypatch, rows=(6, 3, 5))
        with pytest.raises(DataError, match=r"rcv1 \(test\) has shape \(4, 150\); expected \(5, 150\)"):
            load("rcv1")


def test_mnist_of_another_shape_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"\0\0\x08\x01\0\0\0\x02ab"
    files = tuple(RemoteFile(file.path, file.urls, file.check, hashlib.sha256(body).hexdigest()) for file in mnist.FILES)
    monkeypatch.setattr(mnist, "FILES", files)
    for file in files:
        (cache / file.path).parent.mkdir(parents=True, exist_ok=True)
        (cache / file.path).write_bytes(gzip.compress(body))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz has shape \(2,\); expected \(60000, 28, 28\)"):
        load("mnist")


class TestFacesOffline:
    def test_absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(faces, "FILE", "no_such_faces.npz")
        with pytest.raises(DataError, match=r"python -m qtcore\.fetch frey"):
            faces_offline()

    @pytest.mark.parametrize(
        "wrong", [None, np.zeros((3, 560)), np.zeros((3, 28), np.float32), np.full((1, 560), np.nan, np.float32)]
    )
    def test_present(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: np.ndarray | None) -> None:
        monkeypatch.setattr(faces, "__file__", str(tmp_path / "qtcore" / "data" / "faces.py"))
        (tmp_path / "assets").mkdir()
        dreamed = np.random.default_rng(0).normal(size=(3, 560)).astype(np.float32)
        np.savez(tmp_path / "assets" / faces.FILE, faces=dreamed if wrong is None else wrong)
        if wrong is None:
            np.testing.assert_array_equal(faces_offline(), dreamed)
        else:
            with pytest.raises(DataError, match="expected finite float32 rows of 560"):
                faces_offline()
