"""The benchmark compares like with like, and its ratios are those of its timings. Timings are not tested."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from qtcore import RBM, GaussianRBM, GridMRF, Query, kernels
from qtcore.bench import main
from qtcore.data import Dataset
from qtcore.errors import InputError
from qtcore.learn.settings import Settings
from qtcore.paper import benchmark, graph_benchmark, growth, time_to_paper
from qtcore.paper import graph_libraries as libraries
from qtcore.paper import naive as twin
from qtcore.paper.experiments import Experiment
from qtcore.query import uniform


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def losses(model, query: Query) -> tuple[float, float, float]:  # type: ignore[no-untyped-def]
    """Of the naive twin, the model in torch and the model with native kernels, with equal gradients."""
    results, gradients = [], []
    for backend, loss in (("torch", twin.loss), ("torch", lambda m, q: m.loss(q)), ("auto", lambda m, q: m.loss(q))):
        model.zero_grad()
        with kernels.use(backend):
            value = loss(model, query)
            value.backward()
        results.append(float(value.detach()))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert gradients[0].norm() > 1e-3
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-7, atol=1e-10)
    torch.testing.assert_close(gradients[2], gradients[0], rtol=1e-7, atol=1e-10)
    return results[0], results[1], results[2]


def test_rbm_twin() -> None:
    torch.manual_seed(1)
    model = RBM(7, 4, 5, dtype=torch.float64)
    torch.nn.init.normal_(model.W)
    model.T.requires_grad_(False)
    query = uniform()((torch.rand(6, 7, dtype=torch.float64, generator=generator()) < 0.4).double(), generator())
    naive, plain, native = losses(model, query)
    assert abs(naive - plain) < 1e-10
    assert abs(naive - native) < 1e-10


def test_gaussian_twin() -> None:
    torch.manual_seed(1)
    model = GaussianRBM(8, 5, 6, dtype=torch.float64)
    torch.nn.init.normal_(model.W, std=0.3)
    query = uniform()(torch.randn(6, 8, dtype=torch.float64, generator=generator()), generator())
    naive, plain, native = losses(model, query)
    assert abs(naive - plain) < 1e-10
    assert abs(naive - native) < 1e-10


def test_grid_twin() -> None:
    torch.manual_seed(1)
    model = GridMRF(5, 4, (6, 1, 2), 4, dtype=torch.float64)
    noisy = (torch.rand(3, 5, 4, generator=generator()) < 0.3).double()
    query = Query(noisy, torch.ones_like(noisy), truth=torch.randint(3, noisy.shape, generator=generator()))
    naive, plain, native = losses(model, query)
    assert abs(naive - plain) < 1e-10
    assert abs(naive - native) < 1e-10


def test_a_process_of_its_own() -> None:
    assert benchmark.alone(max, 3, 7) == 7
    before = dict(os.environ)
    assert benchmark.alone(os.getenv, "QTCORE_SAID", environment={"QTCORE_SAID": "here"}) == "here"
    assert os.environ == before


def test_tables() -> None:
    case = {"naive": 3.0, "fast": 0.04, "product": 1.0, "difference": 1e-7, "images": 20, "naive_images": 4}
    case |= {"naive_best": 2.0, "fast_best": 0.035}
    result = {
        "cases": {"grid: step": case},
        "grid_share": {"step": {"torch": 2e11, "share": 0.45}},
        "memory": {"grid": {"naive": 2**30, "fast": 2**26}},
        "one_query": {"one face": {"plain torch": 30.0, "native kernels": 2.0}},
        "machine": {"processor": "a processor", "threads": 2, "torch": "2"},
        "load_before": 0.1,
    }
    text = benchmark.tables(result)
    assert "| grid: step (naive: 4 at a time) | 3000 (2000) ms | 40.0 (35.0) ms | 75× (57×) | 1.0e-07 |" in text
    assert "step: 45 % of 200 GFLOP/s" in text
    assert "| grid | 1024 MiB | 64 MiB | 16.0× |" in text


def test_graphs_are_those_that_the_table_names() -> None:
    for name, (n, factors, order, states, tied) in graph_benchmark.CASES.items():
        scopes = graph_benchmark.random_scopes(n, factors, order)
        assert scopes.shape == (factors, order)
        assert all(len(set(scope)) == order for scope in scopes.tolist())
        assert len({frozenset(scope) for scope in scopes.tolist()}) == factors
        assert f"{states} states" in name or tied
    model = graph_benchmark.case("1,000 variables of 2 states, 2,000 edges")
    assert (len(model.n_states), model.n_factors, model.n_layers) == (1000, 2000, graph_benchmark.LAYERS)


def test_the_table_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without other libraries, which it says in words."""

    def missing(name: str) -> None:
        raise libraries.Unavailable(f"{name} is missing")

    monkeypatch.setattr(libraries, "_module", missing)
    cases = {"few": (6, 4, 2, 2, True), graph_benchmark.THIRD_ORDER: (6, 2, 3, 2, False)}
    monkeypatch.setattr(graph_benchmark, "CASES", cases)
    monkeypatch.setattr(graph_benchmark, "MANY", 100)
    monkeypatch.setattr(graph_benchmark, "building", lambda: 0.5)
    lines = list(graph_benchmark.table(quick=True))
    assert lines[2].startswith("| few | ")
    assert lines[3].startswith(f"| {graph_benchmark.THIRD_ORDER} | ")
    assert lines[2].count("| jax is missing |") == 1
    assert lines[4].endswith("pgmpy: pgmpy.models is missing | | | | |")
    assert "times reading all tables once" in lines[5]
    assert lines[6] == "| 100 tied edges: built in 0.5 s | | | | |"
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_a_library_with_other_marginals_is_not_timed() -> None:
    expected = np.array([[0.3, 0.7]])
    for shift, answer in ((0.0, "×)"), (1e-4, "other marginals, by 0.0001"), (np.nan, "other marginals, by nan")):
        twin = libraries.Twin(lambda: None, lambda _, shift=shift: expected + shift)
        assert answer in graph_benchmark.beside(1.0, expected, lambda twin=twin: twin, 1)


