"""python -m qtcore.sample, and the sampled faces that are shipped."""

import csv
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import qtcore
from qtcore import Query
from qtcore.data import faces_offline
from qtcore.data.frey import grey_levels
from qtcore.inference.sampling import smoothed, steps_of
from qtcore.io.images import COLOURS, contact_sheet, write_png
from qtcore.models.base import Model
from qtcore.sample import main

from .commands import Command, command  # noqa: F401
from .joint import tree
from .strategies import rng


def test_the_shipped_faces_are_there() -> None:
    faces = faces_offline()
    assert 12 <= len(faces) <= 16
    assert float(faces.abs().max()) < 8
    assert contact_sheet(torch.zeros(3, 560), (28, 20)).size == (16 * 22 * 4, 30 * 4)


@pytest.mark.parametrize(("grain", "least", "most"), [(True, 0.9, 1.1), (False, 0.0, 0.3)])
def test_the_grain_of_the_shipped_faces_is_what_the_model_expects(grain: bool, least: float, most: float) -> None:
    """The squared error of each block given the others, in units of its variance; smoothed faces have too little of it."""
    model, faces = qtcore.load("grbm/frey"), faces_offline(grain)[:4]
    steps = steps_of(torch.ones(1, 560, dtype=torch.bool), "forward", (4, 4), image_shape=(28, 20))
    parts = range(35)
    observed = torch.stack([steps[0] != part for part in parts])
    with torch.inference_mode():
        answer = model(qtcore.Query(faces.repeat_interleave(len(parts), 0), observed.repeat(len(faces), 1)))
    errors = ((faces.repeat_interleave(len(parts), 0) - answer.mean) / answer.stddev)[~observed.repeat(len(faces), 1)]
    assert least < float(errors.square().mean()) < most


def saved(model: Model, shape: tuple[int, int] | None = None) -> Model:
    model.image_shape = shape or model.image_shape
    model.save("model.safetensors")
    return model


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    return functools.partial(command, main)


