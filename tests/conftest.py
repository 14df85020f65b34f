"""What all tests share: how Hypothesis draws, one thread, and no minutes spent in torch.compile."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

from qtcore.bp import binary, gaussian
from qtcore.models import grid

# Drawn anew from the same seed in every run, so that a failure is there again tomorrow.
settings.register_profile(
    "qtcore", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("qtcore")

# The tensors here are tiny: on a busy machine a second thread costs a hundred times what it saves.
torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _layers_as_they_are() -> Iterator[None]:
    """A compiled layer is our own machine code or, where that cannot go, the eager layer: torch.compile takes up to a
    minute for each. tests/bp/test_compiled.py puts it back."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (binary, gaussian, grid):
            patch.setattr(module, "torch_compiled", lambda function: function)
        yield
