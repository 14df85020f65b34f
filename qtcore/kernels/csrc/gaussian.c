/* Layers of the Gaussian RBM, their gradient, and their trace.

   Sequential schedule, no damping, free pixels only: the clamped ones are in hidden_bias. With the cavity's linear part
   l and precision r at a pixel, p = sigmoid(belief of the hidden unit), q = 1 − p, k = p q w²:
     to hidden:   t = w (l + w/2) / r
     to visible:  linear' = p w (r − q w l) / (r + k),   precision' = −k r / (r + k).
   The backward pass needs all messages again: they follow from the beliefs and totals of each layer, which are kept, so
   it remakes them for one sample at a time, keeping every segment-th layer and then the layers of one segment. */

#include "common.h"

typedef struct {
    integer hidden, units, rows, columns, layers; /* H with and without padding; V; J, the row length of index …; N */
    double min_precision;                         /* the floor of a cavity's precision */
    const integer *count, *index;                 /* free pixels of each sample [B], and which they are [B, J] */
    const real *W, *hidden_bias;                  /* [V, H], [B, units] */
    const real *linear, *precision;               /* unaries of the free pixels [B, J] */
    real *total_linear, *total_precision;         /* beliefs after the last layer [B, J] */
    real *beliefs, *totals;                       /* of each layer [B, N, H], [B, N, 2, J]: before it for the backward
                                                     pass (or NULL), after it in a trace */
    real *residual;                               /* of a trace: the largest change of a message [B, N] */
    integer *floored;                             /* how many cavities were floored [B] */
    real *d_linear, *d_precision;                 /* gradients: of totals on entry, of unaries on return [B, J] */
    real *d_bias, *d_W;                           /* added to: [B, units]; one for each thread [threads, V, H] */
    real *scratch;                                /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop; /* not 0 when the caller wants no answer any more */
} gaussian_task;

EXPORT const field gaussian_layout[] = {
    FIELD(gaussian_task, hidden), FIELD(gaussian_task, units), FIELD(gaussian_task, rows),
    FIELD(gaussian_task, columns), FIELD(gaussian_task, layers), FIELD(gaussian_task, min_precision),
    FIELD(gaussian_task, count), FIELD(gaussian_task, index), FIELD(gaussian_task, W),
    FIELD(gaussian_task, hidden_bias), FIELD(gaussian_task, linear), FIELD(gaussian_task, precision),
    FIELD(gaussian_task, total_linear), FIELD(gaussian_task, total_precision),
    FIELD(gaussian_task, beliefs), FIELD(gaussian_task, totals), FIELD(gaussian_task, residual),
    FIELD(gaussian_task, floored), FIELD(gaussian_task, d_linear), FIELD(gaussian_task, d_precision),
    FIELD(gaussian_task, d_bias), FIELD(gaussian_task, d_W), FIELD(gaussian_task, scratch),
    FIELD(gaussian_task, scratch_size),
    FIELD(gaussian_task, stop), END(gaussian_task)};

static integer segment_length(const gaussian_task *t) { return (integer)ceil(sqrt((double)t->layers)); }

EXPORT integer gaussian_forward_scratch(const gaussian_task *t) { return 2 * t->columns * t->hidden + 3 * t->hidden; }
EXPORT integer gaussian_trace_scratch(const gaussian_task *t) { return 3 * t->columns * t->hidden + 4 * t->hidden; }
EXPORT integer gaussian_backward_scratch(const gaussian_task *t) {
    return 2 * t->columns * t->hidden * (2 * segment_length(t) + 1) + 4 * t->hidden + 2 * t->columns;
}

static inline real floor_at(real x, real low) { return x > low ? x : low; }
static inline real larger(real a, real b) { return a > b ? a : b; }

/* All messages start at (linear, precision) = (0, 1), that is (θ1, θ2) = (0, −1/2). */
static void start_messages(const gaussian_task *t, integer n_free, real *a1, real *a2) {
    const integer H = t->hidden;
    memset(a1, 0, sizeof(real) * n_free * H);
    for (integer j = 0; j < n_free; j++)
        for (integer h = 0; h < H; h++) a2[j * H + h] = h < t->units ? 1 : 0;
}

/* Adds one pixel's messages to all hidden units to their logits z; returns how many of its cavities were floored. */
static inline int send_to_hidden(integer H, real low, const real *restrict w, real L, real P, const real *restrict m1,
                                 const real *restrict m2, real *restrict z) {
    int below = 0;
    SIMD for (integer h = 0; h < H; h++) {
        real r = P - m2[h];
        below += r < low;
        r = floor_at(r, low);
        z[h] += w[h] * (L - m1[h] + (real)0.5 * w[h]) / r;
    }
    return below;
}

