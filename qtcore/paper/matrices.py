"""Two tables that the paper does not have: which queries to train on, and which engine to train through."""

from typing import NamedTuple

from qtcore.data import SPECIFICATIONS
from qtcore.paper.beyond import (
    ASKED,
    ENGINE_DEPTHS,
    ENGINE_KINDS,
    IMAGES,
    QUERY_SETS,
    TRAINED_ON,
    engine_models,
    query_model,
)
from qtcore.paper.figures import MISSING, Row, Table, chosen_records, mean_over_seeds
from qtcore.paper.records import Record

QUERIES = (
    "Up to 5,000 test rows, at equal distances, and one draw of each kind of query. ± is the standard error over rows. All "
    "models of a dataset start from that of the paper's queries and go on with their own; those with more hidden units start "
    "from that of any number. Of binary variables, more than one bit is worse than a coin."
)
ENGINES = (
    "The first 2,000 test rows (grid: 100 images), one draw of uniform queries. ± is the standard error over test samples. "
    "The models of a dataset are trained with the same settings from the same random weights, each through layers of its own "
    "engine (RBM: 10, Frey: 50, grid: 15); with other numbers of layers they are asked as they are. The budget is small, so "
    "these are not the figures of Table 1. Weights that were not trained through the reweighted engine are asked by it with "
    "the ρ of spanning trees. A Gaussian RBM cannot be reweighted."
)
CROSS_DEPTH = 10
"""Layers of every engine where one answers with the weights of another."""
UNDEFINED = "–"


class Matrix(NamedTuple):
    """Figures with their standard errors; None where a model is missing, or where there is nothing to ask."""

    title: str
    rows: list[str]
    columns: list[str]
    figures: list[list[tuple[float, float] | None]]
    records: list[list[Record]]
    """Those of each row."""

    def with_records(self) -> "Matrix":
        """Its rows that have a record."""
        kept = [place for place, used in enumerate(self.records) if used]
        rows, figures = [self.rows[place] for place in kept], [self.figures[place] for place in kept]
        return self._replace(rows=rows, figures=figures, records=[self.records[place] for place in kept])


def _figure(records: list[Record], part: str) -> tuple[float, float] | None:
    found = mean_over_seeds(records, part)
    return None if found is None else found[:2]


def query_matrices(records: list[Record]) -> list[Matrix]:
    """For each dataset with a record: trained on (rows), asked (columns)."""
    matrices = []
    for dataset in QUERY_SETS:
        columns = {title: part for title, part in ASKED.items() if part != "patches" or dataset in IMAGES}
        rows, figures, used = [], [], []
        for suffix, (title, _) in TRAINED_ON.items():
            place = query_model(dataset, suffix)
            if place is None:
                continue
            chosen, _ = chosen_records(records, "queries", "qt", model=place[0], dataset=place[1])
            rows.append(title)
            figures.append([_figure(chosen, part) for part in columns.values()])
            used.append(chosen)
        if any(used):
            matrices.append(Matrix(SPECIFICATIONS[dataset].heading, rows, [*columns], figures, used))
    return matrices


def engine_matrices(records: list[Record]) -> list[Matrix]:
    """Each engine over depths with the weights trained through it; and each with all weights, after ten layers."""
    own = Matrix("Each engine with the weights trained through it", [], [f"{n} layers" for n in ENGINE_DEPTHS], [], [])
    asked = [f"asked by {engine}" for engine in ENGINE_KINDS.values()]
    cross = Matrix(f"Each engine with the weights of the others, after {CROSS_DEPTH} layers", [], asked, [], [])
    for model, dataset, short in engine_models():
        chosen, _ = chosen_records(records, "engines", "qt", model=model, dataset=dataset)
        title = f"{SPECIFICATIONS[dataset].heading}, trained through {ENGINE_KINDS[short]}"
        depths = [f"{short}-{n}" for n in ENGINE_DEPTHS]
        crossed = [f"{other}-{CROSS_DEPTH}" for other in ENGINE_KINDS]
        for matrix, parts in ((own, depths), (cross, crossed)):
            matrix.rows.append(title)
            matrix.figures.append([_figure(chosen, part) for part in parts])
            matrix.records.append(chosen)
    return [own, cross] if any(own.records) else []


def as_table(matrix: Matrix) -> Table:
    """Its figures as text."""
    rows = []
    for title, figures, used in zip(matrix.rows, matrix.figures, matrix.records, strict=True):
        nothing = UNDEFINED if used else MISSING
        cells = [nothing if figure is None else f"{figure[0]:.3f} ± {figure[1]:.4f}" for figure in figures]
        rows.append(Row(title, [*cells], used))
    return Table(matrix.title, matrix.columns, rows)


def query_tables(records: list[Record]) -> list[Table]:
    return [as_table(matrix) for matrix in query_matrices(records)]


def engine_tables(records: list[Record]) -> list[Table]:
    return [as_table(matrix) for matrix in engine_matrices(records)]


MATRICES = {"queries": query_matrices, "engines": engine_matrices}
"""The groups of tables whose plots are heat maps."""
