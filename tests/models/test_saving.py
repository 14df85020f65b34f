"""Model files: what is saved is loaded, and everything else is refused by name."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import qtcore
from qtcore import BP, RBM, Exact, GaussianRBM, Gibbs, PairwiseMRF
from qtcore.errors import InputError, ModelFileError, UnknownNameError
from qtcore.models import base, files
from qtcore.models.provenance import Provenance

from ..strategies import KINDS, answer, ask, build, temperature_of

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_saved_is_loaded(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Bit for bit: parameters, dtype, configuration, temperature, what is learned, statistics and notes."""
    model = build(kind, 3, dtype=dtype, n_layers=4, damping=0.2, temperature=1.7, learn_temperature=True)
    model.statistics = {"mean": torch.linspace(0, 1, model.size), "count": torch.tensor(7)}
    model.provenance = Provenance("rbm/faces", "faces", seed=3, history=[[1, 0.5]], other={"runs": [1, 2]})
    model.image_shape = (1, model.size)
    path = tmp_path / "folder" / "model.safetensors"
    state = torch.get_rng_state()
    model.save(path)
    result: Any = qtcore.load(path)
    assert torch.equal(torch.get_rng_state(), state)  # a seeded script goes on as it would have
    assert type(result) is type(model)
    assert result.dtype == dtype
    assert result.config() == model.config()
    assert temperature_of(result) == temperature_of(model)
    assert {n: p.requires_grad for n, p in result.named_parameters()} == {
        n: p.requires_grad for n, p in model.named_parameters()
    }
    for name, tensor in model.state_dict().items():
        assert torch.equal(result.state_dict()[name], tensor)
    query = ask(model, 4)
    assert torch.equal(answer(result(query)), answer(model(query)))
    assert result.provenance == model.provenance
    assert result.image_shape == (1, model.size)
    assert result.statistics.keys() == model.statistics.keys()
    for name, tensor in model.statistics.items():
        assert torch.equal(result.statistics[name], tensor)
        assert result.statistics[name].dtype == tensor.dtype
    result.loss(ask(model, 5, "hard")).backward()  # and it can be trained on


@every_kind
def test_saving_again_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    model = build(kind, 3)
    model.statistics = {"b": torch.zeros(model.size), "a": torch.ones(1)}
    first, second = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    model.save(first)
    qtcore.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["1.safetensors", "2.safetensors"]


ENGINES = [
    BP(),
    BP(n_layers=0),
    BP(n_layers=7, damping=0.25, temperature=0.5),
    BP(until=1e-4, at_most=20, temperature=0.5),
    BP(until=0.0, schedule="flooding"),
    BP(n_layers=3, torch_compile=True),
]


@every_kind
@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_the_engine_is_saved_with_the_model(kind: str, engine: BP, tmp_path: Path) -> None:
    """It once came back as a fixed number of layers. torch.compile is for the machine that loads it to decide."""
    if kind == "GaussianRBM":
        engine = replace(engine, temperature=None)
    model = build(kind, 3, damping=0.2)
    model.engine = engine
    path = tmp_path / "m.safetensors"
    model.save(path)
    result = qtcore.load(path)
    assert result.engine == replace(engine, torch_compile=False)
    assert result.n_layers == model.n_layers
    model.engine = replace(engine, torch_compile=False)
    query = ask(model, 4)
    assert torch.equal(answer(result(query)), answer(model(query)))
    again = tmp_path / "again.safetensors"
    result.save(again)
    assert again.read_bytes() == path.read_bytes()


@every_kind
def test_a_file_without_an_engine_has_that_of_its_configuration(kind: str, tmp_path: Path) -> None:
    """As all files of older versions, and every model whose engine is the one it was made with."""
    model = build(kind, 3, n_layers=4, damping=0.2)
    model.save(tmp_path / "m.safetensors")
    assert "engine" not in about(tmp_path / "m.safetensors")
    assert qtcore.load(tmp_path / "m.safetensors").engine == model.engine