/* New messages o1, o2 to one pixel from the old ones m1, m2 (which may be the same); returns their sums. */
static inline void send_to_pixel(integer H, real low, const real *restrict w, const real *restrict p,
                                 const real *restrict q, real L, real P, const real *m1, const real *m2, real *o1,
                                 real *o2, real *sum1, real *sum2) {
    real s1 = 0, s2 = 0;
    SIMD for (integer h = 0; h < H; h++) {
        real r = floor_at(P - m2[h], low);
        real pw = p[h] * w[h], qw = q[h] * w[h], k = pw * qw, d = (real)1 / (r + k);
        real n1 = pw * (r - qw * (L - m1[h])) * d, n2 = -k * r * d;
        o1[h] = n1;
        o2[h] = n2;
        s1 += n1;
        s2 += n2;
    }
    *sum1 = s1;
    *sum2 = s2;
}

EXPORT int gaussian_forward(const gaussian_task *t, integer first, integer last, integer thread) {
    const int fault = check_places(t->count, t->index, t->columns, t->rows, first, last);
    if (fault) return fault;
    const integer H = t->hidden, J = t->columns, N = t->layers;
    const real low = (real)t->min_precision;
    real *a1 = t->scratch + thread * t->scratch_size, *a2 = a1 + J * H, *z = a2 + J * H, *p = z + H, *q = p + H;
    for (integer b = first; b < last; b++) {
        const integer n_free = t->count[b], *index = t->index + b * J;
        const real *g1 = t->linear + b * J, *g2 = t->precision + b * J;
        real *L = t->total_linear + b * J, *P = t->total_precision + b * J;
        integer floored = 0;
        start_messages(t, n_free, a1, a2);
        for (integer j = 0; j < n_free; j++) {
            L[j] = g1[j];
            P[j] = g2[j] + (real)t->units;
        }
        for (integer n = 0; n < N; n++) {
            if (t->stop) return STOPPED;
            copy_padded(z, t->hidden_bias + b * t->units, t->units, H);
            for (integer j = 0; j < n_free; j++)
                floored += send_to_hidden(H, low, t->W + index[j] * H, L[j], P[j], a1 + j * H, a2 + j * H, z);
            sigmoids(H, z, p, q);
            if (t->beliefs) {
                real *kept = t->totals + (b * N + n) * 2 * J;
                memcpy(kept, L, sizeof(real) * n_free);
                memcpy(kept + J, P, sizeof(real) * n_free);
                memcpy(t->beliefs + (b * N + n) * H, z, sizeof(real) * H);
            }
            for (integer j = 0; j < n_free; j++) {
                real s1, s2, *m1 = a1 + j * H, *m2 = a2 + j * H;
                send_to_pixel(H, low, t->W + index[j] * H, p, q, L[j], P[j], m1, m2, m1, m2, &s1, &s2);
                L[j] = g1[j] + s1;
                P[j] = g2[j] + s2;
            }
        }
        t->floored[b] = floored;
    }
    return 0;
}

/* One layer of sample b for a trace: from the totals L0, P0 to L, P, and to the hidden units' logits z. `previous`
   are the messages to the hidden units of the layer before; returns the largest change of a message (θ2 is
   −precision/2). */
static real trace_layer(const gaussian_task *t, integer b, const real *L0, const real *P0, real *L, real *P, real *z,
                        real *a1, real *a2, real *previous, real *work) {
    const integer H = t->hidden, J = t->columns, n_free = t->count[b], *index = t->index + b * J;
    const real low = (real)t->min_precision, *g1 = t->linear + b * J, *g2 = t->precision + b * J;
    real *p = work, *q = p + H, *o1 = q + H, *o2 = o1 + H, change = 0;
    copy_padded(z, t->hidden_bias + b * t->units, t->units, H);
    for (integer j = 0; j < n_free; j++) {
        const real *w = t->W + index[j] * H, *m1 = a1 + j * H, *m2 = a2 + j * H;
        real *before = previous + j * H;
        for (integer h = 0; h < H; h++) {
            real new_ = w[h] * (L0[j] - m1[h] + (real)0.5 * w[h]) / floor_at(P0[j] - m2[h], low);
            z[h] += new_;
            change = larger(change, (real)fabs(new_ - before[h]));
            before[h] = new_;
        }
    }
    sigmoids(H, z, p, q);
    for (integer j = 0; j < n_free; j++) {
        real *m1 = a1 + j * H, *m2 = a2 + j * H, s1, s2;
        send_to_pixel(H, low, t->W + index[j] * H, p, q, L0[j], P0[j], m1, m2, o1, o2, &s1, &s2);
        for (integer h = 0; h < t->units; h++)
            change = larger(change, larger((real)fabs(o1[h] - m1[h]), (real)0.5 * (real)fabs(o2[h] - m2[h])));
        memcpy(m1, o1, sizeof(real) * H);
        memcpy(m2, o2, sizeof(real) * H);
        L[j] = g1[j] + s1;
        P[j] = g2[j] + s2;
    }
    return change;
}

