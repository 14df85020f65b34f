"""Belief propagation between binary variables, messages as logits (supplement, "Restricted Boltzmann machine").

A pairwise factor scores 0 for agreement and −w for disagreement. All functions here run at temperature 1 or at
temperature 0; any other T is a change of units (see `BP._unit`): f_w(x; T) = T·f_{w/T}(x/T; 1).

Given an edge weight ρ [H, V], messages are reweighted (`qtcore.inference.reweighted`): f of w/ρ instead of w, counted ρ times
in a belief. ρ = 1 changes no bit.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution
from torch.nn.functional import pad, softplus

from qtcore import kernels
from qtcore.evidence import HARD_LOGIT, BinaryEvidence
from qtcore.inference.bp.compact import compact
from qtcore.inference.bp.passing import Choices, Passing, check_size, damp
from qtcore.inference.bp.torch_compile import with_torch_compile
from qtcore.inference.engine import Layer
from qtcore.potentials import BinaryPotentials


class Messages(NamedTuple):
    """M_HV, from visible to hidden, and M_VH, from hidden to visible; both stored as [B, H, V]."""

    to_hidden: Tensor
    to_visible: Tensor


def _slopes(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """∂f/∂x and ∂f/∂w, smooth where the pieces of the robust form meet, so that they can be differentiated again."""
    both, apart = torch.sigmoid(x + w), torch.sigmoid(x - w)
    return both - apart, both + apart - 1


class _SumProduct(torch.autograd.Function):
    """f_w(x) with its gradient in closed form: exact even where the pieces of the robust form meet."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return max_product(x, w) + softplus(-(x + w).abs()) - softplus(-(x - w).abs())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        d_x, d_w = _slopes(x, w)
        return (gradient * d_x).sum_to_size(x.shape), (gradient * d_w).sum_to_size(w.shape)


class _SumProductForward(_SumProduct):
    """The same with forward mode, for torch.func.hessian; torch.compile does not accept a function with a `jvp`."""

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, w_tangent: Tensor) -> Tensor:
        d_x, d_w = _slopes(*ctx.saved_tensors)
        return d_x * x_tangent + d_w * w_tangent


def sum_product(x: Tensor, w: Tensor) -> Tensor:
    """f_w(x) at T = 1: log(1 + e^{x+w}) − log(e^w + e^x), in the supplement's numerically robust form."""
    return (_SumProduct if torch.compiler.is_compiling() else _SumProductForward).apply(x, w)


def max_product(x: Tensor, w: Tensor) -> Tensor:
    """f_w(x) at T = 0: sign(w)·x truncated to ±|w|."""
    size = w.abs()
    return torch.sign(w) * torch.minimum(torch.maximum(x, -size), size)


def transfer(x: Tensor, w: Tensor, T: float = 1.0) -> Tensor:
    """f_w(x; T), the transfer function as in the supplement's figure; for plots and teaching.

    Example:
        >>> import torch
        >>> from qtcore.inference.bp.binary import transfer
        >>> x, w = torch.tensor([-1000.0, 0.0, 1.0, 1000.0]), torch.tensor(3.0)
        >>> transfer(x, w, T=0.0)  # max-product
        tensor([-3.,  0.,  1.,  3.])
        >>> transfer(x, w, T=1.0)  # sum-product
        tensor([-3.0000,  0.0000,  0.8912,  3.0000])
    """
    return max_product(x, w) if T == 0 else T * sum_product(x / T, w / T)


def initial(batch: int, W: Tensor) -> Messages:
    """All messages start at 0."""
    zeros = W.new_zeros(batch, *W.shape)
    return Messages(zeros, zeros)


def layer(
    messages: Messages,
    W: Tensor,
    c_v: Tensor,
    c_h: Tensor,
    evidence: BinaryEvidence,
    damping: float = 0.0,
    sums: bool = True,
    rho: Tensor | None = None,
) -> Messages:
    """One parallel update of all messages in both directions, from those of the previous layer (supplement, "BP summary").

    `sums` selects sum-product (T = 1) or max-product (T = 0).
    """
    f = sum_product if sums else max_product
    to_hidden, to_visible = messages
    visible, hidden = beliefs(messages, c_v, c_h, evidence, rho)
    W = W if rho is None else W / rho
    new_to_hidden = f(visible[:, None, :] - to_visible, W.expand_as(to_visible))
    hard = evidence.hard[:, None, :]
    new_to_hidden = torch.where(hard != 0, hard * W, new_to_hidden)
    new_to_visible = f(hidden[:, :, None] - to_hidden, W.expand_as(to_hidden))
    return Messages(damp(new_to_hidden, to_hidden, damping), damp(new_to_visible, to_visible, damping))


