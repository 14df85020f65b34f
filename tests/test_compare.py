"""The comparison: everybody sees the same cells and nothing else, and the command leaves records and tables."""

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import qtcore
from qtcore import RBM, OneHotModel, Query, compare
from qtcore.data import Dataset
from qtcore.errors import InputError
from qtcore.learn.settings import Settings
from qtcore.metrics import BITS
from qtcore.models.files import checkpoint_folder
from qtcore.paper import comparison, rivals, workers
from qtcore.paper.comparison import Contest, contests, evenly, record_of
from qtcore.paper.contests import COMPARED, METHODS
from qtcore.paper.records import is_record
from qtcore.paper.rivals import MAKERS, Circuit, Circuitry, Frequencies, Imputer, Network, scored, train_network
from qtcore.paper.structures import STRUCTURES, groups_of, pairs_of
from qtcore.query import uniform

from .commands import Command, command  # noqa: F401


def path_of(contest: Contest) -> Path:
    return comparison.checkpoint_path(checkpoint_folder().parent, contest)


def copies(rows: int = 400, seed: int = 0) -> Dataset:
    """Bits 0 and 1 are equal, 2 is their opposite, and 3 is noise."""
    draw = torch.Generator().manual_seed(seed)
    bit = (torch.rand(rows, generator=draw) < 0.6).float()
    values = torch.stack([bit, bit, 1 - bit, (torch.rand(rows, generator=draw) < 0.3).float()], 1)
    parts = {"train": values[: rows // 2], "valid": values[rows // 2 : 3 * rows // 4], "test": values[3 * rows // 4 :]}
    return Dataset(name="toy", kind="binary", source="exact", note="", **parts)


def network(dataset: Dataset) -> rivals.Answering:
    return train_network(dataset, Network(units=32, steps=400, validate_every=50, learning_rate=0.01))[0]


def circuit(dataset: Dataset) -> Circuit:
    pytest.importorskip("spflow")
    return Circuit(dataset, Circuitry(states=4, steps=200, learning_rate=0.1))


MADE: dict[str, Callable[[Dataset], rivals.Rival]] = {
    "frequencies": Frequencies,
    "mlp": network,
    "imputer": functools.partial(Imputer, penalty=3.0),
    "circuit": circuit,
}


@pytest.mark.parametrize("kind", MADE)
def test_rivals_learn_what_there_is_and_do_not_peek(kind: str) -> None:
    dataset = copies()
    made = MADE[kind](dataset)
    values = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    observed = torch.tensor([[True, False, False, False], [True, False, False, False], [False, False, False, False]])
    p = made(Query(values, observed)).mean
    again = made(Query(torch.where(observed, values, 1 - values), observed)).mean
    torch.testing.assert_close(torch.where(observed, 0, p), torch.where(observed, 0, again))
    if kind != "imputer":  # with nothing observed, its classifiers convince each other
        assert p[2].tolist() == pytest.approx([0.6, 0.6, 0.4, 0.3], abs=0.12)
    if kind != "frequencies":
        assert p[0, 1:].tolist() == pytest.approx([1, 0, 0.3], abs=0.15)
        assert p[1, 1:].tolist() == pytest.approx([0, 1, 0.3], abs=0.15)
    assert made.parameters >= 4
    json.dumps(made.settings)


def test_the_marginals_of_a_circuit_are_those_of_its_own_likelihoods() -> None:
    dataset = copies()
    made = circuit(dataset)
    assert made.parameters == 4 * 4 + 3 * 16 + 4  # leaves, edges of the tree, root
    every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=4)))
    p = made.module.log_likelihood(every).detach().flatten().exp()
    assert float(p.sum()) == pytest.approx(1, abs=1e-5)
    values, observed = torch.tensor([[0.0, 1, 0, 1]]), torch.tensor([[False, True, False, True]])
    fits = ((every == values) | ~observed).all(1)
    expected = (p * fits) @ every / (p * fits).sum()
    answer = made(Query(values, observed)).mean[0]
    torch.testing.assert_close(answer[[0, 2]], expected[[0, 2]].clamp(rivals.CERTAIN, 1 - rivals.CERTAIN), atol=1e-4, rtol=0)