/* The same layers to be looked at: totals and beliefs after each of them, and its residual. */
EXPORT int gaussian_trace(const gaussian_task *t, integer first, integer last, integer thread) {
    const int fault = check_places(t->count, t->index, t->columns, t->rows, first, last);
    if (fault) return fault;
    const integer H = t->hidden, J = t->columns, N = t->layers;
    real *a1 = t->scratch + thread * t->scratch_size, *a2 = a1 + J * H, *previous = a2 + J * H;
    real *work = previous + J * H;
    for (integer b = first; b < last; b++) {
        const integer n_free = t->count[b];
        const real *L0 = t->linear + b * J, *P0 = t->precision + b * J;
        start_messages(t, n_free, a1, a2);
        memset(previous, 0, sizeof(real) * n_free * H);
        /* the totals before the first layer go where those after it will be: each is read before it is written */
        real *L = t->totals + b * N * 2 * J, *P = L + J;
        for (integer j = 0; j < n_free; j++) {
            L[j] = L0[j];
            P[j] = P0[j] + (real)t->units;
        }
        L0 = L;
        P0 = P;
        for (integer n = 0; n < N; n++, L0 = L, P0 = P, L += 2 * J, P += 2 * J) {
            if (t->stop) return STOPPED;
            t->residual[b * N + n] =
                trace_layer(t, b, L0, P0, L, P, t->beliefs + (b * N + n) * H, a1, a2, previous, work);
        }
    }
    return 0;
}

/* Messages after layer n (its new ones) from those before, by what was kept of the forward pass. */
static void remake(const gaussian_task *t, integer b, integer n, const real *from, real *to, real *p, real *q) {
    const integer H = t->hidden, J = t->columns, N = t->layers, *index = t->index + b * J;
    const real *L = t->totals + (b * N + n) * 2 * J, *P = L + J;
    sigmoids(H, t->beliefs + (b * N + n) * H, p, q);
    for (integer j = 0; j < t->count[b]; j++) {
        real s1, s2;
        const real *m1 = from + j * H, *m2 = m1 + J * H;
        real *o1 = to + j * H, *o2 = o1 + J * H;
        send_to_pixel(H, (real)t->min_precision, t->W + index[j] * H, p, q, L[j], P[j], m1, m2, o1, o2, &s1, &s2);
    }
}

/* Gradient of p at the hidden units (added to gp), from one pixel: t1, t2 are the gradients of its totals, c1, c2 those
   of the next layer's cavities. */
static inline void back_to_p(integer H, real low, const real *w, const real *p, const real *q, real L, real P,
                             const real *m1, const real *m2, real t1, real t2, const real *c1, const real *c2,
                             real *gp) {
    SIMD for (integer h = 0; h < H; h++) {
        real r = floor_at(P - m2[h], low), l = L - m1[h], wh = w[h];
        real k = p[h] * q[h] * wh * wh, d = (real)1 / (r + k), f = (q[h] - p[h]) * wh;
        real n1 = p[h] * wh * (r - q[h] * wh * l) * d, rd = r * d;
        gp[h] += (t1 - c1[h]) * (wh * d * (r - f * l) - n1 * d * f * wh) - (t2 - c2[h]) * f * wh * rd * rd;
    }
}

/* Gradients of one pixel's cavities (c1, c2: of the next layer on entry, of this one on return) and of its weights
   (added to dw), given gz, those of the hidden units' logits. The sums of the cavities' gradients replace t1 and t2. */
static inline void back_to_cavities(integer H, real low, const real *w, const real *p, const real *q, const real *gz,
                                    real L, real P, const real *m1, const real *m2, real *t1, real *t2, real *c1,
                                    real *c2, real *dw) {
    const real G1 = *t1, G2 = *t2;
    real s1 = 0, s2 = 0;
    SIMD for (integer h = 0; h < H; h++) {
        real raw = P - m2[h], r = floor_at(raw, low), l = L - m1[h], wh = w[h];
        real pq = p[h] * q[h], k = pq * wh * wh, inverse = (real)1 / (r * (r + k));
        real d = r * inverse, over = (r + k) * inverse; /* 1/(r+k), 1/r */
        real n1 = p[h] * wh * (r - q[h] * wh * l) * d, kd = k * d, rd = r * d;
        real A1 = G1 - c1[h], A2 = G2 - c2[h], t = wh * (l + (real)0.5 * wh) * over;
        real gl = -A1 * kd + gz[h] * wh * over;
        real gr = A1 * (p[h] * wh - n1) * d - A2 * kd * kd - gz[h] * t * over;
        gr = raw > low ? gr : 0;
        dw[h] += A1 * (p[h] * d * (r - 2 * q[h] * wh * l) - 2 * pq * wh * d * n1) - A2 * 2 * pq * wh * rd * rd
               + gz[h] * (l + wh) * over;
        c1[h] = gl;
        c2[h] = gr;
        s1 += gl;
        s2 += gr;
    }
    *t1 = s1;
    *t2 = s2;
}

