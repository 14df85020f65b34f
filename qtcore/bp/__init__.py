"""Belief propagation as pure functions of tensors: a message, a layer. The models know these; these know no model."""
