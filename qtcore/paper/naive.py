"""The unrolled networks as the authors' code computes them: the reference of `python -m qtcore.bench`.

All messages in both directions in every layer, observed or not; two exp and two log1p for a binary message; the
exponentials of the supplement for a Gaussian one; on the grid products of messages, and the S×S table broadcast and summed for
every pixel; and automatic differentiation through everything. Parameters as the models store them, at T = 1.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from qtcore.evidence import EPSILON, HARD_LOGIT
from qtcore.models.grbm import GaussianRBM
from qtcore.models.grid import KINDS, GridMRF
from qtcore.models.rbm import RBM
from qtcore.potentials import DIRECTIONS
from qtcore.query import Query


def loss(model: RBM | GaussianRBM | GridMRF, query: Query) -> Tensor:
    """Mean cross-entropy of the targets in nats."""
    if isinstance(model, RBM):
        logits = rbm(model, query)
        losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, query.truth, reduction="none")
        return losses[query.target].mean()
    if isinstance(model, GaussianRBM):
        mean, variance = grbm(model, query)
        return (
            -torch.distributions.Normal(mean, variance.sqrt(), validate_args=False).log_prob(query.truth)[query.target].mean()
        )
    return torch.nn.functional.nll_loss(grid(model, query).flatten(0, 2), query.truth.flatten().long())


def rbm(model: RBM, query: Query) -> Tensor:
    """Visible logits [B, V] (supplement, "BP summary")."""
    W, c_v, c_h = model.W, model.c_v, model.c_h
    u = torch.logit(query.values).clamp(-HARD_LOGIT, HARD_LOGIT) * query.observed

    def f(x: Tensor) -> Tensor:
        size = W.abs()
        truncated = torch.sign(W) * torch.maximum(torch.minimum(x, size), -size)
        return truncated + torch.log1p(torch.exp(-(x + W).abs())) - torch.log1p(torch.exp(-(x - W).abs()))

    to_hidden = to_visible = W.new_zeros(len(query), *W.shape)
    for _ in range(model.n_layers):
        visible, hidden = u + c_v + to_visible.sum(1), c_h + to_hidden.sum(2)
        to_hidden, to_visible = f(visible[:, None, :] - to_visible), f(hidden[:, :, None] - to_hidden)
    return u + c_v + to_visible.sum(1)


def grbm(model: GaussianRBM, query: Query) -> tuple[Tensor, Tensor]:
    """Mean and variance of the visible variables [B, V] (supplement, "Gaussian restricted Boltzmann machine")."""
    W, b, c = model.W, model.b, model.c
    q = query.observed.to(W.dtype)
    u1 = query.values / EPSILON * q + b * (1 - q)
    u2 = -0.5 / EPSILON * q - 0.5 * (1 - q)
    m1 = W.new_zeros(len(query), *W.shape)
    m2 = m1 - 0.5 * (1 - q[:, None])  # an observed pixel receives nothing, from the first layer on
    for _ in range(model.n_layers):
        c1, c2 = (u1 + m1.sum(1))[:, None] - m1, (u2 + m2.sum(1))[:, None] - m2
        to_hidden = -(2 * c1 * W + W**2) / (4 * c2)
        x = (c + to_hidden.sum(2))[:, :, None] - to_hidden
        mean, variance = -c1 / (2 * c2), -1 / (2 * c2)
        e = torch.exp(x + W * mean + variance * W**2 / 2)
        moved = mean + variance * W
        new_mean = (e * moved + mean) / (e + 1)
        new_variance = (e * (moved**2 + variance) + mean**2 + variance) / (e + 1) - new_mean**2
        m1 = (new_mean / new_variance - c1) * (1 - q[:, None])
        m2 = (-1 / (2 * new_variance) - c2) * (1 - q[:, None])
    precision = -2 * (u2 + m2.sum(1))
    return (u1 + m1.sum(1)) / precision, 1 / precision


def grid(model: GridMRF, query: Query) -> Tensor:
    """Log-marginals of the labels [B, height, width, 3] (main text, "Unrolling BP into a QT-NN"), with messages as numbers and
    not as logarithms: products of eight of them, and one normalisation in each layer."""
    tables = [model.potentials[KINDS[kind]].exp() for _, _, kind in DIRECTIONS]
    on = query.values[..., None]
    u = (on * model.emission + (1 - on) * (1 - model.emission))[..., model.label]
    message = torch.ones(len(DIRECTIONS), *u.shape, dtype=u.dtype)
    height, width = u.shape[1:3]
    for _ in range(model.n_layers):
        sent = []
        for d, (down, right, _) in enumerate(DIRECTIONS):
            cavity = u * message[[k for k in range(len(DIRECTIONS)) if k != d ^ 1]].prod(0)
            table = tables[d].T if d % 2 else tables[d]
            inner = cavity[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)]
            outside = (0, 0, max(-right, 0), max(right, 0), max(-down, 0), max(down, 0))
            sent.append(pad((inner[..., None] * table).sum(-2), outside, value=1.0))
        message = torch.stack(sent)
        message = message / message.sum(-1, keepdim=True)
    belief = u * message.prod(0)
    labels = torch.stack([part.sum(-1) for part in belief.split(model.clones, -1)], -1)
    return (labels / labels.sum(-1, keepdim=True)).log()