/* Where the parts of a backward pass's scratch memory begin. */
typedef struct {
    real *kept, *part;   /* messages before the layers 0, s, 2s …; before the layers of one segment */
    real *g1, *g2;       /* gradients of the cavities of the layer after */
    real *p, *q, *gp, *gz;
    real *total1, *total2; /* gradients of the totals */
} back_scratch;

static back_scratch share_out(const gaussian_task *t, real *start) {
    const integer H = t->hidden, J = t->columns, size = 2 * J * H, segment = segment_length(t);
    back_scratch s = {.kept = start, .part = start + size * segment};
    s.g1 = s.part + size * segment;
    s.g2 = s.g1 + J * H;
    s.p = s.g2 + J * H;
    s.q = s.p + H;
    s.gp = s.q + H;
    s.gz = s.gp + H;
    s.total1 = s.gz + H;
    s.total2 = s.total1 + J;
    return s;
}

/* One layer backwards for sample b, given the messages a1, a2 before it. */
static void back_layer(const gaussian_task *t, integer b, integer n, const real *a1, const back_scratch *s, real *d_W) {
    const integer H = t->hidden, J = t->columns, N = t->layers, n_free = t->count[b], *index = t->index + b * J;
    const real low = (real)t->min_precision, *a2 = a1 + J * H, *L = t->totals + (b * N + n) * 2 * J, *P = L + J;
    sigmoids(H, t->beliefs + (b * N + n) * H, s->p, s->q);
    memset(s->gp, 0, sizeof(real) * H);
    for (integer j = 0; j < n_free; j++)
        back_to_p(H, low, t->W + index[j] * H, s->p, s->q, L[j], P[j], a1 + j * H, a2 + j * H, s->total1[j],
                  s->total2[j], s->g1 + j * H, s->g2 + j * H, s->gp);
    for (integer h = 0; h < H; h++) s->gz[h] = s->gp[h] * s->p[h] * s->q[h];
    for (integer h = 0; h < t->units; h++) t->d_bias[b * t->units + h] += s->gz[h];
    for (integer j = 0; j < n_free; j++) {
        back_to_cavities(H, low, t->W + index[j] * H, s->p, s->q, s->gz, L[j], P[j], a1 + j * H, a2 + j * H,
                         s->total1 + j, s->total2 + j, s->g1 + j * H, s->g2 + j * H, d_W + index[j] * H);
        t->d_linear[b * J + j] += s->total1[j];
        t->d_precision[b * J + j] += s->total2[j];
    }
}

EXPORT int gaussian_backward(const gaussian_task *t, integer first, integer last, integer thread) {
    const int fault = check_places(t->count, t->index, t->columns, t->rows, first, last);
    if (fault) return fault;
    const integer H = t->hidden, J = t->columns, N = t->layers, size = 2 * J * H, segment = segment_length(t);
    const back_scratch s = share_out(t, t->scratch + thread * t->scratch_size);
    real *d_W = t->d_W + thread * t->rows * H;
    for (integer b = first; b < last; b++) {
        const integer n_free = t->count[b];
        memcpy(s.total1, t->d_linear + b * J, sizeof(real) * n_free);
        memcpy(s.total2, t->d_precision + b * J, sizeof(real) * n_free);
        memset(s.g1, 0, sizeof(real) * n_free * H);
        memset(s.g2, 0, sizeof(real) * n_free * H);
        start_messages(t, n_free, s.kept, s.kept + J * H);
        /* into the slot of the next kept layer, in place but for the first step */
        for (integer n = 0; n < (N - 1) / segment * segment; n++) {
            if (t->stop) return STOPPED;
            real *slot = s.kept + (n / segment + 1) * size;
            remake(t, b, n, n % segment ? slot : slot - size, slot, s.p, s.q);
        }
        for (integer n = N - 1; n >= 0; n--) {
            if (t->stop) return STOPPED;
            if (n % segment == segment - 1 || n == N - 1) { /* enter a segment from behind: remake its layers */
                const integer start = n / segment * segment;
                memcpy(s.part, s.kept + n / segment * size, sizeof(real) * size);
                for (integer k = start; k < n; k++)
                    remake(t, b, k, s.part + (k - start) * size, s.part + (k - start + 1) * size, s.p, s.q);
            }
            back_layer(t, b, n, s.part + n % segment * size, &s, d_W);
        }
    }
    return 0;
}
