"""Every training of the paper has a name, and its settings."""

import dataclasses
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import qtcore
from qtcore import DBM, RBM, GaussianRBM, GridMRF, Query, data
from qtcore.data import Dataset
from qtcore.errors import InputError, UnknownNameError
from qtcore.learn.query_training import Progress
from qtcore.learn.run import BEST
from qtcore.learn.settings import Settings
from qtcore.models.provenance import Provenance
from qtcore.paper.beyond import ASKED, QUERY_SETS, TRAINED_ON, engine_models, new_models, query_model
from qtcore.paper.experiments import EXPERIMENTS, PHASE, RECIPES, STARTS, Experiment, named, recipe
from qtcore.paper.printed import DATASETS, PUBLISHED


def test_every_pair_of_the_paper_is_there_and_three_that_need_no_data() -> None:
    tables = {f"{kind}/{name}" for kind in ("rbm", "dbm") for name in DATASETS} | {"grbm/frey", "grid/border-fixed"}
    assert len(tables) == 2 * 9 + 2
    others = {"grid/border", "grid/border-glyphs", "grid/border-authors", "grid/drawings", "grbm/frey-sigma"}
    others |= {f"rbm/{name}-cardinality" for name in PUBLISHED} | {"rbm/adult-depths"}
    assert tables | others | new_models().keys() == EXPERIMENTS.keys()
    assert not (tables | others) & new_models().keys()
    assert {experiment.dataset for experiment in EXPERIMENTS.values()} <= set(data.names())


def test_the_settings_are_those_of_the_paper() -> None:
    for name, experiment in EXPERIMENTS.items():
        if name in new_models():
            continue
        kind, dataset = name.removesuffix("-cardinality").removesuffix("-depths").split("/")
        settings = experiment.settings
        assert experiment.name == name
        assert (experiment.queries == "cardinality") == name.endswith("-cardinality")
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


def test_new_trainings_differ_from_the_papers_in_what_they_are_to_show() -> None:
    for name, (like, changes, _, _) in new_models().items():
        experiment, paper = EXPERIMENTS[name], EXPERIMENTS[like]
        assert {key for key, value in vars(experiment).items() if value != getattr(paper, key)} <= changes.keys() | {"name"}
        assert experiment.dataset == paper.dataset
    matrix = {dataset: [query_model(dataset, suffix) for suffix in TRAINED_ON] for dataset in QUERY_SETS}
    assert matrix["adult"][1] == ("rbm", "adult")
    assert matrix["adult"][4] == ("rbm", "adult-cardinality")
    assert matrix["digits"][4] == ("rbm-queries", "digits-cardinality")
    for dataset, models in matrix.items():
        names = ["/".join(model) for model in models if model is not None]
        assert len(set(names)) == len(names)
        assert set(names) <= EXPERIMENTS.keys()
        assert (models[5] is None) == (dataset in ("adult", "mushrooms"))  # patches
        for name, suffix in zip(names, [s for s, model in zip(TRAINED_ON, models, strict=True) if model], strict=True):
            wanted = "uniform" if suffix == "uniform50" else TRAINED_ON[suffix][1]  # the same
            assert EXPERIMENTS[name].queries == wanted
    assert {queries for _, queries in TRAINED_ON.values()} <= set(ASKED.values())  # the diagonal
    assert {f"{kind}/{name}" for kind, name, _ in engine_models()} <= EXPERIMENTS.keys()


@pytest.mark.parametrize(("short", "engine"), [("mf", "mean-field"), ("rw", "reweighted"), ("bp", "bp")])
def test_a_training_through_another_engine(short: str, engine: str, tmp_path: Path) -> None:
    experiment = recipe(f"rbm-{short}/adult")
    experiment = replace(experiment, hidden=3, settings=replace(experiment.settings, steps=6, validate_every=3, batch=10))
    model = experiment.run(bits(), tmp_path / "run")
    assert model.engine.name == engine
    assert model.n_layers == 10
    assert (model.rho is not None) == (engine == "reweighted")
    again = qtcore.load(tmp_path / "run" / BEST)
    assert again.engine == model.engine
    if model.rho is not None:
        assert bool((model.rho != 1).all())
        assert torch.equal(again.rho, model.rho)  # type: ignore[arg-type]
    further = replace(experiment, start=str(tmp_path / "run" / BEST)).build(bits())
    for name, parameter in further.named_parameters():
        assert torch.equal(parameter, dict(model.named_parameters())[name])
    plain = replace(named("rbm/adult"), hidden=3)
    plain.build(bits()).save(tmp_path / "plain.safetensors")
    assert replace(experiment, start=str(tmp_path / "plain.safetensors")).build(bits()).engine.name == engine


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
    assert rbm.provenance == Provenance("rbm/digits", "toy", "stand-in", "qt", 0, asdict(named("rbm/digits").settings))
    assert rbm.image_shape == (3, 4)
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


