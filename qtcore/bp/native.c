/* The unrolled networks on a CPU, one sample at a time, so that a layer's messages stay in the cache.

   Same equations as gaussian.py, binary.py and categorical.py (there with references to the paper); the backward passes
   are their derivatives by hand. native.py compiles this file once for float and once for double and hands over plain
   pointers. Rows of hidden units are padded with zero weights to a multiple of the vector length. Each call handles the
   samples first … last−1, so that several threads can share a batch; gradients of shared parameters go to one
   accumulator per thread. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifndef REAL
#define REAL float
#endif
typedef REAL real;
#define SIMD _Pragma("GCC ivdep")

static inline real sigmoid(real x) {
    if (x >= 0) return (real)1 / ((real)1 + (real)exp(-x));
    real e = (real)exp(x);
    return e / ((real)1 + e);
}

/* ------------------------------------------------------------------------------------------------ Gaussian RBM

   Sequential schedule, no damping, uncertain pixels only: the certain ones are in hidden_bias. With the cavity's
   linear part l and precision r at a pixel, p = sigmoid(belief of the hidden unit), q = 1 - p, k = p q w²:
     to hidden:   t = w (l + w/2) / r
     to visible:  linear' = p w (r - q w l) / (r + k),   precision' = -k r / (r + k).
   The backward pass needs all messages again: they follow from the beliefs and totals of each layer, which are kept, so
   it remakes them for one sample at a time, keeping every segment-th layer and then the layers of one segment.       */

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

static void sigmoids(long H, const real *z, real *p, real *q) {
    for (long h = 0; h < H; h++) {
        p[h] = sigmoid(z[h]);
        q[h] = sigmoid(-z[h]);
    }
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

/* ------------------------------------------------------------------------------------------------ Grid MRF

   Messages between categorical pixels in linear space: a message is the product of the cavity with exp(potential), a
   matrix product for a row of pixels at a time. Message d at a pixel is what arrives from its neighbour in direction d;
   the message that goes the other way along that edge is d ^ 1. Messages are scaled to an average of 1 (`scale` keeps
   by how much), and products of eight of them that would vanish in this data type are redone in double.
   Gradients are those of log-messages. */

static const int DOWN[8] = {-1, 1, 0, 0, -1, 1, 1, -1}, RIGHT[8] = {0, 0, -1, 1, -1, 1, -1, 1};

typedef struct {
    long height, width, states, padded, layers; /* S, S rounded up to whole vectors, N */
    long clones[3];
    real small; /* below this a product of messages may have lost states that count */
    const real *potential, *transposed; /* exp(log-potential) by direction [8, S, padded], and with source and sink swapped */
    const real *evidence;               /* of the three labels, largest 1 [B, pixels, 3] */
    const real *belief_evidence;        /* what enters the beliefs [B, pixels, 3] */
    real *labels;                       /* log-beliefs [B, pixels, 3] */
    real *messages, *scale;             /* [B, slots, 8, pixels, padded], [B, slots, 8, pixels]: all N layers, or 2 slots in turn */
    long slots;
} grid_task;

#define VECTOR_BYTES 32
#define LANES (VECTOR_BYTES / (long)sizeof(real))
typedef real vec __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* C[rows × nv vectors] (+)= A[rows × depth] B[depth × nv vectors]; A by strides, B and C by row length ld. */
#define TILE 3
#define MULTIPLY(NV)                                                                                                        \
    static void multiply_##NV(long rows, long depth, const real *A, long row, long column, const real *B, real *C, long ld, \
                              int add) {                                                                                    \
        long i = 0;                                                                                                         \
        for (; i + TILE <= rows; i += TILE) {                                                                               \
            vec sum[TILE][NV];                                                                                              \
            for (int r = 0; r < TILE; r++)                                                                                  \
                for (int v = 0; v < NV; v++) sum[r][v] = add ? *(vec *)(C + (i + r) * ld + v * LANES) : (vec){0};           \
            const real *a = A + i * row;                                                                                    \
            for (long k = 0; k < depth; k++) {                                                                              \
                const vec *b = (const vec *)(B + k * ld);                                                                   \
                _Pragma("GCC unroll 3") for (int r = 0; r < TILE; r++) {                                                    \
                    vec x = a[r * row + k * column] - (vec){0};                                                             \
                    _Pragma("GCC unroll 9") for (int v = 0; v < NV; v++) sum[r][v] += x * b[v];                             \
                }                                                                                                           \
            }                                                                                                               \
            for (int r = 0; r < TILE; r++)                                                                                  \
                for (int v = 0; v < NV; v++) *(vec *)(C + (i + r) * ld + v * LANES) = sum[r][v];                            \
        }                                                                                                                   \
        for (; i < rows; i++) {                                                                                             \
            vec sum[NV];                                                                                                    \
            for (int v = 0; v < NV; v++) sum[v] = add ? *(vec *)(C + i * ld + v * LANES) : (vec){0};                        \
            for (long k = 0; k < depth; k++) {                                                                              \
                vec x = A[i * row + k * column] - (vec){0};                                                                 \
                for (int v = 0; v < NV; v++) sum[v] += x * *(const vec *)(B + k * ld + v * LANES);                          \
            }                                                                                                               \
            for (int v = 0; v < NV; v++) *(vec *)(C + i * ld + v * LANES) = sum[v];                                         \
        }                                                                                                                   \
    }
