"""Internal helpers: atomic file writes, command lines, progress bars, tensors."""
