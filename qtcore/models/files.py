"""Saved models: the shipped ones by name, any other by its path."""

import json
import os
import reprlib
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from qtcore.errors import InputError, ModelFileError, UnknownNameError, nearest
from qtcore.inference import BP, Layered
from qtcore.inference.bp import SCHEDULES
from qtcore.inference.reweighted import LEARNED, TREES, attach
from qtcore.models.base import ENGINE_OPTIONS, ENGINES, FORMAT, FORMAT_VERSION, GRAPH, STATISTICS, Model
from qtcore.models.provenance import Provenance


def checkpoint_folder() -> Path:
    """The folder of the shipped models: in the installed package, or next to it in a clone."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "assets" / "checkpoints"
    return inside if inside.is_dir() else package.parent / "assets" / "checkpoints"


def available() -> list[str]:
    """Names of the shipped models, such as "grbm/frey".

    Example:
        >>> import qtcore
        >>> "grbm/frey" in qtcore.available()
        True
    """
    folder = checkpoint_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.safetensors"))


def load(name_or_path: "str | os.PathLike[str]", device: "torch.device | str" = "cpu") -> Model:
    """A saved model, by the name of a shipped one ("grbm/frey") or by its path.

    Example:
        >>> import tempfile, torch, qtcore
        >>> model = qtcore.RBM(6, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/mine.safetensors")
        ...     again = qtcore.load(f"{folder}/mine.safetensors")
        >>> torch.equal(model.W, again.W)
        True
    """
    names = available()
    if str(name_or_path) in names:
        path = checkpoint_folder() / f"{name_or_path}.safetensors"
    else:
        path = Path(name_or_path)
        if not path.exists() and path.suffix != ".safetensors":
            raise UnknownNameError(
                f"there is no model and no file named {str(name_or_path)!r}; {nearest(str(name_or_path), names)}"
            )
    try:
        return _read(path, device)
    except ModelFileError:
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} does not exist.") from error
    except (SafetensorError, OSError) as error:  # a folder, an unreadable file, a truncated file
        raise ModelFileError(f"{path} is not a complete safetensors file ({error}).") from error


def from_bytes(data: bytes) -> Model:
    """A model from the bytes of its file, checked as any file is."""
    with tempfile.TemporaryDirectory() as folder:  # safetensors reads the words about a model from a file alone
        path = Path(folder) / "model.safetensors"
        path.write_bytes(data)
        return load(path)


def _read(path: Path, device: "torch.device | str") -> Model:
    with safe_open(path, framework="pt", device=str(device)) as file:
        try:
            about = json.loads((file.metadata() or {})[FORMAT])
            version, name = about["version"], about["model"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ModelFileError(f"{path} is a safetensors file, but not one that qtcore wrote.") from error
        if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
            raise ModelFileError(
                f"{path} has format version {version}, but this qtcore reads {FORMAT_VERSION} at most; upgrade it."
            )
        kind = Model.registry.get(name) if isinstance(name, str) else None
        if kind is None:
            raise ModelFileError(f"{path} holds a model of the unknown kind {name!r}.")
        arrays = {name.removeprefix(GRAPH): file.get_tensor(name).cpu() for name in file.keys() if name.startswith(GRAPH)}  # noqa: SIM118
        try:
            config = kind.unpacked(dict(about["config"]), arrays)
            empty = _empty(kind, about, config, arrays)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: torch, for sizes that overflow
            raise ModelFileError(f"{path} has a configuration that {kind.__name__} does not understand ({error}).") from error
        if "rho" in file.keys():  # noqa: SIM118  (not a dict)
            _weigh(path, empty)
        expected = {key: tuple(tensor.shape) for key, tensor in empty.state_dict().items()}
        names = [name for name in file.keys() if not name.startswith(GRAPH)]  # noqa: SIM118  (not a dict)
        tensors = {name: file.get_tensor(name) for name in names}
    statistics = {name.removeprefix(STATISTICS): tensors.pop(name) for name in list(tensors) if name.startswith(STATISTICS)}
    tensors = empty.upgraded(tensors)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected != shapes:
        wrong = sorted(name for name in expected.keys() | shapes.keys() if expected.get(name) != shapes.get(name))
        name = wrong[0]
        raise ModelFileError(
            f"{path} does not fit its own configuration: {name} is {shapes.get(name)}, not {expected.get(name)}."
        )
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not _proper(tensor, name.startswith(kind.may_hold_zeros)):
            raise ModelFileError(f"{path} holds numbers in {name} that are not finite.")
        if name == "rho" and not bool((tensor > 0).all()):
            raise ModelFileError(f"{path} holds numbers in {name} that are not positive.")
        if tensor.dtype != tensors[next(iter(expected))].dtype:
            raise ModelFileError(f"{path} holds numbers of different types; {name} is {tensor.dtype}.")
    empty.statistics = statistics
    try:
        empty.check_data_format()
    except InputError as error:
        raise ModelFileError(f"{path} does not fit its own configuration: {error}") from error
    with torch.random.fork_rng(devices=[]), torch.device(device):  # the random initial weights are overwritten below
        model = kind(**config)
    model.engine = empty.engine
    if empty.rho is not None:
        attach(model)
        model.engine.prepare(model)
    learned = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    model.load_state_dict(tensors, assign=True)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(learned[name])
    model.provenance = empty.provenance
    model.statistics, model.image_shape = empty.statistics, empty.image_shape
    return model


def _empty(kind: type[Model], about: dict[str, Any], config: dict[str, Any], arrays: dict[str, torch.Tensor]) -> Model:
    """The described model without numbers; raise a ValueError (or what its constructor raises) for anything that `Model.save`
    does not write."""
    given, record = dict(about["config"]), dict(about["notes"])
    image_shape = _image_shape(record.pop("image_shape", None))
    provenance = Provenance.from_dict(record)
    for name in given.keys() & {"device", "dtype"}:
        raise ValueError(f"its configuration has the unknown option {name!r}")
    with torch.device("meta"):  # shapes only, so that a small file cannot cause a huge allocation
        empty = kind(**config)
    short, long = empty.packed() if arrays else (empty.config(), {})  # older files have all of it in words
    written = json.loads(json.dumps(short))
    for name, value in given.items():
        if name not in written or value != written[name]:
            raise ValueError(f"its configuration has the {name} {reprlib.repr(value)}")
    for name, array in arrays.items():
        if name not in long or array.dtype != long[name].dtype or not torch.equal(array, long[name]):
            raise ValueError(f"its graph has other {name} than it seems to have")
    empty.engine = _engine(about.get("engine")) or empty.engine
    empty.provenance, empty.image_shape = provenance, image_shape or empty.image_shape
    return empty


def _weigh(path: Path, empty: Model) -> None:
    """Give a model edge weights, if it is one that can have them."""
    try:
        attach(empty)
    except InputError as error:
        raise ModelFileError(f"{path} does not fit its own configuration: {error}") from error


def _proper(tensor: torch.Tensor, may_hold_zeros: bool) -> bool:
    """Whether all numbers are finite, or −∞ where that is the log-potential of a zero."""
    finite = tensor.isfinite()
    return bool((finite | tensor.isneginf() if may_hold_zeros else finite).all())


def _engine(stored: Any) -> Layered | None:
    """The engine as stored in a file, None if its configuration says it all."""
    if stored is None:
        return None
    options = dict(stored)
    kind = ENGINES.get(options.pop("name", BP.name))
    if kind is None:
        raise ValueError(f"its engine is {reprlib.repr(stored)}")
    for name, value in options.items():
        if name not in ENGINE_OPTIONS:
            raise ValueError(f"its engine has the unknown option {name!r}")
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if name in ("schedule", "rho"):
            known = (known and name == "rho") or value in (SCHEDULES if name == "schedule" else (LEARNED, TREES))
        if not known:
            raise ValueError(f"its engine has the {name} {value!r}")
    return kind(**options)


def _image_shape(stored: Any) -> tuple[int, int] | None:
    """Height and width as stored in a file."""
    if stored is None or stored == []:
        return None
    if not (isinstance(stored, list) and len(stored) == 2 and all(type(side) is int and side > 0 for side in stored)):
        raise ValueError(f"its image shape is {reprlib.repr(stored)}")
    return stored[0], stored[1]
