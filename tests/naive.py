"""The paper's equations, transcribed loop by loop with Python floats: slow, obvious, and sharing no code with qtcore.

One function per model. Each reads the model's stored parameters and a query's `values` and `observed`, runs `n_layers`
layers and returns the beliefs of the last one as float64 tensors; 0 layers are the unaries alone. Damping d mixes every
message with the one before, m ← (1 − d)·new + d·old. The equations are those of the supplement, section "QT-NN
architectures, derived for each PGM class"; where they are silent:

- Soft evidence of weight w is a reading that is right with probability w and otherwise says nothing.
- A clamped variable is exact: what it sends does not depend on what it receives, nor on the ±1000 at which
  its own unary is shown.
- Two slips in the Gaussian formulas are mended: the unary of a seen pixel has θ1 = v/ε, and that of a belief
  θ2 = −1/(2σ_B²).
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

SHOWN = 1000.0  # what the logit of a clamped bit is clipped to, where it is shown
EPSILON = 1e-3  # variance of the reading of a clamped pixel
MIN_PRECISION = 1e-3  # floor for the precision of a cavity and of a belief

Row = list[float]
Table = list[list[float]]


def _numbers(tensor: Any) -> Any:
    """A tensor as nested lists of Python floats."""
    return torch.as_tensor(tensor).detach().to(torch.float64).tolist()


def _tensor(numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def damp(new: float, old: float, d: float) -> float:
    return (1 - d) * new + d * old


# ---------------------------------------------------------------------------------------------------------------------
# Binary variables: RBM and DBM


def sp(x: float, T: float) -> float:
    """sp(x, T) = T log(1 + e^{x/T}), for x ≤ 0."""
    return T * math.log1p(math.exp(x / T)) if T > 0 else 0.0


def f(w: float, x: float, T: float) -> float:
    """f_w(x) = sign(w)·x truncated to ±|w|, + sp(−|x + w|, T) − sp(−|x − w|, T)."""
    truncated = max(-abs(w), min(abs(w), x))
    return math.copysign(1.0, w) * truncated + sp(-abs(x + w), T) - sp(-abs(x - w), T)


def bit_unary(v: float, w: float) -> float:
    """u = logit φ(1) with φ(1) = w·v + (1 − w)/2: ±∞ when the bit is clamped, 0 when it is unobserved."""
    if w == 0:
        return 0.0
    on, off = w * v + (1 - w) / 2, w * (1 - v) + (1 - w) / 2
    if on == 0:
        return -math.inf
    if off == 0:
        return math.inf
    return math.log(on) - math.log(off)


def clip(u: float) -> float:
    return max(-SHOWN, min(SHOWN, u))


def send(w: float, u: float, cavity: float, T: float) -> float:
    """The message over a factor of weight w from a variable with evidence u, where `cavity` is all else it receives."""
    if u == math.inf:
        return w
    if u == -math.inf:
        return -w
    return f(w, clip(u) + cavity, T)


def rbm(model: Any, query: Any, n_layers: int, damping: float = 0.0) -> tuple[Tensor, Tensor]:
    """Logits of the visible variables [B, V] and of the hidden ones [B, H]; "BP summary" of section RBM."""
    W, c_v, c_h, T = _numbers(model.W), _numbers(model.c_v), _numbers(model.c_h), float(model.T)
    H, V = len(c_h), len(c_v)
    visible, hidden = [], []
    for values, weights in zip(_numbers(query.values), _numbers(query.observed), strict=True):
        u = [bit_unary(values[j], weights[j]) for j in range(V)]
        m_hv = [[0.0] * V for _ in range(H)]  # M_HV[i][j]: from visible j to hidden i
        m_vh = [[0.0] * H for _ in range(V)]  # M_VH[j][i]: from hidden i to visible j
        for _ in range(n_layers):
            new_hv = [[0.0] * V for _ in range(H)]
            new_vh = [[0.0] * H for _ in range(V)]
            for i in range(H):
                for j in range(V):
                    cavity_v = c_v[j] + sum(m_vh[j][k] for k in range(H) if k != i)
                    cavity_h = c_h[i] + sum(m_hv[i][k] for k in range(V) if k != j)
                    new_hv[i][j] = damp(send(W[i][j], u[j], cavity_v, T), m_hv[i][j], damping)
                    new_vh[j][i] = damp(f(W[i][j], cavity_h, T), m_vh[j][i], damping)
            m_hv, m_vh = new_hv, new_vh
        visible.append([clip(u[j]) + c_v[j] + sum(m_vh[j]) for j in range(V)])
        hidden.append([c_h[i] + sum(m_hv[i]) for i in range(H)])
    return _tensor(visible), _tensor(hidden)


def dbm(model: Any, query: Any, n_layers: int, damping: float = 0.0) -> tuple[Tensor, Tensor]:
    """Logits of the visible variables [B, V] and of the hidden ones [B, H1 + H2]; section DBM, as a chain of layers."""
    W1, W2, T = _numbers(model.W1), _numbers(model.W2), float(model.T)
    c_v, c_h1, c_h2 = _numbers(model.c_v), _numbers(model.c_h1), _numbers(model.c_h2)
    V, H1, H2 = len(c_v), len(c_h1), len(c_h2)
    visible, hidden = [], []
    for values, weights in zip(_numbers(query.values), _numbers(query.observed), strict=True):
        u = [bit_unary(values[j], weights[j]) for j in range(V)]
        up_v = [[0.0] * V for _ in range(H1)]  # [i][j]: from v_j up to h1_i
        down_v = [[0.0] * H1 for _ in range(V)]  # [j][i]: from h1_i down to v_j
        up_h = [[0.0] * H1 for _ in range(H2)]  # [k][i]: from h1_i up to h2_k
        down_h = [[0.0] * H2 for _ in range(H1)]  # [i][k]: from h2_k down to h1_i
        for _ in range(n_layers):
            new_up_v = [[0.0] * V for _ in range(H1)]
            new_down_v = [[0.0] * H1 for _ in range(V)]
            new_up_h = [[0.0] * H1 for _ in range(H2)]
            new_down_h = [[0.0] * H2 for _ in range(H1)]
            for i in range(H1):
                from_below, from_above = sum(up_v[i]), sum(down_h[i])
                for j in range(V):
                    cavity = c_v[j] + sum(down_v[j][other] for other in range(H1) if other != i)
                    new_up_v[i][j] = damp(send(W1[i][j], u[j], cavity, T), up_v[i][j], damping)
                    others = sum(up_v[i][other] for other in range(V) if other != j)
                    new_down_v[j][i] = damp(f(W1[i][j], c_h1[i] + others + from_above, T), down_v[j][i], damping)
                for k in range(H2):
                    cavity = c_h2[k] + sum(up_h[k][other] for other in range(H1) if other != i)
                    new_down_h[i][k] = damp(f(W2[k][i], cavity, T), down_h[i][k], damping)
                    others = sum(down_h[i][other] for other in range(H2) if other != k)
                    new_up_h[k][i] = damp(f(W2[k][i], c_h1[i] + others + from_below, T), up_h[k][i], damping)
            up_v, down_v, up_h, down_h = new_up_v, new_down_v, new_up_h, new_down_h
        visible.append([clip(u[j]) + c_v[j] + sum(down_v[j]) for j in range(V)])
        h1 = [c_h1[i] + sum(up_v[i]) + sum(down_h[i]) for i in range(H1)]
        hidden.append(h1 + [c_h2[k] + sum(up_h[k]) for k in range(H2)])
    return _tensor(visible), _tensor(hidden)


# ---------------------------------------------------------------------------------------------------------------------
# The Gaussian RBM


def f_gaussian(w: float, theta1: float, theta2: float) -> float:
    """f_w(x, y) = −(2xw + w²)/(4y): the message from a pixel with cavity (θ1, θ2) to a hidden unit."""
    return -(2 * theta1 * w + w**2) / (4 * theta2)


def g_gaussian(w: float, x: float, theta1: float, theta2: float) -> tuple[float, float]:
    """g_w(x, θ1, θ2): the belief at a pixel, projected on a Gaussian, less its cavity.

    The supplement's moments, with numerators and denominators divided by e^a where a > 0, and squares taken about μ,
    which leaves a variance as it is, so that neither an exponential nor a difference of large squares spoils them.
    """
    mu, var = -theta1 / (2 * theta2), -1 / (2 * theta2)
    a = x + w * mu + var * w**2 / 2
    on, off = (math.exp(a), 1.0) if a <= 0 else (1.0, math.exp(-a))
    mu_b = (on * (mu + var * w) + off * mu) / (on + off)
    shift = on * var * w / (on + off)  # μ_B − μ
    var_b = (on * ((var * w) ** 2 + var) + off * var) / (on + off) - shift**2
    return mu_b / var_b - theta1, -1 / (2 * var_b) - theta2


def pixel_unary(v: float, w: float, b: float, sigma: float) -> tuple[float, float]:
    """(θ1, θ2) of a pixel's own factor: N(v, ε) clamped, N(b, σ²) unobserved."""
    evidence = w / (1 - w + EPSILON)
    theta1 = (1 - w) * b / sigma**2
    if w > 0:
        theta1 += evidence * v
    return theta1, -(evidence + (1 - w) / sigma**2) / 2


