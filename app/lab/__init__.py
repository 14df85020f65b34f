"""The LBP lab without its window: small graphs, belief propagation on them, and training them for their queries."""
