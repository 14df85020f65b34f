"""The paper's benchmark, built on the library: its experiments, the cells of its tables, its printed figures."""