def gaussian_rbm(
    model: Any, query: Any, n_layers: int, damping: float = 0.0, schedule: str = "sequential"
) -> tuple[Tensor, Tensor, Tensor]:
    """Means and variances of the pixels [B, V] and logits of the hidden units [B, H]; section GRBM.

    `schedule` "flooding" is as printed, both messages from the layer before; "sequential" sends the messages to the
    pixels after those to the hidden units, from the new ones. Both take the same cavities at the pixels.
    """
    assert schedule in ("sequential", "flooding")
    b, c = _numbers(model.b), _numbers(model.c)
    sigma = _numbers(torch.as_tensor(model.sigma).expand(len(b)))
    W = [[w / s for w, s in zip(row, sigma, strict=True)] for row in _numbers(model.W)]
    H, V = len(c), len(b)
    means, variances, hidden = [], [], []
    for values, weights in zip(_numbers(query.values), _numbers(query.observed), strict=True):
        u = [pixel_unary(values[j], weights[j], b[j], sigma[j]) for j in range(V)]
        clamped = [weights[j] == 1 for j in range(V)]
        m_hv = [[0.0] * V for _ in range(H)]
        # Nothing ever reaches a clamped pixel; all other messages from hidden units start at (0, −½).
        m1 = [[0.0] * H for _ in range(V)]
        m2 = [[0.0 if clamped[j] else -0.5] * H for j in range(V)]
        for _ in range(n_layers):
            cavity1 = [[u[j][0] + sum(m1[j][k] for k in range(H) if k != i) for i in range(H)] for j in range(V)]
            cavity2 = [[u[j][1] + sum(m2[j][k] for k in range(H) if k != i) for i in range(H)] for j in range(V)]
            cavity2 = [[min(theta2, -MIN_PRECISION / 2) for theta2 in row] for row in cavity2]
            new_hv = [[0.0] * V for _ in range(H)]
            for i in range(H):
                for j in range(V):
                    new = f_gaussian(W[i][j], cavity1[j][i], cavity2[j][i])
                    new_hv[i][j] = damp(new, m_hv[i][j], damping)
            received = new_hv if schedule == "sequential" else m_hv
            for i in range(H):
                for j in range(V):
                    if clamped[j]:
                        continue
                    x = c[i] + sum(received[i][k] for k in range(V) if k != j)
                    new1, new2 = g_gaussian(W[i][j], x, cavity1[j][i], cavity2[j][i])
                    m1[j][i] = damp(new1, m1[j][i], damping)
                    m2[j][i] = damp(new2, m2[j][i], damping)
            m_hv = new_hv
        belief1, belief2 = [theta1 for theta1, _ in u], [theta2 for _, theta2 in u]
        if n_layers > 0:  # 0 layers are the unaries alone, without the initial messages
            belief1 = [belief1[j] + sum(m1[j]) for j in range(V)]
            belief2 = [belief2[j] + sum(m2[j]) for j in range(V)]
        belief2 = [min(theta2, -MIN_PRECISION / 2) for theta2 in belief2]
        means.append([-belief1[j] / (2 * belief2[j]) for j in range(V)])
        variances.append([-1 / (2 * belief2[j]) for j in range(V)])
        hidden.append([c[i] + sum(m_hv[i]) for i in range(H)])
    return _tensor(means), _tensor(variances), _tensor(hidden)


