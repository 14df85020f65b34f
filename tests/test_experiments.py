"""Every training of the paper has a name, and its settings."""

import dataclasses
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from qtcore import DBM, RBM, GaussianRBM, GridMRF, Query, data
from qtcore.data import Dataset
from qtcore.errors import UnknownNameError
from qtcore.experiments import BINARY_SETS, EXPERIMENTS, named


def test_every_pair_of_the_paper_is_there_and_three_that_need_no_data() -> None:
    tables = {f"{kind}/{name}" for kind in ("rbm", "dbm") for name in BINARY_SETS} | {"grbm/frey", "grid/border"}
    assert len(tables) == 2 * 9 + 2
    assert tables | {"grid/border-glyphs", "grid/border-authors"} == EXPERIMENTS.keys()
    assert {experiment.dataset for experiment in EXPERIMENTS.values()} <= set(data.names())


def test_the_settings_are_those_of_the_paper() -> None:
    for name, experiment in EXPERIMENTS.items():
        kind, dataset = name.split("/")
        settings = experiment.settings
        assert experiment.name == name
        assert settings.steps is None
        assert (settings.schedule, settings.averaging, settings.seed) == ("constant", 0.0, 0)
        if kind in ("rbm", "dbm"):
            assert experiment.hidden == {"nips": 200, "web": 100}.get(dataset, 50)
            assert (experiment.layers, experiment.temperature, experiment.learn_temperature) == (10, 5.0, True)
            assert settings.learning_rate == (0.01 if dataset in ("adult", "dna") else 0.003)
            assert (settings.batch, settings.epochs) == (500, 200 if dataset == "nips" else 1000)
        elif kind == "grbm":
            assert (experiment.hidden, experiment.layers, settings.batch, settings.epochs) == (200, 50, 200, 50)
            assert settings.learning_rate == 0.005
        else:
            assert (experiment.layers, experiment.clones, experiment.temperature) == (15, (64, 1, 1), 1.0)
            assert (settings.batch, settings.epochs, settings.learning_rate) == (50, 10, 0.01)
            assert experiment.queries == "everything"
            assert experiment.local_evidence == (dataset != "border-authors")


def test_experiments_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        EXPERIMENTS["rbm/adult"].hidden = 3  # type: ignore[misc]


def test_an_unknown_name_shows_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no experiment named 'rbm/digit'; did you mean rbm/digits or dbm/digits"):
        named("rbm/digit")


def rows(*shape: int, **options: object) -> Dataset:
    part = torch.zeros(shape)
    about = {"name": "toy", "source": "stand-in", "note": "", "train": part, "valid": part, "test": part}
    return Dataset(**(about | options))  # type: ignore[arg-type]


def test_models_are_built_for_their_data() -> None:
    rbm = named("rbm/digits").build(rows(5, 12, kind="soft", image_shape=(3, 4)))
    assert isinstance(rbm, RBM)
    assert (tuple(rbm.W.shape), rbm.n_layers, float(rbm.T.detach()), rbm.T.requires_grad) == ((50, 12), 10, 5.0, True)
    expected = {
        "experiment": "rbm/digits",
        "dataset": "toy",
        "source": "stand-in",
        "image_shape": [3, 4],
        "method": "qt",
        "seed": 0,
    }
    assert rbm.notes == expected | {"settings": asdict(named("rbm/digits").settings)}
    dbm = named("dbm/nips").build(rows(5, 12, kind="binary"))
    assert isinstance(dbm, DBM)
    assert (tuple(dbm.W1.shape), tuple(dbm.W2.shape)) == ((200, 12), (200, 200))
    grbm = named("grbm/frey").build(rows(5, 12, kind="gaussian", statistics={"maximum": 255.5, "mean": torch.ones(12)}))
    assert isinstance(grbm, GaussianRBM)
    assert (tuple(grbm.W.shape), grbm.n_layers, grbm.schedule) == ((200, 12), 50, "sequential")
    assert float(grbm.statistics["maximum"]) == 255.5
    for name, own in (("grid/border", True), ("grid/border-authors", False)):
        emission = torch.tensor([0.7, 0.1, 1e-10], dtype=torch.float64)
        grid = named(name).build(rows(5, 6, 7, kind="grid", statistics={"emission": emission}))
        assert isinstance(grid, GridMRF)
        assert (grid.height, grid.width, sum(grid.clones), grid.n_layers, grid.local_evidence) == (6, 7, 66, 15, own)
        torch.testing.assert_close(grid.emission.double(), emission, check_dtype=False)


def test_a_start_leaves_the_data_their_own_emission(tmp_path: Path) -> None:
    grids = {}
    for name, on in (("first", 0.7), ("second", 0.6)):
        start = str(tmp_path / "first.safetensors") if name == "second" else None
        emission = torch.tensor([on, 0.1, 1e-10], dtype=torch.float64)
        experiment = replace(named("grid/border-authors"), clones=(3, 1, 1), start=start)
        grids[name] = experiment.build(rows(5, 6, 7, kind="grid", statistics={"emission": emission}))
        grids[name].save(tmp_path / f"{name}.safetensors")
    first, second = (dict(grids[name].named_parameters()) for name in grids)
    assert all(torch.equal(first[name], second[name]) for name in first if name.startswith("potentials"))
    assert [round(float(grid.emission[0]), 3) for grid in grids.values()] == [0.7, 0.6]  # type: ignore[index, arg-type]


def test_an_rbm_becomes_the_lower_part_of_a_dbm(tmp_path: Path) -> None:
    data = rows(5, 6, kind="binary")
    torch.manual_seed(1)
    rbm = replace(named("rbm/adult"), hidden=3).build(data)
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter += 0.3
    rbm.save(tmp_path / "rbm.safetensors")
    dbm = replace(named("dbm/adult"), hidden=3, start=str(tmp_path / "rbm.safetensors")).build(data)
    assert isinstance(dbm, DBM)
    assert dbm.W2.abs().min() > 0  # begins at random, else nothing would tell its units apart
    query = Query(data.train.float(), torch.arange(6).expand(5, 6) < 3)
    torch.testing.assert_close(dbm(query).logits, rbm(query).logits, rtol=0.05, atol=0.01)
    with torch.no_grad():
        dbm.W2.zero_()
    torch.testing.assert_close(dbm(query).logits, rbm(query).logits)
