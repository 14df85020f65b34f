/* Damped layers of the Gaussian RBM, their gradient, and their trace.

   With damping d every message is kept in part: x ← (1−d) new + d x for the logits t to the hidden units and the
   linear and precision parts a1, a2 to the pixels. A cavity's belief at a hidden unit then differs from pixel to pixel,
   so that p is one number per message and not one per unit, as in gaussian.c. With the cavity's linear part l and
   precision r at a pixel, D = 1/(r + k), k = p q w²:
     fresh = w (l + w/2) / r,   p = sigmoid(c + Σ t − t + fresh),   q = 1 − p,
     linear = p w (r − q w l) D,   precision = −k r D.
   All pixels take part; a clamped one receives nothing. Messages are [V, H], and a state is (t, a1, a2). */

#include "common.h"

typedef struct {
    integer hidden, units, rows, layers;     /* H with and without padding; V; N */
    double damping, min_precision;           /* d; the floor of a cavity's precision */
    const real *W, *hidden_bias;             /* [V, H], 0 where padded; [units] */
    const real *linear, *precision, *is_free; /* unaries; 1 where a pixel is free, 0 where it is clamped: [B, V] */
    real *total_linear, *total_precision;    /* beliefs after the last layer [B, V], or NULL */
    real *states;                            /* for the backward pass, or NULL: after each layer [B, N, 3, V, H] */
    real *beliefs, *totals, *residual;       /* of a trace, or NULL: after each layer [B, N, H], [B, N, 2, V], [B, N] */
    real *d_linear, *d_precision;            /* gradients: of totals on entry, of unaries on return [B, V] */
    real *d_hidden_bias, *d_W;               /* added to, one for each thread: [threads, H], [threads, V, H] */
    real *scratch;                           /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop; /* not 0 when the caller wants no answer any more */
} damped_task;

EXPORT const field damped_layout[] = {
    FIELD(damped_task, hidden), FIELD(damped_task, units), FIELD(damped_task, rows), FIELD(damped_task, layers),
    FIELD(damped_task, damping), FIELD(damped_task, min_precision), FIELD(damped_task, W),
    FIELD(damped_task, hidden_bias), FIELD(damped_task, linear), FIELD(damped_task, precision),
    FIELD(damped_task, is_free), FIELD(damped_task, total_linear), FIELD(damped_task, total_precision),
    FIELD(damped_task, states), FIELD(damped_task, beliefs), FIELD(damped_task, totals), FIELD(damped_task, residual),
    FIELD(damped_task, d_linear), FIELD(damped_task, d_precision), FIELD(damped_task, d_hidden_bias),
    FIELD(damped_task, d_W), FIELD(damped_task, scratch), FIELD(damped_task, scratch_size),
    FIELD(damped_task, stop), END(damped_task)};

EXPORT integer damped_forward_scratch(const damped_task *t) {
    return 3 * t->rows * t->hidden + 2 * (t->rows + t->hidden);
}
EXPORT integer damped_backward_scratch(const damped_task *t) {
    return 6 * t->rows * t->hidden + 4 * t->rows + 2 * t->hidden;
}

/* All messages before the first layer: logits 0; (linear, precision) = (0, 1) to a free pixel, (0, 0) to a clamped
   one. */
static void start(const damped_task *t, integer b, real *state) {
    const integer H = t->hidden, V = t->rows, size = V * H;
    memset(state, 0, sizeof(real) * 3 * size);
    for (integer v = 0; v < V; v++)
        for (integer h = 0; h < t->units; h++) state[2 * size + v * H + h] = t->is_free[b * V + v];
}

/* Totals L and P of the pixels' beliefs: unaries plus messages. */
static void add_up(const damped_task *t, integer b, const real *state, real *L, real *P) {
    const integer H = t->hidden, V = t->rows, size = V * H;
    for (integer v = 0; v < V; v++) {
        const real *a1 = state + size + v * H, *a2 = a1 + size;
        real s1 = 0, s2 = 0;
        SIMD for (integer h = 0; h < H; h++) {
            s1 += a1[h];
            s2 += a2[h];
        }
        L[v] = t->linear[b * V + v] + s1;
        P[v] = t->precision[b * V + v] + s2;
    }
}

/* The message from a cavity to a hidden unit. */
static inline real fresh_message(real w, real l, real r) { return w * (l + (real)0.5 * w) / r; }
static inline real floored(real x, real low) { return x > low ? x : low; }
static inline real grown(real largest, real x) { return x > largest ? x : largest; }

/* Logits z of the hidden units after new messages to them: t' = (1−d) fresh + d t. `changes` [H], or NULL, grows to
   the largest change of such a message. */