def test_a_score_is_the_same_for_ours_and_others() -> None:
    """By the model's own cross-entropy on the same masks, and by hand for frequencies."""
    torch.manual_seed(0)
    dataset, model = copies(), RBM(4, 2)
    masks = uniform(0.75).draw(dataset.test.shape, torch.Generator().manual_seed(1))
    query = Query(dataset.test, masks)
    assert scored(model, dataset.test, masks).mean == pytest.approx(float(model.loss(query).detach()) * BITS, rel=1e-5)
    made = Frequencies(dataset)
    p = made.p.expand(dataset.test.shape)
    bits = -torch.where(dataset.test == 1, p, 1 - p).log2()
    assert scored(made, dataset.test, masks).mean == pytest.approx(float(bits[~masks].mean()), rel=1e-5)


def test_every_method_gets_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Watcher:
        def __call__(self, query: Query) -> torch.distributions.Distribution:
            seen.append((query.values.clone(), query.observed.clone()))
            return torch.distributions.Bernoulli(torch.full(query.shape, 0.5))

    for _ in range(2):
        scores = comparison.score(Watcher(), copies(4000), 300)
    half = len(seen) // 2
    for one, other in zip(seen[:half], seen[half:], strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
    shares = [100 * float(observed.float().mean()) for _, observed in seen[:half]]
    assert shares == pytest.approx(list(comparison.EVIDENCE), abs=4)
    assert [score["mean"] for score in scores.values()] == pytest.approx([1.0] * len(comparison.EVIDENCE))
    assert len(evenly(torch.arange(10), 4).tolist()) == 4
    assert evenly(torch.arange(10), 4).tolist() == [0, 2, 5, 7]


def test_groups_and_pairs() -> None:
    names = ("base -2 is A", "base -2 is C", "base +1 is A")
    rows = torch.zeros(5, 3)
    parts = {"train": rows, "valid": rows, "test": rows}
    about = {"kind": "binary", "source": "exact", "note": "", "variable_names": names} | parts
    assert groups_of(Dataset(name="dna", **about)) == [[0, 1], [2]]  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the bits of web do not stand in one-of-k groups"):
        groups_of(Dataset(name="web", **about))  # type: ignore[arg-type]
    assert pairs_of("near:2", 4, None) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    assert pairs_of("grid:1", 4, (2, 2)) == list(itertools.combinations(range(4), 2))
    close = [(i, j) for i, j in itertools.combinations(range(6), 2) if j // 2 - i // 2 < 2]
    assert pairs_of("grid:1", 6, (3, 2)) == close
    assert (pairs_of("all", 4, None), pairs_of("none", 4, None)) == ("all", [])
    for rule in ("grid:1", "near", "some"):
        with pytest.raises(InputError, match="pairs cannot be"):
            pairs_of(rule, 4, None)


def test_the_contests() -> None:
    every = contests()
    assert len({each.key for each in every}) == len(every)
    assert {each.dataset for each in every} == set(COMPARED)
    assert {each.name for each in every if each.trained} == STRUCTURES.keys()
    assert [each.name for each in contests(("mlp",), ("dna", "web"))] == ["mlp/dna", "mlp/web"]
    assert contests(("groups",), ("web",)) == []


@pytest.mark.parametrize("name", [each.name for each in contests() if each.trained and path_of(each).exists()])
def test_the_models_are_those_of_their_recipes(name: str) -> None:
    structure, model = STRUCTURES[name], qtcore.load(path_of(Contest(*name.split("/"))))
    assert model.provenance.experiment == name
    assert Settings(**(model.provenance.settings or {})) == structure.settings
    assert model.n_layers == structure.layers
    hidden = model.n_hidden if isinstance(model, OneHotModel) else len(model.W)  # type: ignore[arg-type]
    assert hidden == structure.hidden


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    return functools.partial(command, compare.main)


def test_names_and_numbers_that_do_not_exist_are_refused(run: Command) -> None:
    for words, said in {
        ("--methods", "mpl"): "no method named 'mpl' in the comparison; did you mean mlp?",
        ("--datasets", "rcv1"): "no dataset named 'rcv1' in the comparison",
        ("--methods", "groups", "--datasets", "web"): "none of these methods is for these datasets",
        ("--workers", "0"): "workers must be at least 1, not 0.",
        ("--update", "--quick"): "--update writes to the project's own assets; leave --out and --quick out.",
    }.items():
        assert said in run(*words).sentence
    assert "--evaluate-only" in run("--help").out


def test_what_is_done_is_kept_and_the_tables_say_it(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On data that need no download; the second call computes nothing."""
    words = ("--datasets", "digits", "--methods", "frequencies", "mlp", "rbm", "--quick", "--workers", "1")
    first = run(*words)
    assert first.code == 0, first.err
    assert first.err.count("done ") == 3
    for method in ("frequencies", "mlp", "rbm"):
        record = json.loads((tmp_path / "quick" / "results" / f"compare-{method}-digits-0.json").read_text())
        assert is_record(record)
        assert record["command"] == f"python -m qtcore.compare --methods {method} --datasets digits --out again"
        assert 0.4 < record["scores"]["evidence-50"]["mean"] < 1
        assert record["scores"]["evidence-50"]["samples"] == 200
    assert "| frequencies |" in first.out
    assert (tmp_path / "quick" / "results" / "compare.png").stat().st_size > 1000
    monkeypatch.setattr(comparison, "record_of", lambda *_: pytest.fail("computed again"))
    again = run(*words)
    assert again.code == 0, again.err
    assert again.out == first.out
    (tmp_path / "quick" / "results" / "compare-mlp-digits-0.json").write_text("{")
    damaged = run(*words)
    assert damaged.code == 1
    assert "compare-mlp-digits-0.json is damaged" in damaged.err


def test_evaluate_only_scores_models_and_leaves_the_others(run: Command, tmp_path: Path) -> None:
    words = ("--datasets", "digits", "--methods", "rbm", "mlp", "--evaluate-only", "--quick", "--out", tmp_path)
    done = run(*words)
    assert done.code == 0, done.err
    assert [path.name for path in tmp_path.rglob("*.json")] == ["compare-rbm-digits-0.json"]


def test_a_structure_is_trained_and_its_run_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = next(iter(STRUCTURES))
    method, dataset = name.split("/")
    contest = Contest(method, dataset)
    rows = torch.eye(2).repeat(20, 2)
    names = ("a 0", "a 1", "b 0", "b 1")
    toy = Dataset(name=dataset, kind="binary", source="exact", note="", variable_names=names, train=rows, valid=rows, test=rows)
    monkeypatch.setattr(comparison.data, "load", lambda _: toy)
    problems = comparison.compute_missing([contest], [tmp_path], True, None, 1)
    assert problems == []
    record = json.loads(comparison.record_path(tmp_path, contest).read_text())
    assert is_record(record)
    assert record["training"]["quick"]
    assert record["checkpoint"] == name
    model = qtcore.load(comparison.checkpoint_path(tmp_path, contest))
    assert model.size == 4
    assert record["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert (tmp_path / "runs" / contest.key / "log.jsonl").exists()
    assert record_of(contest, model, True)["scores"] == record["scores"]


def test_one_job_that_fails_does_not_cost_the_others() -> None:
    def half(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number // 2

    got: dict[str, int] = {}
    problems = workers.on_workers(half, {str(n): (n,) for n in range(4)}, got.__setitem__, "halves", "compare", workers=1)
    assert got == {"0": 0, "2": 1}
    assert {key: str(error) for key, error in problems.items()} == {"1": "1 is odd", "3": "3 is odd"}


def test_every_rival_has_a_maker() -> None:
    assert set(MAKERS) < set(METHODS)