@pytest.mark.parametrize("engine", [Exact(), Gibbs(sweeps=50)], ids=str)
def test_an_engine_that_a_file_cannot_hold(saved: Path, engine: Any) -> None:
    """It once came back as no layers at all. The old file stays."""
    old = saved.read_bytes()
    model = build("RBM")
    model.engine = engine
    message = r"cannot hold the engine .*; set model.engine = qtcore.BP"
    with pytest.raises(InputError, match=message):
        model.save(saved)
    with pytest.raises(InputError, match=message):
        qtcore.fit(model, torch.ones(8, 4), steps=1, folder=saved.parent / "run", engine=BP(n_layers=2))
    assert saved.read_bytes() == old
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize(
    "engine",
    [
        3,
        "bp",
        [1],
        {"colour": 1},
        {"torch_compile": True},
        {"n_layers": -1},
        {"n_layers": 2.5},
        {"n_layers": True},
        {"n_layers": "3"},
        {"n_layers": None},
        {"n_layers": 10**12},
        {"until": 0.1, "at_most": 10**30},
        {"until": -1},
        {"until": True},
        {"until": float("nan")},
        {"at_most": 3},
        {"damping": 1.0},
        {"damping": [0.5]},
        {"temperature": float("inf")},
        {"schedule": "backwards"},
        {"schedule": ["flooding"]},
    ],
    ids=str,
)
def test_an_engine_that_makes_no_sense(saved: Path, engine: Any) -> None:
    rewrite(saved, engine=engine)
    refused(saved, "configuration that RBM does not understand")


def test_a_configuration_of_too_many_layers(saved: Path) -> None:
    rewrite(saved, config={"n_visible": 4, "n_hidden": 3, "n_layers": 10**12})
    refused(saved, "n_layers must be at most 1000000, not 1000000000000")


def test_a_model_is_made_of_safetensors_and_json(tmp_path: Path) -> None:
    build("RBM").save(tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        about = json.loads(file.metadata()["qtcore"])
        assert set(file.keys()) == {"W", "c_v", "c_h", "T"}
    assert about["version"] == 1
    assert about["model"] == "RBM"
    assert about["config"]["n_visible"] == 4


def test_parameters_that_share_or_stride(tmp_path: Path) -> None:
    """Transposed and sliced tensors are stored as the numbers that they show."""
    model = RBM(2, 3)
    model.W = torch.nn.Parameter(torch.arange(12.0).view(4, 3).T[:, 1:3])
    model.statistics = {"half": torch.arange(4)[::2]}
    model.save(tmp_path / "m.safetensors")
    result: Any = qtcore.load(tmp_path / "m.safetensors")
    assert torch.equal(result.W, model.W)
    assert result.statistics["half"].tolist() == [0, 2]


def test_load_onto_a_device(tmp_path: Path) -> None:
    build("PairwiseMRF").save(tmp_path / "m.safetensors")
    assert qtcore.load(tmp_path / "m.safetensors", device="cpu").device == torch.device("cpu")


# ---------------------------------------------------------------------------------------------------------------------
# Names of shipped models


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "checkpoint_folder", lambda: tmp_path)
    for name in ("rbm/adult", "rbm/web", "grbm/frey", "grid/border"):
        build("RBM", 1).save(tmp_path / f"{name}.safetensors")
    return tmp_path


def test_shipped_models_go_by_their_names(shipped: Path) -> None:
    assert qtcore.available() == ["grbm/frey", "grid/border", "rbm/adult", "rbm/web"]
    assert isinstance(qtcore.load("rbm/adult"), RBM)
    assert isinstance(qtcore.load(shipped / "rbm" / "adult.safetensors"), RBM)


def test_an_unknown_name_is_answered_with_the_near_ones(shipped: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no model and no file named 'rbm/adlut'; did you mean rbm/adult") as caught:
        qtcore.load("rbm/adlut")
    assert "grid/border" not in str(caught.value)
    with pytest.raises(UnknownNameError, match="known names: grbm/frey, grid/border, rbm/adult, rbm/web"):
        qtcore.load("xyzzy")


def test_an_unknown_name_where_nothing_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "checkpoint_folder", lambda: tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match="known names: none yet"):
        qtcore.load("rbm/adult")


# ---------------------------------------------------------------------------------------------------------------------
# Files that are not models


def refused(path: Path, message: str) -> None:
    """One sentence, with the path in it."""
    with pytest.raises(ModelFileError, match=message) as caught:
        qtcore.load(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, OSError)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    build("RBM").save(path)
    return path


