"""python -m qtcore.infer with --samples, --joint and --next: joint answers about the rows of a table."""

import csv
import functools
import math
from pathlib import Path

import pytest
import torch

import qtcore
from qtcore import Query, infer
from qtcore.io.joint_tables import ORDERS

from .commands import Command, command  # noqa: F401
from .joint import query_of, tree
from .strategies import build, rng

NAN = math.nan


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    tree("RBM", 0, 2.0).save("rbm.safetensors")
    return functools.partial(command, infer.main)


def lines_of(path: str) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_samples(run: Command) -> None:
    Path("rows.csv").write_text("1,,0,\n0,1,1,0\n,,,\n")
    result = run("rbm.safetensors", "rows.csv", "--samples", 3)
    assert result == (0, "3 samples of each of 3 rows are in rows.samples.csv.\n", "")
    header, *lines = lines_of("rows.samples.csv")
    assert header == ["row", "sample", "1", "2", "3", "4"]
    assert [line[:2] for line in lines] == [[str(row), str(k)] for row in (1, 2, 3) for k in (1, 2, 3)]
    values = torch.tensor([[1, NAN, 0, NAN], [0, 1, 1, 0], [NAN] * 4], dtype=torch.float64)
    expected = tree("RBM", 0, 2.0).sample(Query(values, ~values.isnan()), 3, generator=rng(0))
    drawn = torch.tensor([[float(x) for x in line[2:]] for line in lines], dtype=torch.float64).view(3, 3, 4)
    assert torch.equal(drawn.transpose(0, 1), expected)


def test_samples_of_real_numbers_and_states(run: Command) -> None:
    for kind, row in (("GaussianRBM", "0.5,,-1.25,\n"), ("PairwiseMRF", "1,,3\n")):
        build(kind).save("model.safetensors")
        Path("rows.csv").write_text(row)
        assert run("model.safetensors", "rows.csv", "--samples", 2, "--out", "answer.csv").code == 0
        for line in lines_of("answer.csv")[1:]:
            for text, given in zip(line[2:], row.strip().split(","), strict=True):
                assert math.isfinite(float(text))
                assert given in ("", text)


def test_the_probability_of_what_is_known(run: Command) -> None:
    """Blanks are summed out; on a tree, all orders agree."""
    Path("rows.csv").write_text("1,,0,\n0,1,1,0\n")
    assert run("rbm.safetensors", "rows.csv", "--joint").out == "the log-probabilities of 2 rows are in rows.joint.csv.\n"
    header, *lines = lines_of("rows.joint.csv")
    assert header == ["row", "log_prob", "spread"]
    model = tree("RBM", 0, 2.0)
    whole = qtcore.exact.log_likelihood(model, torch.tensor([[1.0, a, 0, b] for a in (0, 1) for b in (0, 1)])).logsumexp(0)
    assert float(lines[0][1]) == pytest.approx(float(whole), abs=1e-5)
    assert float(lines[1][1]) == pytest.approx(
        float(qtcore.exact.log_likelihood(model, torch.tensor([[0.0, 1, 1, 0]]))), abs=1e-5
    )
    assert all(float(line[2]) < 1e-5 for line in lines)
    assert ORDERS > 1


def test_what_to_ask_next(run: Command) -> None:
    Path("rows.csv").write_text("1,,,\n1,0,1,\n")
    result = run("rbm.safetensors", "rows.csv", "--next", "4")
    assert result.out == "what the blanks of 1 rows would tell about 4 is in rows.next.csv.\n"
    header, *lines = lines_of("rows.next.csv")
    assert header == ["row", "variable", "bits"]
    model = tree("RBM", 0, 2.0)
    bits = qtcore.next_question(model, query_of(model), about=[3]).bits[0]
    assert [(line[0], line[1]) for line in lines] == [
        ("1", str(j + 1)) for j in bits.nan_to_num(-1).argsort(descending=True)[:2].tolist()
    ]
    assert [float(line[2]) for line in lines] == pytest.approx(sorted(bits[1:3].tolist(), reverse=True), rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--samples", 0], "--samples must be at least 1, not 0."),
        (["--samples", 2, "--joint"], "--samples and --joint are answers of their own; give one of them."),
        (["--next", "weather"], "rows.csv: there is no variable 'weather'; the first is '1'."),
        (["--next", "1"], "rows.csv, row 1: 1 is known there; leave it blank to ask what tells about it."),
        (["--joint"], "rows.csv, row 2: every variable is blank, so there is nothing to give the probability of."),
    ],
)
def test_bad_input(arguments: list[object], said: str, run: Command) -> None:
    Path("rows.csv").write_text("1,,0,\n,,,\n")
    assert run("rbm.safetensors", "rows.csv", *arguments).sentence == said
    assert [path.name for path in Path().glob("rows.*")] == ["rows.csv"]


def test_images_have_a_command_of_their_own(run: Command) -> None:
    assert run("grbm/frey", "face.png", "--samples", 2).sentence.endswith("python -m qtcore.sample completes images.")
    assert run("graph.uai", "--joint").sentence.startswith("--joint goes with a table")
