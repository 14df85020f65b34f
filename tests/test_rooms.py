"""Who may import whom. Arrows go one way: from the words that everybody uses, over kernels, inference and models, up to the
paper's experiments and the commands."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import qtcore

ROOT = Path(qtcore.__file__).parent
COMMANDS = ("app", "train", "evaluate", "infer", "fetch", "reproduce", "bench", "sample", "doctor", "__main__")
MODULES = sorted(path for path in ROOT.rglob("*.py"))

ORDER = (  # a room imports from itself and from what stands above it
    ("errors",),
    ("support",),
    ("query", "tabular"),
    ("metrics", "evidence", "variables", "logic", "wiring", "potentials", "kernels"),
    ("inference",),
    ("models",),
    ("learn", "data"),
    ("io", "examples", "sklearn"),
    ("paper",),
    COMMANDS,
)
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
NEVER = {  # within what the order allows
    "kernels": {"query", "metrics", "evidence", "variables", "logic", "wiring", "potentials"},
    "inference": {"variables", "learn", "models"},
    "data": {"inference", "models", "learn", "paper"},
    "learn": {"data"},
    "tabular": {"query"},
}


def room(module: str) -> str:
    """Of "qtcore.models.rbm": models."""
    return module.split(".")[1] if "." in module else ""


def name_of(path: Path) -> str:
    return ".".join(("qtcore", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def imports(tree: ast.AST) -> set[str]:
    """Modules of ours that are imported at run time; not those for the type checker alone."""
    result: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            result |= {f"{node.module}.{alias.name}" for alias in node.names}
        result |= imports(node)
    return {name for name in result if name.split(".")[0] in ("qtcore", "qtcore_app", "panel", "param", "bokeh", "holoviews")}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    name = name_of(path)
    own = room(name)
    if not own:  # qtcore itself gathers what is public
        return
    assert own in LEVEL, f"{name} is in no room; give {own} its place in ORDER"
    for used in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert used.startswith("qtcore"), f"{name} imports {used}: the library knows no app"
        other = room(used)
        if other not in LEVEL:  # `import qtcore`, for its version or the public names
            assert own in (*COMMANDS, "paper") or other in qtcore.__all__, f"{name} imports {used}"
        elif other != own:
            sideways = LEVEL[other] == LEVEL[own] and own not in COMMANDS
            assert LEVEL[other] < LEVEL[own] or sideways, f"{name} imports {used}"
            assert other not in NEVER.get(own, ()), f"{name} imports {used}"


def test_the_order_would_notice() -> None:
    source = "from qtcore.learn.query_training import fit\nif TYPE_CHECKING:\n    from qtcore.models.base import Model\n"
    assert imports(ast.parse(source)) == {"qtcore.learn.query_training.fit"}
    assert LEVEL["learn"] > LEVEL["inference"]


@pytest.mark.slow
def test_the_first_answers_import_no_more_than_they_need(tmp_path: Path) -> None:
    """torch's compiler takes as long to import as torch itself; an operator of torch.library.custom_op would do it, and so
    would a random tensor on the device "meta". scikit-learn is for the digits alone."""
    code = """
import sys, torch, qtcore, qtcore.reproduce

flat, image = torch.ones(2, 6), torch.ones(2, 3, 4)
for model, values in (
    (qtcore.RBM(6, 3), flat),
    (qtcore.DBM(6, 3, 2), flat),
    (qtcore.GaussianRBM(6, 3), flat),
    (qtcore.GridMRF(3, 4, (2, 1, 1)), image),
    (qtcore.PairwiseMRF([2] * 6, [(0, 1), (1, 2)]), flat),
):
    query = qtcore.Query(values, torch.rand(values.shape) < 0.5)
    model.save("model.safetensors")
    model = qtcore.load("model.safetensors")
    model(query)
    list(model.trace(query))
print(*{"torch._dynamo", "sklearn", "matplotlib", "panel"} & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("path", sorted((ROOT.parent / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_use_the_library_and_the_widget_alone(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(line for line in cell["source"] if not line.lstrip().startswith(("%", "!")))
            assert not {name for name in imports(ast.parse(source)) if name.startswith("qtcore_app.lab")}
