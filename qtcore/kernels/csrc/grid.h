/* What the grid MRF's kernels share: the task, a pixel's cavities and labels, and rows of messages through a table.

   Messages between categorical pixels in linear space: a message is the product of the cavity with exp(potential), a
   matrix product for a row of pixels at a time. Message d at a pixel is what arrives from its neighbour in direction d;
   the message that goes the other way along that edge is d ^ 1. Messages are scaled to an average of 1 (`scale` keeps
   by how much), and products of eight of them that would vanish in this data type are redone in double. Gradients are
   those of log-messages. Where the processor can, the matrix products may take rounded factors (bfloat16, of the same
   range as float). Work that changes nothing is left out: messages that have settled (`settled`) are copied, and
   gradients may be left out that are small beside others (`negligible`). */

#pragma once
#include "matmul.h"

static const int DOWN[8] = {-1, 1, 0, 0, -1, 1, 1, -1}, RIGHT[8] = {0, 0, -1, 1, -1, 1, -1, 1};

typedef struct {
    integer height, width, states, padded, layers; /* S; S rounded up to whole vectors; N */
    integer contour, out, within;                  /* clones of the three labels; their sum is S */
    double small;                                  /* a smaller product of messages may have lost states that count */
    double damping;                                /* weight of the old log-message in the new one; 0: none */
    double settled;    /* a message that changes by less in a layer, relatively, is taken to be as it was */
    double negligible; /* gradients of messages below this share of an image's largest in a layer are left out */
    const real *potential, *transposed; /* exp(log-potential) by direction [8, S, padded]; source and sink swapped */
    const real *evidence;               /* of the three labels, largest 1 [B, pixels, 3] */
    const real *belief_evidence;        /* what enters the beliefs [B, pixels, 3] */
    const integer *depths;              /* after which layers beliefs are asked for, in rising order; the last is N */
    integer n_depths;                   /* D; in a trace the depths do not matter, and D is N */
    real *labels;                       /* log-beliefs [B, D, pixels, 3] */
    real *shares;                       /* of a trace: a state's part of its label's belief [B, N, pixels, padded] */
    real *residual;                     /* of a trace: the largest change of a message, in log-odds [B, N] */
    real *messages, *scale;             /* [places, slots, 8, pixels, padded], [places, slots, 8, pixels] */
    integer slots, keep;                /* keep: all N layers of every image; else 2 slots in turn for each thread */
    integer rounded;                    /* whether the matrix products take bfloat16 */
    const real *d_labels;               /* gradient of the log-beliefs [B, D, pixels, 3] */
    real *d_evidence, *d_potential;     /* added to: of log-evidence [B, pixels, 3]; of the exponentiated potentials,
                                           one for each thread [threads, 8, S, padded] */
    real *scratch;                      /* [threads, scratch_size] */
    integer scratch_size;
    volatile integer stop; /* not 0 when the caller wants no answer any more */
} grid_task;

static inline integer message_size(const grid_task *t) { return 8 * t->height * t->width * t->padded; }
static inline integer row_size(const grid_task *t) { return t->width * t->padded; }
static inline integer rounded_size(const grid_task *t) {
    return t->rounded ? 8 * ((t->states + 1) / 2) * t->padded : 0;
}

static inline integer clones(const grid_task *t, int label) {
    return label == 0 ? t->contour : label == 1 ? t->out : t->within;
}

/* Evidence of every state of one pixel, from that of its three labels. */
static inline void spread(const grid_task *t, const real *labels, real *u) {
    integer s = 0;
    for (int l = 0; l < 3; l++)
        for (integer c = 0; c < clones(t, l); c++) u[s++] = labels[l];
    for (; s < t->padded; s++) u[s] = 0;
}

typedef __typeof__((vec){0} < (vec){0}) mask; /* integers: all bits of a lane set, or none */
static inline vec smaller(vec a, vec b) {
    mask which = a < b;
    return (vec)((which & (mask)a) | (~which & (mask)b));
}

static inline vec larger(vec a, vec b) {
    mask which = a > b;
    return (vec)((which & (mask)a) | (~which & (mask)b));
}

static inline int all_lanes(mask which) {
    const union {
        mask lanes;
        int64_t parts[VECTOR_BYTES / 8];
    } all = {which};
    return (all.parts[0] & all.parts[1] & all.parts[2] & all.parts[3]) == -1;
}

