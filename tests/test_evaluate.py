"""python -m qtcore.evaluate: the numbers, against sums by hand, and the words around them."""

import functools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qtcore import RBM, GaussianRBM, GridMRF, data, exact
from qtcore.data import Dataset
from qtcore.evaluate import main
from qtcore.learn.query_training import generator
from qtcore.metrics import Score
from qtcore.models.base import Model
from qtcore.paper.scoring import evaluate, evaluate_grid, evaluate_joint, over_depth
from qtcore.query import Query, parse

from .commands import Command, command  # noqa: F401
from .strategies import F64, build, normal, rng


def toy(kind: str, test: Tensor, **options: Any) -> Dataset:
    about = {"name": "toy", "kind": kind, "source": "stand-in", "note": "", "train": test[:2], "valid": test[:3], "test": test}
    return Dataset(**(about | options))


def toy_for(model: Model) -> Dataset:
    """Data of the model's kind, a handful of rows."""
    if isinstance(model, GridMRF):
        pixels = (torch.rand(5, 4, 6, generator=rng(1)) < 0.3).to(torch.uint8)
        truth = torch.randint(3, (5, 4, 6), generator=rng(2), dtype=torch.uint8)
        return toy("grid", pixels, truth={"train": truth[:2], "valid": truth[:3], "test": truth}, image_shape=(4, 6))
    if isinstance(model, GaussianRBM):
        return toy("gaussian", normal(1, 7, 4), image_shape=(2, 2))
    return toy("soft", torch.rand(7, 4, generator=rng(1), dtype=F64), image_shape=(2, 2))


def by_hand(model: Model, values: Tensor, queries: str, seed: int, draw: int) -> list[list[float]]:
    """Nats of each target, sample by sample."""
    query = parse(queries, (2, 2))(values, generator(seed, draw))
    p = model(query)
    if isinstance(model, GaussianRBM):
        nats = (values - p.mean) ** 2 / (2 * p.variance) + (2 * math.pi * p.variance).log() / 2
    else:
        nats = -(values * p.probs.log() + (1 - values) * (1 - p.probs).log())
    return [row[hidden].tolist() for row, hidden in zip(nats.detach(), ~query.observed, strict=True)]


def ratio(samples: list[list[float]]) -> Score:
    """Nats per target, over all samples, with the error of a ratio of sums."""
    samples = [sample for sample in samples if sample]
    count = sum(map(len, samples))
    mean = sum(map(sum, samples)) / count
    return Score(mean, math.sqrt(sum((sum(sample) - mean * len(sample)) ** 2 for sample in samples)) / count, len(samples))


def mean_of(each: list[float]) -> Score:
    mean = sum(each) / len(each)
    return Score(mean, math.sqrt(sum((x - mean) ** 2 for x in each) / (len(each) - 1) / len(each)), len(each))


def same_score(result: Score, expected: Score) -> None:
    assert (result.mean, result.error) == (pytest.approx(expected.mean), pytest.approx(expected.error))
    assert result.count == expected.count


@pytest.mark.parametrize("queries", ["uniform", "uniform:0.2", "patches:1", "one-target"])
def test_nce_of_bits_is_over_all_targets(queries: str) -> None:
    model: RBM = build("RBM", scale=0.5)
    dataset = toy_for(model)
    result = evaluate(model, dataset, "test", queries, 3, 1, None, None)
    same_score(result, ratio(by_hand(model, dataset.test, queries, 3, 0)))


def test_nce_of_faces_is_per_image_first() -> None:
    model: GaussianRBM = build("GaussianRBM", scale=0.3)
    dataset = toy_for(model)
    samples = [sample for sample in by_hand(model, dataset.test, "uniform", 0, 0) if sample]
    result = evaluate(model, dataset, "test", "uniform", 0, 1, None, None)
    same_score(result, mean_of([sum(sample) / len(sample) for sample in samples]))
    assert result.mean != pytest.approx(ratio(samples).mean)


def test_several_draws_are_averaged_and_the_error_is_over_draws() -> None:
    model: RBM = build("RBM", scale=0.5)
    dataset = toy_for(model)
    draws = [ratio(by_hand(model, dataset.test, "uniform", 1, draw)).mean for draw in range(4)]
    result = evaluate(model, dataset, "test", "uniform", 1, 4, None, None)
    assert (result.mean, result.error) == (pytest.approx(mean_of(draws).mean), pytest.approx(mean_of(draws).error))
    one = Score(1.0, 0.5, 9)
    assert Score.over([one]) == one
    assert Score.over([one, Score(2.0, 0.1, 9)]) == Score(1.5, pytest.approx(0.5), 9)


