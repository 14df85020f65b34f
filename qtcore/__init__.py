"""qtcore: loopy belief propagation, unrolled and trained for the queries you ask."""

import signal
import sys

if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # A command: until `qtcore.support.cli.guarded` is there, Ctrl-C ends it without the traceback of an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from qtcore.inference import BP, Engine, Exact, Gibbs, Layer, exact
from qtcore.kernels import backend
from qtcore.learn.query_training import fit
from qtcore.models.dbm import DBM
from qtcore.models.files import available, load
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.pairwise import PairwiseMRF
from qtcore.models.rbm import RBM
from qtcore.query import Query

__all__ = [
    "BP",
    "DBM",
    "RBM",
    "Engine",
    "Exact",
    "GaussianRBM",
    "Gibbs",
    "GridMRF",
    "Layer",
    "PairwiseMRF",
    "Query",
    "available",
    "backend",
    "exact",
    "fit",
    "load",
]
__version__ = "0.1.0"