def test_an_rbm_becomes_the_first_units_of_a_wider_one(tmp_path: Path) -> None:
    data = rows(5, 6, kind="binary")
    torch.manual_seed(1)
    small = replace(named("rbm/adult"), hidden=3).build(data)
    with torch.no_grad():
        for parameter in small.parameters():
            parameter += 0.3
    small.save(tmp_path / "small.safetensors")
    wide = replace(named("rbm/adult"), hidden=5, start=str(tmp_path / "small.safetensors")).build(data)
    assert isinstance(wide, RBM)
    assert wide.W[3:].abs().min() > 0  # begin at random, else nothing would tell them apart
    query = Query(data.train.float(), torch.arange(6).expand(5, 6) < 3)
    torch.testing.assert_close(wide(query).logits, small(query).logits, rtol=0.05, atol=0.02)
    with torch.no_grad():
        wide.W[3:].zero_()
    torch.testing.assert_close(wide(query).logits, small(query).logits)
    with pytest.raises(InputError, match="cannot start rbm/adult"):
        replace(named("rbm/adult"), hidden=2, start=str(tmp_path / "small.safetensors")).build(data)


# ---------------------------------------------------------------------------------------------------------------------
# Phases


def made_by(about: dict[str, Any]) -> list[dict[str, Any]]:
    """What a model's file says of its training: settings and kept step of each phase, the first one first."""
    phases = made_by(about["start"]) if "start" in about else []
    return [*phases, about]


@pytest.mark.parametrize("name", sorted(set(RECIPES) & set(qtcore.available())))
def test_recipes_are_what_made_the_shipped_models(name: str) -> None:
    """Phase by phase: the batch, the layers, the averaging, the seed, and the learning rate of every step that counted."""
    experiment = recipe(name)
    recorded = made_by(qtcore.load(name).provenance.as_dict())[-len(experiment.phases) :]
    for phase, about in zip(experiment.phases, recorded, strict=True):
        was = Settings(**about["settings"])
        for key in ("batch", "warmup", "averaging", "train_layers", "train_depths", "seed"):
            assert getattr(phase, key) == getattr(was, key), key
        if phase.steps is None:
            for key in ("epochs", "schedule", "decay_from", "decay_to", "learning_rate"):
                assert getattr(phase, key) == getattr(was, key), key
            continue
        assert was.steps is not None
        assert phase.steps >= about["step"]
        for step in range(0, about["step"], max(1, about["step"] // 7)):
            assert phase.rate(step, phase.steps) == pytest.approx(was.rate(step, was.steps))


def test_a_start_is_a_shipped_model() -> None:
    for name, start in STARTS.items():
        if name in new_models() and name not in qtcore.available():
            continue
        about = made_by(qtcore.load(name).provenance.as_dict())
        assert about[-len(recipe(name).phases)]["start"]["name"] == start


def toy_experiment(*phases: dict[str, Any], **options: Any) -> Experiment:
    first = Settings(steps=6, batch=5, learning_rate=0.05, validate_every=2, save_every=1)
    *earlier, last = (replace(first, **changes) for changes in phases)
    return replace(named("rbm/digits"), hidden=3, layers=2, settings=last, earlier=tuple(earlier), **options)


def bits(rows_: int = 30) -> Dataset:
    values = (torch.rand(rows_, 6, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    about: dict[str, Any] = {"name": "toy", "kind": "binary", "source": "stand-in", "note": ""}
    return Dataset(**about, train=values, valid=values[:10], test=values)


def weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_phases_go_on_from_the_best_weights_before(tmp_path: Path) -> None:
    """Two phases in one run are two runs, the second of which starts from the first one's best model."""
    both = toy_experiment({}, {"learning_rate": 0.01, "seed": 7}).run(bits(), tmp_path / "both")
    first = toy_experiment({}).run(bits(), tmp_path / "first")
    second = toy_experiment({"learning_rate": 0.01, "seed": 7}, start=str(tmp_path / "first" / BEST)).run(bits())
    assert torch.equal(weights(both), weights(second))
    assert torch.equal(weights(qtcore.load(tmp_path / "both" / PHASE.format(1) / BEST)), weights(first))
    assert [phase["settings"]["learning_rate"] for phase in made_by(both.provenance.as_dict())] == [0.05, 0.01]
    assert both.provenance.seed == 7


@pytest.mark.parametrize("stop_at", [1, 4, 6, 7, 11])
def test_a_run_that_was_stopped_in_any_phase_goes_on(stop_at: int, tmp_path: Path) -> None:
    experiment = toy_experiment({}, {"learning_rate": 0.01})
    whole = experiment.run(bits(), tmp_path / "whole")
    seen: list[int] = []

    def callback(progress: Progress) -> bool:
        seen.append(progress.step)
        return len(seen) == stop_at

    experiment.run(bits(), tmp_path / "stopped", callback=callback)
    assert len(seen) == stop_at
    again = experiment.run(bits(), tmp_path / "stopped", resume=True)
    assert torch.equal(weights(again), weights(whole))
    assert again.provenance == whole.provenance


def test_another_seed_is_another_run_of_all_phases() -> None:
    experiment = toy_experiment({"seed": 2}, {"seed": 5}).seeded(1)
    assert [phase.seed for phase in experiment.phases] == [3, 6]
    assert [phase.steps for phase in experiment.shortened(1000, 50).phases] == [10]