static inline real smallest_lane(vec x) {
    real least = x[0];
    for (int i = 1; i < LANES; i++) least = x[i] < least ? x[i] : least;
    return least;
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

/* One cavity once more, in double and scaled to a largest entry of 1. */
static inline void cavity_in_double(const grid_task *t, const real *u, const real *const *m, int left_out,
                                    real *cavity) {
    double most = 0;
    for (int pass = 0; pass < 2; pass++)
        for (integer s = 0; s < t->states; s++) {
            double c = u[s];
            for (int i = 0; i < 8; i++)
                if (i != left_out) c *= m[i][s];
            if (pass) cavity[s] = (real)(c / most);
            else most = c > most ? c : most;
        }
}

/* What one pixel sends in each of the 8 directions: evidence times all that arrived, but for what came from there.
   m[k] are the arriving messages, cavity[k] leaves out m[k]: prefix products times suffix products, no division. */
static inline void all_but_one(const grid_task *t, const real *u, const real *const *m, real *const *cavity) {
    vec sum[8] = {{0}};
    for (integer s = 0; s < t->padded; s += LANES) {
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
    if (largest_lane(witness) > (real)t->small) return;
    for (int k = 0; k < 8; k++)
        if (!(largest_lane(sum[k]) > (real)t->small)) cavity_in_double(t, u, m, k, cavity[k]);
}

/* The message that pixel x of row y sends in direction d, where it arrives; −1 outside the grid. */
static inline int receiver(const grid_task *t, integer y, integer x, int d) {
    const integer to_y = y - DOWN[d], to_x = x - RIGHT[d];
    const int inside = to_y >= 0 && to_y < t->height && to_x >= 0 && to_x < t->width;
    return inside ? (int)((d * t->height + to_y) * t->width + to_x) : -1;
}

/* The messages of one row of pixels that are worked on, by direction: how many, which ones (by where they arrive), and
   the cavities that they are made of [8, width, padded], gathered to the left. */
typedef struct {
    integer count[8];
    int *arrival; /* [8, width] */
    real *cavities;
} row_of_messages;

static inline void gather_row(const grid_task *t, const real *evidence, const real *messages, const char *wanted,
                              integer y, row_of_messages *row, real *u) {
    const integer S = t->padded, W = t->width, pixels = t->height * W;
    memset(row->count, 0, sizeof row->count);
    for (integer x = 0; x < W; x++) {
        const integer pixel = y * W + x;
        const real *m[8];
        real *cavity[8];
        int any = 0, to[8];
        for (int d = 0; d < 8; d++) {
            to[d] = receiver(t, y, x, d);
            if (to[d] >= 0 && !wanted[to[d]]) to[d] = -1;
            any |= to[d] >= 0;
            m[d] = messages + (d * pixels + pixel) * S;
            cavity[d ^ 1] = row->cavities + (d * W + row->count[d]) * S; /* leaves out what came from there */
        }
        if (!any) continue;
        spread(t, evidence + pixel * 3, u);
        all_but_one(t, u, m, cavity);
        for (int d = 0; d < 8; d++)
            if (to[d] >= 0) row->arrival[d * W + row->count[d]++] = to[d]; /* else the next pixel's takes its place */
    }
}

/* The product of all that arrives at a pixel, of one state; in double, where eight small factors do not vanish. */
static inline double arriving(const real *const *m, integer s) {
    const double a = (double)m[0][s] * (double)m[1][s], b = (double)m[2][s] * (double)m[3][s];
    const double c = (double)m[4][s] * (double)m[5][s], d = (double)m[6][s] * (double)m[7][s];
    return (a * b) * (c * d);
}

/* log Σ over a label's clones of the product of all that arrives, times the label's evidence; and, when asked, each
   clone's share of that sum. */
static inline void pixel_labels(const grid_task *t, const real *const *messages, const real *evidence, real *labels,
                                real *share) {
    const real *const m[8] = {messages[0], messages[1], messages[2], messages[3],
                              messages[4], messages[5], messages[6], messages[7]};
    for (integer l = 0, start = 0; l < 3; start += clones(t, (int)l++)) {
        const integer end = start + clones(t, (int)l);
        double total = 0;
        for (integer s = start; s < end; s++) total += arriving(m, s);
        if (labels) labels[l] = (real)(log(total) + log((double)evidence[l]));
        if (!share) continue;
        const double scale = 1 / total;
        SIMD for (integer s = start; s < end; s++) share[s] = (real)(arriving(m, s) * scale);
    }
}

/* The tables of all directions as pairs across their rows, where products are rounded. */
static inline void round_tables(const grid_task *t, const real *tables, pair *out) {
    if (!t->rounded) return;
    const integer size = (t->states + 1) / 2 * t->padded;
    for (int d = 0; d < 8; d++) round_across(t->states, t->padded, tables + d * t->states * t->padded, out + d * size);
}

/* `count` rows of numbers [padded] times the table of direction d; `pairs` has room for the rows. */
static inline void through_table(const grid_task *t, integer count, const real *rows, const real *tables,
                          const pair *rounded_tables, int d, real *out, pair *pairs) {
    const integer S = t->padded, half = (t->states + 1) / 2;
    if (!t->rounded) {
        multiply(count, t->states, rows, S, 1, tables + d * t->states * S, out, S, 0);
        return;
    }
    round_along(count * S, rows, pairs);
    multiply_pairs(count, half, pairs, S / 2, 1, rounded_tables + d * half * S, out, S, 0);
}
