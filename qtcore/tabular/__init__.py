"""Tables of data: cells in from a CSV file or a DataFrame, the columns' kinds and levels, and rows out by name.

A table of data has rows, columns and gaps; what a factor graph calls a table, log-potentials, has nothing to do with it.
"""

from qtcore.tabular.answers import Answer, Answers
from qtcore.tabular.columns import Column
from qtcore.tabular.schema import Schema, describe
from qtcore.tabular.table import Table

__all__ = ["Answer", "Answers", "Column", "Schema", "Table", "describe"]