def rewrite(path: Path, tensors: Any = None, **changes: Any) -> None:
    """The same file with something else in its description, or with other tensors."""
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["qtcore"]) | changes
        result: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(result | (tensors or {}), path, {"qtcore": json.dumps(about)})


def test_a_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "nothing.safetensors", "does not exist")


def test_a_folder(tmp_path: Path) -> None:
    refused(tmp_path, "not a complete safetensors file")


@pytest.mark.parametrize("kept", [0, 4, 20, 100, -1])
def test_a_truncated_file(saved: Path, kept: int) -> None:
    saved.write_bytes(saved.read_bytes()[:kept])
    refused(saved, "not a complete safetensors file")


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip archive", b"\xff" * 200, b'{"not": "safetensors"}' * 9])
def test_another_kind_of_file(saved: Path, content: bytes) -> None:
    saved.write_bytes(content)
    refused(saved, "not a complete safetensors file")


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}])
def test_a_foreign_safetensors_file(saved: Path, metadata: Any) -> None:
    save_file({"W": torch.zeros(2, 2)}, saved, metadata)
    refused(saved, "not one that qtcore wrote")


@pytest.mark.parametrize("text", ["no json", "[]", "3", '"text"', "null", "{}", "[" * 100000])
def test_a_description_that_is_none(saved: Path, text: str) -> None:
    save_file({"W": torch.zeros(2, 2)}, saved, {"qtcore": text})
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        qtcore.load(saved)


@pytest.mark.parametrize("version", [3, 99, "1", None, 0, 1.5])
def test_a_format_that_this_version_cannot_read(saved: Path, version: Any) -> None:
    rewrite(saved, version=version)
    refused(saved, "format version")
    if version == 99:
        refused(saved, f"reads {base.FORMAT_VERSION} at most; upgrade")


@pytest.mark.parametrize("kind", ["CRBM", "", None, 3, []])
def test_a_model_of_an_unknown_kind(saved: Path, kind: Any) -> None:
    rewrite(saved, model=kind)
    refused(saved, "unknown kind")


@pytest.mark.parametrize(
    "config",
    [
        {},
        None,
        [4, 3],
        {"n_visible": 4},
        {"n_visible": 4, "n_hidden": 3, "colour": "red"},
        {"n_visible": "four", "n_hidden": 3},
        {"n_visible": 0, "n_hidden": 3},
        {"n_visible": 10**12, "n_hidden": 10**12},
        {"n_visible": 10**30, "n_hidden": 3},
        {"n_visible": 4, "n_hidden": 3, "damping": 2},
        {"n_visible": 4, "n_hidden": 3, "device": "cuda"},
        {"n_visible": 4, "n_hidden": 3, "device": "meta"},
        {"n_visible": 4, "n_hidden": 3, "dtype": "float16"},
        {"n_visible": 4, "n_hidden": 3, "temperature": 2},
    ],
)
def test_a_configuration_that_makes_no_model(saved: Path, config: Any) -> None:
    rewrite(saved, config=config)
    refused(saved, "configuration that RBM does not understand")