MULTIPLY(1) MULTIPLY(2) MULTIPLY(3) MULTIPLY(4) MULTIPLY(5) MULTIPLY(6) MULTIPLY(7) MULTIPLY(8) MULTIPLY(9)

static void multiply(long rows, long depth, const real *A, long row, long column, const real *B, real *C, long ld, int add) {
    static void (*const by_width[])(long, long, const real *, long, long, const real *, real *, long, int) = {
        NULL, multiply_1, multiply_2, multiply_3, multiply_4, multiply_5, multiply_6, multiply_7, multiply_8, multiply_9};
    for (long done = 0; done < ld / LANES; done += 9) {
        long width = ld / LANES - done < 9 ? ld / LANES - done : 9;
        by_width[width](rows, depth, A, row, column, B + done * LANES, C + done * LANES, ld, add);
    }
}

static inline int inside(const grid_task *t, long y, long x) { return y >= 0 && y < t->height && x >= 0 && x < t->width; }

/* Evidence of every state of one pixel, from that of its three labels. */
static void spread(const grid_task *t, const real *labels, real *u) {
    long s = 0;
    for (int l = 0; l < 3; l++)
        for (long c = 0; c < t->clones[l]; c++) u[s++] = labels[l];
    for (; s < t->padded; s++) u[s] = 0;
}

typedef __typeof__((vec){0} < (vec){0}) mask; /* integers: all bits of a lane set, or none */
static inline vec smaller(vec a, vec b) {
    mask which = a < b;
    return (vec)((which & (mask)a) | (~which & (mask)b));
}

