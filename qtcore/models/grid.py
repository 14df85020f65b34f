"""The 8-connected grid MRF with clones (main text, "Grid Markov Random Field"; supplement, "model details")."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from qtcore.bp import categorical, native
from qtcore.bp.compiled import compiled as torch_compiled
from qtcore.errors import InputError
from qtcore.models.base import Layer, TemperedModel
from qtcore.models.rbm import positive
from qtcore.query import Query

LABELS = ("CONTOUR", "OUT", "IN")

# From which neighbour (rows down, columns right) a message comes, and through which potential. Every second one goes
# the other way through the same potential, so that the reverse of direction d is d ^ 1.
DIRECTIONS = (
    (-1, 0, "vertical"),  # from the upper pixel, index 0 of its potential
    (1, 0, "vertical"),
    (0, -1, "horizontal"),  # from the left pixel, index 0
    (0, 1, "horizontal"),
    (-1, -1, "diagonal"),  # from the upper left pixel, index 0
    (1, 1, "diagonal"),
    (1, -1, "antidiagonal"),  # from the lower left pixel, index 0
    (-1, 1, "antidiagonal"),
)
KINDS = ("vertical", "horizontal", "diagonal", "antidiagonal")

MIN_EMISSION = 1e-30
"""No label is ruled out for certain by a pixel: evidence that contradicts all labels would have no answer."""


class GridMRF(TemperedModel):
    """Categorical pixels on a grid, joined to their 8 neighbours by four shared tables of log-potentials.

    The states are the clones of CONTOUR, then those of OUT, then those of IN (64 + 1 + 1 in the paper). A query's values
    are noisy images [B, height, width] in [0, 1] of any size; marginals are over the three labels.

    Stored tensors: `potentials` with the keys "vertical" (index 0 = upper pixel), "horizontal" (0 = left), "diagonal"
    (0 = upper left) and "antidiagonal" (0 = lower left), each [S, S]; `emission` [3] = p(pixel on | CONTOUR, OUT, IN), fixed.

    Args:
        local_evidence: whether a pixel's own evidence is in its belief, as the paper has it (the authors' code leaves it out).

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
        self.height, self.width = height, width
        try:
            self.clones = tuple(int(count) for count in clones)
        except (TypeError, ValueError) as error:
            raise InputError(f"clones must be three whole numbers, not {clones!r}.") from error
        if len(self.clones) != len(LABELS) or min(self.clones) < 1:
            raise InputError(f"clones must give at least one state to each of {', '.join(LABELS)}, not {list(self.clones)}.")
        self.local_evidence = local_evidence
        states = sum(self.clones)
        self.potentials = nn.ParameterDict({kind: nn.Parameter(torch.randn(states, states, **factory)) for kind in KINDS})
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

    def _sample_shape(self) -> tuple[int | None, ...]:
        return (None, None)

    def _check_values(self, name: str, values: Tensor, where: Tensor) -> None:
        self._range_error(name, where & ~((values >= 0) & (values <= 1)), values, "0 (off), 1 (on), or in between")

    def _check_truth(self, query: Query) -> None:
        truth = query.truth
        if not query.explicit_truth:
            raise InputError("a GridMRF is scored against a label image; give it as the query's truth.")
        labels = (truth == 0) | (truth == 1) | (truth == 2)
        self._range_error("truth", self._target(query) & ~labels, truth, "a label: 0 CONTOUR, 1 OUT or 2 IN")

    def _target(self, query: Query) -> Tensor:
        return query.target if query.explicit_target else torch.ones_like(query.target)

    def kept_bytes(self, shape: tuple[int, ...], n_layers: int) -> int:
        messages = len(DIRECTIONS) * shape[0] * shape[1] * sum(self.clones) * self.dtype.itemsize
        return (n_layers + 1) * messages * (1 if self.compiled else 8)

    def _log_evidence(self, query: Query) -> Tensor:
        """log of w·p(v | label) + (1−w)/2 for every label [B, height, width, 3]; exactly 0 where nothing is observed."""
        weight = query.observed.to(self.dtype)[..., None]
        value = torch.where(query.observed > 0, query.values.to(self.dtype), 0.5)[..., None]
        on = self.emission.clamp(MIN_EMISSION, 1)
        off = (1 - self.emission).clamp(MIN_EMISSION, 1)
        reading = weight * (value * on + (1 - value) * off) + (1 - weight) / 2
        return torch.where(weight > 0, reading.log(), 0)

    def _prepare(self, query: Query) -> tuple[Tensor, bool, Tensor, Tensor]:
        """The unit T, sum or max, potentials [8, S, S] per direction and log-evidence [B, height, width, S] in that unit."""
        T, sums = self._temperature()
        tables = [self.potentials[kind] for _, _, kind in DIRECTIONS]
        potential = torch.stack([table.T if d % 2 else table for d, table in enumerate(tables)])
        return T, sums, potential / T, self._log_evidence(query)[..., self.label] / T

    def _marginals(self, T: Tensor, message: Tensor, given: Tensor) -> tuple[Categorical, Categorical]:
        """Beliefs over the labels (the sum of a label's clones) and over all states."""
        belief = message.sum(0)
        if self.local_evidence:
            belief = belief + given
        logits = T * belief
        labels = torch.stack([part.logsumexp(-1) for part in logits.split(self.clones, -1)], -1)
        return Categorical(logits=labels, validate_args=False), Categorical(logits=logits, validate_args=False)

    def forward(self, query: Query, n_layers: int | None = None) -> Categorical:
        """Marginals over the labels CONTOUR = 0, OUT = 1, IN = 2, Categorical [B, height, width]."""
        self._check(query)
        T, sums, potential, given = self._prepare(query)
        count = self._layer_count(n_layers)
        if count and self._can_compile(T, sums, potential):
            return self._compiled(potential, self._log_evidence(query), count)
        message = self._initial(given)
        mild = categorical.is_mild(potential)
        layer = torch_compiled(one_layer) if self.compiled else one_layer
        for _ in range(count):
            message = layer(message, potential, given, sums, mild, self.damping)
        return self._marginals(T, message, given)[0]

    def _can_compile(self, T: Tensor, sums: bool, potential: Tensor) -> bool:
        """Machine code runs in linear space, at T = 1 and without damping, while no message can vanish there."""
        if not (self.compiled and sums and not self.damping and not T.requires_grad and native.can(potential)):
            return False
        return float(T) == 1 and categorical.is_mild(potential)

    def _compiled(self, potential: Tensor, given: Tensor, count: int) -> Categorical:
        """The marginals by machine code, in linear space with the largest factors at 1."""
        table = (potential - potential.detach().amax((1, 2), keepdim=True)).exp()
        evidence = (given - given.detach().amax(-1, keepdim=True)).exp().contiguous()  # the query may be a transposed view
        own = evidence if self.local_evidence else torch.ones_like(evidence)
        return Categorical(logits=native.GridLayers.apply(table, evidence, own, self.clones, count), validate_args=False)

    def _initial(self, given: Tensor) -> Tensor:
        return torch.zeros(len(DIRECTIONS), *given.shape, dtype=given.dtype, device=given.device)

    def layers(self, query: Query, n: int | None = None) -> Iterator[Layer]:
        self._check(query)
        T, sums, potential, given = self._prepare(query)
        message = self._initial(given)
        residual = given.new_zeros(len(query))
        mild = categorical.is_mild(potential)
        for index in range(self._layer_count(n) + 1):
            if index:
                old, message = message, one_layer(message, potential, given, sums, mild, self.damping)
                residual = T * categorical.change(message, old).amax((0, 2, 3))
            yield Layer(index, *self._marginals(T, message, given), residual, {"arriving": T * message})


def one_layer(message: Tensor, potential: Tensor, given: Tensor, sums: bool, mild: bool, damping: float) -> Tensor:
    """One parallel update of all messages [8, B, height, width, S]; entry d is what arrives from direction d."""
    directions, batch, height, width, states = message.shape
    total = given + message.sum(0)
    new = []
    for d in range(directions):  # one direction at a time: the robust form needs S times the memory
        cavity = (total - message[d ^ 1]).reshape(-1, states)
        sent = categorical.normalise(categorical.messages(cavity, potential[d], sums, mild))
        new.append(_arrive(sent.reshape(batch, height, width, states), d))
    return categorical.damp(torch.stack(new), message, damping)


def _arrive(sent: Tensor, d: int) -> Tensor:
    """Move what every pixel sends to the pixel where it arrives from direction d; nothing comes from outside the grid."""
    down, right, _ = DIRECTIONS[d]
    height, width = sent.shape[1:3]
    inner = sent[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)]
    padding = (0, 0, max(-right, 0), max(right, 0), max(-down, 0), max(down, 0))
    return nn.functional.pad(inner, padding)