@pytest.mark.parametrize("notes", [None, 3, "text", [1]])
def test_notes_that_are_none(saved: Path, notes: Any) -> None:
    rewrite(saved, notes=notes)
    with pytest.raises(ModelFileError, match="does not understand"):
        qtcore.load(saved)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("PairwiseMRF", {"n_states": ["2", 3, 2, 4]}),
        ("PairwiseMRF", {"hidden": [2.5]}),
        ("GridMRF", {"clones": [2.0, "1", 1]}),
        ("GridMRF", {"local_evidence": "no"}),
        ("GridMRF", {"height": 10**9, "width": 10**9}),
        ("GaussianRBM", {"schedule": ["flooding"]}),
    ],
)
def test_a_configuration_that_is_not_what_was_written(kind: str, change: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    build(kind).save(path)
    rewrite(path, config=about(path)["config"] | change)
    refused(path, f"configuration that {kind} does not understand")


@pytest.mark.parametrize("shape", [5, "ab", [4], [1, 2, 2], [-2, -2], [2.0, 2.0], [True, 4], {"a": 1, "b": 2}])
def test_an_image_shape_that_is_none(saved: Path, shape: Any) -> None:
    rewrite(saved, notes={"image_shape": shape})
    refused(saved, "its image shape is")


@pytest.mark.parametrize("shape", [[10**9, 10**9], [2, 3]])
def test_an_image_of_other_variables(saved: Path, shape: Any) -> None:
    """A table of names for each of its pixels once took gigabytes."""
    rewrite(saved, notes={"image_shape": shape})
    refused(saved, r"does not fit its own configuration: the image_shape \(\d+, \d+\) does not have the 4 variables")
    model = build("RBM")
    model.image_shape = shape
    with pytest.raises(InputError, match="does not have the 4 variables of the model"):
        model.save(saved)
    with pytest.raises(InputError, match="does not have the 4 variables of the model"):
        qtcore.fit(model, torch.ones(8, 4), steps=1, folder=saved.parent / "run")


def test_statistics_of_other_variables(saved: Path) -> None:
    rewrite(saved, tensors={"statistics.mean": torch.zeros(5)})
    refused(saved, "does not fit its own configuration: the statistic 'mean' has the shape")
    model = build("RBM")
    model.statistics = {"mean": torch.zeros(5)}
    with pytest.raises(InputError, match=r"the statistic 'mean' has the shape \[5\], not \[\] or \[4\] as the variables"):
        model.save(saved)


def test_a_graph_whose_answers_would_be_huge(tmp_path: Path) -> None:
    """One variable of 200,000 states makes the answers of 4000 others as wide."""
    path = tmp_path / "m.safetensors"
    model = PairwiseMRF([2], [])
    model.save(path)
    rewrite(path, tensors={"graph.n_states": torch.tensor([200_000] + [1] * 4000, dtype=torch.int32)})
    refused(path, "4001 variables with up to 200000 states are too many")
    in_words(model, path, n_states=[200_000] + [1] * 4000)
    refused(path, "4001 variables with up to 200000 states are too many")


def test_every_shipped_model_is_what_a_file_may_hold() -> None:
    for name in qtcore.available():
        qtcore.load(name).check_data_format()


def test_a_configuration_of_another_size(saved: Path) -> None:
    """Nothing is allocated for it: the shapes are compared first."""
    rewrite(saved, config={"n_visible": 10**9, "n_hidden": 3})
    refused(saved, r"does not fit its own configuration: W is \(3, 4\), not \(3, 1000000000\)")


def test_a_tensor_too_few_or_too_many(saved: Path) -> None:
    rewrite(saved, tensors={"more": torch.zeros(1)})
    refused(saved, "more is")
    save_file({"W": torch.zeros(3, 4)}, saved, {"qtcore": json.dumps(about(saved))})
    refused(saved, r"T is None, not \(\)")


def about(path: Path) -> Any:
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["qtcore"])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite(saved: Path, bad: float) -> None:
    rewrite(saved, tensors={"c_v": torch.full((4,), bad, dtype=torch.float64)})
    refused(saved, "numbers in c_v that are not finite")


def test_numbers_of_another_type(saved: Path) -> None:
    rewrite(saved, tensors={"c_v": torch.zeros(4, dtype=torch.int64)})
    refused(saved, "numbers in c_v")
    rewrite(saved, tensors={"c_v": torch.zeros(4, dtype=torch.float32)})
    refused(saved, "numbers of different types")


# ---------------------------------------------------------------------------------------------------------------------
# When writing fails


def test_a_full_disk_leaves_the_old_model(tmp_path: Path) -> None:
    """A real limit on the size of files, as a stand-in for a full disk."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "model.safetensors"
    build("RBM").save(path)
    old = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    try:
        with pytest.raises(OSError, match=r"model\.safetensors"):
            RBM(1000, 1000).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_notes_that_are_no_json_leave_the_old_model(saved: Path) -> None:
    old = saved.read_bytes()
    model = GaussianRBM(3, 2)
    model.provenance.other = {"path": Path("x")}
    with pytest.raises(TypeError):
        model.save(saved)
    assert saved.read_bytes() == old


def in_words(model: Any, path: Path, **changes: Any) -> None:
    """As version 1 wrote a graph: all of its configuration in the header."""
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    about = {"version": 1, "model": type(model).__name__, "config": model.config() | changes, "notes": {}}
    save_file(tensors, path, {"qtcore": json.dumps(about)})