static inline real largest_lane(vec x) {
    real top = x[0];
    for (int i = 1; i < LANES; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline real sum_lanes(vec x) {
    real sum = 0;
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

/* What one pixel sends in each of the 8 directions: evidence times all that arrived, but for what came from there.
   m[k] are the arriving messages, cavity[k] leaves out m[k]: prefix products times suffix products, no division. */
static void all_but_one(const grid_task *t, const real *u, const real *const *m, real *const *cavity) {
    vec sum[8] = {{0}};
    for (long s = 0; s < t->padded; s += LANES) {
        vec in[8], after[8], before = *(const vec *)(u + s);
        for (int k = 0; k < 8; k++) in[k] = *(const vec *)(m[k] + s);
        after[7] = in[7];
        for (int k = 6; k > 0; k--) after[k] = in[k] * after[k + 1];
        for (int k = 0; k < 8; k++) {
            vec c = before;
            if (k < 7) c *= after[k + 1];
            *(vec *)(cavity[k] + s) = c;
            sum[k] += c;
            before *= in[k];
        }
    }
    vec witness = sum[0]; /* a lane that is large enough in all eight is the usual case */
    for (int k = 1; k < 8; k++) witness = smaller(witness, sum[k]);
    if (largest_lane(witness) > t->small) return;
    for (int k = 0; k < 8; k++)
        if (!(largest_lane(sum[k]) > t->small)) { /* once more, in double and scaled to 1 */
            double most = 0;
            for (int pass = 0; pass < 2; pass++)
                for (long s = 0; s < t->states; s++) {
                    double c = u[s];
                    for (int i = 0; i < 8; i++)
                        if (i != k) c *= m[i][s];
                    if (pass) cavity[k][s] = (real)(c / most);
                    else most = c > most ? c : most;
                }
        }
}

/* Cavities of a row of pixels, cavity[d] = [width, padded] for sending what arrives from direction d. */
static void row_cavities(const grid_task *t, const real *evidence, const real *messages, long y, real *cavities, real *work) {
    const long S = t->padded, pixels = t->height * t->width;
    real *u = work;
    for (long x = 0; x < t->width; x++) {
        const long pixel = y * t->width + x;
        const real *m[8];
        real *cavity[8];
        for (int k = 0; k < 8; k++) {
            m[k] = messages + (k * pixels + pixel) * S;
            cavity[k] = cavities + ((k ^ 1) * t->width + x) * S;
        }
        spread(t, evidence + pixel * 3, u);
        all_but_one(t, u, m, cavity);
    }
}

static void uniform(const grid_task *t, real *messages) {
    const long S = t->padded, rows = 8 * t->height * t->width;
    for (long i = 0; i < rows; i++)
        for (long s = 0; s < S; s++) messages[i * S + s] = s < t->states ? 1 : 0;
}

/* log Σ over a label's clones of the product of all that arrives, times the label's evidence; and, when asked, each
   clone's share of that sum. */
static void pixel_labels(const grid_task *t, const real *const *m, const real *evidence, real *labels, real *share) {
    long s = 0;
    for (int l = 0; l < 3; l++) {
        double total = 0;
        long start = s;
        for (long c = 0; c < t->clones[l]; c++, s++) {
            double product = m[0][s];
            for (int k = 1; k < 8; k++) product *= m[k][s];
            total += product;
        }
        if (labels) labels[l] = (real)(log(total) + log((double)evidence[l]));
        if (share)
            for (long i = start; i < s; i++) {
                double product = m[0][i];
                for (int k = 1; k < 8; k++) product *= m[k][i];
                share[i] = (real)(product / total);
            }
    }
}

static long work_size(const grid_task *t) { return t->padded * (8 * t->width + 32); }

/* messages[slot 0] must be free for the uniform start when slots == layers + 1 … ; see native.py for the sizes. */
void grid_forward(const grid_task *t, long first, long last) {
    const long S = t->padded, pixels = t->height * t->width, size = 8 * pixels * S;
    real *cavities = malloc(sizeof(real) * (work_size(t) + t->width * S)), *work = cavities + 8 * t->width * S;
    real *product = cavities + work_size(t);
    for (long b = first; b < last; b++) {
        real *base = t->messages + b * t->slots * size, *scales = t->scale + b * t->slots * 8 * pixels;
        const real *evidence = t->evidence + b * pixels * 3;
        uniform(t, base);
        for (long n = 0; n < t->layers; n++) {
            const real *old = base + n % t->slots * size;
            real *new = base + (n + 1) % t->slots * size, *scale = scales + (n + 1) % t->slots * 8 * pixels;
            if (n < t->slots - 1) uniform(t, new); /* what comes from outside the grid stays so */
            for (long y = 0; y < t->height; y++) {
                row_cavities(t, evidence, old, y, cavities, work);
                for (int d = 0; d < 8; d++) {
                    const long to_y = y - DOWN[d];
                    if (to_y < 0 || to_y >= t->height) continue;
                    multiply(t->width, t->states, cavities + d * t->width * S, S, 1, t->potential + d * t->states * S, product, S, 0);
                    for (long x = 0; x < t->width; x++) {
                        const long to_x = x - RIGHT[d];
                        if (to_x < 0 || to_x >= t->width) continue;
                        const long to = d * pixels + to_y * t->width + to_x;
                        const real *from = product + x * S;
                        real *message = new + to * S;
                        vec sum = {0};
                        for (long s = 0; s < S; s += LANES) sum += *(const vec *)(from + s);
                        const real factor = (real)t->states / sum_lanes(sum);
                        for (long s = 0; s < S; s += LANES) *(vec *)(message + s) = *(const vec *)(from + s) * factor;
                        scale[to] = factor;
                    }
                }
            }
        }
        const real *end = base + t->layers % t->slots * size;
        for (long pixel = 0; pixel < pixels; pixel++) {
            const real *m[8];
            for (int k = 0; k < 8; k++) m[k] = end + (k * pixels + pixel) * S;
            const long at = (b * pixels + pixel) * 3;
            pixel_labels(t, m, t->belief_evidence + at, t->labels + at, NULL);
        }
    }
    free(cavities);
}

/* From gradients of the labels [B, pixels, 3]: of the log-evidence (added to d_evidence, [B, pixels, 3]) and of the
   exponentiated potentials (added to d_potential [8, S, padded], which belongs to this thread alone). */
void grid_backward(const grid_task *t, long first, long last, const real *d_labels, real *d_evidence, real *d_potential) {
    const long S = t->padded, pixels = t->height * t->width, size = 8 * pixels * S, W = t->width;
    real *cavities = malloc(sizeof(real) * (work_size(t) + 8 * W * S * 2 + 2 * size)), *work = cavities + 8 * W * S;
    real *ratio = cavities + work_size(t), *d_cavity = ratio + 8 * W * S; /* by direction [W, padded] */
    real *g = d_cavity + 8 * W * S, *g_before = g + size;                  /* gradients of log-messages */
    for (long b = first; b < last; b++) {
        const real *base = t->messages + b * t->slots * size, *scales = t->scale + b * t->slots * 8 * pixels;
        const real *evidence = t->evidence + b * pixels * 3;
        const real *end = base + t->layers * size;
        for (long pixel = 0; pixel < pixels; pixel++) {
            const real *m[8], *gl = d_labels + (b * pixels + pixel) * 3;
            for (int k = 0; k < 8; k++) m[k] = end + (k * pixels + pixel) * S;
            real *share = work;
            pixel_labels(t, m, NULL, NULL, share);
            long s = 0;
            for (int l = 0; l < 3; l++)
                for (long c = 0; c < t->clones[l]; c++, s++) share[s] *= gl[l];
            for (; s < S; s++) share[s] = 0;
            for (int k = 0; k < 8; k++) memcpy(g + (k * pixels + pixel) * S, share, sizeof(real) * S);
        }
        for (long n = t->layers - 1; n >= 0; n--) {
            const real *old = base + n * size, *new = base + (n + 1) * size, *scale = scales + (n + 1) * 8 * pixels;
            for (long y = 0; y < t->height; y++) {
                row_cavities(t, evidence, old, y, cavities, work);
                for (int d = 0; d < 8; d++) {
                    real *r = ratio + d * W * S, *dc = d_cavity + d * W * S;
                    const real *c = cavities + d * W * S;
                    const long to_y = y - DOWN[d];
                    if (to_y < 0 || to_y >= t->height) {
                        memset(dc, 0, sizeof(real) * W * S);
                        continue;
                    }
                    for (long x = 0; x < W; x++) {
                        const long to_x = x - RIGHT[d];
                        if (to_x < 0 || to_x >= W) {
                            memset(r + x * S, 0, sizeof(real) * S);
                            continue;
                        }
                        const long to = d * pixels + to_y * W + to_x;
                        const real *gradient = g + to * S, *message = new + to * S, factor = scale[to];
                        real *out = r + x * S;
                        vec constant = {0}; /* what the scaling takes: 0 but for rounding, which would grow 7-fold per layer */
                        for (long s = 0; s < S; s += LANES) constant += *(const vec *)(gradient + s);
                        const real mean = sum_lanes(constant) / (real)t->states;
                        for (long s = 0; s < S; s += LANES)
                            *(vec *)(out + s) = factor * (*(const vec *)(gradient + s) / *(const vec *)(message + s) - mean);
                        for (long s = t->states; s < S; s++) out[s] = 0;
                    }
                    multiply(W, t->states, r, S, 1, t->transposed + d * t->states * S, dc, S, 0);
                    multiply(t->states, W, c, 1, S, r, d_potential + d * t->states * S, S, 1);
                    SIMD for (long i = 0; i < W * S; i++) dc[i] *= c[i];
                }
                for (long x = 0; x < W; x++) {
                    const long pixel = y * W + x;
                    real *total = work, *de = d_evidence + (b * pixels + pixel) * 3;
                    for (long s = 0; s < S; s += LANES) {
                        vec sum = {0}, dc[8];
                        for (int d = 0; d < 8; d++) sum += dc[d] = *(const vec *)(d_cavity + (d * W + x) * S + s);
                        *(vec *)(total + s) = sum;
                        for (int k = 0; k < 8; k++) *(vec *)(g_before + (k * pixels + pixel) * S + s) = sum - dc[k ^ 1];
                    }
                    long s = 0;
                    for (int l = 0; l < 3; l++)
                        for (long c = 0; c < t->clones[l]; c++) de[l] += total[s++];
                }
            }
            real *swap = g;
            g = g_before;
            g_before = swap;
        }
    }
    free(cavities);
}

/* ------------------------------------------------------------------------------------------------ RBM and DBM

   Messages as odds e = exp(m), uncertain variables only: the certain ones are in hidden_bias. With E = exp(w), and b1 : b0
   the odds of the belief at the sender, f_w of the cavity is rational and sums of logs are logs of products:
     e' = (e b0 + E b1) / (E e b0 + b1).
   Nothing cancels, as all terms are positive. On a bipartite graph the messages of one direction only need those of the
   other direction one layer before, so only one direction is computed in each layer, the one that the end depends on.
   Layer n (1 … N) sends to the visible variables when N − n is even, to the hidden units otherwise. */

typedef struct {
    long hidden, pixels, layers, block; /* hidden units, padded; row length of index …; N; how many odds may be multiplied */
    const long *count, *index;          /* [B], [B, pixels] */
    const real *odds;                   /* E = exp(W) [V, hidden], 1 where padded */
    const real *bias;                   /* biases plus soft evidence of the uncertain variables [B, pixels] */
    const real *hidden_bias, *start;    /* biases plus messages from the certain variables [B, hidden]; without them [hidden] */
    real *total;                        /* beliefs after the last layer [B, pixels] */
    real *states, *beliefs;             /* for the backward pass, or NULL: odds after each layer [B, N, pixels, hidden], and
                                           its senders' beliefs [B, N, larger of hidden and pixels] */
} rbm_task;

static long rbm_width(const rbm_task *t) { return t->hidden > t->pixels ? t->hidden : t->pixels; }
static int to_visible(const rbm_task *t, long n) { return (t->layers - n) % 2; } /* n counts from 0 */

/* log(x) for normal x > 0, written so that loops over it become vector code: x = 2^k m, and with m near 1,
   log m = 2 atanh(s) for s = (m−1)/(m+1), |s| < 0.172, as an odd series. */
static inline float float_log(float x) {
    union { float f; int i; } bits = {x};
    int shifted = bits.i - 0x3f3504f3; /* bits of sqrt(1/2) */
    float k = (float)(shifted >> 23);
    bits.i = (shifted & 0x7fffff) + 0x3f3504f3;
    float s = (bits.f - 1.0f) / (bits.f + 1.0f), z = s * s;
    float series = 1.0f + z * (1.0f / 3 + z * (0.2f + z * (1.0f / 7 + z * (1.0f / 9))));
    return k * 0.69314718f + 2.0f * s * series;
}
static inline real fast_log(real x) { return sizeof(real) == 4 ? (real)float_log((float)x) : (real)log((double)x); }

/* One layer of one sample: from odds e to odds o (which may be the same), given the senders' beliefs. `receiver` holds
   biases on entry and gets the sums of the new messages added. */
static void rbm_layer(const rbm_task *t, long b, int visible, const real *sender, const real *e, real *o, real *receiver, real *work) {
    const long H = t->hidden, n_pixels = t->count[b], *index = t->index + b * t->pixels;
    real *one = work, *zero = one + rbm_width(t), *product = zero + rbm_width(t);
    sigmoids(visible ? H : n_pixels, sender, one, zero);
    for (long h = 0; h < H; h++) product[h] = 1;
    long pending = 0;
    for (long j = 0; j < n_pixels; j++) {
        const real *E = t->odds + index[j] * H, *in = e + j * H;
        real *out = o + j * H;
        if (visible) {
            SIMD for (long h = 0; h < H; h++) {
                real x = in[h] * zero[h];
                out[h] = (x + E[h] * one[h]) / (E[h] * x + one[h]);
            }
            real sum = 0;
            for (long start = 0; start < H; start += 8 * t->block) {
                const long end = start + 8 * t->block < H ? start + 8 * t->block : H;
                real lane[8] = {1, 1, 1, 1, 1, 1, 1, 1};
                for (long h = start; h < end; h += 8)
                    for (int i = 0; i < 8; i++) lane[i] *= out[h + i];
                for (int i = 0; i < 8; i++) sum += fast_log(lane[i]);
            }
            receiver[j] += sum;
        } else {
            const real b1 = one[j], b0 = zero[j];
            SIMD for (long h = 0; h < H; h++) {
                real x = in[h] * b0, y = (x + E[h] * b1) / (E[h] * x + b1);
                out[h] = y;
                product[h] *= y;
            }
            if (++pending == t->block || j + 1 == n_pixels) {
                SIMD for (long h = 0; h < H; h++) {
                    receiver[h] += fast_log(product[h]);
                    product[h] = 1;
                }
                pending = 0;
            }
        }
    }
}

void rbm_forward(const rbm_task *t, long first, long last) {
    const long H = t->hidden, J = t->pixels, N = t->layers, width = rbm_width(t);
    real *own = malloc(sizeof(real) * (J * H + 4 * width + H)), *sender = own + J * H, *receiver = sender + width;
    real *work = receiver + width;
    for (long b = first; b < last; b++) {
        const long n_pixels = t->count[b];
        const real *bias = t->bias + b * J, *hidden_bias = t->hidden_bias + b * H, *e = own;
        for (long i = 0; i < n_pixels * H; i++) own[i] = 1;
        memcpy(sender, to_visible(t, 0) ? t->start : bias, sizeof(real) * (to_visible(t, 0) ? H : n_pixels));
        for (long n = 0; n < N; n++) {
            const int visible = to_visible(t, n);
            memcpy(receiver, visible ? bias : hidden_bias, sizeof(real) * (visible ? n_pixels : H));
            real *o = t->states ? t->states + (b * N + n) * J * H : own;
            if (t->beliefs) memcpy(t->beliefs + (b * N + n) * width, sender, sizeof(real) * (visible ? H : n_pixels));
            rbm_layer(t, b, visible, sender, e, o, receiver, work);
            e = o;
            real *swap = sender;
            sender = receiver;
            receiver = swap;
        }
        memcpy(t->total + b * J, sender, sizeof(real) * n_pixels);
    }
    free(own);
}

/* d_bias arrives as the gradient of total and leaves as that of bias; d_start and d_W (of the weights themselves) belong
   to this thread alone. */
void rbm_backward(const rbm_task *t, long first, long last, real *d_bias, real *d_hidden_bias, real *d_start, real *d_W) {
    const long H = t->hidden, J = t->pixels, N = t->layers, width = rbm_width(t);
    real *g = malloc(sizeof(real) * (2 * J * H + 4 * width)), *ones = g + J * H; /* gradients of the cavities of the layer after */
    real *receiver = ones + J * H, *sender = receiver + width, *one = sender + width, *zero = one + width;
    for (long i = 0; i < J * H; i++) ones[i] = 1;
    for (long b = first; b < last; b++) {
        const long n_pixels = t->count[b], *index = t->index + b * J;
        memset(g, 0, sizeof(real) * n_pixels * H);
        memcpy(receiver, d_bias + b * J, sizeof(real) * n_pixels);
        for (long n = N - 1; n >= 0; n--) {
            const int visible = to_visible(t, n);
            const long senders = visible ? H : n_pixels;
            const real *e = n ? t->states + (b * N + n - 1) * J * H : ones;
            sigmoids(senders, t->beliefs + (b * N + n) * width, one, zero);
            memset(sender, 0, sizeof(real) * senders);
            for (long j = 0; j < n_pixels; j++) {
                const real *E = t->odds + index[j] * H, *in = e + j * H;
                real *gx = g + j * H, *dw = d_W + index[j] * H;
                if (visible) {
                    const real from = receiver[j];
                    SIMD for (long h = 0; h < H; h++) {
                        real G = from - gx[h], x = in[h] * zero[h], y = one[h], o = E[h];
                        real scaled = G / ((x + o * y) * (o * x + y)), d = scaled * x * y * (o * o - 1);
                        dw[h] += scaled * o * (y - x) * (y + x);
                        gx[h] = d;
                        sender[h] += d;
                    }
                } else {
                    const real b1 = one[j], b0 = zero[j];
                    real sum = 0;
                    SIMD for (long h = 0; h < H; h++) {
                        real G = receiver[h] - gx[h], x = in[h] * b0, y = b1, o = E[h];
                        real scaled = G / ((x + o * y) * (o * x + y)), d = scaled * x * y * (o * o - 1);
                        dw[h] += scaled * o * (y - x) * (y + x);
                        gx[h] = d;
                        sum += d;
                    }
                    sender[j] = sum;
                }
            }
            real *to = !visible ? d_bias + b * J : n ? d_hidden_bias + b * H : d_start;
            for (long i = 0; i < senders; i++) to[i] += sender[i];
            real *swap = sender;
            sender = receiver;
            receiver = swap;
        }
    }
    free(g);
}