# ---------------------------------------------------------------------------------------------------------------------
# Categorical variables: any pairwise graph, and the grid


def log_or_zero(p: float) -> float:
    return math.log(p) if p > 0 else -math.inf


def soft_max(terms: Row, T: float) -> float:
    """T log Σ e^{x/T}; the largest term when T = 0."""
    top = max(terms)
    if top == -math.inf:
        return top
    return top if T == 0 else top + T * math.log(sum(math.exp((x - top) / T) for x in terms))


def normalise(message: Row) -> Row:
    """A log-message is defined up to a constant: let its largest entry be 0."""
    return [x - max(message) for x in message]


def log_softmax(belief: Row) -> Row:
    return [x - soft_max(belief, 1.0) for x in belief]


def shown(log_evidence: Row) -> Row:
    """A state that is ruled out counts −1000 where a belief is shown."""
    return [max(x, -SHOWN) for x in log_evidence]


def category_unary(value: Any, w: float, S: int) -> Row:
    """log φ(s) with φ(s) = w·1[s = v] + (1 − w)/S, or w·L(s)/ΣL + (1 − w)/S when `value` is a list of likelihoods."""
    if w == 0:
        return [0.0] * S
    if isinstance(value, list):
        likelihood = [x / sum(value[:S]) for x in value[:S]]
    else:
        likelihood = [1.0 if s == value else 0.0 for s in range(S)]
    return [log_or_zero(w * likelihood[s] + (1 - w) / S) for s in range(S)]


