"""Graphs in files in every state of disorder, and tables with zeros of any scale: marginals that are some, or a sentence."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from qtcore import BP, Exact, FactorGraph, logic
from qtcore.models import uai

from ..models.test_networks import BIF, XMLBIF
from ..models.test_uai import SMALL
from ..strategies import factor_graphs, rng
from .support import tried
from .test_calls import sensible

SIZES = (2, 2, 3)
GOOD: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "uai": (SMALL, FactorGraph.from_uai),
    "bif": (BIF, FactorGraph.from_bif),
    "xml": (XMLBIF, FactorGraph.from_xmlbif),
    "evid": ("1\n2 0 1 2 2\n", lambda path: uai.read_evidence(path, SIZES)),
    "MAR": ("MAR\n3 2 0.25 0.75 2 1.0 0.0 3 0.2 0.3 0.5\n", lambda path: uai.read_marginals(path, SIZES)),
    "PR": ("PR\n1.5\n", uai.read_partition),
}
ODD = (
    *("", "0", "1", "2", "3", "-1", "1e400", "-0.0", "1e-320", "nan", "inf", "1_0", "٣", "0x1", "1,5", "1000000000", "9" * 40),
    *(
        "x",
        '"',
        "{",
        "}",
        "(",
        ")",
        "[",
        ";",
        "|",
        "<",
        ">",
        "</",
        "&amp;",
        "&x;",
        "<![CDATA[",
        "<!--",
        "/*",
        "//",
        "\0",
        "\ufeff",
    ),
    *("table", "default", "variable a", "<OUTCOME>", '<!ENTITY a "b">', "\n\n", "MARKOV", "no", "rain"),
)
MANY = 10**4
"""States of a graph that is asked; a file may name many that no table needs."""

_folder = tempfile.TemporaryDirectory()


@st.composite
def files(draw: st.DrawFn, kind: str) -> bytes:
    """A good file with pieces dropped, doubled, replaced or moved, perhaps in another encoding, or with another byte."""
    text = GOOD[kind][0]
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.sampled_from([0, 0, 1, 2, 5, 30]))
        new = draw(st.sampled_from([*ODD, text[start:end] * 2, text[end : end + 20]]) | st.text(max_size=5))
        text = text[:start] + new + text[end:]
    data = bytearray(text.encode(draw(st.sampled_from(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])), "replace"))
    if data and draw(st.integers(0, 4)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@given(st.data(), st.sampled_from(sorted(GOOD)))
def test_files_of_graphs(data: st.DataObject, kind: str) -> None:
    path = Path(_folder.name) / f"graph.{kind}"
    path.write_bytes(data.draw(files(kind)))
    read = tried(f"graphs, {kind}", lambda: GOOD[kind][1](path))
    if isinstance(read, FactorGraph) and sum(read.n_states) < MANY:
        ask(read, read.query({}), BP(n_layers=3))
    elif kind == "MAR" and read is not None:
        assert [len(marginal) for marginal in read] == list(SIZES)
        assert all(bool((marginal >= 0).all()) for marginal in read)
    elif kind == "evid" and read is not None:
        assert all(0 <= state < SIZES[variable] for variable, state in read.items())


def ask(model: FactorGraph, query: Any, engine: Any) -> None:
    marginals = tried("graphs, asked", lambda: model(query, engine=engine))
    if marginals is not None:
        sensible(marginals)


engines = st.builds(
    BP,
    n_layers=st.integers(0, 5),
    schedule=st.sampled_from(["flooding", "sequential", "random", "residual"]),
    damping=st.sampled_from([0.0, 0.0, 0.5, 0.99]),
    temperature=st.sampled_from([1.0, 1.0, 0.0, 0.3, 1e-3, 1e5]),
)


@given(factor_graphs(), st.data())
def test_tables_with_zeros(graph: Any, data: st.DataObject) -> None:
    """Of any scale, a whole table of them too; rules beside them; evidence that they may contradict."""
    scale = data.draw(st.sampled_from([0.0, 1.0, 1.0, 30.0, 1e4, 1e20, 1e38]))
    tables = {name: scale * table.nan_to_num(neginf=0.0) + table.clamp_max(0) for name, table in graph["tables"].items()}
    bits = [i for i, size in enumerate(graph["n_states"]) if size == 2]
    factors = list(graph["factors"])
    for k in range(data.draw(st.integers(0, 2)) if len(bits) > 1 else 0):
        tables[f"rule {k}"] = data.draw(st.sampled_from(logic.RULES))
        factors.append((f"rule {k}", data.draw(st.permutations(bits))))
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    model = tried("graphs, zeros", lambda: FactorGraph(graph["n_states"], tables, factors, graph["hidden"], dtype=dtype))
    if model is None:
        return
    generator = rng(data.draw(st.integers(0, 99)))
    seen = {i: int(torch.randint(model.n_states[i], (), generator=generator)) for i in model.wiring.visible}
    known = {i: state for i, state in seen.items() if data.draw(st.booleans())}
    ask(model, model.query(known), data.draw(engines | st.just(Exact())))
