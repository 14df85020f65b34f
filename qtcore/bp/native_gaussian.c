/* Layers of the Gaussian RBM and their gradient.

   Sequential schedule, no damping, uncertain pixels only: the certain ones are in hidden_bias. With the cavity's
   linear part l and precision r at a pixel, p = sigmoid(belief of the hidden unit), q = 1 - p, k = p q w²:
     to hidden:   t = w (l + w/2) / r
     to visible:  linear' = p w (r - q w l) / (r + k),   precision' = -k r / (r + k).
   The backward pass needs all messages again: they follow from the beliefs and totals of each layer, which are kept, so
   it remakes them for one sample at a time, keeping every segment-th layer and then the layers of one segment.       */

#include "native.h"

typedef struct {
    long hidden, units, pixels, layers; /* hidden units with and without padding; row length of index, linear …; N */
    real min_precision;
    const long *count, *index;              /* uncertain pixels of each sample [B], and which they are [B, pixels] */
    const real *W, *hidden_bias;            /* [V, hidden], [B, hidden] */
    const real *linear, *precision;         /* unaries of the uncertain pixels [B, pixels] */
    real *total_linear, *total_precision;   /* after the last layer [B, pixels] */
    real *beliefs, *totals;                 /* for the backward pass, or NULL: [B, N, hidden], [B, N, 2, pixels] */
    long *floored;                          /* how many cavities were floored [B] */
} grbm_task;

static inline real floor_at(real x, real low) { return x > low ? x : low; }

/* All messages start at (linear, precision) = (0, 1), that is (θ1, θ2) = (0, −1/2). */
static void grbm_start(const grbm_task *task, long n_pixels, real *a1, real *a2) {
    const long H = task->hidden;
    memset(a1, 0, sizeof(real) * n_pixels * H);
    for (long j = 0; j < n_pixels; j++)
        for (long h = 0; h < H; h++) a2[j * H + h] = h < task->units ? 1 : 0;
}