def lines_of(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def nothing(*shape: int) -> Query:
    return Query(torch.zeros(1, *shape), torch.zeros(1, *shape, dtype=torch.bool))


def test_faces_with_their_grain_and_without(run: Command) -> None:
    model = saved(qtcore.GaussianRBM(12, 3, n_layers=2), (3, 4))
    options = ("model.safetensors", "--out", "faces.npz", "--n", 4, "--order", "outwards", "--smooth")
    assert run(*options, "--keep", 2, 0).out == "2 samples are in faces.npz.\n"
    with np.load("faces.npz") as file:
        samples, faces = torch.from_numpy(file["samples"]), torch.from_numpy(file["faces"])
    expected = model.sample(nothing(12), 4, "outwards", (3, 3), rng(0))[[2, 0], 0]
    torch.testing.assert_close(samples, expected)
    torch.testing.assert_close(faces, smoothed(model, expected, (3, 3)))


def test_a_face_is_completed_and_what_is_known_stays(run: Command) -> None:
    face, known = faces_offline()[0], torch.zeros(28, 20, dtype=torch.bool)
    known[:, :12] = True
    model = qtcore.load("grbm/frey")
    grey = grey_levels(face, model.statistics).reshape(28, 20)
    write_png(Path("face.png"), grey - 0.5)
    write_png(Path("mask.png"), 255 * known.float())
    options = ("grbm/frey", "face.png", "--mask", "mask.png", "--n", 2, "--layers", 2, "--block", "14x4", "--smooth")
    assert run(*options).out == "2 samples are in face.samples.png.\n"
    with Image.open("face.samples.png") as picture:
        assert picture.size == (2 * 22 * 4, 30 * 4)
        drawn = torch.from_numpy(np.asarray(picture).copy())[4:-4:4].reshape(28, 2, 22, 4)[:, :, 1:-1, 0].float()
    for k in range(2):
        assert float((drawn[:, k] - grey.clamp(0, 255))[known].abs().max()) <= 1.5  # a level, and its fraction
    assert float((drawn[:, 0] - drawn[:, 1])[~known].abs().max()) > 2


def test_records(run: Command) -> None:
    model = saved(tree("RBM"))
    assert run("model.safetensors", "--n", 3, "--out", "records.csv").code == 0
    header, *lines = lines_of("records.csv")
    assert header == ["row", "sample", "1", "2", "3", "4"]
    expected = model.sample(nothing(4), 3, generator=rng(0))[:, 0]
    assert [[float(x) for x in line[2:]] for line in lines] == expected.tolist()


def test_a_table(run: Command) -> None:
    saved(tree("RBM"))
    Path("rows.csv").write_text("a,b,c,d\n1,,0,\n0,1,1,0\n")
    options = ("model.safetensors", "rows.csv", "--n", 2, "--block", 2)
    assert run(*options).out == "2 samples of each of 2 rows are in rows.samples.csv.\n"
    header, *lines = lines_of("rows.samples.csv")
    assert header == ["row", "sample", "a", "b", "c", "d"]
    known = [("1", "1", "1", "0"), ("1", "2", "1", "0"), ("2", "1", "0", "1"), ("2", "2", "0", "1")]
    assert [(line[0], line[1], line[2], line[4]) for line in lines] == known
    assert run(*options, "--out", "rows.npz").code == 0
    with np.load("rows.npz") as file:
        assert file["samples"].shape == (2, 2, 4)


def test_labels_digits_and_graphs(run: Command) -> None:
    saved(qtcore.GridMRF(4, 5, (2, 1, 1), n_layers=2))
    write_png(Path("contour.png"), torch.eye(4, 5) * 255)
    assert run("model.safetensors", "contour.png", "--n", 3).code == 0
    with Image.open("contour.samples.png") as picture:
        assert picture.size == (3 * 7 * 4, 6 * 4)
        assert set(map(tuple, np.asarray(picture).reshape(-1, 3).tolist())) <= {*COLOURS.values(), (0, 0, 0)}
    assert run("model.safetensors", "--n", 1, "--out", "labels.npz").code == 0
    saved(qtcore.RBM(6, 2), (2, 3))
    assert run("model.safetensors", "--out", "digits.png", "--block", "1x3").code == 0
    graph = tree("PairwiseMRF")
    graph.to_uai("graph.uai")
    Path("graph.evid").write_text("1 0 1\n")
    assert run("graph.uai", "--evidence", "graph.evid", "--n", 4, "--out", "states.csv").code == 0
    assert {line[2] for line in lines_of("states.csv")[1:]} == {"1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a file for the samples with --out (.csv, .npz, .png)."),
        (("--out", "samples.txt"), "samples.txt must end in .csv, .npz or .png, which says what to write."),
        (("--out", "x.csv", "--n", 0), "n must be a whole number of samples ≥ 1, not 0."),
        (("--out", "x.csv", "--keep", 6), "keep holds a number that is not among the 6 samples (they count from 0)."),
        (("--out", "x.csv", "--seed", -1), "seed must be between 0 and 2**63, not -1."),
        (("--out", "x.csv", "--block", "3by3"), "block must be a number of variables, or a patch such as 3x3, not '3by3'."),
        (("--out", "x.csv", "--block", "9"), "a block must have between 1 and all 4 variables, not 9."),
        (("--out", "x.csv", "--order", "backwards"), "there is no order 'backwards'; give random, forward, outwards or a "),
        (("--out", "x.csv", "--smooth"), "--smooth is for faces, whose pixels are real numbers."),
        (("--out", "x.png"), "samples of this model are no pictures; write them as .csv or .npz."),
        (("--out", "x.csv", "--mask", "m.png"), "--mask and --fit go with an image."),
        (("--out", "x.csv", "--evidence", "e.evid"), "--evidence goes with a graph; "),
        (("none.csv",), "none.csv does not exist; give a table or an image."),
        (("rows.csv", "--out", "rows.csv"), "rows.csv is also read; give another place for the samples with --out."),
        (("face.png",), "a RBM is asked with a table (CSV), not with images such as face.png."),
        (("full.csv",), "the query has no targets; leave at least one variable unobserved."),
    ],
)
def test_bad_input(arguments: tuple[object, ...], said: str, run: Command) -> None:
    saved(tree("RBM"))
    Path("rows.csv").write_text("1,,0,\n")
    Path("full.csv").write_text("1,1,0,0\n")
    write_png(Path("face.png"), torch.zeros(2, 2))
    assert run("model.safetensors", *arguments).sentence.startswith(said)
    assert not Path("x.csv").exists()