def test_split_rows_layers_and_seed_count() -> None:
    model: RBM = build("RBM", scale=0.5)
    dataset = toy_for(model)

    def result(split: str = "test", layers: int | None = None, seed: int = 0, rows: int | None = None) -> Score:
        return evaluate(model, dataset, split, "uniform", seed, 1, rows, layers)

    assert result() == result()
    assert result().mean != result(seed=1).mean
    assert result().mean != result(layers=1).mean
    assert result(rows=3) == result("valid")
    assert result("train").count <= 2


def test_a_grid_by_hand() -> None:
    model: GridMRF = build("GridMRF", scale=0.7)
    dataset = toy_for(model)
    assert dataset.truth is not None
    p = model(Query(dataset.test, torch.ones(5, 4, 6))).probs.tolist()
    labels = dataset.truth["test"].tolist()
    nats, framed_nats, ious, framed_ious = [], [], [], []
    for image in range(5):
        sums = [0.0, 0.0]
        foreground: list[list[bool]] = []
        truth: list[bool] = []
        for r in range(4):
            for c in range(6):
                edge = r in (0, 3) or c in (0, 5)
                label, beliefs = labels[image][r][c], p[image][r][c]
                framed = [0.0, 1.0, 0.0] if edge else beliefs
                sums[0] -= math.log(beliefs[label])
                sums[1] -= math.log(max(framed[label], 1e-38))
                foreground.append([beliefs[1] < 0.5, framed[1] < 0.5])
                truth.append(label != 1)
        nats.append(sums[0] / 24)
        framed_nats.append(sums[1] / 24)
        for way, result in enumerate((ious, framed_ious)):
            both = sum(f[way] and t for f, t in zip(foreground, truth, strict=True))
            either = sum(f[way] or t for f, t in zip(foreground, truth, strict=True))
            result.append(100 * both / either)
    grid = evaluate_grid(model, dataset, "test")
    same_score(grid.nce, mean_of(nats))
    same_score(grid.nce_framed, mean_of(framed_nats))
    same_score(grid.iou, mean_of(ious))
    same_score(grid.iou_framed, mean_of(framed_ious))
    assert evaluate(model, dataset, "test", "everything", 0, 1, None, None).mean == pytest.approx(grid.nce.mean)
    assert evaluate_grid(model, dataset, "test", layers=1).nce != grid.nce
    assert evaluate_grid(model, dataset, "test", rows=2).iou.count == 2


# ---------------------------------------------------------------------------------------------------------------------
# The command


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    """evaluate(*arguments) on toy data; rbm.safetensors, grid… and grbm… lie in the current folder."""
    models = {"rbm": build("RBM", scale=0.5), "grid": build("GridMRF", scale=0.7), "grbm": build("GaussianRBM", scale=0.3)}
    toys = {name: toy_for(model) for name, model in models.items()}
    monkeypatch.chdir(tmp_path)
    for name, model in models.items():
        model.provenance.dataset = name
        model.save(f"{name}.safetensors")
    models["rbm"].provenance.dataset = None
    models["rbm"].save("plain.safetensors")
    real = data.load
    monkeypatch.setattr(data, "load", lambda name: toys[name] if name in toys else real(name))
    return functools.partial(command, main)


def test_what_is_printed(run: Command) -> None:
    result = run("rbm.safetensors", "--seed", "3")
    model: RBM = build("RBM", scale=0.5)
    nats = ratio(by_hand(model, toy_for(model).test, "uniform", 3, 0))
    mean, error = nats.mean / math.log(2), nats.error / math.log(2)
    assert result.code == 0
    assert result.out.splitlines() == [
        f"rbm.safetensors on rbm (stand-in), test, {nats.count} samples, queries uniform",
        f"NCE {mean:.4f} ± {error:.4f} bits, {nats.mean:.4f} ± {nats.error:.4f} nats (± over samples)",
    ]


def test_options(run: Command) -> None:
    words = ("--queries", "patches:1", "--draws", "3", "--split", "valid", "--layers", "2", "--rows", "2", "--data", "rbm")
    lines = run("plain.safetensors", *words).out.splitlines()
    assert lines[0] == "plain.safetensors on rbm (stand-in), valid, 2 samples, queries patches:1"
    assert lines[1].endswith("nats (± over draws)")
    assert run("rbm.safetensors", "--rows", "1").code == 0