def test_other_libraries_agree() -> None:
    """Where they are installed."""
    model = graph_benchmark.tree(12, 3)
    with torch.no_grad():
        expected = model(graph_benchmark.nothing(model)).probs[0].double().numpy()
    pytest.importorskip("pgmpy")
    twin = libraries.pgmpy(model)
    np.testing.assert_allclose(twin.marginals(twin.run()), expected, atol=1e-5)
    pytest.importorskip("pgmax")
    twin = libraries.pgmax(model, model.n_layers, compiled=True)
    np.testing.assert_allclose(twin.marginals(twin.run()), expected, atol=1e-5)


def test_time_to_the_paper(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A training ends when validation shows the figure, or says that it does not; the grid is scored by its IoU."""
    rows = (torch.rand(40, 1, generator=generator()) < 0.5).float().expand(40, 6)
    bits = Dataset("toy", "binary", rows[:30], rows[30:], rows[30:], "exact", "")
    settings = Settings(steps=60, batch=10, learning_rate=0.1, validate_every=5)
    rbm = Experiment("rbm/toy", "toy", settings, hidden=3)
    monkeypatch.setattr(time_to_paper, "recipe", lambda name: rbm)
    monkeypatch.setattr(time_to_paper.data, "load", lambda name: bits)
    for goal, done in ((0.9, True), (1e-9, False)):
        monkeypatch.setitem(time_to_paper.GOALS, "digits", ("rbm/toy", goal))
        result = time_to_paper.until("digits")
        assert result.done is done
        assert (result.best <= goal) is done
        assert result.samples == (result.samples if done else 600)
        assert result.samples % 50 == 0
    monkeypatch.setattr("sys.argv", ["bench", "paper", "--only", "digits"])
    assert main() == 0
    assert "| rbm/toy | 0.000 bits | " in (said := capsys.readouterr().out)
    assert "| not within " in said


def test_time_to_the_papers_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = (torch.rand(12, 4, 5, generator=generator()) < 0.3).float()
    labels = torch.randint(3, noisy.shape, generator=generator())
    parts = {"train": labels, "valid": labels, "test": labels}
    emission = {"emission": torch.tensor([0.8, 0.03, 1e-10])}
    grid = Dataset("toy", "grid", noisy, noisy, noisy, "exact", "", truth=parts, statistics=emission)
    settings = Settings(steps=4, batch=6, learning_rate=0.01, validate_every=2)
    first = Settings(steps=2, batch=6, learning_rate=0.01, validate_every=2)
    experiment = Experiment("grid/border", "toy", settings, layers=3, queries="everything", clones=(3, 1, 1), earlier=(first,))
    monkeypatch.setattr(time_to_paper, "recipe", lambda name: experiment)
    monkeypatch.setattr(time_to_paper.data, "load", lambda name: grid)
    monkeypatch.setitem(time_to_paper.GOALS, "grid", ("grid/toy", 101.0))
    result = time_to_paper.until("grid")
    assert (result.done, result.samples) == (False, 36)
    assert 0 < result.best <= 100


def test_how_the_cost_grows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each size, each with the messages that it takes, and a picture."""
    for name, sizes in {"SIDES": (3, 4), "DEPTHS": (2,), "BATCHES": (1, 2), "EDGES": (5,), "SIDE": 3, "DEPTH": 2}.items():
        monkeypatch.setattr(growth, name, sizes)
    done = list(growth.points())
    assert [(point.sweep, point.size, point.messages) for point in done] == [
        *[("pixels on a side", 3, 2 * 40), ("pixels on a side", 4, 2 * 84), ("layers", 2, 2 * 40)],
        *[("images", 1, 2 * 40), ("images", 2, 4 * 40), ("edges", 5, 2 * 5 * growth.GRAPH_LAYERS)],
    ]
    assert growth.Point("layers", 1, 2e-6, 1000).nanoseconds == pytest.approx(2)
    picture = tmp_path / "growth.png"
    monkeypatch.setattr("sys.argv", ["bench", "growth", "--plot", str(picture)])
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| images |") for line in lines) == 2
    assert all(line.count("|") == 5 for line in lines[:8])
    with Image.open(picture) as opened:
        assert opened.format == "PNG"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["graphs", "--only", "frey"], "--only goes with `paper`"), (["--plot", "x.png"], "--plot goes with `growth`")],
)
def test_options_that_belong_elsewhere(words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", *words])
    with pytest.raises(InputError, match=sentence):
        main()