static void send_up(const damped_task *t, const real *L, const real *P, const real *state, real *new_t, real *z,
                    real *changes) {
    const integer H = t->hidden, V = t->rows, size = V * H;
    const real low = (real)t->min_precision, d = (real)t->damping;
    copy_padded(z, t->hidden_bias, t->units, H);
    for (integer v = 0; v < V; v++) {
        const real *w = t->W + v * H, *old = state + v * H, *a1 = old + size, *a2 = a1 + size;
        real *to = new_t + v * H;
        SIMD for (integer h = 0; h < H; h++) {
            real was = old[h];
            real now = (1 - d) * fresh_message(w[h], L[v] - a1[h], floored(P[v] - a2[h], low)) + d * was;
            z[h] += now;
            to[h] = now;
            if (changes) changes[h] = grown(changes[h], (real)fabs(now - was));
        }
    }
}

/* New messages to the pixels, in place; `state` has the new logits t already. */
static void send_down(const damped_task *t, integer b, const real *L, const real *P, const real *z, real *state,
                      real *changes) {
    const integer H = t->hidden, V = t->rows, size = V * H;
    const real low = (real)t->min_precision, d = (real)t->damping;
    for (integer v = 0; v < V; v++) {
        const real *w = t->W + v * H, free = t->is_free[b * V + v];
        real *up = state + v * H, *a1 = up + size, *a2 = a1 + size;
        for (integer h = 0; h < H; h++) {
            real l = L[v] - a1[h], r = floored(P[v] - a2[h], low), x = z[h] - up[h] + fresh_message(w[h], l, r);
            real p = sigmoid(x), q = sigmoid(-x), k = p * q * w[h] * w[h], D = 1 / (r + k);
            real n1 = (1 - d) * free * p * w[h] * (r - q * w[h] * l) * D + d * a1[h];
            real n2 = -(1 - d) * free * k * r * D + d * a2[h];
            real change = grown((real)fabs(n1 - a1[h]), (real)0.5 * (real)fabs(n2 - a2[h]));
            if (changes) changes[h] = grown(changes[h], change);
            a1[h] = n1;
            a2[h] = n2;
        }
    }
}

EXPORT int damped_forward(const damped_task *t, integer first, integer last, integer thread) {
    const integer H = t->hidden, V = t->rows, N = t->layers, size = V * H;
    real *state = t->scratch + thread * t->scratch_size, *L = state + 3 * size, *P = L + V, *z = P + V;
    real *changes = z + H;
    for (integer b = first; b < last; b++) {
        start(t, b, state);
        add_up(t, b, state, L, P);
        for (integer n = 0; n < N; n++) {
            if (t->stop) return STOPPED;
            real *seen = t->residual ? changes : NULL;
            if (seen) memset(seen, 0, sizeof(real) * H);
            send_up(t, L, P, state, state, z, seen);
            send_down(t, b, L, P, z, state, seen);
            add_up(t, b, state, L, P);
            if (t->states) memcpy(t->states + (b * N + n) * 3 * size, state, sizeof(real) * 3 * size);
            if (seen) {
                real largest = 0;
                for (integer h = 0; h < t->units; h++) largest = grown(largest, seen[h]);
                t->residual[b * N + n] = largest;
                memcpy(t->beliefs + (b * N + n) * H, z, sizeof(real) * H);
                memcpy(t->totals + (b * N + n) * 2 * V, L, sizeof(real) * 2 * V);
            }
        }
        if (t->total_linear) {
            memcpy(t->total_linear + b * V, L, sizeof(real) * V);
            memcpy(t->total_precision + b * V, P, sizeof(real) * V);
        }
    }
    return 0;
}

/* Of one message: what its new value and the gradients depend on. */
typedef struct {
    real l, r, raw, fresh, p, q, k, D, linear;
} passage;

static inline passage passage_of(const damped_task *t, real w, real L, real P, real a1, real a2, real z, real new_t) {
    passage m;
    m.l = L - a1;
    m.raw = P - a2;
    m.r = floored(m.raw, (real)t->min_precision);
    m.fresh = fresh_message(w, m.l, m.r);
    m.p = sigmoid(z - new_t + m.fresh);
    m.q = sigmoid(-(z - new_t + m.fresh));
    m.k = m.p * m.q * w * w;
    m.D = 1 / (m.r + m.k);
    m.linear = m.p * w * (m.r - m.q * w * m.l) * m.D;
    return m;
}

/* Gradient of a message's logit, given G1 and G2, those of its new linear and precision parts. */
static inline real back_to_logit(const passage *m, real w, real G1, real G2) {
    const real slope = (m->q - m->p) * w * w, rD = m->r * m->D;
    const real of_linear = w * m->D * (m->r - (m->q - m->p) * w * m->l) - m->linear * m->D * slope;
    return (G1 * of_linear - G2 * slope * rD * rD) * m->p * m->q;
}

/* Where a backward pass keeps its gradients: of (t, a1, a2) after the layer, then before it; of the totals; of z. */
typedef struct {
    real *g, *new_t, *start, *dL, *dP, *L, *P, *z, *gz;
} back_scratch;