def pairwise_mrf(model: Any, query: Any, n_layers: int, damping: float = 0.0) -> tuple[Tensor, Tensor]:
    """Log-beliefs of the visible variables [B, V, S] and of the hidden ones [B, n_hidden, S], padded with −∞.

    m_ij(s_j) = T log Σ_{s_i} exp((θ_ij(s_i, s_j) + θ_i(s_i) + u_i(s_i) + Σ_{k≠j} m_ki(s_i)) / T).
    """
    n_states, edges, T = list(model.n_states), list(model.edges), float(model.T)
    hidden_variables = sorted(model.hidden)
    visible_variables = [i for i in range(len(n_states)) if i not in hidden_variables]
    unary = [_numbers(table) for table in model.unary]
    theta: dict[tuple[int, int], Table] = {}  # theta[i, j][s_i][s_j], both ways
    neighbours: list[list[int]] = [[] for _ in n_states]
    for (i, j), table in zip(edges, model.pairwise, strict=True):
        forth = _numbers(table)
        theta[i, j] = forth
        theta[j, i] = [[forth[s][t] for s in range(n_states[i])] for t in range(n_states[j])]
        neighbours[i].append(j)
        neighbours[j].append(i)

    visible, hidden = [], []
    for values, weights in zip(_numbers(query.values), _numbers(query.observed), strict=True):
        u = [[0.0] * S for S in n_states]
        for column, i in enumerate(visible_variables):
            u[i] = category_unary(values[column], weights[column], n_states[i])
        m = {(i, j): [0.0] * n_states[j] for i, j in theta}
        for _ in range(n_layers):
            new = {}
            for i, j in theta:
                message = []
                for t in range(n_states[j]):
                    terms = []
                    for s in range(n_states[i]):
                        cavity = sum(m[k, i][s] for k in neighbours[i] if k != j)
                        terms.append(theta[i, j][s][t] + unary[i][s] + u[i][s] + cavity)
                    message.append(soft_max(terms, T))
                new[i, j] = [damp(x, old, damping) for x, old in zip(normalise(message), m[i, j], strict=True)]
            m = new
        beliefs = []
        for i, S in enumerate(n_states):
            evidence = shown(u[i])
            belief = [unary[i][s] + evidence[s] + sum(m[k, i][s] for k in neighbours[i]) for s in range(S)]
            beliefs.append(log_softmax(belief) + [-math.inf] * (max(n_states) - S))
        visible.append([beliefs[i] for i in visible_variables])
        hidden.append([beliefs[i] for i in hidden_variables])
    shape = (len(hidden), len(hidden_variables), max(n_states))
    return _tensor(visible), _tensor(hidden).reshape(shape)