/* New messages of one pixel to itself (m1, m2 may be o1, o2); returns their sums. */
static inline void grbm_pixel(long H, real low, const real *restrict w, const real *restrict p, const real *restrict q, real L,
                              real P, const real *m1, const real *m2, real *o1, real *o2, real *sum1, real *sum2) {
    real s1 = 0, s2 = 0;
    SIMD for (long h = 0; h < H; h++) {
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

void grbm_forward(const grbm_task *task, long first, long last) {
    const long H = task->hidden, J = task->pixels, N = task->layers;
    const real low = task->min_precision;
    real *a1 = malloc(sizeof(real) * (2 * J * H + 3 * H)), *a2 = a1 + J * H, *z = a2 + J * H, *p = z + H, *q = p + H;
    for (long b = first; b < last; b++) {
        const long n_pixels = task->count[b], *index = task->index + b * J;
        const real *g1 = task->linear + b * J, *g2 = task->precision + b * J;
        real *L = task->total_linear + b * J, *P = task->total_precision + b * J;
        long floored = 0;
        grbm_start(task, n_pixels, a1, a2);
        for (long j = 0; j < n_pixels; j++) {
            L[j] = g1[j];
            P[j] = g2[j] + (real)task->units;
        }
        for (long n = 0; n < N; n++) {
            memcpy(z, task->hidden_bias + b * H, sizeof(real) * H);
            for (long j = 0; j < n_pixels; j++) {
                const real *w = task->W + index[j] * H, *m1 = a1 + j * H, *m2 = a2 + j * H;
                const real Lj = L[j], Pj = P[j];
                int below = 0;
                SIMD for (long h = 0; h < H; h++) {
                    real r = Pj - m2[h];
                    below += r < low;
                    r = floor_at(r, low);
                    z[h] += w[h] * (Lj - m1[h] + (real)0.5 * w[h]) / r;
                }
                floored += below;
            }
            sigmoids(H, z, p, q);
            if (task->beliefs) {
                real *kept = task->totals + (b * N + n) * 2 * J;
                memcpy(kept, L, sizeof(real) * n_pixels);
                memcpy(kept + J, P, sizeof(real) * n_pixels);
                memcpy(task->beliefs + (b * N + n) * H, z, sizeof(real) * H);
            }
            for (long j = 0; j < n_pixels; j++) {
                real s1, s2, *m1 = a1 + j * H, *m2 = a2 + j * H;
                grbm_pixel(H, low, task->W + index[j] * H, p, q, L[j], P[j], m1, m2, m1, m2, &s1, &s2);
                L[j] = g1[j] + s1;
                P[j] = g2[j] + s2;
            }
        }
        task->floored[b] = floored;
    }
    free(a1);
}

static inline real larger(real a, real b) { return a > b ? a : b; }

/* The same layers to be looked at: for each of them the totals of the beliefs [N, 2, pixels], the logits of the hidden units
   [N, hidden] and the largest change of a message [N] (θ2 is -precision/2), for sample b. */
void grbm_watch(const grbm_task *task, long b, real *totals, real *beliefs, real *residual) {
    const long H = task->hidden, J = task->pixels, N = task->layers, n_pixels = task->count[b], *index = task->index + b * J;
    const real low = task->min_precision, *g1 = task->linear + b * J, *g2 = task->precision + b * J;
    real *a1 = malloc(sizeof(real) * (3 * J * H + 2 * H)), *a2 = a1 + J * H, *t = a2 + J * H, *p = t + J * H, *q = p + H;
    grbm_start(task, n_pixels, a1, a2);
    memset(t, 0, sizeof(real) * n_pixels * H);
    for (long n = 0; n < N; n++) {
        real *z = beliefs + n * H, *L = totals + n * 2 * J, *P = L + J, change = 0;
        const real *L0 = L - 2 * J, *P0 = P - 2 * J;
        memcpy(z, task->hidden_bias + b * H, sizeof(real) * H);
        for (long j = 0; j < n_pixels; j++) {
            const real *w = task->W + index[j] * H, *m1 = a1 + j * H, *m2 = a2 + j * H;
            const real Lj = n ? L0[j] : g1[j], Pj = n ? P0[j] : g2[j] + (real)task->units;
            real *tj = t + j * H;
            for (long h = 0; h < H; h++) {
                real fresh = w[h] * (Lj - m1[h] + (real)0.5 * w[h]) / floor_at(Pj - m2[h], low);
                z[h] += fresh;
                change = larger(change, fabs(fresh - tj[h]));
                tj[h] = fresh;
            }
        }
        sigmoids(H, z, p, q);
        for (long j = 0; j < n_pixels; j++) {
            real *m1 = a1 + j * H, *m2 = a2 + j * H, o1[H], o2[H], s1, s2;
            const real Lj = n ? L0[j] : g1[j], Pj = n ? P0[j] : g2[j] + (real)task->units;
            grbm_pixel(H, low, task->W + index[j] * H, p, q, Lj, Pj, m1, m2, o1, o2, &s1, &s2);
            for (long h = 0; h < task->units; h++)
                change = larger(change, larger(fabs(o1[h] - m1[h]), (real)0.5 * fabs(o2[h] - m2[h])));
            memcpy(m1, o1, sizeof(real) * H);
            memcpy(m2, o2, sizeof(real) * H);
            L[j] = g1[j] + s1;
            P[j] = g2[j] + s2;
        }
        residual[n] = change;
    }
    free(a1);
}

/* Messages after layer n (its new ones) from those before, by what was kept of the forward pass. */
static void grbm_remake(const grbm_task *task, long b, long n, const real *from, real *to, real *p, real *q) {
    const long H = task->hidden, J = task->pixels, N = task->layers, *index = task->index + b * J;
    const real *L = task->totals + (b * N + n) * 2 * J, *P = L + J;
    sigmoids(H, task->beliefs + (b * N + n) * H, p, q);
    for (long j = 0; j < task->count[b]; j++) {
        real s1, s2;
        const real *m1 = from + j * H, *m2 = m1 + J * H;
        real *o1 = to + j * H, *o2 = o1 + J * H;
        grbm_pixel(H, task->min_precision, task->W + index[j] * H, p, q, L[j], P[j], m1, m2, o1, o2, &s1, &s2);
    }
}

/* d_linear, d_precision arrive as gradients of total_linear, total_precision and leave as those of the unaries; d_W
   belongs to this thread alone. */
void grbm_backward(const grbm_task *task, long first, long last, real *d_linear, real *d_precision, real *d_bias, real *d_W) {
    const long H = task->hidden, J = task->pixels, N = task->layers, size = 2 * J * H;
    const real low = task->min_precision;
    const long segment = (long)ceil(sqrt((double)N));
    real *kept = malloc(sizeof(real) * size * (2 * segment + 1)), *part = kept + size * segment; /* layers 0, s, 2s …; one segment */
    real *g1 = part + size * segment, *g2 = g1 + J * H; /* gradients of the cavities of the layer after */
    real *vectors = malloc(sizeof(real) * (4 * H + 2 * J)), *p = vectors, *q = p + H, *gp = q + H, *gz = gp + H;
    real *total1 = gz + H, *total2 = total1 + J;
    for (long b = first; b < last; b++) {
        const long n_pixels = task->count[b], *index = task->index + b * J;
        real *G1 = d_linear + b * J, *G2 = d_precision + b * J;
        memcpy(total1, G1, sizeof(real) * n_pixels);
        memcpy(total2, G2, sizeof(real) * n_pixels);
        memset(g1, 0, sizeof(real) * n_pixels * H);
        memset(g2, 0, sizeof(real) * n_pixels * H);
        grbm_start(task, n_pixels, kept, kept + J * H);
        for (long n = 0; n < (N - 1) / segment * segment; n++) { /* into the slot of the next kept layer, in place but for the first step */
            real *slot = kept + (n / segment + 1) * size;
            grbm_remake(task, b, n, n % segment ? slot : slot - size, slot, p, q);
        }
        for (long n = N - 1; n >= 0; n--) {
            if (n % segment == segment - 1 || n == N - 1) { /* enter a segment from behind: remake its layers */
                const long start = n / segment * segment;
                memcpy(part, kept + n / segment * size, sizeof(real) * size);
                for (long k = start; k < n; k++) grbm_remake(task, b, k, part + (k - start) * size, part + (k - start + 1) * size, p, q);
            }
            const real *a1 = part + n % segment * size, *a2 = a1 + J * H;
            const real *L = task->totals + (b * N + n) * 2 * J, *P = L + J;
            sigmoids(H, task->beliefs + (b * N + n) * H, p, q);
            memset(gp, 0, sizeof(real) * H);
            for (long j = 0; j < n_pixels; j++) {
                const real *w = task->W + index[j] * H, *m1 = a1 + j * H, *m2 = a2 + j * H;
                const real *c1 = g1 + j * H, *c2 = g2 + j * H;
                const real Lj = L[j], Pj = P[j], t1 = total1[j], t2 = total2[j];
                SIMD for (long h = 0; h < H; h++) {
                    real r = floor_at(Pj - m2[h], low), l = Lj - m1[h], wh = w[h];
                    real k = p[h] * q[h] * wh * wh, d = (real)1 / (r + k), f = (q[h] - p[h]) * wh;
                    real n1 = p[h] * wh * (r - q[h] * wh * l) * d, rd = r * d;
                    gp[h] += (t1 - c1[h]) * (wh * d * (r - f * l) - n1 * d * f * wh) - (t2 - c2[h]) * f * wh * rd * rd;
                }
            }
            for (long h = 0; h < H; h++) {
                gz[h] = gp[h] * p[h] * q[h];
                d_bias[b * H + h] += gz[h];
            }
            for (long j = 0; j < n_pixels; j++) {
                const real *w = task->W + index[j] * H, *m1 = a1 + j * H, *m2 = a2 + j * H;
                real *c1 = g1 + j * H, *c2 = g2 + j * H, *dw = d_W + index[j] * H;
                const real Lj = L[j], Pj = P[j], t1 = total1[j], t2 = total2[j];
                real s1 = 0, s2 = 0;
                SIMD for (long h = 0; h < H; h++) {
                    real raw = Pj - m2[h], r = floor_at(raw, low), l = Lj - m1[h], wh = w[h];
                    real pq = p[h] * q[h], k = pq * wh * wh, inverse = (real)1 / (r * (r + k));
                    real d = r * inverse, over = (r + k) * inverse; /* 1/(r+k), 1/r */
                    real n1 = p[h] * wh * (r - q[h] * wh * l) * d, kd = k * d, rd = r * d;
                    real A1 = t1 - c1[h], A2 = t2 - c2[h], t = wh * (l + (real)0.5 * wh) * over;
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
                total1[j] = s1;
                total2[j] = s2;
                G1[j] += s1;
                G2[j] += s2;
            }
        }
    }
    free(kept);
    free(vectors);
}
