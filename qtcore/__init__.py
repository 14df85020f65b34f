"""qtcore: loopy belief propagation, unrolled and trained for the queries that you ask."""

from qtcore.learn.query_training import fit
from qtcore.models.base import Layer, available, load
from qtcore.models.dbm import DBM
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import GridMRF
from qtcore.models.pairwise import PairwiseMRF
from qtcore.models.rbm import RBM
from qtcore.query import Query

__all__ = ["DBM", "RBM", "GaussianRBM", "GridMRF", "Layer", "PairwiseMRF", "Query", "available", "fit", "load"]
__version__ = "0.1.0"