/* One layer backwards for sample b, from the state before it. */
static void back_layer(const damped_task *t, integer b, const real *state, const back_scratch *s, real *d_W) {
    const integer H = t->hidden, V = t->rows, size = V * H;
    const real d = (real)t->damping;
    memset(s->gz, 0, sizeof(real) * H);
    for (integer v = 0; v < V; v++) {
        const real *w = t->W + v * H, *a1 = state + size + v * H, *a2 = a1 + size, *up = s->new_t + v * H;
        real *gt = s->g + v * H, *g1 = gt + size, *g2 = g1 + size, share = (1 - d) * t->is_free[b * V + v];
        for (integer h = 0; h < H; h++) {
            const passage m = passage_of(t, w[h], s->L[v], s->P[v], a1[h], a2[h], s->z[h], up[h]);
            const real g = back_to_logit(&m, w[h], share * g1[h], share * g2[h]);
            s->gz[h] += g;
            gt[h] -= g; /* its own message is left out */
        }
    }
    for (integer v = 0; v < V; v++) {
        const real *w = t->W + v * H, *a1 = state + size + v * H, *a2 = a1 + size, *up = s->new_t + v * H;
        real *gt = s->g + v * H, *g1 = gt + size, *g2 = g1 + size, *dw = d_W + v * H;
        real share = (1 - d) * t->is_free[b * V + v], sum1 = 0, sum2 = 0;
        for (integer h = 0; h < H; h++) {
            const passage m = passage_of(t, w[h], s->L[v], s->P[v], a1[h], a2[h], s->z[h], up[h]);
            const real G1 = share * g1[h], G2 = share * g2[h], kD = m.k * m.D, rD = m.r * m.D;
            const real slope = 2 * m.p * m.q * w[h];
            const real of_t = gt[h] + s->gz[h], of_fresh = back_to_logit(&m, w[h], G1, G2) + (1 - d) * of_t;
            const real of_l = -G1 * kD + of_fresh * w[h] / m.r;
            real of_r = G1 * (m.p * w[h] - m.linear) * m.D - G2 * kD * kD - of_fresh * m.fresh / m.r;
            of_r = m.raw > (real)t->min_precision ? of_r : 0;
            dw[h] += G1 * (m.p * m.D * (m.r - 2 * m.q * w[h] * m.l) - m.linear * m.D * slope) - G2 * slope * rD * rD
                   + of_fresh * (m.l + w[h]) / m.r;
            gt[h] = d * of_t;
            g1[h] = d * g1[h] - of_l;
            g2[h] = d * g2[h] - of_r;
            sum1 += of_l;
            sum2 += of_r;
        }
        s->dL[v] = sum1;
        s->dP[v] = sum2;
    }
}

/* The gradients of the totals go on to the unaries and to all messages that were added up. */
static void back_to_state(const damped_task *t, integer b, const back_scratch *s) {
    const integer H = t->hidden, V = t->rows, size = V * H;
    for (integer v = 0; v < V; v++) {
        real *g1 = s->g + size + v * H, *g2 = g1 + size;
        t->d_linear[b * V + v] += s->dL[v];
        t->d_precision[b * V + v] += s->dP[v];
        SIMD for (integer h = 0; h < H; h++) {
            g1[h] += s->dL[v];
            g2[h] += s->dP[v];
        }
    }
}

EXPORT int damped_backward(const damped_task *t, integer first, integer last, integer thread) {
    const integer H = t->hidden, V = t->rows, N = t->layers, size = V * H;
    back_scratch s = {.g = t->scratch + thread * t->scratch_size};
    s.start = s.g + 3 * size;
    s.dL = s.start + 3 * size;
    s.dP = s.dL + V;
    s.L = s.dP + V;
    s.P = s.L + V;
    s.z = s.P + V;
    s.gz = s.z + H;
    real *d_W = t->d_W + thread * size, *d_hidden_bias = t->d_hidden_bias + thread * H;
    for (integer b = first; b < last; b++) {
        memset(s.g, 0, sizeof(real) * 3 * size);
        memcpy(s.dL, t->d_linear + b * V, sizeof(real) * V);
        memcpy(s.dP, t->d_precision + b * V, sizeof(real) * V);
        memset(t->d_linear + b * V, 0, sizeof(real) * V);
        memset(t->d_precision + b * V, 0, sizeof(real) * V);
        start(t, b, s.start);
        for (integer n = N - 1; n >= 0; n--) {
            if (t->stop) return STOPPED;
            const real *state = n ? t->states + (b * N + n - 1) * 3 * size : s.start;
            s.new_t = t->states + (b * N + n) * 3 * size;
            back_to_state(t, b, &s);
            add_up(t, b, state, s.L, s.P);
            copy_padded(s.z, t->hidden_bias, t->units, H);
            for (integer v = 0; v < V; v++)
                for (integer h = 0; h < H; h++) s.z[h] += s.new_t[v * H + h];
            back_layer(t, b, state, &s, d_W);
            for (integer h = 0; h < H; h++) d_hidden_bias[h] += s.gz[h];
        }
        for (integer v = 0; v < V; v++) { /* the totals before the first layer */
            t->d_linear[b * V + v] += s.dL[v];
            t->d_precision[b * V + v] += s.dP[v];
        }
    }
    return 0;
}
