"""qtcore: loopy belief propagation, unrolled and trained for the queries you ask."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

# Until `qtcore.support.cli.guarded` runs, Ctrl-C ends a command of ours, and nobody else's, without the traceback of an import.
# While Python imports what the module after -m lies in, "-m" stands in the place of that module in argv.
if (
    (
        (sys.orig_argv[-len(sys.argv)].removeprefix("-m") + ".").startswith("qtcore.")
        if sys.argv[:1] == ["-m"]
        else os.path.basename("".join(sys.argv[:1])) == "qtcore"
    )
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from qtcore.inference import BP, Engine, Exact, Gibbs, JoinGraph, Layer, MeanField, Reweighted, exact
from qtcore.inference.questions import consistency, next_question
from qtcore.kernels import backend
from qtcore.learn.query_training import fit
from qtcore.learn.table_training import fit_table
from qtcore.models.dbm import DBM
from qtcore.models.factor_graph import FactorGraph
from qtcore.models.files import available, load
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.one_hot import OneHotModel
from qtcore.models.pairwise import PairwiseMRF
from qtcore.models.rbm import RBM
from qtcore.models.table_model import TableModel
from qtcore.query import Query
from qtcore.tabular import Table, describe

if TYPE_CHECKING:
    from qtcore_app.inline import widget as widget

__all__ = [
    "BP",
    "DBM",
    "RBM",
    "Engine",
    "Exact",
    "FactorGraph",
    "GaussianRBM",
    "Gibbs",
    "GridMRF",
    "JoinGraph",
    "Layer",
    "MeanField",
    "OneHotModel",
    "PairwiseMRF",
    "Query",
    "Reweighted",
    "Table",
    "TableModel",
    "available",
    "backend",
    "consistency",
    "describe",
    "exact",
    "fit",
    "fit_table",
    "load",
    "next_question",
]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """The painter and player for notebooks, on first use: they need the extra `app`, and take a second to import."""
    if name == "widget":
        from qtcore.support.extras import required

        return required("qtcore_app.inline", "app").widget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
