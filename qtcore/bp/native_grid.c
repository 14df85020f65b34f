/* Layers of the grid MRF and their gradient.

   Messages between categorical pixels in linear space: a message is the product of the cavity with exp(potential), a
   matrix product for a row of pixels at a time. Message d at a pixel is what arrives from its neighbour in direction d;
   the message that goes the other way along that edge is d ^ 1. Messages are scaled to an average of 1 (`scale` keeps
   by how much), and products of eight of them that would vanish in this data type are redone in double.
   Gradients are those of log-messages. Where the processor can, the matrix products may take rounded factors (bfloat16, of
   the same range as float, two to a word) and sum them in float: twice as fast. */

#include "native.h"
#if defined(__AVX512BF16__) && defined(__AVX512VL__) && !defined(DOUBLE)
#include <immintrin.h>
#define CAN_ROUND 1
#else
#define CAN_ROUND 0
#endif

static const int DOWN[8] = {-1, 1, 0, 0, -1, 1, 1, -1}, RIGHT[8] = {0, 0, -1, 1, -1, 1, -1, 1};

typedef struct {
    long height, width, states, padded, layers; /* S, S rounded up to whole vectors, N */
    long clones[3];
    real small; /* below this a product of messages may have lost states that count */
    const real *potential, *transposed; /* exp(log-potential) by direction [8, S, padded], and with source and sink swapped */
    const real *evidence;               /* of the three labels, largest 1 [B, pixels, 3] */
    const real *belief_evidence;        /* what enters the beliefs [B, pixels, 3] */
    real *labels;                       /* log-beliefs [B, pixels, 3] */
    real *messages, *scale;             /* [places, slots, 8, pixels, padded], [places, slots, 8, pixels]: all N layers of
                                           every image, or 2 slots in turn for each thread */
    long slots;
    long rounded; /* whether the matrix products take bfloat16 */
} grid_task;

long grid_can_round(void) { return CAN_ROUND; }

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

typedef unsigned pair; /* two rounded numbers */
#if CAN_ROUND
/* The same with pairs of numbers that follow each other in depth. (An array of sums for each row: gcc would keep a single
   one in memory.) */
#define UNROLL _Pragma("GCC unroll 9")
#define MULTIPLY_PAIRS(NV)                                                                                                  \
    static void multiply_pairs_##NV(long rows, long depth, const pair *A, long row, long column, const pair *B, float *C,   \
                                    long ld, int add) {                                                                     \
        for (long i = 0; i < rows; i += 3) {                                                                                \
            const long j = i + 1 < rows ? i + 1 : i, k = i + 2 < rows ? i + 2 : i; /* the last rows may be done twice */    \
            __m256 sum[NV], sum_j[NV], sum_k[NV];                                                                           \
            UNROLL for (int v = 0; v < NV; v++) {                                                                           \
                sum[v] = add ? _mm256_loadu_ps(C + i * ld + v * 8) : _mm256_setzero_ps();                                   \
                sum_j[v] = add ? _mm256_loadu_ps(C + j * ld + v * 8) : _mm256_setzero_ps();                                 \
                sum_k[v] = add ? _mm256_loadu_ps(C + k * ld + v * 8) : _mm256_setzero_ps();                                 \
            }                                                                                                               \
            for (long n = 0; n < depth; n++) {                                                                              \
                const __m256bh a = (__m256bh)_mm256_set1_epi32((int)A[i * row + n * column]);                               \
                const __m256bh a_j = (__m256bh)_mm256_set1_epi32((int)A[j * row + n * column]);                             \
                const __m256bh a_k = (__m256bh)_mm256_set1_epi32((int)A[k * row + n * column]);                             \
                UNROLL for (int v = 0; v < NV; v++) {                                                                       \
                    const __m256bh b = (__m256bh)_mm256_loadu_si256((const __m256i *)(B + n * ld + v * 8));                 \
                    sum[v] = _mm256_dpbf16_ps(sum[v], a, b);                                                                \
                    sum_j[v] = _mm256_dpbf16_ps(sum_j[v], a_j, b);                                                          \
                    sum_k[v] = _mm256_dpbf16_ps(sum_k[v], a_k, b);                                                          \
                }                                                                                                           \
            }                                                                                                               \
            UNROLL for (int v = 0; v < NV; v++) {                                                                           \
                _mm256_storeu_ps(C + i * ld + v * 8, sum[v]);                                                               \
                _mm256_storeu_ps(C + j * ld + v * 8, sum_j[v]);                                                             \
                _mm256_storeu_ps(C + k * ld + v * 8, sum_k[v]);                                                             \
            }                                                                                                               \
        }                                                                                                                   \
    }
