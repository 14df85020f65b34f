"""Inference engines, all behind one protocol. They work on graphs and log-potentials and know no model class."""

from qtcore.inference import exact
from qtcore.inference.bp import BP
from qtcore.inference.engine import Engine, Layer
from qtcore.inference.exact import Exact
from qtcore.inference.gibbs import Gibbs
from qtcore.inference.join_graph import JoinGraph
from qtcore.inference.layered import Layered
from qtcore.inference.mean_field import MeanField
from qtcore.inference.reweighted import Reweighted

__all__ = ["BP", "Engine", "Exact", "Gibbs", "JoinGraph", "Layer", "Layered", "MeanField", "Reweighted", "exact"]