def beliefs(
    messages: Messages, c_v: Tensor, c_h: Tensor, evidence: BinaryEvidence, rho: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Logits of visible [B, V] and hidden [B, H], without the ±1000 of hard evidence (`show` adds it)."""
    to_hidden, to_visible = messages if rho is None else (rho * messages.to_hidden, rho * messages.to_visible)
    return evidence.soft + c_v + to_visible.sum(1), c_h + to_hidden.sum(2)


def show(logits: Tensor, evidence: BinaryEvidence) -> Tensor:
    """Visible logits as reported: ±1000 where a variable is clamped."""
    return torch.where(evidence.hard != 0, HARD_LOGIT * evidence.hard, logits)


def visible_beliefs(
    W: Tensor,
    c_v: Tensor,
    c_h: Tensor,
    evidence: BinaryEvidence,
    n_layers: int,
    torch_compile: bool = False,
    largest_weight: float | None = None,
    rho: Tensor | None = None,
) -> Tensor:
    """Logits of the visible variables [B, V] after N layers at T = 1 without damping, with no unnecessary work.

    Skipped is what cannot matter: messages into a clamped variable are never read, those out of it are the constants ±w;
    and on a bipartite graph with a parallel schedule the result depends only on M_VH(N), M_HV(N−1), M_VH(N−2), …, that is
    on one direction per layer. `largest_weight` is the size of the largest, if the caller knows it already.
    """
    places = compact(evidence.hard == 0)
    unary = evidence.soft + c_v
    bias, hidden_bias = places.gather(unary), c_h + evidence.hard @ W.T
    if n_layers == 0 or bias.shape[1] == 0:
        return unary
    if largest_weight is None:
        largest_weight = float(W.detach().abs().max())
    if rho is None and largest_weight <= kernels.LARGEST_WEIGHT and kernels.usable(W, bias, hidden_bias, c_h):
        belief = kernels.binary_layers(W.T, bias, hidden_bias, c_h, places.index, places.count, n_layers)
        return places.put(unary, belief)
    weights = places.columns(W if rho is None else W / rho)
    counted = None if rho is None else places.columns(rho)
    message = torch.zeros_like(weights)
    belief = bias if n_layers % 2 == 0 else c_h.expand_as(hidden_bias).contiguous()  # as later ones are
    half = with_torch_compile(half_layer) if torch_compile else half_layer
    for left in range(n_layers, 0, -1):  # with an odd number of layers left, send to the visible variables
        message, belief = half(message, belief, weights, *((bias, 1) if left % 2 else (hidden_bias, 2)), counted)
    return places.put(unary, belief)


def half_layer(
    message: Tensor, sender: Tensor, W: Tensor, bias: Tensor, over: int, rho: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """New messages [B, H, J] from the senders' beliefs, and the receivers' beliefs: their bias plus the sum over dimension
    `over` (1, the hidden units, when they send to the visible variables; 2 the other way). Of reweighted messages W is W/ρ."""
    message = sum_product(sender.unsqueeze(3 - over) - message, W)
    return message, bias + (message if rho is None else rho * message).sum(over)


def residual(new: Messages, old: Messages) -> Tensor:
    """The largest change of a message, per sample [B]."""
    return torch.maximum((new[0] - old[0]).abs().amax((1, 2)), (new[1] - old[1]).abs().amax((1, 2)))


class BinaryPassing(Passing):
    """Messages of an RBM, or of a DBM written as one."""

    def __init__(
        self, potentials: BinaryPotentials, evidence: BinaryEvidence, choices: Choices, rho: Tensor | None = None
    ) -> None:
        assert choices.T is not None
        self.T, self.choices, self.potentials, self.rho = choices.T, choices, potentials, rho
        self.W, self.c_v, self.c_h = (tensor / self.T for tensor in (potentials.W, potentials.c_v, potentials.c_h))
        (low, high), *_ = check_size(choices, self.W if rho is None else self.W / rho, self.c_v, self.c_h)
        self.largest_weight = max(-low, high)
        extra = self.W.shape[1] - evidence.soft.shape[1]
        soft, hard = (pad(tensor, (0, extra)) if extra else tensor for tensor in evidence)
        self.evidence = BinaryEvidence(soft / self.T, hard)

    def initial(self) -> Messages:
        return initial(len(self.evidence.soft), self.W)

    def send(self, messages: Messages) -> Messages:
        return layer(messages, self.W, self.c_v, self.c_h, self.evidence, self.choices.damping, self.choices.sums, self.rho)

    def update(self, messages: Messages) -> tuple[Messages, dict[str, Tensor]]:
        new = self.send(messages)
        return new, {"residual": self.T * residual(new, messages)}

    def answers(self, messages: Messages) -> tuple[Distribution, Distribution]:
        visible, hidden = beliefs(messages, self.c_v, self.c_h, self.evidence, self.rho)
        return self.potentials.answers(torch.cat([show(self.T * visible, self.evidence), self.T * hidden], 1))

    def shown(self, messages: Messages) -> dict[str, Tensor]:
        """What arrives: reweighted messages count ρ times."""
        weight = self.T if self.rho is None else self.T * self.rho
        return {name: weight * tensor for name, tensor in messages._asdict().items()}

    def before(self) -> dict[str, Tensor]:
        return {"residual": self.W.new_zeros(len(self.evidence.soft))}

    @staticmethod
    def kept_bytes(potentials: BinaryPotentials, shape: tuple[int, ...], n_layers: int, damped: bool = False) -> int:
        (H, V), W = potentials.W.shape, potentials.W
        padded = H + -H % 8  # the kernel works on whole vectors
        native = 2 * V * padded if damped else V * padded + max(V, padded)
        kept = native if kernels.usable(W) else 4 * V * H
        return n_layers * kept * W.dtype.itemsize

    def after(self, n_layers: int) -> Distribution:
        if self.choices.sums and not self.choices.damping:
            parameters = self.W, self.c_v, self.c_h, self.evidence
            how = self.choices.torch_compile, self.largest_weight, self.rho
            return self._visible(visible_beliefs(*parameters, n_layers, *how))
        if n_layers and self._both_ways_native():
            return self._visible(kernels.binary_damped(*self._both_ways(), n_layers, self.choices.damping))
        return super().after(n_layers)

    def after_each(self, depths: Sequence[int]) -> list[Distribution]:
        """Each depth by itself where there is a kernel: that takes less time than to keep the messages in torch."""
        return [self.after(depth) for depth in depths] if self._both_ways_native() else super().after_each(depths)

    def _visible(self, logits: Tensor) -> Distribution:
        shown = show(self.T * logits, self.evidence)[:, : self.potentials.n_visible]
        return Bernoulli(logits=shown, validate_args=False)

    def _both_ways(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What a kernel needs that computes the messages of both directions."""
        return self.W.T, self.evidence.soft + self.c_v, self.c_h, self.evidence.hard

    def _both_ways_native(self) -> bool:
        mild = self.choices.sums and self.rho is None and self.largest_weight <= kernels.LARGEST_WEIGHT
        return mild and kernels.usable(*self._both_ways())

    def trace(self, n_layers: int) -> Iterator[Layer] | None:
        return self._trace(n_layers) if n_layers and self._both_ways_native() else None

    @torch.no_grad()
    def _trace(self, n_layers: int) -> Iterator[Layer]:
        """All layers at once by the kernel; each is made into distributions when it is asked for."""
        yield Layer(0, *self.answers(self.initial()), self.before()["residual"], {})
        visible, hidden, residual = kernels.binary_trace(*self._both_ways(), n_layers, self.choices.damping)
        for k in range(n_layers):
            logits = torch.cat([show(self.T * visible[:, k], self.evidence), self.T * hidden[:, k]], 1)
            yield Layer(k + 1, *self.potentials.answers(logits), self.T * residual[:, k], {})