def test_a_grid_prints_its_iou(run: Command) -> None:
    lines = run("grid.safetensors").out.splitlines()
    assert lines[0].endswith("queries everything")
    assert lines[1].startswith("NCE ")
    assert lines[2].startswith("IoU ")
    assert lines[2].endswith(" %")
    assert lines[3].startswith("with the frame forced to OUT, as the authors count: IoU ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no model and no file named 'nothing'; "),
        (["nothing.safetensors"], "nothing.safetensors does not exist."),
        (["plain.safetensors"], "the model does not say what it was trained on; name a dataset with --data."),
        (["rbm.safetensors", "--data", "digit"], "no dataset is called 'digit'; did you mean digits?"),
        (["rbm.safetensors", "--data", "digits"], "RBM expects queries of shape [batch, 4], not [200, 64]."),
        (["rbm.safetensors", "--data", "grid"], "RBM expects queries of shape [batch, 4], not [5, 4, 6]."),
        (["grid.safetensors", "--data", "rbm"], "GridMRF expects queries of shape [batch, any, any], not [7, 4]."),
        (["rbm.safetensors", "--split", "best"], "split must be train, valid or test, not 'best'."),
        (["rbm.safetensors", "--draws", "0"], "draws must be at least 1, not 0."),
        (["rbm.safetensors", "--rows", "0"], "rows must be at least 1, not 0."),
        (["rbm.safetensors", "--seed", "-1"], "seed must be at least 0, not -1."),
        (["rbm.safetensors", "--layers", "-1"], "layers must be a number such as 15 or a range such as 1-60, not '-1'."),
        (["rbm.safetensors", "--layers", "5-2"], "layers must be a number such as 15 or a range such as 1-60, not '5-2'."),
        (["rbm.safetensors", "--layers", "x"], "layers must be a number such as 15 or a range such as 1-60, not 'x'."),
        (["rbm.safetensors", "--layers", "5", "--plot", "a.png"], "plot goes with a range of layers, such as --layers 1-60."),
        (["rbm.safetensors", "--queries", "all"], "queries cannot be 'all'; give uniform[:p], "),
        (["rbm.safetensors", "--queries", "everything"], "none of the queries has a target, so there is nothing to score."),
        (["rbm.safetensors", "--block", "9"], "--order, --orders and --block go with --joint."),
        (["rbm.safetensors", "--joint", "--draws", "2"], "--plot, --draws and --calibration do not go with --joint."),
        (["rbm.safetensors", "--joint", "--orders", "0"], "orders must be at least 1, not 0."),
        (["rbm.safetensors", "--joint", "--layers", "1-3"], "with --joint, layers must be a number such as 15, not '1-3'."),
        (["rbm.safetensors", "--joint", "--block", "a"], "block must be a number of variables, or a patch such as 3x3"),
        (["rbm.safetensors", "--joint"], "a joint probability needs a truth of 0 or 1 for every target"),
        (["rbm.safetensors", "--draws", "few"], "Error parsing --draws: "),
        (["rbm.safetensors", "--device", "abacus"], "there is no device named 'abacus'; try auto, cuda, mps or cpu."),
        ([], "Missing from python -m qtcore.evaluate: MODEL Name of a shipped model, or a file"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words: list[str], said: str, run: Command) -> None:
    assert run(*words).sentence.startswith(said)


def test_help(run: Command) -> None:
    result = run("--help")
    assert (result.code, result.err) == (0, "")
    assert "python -m qtcore.evaluate rbm/adult" in result.out
    for option in ("--queries", "--layers", "--seed", "--draws", "--rows", "--split", "--data", "--device"):
        assert option in result.out


def test_another_engine(run: Command) -> None:
    """Exact marginals are not those of two layers; what an engine cannot do is one sentence."""
    own = run("rbm.safetensors", "--layers", "2").out
    exact = run("rbm.safetensors", "--engine", "exact").out
    assert exact != own
    assert run("rbm.safetensors", "--engine", "bp", "--layers", "2").out == own
    assert run("rbm.safetensors", "--engine", "gibbs", "--layers", "40").code == 0
    assert run("rbm.safetensors", "--engine", "reweighted").out not in (exact, own)
    assert "no engine named 'exakt'; did you mean exact" in run("rbm.safetensors", "--engine", "exakt").sentence
    assert "Gibbs sampling is available for" in run("grid.safetensors", "--engine", "gibbs").sentence


# ---------------------------------------------------------------------------------------------------------------------
# Over the depth


@pytest.mark.parametrize("kind", ["RBM", "GaussianRBM", "GridMRF"])
def test_every_depth_is_scored_as_if_it_were_the_only_one(kind: str) -> None:
    model = build(kind, 3, 0.5)
    dataset, queries = toy_for(model), "everything" if kind == "GridMRF" else "uniform"
    for score in over_depth(model, dataset, "test", queries, (1, 3, 6), seed=2):
        alone = evaluate(model, dataset, "test", queries, seed=2, layers=score.layer)
        assert score.nce.mean == pytest.approx(alone.mean, rel=1e-9)
        assert score.nce.error == pytest.approx(alone.error, rel=1e-9)
        assert score.nce.count == alone.count
        assert (score.iou is None) == (kind != "GridMRF")
        if score.iou is not None:
            assert score.iou.mean == pytest.approx(evaluate_grid(model, dataset, "test", score.layer).iou.mean)
        query = parse(queries, (2, 2))(dataset.test, generator(2, 0), (dataset.truth or {}).get("test"))
        with torch.no_grad():
            *_, last = model.layers(query, score.layer)
        assert score.residual == pytest.approx(float(last.residual.mean()), rel=1e-6)


