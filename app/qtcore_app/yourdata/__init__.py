"""A visitor's own table: reading it, training on it in a process of its own, asking. Nothing here depends on a browser."""
