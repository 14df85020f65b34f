"""What all tests share: how Hypothesis draws, and one thread."""

import torch
from hypothesis import HealthCheck, settings

# Drawn anew from the same seed in every run, so that a failure is there again tomorrow.
settings.register_profile(
    "qtcore", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("qtcore")

# The tensors here are tiny: on a busy machine a second thread costs a hundred times what it saves.
torch.set_num_threads(1)
