"""The Bethe estimate of log Z: what the messages of belief propagation say about the sum over all states.

    log Z ≈ Σ_f log Z_f + Σ_i (1 − d_i) log Z_i,
    Z_f = Σ_x exp(table_f(x) + Σ_i cavity_if(x_i)),   Z_i = Σ_x exp(belief_i(x)),

where d_i is the number of factors of variable i. It is exact on trees, and at fixed points it does not depend on the
constants that messages carry. Of reweighted messages (`qtcore.inference.reweighted`) a factor counts ρ_f times, and d_i is the
sum of the ρ_f of a variable's factors.
"""

import torch
from torch import Tensor

from qtcore.errors import InputError
from qtcore.inference.bp import BP, MessagePassing, logic
from qtcore.inference.bp.factors import FactorPassing, Logs, outgoing
from qtcore.inference.engine import Answerable
from qtcore.potentials import GaussianPotentials
from qtcore.query import Query
from qtcore.support.tensors import log_sum


def log_z(model: Answerable, query: Query, engine: MessagePassing | None = None) -> Tensor:
    """The Bethe estimate of log Z given the evidence of each query [B], after the layers of an engine, at temperature 1.

    Example:
        >>> import torch, qtcore
        >>> from qtcore.inference.bp import bethe
        >>> tree = qtcore.FactorGraph((2, 2, 2), {"edge": [2, 2]}, [("edge", [(0, 1), (1, 2)])])
        >>> nothing = qtcore.Query(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
        >>> torch.allclose(bethe.log_z(tree, nothing).double(), qtcore.exact.log_z(tree), atol=1e-5)  # on a tree it is exact
        True
    """
    model.check(query)
    engine = engine or BP()
    potentials = model.graph()
    if isinstance(potentials, GaussianPotentials):
        raise InputError("the Bethe estimate is for models of discrete variables.")
    passing = engine.factor_passing(model, query)
    if not passing.choices.sums or float(passing.T.detach()) != 1:
        raise InputError("the Bethe estimate is of the sum over all states: it needs the temperature 1.")
    messages = passing.initial()
    for _ in range(engine.steps(model)):
        messages, info = passing.update(messages)
        if engine.finished(info):
            break
    return of_messages(passing, passing.buffer(messages))


def of_messages(passing: FactorPassing, messages: Tensor) -> Tensor:
    """The estimate from messages [M, B]."""
    where, wiring, cavity = passing.where, passing.wiring, passing.cavities(messages)
    belief = passing.sums(messages) + passing.scaled_evidence
    log_z_of_variables = log_sum(where.rows(belief), 2)  # [B, n]
    degree = torch.zeros(len(wiring.n_states), dtype=belief.dtype, device=belief.device)
    total = torch.zeros(belief.shape[1], dtype=belief.dtype, device=belief.device)
    for number, (blocks, group) in enumerate(zip(where.blocks, wiring.groups, strict=True)):
        rho = passing.counted(number)
        incoming = [cavity[block].view(size, -1, passing.batch) for block, size in zip(blocks, group.shape, strict=True)]
        if group.rule:
            total = total + logic.log_z(group.rule, torch.stack(incoming)).sum(0)
        else:
            to_first = outgoing(passing.used(number).movedim(0, -1), incoming, Logs)[0]
            total = total + (rho[:, None] * log_sum(to_first + incoming[0], 0)).sum(0)
        scope = torch.tensor(group.scope.ravel(), device=belief.device)
        degree = degree.index_add(0, scope, rho.repeat_interleave(len(group.shape)))
    return total + ((1 - degree) * log_z_of_variables).sum(1)