def test_a_range_of_layers(run: Command) -> None:
    for name in ("rbm", "grid"):
        done = run(f"{name}.safetensors", "--layers", "2-5", "--rows", "4", "--plot", "depth.png")
        assert done.code == 0, done.err
        heading, columns, *rows, told = done.out.splitlines()
        assert heading.endswith("layer by layer")
        assert ("IoU/%" in columns) == (name == "grid")
        assert [row.split()[0] for row in rows] == ["2", "3", "4", "5"]
        assert told == "The picture is depth.png."
        assert Path("depth.png").read_bytes().startswith(b"\x89PNG")
        nats = run(f"{name}.safetensors", "--layers", "3", "--rows", "4").out.split(" bits, ")[1].split()[0]
        assert rows[1].split()[2] == nats


def test_the_calibration_is_printed(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    model = build("GaussianRBM")
    model.save(tmp_path / "model.safetensors")
    monkeypatch.setattr(data, "load", lambda name: toy_for(model))
    words = (tmp_path / "model.safetensors", "--data", "toy", "--calibration", "--queries", "uniform:0.9")
    result = command(main, *words)
    lines = result.out.splitlines()
    start = lines.index("claimed      so   count")
    assert [line.split()[0] for line in lines[start + 1 : start + 4]] == ["0.500", "0.800", "0.950"]
    assert lines[-1].startswith("expected calibration error 0.")
    query = parse("uniform:0.9", (2, 2))(toy_for(model).test, generator(0, 0))
    z = ((query.truth - model(query).mean) / model(query).stddev)[query.target].abs().double()
    share = float((torch.special.erf(z / math.sqrt(2)) <= 0.8).double().mean())
    assert lines[start + 2].split()[1] == f"{share:.3f}"
    refused = command(main, *words, "--layers", "1-3")
    assert refused.sentence == "calibration goes with one number of layers, not with a range."


def test_whole_rows_are_scored_by_the_chain_rule() -> None:
    """An RBM with one hidden unit is a tree: one at a time every order is exact, and a block of all is the sum of marginals."""
    model = RBM(6, 1, dtype=F64)
    model.W.data[:] = normal(0, 1, 6)
    rows = (torch.rand(6, 6, generator=rng(0)) < 0.5).to(F64)
    dataset = toy("binary", rows)
    expected = -exact.log_likelihood(model, rows[:4])
    score = evaluate_joint(model, dataset, "test", rows=4)
    assert score.nll.mean == pytest.approx(float(expected.mean()))
    assert score.spread.mean == pytest.approx(0, abs=1e-9)
    together = evaluate_joint(model, dataset, "test", rows=4, orders=["forward"], block=6).nll.mean
    with torch.no_grad():
        nothing = model(Query(rows[:4], torch.zeros(4, 6, dtype=torch.bool)))
    assert together == pytest.approx(float(-nothing.log_prob(rows[:4]).sum(1).mean()))


def test_the_joint_score_is_printed(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    for kind, words in (("GaussianRBM", ("--block", "1x2", "--order", "outwards")), ("GridMRF", ("--orders", "1"))):
        model = build(kind)
        model.image_shape = (2, 2) if kind == "GaussianRBM" else model.image_shape
        model.save(tmp_path / "model.safetensors")
        monkeypatch.setattr(data, "load", lambda name, model=model: toy_for(model))
        result = command(main, tmp_path / "model.safetensors", "--data", "toy", "--joint", "--rows", 3, "--layers", 3, *words)
        assert result.code == 0, result.err
        lines = result.out.splitlines()
        assert lines[0].endswith("3 rows, nothing observed" if kind == "GaussianRBM" else "3 rows, all readings observed")
        given = {"orders": ["outwards"] * 2, "block": (1, 2)} if kind == "GaussianRBM" else {"orders": ["random"]}
        score = evaluate_joint(model, toy_for(model), "test", rows=3, engine=model.engine.at(3), **given)
        assert lines[2].startswith(f"−log p {score.nll.mean:.2f} ± {score.nll.error:.2f} nats a row")
        assert len(lines) == 3 + (kind == "GaussianRBM")