def factors_of(model: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Every factor of a factor graph by itself: its scope and its log-potentials, as nested lists."""
    result, used = [], dict.fromkeys(model.tables, 0)
    for name, scopes in model.config()["factors"]:
        for scope in scopes:
            table = model.tables[name]
            if table.dim() > len(scope):  # a stack: a table for each
                table = table[used[name]]
            used[name] += 1
            result.append((tuple(scope), _numbers(table)))
    return result


def entry(table: Any, state: tuple[int, ...]) -> float:
    for s in state:
        table = table[s]
    return float(table)


def in_sets(scopes: list[tuple[int, ...]], order: Sequence[int] | None = None) -> list[int]:
    """The factors in the order of a sequential layer: each is in the first set without a factor before it that it shares a
    variable with."""
    sets: dict[int, int] = {}
    for f in range(len(scopes)) if order is None else order:
        near = {sets[g] for g in sets if set(scopes[g]) & set(scopes[f])}
        sets[f] = next(k for k in range(len(scopes)) if k not in near)
    return sorted(range(len(scopes)), key=lambda f: (sets[f], f))


def change(new: list[float], old: list[float]) -> float:
    """The largest change of the log-odds of two states that were possible."""
    both = [a - b for a, b in zip(new, old, strict=True) if b != -math.inf]
    return max(both) - min(both) if both else 0.0


def factor_graph(
    model: Any, query: Any, n_layers: int, damping: float = 0.0, schedule: str = "flooding"
) -> tuple[Tensor, Tensor]:
    """Log-beliefs of the visible variables [B, V, S] and of the hidden ones [B, n_hidden, S], padded with −∞.

    m_fj(s_j) = T log Σ_{s_i, i≠j} exp((table_f(s) + Σ_{i≠j} (θ_i + u_i + Σ_{g≠f} m_gi)(s_i)) / T), where θ_i are the factors
    of one variable.
    """
    n_states, T = list(model.n_states), float(model.T)
    hidden_variables = sorted(model.hidden)
    visible_variables = [i for i in range(len(n_states)) if i not in hidden_variables]
    unary = [[0.0] * S for S in n_states]
    factors = []
    for scope, table in factors_of(model):
        if len(scope) == 1:
            unary[scope[0]] = [a + b for a, b in zip(unary[scope[0]], table, strict=True)]
        elif len(scope) > 1:
            factors.append((scope, table))
    visible, hidden = [], []
    for values, weights in zip(_numbers(query.values), _numbers(query.observed), strict=True):
        u = [[0.0] * S for S in n_states]
        for column, i in enumerate(visible_variables):
            u[i] = category_unary(values[column], weights[column], n_states[i])
        m = {(f, i): [0.0] * n_states[i] for f, (scope, _) in enumerate(factors) for i in scope}

        def sent(f: int, j: int, m: Any = m, u: Any = u) -> list[float]:
            """The message from factor f to variable j, with those of now."""
            scope, table = factors[f]
            message = []
            for t in range(n_states[j]):
                terms = []
                for state in itertools.product(*(range(n_states[i]) for i in scope)):
                    if state[scope.index(j)] != t:
                        continue
                    term = entry(table, state)
                    for i, s in zip(scope, state, strict=True):
                        if i != j:
                            term += unary[i][s] + u[i][s] + sum(m[g, k][s] for g, k in m if k == i and g != f)
                    terms.append(term)
                message.append(soft_max(terms, T))
            return [x if x == -math.inf else damp(x, old, damping) for x, old in zip(normalise(message), m[f, j], strict=True)]

        scopes = [scope for scope, _ in factors]
        for layer in range(n_layers):
            drawn = np.random.default_rng((len(scopes), layer)).permutation(len(scopes)).tolist()
            if schedule in ("sequential", "random"):
                for f in in_sets(scopes, drawn if schedule == "random" else None):
                    m.update({(f, i): sent(f, i) for i in scopes[f]})
                continue
            new = {(f, j): sent(f, j) for f, j in m}
            if schedule == "residual":
                pending = [max(change(new[f, i], m[f, i]) for i in scope) for f, scope in enumerate(scopes)]
                for f, scope in enumerate(scopes):
                    near = [g for g, other in enumerate(scopes) if g != f and set(other) & set(scope)]
                    if pending[f] <= 0 or any((pending[g], -g) > (pending[f], -f) for g in near):
                        new.update({(f, i): m[f, i] for i in scope})
            m.update(new)
        beliefs = []
        for i, S in enumerate(n_states):
            evidence = shown(u[i])
            belief = [unary[i][s] + evidence[s] + sum(m[g, k][s] for g, k in m if k == i) for s in range(S)]
            beliefs.append(log_softmax(belief) + [-math.inf] * (max(n_states) - S))
        visible.append([beliefs[i] for i in visible_variables])
        hidden.append([beliefs[i] for i in hidden_variables])
    shape = (len(hidden), len(hidden_variables), max(n_states))
    return _tensor(visible), _tensor(hidden).reshape(shape)


def pixel_label_unary(v: float, w: float, emission: Row, labels: list[int]) -> Row:
    """log of w·p(v | label) + (1 − w)/2 for every state, where a fractional v mixes p(on) and p(off)."""
    if w == 0:
        return [0.0] * len(labels)
    p_on = [emission[label] for label in labels]
    return [log_or_zero(w * (v * p + (1 - v) * (1 - p)) + (1 - w) / 2) for p in p_on]


def grid_mrf(model: Any, query: Any, n_layers: int, damping: float = 0.0, local_evidence: bool = True) -> tuple[Tensor, Tensor]:
    """Log-beliefs of the labels [B, H, W, 3] and of all states [B, H, W, S]; 8 messages arrive at each pixel.

    Without `local_evidence` the final belief of a pixel leaves its own evidence out; its messages never do.
    """
    tables = {name: _numbers(model.potentials[name]) for name in ("vertical", "horizontal", "diagonal", "antidiagonal")}
    emission, T = _numbers(model.emission), float(model.T)
    labels = [label for label, n in enumerate(model.clones) for _ in range(n)]
    S = len(labels)

    def potential(here: tuple[int, int], there: tuple[int, int], s: int, t: int) -> float:
        """Log-potential of state s at `here` and state t at its neighbour `there`."""
        step = (there[0] - here[0], there[1] - here[1])
        if step == (1, 0):
            return tables["vertical"][s][t]  # here is the upper pixel
        if step == (-1, 0):
            return tables["vertical"][t][s]
        if step == (0, 1):
            return tables["horizontal"][s][t]  # here is the left pixel
        if step == (0, -1):
            return tables["horizontal"][t][s]
        if step == (1, 1):
            return tables["diagonal"][s][t]  # here is the upper left pixel
        if step == (-1, -1):
            return tables["diagonal"][t][s]
        if step == (-1, 1):
            return tables["antidiagonal"][s][t]  # here is the lower left pixel
        return tables["antidiagonal"][t][s]

    label_beliefs, state_beliefs = [], []
    for image, weights in zip(_numbers(query.values), _numbers(query.observed), strict=True):
        height, width = len(image), len(image[0])
        pixels = [(r, c) for r in range(height) for c in range(width)]
        u = {(r, c): pixel_label_unary(image[r][c], weights[r][c], emission, labels) for r, c in pixels}
        around = {
            (r, c): [
                (r + dr, c + dc)
                for dr in (-1, 0, 1)
                for dc in (-1, 0, 1)
                if (dr, dc) != (0, 0) and 0 <= r + dr < height and 0 <= c + dc < width
            ]
            for r, c in pixels
        }
        m = {(here, there): [0.0] * S for here in pixels for there in around[here]}
        for _ in range(n_layers):
            new = {}
            for here, there in m:
                others = [k for k in around[here] if k != there]
                cavity = [u[here][s] + sum(m[k, here][s] for k in others) for s in range(S)]
                message = [soft_max([potential(here, there, s, t) + cavity[s] for s in range(S)], T) for t in range(S)]
                old = m[here, there]
                new[here, there] = [damp(x, y, damping) for x, y in zip(normalise(message), old, strict=True)]
            m = new
        states = {}
        for here in pixels:
            evidence = shown(u[here]) if local_evidence else [0.0] * S
            states[here] = log_softmax([evidence[s] + sum(m[k, here][s] for k in around[here]) for s in range(S)])
        state_beliefs.append([[states[r, c] for c in range(width)] for r in range(height)])
        label_beliefs.append(
            [
                [
                    [soft_max([states[r, c][s] for s in range(S) if labels[s] == label], 1.0) for label in range(3)]
                    for c in range(width)
                ]
                for r in range(height)
            ]
        )
    return _tensor(label_beliefs), _tensor(state_beliefs)
