"""The LBP lab without its user interface: small graphs, belief propagation on them, and query training."""
