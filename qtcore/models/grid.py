"""The 8-connected grid MRF with clones (main text, "Grid Markov Random Field"; supplement, "model details")."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from qtcore import evidence
from qtcore.errors import InputError
from qtcore.models.base import TemperedModel, positive
from qtcore.potentials import GridPotentials
from qtcore.query import Mask, Query, fixed
from qtcore.support.tensors import normal
from qtcore.variables import Labels

LABELS = ("CONTOUR", "OUT", "IN")

KINDS = ("vertical", "horizontal", "diagonal", "antidiagonal")
"""The four tables, in the order of `qtcore.potentials.DIRECTIONS`."""

MAX_PIXELS = 10**8
"""The largest image; messages of a larger one would fit in no memory."""

MIN_EMISSION = 1e-30
"""No pixel rules out a label by itself: evidence that contradicts all labels would have no answer."""


class GridMRF(TemperedModel):
    """Categorical pixels on a grid, connected to their 8 neighbours by four tied tables of log-potentials.

    The states are the clones of CONTOUR, then those of OUT, then those of IN (64 + 1 + 1 in the paper). A query's values
    are noisy images [B, height, width] in [0, 1] of any size, or likelihoods of the labels [B, height, width, 3]; marginals
    are over the three labels.

    Stored tensors: `potentials` with the keys "vertical" (index 0 = upper pixel), "horizontal" (0 = left), "diagonal"
    (0 = upper left) and "antidiagonal" (0 = lower left), each [S, S]; `emission` [3] = p(pixel on | CONTOUR, OUT, IN), fixed.

    Args:
        local_evidence: whether a pixel's belief includes its own evidence, as in the paper (the authors' code leaves it out).

    Example:
        >>> import torch, qtcore
        >>> model = qtcore.GridMRF(height=5, width=6, clones=(4, 1, 1), n_layers=3)
        >>> noisy = torch.zeros(1, 5, 6)
        >>> model(qtcore.Query(noisy, torch.ones(1, 5, 6, dtype=torch.bool))).probs.shape  # over CONTOUR, OUT, IN
        torch.Size([1, 5, 6, 3])
    """

    def __init__(
        self,
        height: int = 30,
        width: int = 30,
        clones: Sequence[int] = (64, 1, 1),
        n_layers: int = 15,
        local_evidence: bool = True,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        damping: float = 0.0,
        device: "torch.device | str | None" = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(n_layers, damping, temperature, learn_temperature, **factory)
        positive("height", height)
        positive("width", width)
        if height * width > MAX_PIXELS:
            raise InputError(f"an image of {height}×{width} pixels is too large; give at most {MAX_PIXELS} pixels.")
        self.height, self.width = height, width
        try:
            self.clones = tuple(int(count) for count in clones)
        except (TypeError, ValueError) as error:
            raise InputError(f"clones must be three whole numbers, not {clones!r}.") from error
        if len(self.clones) != len(LABELS) or min(self.clones) < 1:
            raise InputError(f"clones must give at least one state to each of {', '.join(LABELS)}, not {list(self.clones)}.")
        if not isinstance(local_evidence, bool):
            raise InputError(f"local_evidence must be True or False, not {local_evidence!r}.")
        self.local_evidence = local_evidence
        self.variables, self.image_shape = Labels((None, None), LABELS), (height, width)
        states = sum(self.clones)
        self.potentials = nn.ParameterDict({kind: nn.Parameter(normal(states, states, **factory)) for kind in KINDS})
        self.emission = nn.Parameter(torch.tensor([0.8, 0.033, 1e-10], **factory), requires_grad=False)
        label = torch.tensor([i for i, count in enumerate(self.clones) for _ in range(count)], device=device)
        self.register_buffer("label", label, persistent=False)

    label: Tensor

    def config(self) -> dict[str, Any]:
        sizes = {
            "height": self.height,
            "width": self.width,
            "clones": self.clones,
            "local_evidence": self.local_evidence,
        }
        return sizes | self._tempered_config()

    @property
    def size(self) -> int:
        """The number of pixels of an image of the model's own size."""
        return self.height * self.width

    def target(self, query: Query) -> Tensor:
        """Every pixel by default: evidence (the pixel's reading) and target (its label) are different things."""
        return torch.ones_like(query.observed, dtype=torch.bool) if query.given_target is None else query.given_target

    def queries(self) -> Mask:
        """Everything is observed, and every pixel is scored."""
        return fixed()

    def graph(self) -> GridPotentials:
        tables = torch.stack([self.potentials[kind] for kind in KINDS])
        return GridPotentials(tables, self.clones, self.local_evidence)

    def evidence(self, query: Query, dtype: torch.dtype | None = None) -> Tensor:
        """log of w·p(v | label) + (1−w)/2 for every label [B, height, width, 3]; exactly 0 where unobserved. Of likelihoods
        in the place of readings, log of w·likelihood + (1−w)/3."""
        dtype = dtype or self.dtype
        if query.values.dim() > query.observed.dim():
            likelihood = torch.where(query.observed[..., None] > 0, query.values, 1).to(dtype)
            likelihood = (likelihood / likelihood.amax(-1, keepdim=True)).clamp_min(MIN_EMISSION)
            n_labels = torch.full((), len(LABELS), dtype=dtype, device=query.device)
            weight = query.observed.to(dtype)
            return evidence.categorical(likelihood / likelihood.sum(-1, keepdim=True), weight, n_labels)
        emission = self.emission.to(dtype)
        on, off = emission.clamp(MIN_EMISSION, 1), (1 - emission).clamp(MIN_EMISSION, 1)
        return evidence.pixel(query.values.to(dtype), query.observed.to(dtype), on, off)