MULTIPLY_PAIRS(1) MULTIPLY_PAIRS(2) MULTIPLY_PAIRS(3) MULTIPLY_PAIRS(4) MULTIPLY_PAIRS(5)
MULTIPLY_PAIRS(6) MULTIPLY_PAIRS(7) MULTIPLY_PAIRS(8) MULTIPLY_PAIRS(9)

static void multiply_pairs(long rows, long depth, const pair *A, long row, long column, const pair *B, float *C, long ld,
                           int add) {
    static void (*const by_width[])(long, long, const pair *, long, long, const pair *, float *, long, int) = {
        NULL, multiply_pairs_1, multiply_pairs_2, multiply_pairs_3, multiply_pairs_4,
        multiply_pairs_5, multiply_pairs_6, multiply_pairs_7, multiply_pairs_8, multiply_pairs_9};
    for (long done = 0; done < ld / 8; done += 9) {
        long width = ld / 8 - done < 9 ? ld / 8 - done : 9;
        by_width[width](rows, depth, A, row, column, B + done * 8, C + done * 8, ld, add);
    }
}
#else
static void multiply_pairs(long rows, long depth, const pair *A, long row, long column, const pair *B, real *C, long ld,
                           int add) {}
#endif

/* The upper half of a float, rounded to even. */
static inline pair rounded(float x) {
    pair bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Pairs along a row. */
static void round_along(long n, const real *row, pair *out) {
    SIMD for (long k = 0; k < n / 2; k++) out[k] = rounded((float)row[2 * k]) | rounded((float)row[2 * k + 1]) << 16;
}

/* Pairs across the rows of a table [rows, n]; after an odd number of rows come zeros. */
static void round_across(long rows, long n, const real *table, pair *out) {
    for (long k = 0; k < rows; k += 2, out += n) {
        const real *one = table + k * n, *two = one + n;
        SIMD for (long i = 0; i < n; i++) out[i] = rounded((float)one[i]);
        if (k + 1 < rows) SIMD for (long i = 0; i < n; i++) out[i] |= rounded((float)two[i]) << 16;
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

/* The tables of all directions as pairs across their rows; NULL where products are exact. */
static pair *round_tables(const grid_task *t, const real *tables) {
    if (!t->rounded) return NULL;
    const long size = (t->states + 1) / 2 * t->padded;
    pair *out = malloc(sizeof(pair) * 8 * size);
    for (int d = 0; d < 8; d++) round_across(t->states, t->padded, tables + d * t->states * t->padded, out + d * size);
    return out;
}

/* Rows of numbers [width, padded] times the table of direction d; `pairs` has room for the rows. */
static void through_table(const grid_task *t, const real *rows, const real *tables, const pair *rounded_tables, int d, real *out,
                          pair *pairs) {
    const long S = t->padded, half = (t->states + 1) / 2;
    if (!t->rounded) {
        multiply(t->width, t->states, rows, S, 1, tables + d * t->states * S, out, S, 0);
        return;
    }
    round_along(t->width * S, rows, pairs);
    multiply_pairs(t->width, half, pairs, S / 2, 1, rounded_tables + d * half * S, out, S, 0);
}

/* Adds the products of all states of one row of pixels with those of another, summed over the pixels. */
static void add_outer(const grid_task *t, const real *left, const real *right, real *sum, pair *pairs) {
    const long S = t->padded, half = (t->width + 1) / 2;
    if (!t->rounded) {
        multiply(t->states, t->width, left, 1, S, right, sum, S, 1);
        return;
    }
    round_across(t->width, S, left, pairs);
    round_across(t->width, S, right, pairs + half * S);
    multiply_pairs(t->states, half, pairs, 1, S, pairs + half * S, sum, S, 1);
}

/* Potentials summed over the clones of each label, by direction [3, padded]: all clones of a label send the same at first. */
static void add_label_rows(const grid_task *t, real *rows) {
    const long S = t->padded;
    memset(rows, 0, sizeof(real) * 8 * 3 * S);
    for (int d = 0; d < 8; d++) {
        const real *row = t->potential + d * t->states * S;
        for (int l = 0; l < 3; l++)
            for (long c = 0; c < t->clones[l]; c++, row += S)
                for (long s = 0; s < S; s++) rows[(d * 3 + l) * S + s] += row[s];
    }
}

/* The first image's messages go to the given place of the buffer, those of the next image `advance` places on: 1 where all
   are kept, 0 where one place serves all images of a thread. */
void grid_forward(const grid_task *t, long first, long last, long place, long advance) {
    const long S = t->padded, pixels = t->height * t->width, size = 8 * pixels * S;
    real *cavities = malloc(sizeof(real) * (work_size(t) + t->width * S + 8 * 3 * S)), *work = cavities + 8 * t->width * S;
    real *product = cavities + work_size(t), *label_rows = product + t->width * S;
    pair *tables = round_tables(t, t->potential), *pairs = malloc(sizeof(pair) * t->width * S);
    add_label_rows(t, label_rows);
    for (long b = first; b < last; b++, place += advance) {
        real *base = t->messages + place * t->slots * size, *scales = t->scale + place * t->slots * 8 * pixels;
        const real *evidence = t->evidence + b * pixels * 3;
        uniform(t, base);
        for (long n = 0; n < t->layers; n++) {
            const real *old = base + n % t->slots * size;
            real *new = base + (n + 1) % t->slots * size, *scale = scales + (n + 1) % t->slots * 8 * pixels;
            if (n < t->slots - 1) uniform(t, new); /* what comes from outside the grid stays so */
            for (long y = 0; y < t->height; y++) {
                if (n > 0) row_cavities(t, evidence, old, y, cavities, work);
                for (int d = 0; d < 8; d++) {
                    const long to_y = y - DOWN[d];
                    if (to_y < 0 || to_y >= t->height) continue;
                    if (n > 0) through_table(t, cavities + d * t->width * S, t->potential, tables, d, product, pairs);
                    else multiply(t->width, 3, evidence + y * t->width * 3, 3, 1, label_rows + d * 3 * S, product, S, 0);
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
    free(tables);
    free(pairs);
}

/* From gradients of the labels [B, pixels, 3]: of the log-evidence (added to d_evidence, [B, pixels, 3]) and of the
   exponentiated potentials (added to d_potential [8, S, padded], which belongs to this thread alone). */
void grid_backward(const grid_task *t, long first, long last, const real *d_labels, real *d_evidence, real *d_potential) {
    const long S = t->padded, pixels = t->height * t->width, size = 8 * pixels * S, W = t->width;
    real *cavities = malloc(sizeof(real) * (work_size(t) + 8 * W * S * 2 + 2 * size)), *work = cavities + 8 * W * S;
    real *ratio = cavities + work_size(t), *d_cavity = ratio + 8 * W * S; /* by direction [W, padded] */
    real *g = d_cavity + 8 * W * S, *g_before = g + size;                  /* gradients of log-messages */
    pair *tables = round_tables(t, t->transposed), *pairs = malloc(sizeof(pair) * 2 * (W + 1) * S);
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
                    through_table(t, r, t->transposed, tables, d, dc, pairs);
                    add_outer(t, c, r, d_potential + d * t->states * S, pairs);
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
    free(tables);
    free(pairs);
}
